# SPDX-License-Identifier: Apache-2.0
"""Attempts to stop the daemon for others: files that are read for ever, connections that take all places, expressions that compute for ever,
images without end, trails that displace grants. Others are answered meanwhile, always; nothing here measures time."""

import contextlib
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess

import dbus
import dbus.bus

from attack import AS_SOMEBODY, INVALID, Attack
from harness.clients import Identity
from harness.names import MANAGER, NAME, PINK, PNG, ROOT, SOMEBODY_ELSE
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest
from view import ADAPTER, LIMITS_EXCEEDED, MANAGERS, View

# A file system that a process plays, of the user's own: a file that is there, and is never read to the end.
PLAYED_FILE_SYSTEM = """
import struct, threading
place, own, options = sys.argv[3].encode(), sys.argv[5], ""
if own == "user":
    mine, group = os.getuid(), os.getgid()
    libc.unshare(0x10020000)
    for name, content in (("setgroups", "deny"), ("uid_map", f"0 {mine} 1"), ("gid_map", f"0 {group} 1")):
        with open("/proc/self/" + name, "w") as file:
            file.write(content)
else:
    # As the setuid program fusermount does it for a user, where /etc/fuse.conf has user_allow_other.
    options = ",allow_other"
    if own == "mount":
        libc.unshare(0x20000)
        libc.mount(b"none", b"/", None, 0x44000, None)
control = os.open("/dev/fuse", os.O_RDWR)
if libc.mount(b"played", place, b"fuse", 0, f"fd={control},rootmode=40000,user_id=0,group_id=0{options}".encode()):
    raise OSError(ctypes.get_errno(), "no FUSE")

def attributes(node):
    kind = 0o40755 if node == 1 else 0o100644
    return struct.pack("<QQQQQQIIIIIIIIII", node, 100, 1, 0, 0, 0, 0, 0, 0, kind, 1, 0, 0, 0, 4096, 0)

def play():
    while True:
        try:
            request = os.read(control, 1 << 17)
        except OSError:
            return
        length, code, unique, node = struct.unpack_from("<IIQQ", request)
        if code == 26:
            answer = struct.pack("<IIIIHHIIHHI7I", 7, 31, 65536, 0, 8, 8, 65536, 1, 0, 0, 0, *[0] * 7)
        elif code == 1:
            answer = struct.pack("<QQQQII", 2, 0, 1, 1, 0, 0) + attributes(2)
        elif code == 3:
            answer = struct.pack("<QII", 1, 0, 0) + attributes(node)
        elif code in (14, 27):
            answer = struct.pack("<QII", 1, 1, 0)
        elif code == 15:
            say("read, and not answered")
            continue
        elif code in (2, 36, 42):
            continue
        else:
            # Whoever closes it is not to wait for us: that is another attack, on themselves.
            answer = b""
        os.write(control, struct.pack("<IiQ", 16 + len(answer), -38 if code == 25 else 0, unique) + answer)

threading.Thread(target=play, daemon=True).start()
file = os.open(place + b"/image", os.O_RDONLY)
giving = socket.socket(socket.AF_UNIX)
giving.connect(sys.argv[4])
socket.send_fds(giving, [b"x"], [file])
os.close(file)
say("given")
threading.Event().wait()
"""


class Images(Attack):
    """The one place where the daemon reads an app's file."""

    def show(self, descriptor):
        self.dice.show_picker(item("Pink", productImage=dbus.types.UnixFd(descriptor)))

    def refused(self, descriptor):
        try:
            return self.assertFails(INVALID, self.show, descriptor, says=["productImage"])
        finally:
            self.assertServed()

    def played(self, own):
        """A descriptor of a file that a process serves, in a namespace of its own."""
        place, meeting = self.world.directory / f"played-{own}", self.world.directory / f"meeting-{own}"
        place.mkdir()
        identity = AS_SOMEBODY if own == "user" else {"user": 0, "group": 0}
        shutil.chown(place, identity["user"])
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(meeting))
            meeting.chmod(0o777)
            listening.listen()
            self.player = self.attack(PLAYED_FILE_SYSTEM, str(place), str(meeting), own, identity=identity)
            if own == "nothing":
                self.addCleanup(subprocess.run, ["umount", "--lazy", place], check=True)
            self.player.wait_for("^given")
            connection, _ = listening.accept()
            with connection:
                _, [descriptor], _, _ = socket.recv_fds(connection, 1, 1)
        return descriptor

    def test_a_file_that_a_process_plays(self):
        """A FUSE file: on a file system of a user namespace, which the kernel keeps from others; and of one that others may read, where the
        daemon does not see it mounted, and where it does."""
        for own in ("user", "mount", "nothing"):
            with self.subTest(own):
                descriptor = self.played(own)
                try:
                    self.refused(descriptor)
                    self.assertEqual([each for each in self.player.lines if "not answered" in each], [])
                finally:
                    # Without a server no reader waits.
                    self.player.stop(signal.SIGKILL)
                    os.close(descriptor)

    def test_a_file_system_that_is_not_on_the_list(self):
        for path in ("/proc/self/status", "/sys/kernel/notes", "/proc/kmsg"):
            if os.path.exists(path):
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                self.refused(descriptor)
                os.close(descriptor)

    def test_what_is_no_file(self):
        fifo = self.world.directory / "fifo"
        os.mkfifo(fifo)
        ends = [os.open(fifo, os.O_RDWR), *os.pipe(), os.open(self.world.directory, os.O_RDONLY), os.open("/dev/zero", os.O_RDONLY),
                os.open("/dev/tty" if os.path.exists("/dev/ptmx") is False else "/dev/ptmx", os.O_RDWR | os.O_NOCTTY),
                os.eventfd(0), socket.socket(socket.AF_UNIX).detach(), os.open(self.world.directory, os.O_PATH)]
        for each in ends:
            with self.subTest(os.readlink(f"/proc/self/fd/{each}")):
                self.refused(each)
            os.close(each)

    def test_a_huge_file(self):
        for make in (lambda: os.open(self.world.directory / "huge", os.O_RDWR | os.O_CREAT), lambda: os.memfd_create("huge")):
            descriptor = make()
            os.ftruncate(descriptor, 1 << 40)
            self.refused(descriptor)
            os.close(descriptor)

    def test_a_file_that_is_only_written(self):
        descriptor = os.open(self.world.directory / "written", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, PNG)
        self.refused(descriptor)
        os.close(descriptor)

    def test_memory_and_files_are_read(self):
        memory = os.memfd_create("image")
        file = os.open(self.world.directory / "image", os.O_RDWR | os.O_CREAT)
        for each in (memory, file):
            os.write(each, PNG)
            self.show(each)
            self.person.wait_shown()
            self.person.cancel()
            self.person.wait_gone()
            os.close(each)

    def test_images_of_updates_are_bounded_in_all(self):
        """Each is small enough, each call too."""
        self.start(scenario(accessory("pink", count=20), accessory("last", 99)))
        dice, board = self.app("dice"), self.app("board", SOMEBODY_ELSE)
        person = self.picker()
        dice.show_picker(item(), options=["filterDiscoveryResults"])
        found = lambda: list(dict.fromkeys(str(each["identifier"]) for kind, each in dice.events if kind == "accessoryDiscovered"))
        wait(lambda: len(found()) >= 20, what=lambda: f"20 accessories to be discovered, {len(found())} are")
        memory = os.memfd_create("image")
        os.write(memory, PNG + bytes((1 << 20) - len(PNG)))

        def update(identifiers):
            dice.request("UpdatePicker", "aa{sv}", dbus.Array(
                [sv({"name": "Die", "identifier": each, "productImage": dbus.types.UnixFd(memory)}) for each in identifiers], "a{sv}"))

        # A bus carries 16 descriptors in a message as it is set up here.
        update(found()[:10])
        self.assertFails(INVALID, update, found()[10:20], says=["images in this picker", 16 << 20])
        # The refused update has changed nothing, and there is room for six more.
        wait(lambda: len(person.offers) == 10, what=lambda: f"ten offers, {len(person.offers)} are")
        update(found()[10:16])
        self.assertFails(INVALID, update, found()[16:17], says=["images in this picker"])
        # The same ones again take no more room.
        update(found()[:10])
        board.get(ROOT, MANAGER, "Version")
        os.close(memory)


class Waiting(Attack):
    """A request waits until it is known who sends it. Requests that the daemon keeps meanwhile must not keep it from reading the answer."""

    def test_huge_requests_that_wait(self):
        flood = self.attack("""
            connections = [dbus.bus.BusConnection(BUS) for _ in range(6)]
            huge = dbus.Dictionary({"huge": dbus.ByteArray(bytes(24 << 20))}, signature="sv")
            for each in connections:
                each.call_async(NAME, ROOT, MANAGER, "CreateSession", "a{sv}", (huge,), None, None)
            for each in connections:
                each.flush()
            say("sent")
            say(version_in_the_end(dbus.bus.BusConnection(BUS)))
            sys.stdin.readline()
            """, stdin=subprocess.PIPE)
        self.addCleanup(lambda: flood._process.stdin.close())
        flood.wait_for("^sent", 60)
        self.assertServedInTheEnd()
        flood.wait_for("^answered", 60)
        self.assertFalse(any("client refused" in each for each in self.world.daemon.lines), "nobody was waited for in vain")

    def assertServedInTheEnd(self):
        def isReached():
            try:
                self.board.get(ROOT, MANAGER, "Version")
            except dbus.DBusException as refused:
                if refused.get_dbus_name() != LIMITS_EXCEEDED:
                    raise
                return False
            return True

        wait(isReached, 60, "the bus to take calls to the daemon", also_every=0.05)
        self.assertServed()

    def test_descriptors_of_requests_that_wait(self):
        """A hundred would leave no room for anything else, and where the bus cannot deliver a descriptor the connection ends."""
        before, flood = self.flood("stranger", 256, "BUS", 16, 'NAME, ROOT, MANAGER, "CreateSession"', "say(version_in_the_end(connections[0]))")
        flood.wait_for("^answered", 60)
        self.assertServedInTheEnd()
        wait(lambda: self.descriptors() <= before + 2, what=lambda: f"{before} descriptors; there are {self.descriptors()}", also_every=0.05)

    def test_descriptors_of_requests_to_the_view(self):
        before, _ = self.flood("dice", 512, "VIEW", 8, '"org.bluez", "/org/bluez/hci0", "org.bluez.Adapter1", "SetDiscoveryFilter"')
        self.assertServed()
        self.assertLess(self.descriptors(), before + 8 * (16 + 8))

    def flood(self, who, limit, bus, connections, call, then=""):
        """Allows the daemon few descriptors, and has a program send it sixty requests with sixteen each on every connection. Returns how many
        the daemon had, and the program."""
        resource.prlimit(self.world.daemon._process.pid, resource.RLIMIT_NOFILE, (limit, limit))
        before = self.descriptors()
        flood = self.attack(f"""
            connections = [dbus.bus.BusConnection({bus}) for _ in range({connections})]
            many = dbus.Dictionary({{str(each): dbus.types.UnixFd(0) for each in range(16)}}, signature="sv")
            for each in connections:
                for _ in range(60):
                    each.call_async({call}, "a{{sv}}", (many,), None, None)
            for each in connections:
                each.flush()
            say("sent")
            {then}
            sys.stdin.readline()
            """, executable=Identity(who).executable, stdin=subprocess.PIPE)
        self.addCleanup(lambda: flood._process.stdin.close())
        flood.wait_for("^sent", 60)
        return before, flood

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.world.daemon._process.pid}/fd"))


class Places(Attack):
    def test_silent_connections_of_one_user_keep_no_other_out(self):
        """Also while they are there: they are cut after a while."""
        silent = self.attack("""
            connections = [socket.socket(socket.AF_UNIX) for _ in range(200)]
            for each in connections:
                each.connect(VIEW.split("path=")[1])
            say("connected")
            sys.stdin.readline()
            """, stdin=subprocess.PIPE)
        self.addCleanup(lambda: silent._process.stdin.close())
        silent.wait_for("^connected")
        self.assertServed()
        refusals = lambda: [each for each in self.world.daemon.lines if "have not called Hello" in each]
        wait(refusals, what="the rest of them to be refused")

    def test_connections_of_one_user_to_the_view_keep_no_other_out(self):
        greedy = self.attack("""
            connections = []
            for _ in range(100):
                try:
                    connections.append(dbus.bus.BusConnection(VIEW))
                except dbus.DBusException:
                    break
            say("connected", len(connections))
            sys.stdin.readline()
            """, stdin=subprocess.PIPE)
        self.addCleanup(lambda: greedy._process.stdin.close())
        self.assertLessEqual(int(greedy.wait_for("^connected").split()[1]), 64)
        self.assertServed()

    def test_connections_of_one_user_to_the_bus_keep_no_other_out(self):
        greedy = self.attack("""
            connections = [dbus.bus.BusConnection(BUS) for _ in range(300)]
            answers = [version(each) for each in connections]
            say("served", sum(each.startswith("answered") for each in answers))
            say("refused", sum("LimitsExceeded" in each and "user" in each for each in answers), answers[-1])
            sys.stdin.readline()
            """, stdin=subprocess.PIPE)
        self.addCleanup(lambda: greedy._process.stdin.close())
        served = int(greedy.wait_for("^served", 60).split()[1])
        refused = greedy.wait_for("^refused").split()[1]
        self.assertLessEqual(served, 256)
        self.assertEqual(served + int(refused), 300, greedy.lines)
        self.assertServed()
        newcomer = self.app("board", SOMEBODY_ELSE)
        self.assertEqual(newcomer.accessories, [])


class Expressions(APITest):
    """Regular expressions that go back again and again over names that others choose."""

    apps = ("dice", "board")
    name = "a" * 60 + "!"
    scenario = scenario(accessory("evil", advert={"serviceUUIDs": [PINK], "name": name}), accessory("plain", 2))
    expressions = ("(a+)+$", "(a|aa)+$", "(.*a){30}x", "((a*)*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a?){60}a{61}")
    many = [f"(a+)+{number}$" for number in range(255)]
    # An app may look for names that its manifest has, to the letter.
    manifest = {"BluetoothNames": ";".join((*expressions, *many)) + ";"}

    def test_a_search_that_never_ends_holds_up_nobody(self):
        person, dice, board = self.picker(), self.app(), self.app("board", SOMEBODY_ELSE)
        search = lambda each: item(each, bluetoothNameSubstring=each, bluetoothNameSubstringCompareOptions=["regularExpression"])
        dice.show_picker(*[search(each) for each in self.expressions], item("The rest"))
        # The last item is asked when all expressions have said no, so that they were asked.
        offer = person.wait_offer(self.name)
        self.assertEqual(str(offer["name"]), "The rest")
        board.get(ROOT, MANAGER, "Version")
        self.assertEqual(list(View(self.world, "board", SOMEBODY_ELSE).tree()), [MANAGERS, ADAPTER])
        person.wait_offer("plain")
        person.pick("plain")
        dice.wait_event("accessoryAdded")

    def test_many_names_and_many_expressions(self):
        """256 items over 60 names, each of which would take ages with each."""
        self.start(scenario(accessory("evil", count=60, advert={"serviceUUIDs": [PINK], "name": "a" * 30 + "%d!"}), accessory("plain", 99)))
        person, dice, board = self.picker(), self.app(), self.app("board", SOMEBODY_ELSE)
        dice.show_picker(*[
            item(each, bluetoothNameSubstring=each, bluetoothNameSubstringCompareOptions=["regularExpression"]) for each in self.many],
            item("The rest"))
        person.wait_offer("plain", 60)
        board.get(ROOT, MANAGER, "Version")
        dice.request("Invalidate")
        person.wait_gone()


class Trail(Attack):
    ROUNDS = 400

    def events(self, **filter):
        return [str(each["event"]) for each in self.world.admin.call(
            f"{ROOT}/admin", f"{NAME}.Admin", "GetAudit", "a{sv}", sv({"limit": dbus.UInt32(10000), **filter}))]

    def test_an_app_that_asks_all_day_pushes_out_no_grant(self):
        """The trail is full of its pickers already: its further lines only find place in its own share."""
        self.simulator.do("vanish", "pink")
        self.simulator.do("vanish", "other")
        for client in (self.person, self.dice, self.board):
            client.close()
        self.world.daemon.stop()
        with contextlib.closing(sqlite3.connect(self.world.state / "grants.sqlite")) as store, store:
            [granted] = store.execute("SELECT count(*) FROM audit WHERE event = 'granted'").fetchone()
            store.executemany("INSERT INTO audit (time, event, app, accessory, who, why) VALUES (1, 'pickerShown', ?, NULL, 'x', 'x')",
                              [("com.example.dice",)] * 10_500)
        self.assertEqual(granted, 1)
        self.world.start_daemon()
        self.person, self.dice = self.picker(), self.app()
        for count in range(1, self.ROUNDS + 1):
            self.dice.show_picker(item())
            self.dice.request("FinishPickerDiscovery")
            self.dice.wait_event("pickerDidDismiss", count=count)
        self.world.daemon.stop()
        with contextlib.closing(sqlite3.connect(self.world.state / "grants.sqlite")) as store:
            kept = dict(store.execute("SELECT event, count(*) FROM audit WHERE app = 'com.example.dice' GROUP BY event"))
        self.assertEqual(kept["granted"], 1)
        self.assertLessEqual(sum(count for event, count in kept.items() if event in ("pickerShown", "offered", "picked", "paired")), 2000)
        self.world.start_daemon()


class Lengths(Attack):
    """Overlong input is refused by its length, and not quoted."""

    def test_what_is_very_long(self):
        huge = (16 << 20) - (1 << 16)
        for says, bad in (
                ("name", item("x" * huge)),
                ("bluetoothServiceUUID", item(service="x" * huge)),
                ("bluetoothNameSubstring", item(bluetoothNameSubstring="x" * huge)),
                ("bluetoothServiceDataBlob", item(bluetoothServiceDataBlob=bytes(huge))),
                ("bluetoothServiceDataMask", item(bluetoothServiceDataBlob=b"x", bluetoothServiceDataMask=bytes(huge))),
                ("bluetoothManufacturerDataMask", item(bluetoothManufacturerDataBlob=b"x", bluetoothManufacturerDataMask=bytes(huge))),
                ("ssid", item(ssid=bytes(huge))), ("ssidPrefix", item(ssidPrefix="x" * huge)),
                ("productImage", item(productImage=bytes(huge))), ("peripheralIdentifier", item() | {"peripheralIdentifier": "x" * huge}),
                ("hotspotSSID", item() | {"hotspotSSID": bytes(huge)})):
            with self.subTest(says):
                refused = self.assertFails(INVALID, self.dice.show_picker, bad)
                self.assertLess(len(refused.get_dbus_message()), 300)
                self.assertIn(says.lower(), refused.get_dbus_message().lower())
                self.assertServed()
        long_key = self.assertFails(INVALID, self.dice.show_picker, item() | {"x" * huge: 1})
        self.assertLess(len(long_key.get_dbus_message()), 5000)
