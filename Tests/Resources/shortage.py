# SPDX-License-Identifier: Apache-2.0
"""Worlds whose daemon can be made to lack a resource: calls on its files that fail by number or wait, descriptors, clocks that jump. The
resource is taken from outside (shortage.c); the programs are unmodified."""

import atexit
import contextlib
import ctypes
import errno
import mmap
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import dbus

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "API"))

from harness.names import ADMIN, ADMIN_PATH, PICKER, PROPERTIES, ROOT
from harness.programs import Daemon
from harness.values import sv
from harness.waiting import wait
from harness.world import APITest, World

WRITING, SYNCING, NAMING, OPENING, READING = 1, 2, 4, 8, 16
CHANGING = WRITING | SYNCING | NAMING
FOR_EVER = 1 << 60


class Control(ctypes.Structure):
    """shortage.c's `struct control`."""

    _fields_ = [("path", ctypes.c_char * 256)] + [(name, ctypes.c_int64) for name in (
        "kinds", "seen", "first", "until", "error", "failed", "pause_ms", "wall", "uptime", "boottime", "bytes", "blocks")] + [
        ("blocks_by_size", ctypes.c_int64 * 257)]


def more_blocks(before, after, many):
    """Of `blocks_by_size`: the sizes of which there are more than so many more → how many more. A leak is blocks of one size."""
    return {16 * size + 8: now - then for size, (then, now) in enumerate(zip(before, after)) if now - then > many}


class Shortage:
    """The shortages of one daemon, which outlive its restarts. None at first."""

    _library = None

    def __init__(self, directory):
        if Shortage._library is None:
            # Beside the worlds, for all of this process.
            built = Path(tempfile.mkdtemp(prefix="accessory-shortage-"))
            Shortage._library = built / "shortage.so"
            subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", Shortage._library, HERE / "shortage.c", "-ldl"],
                           check=True)
            atexit.register(shutil.rmtree, built)
        path = directory / "shortage"
        path.write_bytes(bytes(ctypes.sizeof(Control)))
        with path.open("r+b") as file:
            self.now = Control.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Control)))
        self.environment = {"LD_PRELOAD": str(Shortage._library), "SHORTAGE": str(path)}

    def fail(self, path, number, kinds=CHANGING, first=0, count=FOR_EVER):
        """`count` calls of the given kinds on files below `path` fail with this error number, from the `first` on."""
        now = self.now
        now.kinds = 0
        now.path, now.seen, now.failed, now.error, now.first, now.until = str(path).encode(), 0, 0, number, first, first + count
        now.kinds = kinds

    def slow(self, path, milliseconds, kinds=SYNCING):
        """Calls of the given kinds on files below `path` take so long."""
        self.fail(path, 0, kinds, FOR_EVER)
        self.now.pause_ms = milliseconds

    def end(self):
        """The files are as they should be; returns how many calls have failed."""
        self.now.kinds = self.now.pause_ms = 0
        return self.now.failed

    @contextlib.contextmanager
    def failing(self, *arguments, **more):
        self.fail(*arguments, **more)
        yield
        self.end()


class ShortWorld(World):
    """A world whose daemon runs with `shortage`."""

    shortage = None

    def start_daemon(self, waits=True):
        if self.shortage is None:
            self.shortage = Shortage(self.directory)
        with mock.patch.dict(os.environ, self.shortage.environment):
            self.daemon = Daemon(self)
        if waits:
            self.wait_bluetooth(self.simulator.bluetooth)

    @property
    def pid(self):
        return self.daemon.pid

    def trail(self, limit=10_000):
        """The end of the trail, oldest first: (number, event, app, accessory)."""
        return [(int(each["id"]), *(str(each.get(key, "")) for key in ("event", "app", "accessory")))
                for each in self.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", sv({"limit": dbus.UInt32(limit)}))]

    def pass_time(self, seconds):
        """The daemon's clock of deadlines goes on by so much; it looks at it when the next message comes."""
        self.shortage.now.uptime += int(seconds * 1e9)
        self.admin.settle()

    def jump(self, seconds):
        """The date changes under the daemon."""
        self.shortage.now.wall += int(seconds * 1e9)

    @contextlib.contextmanager
    def few_descriptors(self, spare=0):
        """The daemon may have no more descriptors than it has, and so many spare ones."""
        before = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        taken = {int(each) for each in os.listdir(f"/proc/{self.pid}/fd")}
        # The limit is one of numbers: a new descriptor gets the lowest that is free, and those above it stay.
        limit = [number for number in range(max(taken) + spare + 2) if number not in taken][spare]
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
        yield
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, before)


class ShortageTest(APITest):
    """A test with such a world."""

    def start(self, scenario, apps=None):
        if self.world is not None:
            self._close_world()
        self.world = ShortWorld(scenario, apps or self.apps, self.manifest)
        self.simulator = self.world.simulator
        self.shortage = self.world.shortage

    # Properties that come from the radio, not from the ledger.
    OF_THE_RADIO = {"Device", "Connected", "Battery", "AdvertisedName"}

    def seen(self):
        """The visible state: objects with their properties, and bonds."""
        objects = {path: {name: {str(key): value for key, value in values.items() if key not in self.OF_THE_RADIO}
                          for name, values in each.items()} for path, each in self.world.admin.objects().items()}
        # A picker says to the person that something failed: it is there or not.
        for each in objects.values():
            if PICKER in each:
                each[PICKER] = {}
        return objects, self.simulator.bonds
