# SPDX-License-Identifier: Apache-2.0
"""The corpus as the tests here and the lab use it: products and their adverts, as a scenario plays them and as bytes on the air, and the
descriptors that their apps would use, with the manifest keys that they need."""

import collections
import json
from pathlib import Path

FILE = Path(__file__).resolve().parent / "adverts.json"
# Seconds between two adverts of one accessory; and of one that alternates, between two consecutive ones: the
# daemon may read that late, and then it sees only the last.
SLOT, TURN = 0.1, 0.5
# dBm: of the first product with a name; each further one with the same name, or also without, is heard less well.
STRONGEST = -30
# One part of legacy advertising: an advert, or a scan response.
PART_BYTES = 31
BLOBS = frozenset((
    "bluetoothServiceDataBlob", "bluetoothServiceDataMask", "bluetoothManufacturerDataBlob", "bluetoothManufacturerDataMask"))


def uuid_bytes(text):
    """As the air has it: the last byte first."""
    return bytes.fromhex(text.replace("-", ""))[::-1]


def structure(kind, content):
    """One structure of advertising data, with its length and type. (Core Specification Supplement, part A)"""
    return bytes([len(content) + 1, kind]) + content


def part_bytes(part, flags=b""):
    """One part of an advert, with all its structures; as long as it is, whether a radio can send it or not."""
    uuids = [uuid_bytes(each) for each in part.get("serviceUUIDs", [])]
    structures = [structure(0x01, flags)] if flags else []
    for size, kind in ((2, 0x03), (4, 0x05), (16, 0x07)):
        if of_size := [each for each in uuids if len(each) == size]:
            structures.append(structure(kind, b"".join(of_size)))
    for uuid, data in part.get("serviceData", {}).items():
        key = uuid_bytes(uuid)
        structures.append(structure({2: 0x16, 4: 0x20, 16: 0x21}[len(key)], key + bytes.fromhex(data)))
    for company, data in part.get("manufacturerData", {}).items():
        structures.append(structure(0xFF, bytes.fromhex(company)[::-1] + bytes.fromhex(data)))
    if "txPower" in part:
        structures.append(structure(0x0A, part["txPower"].to_bytes(1, "little", signed=True)))
    if "name" in part:
        structures.append(structure(0x09, part["name"].encode()))
    return b"".join(structures)


class Product:
    """An entry of the file. One without a descriptor is a bystander, which no descriptor may offer."""

    def __init__(self, entry, rssi):
        self.entry, self.rssi = entry, rssi
        self.id, self.kind, self.maker, self.source = (entry[each] for each in ("id", "kind", "maker", "source"))
        self.adverts = entry["adverts"]
        self.descriptor = entry.get("descriptor")
        self.offers = {self.id, *entry.get("alsoMatches", [])}
        # Why its own descriptor does not find it today.
        self.unseen = entry.get("unseen")
        self.flags = bytes.fromhex(entry.get("flags", "06"))
        # By their places: those that are on the air by extended advertising, where they may be longer.
        self.extended = frozenset(entry.get("extended", []))

    @property
    def alternates(self):
        return len(self.adverts) > 1

    @property
    def name(self):
        """Its name on the air; empty without one."""
        parts = (part for advert in self.adverts for part in (advert, advert.get("scanResponse", {})))
        return next((part["name"] for part in parts if "name" in part), "")

    @property
    def mark(self):
        """By this an offer shows which product it is: no two have the same."""
        return self.name, self.rssi

    @property
    def path(self):
        """Of its object on the simulated BlueZ."""
        return "/org/bluez/hci0/dev_" + self.entry["address"].replace(":", "_")

    @property
    def packets(self):
        """How many parts it sends until each of its adverts was heard."""
        return sum(1 + ("scanResponse" in each) for each in self.adverts)

    def bytes_of(self, place):
        """The advert at a place: its two parts as bytes, the second one None where there is no scan response."""
        advert = self.adverts[place]
        response = advert.get("scanResponse")
        return part_bytes(advert, self.flags), None if response is None else part_bytes(response)

    def _accessory(self, adverts, slot):
        # They follow each other: the next begins a slot later.
        turns = [{"from": slot * place, "interval": slot * len(adverts), "rssi": self.rssi} for place in range(len(adverts))]
        return {
            "id": self.id, "address": self.entry["address"], "addressType": self.entry["addressType"],
            "adverts": [{**turn, **advert} for turn, advert in zip(turns, adverts)]}

    def accessory(self):
        """As the simulator plays it."""
        return self._accessory(self.adverts, TURN if self.alternates else SLOT)

    def raw_accessory(self, seconds):
        """As the lab plays it, all adverts once in so many seconds: byte by byte, with the product's own flags. Those that need extended
        advertising are left out."""
        adverts = []
        for place in range(len(self.adverts)):
            if place not in self.extended:
                data, response = self.bytes_of(place)
                adverts.append({"raw": data.hex(), **({} if response is None else {"scanResponse": {"raw": response.hex()}})})
        return self._accessory(adverts, seconds / len(adverts))

    def wire_descriptor(self):
        return wire(self.descriptor)


def wire(descriptor):
    """A descriptor of the file's form, with the values that the session API takes."""
    def value(key, text):
        if key == "bluetoothCompanyIdentifier":
            return int(text, 16)
        return bytes.fromhex(text) if key in BLOBS else text

    return {key: value(key, text) for key, text in descriptor.items()}


def products():
    """Every product, each heard at a strength of its own among those that have the same name, or none."""
    heard = collections.Counter()
    made = []
    for entry in json.loads(FILE.read_text())["products"]:
        product = Product(entry, 0)
        product.rssi = STRONGEST - heard[product.name]
        heard[product.name] += 1
        made.append(product)
    return made


def declarations(descriptors):
    """The lines of a manifest that declare the services, companies and names in the descriptors (in the file's form)."""
    lines = {}
    for key, declared in (("bluetoothServiceUUID", "BluetoothServices"), ("bluetoothCompanyIdentifier", "BluetoothCompanyIdentifiers"),
                          ("bluetoothNameSubstring", "BluetoothNames")):
        lines[declared] = "".join(f"{each};" for each in sorted({each[key] for each in descriptors if key in each}))
    return lines
