# SPDX-License-Identifier: Apache-2.0
"""The module CoreBluetooth on a real bluetoothd: an app (Tests/Lab/apps/central-probe) that uses the accessory which
was set up for it, and prints every callback. Apple's documentation and the module's own define the expected results.
"""

import copy
import re
import signal

from adverts import FLAGS, SERVICES_128, raw, service
from bluez import BlueZ
import bluez_versions
from framework import check
from journeys import VIEW, Journey, connected
from lab import expect

ADDRESS = "C0:FF:EE:00:00:01"
DICE = "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
TRAY = "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"
# The app's services, without the service that announces changes (1801).
SERVICES = f"{DICE} 1815 {TRAY}"
ON, OFF = "didUpdateNotificationState FF3F on", "didUpdateNotificationState FF3F off"
LOST = "CBError.peripheralDisconnected"
# Longer than anything waits in bluetoothd.
LONG = 60

# A hundred a second is nearly as fast as an emulated bluetoothd passes them on. If the air were faster, they would pile
# up until everything else waited for them.
VALUES, INTERVAL = [f"{number:04X}" for number in range(300)], 0.01

SCENARIO = {
    "accessories": [{
        "id": "die", "address": ADDRESS,
        "adverts": [{"serviceUUIDs": [DICE], "scanResponse": {"name": "Dice 4F"}}],
        "gatt": [
            {"uuid": DICE, "includes": ["1815", TRAY], "characteristics": [
                {"uuid": "FF3F", "flags": ["read", "notify"], "value": "01",
                 "descriptors": [{"uuid": "2901", "value": b"Roll".hex()}],
                 "notify": {"interval": INTERVAL, "values": VALUES}},
                {"uuid": "FF40", "flags": ["read", "write", "write-without-response"], "value": "01",
                 "descriptors": [{"uuid": "FF50", "value": "0A"}]},
                {"uuid": "FF41", "flags": ["write-without-response"]},
                {"uuid": "FF42", "flags": ["encrypt-read"], "value": "2A"},
            ]},
            {"uuid": "1815", "characteristics": [{"uuid": "2A56", "flags": ["read"], "value": "00"}]},
            {"uuid": TRAY, "characteristics": [{"uuid": "FF60", "flags": ["read"], "value": "60"}]},
        ],
    }],
}


def without_flag():
    """An accessory that does not advertise that it has no classic side."""
    scenario = copy.deepcopy(SCENARIO)
    advert = raw((FLAGS, b"\x02"), (SERVICES_128, service(DICE)))
    scenario["accessories"][0]["adverts"][0] = advert | {"scanResponse": {"name": "Dice 4F"}}
    return scenario


class Probe:
    """The app. Checks wait for its output line by line, so that one too many is a failure as well."""

    def __init__(self, journey, state="poweredOn"):
        self._journey = journey
        self._process = journey.lab.start(
            "central-probe", journey.lab.bin / "central-probe", environment={"DBUS_SYSTEM_BUS_ADDRESS": VIEW},
            listens=True)
        self.hear(f"didUpdateState {state}")

    def tell(self, *commands):
        self._process.tell(*commands)

    def next(self, seconds=20):
        return self._process.wait_for("", seconds).string

    def hear(self, *expected, seconds=20):
        """The next lines are these."""
        for line in expected:
            said = self.next(seconds)
            expect(said == line, f"the app says “{said}”, not “{line}”")

    def ask(self, command, *expected, seconds=20):
        """Sends a command; the next lines must be `expected`."""
        self.tell(command)
        self.hear(*expected, seconds=seconds)

    def retrieve(self):
        self.ask(f"retrieve {self._journey.listed()[ADDRESS]['id']}", "retrieved Dice 4F")

    def connect(self, *options):
        self.ask(" ".join(("connect", *options)), "didConnect connected", seconds=LONG)

    def discover(self):
        """All characteristics of the dice's service."""
        self.ask("services", f"didDiscoverServices {SERVICES}")
        self.ask(f"characteristics {DICE}", f"didDiscoverCharacteristics {DICE}: FF3F FF40 FF41 FF42")

    def values(self, count):
        """The next so many lines, which are values."""
        return [expect_value(self.next()) for _ in range(count)]

    def kill(self):
        self._process.kill()


def expect_value(line):
    found = re.fullmatch("didUpdateValue FF3F (.*)", line)
    expect(found, f"the app says “{line}”, not a value")
    return found[1]


def expect_attempt(lab):
    """bluetoothd tries to make the link."""
    lab.bluetoothd.wait_for("device_connect_le.* Connection attempt", LONG)


def expect_written(lab, *expected):
    """The next that the accessory hears to be written is this: characteristics and values."""
    for name, value in expected:
        found = lab.air.wait_for(r"die: (\S+) written: (\S*)$")
        written = found[1], found[2].upper()
        expect(written == (name, value), f"written was {written}, not {(name, value)}")


def begin(lab, **options):
    """The accessory is set up by the app's other program, and the probe knows it."""
    journey = Journey(lab, lab.bin / "central-probe", **options)
    journey.picker("Dice 4F")
    adding = lab.start("dice", lab.bin / "dice", "add")
    expect(adding.wait_exit(60) == 0, f"dice ended with an error: {adding.lines[-1:]}")
    probe = Probe(journey)
    probe.retrieve()
    return journey, probe


@check(SCENARIO, seconds=120)
def discovers_reads_and_writes(lab):
    _, probe = begin(lab)
    probe.connect()

    # Simultaneous requests are answered in order, and not before the app is ready for the callbacks.
    probe.ask("services; say asked", "asked", f"didDiscoverServices {SERVICES}")
    probe.ask(
        f"included {DICE}; included 1815; characteristics {DICE}; characteristics {TRAY}; say asked", "asked",
        f"didDiscoverIncludedServices {DICE}: 1815 {TRAY}", "didDiscoverIncludedServices 1815: ",
        f"didDiscoverCharacteristics {DICE}: FF3F FF40 FF41 FF42", f"didDiscoverCharacteristics {TRAY}: FF60")
    probe.ask(
        "descriptors FF3F; descriptors FF40; descriptors FF42; read FF3F; read FF60; say asked", "asked",
        "didDiscoverDescriptors FF3F: 2901 2902", "didDiscoverDescriptors FF40: FF50", "didDiscoverDescriptors FF42: ",
        "didUpdateValue FF3F 01", "didUpdateValue FF60 60")
    probe.ask(
        "read FF3F/2901; write FF40/FF50 0B0C; read FF40/FF50; write FF40 02; read FF40; say asked", "asked",
        "didUpdateDescriptor 2901 Roll", "didWriteDescriptor FF50", "didUpdateDescriptor FF50 0B0C",
        "didWriteValue FF40", "didUpdateValue FF40 02")
    expect_written(lab, ("FF40/FF50", "0B0C"), ("FF40", "02"))

    # Writes without response arrive in order, and before later requests.
    for first in range(16, 80, 16):
        numbers = [f"{each:02X}" for each in range(first, first + 16)]
        commands = "; ".join(f"command FF40 {each}" for each in numbers)
        probe.ask(f"{commands}; read FF40", f"didUpdateValue FF40 {numbers[-1]}")
        expect_written(lab, *(("FF40", each) for each in numbers))
    turns = [("FF40" if number % 3 else "FF41", f"{number:02X}") for number in range(12)]
    commands = "; ".join(f"command {name} {value}" for name, value in turns)
    probe.ask(f"{commands}; write FF40 AA", "didWriteValue FF40")
    expect_written(lab, *turns, ("FF40", "AA"))

    # The services are others, with other objects. They are found one by one, and reported together.
    lab.air.change_services("die", pause=0.2)
    probe.hear(f"didModifyServices {DICE} 1815 {TRAY}")
    probe.discover()
    probe.ask("read FF40", "didUpdateValue FF40 AA")

    probe.ask("cancel", "didDisconnect disconnected for good")
    lab.air.wait_for("die: disconnected")
    lab.wait_until(lambda: connected(lab) == [], 20, "BlueZ to have no link")


@check(without_flag(), seconds=120)
def connects_what_is_connected_and_may_have_a_classic_side(lab):
    _, probe = begin(lab)
    if not connected(lab):
        call = BlueZ(lab).device_call(ADDRESS, "Connect").wait()
        expect(call.error is None, f"Connect answered {call.error}")
    # Up to 5.87 bluetoothd would page its classic side, and end the link as nothing answers.
    probe.connect()
    probe.discover()
    probe.ask("read FF40", "didUpdateValue FF40 01")
    expect(not any("die: disconnected" in line for line in lab.air.log.lines), "the link was ended meanwhile")


@check(SCENARIO, seconds=120)
def hears_every_value(lab):
    _, probe = begin(lab)
    probe.connect()
    probe.discover()
    for _ in range(2):
        # The first value is on the air as soon as the accessory has heard that it is wanted.
        probe.ask("notify FF3F on", ON)
        heard = probe.values(len(VALUES))
        wrong = next((place for place, value in enumerate(heard) if value != VALUES[place]), None)
        expect(wrong is None, f"value {wrong} is {heard[wrong or 0]}, after {heard[:wrong][-3:]}")
        probe.tell("notify FF3F off")
        while (line := probe.next()) != OFF:
            expect_value(line)
        # Earlier values have arrived before this answer.
        probe.ask("read FF40", "didUpdateValue FF40 01")


@check(SCENARIO, seconds=120)
def hears_nothing_after_the_grant(lab):
    journey, probe = begin(lab)
    grant = str(journey.grants()[0]["id"])
    probe.connect()
    probe.discover()
    probe.ask("notify FF3F on", ON)
    probe.values(20)
    journey.admin("revoke", grant)
    while (line := probe.next()).startswith("didUpdateValue"):
        expect_value(line)
    expect(line == f"didDisconnect disconnected for good {LOST}", f"the app says “{line}”")
    # It has no accessory any more.
    probe.hear("didUpdateState poweredOff")
    lab.air.wait_for("die: disconnected")
    journey.expect_nothing_left()
    probe.ask("read FF3F; say still here", "no such attribute", "still here")


@check(SCENARIO, seconds=180)
def waits_for_an_accessory_that_sleeps(lab):
    journey, probe = begin(lab)
    probe.connect("reconnecting")
    probe.discover()
    probe.ask("read FF3F", "didUpdateValue FF3F 01")

    vanished = "CBError.connectionTimeout" if bluez_versions.says_why_links_end() else LOST
    # It sleeps for longer than bluetoothd tries (40 s); the app gets the link again without asking.
    lab.air.vanish("die")
    probe.hear(f"didDisconnect connecting isReconnecting {vanished}", seconds=LONG)
    lab.wait_until(lambda: journey.discovering, LONG, "a discovery to wait for it")
    lab.air.bring_back("die")
    probe.hear("didConnect connected", seconds=LONG)
    lab.wait_until(lambda: not journey.discovering, 20, "the discovery to end")
    probe.discover()
    probe.ask("read FF3F", "didUpdateValue FF3F 01")

    # A cancelled link is not made again; and a connect to a sleeping accessory waits for it.
    probe.ask("cancel", "didDisconnect disconnected for good")
    lab.air.wait_for("die: disconnected, remote")
    lab.air.vanish("die")
    probe.ask("connect; say asked", "asked")
    expect_attempt(lab)
    lab.air.bring_back("die")
    probe.hear("didConnect connected", seconds=LONG)

    # Without the option a link that breaks stays away, until it is asked for.
    lab.air.vanish("die")
    probe.hear(f"didDisconnect disconnected for good {vanished}", seconds=LONG)
    lab.air.bring_back("die")
    probe.connect()


@check(SCENARIO, seconds=180)
def comes_back_with_the_daemon_and_keeps_the_pairing(lab):
    journey, probe = begin(lab)
    bonds = lab.bonds()
    expect(list(bonds) == [ADDRESS], f"there are bonds with {list(bonds)}")

    def read():
        probe.discover()
        probe.ask("read FF42", "didUpdateValue FF42 2A")

    probe.connect()
    read()
    probe.ask("cancel", "didDisconnect disconnected for good")
    lab.air.wait_for("die: disconnected")
    probe.connect("reconnecting")
    read()

    for number in (signal.SIGTERM, signal.SIGKILL):
        journey.daemon.kill(number)
        probe.hear(f"didDisconnect connecting isReconnecting {LOST}", "didUpdateState resetting", seconds=LONG)
        journey.start_daemon()
        probe.hear("didUpdateState poweredOn", "didConnect connected", seconds=LONG)
        read()

    expect(sum("pairing started" in line for line in lab.air.log.lines) == 1, "it was paired again")
    expect(lab.bonds() == bonds, "the bond is another")


@check(SCENARIO, seconds=180)
def leaves_nothing_when_it_is_killed(lab):
    journey, probe = begin(lab, configuration="[View]\nLinger=2\n")
    probe.connect()
    probe.discover()
    probe.ask("notify FF3F on", ON)
    probe.tell("scan")
    lab.wait_until(lambda: journey.discovering, 20, "the discovery to begin")
    probe.kill()
    lab.air.wait_for("FF3F unsubscribed|die: disconnected", LONG)
    lab.wait_until(lambda: connected(lab) == [] and not journey.discovering, LONG, "link and discovery to end")

    # While it waits for an accessory that sleeps.
    lab.air.vanish("die")
    probe = Probe(journey)
    probe.retrieve()
    probe.ask("connect; say asked", "asked")
    expect_attempt(lab)
    probe.kill()
    journey.daemon.wait_for("cancelled a connection attempt", LONG)
    # A scanning client hears it now, and no client connects.
    lab.air.bring_back("die")
    bluez = BlueZ(lab)
    bluez.discover()
    bluez.find(ADDRESS, RSSI=-50)
    expect(connected(lab) == [], "there is a link again")
