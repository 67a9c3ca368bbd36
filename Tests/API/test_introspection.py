# SPDX-License-Identifier: Apache-2.0
"""The daemon's introspection against the XML in Sources/AccessoryBus/Interfaces, which is authoritative."""

import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

import dbus

from harness.names import ACCESSORY, ADMIN, ADMIN_PATH, APP, BLUE, GRANT, MANAGER, NAME, NETWORK, OBJECT_MANAGER, PICKER, ROOT, SESSION
from harness.programs import BIN, TESTS
from harness.values import item
from harness.world import APITest

INTERFACES = TESTS.parent / "Sources/AccessoryBus/Interfaces"


def described(text):
    """Introspection XML as interface → member → comparable parts: kind, types, access and annotations."""
    interfaces = {}
    for interface in ElementTree.fromstring(text).findall("interface"):
        members = interfaces[interface.get("name")] = {}
        for member in interface:
            if member.tag == "annotation":
                continue
            default = "out" if member.tag == "signal" else "in"
            arguments = [(each.get("name"), each.get("type"), each.get("direction", default)) for each in member.findall("arg")]
            annotations = {each.get("name"): each.get("value") for each in member.findall("annotation")}
            members[member.get("name")] = (member.tag, arguments, member.get("type"), member.get("access"), annotations)
    return interfaces


def documented(interface):
    return described((INTERFACES / f"{interface}.xml").read_text())[interface]


# The session API: member → signature of the input and output, or type of the property.
API = {
    MANAGER: {"CreateSession": "a{sv}→o", "RegisterPicker": "a{sv}→", "UnregisterPicker": "→",
              "Version": "s", "Bluetooth": "s", "WiFi": "s", "PickerAvailable": "b", "Pickers": "aa{sv}", "MutedApps": "aa{sv}", "UnmuteApp": "s→"},
    SESSION: {"Activate": "→", "Invalidate": "→", "ShowPicker": "aa{sv}a{sv}→o", "UpdatePicker": "aa{sv}→",
              "FinishPickerDiscovery": "→", "CancelPicker": "→", "RenameAccessory": "oa{sv}→o", "RenewAccess": "oa{sv}→o", "RemoveAccessory": "o→",
              "FinishAuthorization": "oa{sv}→", "FailAuthorization": "o→", "UpdateAuthorization": "oa{sv}→o", "ObservePresence": "ob→",
              "App": "s", "Program": "s", "State": "s", "Accessories": "ao", "Event": "→sa{sv}"},
    ACCESSORY: {"DisplayName": "s", "State": "s", "BluetoothIdentifier": "s", "BluetoothTransportBridgingIdentifier": "ay",
                "Ssid": "ay", "WiFiAwarePairedDeviceID": "t", "Descriptor": "a{sv}", "Device": "o", "Endpoint": "a{sv}", "Ends": "t", "Access": "s", "Characteristics": "as",
                "JoinNetwork": "a{sv}→", "LeaveNetwork": "→"},
    NETWORK: {"Interface": "s"},
    PICKER: {"App": "s", "AppName": "s", "Program": "s", "Kind": "s", "Stage": "s", "Offers": "aa{sv}", "Prompt": "a{sv}", "Deadline": "t",
             "Pick": "s→", "PickWith": "sa{sv}→", "Respond": "a{sv}→", "Rename": "s→", "Cancel": "→", "Mute": "→", "GetImage": "s→h", "ImageData": "s→ay"},
    GRANT: {"App": "s", "Accessory": "o", "State": "s", "Enabled": "b", "Created": "t", "LastUsed": "t",
            "Ssid": "ay", "NetworkName": "s", "Descriptor": "a{sv}", "User": "x", "Revoke": "→", "Excluded": "as", "Access": "s", "Characteristics": "as",
            "EndRules": "as", "Ends": "t", "SetEnd": "s→", "SetAccess": "s→", "ListDevices": "→aa{sv}",
            "Exclude": "s→", "Include": "s→", "Observed": "b", "Present": "b"},
    APP: {"Id": "s", "Name": "s", "Source": "s", "Problems": "as", "Socket": "s", "Manifest": "a{sas}"},
    ADMIN: {"GetAudit": "a{sv}→aa{sv}", "Explain": "a{sv}→aa{sv}", "ExplainAccess": "so→a{sv}", "GetClaims": "s→a{sv}", "ActFor": "s→", "Refresh": "→", "Audited": "→aa{sv}", "Policy": "aa{sv}", "PolicyProblems": "aa{sv}", "Adapters": "aa{sv}",
            "ClaimLists": "aa{sv}", "ClaimProblems": "aa{sv}", "Lockdown": "s"},
}
ADMINS_ACCESSORY = {**API[ACCESSORY], "Address": "s", "Adapter": "s", "NetworkName": "s", "Apps": "as", "Connected": "b", "Battery": "n", "Problems": "as", "AdvertisedName": "s", "HasImage": "b", "RemovalTime": "t", "Rename": "s→", "Remove": "→", "ScheduleRemoval": "u→", "CancelRemoval": "→", "Unpair": "→", "ImageData": "→ay"}


def summary(members):
    result = {}
    for name, (kind, arguments, type_, _access, _annotations) in members.items():
        inputs = "".join(each[1] for each in arguments if each[2] == "in")
        outputs = "".join(each[1] for each in arguments if each[2] == "out")
        result[name] = type_ if kind == "property" else f"{inputs}→{outputs}"
    return result



class Tables(unittest.TestCase):
    def test_the_page_has_the_tables_of_the_daemon(self):
        made = subprocess.run([BIN / "page-tables"], check=True, capture_output=True, text=True).stdout
        self.assertEqual((TESTS.parent / "Sources/cockpit/interfaces.js").read_text(), made, "make shapes")


class Introspection(APITest):
    def setUp(self):
        super().setUp()
        self.dice, self.person = self.app(), self.picker()
        self.accessory = self.add(self.dice, self.person, "Dice 4F")
        self.dice.show_picker(item("Blue Dice", BLUE))
        self.person.wait_stage("offering")

    def places(self):
        """Where each interface is."""
        [grant], [app] = self.world.admin.paths("grant"), self.world.admin.paths("app")
        return [
            (ROOT, MANAGER), (self.dice.session, SESSION), (self.accessory, ACCESSORY), (self.accessory, NETWORK), (self.person.path, PICKER),
            (grant, GRANT), (app, APP), (ADMIN_PATH, ADMIN),
        ]

    def test_every_object_is_what_its_file_says(self):
        for path, interface in self.places():
            with self.subTest(interface):
                found = described(self.world.admin.introspect(path))
                self.assertEqual(found[interface], documented(interface))
                expected = [ACCESSORY, NETWORK] if path == self.accessory else [interface]
                self.assertEqual([each for each in found if each.startswith(NAME)], expected)
                for standard in ("Properties", "Introspectable", "Peer"):
                    self.assertIn(f"org.freedesktop.DBus.{standard}", found)
                self.assertEqual(OBJECT_MANAGER in found, path == ROOT)

    def test_every_file_is_what_the_api_says(self):
        for interface, members in {**API, ACCESSORY: ADMINS_ACCESSORY}.items():
            with self.subTest(interface):
                self.assertEqual(summary(documented(interface)), members)
        self.assertEqual(documented(GRANT)["Enabled"][3], "readwrite")
        writable = [
            (interface, name) for interface in API for name, each in documented(interface).items() if "write" in (each[3] or "")]
        self.assertEqual(writable, [(GRANT, "Enabled")])

    def test_apps_do_not_see_what_is_the_picker_programs(self):
        found = described(self.dice.introspect(ROOT))[MANAGER]
        self.assertEqual(summary(found), {name: each for name, each in API[MANAGER].items()
                                          if name not in ("Pickers", "MutedApps", "UnmuteApp")})

    def test_apps_do_not_see_what_is_the_admins(self):
        found = described(self.dice.introspect(self.accessory))[ACCESSORY]
        self.assertEqual(summary(found), API[ACCESSORY])

    def test_properties_have_the_types_of_the_api(self):
        types = {"s": dbus.String, "b": dbus.Boolean, "t": dbus.UInt64, "o": dbus.ObjectPath, "ay": dbus.Array, "ao": dbus.Array,
                 "as": dbus.Array, "aa{sv}": dbus.Array, "a{sv}": dbus.Dictionary, "a{sas}": dbus.Dictionary, "n": dbus.Int16, "x": dbus.Int64}
        for path, interface in self.places():
            values = self.world.admin.get_all(path, interface)
            expected = {name: each[2] for name, each in documented(interface).items() if each[0] == "property"}
            self.assertEqual(set(values), set(expected), interface)
            for name, type_ in expected.items():
                with self.subTest(f"{interface}.{name}"):
                    self.assertIsInstance(values[name], types[type_])
                    if type_.startswith("a"):
                        self.assertEqual(str(values[name].signature), type_[2:-1] if type_.startswith("a{") else type_[1:])
                    self.assertEqual(self.world.admin.get(path, interface, name), values[name])

    def test_the_tree_leads_to_every_object(self):
        tree = lambda path: [each.get("name") for each in ElementTree.fromstring(self.world.admin.introspect(path)).findall("node")]
        self.assertEqual(tree("/"), ["org"])
        self.assertEqual(tree("/org"), ["accessorysetup1"])
        self.assertEqual(set(tree(ROOT)) - {"app"}, {"session", "accessory", "picker", "grant", "admin"})
        self.assertEqual([f"{ROOT}/accessory/{each}" for each in tree(f"{ROOT}/accessory")], [self.accessory])

    def test_the_manager_speaks(self):
        self.assertRegex(self.world.manager("Version"), r"^\d+\.\d+")
        self.assertEqual(self.world.manager("Bluetooth"), "ready")
        self.assertIn(self.world.manager("WiFi"), ("ready", "off", "absent"))
        self.assertTrue(self.world.manager("PickerAvailable"))

    def test_an_admin_sees_the_apps(self):
        apps = {path: each[APP] for path, each in self.world.admin.objects().items() if APP in each}
        self.assertEqual([str(each["Id"]) for each in apps.values()], ["com.example.dice"])
        [(path, properties)] = apps.items()
        self.assertEqual(summary(described(self.world.admin.introspect(path))[APP]), API[APP])
        self.assertEqual((properties["Name"], properties["Source"], list(properties["Problems"])),
                         ("Dice", str(self.world.app_directories[0] / "com.example.dice.conf"), []))
