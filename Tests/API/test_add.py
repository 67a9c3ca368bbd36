# SPDX-License-Identifier: Apache-2.0
"""Adding an accessory: events, their order and contents, and the state afterwards."""

import contextlib
import os
import time
import uuid

import dbus

from harness.names import ACCESSORY, ADMIN, ADMIN_PATH, BLUE, PICKER, PINK, PNG, ROOT, SESSION, error
from harness.radio import Paired, accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest


class Add(APITest):
    def test_the_whole_way(self):
        picker = self.picker()
        app = self.app()
        self.assertEqual(app.state, "active")
        self.assertEqual(app.get(app.session, SESSION, "App"), "com.example.dice")
        began = time.time()
        path = app.show_picker(item("Pink Dice"), item("Blue Dice", BLUE), discoveryTimeout=20.0)
        self.assertRegex(path, rf"^{ROOT}/picker/\w+$")

        picker.wait_stage("offering")
        self.assertEqual(picker.path, path)
        pink, blue = picker.wait_offer("Dice 4F"), picker.wait_offer("Dice A2")
        self.assertEqual((pink["name"], blue["name"]), ("Pink Dice", "Blue Dice"))
        self.assertEqual(len(picker.offers), 2)
        for offer in picker.offers:
            self.assertEqual(set(offer), {"id", "name", "advertisedName", "rssi", "shared", "hasImage", "accessChoices"})
            self.assertIsInstance(offer["rssi"], dbus.Int16)
            self.assertFalse(offer["shared"] or offer["hasImage"])
        properties = picker.get_all(path, PICKER)
        self.assertEqual((properties["App"], properties["AppName"], properties["Kind"]), ("com.example.dice", "Dice", "discovery"))
        self.assertEqual(dict(properties["Prompt"]), {})
        self.assertTrue(self.simulator.discovering)

        picker.pick("Dice 4F")
        app.wait_event("pickerDidDismiss")
        self.assertEqual(
            app.told(), ["activated", "pickerDidPresent", "pickerSetupPairing", "accessoryAdded", "pickerDidDismiss"])
        for kind, details in app.events[1:]:
            self.assertEqual(details.get("picker"), path, kind)
            self.assertNotIn("error", details, kind)
        picker.wait_gone()
        self.assertEqual(picker.stages, ["searching", "offering", "pairing", "done"])

        # The accessory, in the event and on the bus.
        details = app.wait_event("accessoryAdded")
        accessory = str(details["accessory"])
        snapshot = details["properties"]
        self.assertEqual(set(snapshot), {
            "DisplayName", "State", "BluetoothIdentifier", "BluetoothTransportBridgingIdentifier", "Ssid",
            "WiFiAwarePairedDeviceID", "Descriptor", "Device", "Endpoint", "Ends", "Access", "Characteristics"})
        self.assertEqual((snapshot["DisplayName"], snapshot["State"]), ("Pink Dice", "authorized"))
        uuid.UUID(snapshot["BluetoothIdentifier"])
        self.assertEqual(snapshot["Device"], "/org/bluez/hci0/dev_C0_FF_EE_00_00_01")
        self.assertEqual(snapshot["Descriptor"]["bluetoothServiceUUID"].upper(), PINK)
        self.assertEqual(list(snapshot["Descriptor"]["supportedOptions"]), ["bluetoothPairingLE"])
        self.assertEqual(app.get_all(accessory, ACCESSORY), snapshot)
        self.assertEqual(app.accessories, [accessory])
        self.assertEqual(app.objects()[accessory][ACCESSORY], snapshot)
        wait(lambda: any(each.member == "InterfacesAdded" and each.arguments[0] == accessory for each in app.signals), 5,
             "InterfacesAdded of the accessory")

        # The admin's view.
        for_admin = self.world.admin.get_all(accessory, ACCESSORY)
        self.assertEqual(for_admin["Address"], "C0:FF:EE:00:00:01")
        self.assertEqual(list(for_admin["Apps"]), ["com.example.dice"])
        [grant] = self.world.grants().values()
        self.assertEqual((grant["App"], grant["Accessory"], grant["State"]), ("com.example.dice", accessory, "authorized"))
        self.assertTrue(grant["Enabled"])
        self.assertAlmostEqual(grant["Created"], began, delta=60)
        self.assertEqual(self.simulator.bonds, ["pink-dice"])
        wait(lambda: not self.simulator.discovering, 5, "discovery to end", also_every=0.1)

    def test_the_session_is_free_again_after_the_picker(self):
        picker, app = self.picker(), self.app()
        items = item("Pink Dice"), item("Blue Dice", BLUE)
        first = self.add(app, picker, "Dice 4F", *items)
        second = self.add(app, picker, "Dice A2", *items, answer={"accept": True})
        self.assertEqual(app.accessories, sorted([first, second]))
        self.assertEqual(self.simulator.bonds, ["blue-dice", "pink-dice"])

    def test_rule_10_nothing_is_paired_before_the_person_picks(self):
        app, picker = self.app(), self.picker()
        app.show_picker(item())
        picker.wait_offer("Dice 4F")
        # Found and offered: no link, no bond, until the person picks.
        app.settle()
        self.assertEqual((self.simulator.bonds, self.simulator.connections), ([], []))
        picker.pick("Dice 4F")
        app.wait_event("accessoryAdded")
        self.assertEqual(self.simulator.bonds, ["pink-dice"])

    def test_rule_10_without_pairing_there_is_a_grant_and_no_bond(self):
        picker, app = self.picker(), self.app()
        accessory = self.add(app, picker, "Dice 4F", item(pairs=False))
        self.assertEqual(app.accessories, [accessory])
        self.assertEqual(len(self.world.grants()), 1)
        self.assertEqual(self.simulator.bonds, [])

    def test_all_sessions_of_the_app_hear_of_it(self):
        picker, app, other = self.picker(), self.app(), self.app()
        accessory = self.add(app, picker, "Dice 4F")
        self.assertEqual(other.wait_event("accessoryAdded")["accessory"], accessory)
        self.assertEqual(other.accessories, [accessory])
        self.assertEqual(other.told(), ["activated", "accessoryAdded"])

    def test_rule_16_an_identity_outlives_a_private_address(self):
        self.start(scenario(accessory("private", 9, addressType="rpa")))
        picker, app = self.picker(), self.app()
        added = self.add(app, picker, "private")
        self.assertEqual(self.world.admin.get(added, ACCESSORY, "Address"), "C0:FF:EE:00:02:09")
        self.assertEqual(self.simulator.bonds, ["private"])
        self.world.restart_daemon()
        app = self.app()
        self.assertEqual(app.accessories, [added])
        wait(lambda: app.get(added, ACCESSORY, "Device") != "/", 10, "BlueZ' object of it", also_every=0.1)

    def test_an_address_that_rotates(self):
        # It is one offer while the person looks, and one accessory for good.
        self.start(scenario(accessory("private", 9, addressType="rpa", rotates=1)))
        picker, app = self.picker(), self.app()
        app.show_picker(item())
        first = str(picker.wait_offer("private")["id"])
        wait(lambda: len(self.simulator.devices()) > 3, 20, "it under other addresses", also_every=0.1)
        picker.settle()

        def picked():
            # The offer that was picked may be of an address that is no more.
            if "accessoryAdded" in app.event_types:
                return True
            if picker.state.get("Stage") == "offering":
                for offer in reversed(picker.offers):
                    with contextlib.suppress(dbus.DBusException):
                        picker.ask("Pick", "s", offer["id"])
                        break
            return None

        self.assertEqual([str(each["id"]) for each in picker.offers], [first])
        wait(picked, 30, lambda: f"it to be added; stages were {picker.stages}", also_every=0.2)
        self.assertEqual([self.world.admin.get(each, ACCESSORY, "Address") for each in app.accessories], ["C0:FF:EE:00:02:09"])

    def test_an_accessory_that_another_program_has_paired(self):
        # It has its bond; the person is asked for nothing more.
        self.start(scenario(accessory("compares", pairing={"mode": "numericComparison"})))
        picker, app = self.picker(), self.app()
        device = "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"
        with Paired(self.world, device):
            self.assertEqual(self.simulator.bonds, ["compares"])
            app.show_picker(item())
            # The picker shows it, and the trail does not claim the pairing.
            self.assertTrue(picker.wait_offer("compares")["paired"])
            picker.pick("compares")
            app.wait_event("pickerDidDismiss")
        events = [str(each["event"]) for each in self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", {})]
        self.assertEqual(("adopted" in events, "paired" in events), (True, False))
        self.assertNotIn("confirming", picker.stages)
        self.assertEqual(self.simulator.bonds, ["compares"])
        self.assertEqual(len(self.world.grants()), 1)

    def test_the_deadline_is_shown(self):
        self.start(scenario())
        picker, app = self.picker(), self.app()
        app.show_picker(item(), discoveryTimeout=60.0)
        picker.wait_stage("searching")
        wait(lambda: picker.state.get("Deadline"), 5, "a deadline")
        self.assertAlmostEqual(picker.state["Deadline"] / 1e6, time.time() + 60, delta=5)
        picker.cancel()
        picker.wait_gone()
        app.show_picker(item(), discoveryTimeout=float("inf"))
        picker.wait_stage("searching")
        picker.settle()
        self.assertEqual(picker.get(picker.path, PICKER, "Deadline"), 0)


class OneProduct(APITest):
    """Two accessories of one product, which have one name."""

    advert = {"serviceUUIDs": [PINK], "name": "Dice"}
    compares = {"mode": "numericComparison"}
    scenario = scenario(
        accessory("a", 0x1A, advert=advert, pairing=compares), accessory("b", 0x2B, advert=advert, pairing=compares),
        accessory("c", 3, BLUE))

    def test_they_are_told_apart_by_their_addresses(self):
        person, app = self.picker(), self.app()
        app.show_picker(item("Pink Dice"), item("Blue Dice", BLUE))
        wait(lambda: len(person.offers) == 3, what=lambda: f"three offers; there are {person.offers}")
        ends = lambda: sorted((str(each["name"]), str(each.get("addressEnd", ""))) for each in person.offers)
        self.assertEqual(ends(), [("Blue Dice", ""), ("Pink Dice", "02:1A"), ("Pink Dice", "02:2B")])
        # The question about the picked one has it, too.
        person.call(person.path, PICKER, "Pick", "s", next(each["id"] for each in person.offers if each.get("addressEnd") == "02:2B"))
        person.wait_prompt("confirm-passkey")
        self.assertEqual(ends(), [("Pink Dice", "02:2B")])
        person.respond(accept=True)
        app.wait_event("accessoryAdded")


class Images(APITest):
    def image(self, **more):
        """Offers a die with this image and returns the picker program's image."""
        picker, app = self.picker(), self.app()
        app.show_picker(item(**more))
        offer = picker.wait_offer("Dice 4F")
        self.assertTrue(offer["hasImage"])
        with os.fdopen(picker.ask("GetImage", "s", offer["id"]).take(), "rb") as file:
            file.seek(0)
            image = file.read()
        self.assertEqual(bytes(picker.ask("ImageData", "s", offer["id"])), image)
        return image

    def test_as_bytes(self):
        self.assertEqual(self.image(productImage=PNG), PNG)

    def test_as_a_file(self):
        path = self.world.directory / "image.svg"
        svg = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>\n'
        path.write_bytes(svg)
        with path.open("rb") as file:
            self.assertEqual(self.image(productImage=dbus.types.UnixFd(file)), svg)

    def test_of_the_greatest_size(self):
        jpeg = b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + bytes((1 << 20) - 11)
        self.assertEqual(self.image(productImage=jpeg), jpeg)

    def test_none(self):
        picker, app = self.picker(), self.app()
        app.show_picker(item())
        offer = picker.wait_offer("Dice 4F")
        for method in ("GetImage", "ImageData"):
            with self.assertRaises(dbus.DBusException):
                picker.ask(method, "s", offer["id"])
            self.assertFails(error("InvalidRequest"), picker.ask, method, "s", "never offered", says=["is not offered"])
