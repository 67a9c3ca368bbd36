# SPDX-License-Identifier: Apache-2.0
"""A world for each test: a private bus, simulated radios, the real daemon, and clients with no knowledge beyond the session API."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import dbus
import dbus.mainloop.glib

from harness.apps import App
from harness.clients import Client, Identity
from harness.mirror import Mirror
from harness.names import BLUE, GRANT, MANAGER, NAME, PINK, ROOT, SOMEBODY, error
from harness.pickers import PickerProgram
from harness.programs import BIN, Bus, Daemon
from harness.radio import Simulator
from harness.values import item
from harness.waiting import happens_within, wait

# Those of a manifest's first group.
APPLICATION_KEYS = (
    "Id", "Name", "Executable", "User", "Unit", "Flatpak", "Snap", "SecurityLabel", "Socket", "SocketUser", "SocketGroup", "SocketMode",
    "Remote", "RemoteAddresses",
)
# Between two seconds that are passed: how often daemon and simulator have their turn.
EXCHANGES = 3


class World:
    def __init__(self, scenario, apps, manifest={}):
        self.clients = []
        self.directory = Path(tempfile.mkdtemp(prefix="accessory-api-"))
        self.directory.chmod(0o755)
        self.state = self.directory / "state"
        self.inputs = self.directory / "inputs"
        self.view = self.directory / "view"
        self.app_sockets = self.directory / "app-sockets"
        self.app_sockets.mkdir()
        self.config = self.directory / "accessorysetupd.conf"
        self.policy = self.directory / "policy.d"
        self.policy_directories = [self.policy]
        self.lockdown_file = self.directory / "system-local.conf"
        self.lockdown_policy = self.directory / "lockdown.conf"
        self.lockdown_units = self.directory / "units"
        self.socket_units = [self.directory / "socket-units-etc", self.directory / "socket-units-usr"]
        self.lockdown_since = self.directory / "lockdown-since"
        # Without a file there is no default route.
        self.routes = self.directory / "routes"
        self.routes.mkdir()
        self.app_directories = [self.directory / "apps"]
        self.app_directories[0].mkdir()
        self.daemon = self.simulator = self.bus = None
        # With the daemon that it follows. Worlds that start their daemon in another way have none.
        self.mirror = (None, None)
        for app in apps:
            self.declare(app, **manifest)
        try:
            self.bus = self.make_bus()
            self.simulator = self.make_simulator(scenario)
            self.admin = Client(self)
            self.start_daemon()
        except BaseException:
            self.close()
            raise

    def make_bus(self):
        return Bus()

    def make_simulator(self, scenario):
        return Simulator(self, scenario)

    @property
    def daemon_address(self):
        """The bus, as in the daemon's command line."""
        return self.bus.address

    def declare(self, app, directory=None, **keys):
        """Writes a manifest for the app, com.example.<app>; keys replace or add to those of a good one."""
        application = {"Id": f"com.example.{app}", "Name": app.capitalize(), "Executable": Identity(app).executable}
        setup = {"Supports": "Bluetooth;", "BluetoothServices": f"{PINK};{BLUE};"}
        for key, value in keys.items():
            (application if key in APPLICATION_KEYS else setup)[key] = value
        lines = ["[Application]", *(f"{key}={value}" for key, value in application.items() if value is not None)]
        lines += ["", "[AccessorySetup]", *(f"{key}={value}" for key, value in setup.items() if value is not None), ""]
        path = (directory or self.app_directories[0]) / f"com.example.{app}.conf"
        # Renamed into place, as package managers do: no reader sees half a file.
        draft = path.with_suffix(".new")
        draft.write_text("\n".join(lines))
        draft.rename(path)
        return path

    def start_daemon(self, environment={}):
        """Starts it and waits until it knows the radio."""
        Daemon(self, environment)
        self.wait_bluetooth(self.simulator.bluetooth)
        self.mirror = Mirror(Client(self)), self.daemon

    def restart_daemon(self, number=signal.SIGTERM):
        self.daemon.stop(number)
        self.start_daemon()

    def fill_trail(self, lines=10_000):
        """Fills each part of the trail: each new line replaces another, in the store and in SQLite's cache. For a
        daemon that does not run."""
        with contextlib.closing(sqlite3.connect(self.state / "grants.sqlite")) as store, store:
            store.executemany("INSERT INTO audit (time, event, app, accessory, who, why) VALUES (1, ?, ?, NULL, ?, 'x')", [
                (event, "com.example.dice", "x" * 200) for event in ("granted", "refused", "pickerShown") for _ in range(lines)])

    def seen_from(self, root):
        """The answer to a program of this user that connects, then changes its root, and asks for a session."""
        program = textwrap.dedent(f"""
            import dbus, os
            bus = dbus.bus.BusConnection({self.bus.address!r})
            os.chroot({str(root)!r})
            try:
                print(bus.call_blocking({NAME!r}, {ROOT!r}, {MANAGER!r}, "CreateSession", "a{{sv}}", (dbus.Dictionary(signature="sv"),)))
            except dbus.DBusException as error:
                print(error)
            """)
        return subprocess.run(["/usr/bin/python3", "-c", program], capture_output=True, text=True, check=True).stdout

    def manager(self, name):
        return self.admin.get(ROOT, MANAGER, name)

    def wait_bluetooth(self, state, seconds=10):
        wait(lambda: self.manager("Bluetooth") == state, seconds, f"Bluetooth to be {state}", also_every=0.1)

    def wait_wifi(self, state, seconds=10):
        wait(lambda: self.manager("WiFi") == state, seconds, f"Wi-Fi to be {state}", also_every=0.1)

    def pass_second(self):
        """A second passes for the daemon and the simulator at once. Before it does, each has taken the other's messages: so a call
        between them, which has ten seconds or more, is never late because this machine is slow."""
        for _ in range(EXCHANGES):
            self.simulator.exchange()
            self.manager("Version")
        self.simulator.pass_second()
        self.daemon.pass_second()

    def pass_until(self, happens, seconds, what="it"):
        """Lets so many seconds pass, or fewer, until it happens; returns the result of `happens`."""
        for _ in range(seconds):
            if happens_within(0.02, happens):
                break
            self.pass_second()
        return wait(happens, what=what, also_every=0.05)

    def grants(self):
        """All grants, as the admin sees them: path → properties."""
        return {path: each[GRANT] for path, each in self.admin.objects().items() if GRANT in each}

    def close(self):
        for client in self.clients:
            client.close()
        for program in (self.daemon, self.simulator, self.bus):
            if program is not None:
                program.stop(signal.SIGKILL)
        # The loop must not keep messages for the last test.
        Client.take_in()
        shutil.rmtree(self.directory)


class APITest(unittest.TestCase):
    """A test with a world. `scenario` and `apps` may be set by class."""

    scenario = "dice.json"
    apps = ("dice",)
    world_type = World
    # Keys for every manifest.
    manifest = {}
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if os.geteuid() != 0:
            raise RuntimeError("these tests must run as root: they play apps of several users")
        missing = [each for each in ("accessorysetupd", "accessory-sim") if not (BIN / each).exists()]
        if missing:
            raise RuntimeError(f"{', '.join(missing)} not in {BIN}: build first, or set BIN")
        dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)

    def setUp(self):
        self.world = None
        self.addCleanup(self._end)
        self.start(self.scenario)

    def start(self, scenario, apps=None):
        """A new world instead of the one there is."""
        if self.world is not None:
            self._close_world()
        self.world = self.world_type(scenario, apps or self.apps, self.manifest)
        self.simulator = self.world.simulator

    def _end(self):
        if self.world is None:
            return
        try:
            self.assertTrue(self.world.daemon.running, "the daemon has ended:\n" + "\n".join(self.world.daemon.lines[-20:]))
            if self._outcome.success:
                self._compare_signals()
        finally:
            self._close_world()

    def _compare_signals(self):
        """After every test: a client that read all objects at the start of the daemon, and then only listened, knows the present state."""
        mirror, daemon = self.world.mirror
        if mirror and daemon is self.world.daemon and not daemon.silent:
            wait(lambda: not mirror.differences(), 10, lambda: f"signals and objects to agree: {mirror.differences()}", also_every=0.1)

    def _close_world(self):
        """When the test has failed in it, says how the logs end."""
        world, self.world = self.world, None
        result = self._outcome.result
        if any(self in (test, getattr(test, "test_case", None)) for test, _ in result.failures + result.errors):
            for program in (world.daemon, world.simulator):
                for line in program.lines[-25:]:
                    print(f"{Path(program.command[0]).name}: {line}", file=sys.stderr)
        world.close()

    def app(self, app="dice", uid=SOMEBODY):
        return App(self.world, app, uid).begin()

    def picker(self):
        return PickerProgram(self.world).register()

    def add(self, app, picker, name, *items, answer=None):
        """The whole way with one accessory; returns its path. `answer` is the person's answer to a prompt."""
        before = app.event_types.count("accessoryAdded"), app.event_types.count("pickerDidDismiss")
        app.show_picker(*(items or [item()]))
        picker.wait_stage("offering")
        picker.pick(name)
        if answer is not None:
            picker.wait_stage("confirming")
            picker.respond(**answer)
        added = app.wait_event("accessoryAdded", count=before[0] + 1)
        app.wait_event("pickerDidDismiss", count=before[1] + 1)
        picker.wait_gone()
        return str(added["accessory"])

    def assertFails(self, name, function, *arguments, says=(), **more):
        """The call is refused with this error, and its message has all that `says`."""
        with self.assertRaises(dbus.DBusException) as caught:
            function(*arguments, **more)
        self.assertEqual(caught.exception.get_dbus_name(), name, caught.exception.get_dbus_message())
        for part in says:
            self.assertIn(str(part).lower(), caught.exception.get_dbus_message().lower())
        return caught.exception

    def assertDismissed(self, app, name, seconds=10):
        """The run ends with this error, and nothing is set up; returns the details."""
        details = app.wait_event("pickerDidDismiss", seconds, count=app.event_types[:-1].count("pickerDidDismiss") + 1)
        self.assertEqual(details.get("error"), error(name))
        self.assertTrue(details.get("message"), "no message")
        self.assertNotIn("accessoryAdded", app.event_types)
        self.assertEqual(app.accessories, [])
        self.assertEqual(self.world.grants(), {})
        return details

    def assertNothingLeft(self):
        """No grant, no bond, no picker, no scan."""
        self.assertEqual(self.world.grants(), {})
        self.assertEqual(self.world.admin.paths("accessory"), [])
        self.assertEqual(self.world.admin.paths("picker"), [])
        wait(lambda: self.simulator.bonds == [], 10, "the bonds to go", also_every=0.1)
        wait(lambda: not self.simulator.discovering, 10, "discovery to end", also_every=0.1)
