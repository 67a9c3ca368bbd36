# SPDX-License-Identifier: Apache-2.0
"""Accessories that play foul, on a real bluetoothd: they vanish as soon as they are connected, lie about their names, change their addresses
in the middle, lose their keys, ask to be paired unrequested, flood their clients, and advertise invalid data.
Afterwards bonds are the ledger's, each accessory has its grants and each grant its accessory, nothing scans, and the next set-up works."""

import os
import re
import signal
import time
import unicodedata

import dbus
import dbus.bus

import bluez_versions
from adverts import FLAGS, MANUFACTURER, NAME, SERVICES_16, SERVICES_128, raw, service
from bluez import Call
from framework import DIRECTORY, check
from journeys import VIEW, Journey, connected
from lab import DAEMON_NAME, expect
from requests import PINK_SERVICE, App, item
from wifi_clients import Picker

DIE, GOOD = "C0:FF:EE:00:06:01", "C0:FF:EE:00:06:0F"
ROLLS = "0000ff3f-0000-1000-8000-00805f9b34fb"
# The permitted growth of the daemon's memory, in a debug build: a client may leave 4 MiB unread.
MORE_BYTES = 16 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")


def die(name, number, values=("01", "03", "06"), interval=0.3, **more):
    return {
        "id": name.lower(), "address": f"C0:FF:EE:00:06:{number:02X}",
        "adverts": [{"serviceUUIDs": [PINK_SERVICE], "scanResponse": {"name": name}}],
        "gatt": [{"uuid": PINK_SERVICE, "characteristics": [
            {"uuid": "FF3F", "flags": ["read", "notify"], "value": "01", "notify": {"interval": interval, "values": list(values)}}]}],
    } | more


def air(*accessories):
    return {"accessories": [*accessories, die("Good", 0x0F)]}


class Hostile(Journey):
    """A journey with an app in Python and a person who picks at the check's command."""

    def __init__(self, lab):
        super().__init__(lab)
        self.client = App(self)
        self.person = None

    def offered(self, name, seconds=60, but=None):
        """The offer of this name; `but` is the number of one that is not meant."""
        def look():
            return next((each for each in self.person.state.get("Offers", [])
                         if each["advertisedName"] == name and each["id"] != but), None)

        return self.lab.wait_until(look, seconds, f"{name} to be offered")

    def show(self, **more):
        self.person = self.person or Picker(self.lab)
        self.client.show(item(**more))
        self.person.wait_stage("offering", 60)

    def pick(self, offer):
        self.person.interface(self.person.path, "Picker").Pick(str(offer["id"]), signature="s")

    def cancel(self):
        self.person.interface(self.person.path, "Picker").Cancel()
        self.person.wait_gone()

    def add(self, name, **more):
        """The whole way; returns the accessory's path."""
        added, gone = (sum(each == kind for each, _ in self.client.events) + 1 for kind in ("accessoryAdded", "pickerDidDismiss"))
        self.show(**more)
        self.pick(self.offered(name))
        path = str(self.client.event("accessoryAdded", 60, added)["accessory"])
        self.client.event("pickerDidDismiss", count=gone)
        return path

    def expect_sound(self, *bonded, unbonded=()):
        """These have a grant and nothing else has; those that were to be paired have a bond, and nothing else has; nothing is half or under
        way. And then it goes on."""
        for known in (bonded, (*bonded, GOOD)):
            listed, grants = self.listed(), self.grants()
            expect(set(listed) == {*known, *unbonded}, f"accessoryctl lists {sorted(listed)}")
            expect(sorted(each["accessory"] for each in grants) == sorted(each["path"] for each in listed.values()), f"the grants are {grants}")
            self.expect_bonds(*known)
            paired = {address for address, device in self.lab.bluez_devices().items() if device["Paired"]}
            expect(paired == set(known), f"BlueZ says that {sorted(paired)} are paired")
            self.lab.wait_until(lambda: not self.discovering, 20, "discovery to end")
            if GOOD not in listed:
                self.add("Good")

    @property
    def daemons_bytes(self):
        with open(f"/proc/{self.daemon.pid}/statm") as numbers:
            return int(numbers.read().split()[1]) * PAGE


class Listener:
    """The app's way to its accessory: a connection to its view of org.bluez."""

    def __init__(self, lab, address):
        self.lab = lab
        self.bus = dbus.bus.BusConnection(VIEW)
        self.address = address
        self.values = self.ends = 0
        self.bus.add_signal_receiver(self._changed, "PropertiesChanged", bus_name="org.bluez", path_keyword="path")
        self.device = self.find("org.bluez.Device1", lambda each: each["Address"] == address)

    def find(self, interface, fits):
        def look():
            root = dbus.Interface(self.bus.get_object("org.bluez", "/", introspect=False), "org.freedesktop.DBus.ObjectManager")
            return next((path for path, each in root.GetManagedObjects().items() if interface in each and fits(each[interface])), None)

        path = self.lab.wait_until(look, 60, f"an object with {interface}")
        return dbus.Interface(self.bus.get_object("org.bluez", path, introspect=False), interface)

    def connect(self):
        call = Call(self.lab, self.device, "Connect", seconds=60).wait(60)
        return call.error

    def listen(self):
        rolls = self.find("org.bluez.GattCharacteristic1", lambda each: each["UUID"] == ROLLS)
        call = Call(self.lab, rolls, "StartNotify", seconds=60).wait(60)
        expect(call.error is None, f"StartNotify answered {call.error}: {call.message}")

    def _changed(self, _interface, changed, _invalidated, path):
        self.values += "Value" in changed
        self.ends += not changed.get("Connected", True)


def is_plain(text):
    """Whether it has no control and direction-changing characters."""
    return not any(unicodedata.category(each) in ("Cc", "Cs") or each in "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
                   for each in text)


def texts(value):
    """All text in a value from the bus."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from texts(key)
            yield from texts(each)
    elif isinstance(value, (list, tuple)) and not isinstance(value, dbus.ByteArray):
        for each in value:
            yield from texts(each)
    elif isinstance(value, str):
        yield str(value)


# It vanishes

@check(air(die("Die", 1)), seconds=240)
def vanishes_when_it_is_connected(lab):
    journey = Hostile(lab)
    lab.air.when_connected("die", "vanish")
    journey.show()
    journey.pick(journey.offered("Die"))
    lab.air.wait_for("die: vanishes", 60)
    journey.client.event("pickerSetupFailed", 90)
    journey.cancel()
    journey.client.event("pickerDidDismiss")
    journey.expect_set_up()
    lab.air.bring_back("die")
    journey.add("Die")

    # And when the app comes.
    expect("Die" in [str(each["Name"]) for each in lab.bluez_devices().values()], "BlueZ does not know it")
    disconnect(lab, DIE)
    lab.air.when_connected("die", "vanish")
    listener = Listener(lab, DIE)
    listener.connect()
    lab.air.wait_for("die: vanishes", 60)
    lab.wait_until(lambda: DIE not in connected(lab), 60, "the link to go")
    journey.expect_set_up(DIE)
    lab.air.bring_back("die")
    lab.wait_until(lambda: listener.connect() is None, 90, "the link to come up")
    listener.listen()
    lab.wait_until(lambda: listener.values > 1, 60, "its values")
    journey.expect_sound(DIE)


def disconnect(lab, address):
    """Disconnects it, so that it advertises again."""
    device = dbus.Interface(lab.bus.get_object("org.bluez", lab.bluez_devices()[address]["path"], introspect=False), "org.bluez.Device1")
    Call(lab, device, "Disconnect").wait()
    lab.wait_until(lambda: address not in connected(lab), 20, "the link to go")


# It lies

ODD = "D\u202e4F\u0007\u2066ie"
LIE = "Lamp\u202enoon\u001b[31m"


@check(air(die("Liar", 1, deviceName=LIE), die(ODD, 2, id="odd")), seconds=240)
def lies_about_its_name(lab):
    journey = Hostile(lab)
    journey.show()
    shown = lab.wait_until(
        lambda: [each for each in journey.person.state.get("Offers", []) if str(each["advertisedName"]).startswith("D")], 60, "the odd name")
    journey.offered("Liar")
    for offer in journey.person.state["Offers"]:
        for text in texts(offer):
            expect(is_plain(text), f"a person is shown {text!r}")
    journey.pick(shown[0])
    journey.client.event("accessoryAdded", 60)
    journey.client.event("pickerDidDismiss")
    journey.add("Liar")
    # Connected, it is called otherwise.
    listener = Listener(lab, DIE)
    listener.connect()
    lab.wait_until(lambda: str(lab.bluez_devices()[DIE]["Name"]).startswith("Lamp"), 60, "the other name")
    journey.restart_daemon()
    journey.client = App(journey)
    for words in (("list",), ("list", "--json"), ("grants",), ("audit",), ("status",)):
        said = lab.start("said", lab.accessoryctl, *words)
        expect(said.wait_exit(20) == 0, f"accessoryctl {words[0]} ended with an error: {said.lines[-1:]}")
        for line in said.lines:
            expect(is_plain(line), f"accessoryctl {words[0]} says {line!r}")
    for each in journey.client.session.Get(f"{DAEMON_NAME}.Session", "Accessories", dbus_interface=dbus.PROPERTIES_IFACE):
        for text in texts(journey.client.properties(each)):
            expect(is_plain(text), f"the app is told {text!r}")
    journey.person = None
    journey.expect_sound(DIE, "C0:FF:EE:00:06:02")


# It changes its address

@check(air(die("Die", 1, addressType="rpa")), seconds=300)
def changes_its_address_between_offer_and_pick_and_in_the_pairing(lab):
    journey = Hostile(lab)
    journey.show()
    before = journey.offered("Die")
    lab.air.rotate("die")
    journey.pick(before)
    # That address is no longer in use; or it was heard under the next one in time.
    journey.client.event("pickerSetupFailed", 90)
    journey.expect_bonds()
    again = journey.offered("Die", 90, but=before["id"])
    lab.air.when_connected("die", "rotate")
    journey.pick(again)
    accessory = str(journey.client.event("accessoryAdded", 90)["accessory"])
    journey.client.event("pickerDidDismiss")
    # It is known by its identity, wherever it is on the air.
    expect(journey.client.properties(accessory)["Address"] == DIE, "it is not known by its identity")
    listener = Listener(lab, DIE)
    lab.air.rotate("die")
    expect(listener.connect() is None, "the app does not get to it")
    journey.expect_sound(DIE)


# It loses its keys, and wants others

SLOW = die("Slow", 2, pairing={"mode": "justWorks", "fault": "slow", "delay": 3})
SLOW_ADDRESS = "C0:FF:EE:00:06:02"


def in_the_middle_of_a_pairing(journey, happens):
    """While another accessory is being paired the adapter is pairable, and there is an agent: ours, for that one only."""
    added, gone = (sum(each == kind for each, _ in journey.client.events) + 1 for kind in ("accessoryAdded", "pickerDidDismiss"))
    journey.show()
    journey.pick(journey.offered("Slow"))
    journey.lab.air.wait_for("slow: pairing started", 60)
    happens()
    journey.client.event("accessoryAdded", 90, added)
    journey.client.event("pickerDidDismiss", count=gone)


@check(air(die("Die", 1), SLOW), seconds=300)
def pairs_again_while_there_is_a_bond(lab):
    journey = Hostile(lab)
    accessory = journey.add("Die")
    disconnect(lab, DIE)
    bond = lab.bonds()[DIE]
    # It was reset, and asks for better keys as soon as the app comes.
    lab.air.forget("die")
    listener = Listener(lab, DIE)

    def come():
        lab.air.when_connected("die", "secure")
        listener.connect()
        lab.air.wait_for("die: asks for security", 60)
        lab.air.wait_for("die: disconnected", 60)

    come()
    in_the_middle_of_a_pairing(journey, come)
    expect(lab.air.bonds("die") == [], "it has keys, which nobody gave it")
    expect(lab.bonds()[DIE] == bond, "the keys are others")
    journey.expect_set_up(DIE, SLOW_ADDRESS)
    # The person takes it away and sets it up again.
    journey.client.session.RemoveAccessory(dbus.ObjectPath(accessory), timeout=60)
    journey.expect_set_up(SLOW_ADDRESS)
    journey.add("Die")
    expect(lab.bonds()[DIE] != bond, "the keys are the same")
    listener = Listener(lab, DIE)
    expect(listener.connect() is None, "the app does not get to it")
    listener.listen()
    lab.wait_until(lambda: listener.values > 1, 60, "its values")
    journey.expect_sound(DIE, SLOW_ADDRESS)


@check(air(die("Plain", 1), SLOW), seconds=300)
def asks_to_be_paired_when_nobody_wants_that(lab):
    journey = Hostile(lab)
    journey.add("Plain", pairs=False)
    listener = Listener(lab, DIE)
    expect(listener.connect() is None, "the app does not get to it")
    lab.air.request_security("plain")
    lab.air.wait_for("plain: pairing failed", 60)
    if bluez_versions.ends_the_link_of_a_failed_pairing():
        lab.wait_until(lambda: listener.ends > 0, 60, "the app to hear of the link's end")
        expect(listener.connect() is None, "the app does not get to it again")
    listener.listen()
    lab.wait_until(lambda: listener.values > 0, 60, "its values")
    journey.expect_bonds()

    def ask():
        lab.air.request_security("plain")
        lab.air.wait_for("plain: pairing failed", 60)

    in_the_middle_of_a_pairing(journey, ask)
    expect(lab.air.bonds("plain") == [], "it has keys, which nobody gave it")
    journey.expect_sound(SLOW_ADDRESS, unbonded=(DIE,))


# It floods

LONG_VALUES = [f"{number:02X}" * 200 for number in range(8)]


@check(air(die("Flood", 1, LONG_VALUES, 0.001)), seconds=300)
def floods_an_app_that_listens(lab):
    journey = Hostile(lab)
    accessory = journey.add("Flood")
    # Another program of the app's listens, and then reads nothing any more.
    deaf = lab.start("deaf", os.environ["LAB_PYTHON"], "-B", DIRECTORY / "apps/bleak_dice.py", environment={"DBUS_SYSTEM_BUS_ADDRESS": VIEW})
    deaf.wait_for("rolled", 90)
    deaf.signal(signal.SIGSTOP)
    listener = Listener(lab, DIE)
    expect(listener.connect() is None, "the app does not get to it")
    before = most = journey.daemons_bytes
    listener.listen()

    def heard(count):
        nonlocal most
        most = max(most, journey.daemons_bytes)
        return listener.values >= count

    lab.wait_until(lambda: heard(200), 120, "two hundred values")
    # Who asks meanwhile is answered, and another app is let in.
    began = time.monotonic()
    journey.listed()
    waited = time.monotonic() - began
    other = lab.start("other", lab.bin / "dice", "list")
    expect(other.wait_exit(60) == 0, f"another app got no answer: {other.lines[-1:]}")
    more = listener.values + 100
    lab.wait_until(lambda: heard(more), 120, "more values")
    (lab.logs / "notes").write_text(f"{listener.values} values, {(most - before) >> 10} kB more, asked meanwhile {waited:.1f} s\n")
    expect(most - before < MORE_BYTES, f"the daemon has {(most - before) >> 10} kB more than before")
    journey.client.session.RemoveAccessory(dbus.ObjectPath(accessory), timeout=60)
    lab.air.wait_for("flood: disconnected", 60)
    deaf.kill()
    journey.expect_sound()


# Invalid adverts

CLAIMS = (SERVICES_128, service(PINK_SERVICE))
SURROGATE = b"\xed\xa0\x80"
NAMES = [b"\xff\xfe\xc3", b"\x00Die", b"\xe2\x80", b"A" * 29, b"\r\n\x1b[2J", b"\xf0\x9f\x8e\xb2\xf0\x9f", b" ", SURROGATE]
MALFORMED = [b"\x1f\x09" + b"x" * 29, b"\x00" * 31, b"\xff" * 31, b"\x02\x01", b"\x01\x07", b"\x03\x07\x01\x02\x05\x09ab"]


def shouting():
    """Names of odd bytes; lengths that are wrong; one accessory with a hundred services, and one that is never the same."""
    for number, name in enumerate(NAMES):
        yield {"id": f"named-{number}", "address": f"C0:FF:EE:00:07:{number:02X}",
               "adverts": [raw((FLAGS, b"\x06"), CLAIMS) | {"interval": 0.2, "scanResponse": raw((NAME, name))}]}
    for number, bytes_ in enumerate(MALFORMED):
        yield {"id": f"malformed-{number}", "address": f"C0:FF:EE:00:08:{number:02X}",
               "adverts": [{"raw": bytes_.hex(), "interval": 0.2, "scanResponse": {"raw": MALFORMED[number - 1].hex()}}]}
    several = [b"".join((0x1000 + 14 * turn + each).to_bytes(2, "little") for each in range(14)) for turn in range(8)]
    makers = [(0x100 + turn).to_bytes(2, "little") + bytes([turn]) * 24 for turn in range(8)]
    yield {"id": "many", "address": "C0:FF:EE:00:09:01", "adverts": [
        raw((SERVICES_16, services)) | {"interval": 0.2, "scanResponse": raw((MANUFACTURER, maker))} for services, maker in zip(several, makers)]}
    # One after the other, all the time. All at once they would come once for each scan of the kernel's, and be one
    # change to who is slow.
    yield {"id": "changing", "address": "C0:FF:EE:00:09:02", "adverts": [
        raw((FLAGS, b"\x06"), CLAIMS) | {"from": 1.25 * turn, "interval": 10, "rssi": -40 - turn,
                                        "scanResponse": raw((NAME, b"C%02d" % turn), (MANUFACTURER, bytes([turn] * 20)))}
        for turn in range(8)]}


@check(air(*shouting()), seconds=300)
def shouts_what_no_accessory_should(lab):
    journey = Hostile(lab)
    before = journey.daemons_bytes
    names_heard = len(NAMES)
    if bluez_versions.dies_of_a_surrogate_in_a_name():
        lab.air.vanish(f"named-{NAMES.index(SURROGATE)}")
        names_heard -= 1
    journey.show()
    journey.offered("Good")
    heard = lambda prefix: sum(address.startswith(prefix) for address in lab.bluez_devices())
    lab.wait_until(lambda: heard("C0:FF:EE:00:07") == names_heard and heard("C0:FF:EE:00:09") == 2, 60, "BlueZ to hear all of them")
    names = set()

    def look():
        for offer in journey.person.state.get("Offers", []):
            for text in texts(offer):
                expect(is_plain(text), f"a person is shown {text!r}")
            names.add(str(offer["advertisedName"]))
        return sum(bool(re.fullmatch(r"C\d\d", each)) for each in names) > 2

    lab.wait_until(look, 90, "names that change")
    lab.wait_until(lambda: len(lab.bluez_devices()["C0:FF:EE:00:09:01"]["UUIDs"]) > 60, 90, "a flood of services")
    began = time.monotonic()
    journey.listed()
    (lab.logs / "notes").write_text(f"asked meanwhile {time.monotonic() - began:.1f} s, {(journey.daemons_bytes - before) >> 10} kB more\n")
    expect(journey.daemons_bytes - before < MORE_BYTES, f"the daemon has {(journey.daemons_bytes - before) >> 10} kB more than before")
    journey.cancel()
    journey.client.event("pickerDidDismiss")
    journey.expect_sound()


# The app: it has less than full access, and tries everything

NARROWED = {"accessories": [{
    "id": "die", "address": DIE, "adverts": [{"serviceUUIDs": [PINK_SERVICE], "scanResponse": {"name": "Die"}}],
    "gatt": [{"uuid": PINK_SERVICE, "characteristics": [
        {"uuid": "FF3F", "flags": ["read", "write", "write-without-response", "notify"], "value": value,
         "descriptors": [{"uuid": "2901", "value": "41"}], "notify": {"interval": 0.3, "values": [value + "01", value + "02"]}}
        for value in ("A1", "A2")]}],
}]}


def characteristics(listener):
    """The app's objects of both characteristics, in the order of handles."""
    root = dbus.Interface(listener.bus.get_object("org.bluez", "/", introspect=False), "org.freedesktop.DBus.ObjectManager")

    def look():
        paths = sorted(path for path, each in root.GetManagedObjects().items()
                       if each.get("org.bluez.GattCharacteristic1", {}).get("UUID") == ROLLS)
        return paths if len(paths) == 2 else None

    paths = listener.lab.wait_until(look, 60, "both characteristics")
    return [dbus.Interface(listener.bus.get_object("org.bluez", path, introspect=False), "org.bluez.GattCharacteristic1") for path in paths]


def expect_refused(lab, interface, method, *arguments):
    call = Call(lab, interface, method, *arguments).wait(60)
    expect(call.error == "org.bluez.Error.NotPermitted", f"{method} of {interface.object_path} answered {call.error}: {call.message}")


def expect_no_write(listener, rolls):
    lab, nothing = listener.lab, dbus.Dictionary({}, signature="sv")
    for kind in ("command", "request", "reliable"):
        expect_refused(lab, rolls, "WriteValue", dbus.ByteArray(b"\xee"), dbus.Dictionary({"type": kind}, signature="sv"))
    expect_refused(lab, rolls, "AcquireWrite", nothing)
    root = dbus.Interface(listener.bus.get_object("org.bluez", "/", introspect=False), "org.freedesktop.DBus.ObjectManager")
    for path in root.GetManagedObjects():
        if path.startswith(rolls.object_path + "/"):
            below = dbus.Interface(listener.bus.get_object("org.bluez", path, introspect=False), "org.bluez.GattDescriptor1")
            expect_refused(lab, below, "WriteValue", dbus.ByteArray(b"\x01\x00"), nothing)


@check(NARROWED, seconds=240)
def reads_and_does_not_write(lab):
    journey = Hostile(lab)
    journey.add("Die", access="read")
    disconnect(lab, DIE)
    listener = Listener(lab, DIE)
    expect(listener.connect() is None, "Connect failed")
    nothing = dbus.Dictionary({}, signature="sv")
    for rolls in characteristics(listener):
        expect_no_write(listener, rolls)
        call = Call(lab, rolls, "ReadValue", nothing).wait(60)
        expect(call.error is None and 0xee not in bytes(call.result), f"ReadValue answered {call.error}, {call.result}")
    listener.listen()
    lab.wait_until(lambda: listener.values > 1, 60, "its values")


@check(NARROWED, seconds=240)
def uses_one_of_two_equal_characteristics(lab):
    entry = dbus.Struct((PINK_SERVICE, "FF3F", dbus.UInt32(2), ["read", "listen"]), signature="ssuas")
    journey = Hostile(lab)
    journey.add("Die", access="listed", characteristics=dbus.Array([entry], signature="(ssuas)"))
    disconnect(lab, DIE)
    listener = Listener(lab, DIE)
    expect(listener.connect() is None, "Connect failed")
    nothing = dbus.Dictionary({}, signature="sv")
    for turn in range(2):
        first, second = characteristics(listener)
        for rolls in (first, second):
            expect_no_write(listener, rolls)
        for method, arguments in (("ReadValue", [nothing]), ("StartNotify", []), ("AcquireNotify", [nothing])):
            expect_refused(lab, first, method, *arguments)
        call = Call(lab, second, "ReadValue", nothing).wait(60)
        expect(call.error is None and bytes(call.result).startswith(b"\xa2"), f"ReadValue answered {call.error}, {call.result}")
        # Once more with other handles.
        if turn == 0:
            before = second.object_path
            lab.air.change_services("die")
            lab.wait_until(lambda: characteristics(listener)[1].object_path != before, 60, "other handles")
