# SPDX-License-Identifier: Apache-2.0
"""Which accessories a descriptor offers, and by which item's name: rules 1 to 5 of the API."""

import collections

import dbus

from harness.clients import Client
from harness.names import BLUE, PICKER, PINK
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest

COMPANY = dbus.UInt16(0x1234)


class Matching(APITest):
    apps = ()
    scenario = scenario(
        accessory("listed", 1),
        accessory("in-data", 2, advert={"serviceData": {PINK: "0102FF"}, "name": "in-data"}),
        accessory("battery", 3, service="180F"),
        accessory("company", 4, advert={"manufacturerData": {"1234": "A1B2C3"}, "name": "company"}),
        accessory("company-two", 5, advert={"manufacturerData": {"1234": "A1FF"}, "name": "company-two"}),
        accessory("other-company", 6, advert={"manufacturerData": {"1235": "A1B2C3"}, "name": "other-company"}),
        accessory("named", 7, advert={"serviceUUIDs": ["181A"], "name": "Smart Die 7"}),
        accessory("named-two", 8, advert={"serviceUUIDs": ["181A"], "scanResponse": {"name": "Dé 12"}}),
        accessory("nameless", 9, advert={"serviceUUIDs": ["181A"]}),
        accessory("far", 10, service="181B", rssi=-90),
        accessory("near", 11, service="181B", rssi=-25),
        accessory("all-at-once", 12, advert={
            "serviceUUIDs": ["181C"], "manufacturerData": {"1234": "0F"}, "name": "all-at-once"}),
    )

    def setUp(self):
        super().setUp()
        self.world.declare(
            "dice", BluetoothServices=f"{PINK};180F;181A;181B;181C;", BluetoothCompanyIdentifiers="1234;",
            BluetoothNames="Smart;smart;die;Die;7;12;De;art;^Sm.rt;^.{5}$;Smart Die 7;nobody;")
        self.world.restart_daemon()
        self.person, self.dice = self.picker(), self.app()
        self.air = Client(self.world)
        self.air.listen_to_everything()
        self.offered(item(service="180F"))  # now BlueZ knows them all

    def offered(self, *items):
        """All that these items offer: the name that is advertised (or "") → the item's name."""
        self.dice.show_picker(*items)
        self.air.signals.clear()
        packets = lambda: collections.Counter(
            each.path for each in self.air.signals if each.member == "PropertiesChanged" and "RSSI" in each.arguments[1])
        count = len(self.scenario["accessories"])
        # Heard often enough that the daemon has looked at the first packet of each, whatever batches it reads them in.
        wait(lambda: len(packets()) >= count and min(packets().values()) >= 6, 20, lambda: f"packets of all; came {packets()}")
        self.person.settle()
        offers = {str(each["advertisedName"]): str(each["name"]) for each in self.person.get(self.person.path, PICKER, "Offers")}
        # The app does: it would have to wait after a person's cancel.
        self.dice.request("CancelPicker")
        self.person.wait_gone()
        return offers

    def test_what_matches(self):
        table = [
            # Service: advertised or a key of the service data; in any spelling.
            (["listed", "in-data"], [item()]),
            (["listed", "in-data"], [item(service=PINK.lower())]),
            (["battery"], [item(service="180F")]),
            (["battery"], [item(service="0000180F")]),
            (["battery"], [item(service="0000180f-0000-1000-8000-00805f9b34fb")]),
            # Service data: a prefix under a mask.
            (["in-data"], [item(bluetoothServiceDataBlob=b"\x01\x02", bluetoothServiceDataMask=b"\xff\xff")]),
            (["in-data"], [item(bluetoothServiceDataBlob=b"\x00\x00\x0f", bluetoothServiceDataMask=b"\x00\x00\x0f")]),
            ([], [item(bluetoothServiceDataBlob=b"\x01\x03", bluetoothServiceDataMask=b"\xff\xff")]),
            ([], [item(bluetoothServiceDataBlob=b"\x01\x02\xff\x00", bluetoothServiceDataMask=b"\xff\xff\xff\x00")]),
            # Company, alone and with data.
            (["company", "company-two", "all-at-once"], [item(service=None, bluetoothCompanyIdentifier=COMPANY)]),
            (["company", "company-two"], [item(
                service=None, bluetoothCompanyIdentifier=COMPANY, bluetoothManufacturerDataBlob=b"\xa0",
                bluetoothManufacturerDataMask=b"\xf0")]),
            (["company"], [item(
                service=None, bluetoothCompanyIdentifier=COMPANY, bluetoothManufacturerDataBlob=b"\x00\xb2",
                bluetoothManufacturerDataMask=b"\x00\xff")]),
            # All rules of a descriptor hold.
            (["all-at-once"], [item(service="181C", bluetoothCompanyIdentifier=COMPANY)]),
            ([], [item(service="180F", bluetoothCompanyIdentifier=COMPANY)]),
            ([], [item(
                service="181C", bluetoothCompanyIdentifier=COMPANY, bluetoothManufacturerDataBlob=b"\xa1",
                bluetoothManufacturerDataMask=b"\xff")]),
            # Names, compared as Foundation does.
            (["Smart Die 7", "Dé 12", ""], [item(service="181A")]),
            (["Smart Die 7"], [item(service="181A", bluetoothNameSubstring="Die")]),
            (["Smart Die 7"], [item(service="181A", bluetoothNameSubstring="art")]),
            ([], [item(service="181A", bluetoothNameSubstring="die")]),
            ([], [item(service="181A", bluetoothNameSubstring="nobody")]),
            (["Smart Die 7"], [item(
                service="181A", bluetoothNameSubstring="die", bluetoothNameSubstringCompareOptions=["caseInsensitive"])]),
            (["Dé 12"], [item(
                service="181A", bluetoothNameSubstring="De", bluetoothNameSubstringCompareOptions=["diacriticInsensitive"])]),
            (["Smart Die 7"], [item(
                service="181A", bluetoothNameSubstring="Smart", bluetoothNameSubstringCompareOptions=["anchored"])]),
            ([], [item(service="181A", bluetoothNameSubstring="Die", bluetoothNameSubstringCompareOptions=["anchored"])]),
            (["Dé 12"], [item(
                service="181A", bluetoothNameSubstring="12", bluetoothNameSubstringCompareOptions=["anchored", "backwards"])]),
            (["Smart Die 7"], [item(
                service="181A", bluetoothNameSubstring="^Sm.rt", bluetoothNameSubstringCompareOptions=["regularExpression"])]),
            (["Dé 12"], [item(
                service="181A", bluetoothNameSubstring="^.{5}$", bluetoothNameSubstringCompareOptions=["regularExpression"])]),
            # Nearness.
            (["far", "near"], [item(service="181B")]),
            (["far", "near"], [item(service="181B", bluetoothRange="default")]),
            (["near"], [item(service="181B", bluetoothRange="immediate")]),
        ]
        for names, items in table:
            with self.subTest(items[0]["descriptor"]):
                self.assertEqual(sorted(self.offered(*items)), sorted(names))

    def test_the_first_item_that_matches_gives_the_name(self):
        both = [item("By Company", None, bluetoothCompanyIdentifier=COMPANY), item("By Service", "181C")]
        self.assertEqual(self.offered(*both)["all-at-once"], "By Company")
        self.assertEqual(self.offered(*reversed(both))["all-at-once"], "By Service")


class Strength(APITest):
    def test_an_accessory_of_unknown_strength_is_offered_and_is_not_near(self):
        # Without a strength only repeated data shows that it is still there.
        data = {"serviceUUIDs": [PINK], "name": "quiet", "manufacturerData": {"FFFF": "01"}}
        self.start(scenario(accessory("quiet", 1, rssi=None, advert=data), accessory("near", 2, BLUE, rssi=-30)))
        person, app = self.picker(), self.app()
        app.show_picker(item(bluetoothRange="immediate"), item("Blue", BLUE))
        person.wait_offer("near")
        person.settle()
        self.assertEqual([each["advertisedName"] for each in person.offers], ["near"])
        person.cancel()
        person.wait_gone()
        app.show_picker(item())
        self.assertNotIn("rssi", person.wait_offer("quiet"))

    def test_one_without_a_strength_that_bluez_knows_already(self):
        """Another program has searched, so BlueZ knows the accessory and signals nothing new."""
        self.start(scenario(accessory("quiet", 1, rssi=None)))
        for member in ("StartDiscovery", "StopDiscovery"):
            self.world.admin.call("/org/bluez/hci0", "org.bluez.Adapter1", member, to="org.bluez")
            wait(self.simulator.devices, 10, "its object", also_every=0.02)
        person, app = self.picker(), self.app()
        app.show_picker(item())
        person.wait_offer("quiet")

    def test_one_that_is_gone_is_not_offered_in_a_second_search(self):
        """BlueZ knows both still: the one without a strength counts as heard, the one that had a strength does not."""
        self.start(scenario(accessory("gone", 1), accessory("quiet", 2, rssi=None)))
        person, app = self.picker(), self.app()
        app.show_picker(item())
        for name in ("gone", "quiet"):
            person.wait_offer(name)
        person.cancel()
        person.wait_gone()
        self.simulator.do("vanish", "gone")
        app.show_picker(item())
        person.wait_offer("quiet")
        self.assertEqual([str(each["advertisedName"]) for each in person.offers], ["quiet"])

    def test_adverts_that_alternate_are_one_offer(self):
        """A television says two things under one key, of which the app looks for one."""
        adverts = [{"interval": 1, "from": start, "rssi": -50, "serviceUUIDs": [PINK], "name": "tv", "manufacturerData": {"0075": data}}
                   for start, data in ((0, "42040101"), (0.5, "42040120"))]
        self.start(scenario(accessory("tv", 1) | {"adverts": adverts}))
        self.world.declare("dice", BluetoothCompanyIdentifiers="0075;")
        person, app = self.picker(), self.app()
        app.show_picker(item(bluetoothCompanyIdentifier=0x0075, bluetoothManufacturerDataBlob=dbus.ByteArray(bytes.fromhex("42040101")),
                             bluetoothManufacturerDataMask=dbus.ByteArray(b"\xff\xff\xff\xff")))
        person.wait_offer("tv")
        first = len(person.signals)
        wait(lambda: self.simulator.adverts > 12, 20, "adverts of both kinds", also_every=0.1)
        person.settle()
        gone = [each for each in person.signals[first:] if each.member == "PropertiesChanged" and each.arguments[1].get("Offers") == []]
        self.assertEqual(gone, [])
        person.pick("tv")
        app.wait_event("accessoryAdded")

    def test_the_strength_that_is_offered_follows(self):
        self.start(scenario(accessory("walks", 1, advert={"serviceUUIDs": [PINK], "name": "walks", "rssi": -90}) | {"adverts": [
            {"interval": 0.05, "rssi": -90, "serviceUUIDs": [PINK], "name": "walks", "until": 1},
            {"interval": 0.05, "rssi": -30, "serviceUUIDs": [PINK], "name": "walks", "from": 1}]}))
        person, app = self.picker(), self.app()
        app.show_picker(item())
        person.wait_offer("walks")
        wait(lambda: person.offers[0]["rssi"] > -40, 10, "it to come nearer")

    def test_what_comes_near_is_offered_and_what_goes_far_is_not(self):
        self.start(scenario(accessory("walks", 1) | {"adverts": [
            {"interval": 0.05, "rssi": -90, "serviceUUIDs": [PINK], "name": "walks", "until": 1},
            {"interval": 0.05, "rssi": -30, "serviceUUIDs": [PINK], "name": "walks", "from": 1, "until": 3},
            {"interval": 0.05, "rssi": -90, "serviceUUIDs": [PINK], "name": "walks", "from": 3}]}))
        person, app = self.picker(), self.app()
        app.show_picker(item(bluetoothRange="immediate"))
        person.wait_offer("walks")
        wait(lambda: not person.offers, 10, "the offer to go")
        self.assertEqual(person.state["Stage"], "searching")
