# SPDX-License-Identifier: Apache-2.0
"""Reads a scenario file (Docs/Scenarios.md) into values that the air can play, and encodes its adverts as they go over
a radio. It is strict: an unknown key, a value out of range, an advert over 31 bytes or something only the simulator
can do is an error that says where it is, because a typing mistake must not pass for a working fault."""

import json
import re
from dataclasses import dataclass

PART_BYTES = 31
FLAGS = bytes([0x02, 0x01, 0x06])  # general discoverable, LE only

PAIRING_MODES = ("justWorks", "displayPasskey", "enterPasskey", "numericComparison", "pin", "none")
FAULTS = ("refuse", "vanish", "drop", "silent", "slow", "wrongKey")
CHARACTERISTIC_FLAGS = (
    "read", "write", "write-without-response", "notify", "indicate",
    "encrypt-read", "encrypt-write", "encrypt-authenticated-read", "encrypt-authenticated-write",
)
EVENTS = ("vanish", "return", "servicesChanged")
NOTIFICATIONS = "2902"  # the descriptor by which a client subscribes
FOREVER = float("inf")


class ScenarioError(Exception):
    """The scenario is wrong, or requires a feature that only the simulator has."""


@dataclass(frozen=True)
class Advert:
    start: float
    end: float
    interval: float
    rssi: int
    data: bytes
    scan_response: bytes | None


@dataclass(frozen=True)
class Pairing:
    mode: str = "justWorks"
    passkey: int = 123456
    legacy: bool = False
    bonding: bool = True
    confirms: bool = True
    fault: str | None = None
    delay: float = 2.0
    fault_count: int | None = None


@dataclass(frozen=True)
class Descriptor:
    uuid: str
    value: bytes


@dataclass(frozen=True)
class Characteristic:
    uuid: str
    flags: tuple[str, ...]
    value: bytes
    notify_interval: float
    notify_values: tuple[bytes, ...]
    descriptors: tuple[Descriptor, ...]


@dataclass(frozen=True)
class Service:
    uuid: str
    characteristics: tuple[Characteristic, ...]
    includes: tuple[int, ...]  # places among the accessory's services


@dataclass(frozen=True)
class Accessory:
    id: str
    device_name: str
    address: str
    address_type: str
    appears_at: float
    leaves_at: float
    connectable: bool
    mtu: int
    adverts: tuple[Advert, ...]
    pairing: Pairing
    services: tuple[Service, ...]


@dataclass(frozen=True)
class Event:
    do: str
    accessory: str
    at: float | None
    on: str | None
    after: float


@dataclass(frozen=True)
class Adapter:
    name: str
    address: str
    powered: bool
    gain: int  # dB


@dataclass(frozen=True)
class Scenario:
    adapters: tuple[Adapter, ...]
    accessories: tuple[Accessory, ...]
    events: tuple[Event, ...]


def load(path):
    with open(path) as file:
        try:
            content = json.load(file)
        except json.JSONDecodeError as error:
            raise ScenarioError(f"{path}: {error}") from None
    return _scenario(_Object(content, "scenario"))


class _Object:
    """A JSON object being read: each key is taken once, and `done` names unread ones."""

    def __init__(self, content, where):
        if not isinstance(content, dict):
            raise ScenarioError(f"{where}: not an object")
        self.where = where
        self._left = {key: value for key, value in content.items() if not key.startswith("#")}

    def fail(self, key, why):
        raise ScenarioError(f"{self.where}: “{key}” {why}")

    def take(self, key, kind, default=None, *, required=False, low=None, high=None, one_of=None, pattern=None):
        if key not in self._left:
            if required:
                self.fail(key, "is missing")
            return default
        value = self._left.pop(key)
        kinds = (int, float) if kind is float else (kind,)
        if not isinstance(value, kinds) or (kind is not bool and isinstance(value, bool)):
            self.fail(key, f"is not a {kind.__name__}")
        if low is not None and not low <= value <= high:
            self.fail(key, f"is {value}, not within {low}…{high}")
        if one_of is not None and value not in one_of:
            self.fail(key, f"is “{value}”, not one of {', '.join(one_of)}")
        if pattern is not None and not re.fullmatch(pattern, value):
            self.fail(key, f"is “{value}”, which does not match {pattern}")
        return value

    def take_nullable(self, key, kind, default, **limits):
        """Like take, for a key whose null means something: returns None then."""
        if key in self._left and self._left[key] is None:
            del self._left[key]
            return None
        return self.take(key, kind, default, **limits)

    def take_hex(self, key):
        text = self.take(key, str, "")
        try:
            return bytes.fromhex(text)
        except ValueError:
            self.fail(key, f"is “{text}”, not hexadecimal")

    def take_objects(self, key, default=()):
        values = self.take(key, list, default)
        return [_Object(value, f"{self.where}.{key}[{index}]") for index, value in enumerate(values)]

    def take_hex_table(self, key, name_pattern):
        table = {}
        for name, text in self.take(key, dict, {}).items():
            if not re.fullmatch(name_pattern, name):
                self.fail(key, f"has the name “{name}”, which does not match {name_pattern}")
            try:
                table[name] = bytes.fromhex(text)
            except (ValueError, TypeError):
                self.fail(key, f"has the value “{text}” for {name}, not hexadecimal")
        return table

    def take_object(self, key):
        value = self.take(key, dict)
        return None if value is None else _Object(value, f"{self.where}.{key}")

    def done(self):
        for key in self._left:
            raise ScenarioError(f"{self.where}: unknown key “{key}”")


ADDRESS = r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}"
UUID = r"[0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"


def _scenario(top):
    adapters = tuple(_adapter(entry, number) for number, entry in enumerate(top.take_objects("adapters", [{}])))
    accessories = []
    for entry in top.take_objects("accessories"):
        accessories.extend(_accessories(entry))
    ids = [accessory.id for accessory in accessories]
    for duplicate in {name for name in ids if ids.count(name) > 1}:
        top.fail("accessories", f"has the id “{duplicate}” twice")
    events = tuple(_event(entry, ids) for entry in top.take_objects("events"))
    top.done()
    return Scenario(adapters, tuple(accessories), events)


def _adapter(entry, number):
    adapter = Adapter(
        name=entry.take("name", str, "hci0"),
        address=entry.take("address", str, "00:AA:01:00:00:42", pattern=ADDRESS),
        powered=entry.take("powered", bool, True),
        gain=entry.take("gain", int, 0, low=-100, high=100),
    )
    entry.done()
    if adapter.name != f"hci{number}":
        entry.fail("name", f"is “{adapter.name}”: the lab's kernel counts its adapters, and calls this one hci{number} (simulator only)")
    return adapter


def _accessories(entry):
    """The accessories that one entry stands for: one, or `count`."""
    name = entry.take("id", str, required=True, pattern=r"[a-z0-9-]+")
    entry.where += f" ({name})"
    address = entry.take("address", str, required=True, pattern=ADDRESS)
    address_type = entry.take("addressType", str, "random", one_of=("public", "random", "rpa"))
    count = entry.take("count", int, 1, low=1, high=1000)
    numbered = count > 1
    appears_at = entry.take("appearsAt", float, 0.0, low=0, high=FOREVER)
    leaves_at = entry.take("leavesAt", float, FOREVER, low=0, high=FOREVER)
    connectable = entry.take("connectable", bool, True)
    mtu = entry.take("mtu", int, 517, low=23, high=517)
    device_name = entry.take("deviceName", str)
    advert_entries = entry.take("adverts", list, [])
    pairing = _pairing(entry.take_object("pairing"))
    services = _services(entry.take_objects("gatt"))
    entry.done()
    if address_type != "public" and int(address[:2], 16) >> 6 != 0b11:
        entry.fail("address", f"is {address}: a static random address starts with C0 or more")

    made = []
    first = int(address.replace(":", ""), 16)
    for number in range(count):
        adverts = tuple(
            _advert(_Object(advert, f"{entry.where}.adverts[{index}]"), number)
            for index, advert in enumerate(advert_entries)
        )
        digits = f"{(first + number) % (1 << 48):012X}"
        advertised = (part.get("name") for advert in advert_entries for part in (advert, advert.get("scanResponse", {})))
        made.append(Accessory(
            id=f"{name}-{number}" if numbered else name,
            device_name=(device_name or next(filter(None, advertised), name)).replace("%d", str(number)),
            address=":".join(re.findall("..", digits)),
            address_type=address_type, appears_at=appears_at, leaves_at=leaves_at, connectable=connectable,
            mtu=mtu, adverts=adverts, pairing=pairing, services=services,
        ))
    return made


def _advert(entry, number):
    start = entry.take("from", float, 0.0, low=0, high=FOREVER)
    end = entry.take("until", float, FOREVER, low=0, high=FOREVER)
    interval = entry.take("interval", float, 0.1, low=0.02, high=10)
    rssi = entry.take_nullable("rssi", int, -50, low=-127, high=20)
    response = entry.take_object("scanResponse")
    data = _part(entry, FLAGS, number)
    entry.done()
    scan_response = None
    if response is not None:
        scan_response = _part(response, b"", number)
        response.done()
    return Advert(start, end, interval, 127 if rssi is None else rssi, data, scan_response)


def _part(entry, flags, number):
    """One part of an advert as AD structures (Core Specification Supplement, part A), each with length and type."""
    if (raw := entry.take_hex("raw")):
        if len(raw) > PART_BYTES:
            entry.fail("raw", f"has {len(raw)} bytes, a radio has {PART_BYTES}")
        return raw
    structures = []
    by_size = {2: [], 4: [], 16: []}
    uuids = entry.take("serviceUUIDs", list, [])
    for text in uuids:
        if not isinstance(text, str) or not re.fullmatch(UUID, text):
            entry.fail("serviceUUIDs", f"has “{text}”, not a UUID")
        uuid = _uuid_bytes(text)
        by_size[len(uuid)].append(uuid)
    for size, ad_type in ((2, 0x03), (4, 0x05), (16, 0x07)):
        if by_size[size]:
            structures.append((ad_type, b"".join(by_size[size])))
    for text, value in entry.take_hex_table("serviceData", UUID).items():
        uuid = _uuid_bytes(text)
        structures.append(({2: 0x16, 4: 0x20, 16: 0x21}[len(uuid)], uuid + value))
    for company, value in entry.take_hex_table("manufacturerData", r"[0-9A-Fa-f]{4}").items():
        structures.append((0xFF, bytes.fromhex(company)[::-1] + value))
    power = entry.take("txPower", int, None, low=-127, high=20)
    if power is not None:
        structures.append((0x0A, power.to_bytes(1, "little", signed=True)))
    name = entry.take("name", str)
    if name is not None:
        structures.append((0x09, name.replace("%d", str(number)).encode()))
    part = flags + b"".join(bytes([len(value) + 1, ad_type]) + value for ad_type, value in structures)
    if len(part) > PART_BYTES:
        raise ScenarioError(f"{entry.where}: needs {len(part)} bytes, a radio has {PART_BYTES}; move some to scanResponse")
    return part


def _uuid_bytes(text):
    return bytes.fromhex(text.replace("-", ""))[::-1]


def _pairing(entry):
    if entry is None:
        return Pairing()
    pairing = Pairing(
        mode=entry.take("mode", str, "justWorks", one_of=PAIRING_MODES),
        passkey=entry.take("passkey", int, 123456, low=0, high=999999),
        legacy=entry.take("legacy", bool, False),
        bonding=entry.take("bonding", bool, True),
        confirms=entry.take("confirms", bool, True),
        fault=entry.take("fault", str, one_of=FAULTS),
        delay=entry.take("delay", float, 2.0, low=0, high=3600),
        fault_count=entry.take("faultCount", int, None, low=1, high=1000),
    )
    entry.take("pin", str)
    entry.done()
    if pairing.mode == "pin":
        entry.fail("mode", "is “pin”, classic pairing: simulator only")
    if pairing.legacy and pairing.mode == "numericComparison":
        entry.fail("legacy", "excludes numericComparison: LE legacy pairing has none (simulator only)")
    if pairing.legacy and pairing.mode == "justWorks" and pairing.fault == "wrongKey":
        entry.fail("fault", "wrongKey: legacy Just Works has no key to get wrong (simulator only)")
    return pairing


def _services(entries):
    uuids = [entry.take("uuid", str, required=True, pattern=UUID) for entry in entries]
    places = {_uuid_bytes(uuid): place for place, uuid in enumerate(uuids)}
    services = []
    for entry, uuid in zip(entries, uuids):
        included = entry.take("includes", list, [])
        for text in included:
            if not isinstance(text, str) or not re.fullmatch(UUID, text) or _uuid_bytes(text) not in places:
                entry.fail("includes", f"has “{text}”, which is no service of the accessory")
        services.append(Service(
            uuid=uuid,
            characteristics=tuple(_characteristic(each) for each in entry.take_objects("characteristics")),
            includes=tuple(places[_uuid_bytes(text)] for text in included),
        ))
        entry.done()
    return tuple(services)


def _characteristic(entry):
    uuid = entry.take("uuid", str, required=True, pattern=UUID)
    flags = tuple(entry.take("flags", list, []))
    for flag in flags:
        if flag not in CHARACTERISTIC_FLAGS:
            entry.fail("flags", f"has “{flag}”; the lab plays {', '.join(CHARACTERISTIC_FLAGS)}")
    value = entry.take_hex("value")
    notify = entry.take_object("notify")
    interval, values = 1.0, ()
    if notify is not None:
        interval = notify.take("interval", float, 1.0, low=0.001, high=3600)
        texts = notify.take("values", list, [])
        try:
            values = tuple(bytes.fromhex(text) for text in texts)
        except (ValueError, TypeError):
            notify.fail("values", "has something that is not hexadecimal")
        notify.done()
    descriptors = tuple(_descriptor(each) for each in entry.take_objects("descriptors"))
    entry.done()
    return Characteristic(uuid, flags, value, interval, values, descriptors)


def _descriptor(entry):
    uuid = entry.take("uuid", str, required=True, pattern=UUID)
    if uuid == NOTIFICATIONS:
        entry.fail("uuid", f"is {uuid}, which notify and indicate bring with them")
    descriptor = Descriptor(uuid, entry.take_hex("value"))
    entry.done()
    return descriptor


def _event(entry, ids):
    do = entry.take("do", str, required=True)
    if do not in EVENTS:
        entry.fail("do", f"is “{do}”: the lab plays {', '.join(EVENTS)}, its checks do the rest (simulator only)")
    at = entry.take("at", float, None, low=0, high=FOREVER)
    on = entry.take("on", str, one_of=("discoveryStarted", "pairingStarted"))
    after = entry.take("after", float, 0.0, low=0, high=FOREVER)
    accessory = entry.take("accessory", str, required=True, one_of=ids)
    entry.done()
    if (at is None) == (on is None):
        entry.fail("at", "or “on”: exactly one of them")
    return Event(do, accessory, at, on, after)
