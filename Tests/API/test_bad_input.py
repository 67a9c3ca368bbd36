# SPDX-License-Identifier: Apache-2.0
"""Bad input, as one table: each is refused with an error that names key and value, and changes nothing."""

import os

import dbus

from harness.apps import App
from harness.names import BLUE, BUS_ERROR, INVALID_ARGS, MANAGER, NAME, PINK, PNG, ROOT, UNKNOWN_OBJECT, error
from harness.pickers import PickerProgram
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest

INVALID = error("InvalidRequest")
MANY = 10_000
CONTROL = "control\x07"


def described(**descriptor):
    """An item that has this descriptor and nothing else."""
    return {"name": "Pink Dice", "descriptor": descriptor}


def masked(kind, blob=None, mask=None, **more):
    given = {} if blob is None else {f"bluetooth{kind}DataBlob": blob}
    given |= {} if mask is None else {f"bluetooth{kind}DataMask": mask}
    return given | more


COMPANY = {"bluetoothCompanyIdentifier": dbus.UInt16(0x1234)}
SERVICE = {"bluetoothServiceUUID": PINK}

# Refused items: the mistake, the items, and the names that the message must contain.
ITEMS = [
    ("too many items", [item()] * 1000, ["items", "1000"]),
    ("no name", [{"descriptor": SERVICE}], ["name"]),
    ("empty name", [item("")], ["name"]),
    ("blank name", [item(" \t ")], ["name"]),
    ("name of another type", [item(dbus.UInt32(7))], ["name", "type"]),
    ("oversized name", [item("x" * MANY)], ["name", "xxx"]),
    ("control character in the name", [item(CONTROL)], ["name", "control"]),
    ("no descriptor", [{"name": "Pink Dice"}], ["descriptor"]),
    ("descriptor of another type", [{"name": "Pink Dice", "descriptor": "pink"}], ["descriptor"]),
    ("empty descriptor", [described()], ["descriptor"]),
    ("unknown key in an item", [item() | {"colour": "pink"}], ["colour"]),
    ("a key of another case", [item() | {"Name": "Pink"}], ["Name"]),
    ("unknown key in a descriptor", [item(bluetoothServiceUuid=PINK)], ["bluetoothServiceUuid"]),
    ("the second item", [item(), item("Blue Dice", BLUE, colour="blue")], ["colour", "1"]),
    ("oversized item", [item() | {f"key{number}": "x" for number in range(MANY)}], ["items"]),
    ("oversized descriptor", [item(**{f"key{number}": "x" for number in range(MANY)})], ["descriptor"]),
    # Undeclared by the manifest.
    ("undeclared service", [item(service="180A")], ["bluetoothServiceUUID", "180A"]),
    ("undeclared company", [described(bluetoothCompanyIdentifier=dbus.UInt16(0xABCD))], ["bluetoothCompanyIdentifier", "ABCD"]),
    ("undeclared name", [item(bluetoothNameSubstring="Lamp")], ["bluetoothNameSubstring", "Lamp"]),
    ("name declared in another case", [item(bluetoothNameSubstring="die")], ["bluetoothNameSubstring", "die"]),
    ("undeclared technology", [described(ssid=b"Dice")], ["WiFi"]),
    ("the second item is undeclared", [item(), item("Lamp", "180A")], ["items[1].descriptor.bluetoothServiceUUID", "180A"]),
    # Types.
    ("company as text", [described(bluetoothCompanyIdentifier="1234")], ["bluetoothCompanyIdentifier", "q"]),
    ("company that is too large", [described(bluetoothCompanyIdentifier=dbus.UInt32(0x11234))], ["bluetoothCompanyIdentifier", "70196"]),
    ("company below zero", [described(bluetoothCompanyIdentifier=dbus.Int32(-1))], ["bluetoothCompanyIdentifier", "-1"]),
    ("invisible name", [item("\u200b\u2800")], ["name", "invisible"]),
    ("joiner that joins nothing", [item("Pi\u200dnk Dice")], ["name", "invisible"]),
    ("name that turns text around", [item("Dice \u202egnp")], ["name", "direction"]),
    ("descriptor of texts", [{"name": "Pink Dice", "descriptor": dbus.Dictionary({"bluetoothServiceUUID": PINK}, "ss")}],
     ["descriptor", "a{ss}"]),
    ("service as bytes", [described(bluetoothServiceUUID=b"\x18\x0f")], ["bluetoothServiceUUID", "s"]),
    ("service that is none", [described(bluetoothServiceUUID="pink")], ["bluetoothServiceUUID", "pink"]),
    ("service of 24 bits", [described(bluetoothServiceUUID="18180F")], ["bluetoothServiceUUID", "18180F"]),
    ("empty service", [described(bluetoothServiceUUID="")], ["bluetoothServiceUUID"]),
    ("name substring as bytes", [item(bluetoothNameSubstring=b"Die")], ["bluetoothNameSubstring", "s"]),
    ("range as number", [item(bluetoothRange=dbus.UInt32(10))], ["bluetoothRange"]),
    ("unknown range", [item(bluetoothRange="near")], ["bluetoothRange", "near"]),
    ("options as text", [item(supportedOptions="bluetoothPairingLE")], ["supportedOptions", "as"]),
    ("unknown option", [item(supportedOptions=["bluetoothPairing"])], ["supportedOptions", "bluetoothPairing"]),
    ("compare options as number", [item(bluetoothNameSubstring="Die", bluetoothNameSubstringCompareOptions=dbus.UInt32(1))],
     ["bluetoothNameSubstringCompareOptions", "as"]),
    ("unknown compare option", [item(bluetoothNameSubstring="Die", bluetoothNameSubstringCompareOptions=["fuzzy"])],
     ["bluetoothNameSubstringCompareOptions", "fuzzy"]),
    ("setup options as text", [item(setupOptions="rename")], ["setupOptions", "as"]),
    ("unknown setup option", [item(setupOptions=["renamed"])], ["setupOptions", "renamed"]),
    ("unknown rename option", [item(renameOptions=["name"])], ["renameOptions", "name"]),
    ("blob as text", [item(**masked("Service", "01", b"\xff"))], ["bluetoothServiceDataBlob", "ay"]),
    ("ssid as number", [described(ssid=dbus.UInt32(1))], ["ssid"]),
    # Names.
    ("name alone", [described(bluetoothNameSubstring="Die")], ["bluetoothNameSubstring", "Die"]),
    ("empty name substring", [item(bluetoothNameSubstring="")], ["bluetoothNameSubstring"]),
    ("oversized name substring", [item(bluetoothNameSubstring="x" * MANY)], ["bluetoothNameSubstring", "xxx"]),
    ("compare options without a name", [item(bluetoothNameSubstringCompareOptions=["caseInsensitive"])],
     ["bluetoothNameSubstringCompareOptions"]),
    ("broken regular expression", [item(
        bluetoothNameSubstring="D(", bluetoothNameSubstringCompareOptions=["regularExpression"])],
     ["bluetoothNameSubstring", "D("]),
    # Range and options alone.
    ("range alone", [described(bluetoothRange="immediate")], ["bluetoothRange"]),
    ("options alone", [described(supportedOptions=["bluetoothPairingLE"])], ["descriptor"]),
    # Networks.
    ("ssid with ssidPrefix", [described(ssid=b"Dice 1", ssidPrefix=b"Dice")], ["ssid", "ssidPrefix"]),
    ("empty ssid", [described(ssid=b"")], ["ssid"]),
    ("empty ssidPrefix", [described(ssidPrefix="")], ["ssidPrefix"]),
    ("oversized ssid", [described(ssid=b"x" * 33)], ["ssid", "32"]),
    ("oversized ssidPrefix", [described(ssidPrefix="x" * 33)], ["ssidPrefix", "32"]),
]
for kind, owner, other in (("Manufacturer", COMPANY, SERVICE), ("Service", SERVICE, COMPANY)):
    blob, mask = f"bluetooth{kind}DataBlob", f"bluetooth{kind}DataMask"
    ITEMS += [
        (f"{kind} blob without mask", [described(**masked(kind, b"\x01"), **owner)], [mask]),
        (f"{kind} mask without blob", [described(**masked(kind, None, b"\x01"), **owner)], [blob]),
        (f"{kind} blob longer than mask", [described(**masked(kind, b"\x01\x02", b"\xff"), **owner)], [mask]),
        (f"{kind} mask longer than blob", [described(**masked(kind, b"\x01", b"\xff\xff"), **owner)], [mask]),
        (f"{kind} blob bit outside the mask", [described(**masked(kind, b"\x01\x13", b"\xff\xf0"), **owner)], [blob, "0113"]),
        (f"empty {kind} blob", [described(**masked(kind, b"", b""), **owner)], [blob]),
        (f"oversized {kind} blob", [described(**masked(kind, b"\x01" * MANY, b"\xff" * MANY), **owner)], [blob]),
        (f"{kind} blob without its key", [described(**masked(kind, b"\x01", b"\xff"), **other)], [blob]),
        (f"{kind} blob alone", [described(**masked(kind, b"\x01", b"\xff"))], [blob]),
    ]
IMAGES = [
    ("oversized image", b"\x89PNG\r\n\x1a\n" + bytes(1 << 20), ["productImage", str((1 << 20) + 8)]),
    ("no image", b"no image at all", ["productImage"]),
    ("empty image", b"", ["productImage"]),
    ("a program as image", b"\x7fELF" + bytes(64), ["productImage"]),
    ("HTML as image", b"<html><svg></svg></html>", ["productImage"]),
    ("image as text", "image.png", ["productImage", "h or ay"]),
]
SETTINGS = [
    ("unknown setting", {"timeout": 30.0}, ["timeout"]),
    ("oversized settings", {f"key{number}": "x" for number in range(MANY)}, ["settings"]),
    ("time-out as text", {"discoveryTimeout": "30"}, ["discoveryTimeout"]),
    ("time-out of a boolean", {"discoveryTimeout": True}, ["discoveryTimeout"]),
    ("no time at all", {"discoveryTimeout": 0.0}, ["discoveryTimeout", "0"]),
    ("negative time-out", {"discoveryTimeout": -30.0}, ["discoveryTimeout", "-30"]),
    ("negative infinity", {"discoveryTimeout": float("-inf")}, ["discoveryTimeout", "inf"]),
    ("no number", {"discoveryTimeout": float("nan")}, ["discoveryTimeout", "nan"]),
    ("endless time-out", {"discoveryTimeout": 1e300}, ["discoveryTimeout"]),
    ("a wait as text", {"waitForPicker": "30"}, ["waitForPicker"]),
    ("a negative wait", {"waitForPicker": -1.0}, ["waitForPicker", "-1"]),
    ("a wait of two days", {"waitForPicker": 172800}, ["waitForPicker", "172800"]),
    ("a wait of no number", {"waitForPicker": float("nan")}, ["waitForPicker", "nan"]),
    ("options as text", {"options": "filterDiscoveryResults"}, ["options", "as"]),
    ("unknown option", {"options": ["filterResults"]}, ["options", "filterResults"]),
]


class BadInput(APITest):
    apps = ()

    def setUp(self):
        super().setUp()
        self.world.declare("dice", BluetoothCompanyIdentifiers="1234;", BluetoothNames="Die;D(;" + "x" * MANY + ";")
        self.world.restart_daemon()
        self.person, self.dice = self.picker(), self.app()

    def tearDown(self):
        """Nothing changed: no event, no picker, and the next request works."""
        self.assertEqual(self.dice.told(), ["activated"])
        self.assertEqual(self.dice.state, "active")
        self.assertNothingLeft()
        self.dice.show_picker(item())
        self.person.wait_stage("offering")

    def test_items(self):
        for what, items, says in ITEMS:
            with self.subTest(what):
                self.assertFails(INVALID, self.dice.show_picker, *items, says=says)
                self.assertIsNone(self.person.path)

    def test_messages_do_not_repeat_everything(self):
        refused = self.assertFails(INVALID, self.dice.show_picker, item("x" * MANY))
        self.assertLess(len(refused.get_dbus_message()), 500)

    def test_images(self):
        for what, image, says in IMAGES:
            with self.subTest(what):
                self.assertFails(INVALID, self.dice.show_picker, item(productImage=image), says=says)

    def test_images_that_are_no_files(self):
        path = self.world.directory / "image.png"
        path.write_bytes(PNG)
        reading, writing = os.pipe()
        os.write(writing, PNG)
        large = self.world.directory / "large.png"
        large.write_bytes(PNG + bytes(1 << 20))
        endless = os.open("/dev/zero", os.O_RDONLY)
        directory = os.open(self.world.directory, os.O_RDONLY)
        for what, descriptor in [
            ("pipe", reading), ("pipe's other end", writing), ("too large a file", os.open(large, os.O_RDONLY)),
            ("not open for reading", os.open(path, os.O_WRONLY)), ("device", endless), ("directory", directory),
        ]:
            with self.subTest(what):
                self.assertFails(
                    INVALID, self.dice.show_picker, item(productImage=dbus.types.UnixFd(descriptor)), says=["productImage"])

    def test_settings(self):
        for what, settings, says in SETTINGS:
            with self.subTest(what):
                self.assertFails(INVALID, self.dice.show_picker, item(), says=says, **settings)

    def test_options_of_a_session(self):
        for client, member in ((self.dice, "CreateSession"), (self.person, "RegisterPicker")):
            self.assertFails(INVALID, client.call, ROOT, MANAGER, member, "a{sv}", sv({"colour": "pink"}), says=["colour"])
        self.assertEqual(len(self.world.admin.paths("session")), 1)

    def test_capabilities_of_a_picker_program(self):
        person = self.picker()
        label = lambda: str(person.get(ROOT, MANAGER, "Pickers")[-1]["label"])
        person.call(ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({"label": "Terminal"}))
        for what, capabilities, says in [
            ("unknown key", {"label": "Page", "colour": "pink"}, ["capabilities.colour", "unknown"]),
            ("wrong type", {"label": 1}, ["capabilities.label", "type i", "s"]),
            ("a text for a boolean", {"unattended": "yes"}, ["capabilities.unattended", "type s", "b"]),
            ("too short a lease", {"label": "Page", "lease": dbus.UInt32(4)}, ["capabilities.lease", "4", "5 to 3600"]),
            ("too long a lease", {"label": "Page", "lease": dbus.UInt32(3601)}, ["capabilities.lease", "3601"]),
            ("a lease of the wrong type", {"label": "Page", "lease": "90"}, ["capabilities.lease", "type s", "u"]),
            ("nothing to see", {"label": "\u2800"}, ["capabilities.label", "empty"]),
            ("turned around", {"label": "Page \u202egnp"}, ["capabilities.label", "direction"]),
            ("two lines", {"label": "Page\nPage"}, ["capabilities.label", "control"]),
            ("too long", {"label": "P" * 257}, ["capabilities.label", "257"]),
        ]:
            with self.subTest(what):
                self.assertFails(INVALID, person.call, ROOT, MANAGER, "RegisterPicker", "a{sv}", sv(capabilities), says=says)
                self.assertEqual(label(), "Terminal")
        newcomer = PickerProgram(self.world)
        self.assertFails(INVALID, newcomer.call, ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({"label": ""}))
        self.assertNotIn(True, [bool(each["isYours"]) for each in newcomer.get(ROOT, MANAGER, "Pickers")])

    def test_signatures(self):
        for member, signature, arguments in [
            ("ShowPicker", "", []), ("ShowPicker", "aa{sv}", [dbus.Array([sv(item())], "a{sv}")]),
            ("ShowPicker", "a{sv}a{sv}", [sv(item()), sv({})]), ("ShowPicker", "s", ["pink"]), ("Activate", "s", ["now"]),
            ("RemoveAccessory", "s", [f"{ROOT}/accessory/1"]),
        ]:
            with self.subTest(member, signature=signature):
                self.assertFails(INVALID_ARGS, self.dice.request, member, signature, *arguments)
        self.assertFails(INVALID_ARGS, self.dice.call, ROOT, MANAGER, "CreateSession", "s", "dice")
        self.assertFails(BUS_ERROR + "UnknownMethod", self.dice.request, "ShowPickers")
        self.assertFails(BUS_ERROR + "UnknownInterface", self.dice.call, self.dice.session, f"{NAME}.Sessions", "Activate")

    def test_paths_that_are_not_its_accessories(self):
        for path in (self.dice.session, ROOT, "/", f"{ROOT}/accessory/1", f"{ROOT}/picker/1", "/org/bluez/hci0"):
            with self.subTest(path):
                self.assertFails(UNKNOWN_OBJECT, self.dice.remove, path)

    def test_rule_19_sessions_have_a_limit(self):
        app = App(self.world)
        made = []
        with self.assertRaises(dbus.DBusException) as caught:
            while len(made) < 1000:
                made.append(app.create_session())
        self.assertEqual(caught.exception.get_dbus_name(), INVALID)
        self.assertIn(str(len(made) + 1), caught.exception.get_dbus_message())  # and the one of setUp
        app.close()
        wait(lambda: len(self.world.admin.paths("session")) == 1, 5, "the sessions to go", also_every=0.1)
        App(self.world).create_session()


class WithoutWiFi(APITest):
    """Networks without a Wi-Fi service: a clear refusal that names the key."""

    apps = ()

    def setUp(self):
        super().setUp()
        self.world.declare("dice", Supports="Bluetooth;WiFi;")
        self.world.restart_daemon()
        self.person, self.dice = self.picker(), self.app()

    def test_keys(self):
        for what, name, items, says in [
            ("Wi-Fi", "PickerRestricted", [described(ssid=b"Dice")], ["Wi-Fi"]),
            ("Wi-Fi as text", "PickerRestricted", [{"name": "Dice", "descriptor": {"ssidPrefix": "Dice"}}], ["Wi-Fi"]),
            ("migration by Wi-Fi Aware", "InvalidRequest", [item() | {"wifiAwarePairedDeviceID": dbus.UInt64(1)}],
             ["wifiAwarePairedDeviceID", "1"]),
            ("Wi-Fi Aware", "InvalidRequest", [{"name": "Dice", "descriptor": {"wifiAwareServiceName": "_dice._tcp"}}],
             ["wifiAwareServiceName", "_dice._tcp", "wpa_supplicant"]),
        ]:
            with self.subTest(what):
                self.assertFails(error(name), self.dice.show_picker, *items, says=says)
                self.assertEqual(self.dice.told(), ["activated"])
