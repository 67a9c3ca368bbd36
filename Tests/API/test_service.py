# SPDX-License-Identifier: Apache-2.0
"""The daemon as a service: its messages to the service manager, and its identification of callers without privileges."""

import contextlib
import os
import shutil
import socket
import subprocess
import textwrap
import time

import dbus
import dbus.bus

from harness.apps import App
from harness.clients import Client, Identity
from harness.names import BUS_ERROR, MANAGER, NAME, ROOT, SOMEBODY_ELSE, error
from harness.programs import Program
from harness.service_manager import ServiceManager
from harness.values import sv
from harness.waiting import wait
from harness.world import APITest


class Supervision(APITest):
    def setUp(self):
        super().setUp()
        self.manager = ServiceManager(self.world)
        self.addCleanup(self.manager.close)

    def heard(self):
        """The daemon's messages to the service manager up to now."""
        return self.manager.heard()

    @contextlib.contextmanager
    def supervised(self, **environment):
        """The daemon, started by a service manager that says this; ready, and ended afterwards."""
        self.world.daemon.stop()
        self.manager.start(**environment)
        wait(lambda: "READY=1" in self.heard(), 10, "READY=1", also_every=0.02)
        yield
        self.manager.stop()
        self.assertEqual((self.heard()[0], self.heard()[-1]), ("READY=1", "STOPPING=1"))
        self.world.start_daemon()

    def test_the_watchdog_is_fed_by_the_loop(self):
        began = time.monotonic()
        with self.supervised(WATCHDOG_USEC="400000"):
            wait(lambda: self.heard().count("WATCHDOG=1") >= 3, 10, "WATCHDOG=1", also_every=0.05)
            # Twice in each interval, not at every turn of the loop.
            self.assertLess(len(self.heard()), 10 + 3 * (time.monotonic() - began) / 0.4)

    def test_nobody_asked_for_a_watchdog(self):
        for environment in ({}, {"WATCHDOG_USEC": "50000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "0"}):
            with self.subTest(environment), self.supervised(**environment):
                # Ten times the while in which a watchdog of 50 ms would have been heard.
                deadline = time.monotonic() + 0.25
                wait(lambda: time.monotonic() > deadline, also_every=0.05)
                self.assertEqual(self.heard(), ["READY=1"])


class Unprivileged(APITest):
    """The daemon as its unit runs it: a user of its own, with no capabilities but those that a drop-in gives it."""

    rights = ()

    def setUp(self):
        super().setUp()
        self.world.daemon.stop()
        command = self.world.daemon.command
        # The store, and where it makes its socket.
        for each in (self.world.directory, self.world.state, *self.world.state.iterdir()):
            shutil.chown(each, SOMEBODY_ELSE)
        # The program itself may lie where only root may look.
        program = self.world.directory / "accessorysetupd"
        shutil.copyfile(command[0], program)
        program.chmod(0o755)
        user, given = str(SOMEBODY_ELSE), ",".join(("-all", *(f"+{each}" for each in self.rights)))
        self.world.daemon = Program(
            "setpriv", "--reuid", user, "--regid", user, "--clear-groups", f"--inh-caps={given}", f"--ambient-caps={given}",
            f"--bounding-set={given}", "--no-new-privs", program, *command[1:])
        wait(lambda: self.world.admin.has_owner(NAME), 20, lambda: f"the daemon; said was {self.world.daemon.lines}", also_every=0.02)


class WithoutPrivileges(Unprivileged):
    def test_an_app_is_told_why_it_is_not_known(self):
        # Its executable has a manifest, but cannot be read.
        self.assertFails(error("ActivationFailed"), App(self.world).create_session,
                         says=["executable unreadable", "could not be read", "Unit=", "identify-by-executable.conf"])

    def test_admins_and_pickers_are_known_by_their_user(self):
        self.assertEqual(self.world.manager("Bluetooth"), "ready")
        self.picker()
        self.assertTrue(self.world.manager("PickerAvailable"))
        with self.assertRaises(dbus.DBusException) as caught:
            Client(self.world, Identity("stranger")).call(ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({}))
        self.assertEqual(caught.exception.get_dbus_name(), BUS_ERROR + "AccessDenied")


class WithTheRightToLook(Unprivileged):
    """systemd/examples/identify-by-executable.conf."""

    rights = ("sys_ptrace",)

    def test_an_app_is_known_by_its_executable_and_by_no_flatpak(self):
        root = in_a_flatpak(self.world)
        self.world.declare("python", Executable=os.path.realpath("/usr/bin/python3"))
        wait(lambda: "/session/" in self.world.seen_from(self.world.directory), 20, "the manifest to be read", also_every=0.1)
        said = self.world.seen_from(root)
        for each in ("no manifest matches", "Flatpak unreadable", "identify-by-flatpak.conf"):
            self.assertIn(each, said)


class WithTheRightToRead(Unprivileged):
    """The same and systemd/examples/identify-by-flatpak.conf."""

    rights = ("sys_ptrace", "dac_read_search")

    def test_an_app_is_known_by_its_flatpak(self):
        root = in_a_flatpak(self.world)
        self.world.declare("flatpak", Executable=None, Flatpak="org.example.Dice", User=str(os.getuid()))
        wait(lambda: "/session/" in self.world.seen_from(root), 20, "the manifest to be read", also_every=0.1)


def in_a_flatpak(world):
    """A root directory as flatpak makes it: its information is its user's alone to read."""
    root = world.directory / "sandbox"
    root.mkdir()
    (root / ".flatpak-info").write_text("[Application]\nname=org.example.Dice\n")
    (root / ".flatpak-info").chmod(0o600)
    return root


class BorrowedNames(APITest):
    def test_another_program_under_the_name_of_an_executable(self):
        """In a mount namespace of its own a program may have any path, and the kernel reports that path."""
        asking = textwrap.dedent(f"""
            import dbus
            bus = dbus.bus.BusConnection({self.world.bus.address!r})
            try:
                print(bus.call_blocking({NAME!r}, {ROOT!r}, {MANAGER!r}, "CreateSession", "a{{sv}}", (dbus.Dictionary(signature="sv"),)))
            except dbus.DBusException as error:
                print(error)
            """)
        dice, stranger = Identity("dice").executable, Identity("stranger").executable
        for source, says in ((dice, "/session/"), (stranger, "executable unreadable")):
            with self.subTest(source):
                done = subprocess.run(
                    ["unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" && exec "$2" -c "$3"', "sh", source, dice, asking],
                    capture_output=True, text=True, check=True)
                self.assertIn(says, done.stdout)
