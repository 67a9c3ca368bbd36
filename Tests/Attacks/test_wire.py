# SPDX-License-Identifier: Apache-2.0
"""Messages as other bindings send them, and malformed ones: each is answered, with the result or with an error that gives the reason."""

import dbus

from attack import INVALID, Attack
from harness.clients import Client, Identity
from harness.names import BLUE, BUS_ERROR, INVALID_ARGS, MANAGER, OBJECT_MANAGER, PICKER, PINK, PROPERTIES, ROOT, UNKNOWN_OBJECT
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest
from view import GATT

INTROSPECTABLE, PEER = (f"org.freedesktop.DBus.{each}" for each in ("Introspectable", "Peer"))
UNKNOWN_METHOD = BUS_ERROR + "UnknownMethod"
UNKNOWN_INTERFACE = BUS_ERROR + "UnknownInterface"
INTEGERS = (dbus.Byte, dbus.Int16, dbus.UInt16, dbus.Int32, dbus.UInt32, dbus.Int64, dbus.UInt64)


class Standard(Attack):
    def test_the_first_call_to_a_path_that_is_not_ours(self):
        """Also while it is not known yet who calls."""
        for socket in (None, self.world.view):
            for path in ("/", "/org", "/org/example", ROOT + "x", ROOT + "/session/99999"):
                with self.subTest(path, socket=socket):
                    client = Client(self.world, Identity("dice"), socket)
                    self.assertFails(UNKNOWN_OBJECT, client.call, path, "org.example.Nothing", "Nothing")
                    client.close()

    def test_arguments_where_there_are_none(self):
        for interface, member in ((OBJECT_MANAGER, "GetManagedObjects"), (INTROSPECTABLE, "Introspect")):
            for signature, *arguments in (("s", "x"), ("a{sv}", sv({})), ("u", dbus.UInt32(1))):
                with self.subTest(member, signature=signature):
                    self.assertFails(INVALID_ARGS, self.dice.call, ROOT, interface, member, signature, *arguments)
            self.dice.call(ROOT, interface, member)
        for signature, *arguments in (("", ), ("s", MANAGER), ("ss", MANAGER, "Version")):
            if signature != "ss":
                self.assertFails(INVALID_ARGS, self.dice.call, ROOT, PROPERTIES, "Get", signature, *arguments)
        self.assertFails(INVALID_ARGS, self.dice.call, ROOT, PROPERTIES, "GetAll", "")

    def test_all_properties_of_the_standard_interfaces(self):
        """Those have none, and are there."""
        for interface in (PROPERTIES, INTROSPECTABLE, PEER, OBJECT_MANAGER):
            self.assertEqual(self.dice.get_all(ROOT, interface), {})
        for interface in (PROPERTIES, INTROSPECTABLE, PEER):
            self.assertEqual(self.dice.get_all(self.accessory, interface), {})
            self.assertEqual(self.dice.get_all(self.dice.session, interface), {})

    def test_methods_that_the_standard_interfaces_have_not(self):
        for interface in (INTROSPECTABLE, PROPERTIES, OBJECT_MANAGER, PEER):
            for path in (ROOT, self.dice.session):
                with self.subTest(interface, path=path), self.assertRaises(dbus.DBusException) as caught:
                    self.dice.call(path, interface, "Colour")
                self.assertIn(caught.exception.get_dbus_name(), (UNKNOWN_METHOD, UNKNOWN_INTERFACE))


class Values(Attack):
    scenario = scenario(
        accessory("pink", advert={"serviceUUIDs": [PINK], "name": "pink", "manufacturerData": {"0042": "01"}}, gatt=GATT),
        accessory("other", 2, gatt=GATT), accessory("shown", 3, pairing={"mode": "displayPasskey", "passkey": 42}))

    def setUp(self):
        self.manifest = {"BluetoothServices": f"{PINK};{BLUE};", "BluetoothCompanyIdentifiers": "0042;"}
        super().setUp()

    def test_a_company_of_every_integer_type(self):
        for integer in INTEGERS:
            with self.subTest(integer.__name__):
                self.dice.show_picker(item("Die", bluetoothCompanyIdentifier=integer(0x42)))
                self.person.wait_shown()
                self.dice.request("CancelPicker")
                self.person.wait_gone()
        for value in (dbus.Int16(-1), dbus.Int32(-1), dbus.Int64(-(1 << 63)), dbus.UInt32(1 << 16), dbus.UInt64((1 << 64) - 1)):
            with self.subTest(value):
                self.assertFails(INVALID, self.dice.show_picker, item(bluetoothCompanyIdentifier=value),
                                 says=["bluetoothCompanyIdentifier", int(value), 65535])
        for value in ("66", True, 66.0, b"B"):
            with self.subTest(value):
                self.assertFails(INVALID, self.dice.show_picker, item(bluetoothCompanyIdentifier=value),
                                 says=["bluetoothCompanyIdentifier", "integer"])

    def test_a_passkey_of_every_integer_type(self):
        for integer in INTEGERS:
            with self.subTest(integer.__name__):
                before = self.board.event_types.count("accessoryAdded"), self.board.event_types.count("pickerDidDismiss")
                self.board.show_picker(item("Shown"))
                self.person.pick("shown")
                self.person.wait_prompt("enter-passkey")
                for value in (dbus.Int32(-1), dbus.Int64(-(1 << 63)), dbus.UInt32(1_000_000), dbus.UInt64((1 << 64) - 1)):
                    self.assertFails(INVALID, self.person.respond, passkey=value, says=["passkey"])
                for value in ("42", True, 42.0):
                    self.assertFails(INVALID, self.person.respond, passkey=value, says=["passkey", "integer"])
                self.person.respond(passkey=integer(42))
                added = self.board.wait_event("accessoryAdded", count=before[0] + 1)
                self.board.wait_event("pickerDidDismiss", count=before[1] + 1)
                self.person.wait_gone()
                self.board.remove(str(added["accessory"]))

    def test_dictionaries_of_another_type(self):
        """Refused with the name of their type, never taken for another."""
        for kind, bad in {
                "a{ss}": dbus.Dictionary({"bluetoothServiceUUID": PINK}, "ss"),
                "a{su}": dbus.Dictionary({"bluetoothCompanyIdentifier": dbus.UInt32(66)}, "su"),
                "a{ov}": dbus.Dictionary({dbus.ObjectPath("/x"): PINK}, "ov"), "a{yv}": dbus.Dictionary({dbus.Byte(1): PINK}, "yv"),
                "as": dbus.Array(["bluetoothServiceUUID"], "s"), "s": "bluetoothServiceUUID", "i": dbus.Int32(1),
                "(ss)": dbus.Struct(("bluetoothServiceUUID", PINK), signature="ss")}.items():
            with self.subTest(kind):
                self.assertFails(INVALID, self.dice.show_picker, {"name": "Die", "descriptor": bad}, says=["descriptor", kind])
                self.assertFails(INVALID_ARGS, self.dice.request, "ShowPicker", "aa{ss}a{sv}",
                                 dbus.Array([dbus.Dictionary({"name": "Die"}, "ss")], "a{ss}"), sv({}))
        self.assertEqual(self.dice.told()[-1], "pickerDidDismiss")


class Air(APITest):
    """Text that strangers send over the air."""

    apps = ("dice",)
    manifest = {"Supports": "Bluetooth;WiFi;"}
    model = "Mod\0el\x01\u202e D6"

    def test_a_model_with_a_nul_costs_nobody_the_offers(self):
        self.start(scenario(
            accessory("pink"),
            wifi={"services": ["wpa_supplicant"], "aware": True},
            awareServices=[
                {"id": "bad", "service": "_dice._tcp", "role": "publisher", "model": self.model, "vendor": "Ex\0ample", "address": "02:00:00:00:0A:01"},
                {"id": "good", "service": "_dice._tcp", "role": "publisher", "model": "D20", "vendor": "Example", "address": "02:00:00:00:0A:02"}]))
        self.world.wait_wifi("ready")
        dice, person = self.app(), self.picker()
        dice.show_picker({"name": "Aware", "descriptor": {"wifiAwareServiceName": "_dice._tcp", "wifiAwareServiceRole": "publisher"}}, item())
        wait(lambda: len(person.offers) == 3, what=lambda: f"three offers, are {person.offers}")
        for offers in (person.get(person.path, PICKER, "Offers"), person.get_all(person.path, PICKER)["Offers"],
                       person.objects()[person.path][PICKER]["Offers"], self.world.admin.objects()[person.path][PICKER]["Offers"]):
            names = {str(each["advertisedName"]) for each in offers}
            self.assertIn("Example D20", names)
            self.assertIn("pink", names)
            self.assertEqual(len(names), 3)
        person.pick("pink")
        dice.wait_event("accessoryAdded")
