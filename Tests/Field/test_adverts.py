# SPDX-License-Identifier: Apache-2.0
"""Adverts of real products, all on the air at once: the descriptor that a product's own app would use offers that product, with those
that the corpus says it matches besides, and nothing else."""

import collections
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

from corpus import PART_BYTES, declarations, products, wire
from harness.clients import Client
from harness.names import PICKER, PINK
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest

ALL = products()
DESCRIBED = [each for each in ALL if each.descriptor]
OFFERED = [each for each in DESCRIBED if not each.unseen]
LEAST_PRODUCTS, LEAST_MAKERS = 60, 25
KINDS = {
    "sensor", "lock", "scale", "wearable", "camera", "light", "beacon", "printer", "matter", "improv", "espProvisioning", "hearingAid",
    "toy", "tv", "homekit", "tracker", "appliance"}
# Comes into range when all products have been heard: once it is offered, so is all that was heard before it.
LAST, LAST_ADDRESS = "last-of-all", "C2:5E:10:A7:FF:FF"
LATE = item("Last", PINK, pairs=False)
UNSEEN = {each.id for each in DESCRIBED if each.unseen}
BY_MARK = {each.mark: each.id for each in ALL}
# One for each form of descriptor: which keys it has.
FORMS = {tuple(each.descriptor): each for each in OFFERED if not each.alternates}
# Descriptors in one picker; it shows 64 offers at most.
AT_ONCE = 40
# How often all alternating adverts are heard, and their offers checked.
ROUNDS = 6


def spoiled(key, descriptor):
    """The value of a key, wrong: by one bit, or by one character."""
    text = descriptor[key]
    if key == "bluetoothNameSubstring":
        return text + "~"
    if not key.endswith("Blob"):
        return f"{int(text[:4], 16) ^ 1:04X}{text[4:]}"
    data, mask = bytearray.fromhex(text), bytes.fromhex(descriptor[key.replace("Blob", "Mask")])
    place = max(place for place, bits in enumerate(mask) if bits)
    data[place] ^= mask[place] & -mask[place]
    return data.hex()


class Ears(Client):
    """Counts the packets of each accessory, as BlueZ signals them."""

    def __init__(self, world):
        self.packets = collections.Counter()
        super().__init__(world)
        self.connection.add_match_string(
            "type='signal',interface='org.freedesktop.DBus.Properties',member='PropertiesChanged',arg0='org.bluez.Device1'")

    def received(self, signal):
        if signal.member == "PropertiesChanged" and "RSSI" in signal.arguments[1]:
            self.packets[signal.path] += 1

    def hear(self, every_advert):
        """Until each product has sent all that it has to say from now on; or each that does not alternate, which is quicker."""
        self.drain()
        self.packets.clear()
        # One more: the first packet may be a scan response.
        wanted = {each.path: each.packets + 1 for each in ALL if every_advert or not each.alternates}
        missing = lambda: [path for path, count in wanted.items() if self.packets[path] < count]
        wait(lambda: not missing(), 30, lambda: f"packets of {missing()}")


class Field(APITest):
    """Everything is on the air, and one app declares all that is ever looked for."""

    scenario = scenario(*(each.accessory() for each in ALL), accessory(LAST, 250) | {"address": LAST_ADDRESS})

    def declare(self, descriptors):
        """Begins, with an app that may look for these."""
        self.world.declare("dice", **declarations([*descriptors, {"bluetoothServiceUUID": PINK}]))
        self.world.restart_daemon()
        self.person, self.dice, self.ears = self.picker(), self.app(), Ears(self.world)

    def show(self, descriptors, expected=(), every_advert=True):
        """A picker for these, by name; returns once these products are offered, and everything on the air was heard in it, and looked at."""
        self.simulator.do("vanish", LAST)
        # A device that BlueZ still has may be offered after two seconds, heard or not.
        if LAST_ADDRESS in self.simulator.devices():
            self.world.admin.call(
                "/org/bluez/hci0", "org.bluez.Adapter1", "RemoveDevice", "o", f"/org/bluez/hci0/dev_{LAST_ADDRESS.replace(':', '_')}",
                to="org.bluez")
        self.dice.show_picker(
            *({"name": name, "descriptor": descriptor} for name, descriptor in descriptors.items()), LATE, discoveryTimeout=float("inf"))
        self.ears.hear(every_advert)
        # Of payloads that follow each other while the machine is busy, the daemon may see the last only.
        wait(lambda: set(expected) <= self.named().keys(), 30, lambda: f"{set(expected) - self.named().keys()} to be offered", also_every=0.1)
        self.assertNotIn(LAST, [str(each["advertisedName"]) for each in self.offers_shown()], "it is out of range")
        self.simulator.do("return", LAST)
        self.person.wait_offer(LAST)

    def offers_shown(self):
        return list(self.person.get(self.person.path, PICKER, "Offers"))

    def named(self):
        """The offers: a product's identifier → the name of the item that it matched."""
        shown = [((str(each["advertisedName"]), each.get("rssi")), str(each["name"])) for each in self.offers_shown()]
        return {BY_MARK.get(mark, str(mark)): name for mark, name in shown if mark[0] != LAST}

    def end(self):
        self.dice.request("CancelPicker")
        self.person.wait_gone()

    def offered(self, descriptor, expected=()):
        """All that this one offers, after each product was heard."""
        self.show({"App": wire(descriptor)}, expected, every_advert=False)
        found = sorted(self.named())
        self.end()
        return found


class Together(Field):
    """All products, many in one picker, because that is quick: each item has the name of the product that it looks for."""

    def test_each_is_offered_by_its_own_descriptor_and_by_no_other(self):
        self.declare([each.descriptor for each in DESCRIBED])
        for begin in range(0, len(DESCRIBED), AT_ONCE):
            batch = DESCRIBED[begin:begin + AT_ONCE]
            # The first item that matches gives the name. In both orders it is the same only where one item matches.
            for order in (batch, batch[::-1]):
                expected = {each.id: next(other.id for other in order if each.id in other.offers)
                            for each in OFFERED if any(each.id in other.offers for other in order)}
                self.show({each.id: each.wire_descriptor() for each in order}, expected)
                named = self.named()
                self.end()
                with self.subTest(begin=begin, first=order[0].id):
                    self.assertEqual({each: name for each, name in named.items() if each not in UNSEEN or name != each}, expected)


class Alone(Field):
    """Pickers with one descriptor: one product for each form of descriptor, and each that matches others, too."""

    def test_the_product_is_offered_and_nothing_else(self):
        mine = [*FORMS.values(), *(each for each in OFFERED if len(each.offers) > 1 and each not in FORMS.values())]
        self.declare([each.descriptor for each in mine])
        for each in mine:
            with self.subTest(each.id):
                self.assertEqual(self.offered(each.descriptor, each.offers), sorted(each.offers))


class Wrong(Field):
    def test_a_descriptor_with_a_mistake_does_not_offer_the_product(self):
        """One product for each form of descriptor, with each value wrong in turn: so each value matters above."""
        wrong = [(each, key, {**each.descriptor, key: spoiled(key, each.descriptor)})
                 for each in FORMS.values() for key in each.descriptor if not key.endswith("Mask")]
        self.declare([descriptor for _, _, descriptor in wrong])
        for each, key, descriptor in wrong:
            with self.subTest(each.id, key=key):
                self.assertNotIn(each.id, self.offered(descriptor))


class Alternating(Field):
    def test_what_alternates_stays_one_offer(self):
        mine = [each for each in OFFERED if each.alternates]
        self.declare([each.descriptor for each in mine])
        expected = set().union(*(each.offers for each in mine))
        self.show({each.id: each.wire_descriptor() for each in mine}, expected)
        before = sorted(str(each["id"]) for each in self.offers_shown())
        self.assertEqual(self.named().keys(), expected)
        first = len(self.person.signals)
        for _ in range(ROUNDS):
            self.ears.hear(every_advert=True)
            self.assertEqual(sorted(str(each["id"]) for each in self.offers_shown()), before)
        self.person.settle()
        shown = [each.arguments[1]["Offers"] for each in self.person.signals[first:]
                 if each.member == "PropertiesChanged" and "Offers" in each.arguments[1]]
        for offers in shown:
            self.assertEqual(sorted(str(each["id"]) for each in offers), before)


class Corpus(unittest.TestCase):
    """The file itself."""

    maxDiff = None

    def test_it_is_large_enough(self):
        self.assertGreaterEqual(len(OFFERED), LEAST_PRODUCTS)
        self.assertGreaterEqual(len({each.maker for each in OFFERED}), LEAST_MAKERS)
        self.assertEqual({each.kind for each in OFFERED}, KINDS)

    def test_each_is_named_once_and_says_where_it_is_from(self):
        for what, values in (("ids", [each.id for each in ALL]), ("addresses", [each.entry["address"] for each in ALL]),
                             ("marks", [each.mark for each in ALL])):
            self.assertEqual([each for each, count in collections.Counter(values).items() if count > 1], [], what)
        for each in ALL:
            with self.subTest(each.id):
                self.assertRegex(each.source, r"^(https://github\.com/[^/]+/[^/]+/(issues|pull)/\d+|[\w.-]+/[\w.-]+, .+)")
                self.assertLessEqual(each.offers, {other.id for other in DESCRIBED} if each.descriptor else {each.id})
                # Either there is an app for it, or a reason why there is none.
                self.assertNotEqual(each.descriptor is None, "bystander" not in each.entry)

    def test_legacy_advertising_has_room_for_them(self):
        for each in ALL:
            for place in range(len(each.adverts)):
                with self.subTest(each.id, place=place):
                    data, response = each.bytes_of(place)
                    if place in each.extended:
                        self.assertGreater(len(data), PART_BYTES)
                    else:
                        self.assertLessEqual(max(len(data), len(response or b"")), PART_BYTES)

    def test_masks_cover_their_data(self):
        for each in DESCRIBED:
            for kind in ("Service", "Manufacturer"):
                blob, mask = (bytes.fromhex(each.descriptor.get(f"bluetooth{kind}Data{part}", "")) for part in ("Blob", "Mask"))
                with self.subTest(each.id):
                    self.assertEqual(len(blob), len(mask))
                    self.assertEqual(bytes(value & bits for value, bits in zip(blob, mask)), blob)


if __name__ == "__main__":
    unittest.main()
