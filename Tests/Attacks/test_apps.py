# SPDX-License-Identifier: Apache-2.0
"""The app itself, beyond its grants: links after the end of its right, the adapter's settings, bonds of other programs, the admin's
rules."""

import dbus

from attack import INVALID, Attack
from harness.names import ACCESSORY, BLUE, GRANT, INVALID_ARGS, PICKER, PINK, PROPERTIES, UNKNOWN_OBJECT, error
from harness.radio import Paired, accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest
from view import ADAPTER, ADAPTER1, BLUEZ, DEVICE1, GATT, View, path_of

CLASSIC = b"\x00\x11\x22\x33\x44\x55"
LAMP = "180A"


class Links(Attack):
    """A Connect that has not been answered is called off when the app may not have the link any more. bluetoothd is played by a process that
    stands still, so the link is never up before. The address is public: calls while the link is up reach bluetoothd, too."""

    scenario = scenario(accessory("pink", 1, gatt=GATT, addressType="public"), accessory("other", 2, gatt=GATT))

    def setUp(self):
        super().setUp()
        self.ear = self.hear(f"type='method_call',interface='{DEVICE1}',path='{self.pink}'")
        self.app_in_view = self.view()
        self.app_in_view.tree()
        self.answers = []

    def connect(self):
        self.simulator.pause()
        self.addCleanup(self.simulator.resume)
        self.app_in_view.call_later(self.pink, DEVICE1, "Connect", lambda *result: self.answers.append(result), to=BLUEZ)
        self.ear.wait_for("member=Connect$")
        self.assertFalse(self.called_off())

    def called_off(self):
        return any("member=Disconnect" in line for line in self.ear.lines)

    def wait_called_off(self):
        self.ear.wait_for("member=Disconnect")

    def wait_refused(self):
        wait(lambda: self.answers, what="an answer")
        self.assertEqual(self.answers[0][0].get_dbus_name(), UNKNOWN_OBJECT)

    def test_switching_off_ends_a_pending_connect(self):
        self.connect()
        self.switch(False)
        self.wait_refused()
        self.wait_called_off()

    def test_revoking_ends_a_pending_connect(self):
        self.connect()
        self.world.admin.call_later(self.grant(), GRANT, "Revoke", lambda *_: None)
        self.wait_refused()
        self.wait_called_off()

    def test_the_apps_death_ends_a_pending_connect(self):
        self.connect()
        self.app_in_view.kill()
        self.wait_called_off()

    def test_removing_the_manifest_ends_a_pending_connect(self):
        self.connect()
        (self.world.app_directories[0] / "com.example.dice.conf").unlink()
        self.wait_refused()
        self.wait_called_off()

    def test_a_pending_connect_of_another_app_goes_on(self):
        """One app's end is not another's: board has the accessory too, and waits for the same link."""
        self.share()
        other, answers = self.view("board"), []
        other.tree()
        self.ear = self.hear(f"type='method_call',interface='{DEVICE1}',path='{self.pink}'")
        self.connect()
        other.call_later(self.pink, DEVICE1, "Connect", lambda *result: answers.append(result), to=BLUEZ)
        wait(lambda: sum("member=Connect" in line for line in self.ear.lines) == 2, what="the other's Connect")
        self.switch(False)
        self.wait_refused()
        # Calls for the first would precede the calls now.
        other.settle()
        self.assertFalse(self.called_off())

    def test_a_disconnect_does_not_end_what_another_app_connects(self):
        """Nor does the end of a grant: dice holds the link, and board waits for it."""
        self.share()
        other, answers = self.view("board"), []
        other.tree()
        for let_go in (lambda: self.app_in_view.disconnect(self.pink), lambda: self.switch(False)):
            self.app_in_view.connect(self.pink)
            ear = self.hear(f"type='method_call',interface='{DEVICE1}',path='{self.pink}'")
            answers.clear()
            self.simulator.pause()
            self.addCleanup(self.simulator.resume)
            other.call_later(self.pink, DEVICE1, "Connect", lambda *result: answers.append(result), to=BLUEZ)
            ear.wait_for("member=Connect$")
            let_go()
            self.app_in_view.settle()
            self.simulator.resume()
            wait(lambda: answers, what="an answer")
            self.assertEqual(self.linked(), ["pink"])
            self.assertFalse([line for line in ear.lines if "member=Disconnect" in line])
            self.assertTrue(other.read_property(self.pink, DEVICE1, "Connected"))
            other.disconnect(self.pink)


class Filters(Attack):
    """SetDiscoveryFilter acts on the adapter for all."""

    def setUp(self):
        super().setUp()
        self.ear = self.hear(f"type='method_call',interface='{ADAPTER1}',member='SetDiscoveryFilter'")
        self.app_in_view = self.view()
        self.app_in_view.tree()

    def set(self, **values):
        self.app_in_view.bluez(ADAPTER, ADAPTER1, "SetDiscoveryFilter", "a{sv}", sv(values))

    def passed_on(self):
        """The calls to bluetoothd since the monitor began, up to the marker."""
        self.set(RSSI=dbus.Int16(-99))
        self.ear.wait_for("int16 -99")
        return "\n".join(self.ear.lines)

    def test_an_app_does_not_make_the_adapter_discoverable(self):
        self.assertFails("org.bluez.Error.NotPermitted", self.set, Discoverable=True, says=["discoverable"])
        self.assertFails("org.bluez.Error.NotPermitted", self.set, Transport="le", Discoverable=True)
        self.set(Discoverable=False)
        self.assertNotIn("Discoverable", self.passed_on())
        discoverable = self.world.admin.call(ADAPTER, PROPERTIES, "Get", "ss", ADAPTER1, "Discoverable", to=BLUEZ)
        self.assertFalse(discoverable)

    def test_what_would_hide_devices_from_others_is_not_passed_on(self):
        self.set(UUIDs=[PINK], Pattern="pink", Transport="le", DuplicateData=True)
        passed = self.passed_on()
        self.assertIn('"Transport"', passed)
        self.assertNotIn("UUIDs", passed)
        self.assertNotIn("Pattern", passed)

    def test_unknown_keys_and_wrong_types(self):
        for values in ({"Colour": "pink"}, {"RSSI": "near"}, {"RSSI": dbus.Int16(-200)}, {"Transport": "wire"}, {"Transport": dbus.Int16(1)},
                       {"Pathloss": dbus.UInt16(138)}, {"DuplicateData": "yes"}, {"Discoverable": "no"}, {"UUIDs": PINK},
                       {"Pattern": dbus.Int32(1)}, {"Colour": True, "Discoverable": True}):
            with self.subTest(values), self.assertRaises(dbus.DBusException) as caught:
                self.set(**values)
            self.assertIn(caught.exception.get_dbus_name(), ("org.bluez.Error.InvalidArguments",) + (
                ("org.bluez.Error.NotPermitted",) if len(values) > 1 else ()))
        for signature, value in (("s", "le"), ("a{ss}", dbus.Dictionary({"Transport": "le"}, "ss")), ("", None)):
            with self.subTest(signature):
                self.assertFails(INVALID_ARGS, self.app_in_view.bluez, ADAPTER, ADAPTER1, "SetDiscoveryFilter", signature,
                                 *([] if value is None else [value]))
        self.assertNotIn("Colour", self.passed_on())


class Bonds(APITest):
    """Bonds of other programs stay theirs, whatever an app does."""

    apps = ("dice", "board")
    manifest = {"BluetoothServices": f"{PINK};{BLUE};{LAMP};"}
    scenario = scenario(
        accessory("pink"), accessory("lamp", 2, service=LAMP), accessory("dual", 3),
        {"id": "speaker", "address": "00:11:22:33:44:55", "addressType": "public", "transport": "bredr",
         "adverts": [{"interval": 0.05, "name": "speaker"}], "pairing": {}})

    def setUp(self):
        super().setUp()
        for path in (path_of(2), f"{ADAPTER}/dev_00_11_22_33_44_55"):
            with Paired(self.world, path):
                pass
        self.person, self.dice = self.picker(), self.app()

    def assertOthersStay(self):
        """Also once the app has given back all that it has."""
        for each in self.dice.accessories:
            self.dice.remove(each)
        self.assertEqual(self.dice.accessories, [])
        self.assertEqual(self.world.grants(), {})
        wait(lambda: self.simulator.bonds == ["lamp", "speaker"], what=lambda: f"the others' bonds alone: {self.simulator.bonds}", also_every=0.05)

    def test_a_migration_of_what_does_not_match(self):
        item_of = lambda address, **more: item("Mine", **more) | {"peripheralIdentifier": address}
        for address in ("C0:FF:EE:00:02:02", "00:11:22:33:44:55"):
            with self.subTest(address):
                self.assertFails(INVALID, self.dice.show_picker, item_of(address))
                # Beside other items such an entry has no effect, and the person does not see it.
                self.dice.show_picker(item("Pink"), item_of(address))
                self.person.wait_offer("pink")
                self.assertNotIn("migrations", self.person.state["Prompt"])
                self.person.cancel()
                self.person.wait_gone()
        self.assertEqual(self.dice.accessories, [])
        # And a matching one: the person decides, and the app still cannot end the bond.
        self.dice.show_picker(item_of("C0:FF:EE:00:02:02", service=LAMP))
        self.person.wait_prompt("consent")
        self.person.respond(accept=True)
        self.dice.wait_event("migrationComplete")
        self.dice.wait_event("pickerDidDismiss")
        self.assertOthersStay()

    def test_a_migration_that_the_person_does_not_answer(self):
        """Nothing happens by itself: there is no moment at which silence becomes a yes."""
        self.dice.show_picker(item("Mine", service=LAMP) | {"peripheralIdentifier": "C0:FF:EE:00:02:02"})
        self.person.wait_prompt("consent")
        self.assertEqual(self.person.get(self.person.path, PICKER, "Deadline"), 0)
        self.assertFails(INVALID, self.dice.request, "FinishPickerDiscovery")
        self.assertNotIn("migrationComplete", self.dice.told())
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")
        self.assertOthersStay()

    def test_the_classic_address_of_another_programs_bond(self):
        """An app that confirms its accessory names any classic side it likes; it gets none that is paired already."""
        bridging = ["bluetoothPairingLE", "bluetoothTransportBridging"]
        for count, (name, options) in enumerate((("pink", bridging[:1]), ("dual", bridging)), 1):
            with self.subTest(name):
                self.dice.show_picker(item(setupOptions=["confirmAuthorization"], supportedOptions=options))
                self.person.pick(name)
                path = str(self.dice.wait_event("accessoryAdded", count=count)["accessory"])
                settings = sv({"bluetoothTransportBridgingIdentifier": CLASSIC})
                finish = lambda: self.dice.request("FinishAuthorization", "oa{sv}", dbus.ObjectPath(path), settings)
                if options == bridging:
                    finish()
                    failed = self.dice.wait_event("pickerSetupFailed")
                    self.assertEqual(failed["error"], error("ConnectionFailed"))
                else:
                    self.assertFails(INVALID, finish, says=["bluetoothTransportBridging"])
                self.assertEqual(self.dice.get(path, ACCESSORY, "State"), "awaitingAuthorization")
                self.assertEqual(bytes(self.dice.get(path, ACCESSORY, "BluetoothTransportBridgingIdentifier")), b"")
                self.dice.remove(path)
                self.dice.wait_event("pickerDidDismiss", count=count)
        self.assertOthersStay()

    def test_an_accessory_that_another_program_has_paired(self):
        """It is set up as it is, and not unpaired with the grant."""
        self.dice.show_picker(item(service=LAMP))
        self.person.pick("lamp")
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(len(self.dice.accessories), 1)
        self.assertOthersStay()


class Rules(APITest):
    """The admin's denials, against an app that calls the accessory by another name."""

    manifest = {"BluetoothServices": f"{PINK};{BLUE};{LAMP};"}
    scenario = scenario(accessory("pink", advert={"serviceUUIDs": [PINK, LAMP], "name": "pink"}))

    def deny(self, service):
        directory = self.world.policy
        directory.mkdir(exist_ok=True)
        (directory / "90.new").write_text(f"[Deny it]\nBluetoothServiceUUID={service}\n")
        (directory / "90.new").rename(directory / "90.conf")
        self.person.close()
        self.dice.close()
        self.world.restart_daemon()
        self.person, self.dice = self.picker(), self.app()

    def update(self, service):
        self.dice.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(self.path), sv({"bluetoothServiceUUID": service}))

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()
        self.path = self.add(self.dice, self.person, "pink")

    def test_a_descriptor_against_a_denial(self):
        self.deny(LAMP)
        # By its earlier advert, and by the service that it would be looked for from now on.
        for service in (PINK, LAMP):
            self.assertFails(error("UserRestricted"), self.update, service, says=["it", "90.conf"])
        self.assertEqual(self.dice.get(self.path, ACCESSORY, "Descriptor")["bluetoothServiceUUID"].lower(), PINK.lower())

    def test_a_new_descriptor_hides_nothing_from_a_later_denial(self):
        self.update(LAMP)
        self.person.wait_stage("offering")
        self.person.ask("Pick", "s", self.person.offers[0]["id"])
        self.dice.wait_event("pickerDidDismiss", count=2)
        self.deny(PINK)
        view = View(self.world)
        self.assertEqual([path for path in view.tree() if "/dev_" in path], [])
        self.assertFails(UNKNOWN_OBJECT, view.connect, path_of(1))
