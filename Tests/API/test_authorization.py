# SPDX-License-Identifier: Apache-2.0
"""The app's confirmation: set-ups that wait for it, and extensions of an accessory: its classic side, its use as an input device, the requirements of a
new descriptor."""

import dbus

from harness.names import ACCESSORY, GRANT, PICKER, PINK, PROPERTIES, ROOT, UNKNOWN_OBJECT, error
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.world import APITest

INVALID = error("InvalidRequest")
CLASSIC = b"\x00\x11\x22\x33\x44\x55"


class Authorization(APITest):
    def confirming(self, name="pink", **more):
        """A set-up up to where the app's confirmation is awaited; returns the accessory."""
        self.path = self.dice.show_picker(item(setupOptions=["confirmAuthorization", *more.pop("setup", [])], **more))
        self.person.pick(name)
        return str(self.dice.wait_event("accessoryAdded")["accessory"])

    def finish(self, accessory, **settings):
        self.dice.request("FinishAuthorization", "oa{sv}", dbus.ObjectPath(accessory), sv(settings))

    def fail(self, accessory):
        self.dice.request("FailAuthorization", "o", dbus.ObjectPath(accessory))


class Confirm(Authorization):
    scenario = scenario(accessory("pink"), accessory("blue", 2))

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()

    def test_rule_12_finished(self):
        accessory = self.confirming()
        self.assertEqual(self.dice.wait_event("accessoryAdded")["properties"]["State"], "awaitingAuthorization")
        self.assertEqual(self.dice.get(accessory, ACCESSORY, "State"), "awaitingAuthorization")
        self.assertEqual(self.person.get(self.path, PICKER, "Stage"), "confirming")
        self.assertEqual([each["State"] for each in self.world.grants().values()], ["awaitingAuthorization"])
        self.finish(accessory)
        self.assertEqual(self.dice.wait_event("accessoryChanged")["properties"]["State"], "authorized")
        self.assertNotIn("error", self.dice.wait_event("pickerDidDismiss"))
        self.assertEqual(self.dice.get(accessory, ACCESSORY, "State"), "authorized")
        self.assertEqual(self.dice.told(), [
            "activated", "pickerDidPresent", "pickerSetupPairing", "accessoryAdded", "accessoryChanged", "pickerDidDismiss"])
        self.assertFails(INVALID, self.finish, accessory, says=["authorized"])
        self.assertFails(INVALID, self.fail, accessory, says=["authorized"])

    def test_rule_12_failed(self):
        accessory = self.confirming()
        self.fail(accessory)
        self.assertEqual(self.dice.wait_event("accessoryRemoved")["accessory"], accessory)
        self.assertEqual(self.dice.wait_event("pickerDidDismiss")["error"], error("ConnectionFailed"))
        self.assertNothingLeft()
        self.add(self.dice, self.person, "pink")

    def test_rule_12_the_name_is_asked_for_afterwards(self):
        accessory = self.confirming(setup=["rename"])
        self.assertNotIn("pickerSetupRename", self.dice.told())
        self.finish(accessory)
        self.person.wait_stage("renaming")
        self.person.ask("Rename", "s", "Kitchen")
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.dice.get(accessory, ACCESSORY, "DisplayName"), "Kitchen")

    def test_the_person_cancels_meanwhile(self):
        self.confirming()
        self.person.cancel()
        self.assertEqual(self.dice.wait_event("pickerDidDismiss")["error"], error("UserCancelled"))
        self.assertNothingLeft()

    def test_the_app_crashes_and_finishes_later(self):
        accessory = self.confirming()
        self.dice.close()
        self.person.wait_gone()
        self.world.restart_daemon()
        self.person, self.dice = self.picker(), self.app()
        self.assertEqual(self.dice.get(accessory, ACCESSORY, "State"), "awaitingAuthorization")
        self.finish(accessory)
        self.assertEqual(self.dice.wait_event("accessoryChanged")["properties"]["State"], "authorized")

    def test_an_admin_revokes_meanwhile(self):
        self.confirming()
        self.world.admin.call(next(iter(self.world.grants())), GRANT, "Revoke")
        self.dice.wait_event("accessoryRemoved")
        self.assertEqual(self.dice.wait_event("pickerDidDismiss")["error"], error("ConnectionFailed"))
        self.assertNothingLeft()

    def test_rule_12_finish_in_app(self):
        self.dice.show_picker(item(setupOptions=["finishInApp"]))
        self.person.pick("pink")
        self.dice.wait_event("pickerDidDismiss")
        self.person.wait_gone()
        self.assertEqual(self.person.stages[-1], "done")
        self.assertTrue(self.person.state["Prompt"]["finishInApp"])

    def test_what_is_refused(self):
        accessory = self.confirming()
        for says, settings in [
            (["colour"], {"colour": "pink"}), (["ssid", "type"], {"ssid": dbus.UInt32(1)}), (["ssid", "1 to 32"], {"ssid": b""}),
            (["ssid", "1 to 32"], {"ssid": b"x" * 33}), (["ssid", "descriptor"], {"ssid": b"Dice"}),
            (["bluetoothTransportBridgingIdentifier", "6 bytes"], {"bluetoothTransportBridgingIdentifier": b"12345"}),
            (["bluetoothTransportBridgingIdentifier", "type"], {"bluetoothTransportBridgingIdentifier": "00:11:22:33:44:55"}),
            (["bluetoothTransportBridgingIdentifier", "supportedOptions"], {"bluetoothTransportBridgingIdentifier": CLASSIC}),
        ]:
            with self.subTest(says):
                self.assertFails(INVALID, self.finish, accessory, says=says, **settings)
        self.assertFails(UNKNOWN_OBJECT, self.finish, f"{ROOT}/accessory/1")
        self.assertFails(UNKNOWN_OBJECT, self.fail, ROOT)
        self.assertEqual(self.dice.get(accessory, ACCESSORY, "State"), "awaitingAuthorization")
        self.finish(accessory)


class Bridging(Authorization):
    """Classic Bluetooth beside low energy."""

    scenario = scenario(
        accessory("keys", 1, addressType="public", transport="dual", crossTransportKeys=True),
        accessory("dual", 2, addressType="public", transport="dual"), accessory("single", 3),
        accessory("apart", 4), {**accessory("classic", 5, addressType="public", transport="bredr"), "address": "00:11:22:33:44:55"})

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()
        self.options = {"supportedOptions": ["bluetoothPairingLE", "bluetoothTransportBridging"]}

    def test_the_same_address(self):
        for name, address in [("keys", b"\xC0\xFF\xEE\x00\x02\x01"), ("dual", b"\xC0\xFF\xEE\x00\x02\x02")]:
            with self.subTest(name):
                accessory = self.add(self.dice, self.person, name, item(**self.options))
                identifier = self.dice.get(accessory, ACCESSORY, "BluetoothTransportBridgingIdentifier")
                self.assertEqual(bytes(identifier), address)
                self.assertEqual(self.dice.told()[-4:], [
                    "pickerSetupPairing", "pickerSetupBridging", "accessoryAdded", "pickerDidDismiss"])
                self.assertIn("bridging", self.person.stages)

    def test_without_a_classic_side(self):
        self.dice.show_picker(item(**self.options))
        self.person.pick("single")
        self.dice.wait_event("pickerSetupFailed")
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")
        self.assertNothingLeft()

    def test_by_the_apps_identifier(self):
        accessory = self.confirming("apart", **self.options)
        self.assertNotIn("pickerSetupBridging", self.dice.told())
        self.finish(accessory, bluetoothTransportBridgingIdentifier=CLASSIC)
        self.dice.wait_event("pickerSetupBridging")
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(bytes(self.dice.get(accessory, ACCESSORY, "BluetoothTransportBridgingIdentifier")), CLASSIC)
        self.assertEqual(self.dice.get(accessory, ACCESSORY, "State"), "authorized")
        self.assertEqual(self.simulator.bonds, ["apart", "classic"])
        self.world.restart_daemon()
        properties = self.world.admin.get_all(accessory, ACCESSORY)
        self.assertEqual(bytes(properties["BluetoothTransportBridgingIdentifier"]), CLASSIC)

    def test_a_failure_can_be_tried_again(self):
        accessory = self.confirming("single", **self.options)
        self.finish(accessory)
        self.assertEqual(self.dice.wait_event("pickerSetupFailed")["error"], error("ConnectionFailed"))
        self.assertEqual(self.dice.get(accessory, ACCESSORY, "State"), "awaitingAuthorization")
        self.finish(accessory, bluetoothTransportBridgingIdentifier=CLASSIC)
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.dice.get(accessory, ACCESSORY, "State"), "authorized")

    def test_what_is_removed_takes_both_bonds(self):
        accessory = self.confirming("apart", **self.options)
        self.finish(accessory, bluetoothTransportBridgingIdentifier=CLASSIC)
        self.dice.wait_event("pickerDidDismiss")
        self.dice.remove(accessory)
        self.assertNothingLeft()


class InputDevices(Authorization):
    scenario = scenario(accessory("keyboard", input=True), accessory("mute", 2))

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()

    def test_it_is_trusted_connected_and_there(self):
        accessory = self.add(self.dice, self.person, "keyboard", item(supportedOptions=["bluetoothPairingLE", "bluetoothHID"]))
        device = self.dice.get(accessory, ACCESSORY, "Device")
        properties = self.world.admin.call(device, PROPERTIES, "GetAll", "s", "org.bluez.Device1", to="org.bluez")
        self.assertTrue(properties["Trusted"] and properties["Connected"] and properties["Paired"])
        self.assertEqual([each.read_text().strip() for each in self.world.inputs.glob("*/uniq")], ["c0:ff:ee:00:02:01"])

    def test_what_is_no_input_device_is_not_set_up(self):
        self.dice.show_picker(item(supportedOptions=["bluetoothHID"]))
        self.person.pick("mute")
        self.dice.wait_event("pickerSetupPairing")
        self.world.pass_until(lambda: "pickerSetupFailed" in self.dice.told(), 20, "the wait for the input device to end")
        failed = self.dice.wait_event("pickerSetupFailed")
        self.assertIn("input device", failed["message"])
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")
        self.assertNothingLeft()


class Update(Authorization):
    scenario = scenario(accessory("pink"), accessory("other", 2))

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()
        self.accessory = self.add(self.dice, self.person, "pink", item(pairs=False))

    def update(self, **descriptor):
        return str(self.dice.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(self.accessory), sv(descriptor)))

    def test_an_accessory_is_paired_afterwards(self):
        self.assertEqual(self.simulator.bonds, [])
        path = self.update(bluetoothServiceUUID=PINK, supportedOptions=["bluetoothPairingLE"])
        self.person.pick("pink")
        self.dice.wait_event("pickerDidDismiss", count=2)
        self.assertEqual(self.dice.told()[-4:], [
            "pickerDidPresent", "pickerSetupPairing", "accessoryChanged", "pickerDidDismiss"])
        self.assertEqual(self.simulator.bonds, ["pink"])
        self.assertEqual(self.dice.wait_event("accessoryChanged")["accessory"], self.accessory)
        descriptor = self.dice.get(self.accessory, ACCESSORY, "Descriptor")
        self.assertEqual(list(descriptor["supportedOptions"]), ["bluetoothPairingLE"])
        self.assertEqual(len(self.world.grants()), 1)
        self.assertTrue(path.startswith(f"{ROOT}/picker/"))

    def test_without_pairing_it_is_offered_at_once(self):
        self.simulator.do("vanish", "pink")
        self.update(bluetoothServiceUUID=PINK, bluetoothRange="immediate")
        self.person.wait_stage("offering")
        self.assertEqual(self.person.state["Kind"], "authorization")
        self.person.ask("Pick", "s", self.person.offers[0]["id"])
        self.dice.wait_event("pickerDidDismiss", count=2)
        self.assertEqual(self.dice.get(self.accessory, ACCESSORY, "Descriptor")["bluetoothRange"], "immediate")

    def test_what_is_refused(self):
        for says, descriptor in [
            (["descriptor"], {}), (["colour"], {"bluetoothServiceUUID": PINK, "colour": "pink"}),
            (["bluetoothServiceUUID", "180a"], {"bluetoothServiceUUID": "180A"}), (["WiFi"], {"ssid": b"Dice"}),
        ]:
            with self.subTest(says):
                self.assertFails(INVALID, self.update, says=says, **descriptor)
        self.assertEqual(self.dice.told()[-1], "pickerDidDismiss")
