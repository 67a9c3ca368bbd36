# SPDX-License-Identifier: Apache-2.0
"""Pickers whose app filters the accessories: its events, its offers, and how such a discovery ends."""

import dbus

from harness.names import PINK, PNG, SOMEBODY_ELSE, error
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest

INVALID = error("InvalidRequest")
# The name comes with the scan response, as it usually does.
DATA = {"serviceUUIDs": [PINK], "serviceData": {"180F": "64"}, "scanResponse": {"name": "pink", "manufacturerData": {"FFFF": "0102"}, "txPower": -4}}


class Filtering(APITest):
    apps = ("dice", "board")
    scenario = scenario(accessory("pink", advert=DATA), accessory("second", 2), accessory("lamp", 3, service="180A"))

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()

    def show(self, **settings):
        return self.dice.show_picker(item(), options=["filterDiscoveryResults"], **settings)

    def discovered(self, name):
        def look():
            return next((details for kind, details in self.dice.events
                         if kind == "accessoryDiscovered" and details["advertisement"].get("localName") == name), None)
        return wait(look, 10, lambda: f"{name} to be discovered; came {self.dice.event_types}")

    def update(self, *items):
        self.dice.request("UpdatePicker", "aa{sv}", dbus.Array([sv(each) for each in items], "a{sv}"))

    def test_rule_9_the_app_sees_it_as_it_is_and_decides(self):
        path = self.show()
        details = self.discovered("pink")
        advert = details["advertisement"]
        self.assertEqual([str(each) for each in advert["serviceUUIDs"]], [PINK.lower()])
        self.assertEqual(bytes(advert["serviceData"]["0000180f-0000-1000-8000-00805f9b34fb"]), b"\x64")
        self.assertEqual(bytes(advert["manufacturerData"][0xFFFF]), b"\x01\x02")
        self.assertEqual((int(advert["txPower"]), int(details["rssi"]), str(details["picker"])), (-4, -50, path))
        self.discovered("second")
        self.assertEqual(self.person.offers, [])
        self.update({"name": "More Specific", "productImage": PNG, "identifier": details["identifier"]})
        offer = self.person.wait_offer("pink")
        self.assertEqual((str(offer["name"]), bool(offer["hasImage"])), ("More Specific", True))
        self.assertEqual(len(self.person.offers), 1)
        self.person.pick("pink")
        added = self.dice.wait_event("accessoryAdded")
        self.assertEqual(added["properties"]["DisplayName"], "More Specific")
        self.assertEqual(added["properties"]["BluetoothIdentifier"], details["identifier"])
        # Each matching one once, and no other.
        self.assertEqual(self.dice.told().count("accessoryDiscovered"), 2)

    def test_updates_add_up(self):
        self.show()
        for name in ("pink", "second"):
            self.update({"name": name, "identifier": self.discovered(name)["identifier"]})
        self.person.wait_offer("pink")
        self.person.wait_offer("second")

    def test_what_the_app_has_is_no_discovery(self):
        self.add(self.dice, self.person, "pink")
        self.show()
        self.discovered("second")
        self.assertEqual(self.dice.told().count("accessoryDiscovered"), 1)

    def test_rule_8_finished_with_nothing(self):
        self.show(discoveryTimeout=float("inf"))
        self.discovered("pink")
        self.dice.request("FinishPickerDiscovery")
        self.assertDismissed(self.dice, "DiscoveryTimeout")

    def test_rule_8_finishing_after_an_update_has_no_effect(self):
        self.show(discoveryTimeout=float("inf"))
        self.update({"name": "pink", "identifier": self.discovered("pink")["identifier"]})
        self.person.wait_offer("pink")
        self.dice.request("FinishPickerDiscovery")
        self.assertNotIn("pickerDidDismiss", self.dice.told())
        self.person.pick("pink")
        self.dice.wait_event("accessoryAdded")

    def test_rule_8_the_time_runs_out(self):
        self.show(discoveryTimeout=1.0)
        self.assertDismissed(self.dice, "DiscoveryTimeout")

    def test_rule_11_what_is_shared_keeps_its_name(self):
        board = self.app("board", SOMEBODY_ELSE)
        self.add(board, self.person, "second", item("Stored Name", pairs=False))
        self.show()
        self.update({"name": "Mine", "identifier": self.discovered("second")["identifier"]})
        offer = self.person.wait_offer("second")
        self.assertEqual((str(offer["name"]), bool(offer["shared"])), ("Stored Name", True))

    def test_updates_that_are_refused(self):
        self.assertFails(INVALID, self.update, {"name": "x", "identifier": "x"})
        self.assertFails(INVALID, self.dice.request, "FinishPickerDiscovery")
        self.show()
        identifier = self.discovered("pink")["identifier"]
        for items, says in [
            ([], ["items"]), ([{"identifier": identifier}], ["name"]), ([{"name": "x"}], ["identifier"]),
            ([{"name": "x", "identifier": "pink"}], ["identifier", "pink"]),
            ([{"name": "x", "identifier": "00000000-0000-4000-8000-000000000000"}], ["identifier", "00000000"]),
            ([{"name": "x", "identifier": dbus.UInt32(1)}], ["identifier", "type"]),
            ([{"name": "x" * 10_000, "identifier": identifier}], ["name"]),
            ([{"name": "x", "identifier": identifier, "colour": "pink"}], ["colour"]),
            ([{"name": "x", "identifier": identifier, "productImage": b"GIF89a"}], ["productImage"]),
            ([{"name": "x", "identifier": identifier}] * 1000, ["items", "1000"]),
        ]:
            with self.subTest(says):
                self.assertFails(INVALID, self.update, *items, says=says)
        self.assertEqual(self.person.offers, [])

    def test_a_picker_without_the_option(self):
        self.dice.show_picker(item())
        self.person.wait_offer("pink")
        self.assertFails(
            INVALID, self.update, {"name": "x", "identifier": "00000000-0000-4000-8000-000000000000"}, says=["filterDiscoveryResults"])
        self.assertNotIn("accessoryDiscovered", self.dice.told())
        other = self.app()
        self.assertFails(INVALID, other.request, "FinishPickerDiscovery")
