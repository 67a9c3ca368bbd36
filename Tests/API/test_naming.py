# SPDX-License-Identifier: Apache-2.0
"""Names: asked for in a set-up, changed by the app's wish, changed by the admin; and invalid names."""

import signal

import dbus

from harness.apps import App
from harness.names import ACCESSORY, BLUE, BUS_ERROR, PICKER, PROPERTIES, ROOT, SOMEBODY_ELSE, UNKNOWN_OBJECT, error
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest

INVALID = error("InvalidRequest")
NOT_A_NAME = ["", " \t ", "x" * 10_000, "bell\x07"]


class SetupRename(APITest):
    scenario = scenario(accessory("pink"), accessory("blue", 2))

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()
        self.path = self.dice.show_picker(item(setupOptions=["rename"]))
        self.person.pick("pink")
        self.person.wait_stage("renaming")

    def added(self):
        details = self.dice.wait_event("accessoryAdded")
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.dice.told(), [
            "activated", "pickerDidPresent", "pickerSetupPairing", "pickerSetupRename", "accessoryAdded", "pickerDidDismiss"])
        return details

    def test_rule_12_the_person_names_it(self):
        self.assertEqual(self.dice.wait_event("pickerSetupRename")["picker"], self.path)
        self.assertEqual(self.person.offers[0]["name"], "Pink Dice")
        self.person.ask("Rename", "s", "Würfel 🎲")
        details = self.added()
        self.assertEqual(details["properties"]["DisplayName"], "Würfel 🎲")
        self.assertEqual(self.dice.get(details["accessory"], ACCESSORY, "DisplayName"), "Würfel 🎲")
        device = self.dice.get(details["accessory"], ACCESSORY, "Device")
        wait(lambda: self.world.admin.call(
            device, PROPERTIES, "Get", "ss", "org.bluez.Device1", "Alias", to="org.bluez") == "Würfel 🎲", 5, "the alias", also_every=0.1)

    def test_the_person_keeps_the_name(self):
        self.person.cancel()
        self.assertEqual(self.added()["properties"]["DisplayName"], "Pink Dice")

    def test_what_is_no_name(self):
        for name in NOT_A_NAME:
            with self.subTest(name[:10]):
                self.assertFails(INVALID, self.person.ask, "Rename", "s", name, says=["name"])
        self.assertEqual(self.person.get(self.path, PICKER, "Stage"), "renaming")
        self.person.ask("Rename", "s", "Kitchen")
        self.added()

    def test_the_picker_goes_and_the_name_stays(self):
        self.person.close()
        self.assertEqual(self.added()["properties"]["DisplayName"], "Pink Dice")

    def test_the_app_goes_and_keeps_what_was_paired(self):
        self.dice.close()
        self.person.wait_gone()
        self.assertEqual(len(self.world.grants()), 1)
        self.assertEqual(self.simulator.bonds, ["pink"])

    def test_killed_while_it_asks_nothing_is_left(self):
        self.world.restart_daemon(signal.SIGKILL)
        self.assertNothingLeft()


class Rename(APITest):
    apps = ("dice", "board")
    scenario = scenario(accessory("pink"), accessory("blue", 2))

    def setUp(self):
        super().setUp()
        self.person, self.dice, self.board = self.picker(), self.app(), self.app("board", SOMEBODY_ELSE)
        self.accessory = self.add(self.dice, self.person, "pink")
        device = self.dice.get(self.accessory, ACCESSORY, "Device")
        self.world.admin.call(device, "org.bluez.Device1", "Disconnect", to="org.bluez")
        self.add(self.board, self.person, "pink")

    def rename(self, accessory=None, **options):
        return str(self.dice.request("RenameAccessory", "oa{sv}", dbus.ObjectPath(accessory or self.accessory), sv(options)))

    def test_rule_14_everybody_with_a_grant_is_told(self):
        path = self.rename()
        self.person.wait_stage("renaming")
        self.assertEqual((self.person.path, str(self.person.get(path, PICKER, "Kind"))), (path, "rename"))
        self.assertEqual([str(each["name"]) for each in self.person.offers], ["Pink Dice"])
        self.person.ask("Rename", "s", "Kitchen")
        self.dice.wait_event("pickerDidDismiss", count=2)
        self.assertEqual(self.dice.told()[-4:], ["pickerDidPresent", "pickerSetupRename", "accessoryChanged", "pickerDidDismiss"])
        for app in (self.dice, self.board):
            self.assertEqual(app.wait_event("accessoryChanged")["properties"]["DisplayName"], "Kitchen")
            self.assertEqual(app.get(self.accessory, ACCESSORY, "DisplayName"), "Kitchen")
        self.world.restart_daemon()
        self.assertEqual(self.world.admin.get(self.accessory, ACCESSORY, "DisplayName"), "Kitchen")

    def test_the_person_does_not_want_to(self):
        self.rename()
        self.person.wait_stage("renaming")
        self.person.cancel()
        self.assertEqual(self.dice.wait_event("pickerDidDismiss", count=2)["error"], error("UserCancelled"))
        self.assertEqual(self.dice.get(self.accessory, ACCESSORY, "DisplayName"), "Pink Dice")
        self.assertNotIn("accessoryChanged", self.dice.told())

    def test_it_works_without_a_radio(self):
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.rename()
        self.person.wait_stage("renaming")
        self.person.ask("Rename", "s", "Kitchen")
        self.dice.wait_event("accessoryChanged")

    def test_what_is_refused(self):
        for says, arguments in [
            (["colour"], {"colour": "pink"}), (["renameOptions", "bssid"], {"renameOptions": ["bssid"]}),
            (["renameOptions", "type"], {"renameOptions": "ssid"}), (["ssid", "network"], {"renameOptions": ["ssid"]}),
        ]:
            with self.subTest(says):
                self.assertFails(INVALID, self.rename, says=says, **arguments)
        self.assertFails(UNKNOWN_OBJECT, self.rename, f"{ROOT}/accessory/1")
        stranger = App(self.world).begin()
        stranger.request("Invalidate")
        self.assertFails(
            error("Invalidated"), stranger.request, "RenameAccessory", "oa{sv}", dbus.ObjectPath(self.accessory), sv({}))
        self.dice.show_picker(item("Blue", BLUE))
        self.assertFails(error("PickerAlreadyActive"), self.rename)
        self.person.wait_shown()
        self.assertFails(INVALID, self.person.ask, "Rename", "s", "Kitchen")
        self.person.cancel()
        self.person.wait_gone()
        self.person.close()
        wait(lambda: not self.world.manager("PickerAvailable"), 5, "no picker", also_every=0.1)
        self.assertFails(error("PickerRestricted"), self.rename)
        self.assertEqual(self.dice.get(self.accessory, ACCESSORY, "DisplayName"), "Pink Dice")

    def test_an_admin_renames(self):
        admin = self.world.admin
        for name in NOT_A_NAME:
            with self.subTest(name[:10]):
                self.assertFails(INVALID, admin.call, self.accessory, ACCESSORY, "Rename", "s", name, says=["name"])
        admin.call(self.accessory, ACCESSORY, "Rename", "s", "Hall")
        for app in (self.dice, self.board):
            self.assertEqual(app.wait_event("accessoryChanged")["properties"]["DisplayName"], "Hall")
        self.assertFails(BUS_ERROR + "UnknownMethod", self.dice.call, self.accessory, ACCESSORY, "Rename", "s", "Mine")
