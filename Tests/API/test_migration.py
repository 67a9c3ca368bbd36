# SPDX-License-Identifier: Apache-2.0
"""Accessories that an app used before: taken over alone, with the person's consent, or along with a new one."""

import dbus

from harness.names import ACCESSORY, GRANT, PINK, PNG, PROPERTIES, SOMEBODY_ELSE, error
from harness.radio import Paired, accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest

INVALID = error("InvalidRequest")
PINK_ADDRESS, BLUE_ADDRESS = "C0:FF:EE:00:02:01", "C0:FF:EE:00:02:02"


def path_of(address):
    return "/org/bluez/hci0/dev_" + address.replace(":", "_")


def migration(name, identifier, **more):
    return item(name, **more) | {"peripheralIdentifier": identifier}


class Migrating(APITest):
    apps = ("dice", "board")
    scenario = scenario(accessory("pink"), accessory("blue", 2), accessory("new", 3))

    def setUp(self):
        super().setUp()
        for address in (PINK_ADDRESS, BLUE_ADDRESS):
            with Paired(self.world, path_of(address)):
                pass
        self.person, self.dice = self.picker(), self.app()

    def test_rule_15_only_migration_items(self):
        path = self.dice.show_picker(migration("Pink Dice", PINK_ADDRESS, productImage=PNG), migration("Blue Dice", BLUE_ADDRESS.lower()))
        self.person.wait_prompt("consent")
        self.assertEqual((str(self.person.state["Kind"]), str(self.person.state["Stage"])), ("migration", "confirming"))
        self.assertEqual([str(each["name"]) for each in self.person.offers], ["Pink Dice", "Blue Dice"])
        self.assertFalse(self.simulator.discovering)
        self.assertEqual(self.world.grants(), {})
        self.person.respond(accept=True)
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.dice.told(), ["activated", "pickerDidPresent", "migrationComplete", "migrationComplete", "pickerDidDismiss"])
        first, second = (self.dice.wait_event("migrationComplete", count=count) for count in (1, 2))
        self.assertEqual([str(each["properties"]["DisplayName"]) for each in (first, second)], ["Pink Dice", "Blue Dice"])
        self.assertEqual([str(each["picker"]) for each in (first, second)], [path, path])
        self.assertEqual(self.dice.accessories, sorted([str(first["accessory"]), str(second["accessory"])]))
        self.assertEqual(self.dice.get(first["accessory"], ACCESSORY, "Device"), path_of(PINK_ADDRESS))
        # Another program made the bond: it stays when the grant goes.
        self.dice.remove(str(first["accessory"]))
        self.assertEqual(self.dice.accessories, [str(second["accessory"])])
        self.assertEqual(self.simulator.bonds, ["blue", "pink"])

    def test_rule_15_silence_is_not_consent(self):
        self.dice.show_picker(migration("Pink Dice", PINK_ADDRESS))
        self.person.wait_prompt("consent")
        self.assertEqual(self.person.state["Deadline"], 0)
        self.person.respond(accept=True)
        self.dice.wait_event("migrationComplete", 15)
        self.assertNotIn("error", self.dice.wait_event("pickerDidDismiss"))

    def test_what_is_not_what_the_item_looks_for(self):
        """The same answer as for an unpaired device: an app cannot probe the machine's pairings."""
        self.world.declare("dice", BluetoothServices=f"{PINK};180A;")
        dice = self.app()
        said = set()
        for address in (PINK_ADDRESS, "C0:FF:EE:00:02:03"):
            with self.assertRaises(dbus.DBusException) as caught:
                dice.show_picker(migration("x", address, service="180A"))
            said.add(str(caught.exception).replace(address, "it"))
        self.assertEqual(len(said), 1, said)
        self.assertIn("InvalidRequest", said.pop())

    def test_the_person_says_no(self):
        for answer in (lambda: self.person.respond(accept=False), self.person.cancel):
            self.dice.show_picker(migration("Pink Dice", PINK_ADDRESS))
            self.person.wait_prompt("consent")
            answer()
            self.assertDismissed(self.dice, "UserCancelled")
        self.assertEqual(self.simulator.bonds, ["blue", "pink"])

    def test_rule_15_along_with_a_new_accessory(self):
        self.dice.show_picker(migration("Pink Dice", PINK_ADDRESS), item("New Dice"))
        self.person.wait_offer("new")
        self.assertEqual([str(each) for each in self.person.state["Prompt"]["migrations"]], ["Pink Dice (“pink”)"])
        self.person.pick("new")
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.dice.told()[-3:], ["accessoryAdded", "migrationComplete", "pickerDidDismiss"])
        self.assertEqual(len(self.dice.accessories), 2)

    def test_rule_15_without_a_new_accessory_nothing_is_taken_over(self):
        self.dice.show_picker(migration("Pink Dice", PINK_ADDRESS), item("New Dice"))
        self.person.wait_offer("new")
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")

    def test_what_another_app_has_keeps_its_name(self):
        board = self.app("board", SOMEBODY_ELSE)
        board.show_picker(migration("Stored Name", PINK_ADDRESS))
        self.person.wait_prompt("consent")
        self.person.respond(accept=True)
        stored = board.wait_event("migrationComplete")
        self.person.wait_gone()
        self.dice.show_picker(migration("Another Name", str(stored["properties"]["BluetoothIdentifier"])))
        self.person.wait_prompt("consent")
        self.assertTrue(self.person.offers[0]["shared"])
        self.person.respond(accept=True)
        mine = self.dice.wait_event("migrationComplete")
        self.assertEqual((mine["accessory"], mine["properties"]["DisplayName"]), (stored["accessory"], "Stored Name"))
        self.assertEqual(len(self.world.grants()), 2)

    def test_what_is_refused(self):
        for says, wrong in [
            (["peripheralIdentifier", "pink"], migration("x", "pink")),
            (["peripheralIdentifier", "type"], migration("x", dbus.UInt32(1))),
            # Heard, and not paired.
            (["peripheralIdentifier", "C0:FF:EE:00:02:03"], migration("x", "C0:FF:EE:00:02:03")),
            (["peripheralIdentifier", "00:00:00:00:00:01"], migration("x", "00:00:00:00:00:01")),
            (["peripheralIdentifier", "00000000"], migration("x", "00000000-0000-4000-8000-000000000000")),
            (["hotspotSSID", "1 to 32"], item() | {"hotspotSSID": b"x" * 33}),
            (["hotspotSSID", "WiFi"], item() | {"hotspotSSID": b"Dice"}),
            (["wifiAwarePairedDeviceID", "type"], item() | {"wifiAwarePairedDeviceID": "1"}),
            (["bluetoothServiceUUID"], migration("x", PINK_ADDRESS, service="180A")),
        ]:
            with self.subTest(says):
                self.assertFails(INVALID, self.dice.show_picker, wrong, says=says)
        self.assertEqual(self.dice.told(), ["activated"])

    def test_what_an_admin_has_switched_off(self):
        self.dice.show_picker(migration("Pink Dice", PINK_ADDRESS))
        self.person.wait_prompt("consent")
        self.person.respond(accept=True)
        self.person.wait_gone()
        self.world.admin.call(
            next(iter(self.world.grants())), PROPERTIES, "Set", "ssv", GRANT, "Enabled", dbus.Boolean(False, variant_level=1))
        self.assertFails(
            error("UserRestricted"), self.dice.show_picker, migration("Pink Dice", PINK_ADDRESS), says=["peripheralIdentifier", PINK_ADDRESS])
        self.assertEqual(self.dice.accessories, [])

    def test_bluetooth_loses_it_meanwhile(self):
        self.dice.show_picker(migration("Pink Dice", PINK_ADDRESS), migration("Blue Dice", BLUE_ADDRESS))
        self.person.wait_prompt("consent")
        self.world.admin.call("/org/bluez/hci0", "org.bluez.Adapter1", "RemoveDevice", "o", dbus.ObjectPath(path_of(PINK_ADDRESS)), to="org.bluez")
        # The daemon has a connection of its own to BlueZ. At the second answer it has seen the signals before
        # the first.
        self.person.settle()
        self.person.settle()
        self.person.respond(accept=True)
        self.assertEqual(self.dice.wait_event("migrationComplete")["error"], error("ConnectionFailed"))
        self.assertNotIn("error", self.dice.wait_event("migrationComplete", count=2))
        self.assertEqual(len(self.dice.accessories), 1)


class Evidence(APITest):
    """BlueZ keeps name and services of a silent accessory, and not the data of its adverts."""

    scenario = scenario(accessory("scale", advert={"serviceUUIDs": [PINK], "name": "scale", "manufacturerData": {"FFFE": "0102"}}),
                        accessory("blue", 2))
    manifest = {"BluetoothCompanyIdentifiers": "FFFE;FFFD;"}

    def setUp(self):
        super().setUp()
        for address in (PINK_ADDRESS, BLUE_ADDRESS):
            with Paired(self.world, path_of(address)):
                pass
        self.dice = self.app()

    def forget_adverts(self):
        """bluetoothd starts anew, with the data from its disk."""
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")

    def scale(self, company):
        found = migration("Scale", PINK_ADDRESS, bluetoothCompanyIdentifier=dbus.UInt16(company))
        # The simulator's bluetoothd does not keep services that were advertised only.
        del found["descriptor"]["bluetoothServiceUUID"]
        return found

    def complete(self, count=1):
        return self.dice.wait_event("migrationComplete", count=count)

    def test_of_a_silent_one_the_person_decides(self):
        self.simulator.do("vanish", "scale")
        self.forget_adverts()
        person = self.picker()
        self.dice.show_picker(self.scale(0xFFFE))
        person.wait_prompt("consent")
        self.assertEqual([str(each["name"]) for each in person.offers], [f"Scale (“scale”, {PINK_ADDRESS})"])
        person.respond(accept=True)
        self.assertEqual(str(self.complete()["properties"]["DisplayName"]), "Scale")

    def take_over_what_is_heard(self, company):
        """Returns the details of `migrationComplete`, after adverts of the accessory were heard while the page was shown."""
        self.forget_adverts()
        person = self.picker()
        self.dice.show_picker(self.scale(company))
        person.wait_prompt("consent")
        wait(lambda: self.simulator.discovering, 10, "a search", also_every=0.02)
        for _ in range(3):
            self.world.pass_second()
        person.respond(accept=True)
        details = self.complete()
        wait(lambda: not self.simulator.discovering, 10, "the search to end", also_every=0.02)
        return details

    def test_an_advert_that_fits(self):
        self.assertNotIn("error", self.take_over_what_is_heard(0xFFFE))

    def test_an_advert_that_does_not(self):
        self.assertIn("does not match the item's descriptor", self.take_over_what_is_heard(0xFFFD)["message"])
        self.assertEqual(self.world.grants(), {})

    def test_without_a_person_it_is_not_taken_over(self):
        self.simulator.do("vanish", "scale")
        self.forget_adverts()
        self.world.policy.mkdir()
        (self.world.policy / "a.conf").write_text(f"[Approve scale]\nApp=com.example.dice\nAddress={PINK_ADDRESS}\n")
        self.world.restart_daemon()
        self.dice = self.app()
        self.dice.show_picker(self.scale(0xFFFE))
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.world.grants(), {})

    def test_a_stale_entry_does_not_refuse_the_others(self):
        person = self.picker()
        stale = migration("Old", "00:00:00:00:00:01")
        self.dice.show_picker(stale, migration("Blue", BLUE_ADDRESS))
        person.wait_prompt("consent")
        self.assertEqual([str(each["advertisedName"]) for each in person.offers], ["blue"])
        person.respond(accept=True)
        self.assertEqual(str(self.complete()["properties"]["DisplayName"]), "Blue")
        failed = self.complete(2)
        self.assertEqual(failed["error"], INVALID)
        self.assertIn("items[0].peripheralIdentifier", failed["message"])
        person.wait_gone()
        # Nothing is left to be shown.
        self.assertFails(INVALID, self.dice.show_picker, stale, says=["items[0].peripheralIdentifier"])
