# SPDX-License-Identifier: Apache-2.0
"""Attempts to exhaust memory: every kind of client sends huge or numerous messages, and reads nothing. The daemon goes on serving others
within its unit's limit (MemoryMax= in systemd/accessorysetupd.service): its queues are bounded, the kernel has no cause to end it. Control
groups cannot be made in every container; so the limit is compared with the daemon's peak, and with the most that it may request."""

import re
import resource
import subprocess
from pathlib import Path

from attack import Attack
from harness.clients import Identity
from harness.names import PNG
from harness.pickers import PickerProgram
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from view import GATT

UNIT = Path(__file__).resolve().parent.parent.parent / "systemd/accessorysetupd.service"
SIZES = {"K": 10, "M": 20, "G": 30}

# Connections that have said hello, and their raw output.
RAW = """
    import struct, time
    def header(body, signature="", member="Ping", path="/", to="org.bluez", interface="org.freedesktop.DBus.Peer", serial=2):
        fields = b""
        for code, kind, value in ((1, "o", path), (2, "s", interface), (3, "s", member), (6, "s", to), (8, "g", signature)):
            if not value:
                continue
            fields += bytes(-len(fields) % 8) + bytes((code, 1)) + kind.encode() + b"\\0"
            text = value.encode()
            fields += (bytes((len(text),)) if kind == "g" else struct.pack("<I", len(text))) + text + b"\\0"
        return struct.pack("<cBBBIII", b"l", 1, 0, 1, body, serial, len(fields)) + fields + bytes(-len(fields) % 8)

    def connected(address):
        end = socket.socket(socket.AF_UNIX)
        end.connect(address.split("path=")[1].split(",")[0])
        end.sendall(b"\\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\\r\\n")
        assert end.recv(200).startswith(b"OK"), "refused"
        bus = "org.freedesktop.DBus"
        end.sendall(b"BEGIN\\r\\n" + header(0, "", "Hello", "/org/freedesktop/DBus", bus, bus, 1))
        assert end.recv(1), "closed"
        return end

    def all_that_is_taken(end, data):
        # Until it is all gone, or nobody takes more.
        end.setblocking(False)
        while data:
            ready = select.select([], [end], [], 2)[1]
            if not ready:
                return
            try:
                data = data[end.send(data):]
            except OSError:
                return
    """


class Limited(Attack):
    @property
    def limit(self):
        number, unit = re.search(r"^MemoryMax=(\d+)([KMG])$", UNIT.read_text(), re.M).groups()
        return int(number) << SIZES[unit]

    def setUp(self):
        super().setUp()
        # Where more is asked for, there is none, and a Swift program ends.
        resource.prlimit(self.world.daemon.pid, resource.RLIMIT_DATA, (self.limit, self.limit))

    @property
    def most(self):
        """The most memory that the daemon ever had."""
        return 1024 * int(re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{self.world.daemon.pid}/status").read_text(), re.M)[1])

    def check(self):
        self.assertServed()
        self.assertLess(self.most, self.limit)


class Flood(Limited):
    scenario = scenario(accessory("pink", 1, gatt=GATT), accessory("other", 2, gatt=GATT))

    def flood(self, program, *, app=True, **more):
        """An attacker sends all this and stays; with `more` as `attack` takes it."""
        sent = self.attack(RAW + program + """
    say("sent")
    sys.stdin.readline()
    """, executable=Identity("dice").executable if app else None, stdin=subprocess.PIPE, **more)
        self.addCleanup(lambda: sent._process.stdin.close())
        sent.wait_for("^sent", 120)

    def test_huge_messages_on_the_bus(self):
        self.flood("""
    # The bus bounds the messages that wait in it for the daemon.
    buses = [dbus.bus.BusConnection(BUS) for _ in range(4)]
    huge = dbus.Dictionary({"huge": dbus.ByteArray(bytes(24 << 20))}, signature="sv")
    for _ in range(6):
        for bus in buses:
            version(bus)
        for bus in buses:
            bus.call_async(NAME, ROOT, MANAGER, "CreateSession", "a{sv}", (huge,), None, None)
            bus.flush()
    for bus in buses:
        version(bus)
    """, app=False)
        self.check()

    def test_messages_to_the_view_that_never_end(self):
        self.flood("""
    ends = []
    for _ in range(64):
        try:
            ends.append(connected(VIEW))
        except (AssertionError, OSError):
            break
    for end in ends:
        all_that_is_taken(end, header((4 << 20) - 1024, "ay") + struct.pack("<I", (4 << 20) - 1028) + bytes((4 << 20) - 2048))
    """)
        self.check()

    def test_answers_of_the_view_that_nobody_reads(self):
        """Of six users, as one has them who may make namespaces: each connection stays below its limit, all together do not."""
        before = self.most
        ask = """
    call = "Introspect", "/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus.Introspectable"
    member, path, to, interface = call
    answer = len(dbus.bus.BusConnection(VIEW).call_blocking(to, path, interface, member, "", ())) + 128
    ends = [connected(VIEW) for _ in range(8)]
    for end in ends:
        all_that_is_taken(end, header(0, "", *call) * ((3 << 20) // answer))
    """
        for number in range(6):
            self.flood(ask, app=False, identity={"user": 60_000 + number, "group": 60_000 + number})
        self.assertServed()
        wait(lambda: any("like other clients" in each for each in self.world.daemon.lines), 60, "somebody to be cut off", also_every=0.05)
        self.check()
        # The limit of waiting bytes for all, and as much again for the allocator's reserves.
        self.assertLess(self.most - before, 2 * (64 << 20))

    def test_sessions_and_images(self):
        image = (1 << 20) - len(PNG)
        self.flood(f"""
    buses = [dbus.bus.BusConnection(BUS) for _ in range(250)]
    sessions = []
    for bus in buses:
        try:
            sessions.append((bus, bus.call_blocking(NAME, ROOT, MANAGER, "CreateSession", "a{{sv}}", (dbus.Dictionary(signature="sv"),))))
        except dbus.DBusException:
            pass
    say(len(sessions), "sessions")
    bytes_of_one = dbus.ByteArray({PNG!r} + bytes({image}))
    things = [dbus.Dictionary({{"name": "Dice", "descriptor": dbus.Dictionary({{"bluetoothServiceUUID": "FF3F"}}, signature="sv"),
                               "productImage": bytes_of_one}}, signature="sv") for _ in range(16)]
    for bus, session in sessions:
        bus.call_blocking(NAME, session, NAME + ".Session", "Activate", "", ())
        for _ in range(4):
            bus.call_async(NAME, session, NAME + ".Session", "ShowPicker", "aa{{sv}}a{{sv}}", (things, dbus.Dictionary(signature="sv")), None, None)
            bus.flush()
    """)
        self.check()


class Crowd(Limited):
    # The nearest are offered.
    scenario = scenario(accessory("pink", 1, rssi=-40), accessory("crowd", 2, count=1000))

    def test_adverts_that_nobody_reads(self):
        """Sixteen picker programs, which stand still; the air is full."""
        self.person.unregister()
        programs = [PickerProgram(self.world, Identity("shower", 0)).register() for _ in range(16)]
        self.dice.show_picker(item())
        wait(lambda: any(len(each.offers) == 64 for each in programs), 60, "as many as are shown", also_every=0.1)
        for each in programs:
            each.pause()
        for _ in range(100):
            self.world.admin.settle()
        self.check()
        for each in programs:
            each.resume()
