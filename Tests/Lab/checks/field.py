# SPDX-License-Identifier: Apache-2.0
"""Adverts of real products (Tests/Field) on a real radio stack, byte by byte and all at once: the descriptor that a product's own app would use
offers that product and nothing else. The app and the picker program are D-Bus clients in Python."""

import sys
from pathlib import Path

import dbus

from framework import check
from journeys import PINK_SERVICE, Journey
from lab import DAEMON_NAME, STANDSTILL, SystemBus, expect
from requests import ROOT, sv

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "Field"))
from corpus import declarations, products

ALL = products()
DESCRIBED = [each for each in ALL if each.descriptor]
UNSEEN = {each.id for each in DESCRIBED if each.unseen}
MARKS = {each.mark: each.id for each in ALL}
# Descriptors in one picker; it shows 64 offers at most.
AT_ONCE = 52
# In which each product says all that it has to say: more often, and an emulated guest does nothing else.
ROUND = 3
# Is offered when all that was heard before it has been looked at.
LAST = "last-of-all"
# In which bluetoothd searches, rests and searches again.
SEARCHES = 45


def last(seconds):
    """An accessory that is first heard so long after it came into range."""
    return {"id": LAST, "address": "C2:5E:10:A7:FF:FF", "adverts": [
        {"from": seconds, "interval": 0.5, "rssi": -30, "serviceUUIDs": [PINK_SERVICE], "scanResponse": {"name": LAST}}]}


class Field:
    """An app that declares all that is ever looked for, and a picker program."""

    def __init__(self, lab):
        self.lab, self.journey = lab, Journey(lab)
        declared = declarations([*(each.descriptor for each in DESCRIBED), {"bluetoothServiceUUID": PINK_SERVICE}])
        self.journey.declare("com.example.field", "Field", Path(sys.executable), keys=declared)
        self.journey.restart_daemon()
        self.app, self.person = SystemBus(), SystemBus()
        self.person.add_match_string(f"type='signal',sender='{DAEMON_NAME}'")
        self.interface(self.person, ROOT, "Manager").RegisterPicker(sv({}), signature="a{sv}")
        self.session = self.interface(self.app, self.interface(self.app, ROOT, "Manager").CreateSession(sv({})), "Session")
        self.session.Activate()
        self.picker = None

    @staticmethod
    def interface(bus, path, name):
        return dbus.Interface(bus.get_object(DAEMON_NAME, path, introspect=False), f"{DAEMON_NAME}.{name}")

    def show(self, descriptors):
        """A picker for these, by name; returns once everything on the air was heard in it, and looked at."""
        items = [{"name": name, "descriptor": typed(descriptor)} for name, descriptor in descriptors.items()]
        items.append({"name": "Last", "descriptor": {"bluetoothServiceUUID": PINK_SERVICE}})
        path = self.session.ShowPicker(
            dbus.Array([sv(each) for each in items], "a{sv}"), sv({"discoveryTimeout": STANDSTILL * 600.0}), signature="aa{sv}a{sv}")
        self.picker = self.interface(self.person, path, "Picker")
        self.lab.wait_until(lambda: self.journey.discovering, 30, "discovery")
        self.lab.air.bring_back(LAST)
        self.lab.wait_until(lambda: any(each["advertisedName"] == LAST for each in self.offers()), 120, "the last one to be offered", every=2)

    def offers(self):
        return list(self.picker.Get(f"{DAEMON_NAME}.Picker", "Offers", dbus_interface=dbus.PROPERTIES_IFACE))

    def named(self):
        """The offers: a product's identifier → the name of the item that it matched."""
        shown = [((str(each["advertisedName"]), each.get("rssi")), str(each["name"])) for each in self.offers()]
        return {MARKS.get(mark, str(mark)): name for mark, name in shown if mark[0] != LAST}

    def end(self):
        self.picker.Cancel()
        self.lab.air.vanish(LAST)
        # A device that bluetoothd remembers when a search begins may be offered without being heard in it.
        self.lab.wait_until(lambda: not self.lab.bluez_devices(), 90, "bluetoothd to forget them all", every=2)

    def expect_offers(self, batch):
        """The first item that matches gives the name. In both orders it is the same only where one item matches."""
        for order in (batch, batch[::-1]):
            expected = {each.id: next(other.id for other in order if each.id in other.offers)
                        for each in DESCRIBED if not each.unseen and any(each.id in other.offers for other in order)}
            self.show({each.id: each.wire_descriptor() for each in order})
            self.lab.wait_until(lambda: expected.keys() <= self.named().keys(), 30,
                                lambda: f"{sorted(expected.keys() - self.named().keys())} to be offered", every=2)
            wrong = {each: name for each, name in self.named().items() if expected.get(each) != name and each not in UNSEEN}
            expect(not wrong, f"offered are {wrong}")
            self.end()


def typed(descriptor):
    return {key: dbus.ByteArray(value) if type(value) is bytes else value for key, value in descriptor.items()}


@check({"accessories": [*(each.raw_accessory(ROUND) for each in ALL), last(1.5 * ROUND)]}, seconds=600)
def offers_each_product_by_its_own_descriptor(lab):
    field = Field(lab)
    lab.air.vanish(LAST)
    for begin in range(0, len(DESCRIBED), AT_ONCE):
        field.expect_offers(DESCRIBED[begin:begin + AT_ONCE])


TELEVISION = next(each for each in ALL if each.id == "samsung-tv")


@check({"accessories": [TELEVISION.raw_accessory(1), last(SEARCHES)]}, seconds=150)
def keeps_offering_a_television(lab):
    """It says two things in turn, of which its app looks for one, and bluetoothd rests between two searches."""
    field = Field(lab)
    lab.air.vanish(LAST)
    shown = []
    field.person.add_signal_receiver(
        lambda _interface, changed, _gone: shown.append(changed.get("Offers")), "PropertiesChanged", dbus.PROPERTIES_IFACE, DAEMON_NAME)
    field.show({TELEVISION.id: TELEVISION.wire_descriptor()})
    names = [[str(each["advertisedName"]) for each in offers] for offers in shown if offers is not None]
    first = next(place for place, offers in enumerate(names) if TELEVISION.name in offers)
    expect(all(TELEVISION.name in offers for offers in names[first:]), "its offer went and came back")
