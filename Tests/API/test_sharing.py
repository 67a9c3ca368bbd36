# SPDX-License-Identifier: Apache-2.0
"""A second app and an accessory that is set up already; the end of a grant, for one app and for the last one."""

import os

import dbus

from harness.names import ACCESSORY, BUS_ERROR, GRANT, INVALID_ARGS, PNG, PROPERTIES, ROOT, SOMEBODY_ELSE, UNKNOWN_OBJECT
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest


class Sharing(APITest):
    apps = ("dice", "board")
    # A comparison would reveal a second pairing, because it needs an answer.
    scenario = scenario(accessory("pink", pairing={"mode": "numericComparison"}))

    def setUp(self):
        super().setUp()
        self.person = self.picker()
        self.dice, self.board = self.app("dice"), self.app("board", SOMEBODY_ELSE)
        self.accessory = self.add(self.dice, self.person, "pink", item("Stored Name", productImage=PNG), answer={"accept": True})
        # A connected accessory does not advertise.
        self.device("Disconnect")

    def device(self, member):
        path = self.dice.get(self.accessory, ACCESSORY, "Device")
        self.world.admin.call(path, "org.bluez.Device1", member, to="org.bluez")

    def share(self):
        return self.add(self.board, self.person, "pink", item("Another Name", productImage=PNG + b"another"))

    def test_it_is_offered_as_shared_with_what_is_stored(self):
        self.board.show_picker(item("Another Name", productImage=PNG + b"another"))
        offer = self.person.wait_offer("pink")
        self.assertTrue(offer["shared"])
        self.assertEqual(offer["name"], "Stored Name")
        with os.fdopen(self.person.ask("GetImage", "s", offer["id"]).take(), "rb") as image:
            image.seek(0)
            self.assertEqual(image.read(), PNG)

    def test_it_gets_a_grant_of_its_own_and_no_second_pairing(self):
        self.assertNotIn(self.accessory, self.board.objects())
        self.assertFails(UNKNOWN_OBJECT, self.board.get, self.accessory, ACCESSORY, "DisplayName")
        self.assertEqual(self.share(), self.accessory)
        self.assertEqual(self.board.told(), ["activated", "pickerDidPresent", "accessoryAdded", "pickerDidDismiss"])
        self.assertNotIn("confirming", self.person.stages)
        self.assertEqual(self.board.wait_event("accessoryAdded")["properties"]["DisplayName"], "Stored Name")
        self.assertEqual(sorted(each["App"] for each in self.world.grants().values()), ["com.example.board", "com.example.dice"])
        self.assertEqual(sorted(self.world.admin.get(self.accessory, ACCESSORY, "Apps")), ["com.example.board", "com.example.dice"])
        self.assertEqual(self.world.admin.paths("accessory"), [self.accessory])
        self.assertEqual(self.simulator.bonds, ["pink"])
        for app in (self.dice, self.board):
            self.assertEqual(app.accessories, [self.accessory])
        # The first app is not concerned.
        self.assertEqual(self.dice.told()[-1], "pickerDidDismiss")

    def test_the_bond_is_everybodys_until_the_last_one_goes(self):
        self.share()
        self.dice.remove(self.accessory)
        removed = self.dice.wait_event("accessoryRemoved")
        self.assertEqual(removed["accessory"], self.accessory)
        self.assertEqual(removed["properties"]["DisplayName"], "Stored Name")
        self.assertEqual(self.dice.accessories, [])
        self.assertFails(UNKNOWN_OBJECT, self.dice.get, self.accessory, ACCESSORY, "DisplayName")
        self.assertEqual(self.board.accessories, [self.accessory])
        self.assertEqual(self.simulator.bonds, ["pink"])
        self.assertNotIn("accessoryRemoved", self.board.told())
        self.board.remove(self.accessory)
        self.board.wait_event("accessoryRemoved")
        self.assertNothingLeft()

    def test_an_accessory_that_is_connected_can_be_shared(self):
        # The first app's link must not keep the second one out.
        self.device("Connect")
        self.assertEqual(self.simulator.connections, ["pink"])
        self.share()

    def test_the_app_does_not_get_it_twice(self):
        self.dice.show_picker(item("Stored Name"), discoveryTimeout=1.0)
        self.dice.wait_event("pickerDidDismiss", count=2)
        self.assertEqual(len(self.world.grants()), 1)
        self.assertEqual(self.dice.accessories, [self.accessory])


class SharingWhatAdvertisesAServiceThatItHasNot(Sharing):
    """Once it was connected, BlueZ reports only the services that it has. All tests above hold."""

    scenario = scenario(accessory(
        "pink", pairing={"mode": "numericComparison"},
        gatt=[{"uuid": "1815", "characteristics": [{"uuid": "2A56", "flags": ["read"], "value": "00"}]}]))

    def test_bluez_tells_of_what_it_has(self):
        path = self.dice.get(self.accessory, ACCESSORY, "Device")
        self.device("Connect")
        services = self.world.admin.call(path, PROPERTIES, "Get", "ss", "org.bluez.Device1", "UUIDs", to="org.bluez")
        self.assertEqual([str(each)[4:8] for each in services], ["1815"])


class Removing(APITest):
    def setUp(self):
        super().setUp()
        self.dice, self.person = self.app(), self.picker()
        self.accessory = self.add(self.dice, self.person, "Dice 4F")

    def expect_gone(self):
        removed = self.dice.wait_event("accessoryRemoved")
        self.assertEqual(removed["accessory"], self.accessory)
        # The object is gone: the event still has its properties.
        self.assertEqual(removed["properties"]["DisplayName"], "Pink Dice")
        self.assertTrue(removed["properties"]["BluetoothIdentifier"])
        wait(lambda: any(each.member == "InterfacesRemoved" and each.arguments[0] == self.accessory for each in self.dice.signals),
             5, "InterfacesRemoved of the accessory")
        self.assertEqual(self.dice.accessories, [])
        for each in (self.dice, self.world.admin):
            self.assertFails(UNKNOWN_OBJECT, each.get, self.accessory, ACCESSORY, "DisplayName")
        self.assertFails(UNKNOWN_OBJECT, self.dice.remove, self.accessory)
        self.assertNothingLeft()

    def test_by_the_app(self):
        self.dice.remove(self.accessory)
        self.assertEqual(self.simulator.bonds, [])
        self.expect_gone()

    def test_by_the_admin(self):
        self.world.admin.call(self.accessory, ACCESSORY, "Remove")
        self.assertEqual(self.simulator.bonds, [])
        self.expect_gone()

    def test_by_revoking(self):
        [grant] = self.world.grants()
        self.world.admin.call(grant, GRANT, "Revoke")
        self.assertEqual(self.simulator.bonds, [])
        self.expect_gone()
        self.assertFails(UNKNOWN_OBJECT, self.world.admin.call, grant, GRANT, "Revoke")
        self.assertFails(UNKNOWN_OBJECT, self.world.admin.get, grant, GRANT, "App")

    def test_while_the_radio_is_away(self):
        for action, target, back in [
            ("adapterPowerOff", "hci0", "adapterPowerOn"), ("adapterRemoved", "hci0", "adapterAdded"),
            ("serviceStopped", "", "serviceStarted"),
        ]:
            with self.subTest(action):
                self.start(self.scenario)
                self.dice = self.app()
                self.accessory = self.add(self.dice, self.picker(), "Dice 4F")
                self.simulator.do(action, target)
                wait(lambda: self.world.manager("Bluetooth") != "ready", 5, "the radio to be away", also_every=0.1)
                self.dice.remove(self.accessory)
                self.dice.wait_event("accessoryRemoved")
                self.assertEqual(self.world.grants(), {})
                self.simulator.do(back, target)
                self.world.wait_bluetooth("ready")
                self.assertNothingLeft()

    def test_what_was_removed_can_be_added_again(self):
        self.dice.remove(self.accessory)
        self.dice.wait_event("accessoryRemoved")
        again = self.add(self.dice, self.person, "Dice 4F")
        self.assertEqual(self.dice.accessories, [again])
        self.assertEqual(self.simulator.bonds, ["pink-dice"])


class Switching(APITest):
    """Grant.Enabled. For the app, a grant that is switched off is as if revoked, but the bond and the grant stay."""

    def setUp(self):
        super().setUp()
        self.dice, self.person = self.app(), self.picker()
        self.accessory = self.add(self.dice, self.person, "Dice 4F")
        [self.grant] = self.world.grants()

    def switch(self, value):
        self.world.admin.call(self.grant, PROPERTIES, "Set", "ssv", GRANT, "Enabled", value)

    def expect_off(self):
        self.dice.wait_event("accessoryRemoved")
        self.assertEqual(self.dice.accessories, [])
        self.assertNotIn(self.accessory, self.dice.objects())
        self.assertFails(UNKNOWN_OBJECT, self.dice.get, self.accessory, ACCESSORY, "DisplayName")
        self.assertFails(UNKNOWN_OBJECT, self.dice.remove, self.accessory)
        self.assertFalse(self.world.grants()[self.grant]["Enabled"])
        self.assertEqual(self.simulator.bonds, ["pink-dice"])

    def test_off_and_on(self):
        self.switch(True)  # as it is: nothing happens
        self.switch(False)
        self.expect_off()
        self.switch(True)
        self.dice.wait_event("accessoryAdded", count=2)
        self.assertEqual(self.dice.accessories, [self.accessory])
        self.assertEqual(self.dice.get(self.accessory, ACCESSORY, "State"), "authorized")
        self.assertEqual(self.dice.told()[-3:], ["pickerDidDismiss", "accessoryRemoved", "accessoryAdded"])

    def test_off_stays_off_after_a_restart(self):
        self.switch(False)
        self.world.restart_daemon()
        self.dice = self.app()
        self.assertEqual(self.dice.accessories, [])
        self.assertFalse(self.world.grants()[self.grant]["Enabled"])

    def test_the_admin_is_told(self):
        self.world.admin.signals.clear()
        self.switch(False)
        wait(lambda: any(
            each.member == "PropertiesChanged" and each.path == self.grant and each.arguments[1].get("Enabled") is not None
            and not each.arguments[1]["Enabled"] for each in self.world.admin.signals), 5, "PropertiesChanged of the grant")

    def test_an_app_cannot_ask_its_way_around_it(self):
        self.switch(False)
        self.expect_off()
        self.dice.show_picker(item(), discoveryTimeout=1.0)
        self.dice.wait_event("pickerDidDismiss", count=2)
        self.assertEqual(self.dice.accessories, [])
        self.assertFalse(self.world.grants()[self.grant]["Enabled"])

    def test_what_cannot_be_set(self):
        for name, value in (("App", "com.example.board"), ("State", "unauthorized"), ("Created", dbus.UInt64(1))):
            with self.subTest(name):
                self.assertFails(BUS_ERROR + "PropertyReadOnly", self.world.admin.call, self.grant, PROPERTIES, "Set", "ssv",
                                 GRANT, name, value)
        self.assertFails(INVALID_ARGS, self.switch, "off")
        self.assertFails(BUS_ERROR + "UnknownProperty", self.world.admin.get, self.grant, GRANT, "Colour")
        self.assertTrue(self.world.grants()[self.grant]["Enabled"])

    def test_an_app_cannot_switch(self):
        for grant in (self.grant, f"{ROOT}/grant/999"):
            self.assertFails(UNKNOWN_OBJECT, self.dice.call, grant, PROPERTIES, "Set", "ssv", GRANT, "Enabled", False)
            self.assertFails(UNKNOWN_OBJECT, self.dice.call, grant, GRANT, "Revoke")
