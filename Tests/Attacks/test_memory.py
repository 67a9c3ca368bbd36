# SPDX-License-Identifier: Apache-2.0
"""The memory that finished operations leave behind: each kind is done in batches, and the growth of memory between later batches
is divided by the operations between. The first batches fill caches and the allocator's reserves."""

import contextlib
import re
import sqlite3
import subprocess
from pathlib import Path

import dbus
import dbus.bus

from attack import Attack
from harness.apps import App
from harness.clients import Identity
from harness.values import item
from harness.waiting import wait


class Memory(Attack):
    # Bytes for each operation: a connection that is kept costs more than a thousand. Pages that the allocator happens
    # to take are spread over all operations.
    BOUND = 200

    def held(self):
        """Bytes that are the daemon's own."""
        self.world.manager("Version")
        text = Path(f"/proc/{self.world.daemon._process.pid}/smaps_rollup").read_text()
        return 1024 * int(re.search(r"^Private_Dirty: +(\d+) kB", text, re.M)[1])

    def assertNothingKept(self, what, operation, batch, each=1, batches=4, warm=2):
        held = []
        for _ in range(batches):
            for _ in range(batch):
                operation()
            self.world.daemon.lines.clear()
            held.append(self.held())
        growth = (held[-1] - held[warm - 1]) / ((batches - warm) * batch * each)
        self.assertLess(growth, self.BOUND, f"bytes for each of {what}; the daemon had {held}")

    def fill_trail(self):
        """Fills the trail: each new line replaces another, in the store and in SQLite's cache."""
        for client in (self.person, self.dice, self.board):
            client.close()
        self.world.daemon.stop()
        with contextlib.closing(sqlite3.connect(self.world.state / "grants.sqlite")) as store, store:
            store.executemany("INSERT INTO audit (time, event, app, accessory, who, why) VALUES (1, 'pickerShown', ?, NULL, ?, 'x')",
                              [("com.example.dice", "x" * 200)] * 4000)
        self.world.start_daemon()
        self.person, self.dice = self.picker(), self.app()

    def test_sessions(self):
        client = App(self.world, "dice")

        def session():
            client.signals.clear()
            client.begin()
            client.request("Invalidate")

        self.assertNothingKept("sessions", session, 400)

    def test_pickers(self):
        self.simulator.do("vanish", "other")
        self.fill_trail()

        def picker():
            self.dice.signals.clear()
            self.person.signals.clear()
            self.dice.show_picker(item())
            self.dice.request("FinishPickerDiscovery")
            self.dice.wait_event("pickerDidDismiss")

        # SQLite's cache grows until it has the whole trail; a hundred pages of the allocator come and go
        # with the machine's load, so that a bound on each operation takes many operations.
        self.assertNothingKept("pickers", picker, 300, batches=16, warm=4)

    def test_refusals(self):
        def refusal():
            with contextlib.suppress(dbus.DBusException):
                self.dice.show_picker(item(colour="pink" * 50))

        self.assertNothingKept("refusals", refusal, 1000)

    def connecting(self, program):
        """One program that connects on demand: the daemon has no other client meanwhile."""
        started = self.attack(program, stdin=subprocess.PIPE, executable=Identity("dice").executable)
        self.addCleanup(lambda: started._process.stdin.close())

        def batch():
            before = len(started.lines)
            started._process.stdin.write(b"go\n")
            started._process.stdin.flush()
            wait(lambda: len(started.lines) > before, 60, lambda: f"a batch; {started.lines[-3:]}")

        return batch

    COUNT = 300

    def test_clients_of_the_bus(self):
        """Each has the daemon ask the bus who it is."""
        batch = self.connecting(f"""
            for line in sys.stdin:
                for _ in range({self.COUNT}):
                    bus = dbus.bus.BusConnection(BUS)
                    assert version(bus).startswith("answered")
                    bus.close()
                say("done")
            """)
        self.assertNothingKept("clients of the bus", batch, 1, each=self.COUNT)

    def test_clients_of_the_view(self):
        batch = self.connecting(f"""
            for line in sys.stdin:
                for _ in range({self.COUNT}):
                    bus = dbus.bus.BusConnection(VIEW)
                    assert "answered" in call(bus, "/", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", "", to="org.bluez")
                    bus.close()
                say("done")
            """)
        self.assertNothingKept("clients of the view", batch, 1, each=self.COUNT)
