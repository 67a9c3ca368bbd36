# SPDX-License-Identifier: Apache-2.0
"""BlueZ clients on a real bluetoothd: the check of each client has the rows of Tests/Clients, on the socket of an app on a machine with systemd,
and holds it to the results there. A client elsewhere comes by the door, as its package installs it."""

import importlib.util
import pwd
from pathlib import Path

import dbus

import containers
from framework import DIRECTORY, check
from lab import DAEMON_NAME, STANDSTILL, expect
from machine import DAEMON, PINK_DICE

SUITE = DIRECTORY.parent / "Clients"


def load(name):
    """A module of that suite: this one has the name of one there."""
    specification = importlib.util.spec_from_file_location(f"suite_{name}", SUITE / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


suite, rows = load("clients"), load("rows")
USER = "nobody"
SOCKET = containers.SOCKETS / containers.APP / "bus"
DOOR = "accessory-door.service"
DOOR_USER = "accessory-door"
DOOR_CONFIGURATION = Path("/etc/accessory-setup/door.conf")
KEY = Path(f"/etc/accessory-setup/keys/{containers.APP}.key")


def as_user(name):
    user = pwd.getpwnam(name)
    return ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")


class World:
    """The machine as the rows need it (Tests/Clients/rows.py)."""

    address = PINK_DICE
    service = "e56a082e-c49b-47ca-a2ab-389127b8abe3"
    values = tuple(f"{number:02x}" for number in range(1, 7))

    def __init__(self, machine, client):
        self.machine = machine
        self.client = client
        self.program = None

    def start(self):
        """The program and the grant anew: a row leaves them as they are."""
        self.switch(True)
        if self.program is not None and self.program.running:
            self.program.kill()
        # The app's, or one that the pairing has left.
        if self.is_linked():
            path = f"/org/bluez/hci0/dev_{self.address.replace(':', '_')}"
            self.machine.bus.get_object("org.bluez", path, introspect=False).Disconnect(dbus_interface="org.bluez.Device1")
            self.wait(lambda: not self.is_linked(), "the link to end")
        self.program = self.machine.start(
            "client", *as_user(USER), *suite.command(self.client), listens=True,
            environment=suite.environment(SOCKET, suite.PACKAGES / str(self.client.packages)) | self.doors())

    def doors(self):
        return {"DOORS": f"127.0.0.1={KEY.read_text().strip()}"} if self.client.isElsewhere else {}

    @property
    def lines(self):
        return self.program.lines

    @property
    def silent(self):
        return self.program.ended

    def type(self, line):
        self.program.tell(line)

    def wait(self, happens, what):
        found = None

        def look():
            nonlocal found
            found = happens()
            return found

        self.machine.wait_until(look, 240, what, every=0.2)
        return found

    def is_linked(self):
        return bool(self.machine.bluez_devices()[self.address]["Connected"])

    def switch(self, enabled):
        objects = dbus.Interface(
            self.machine.bus.get_object(DAEMON_NAME, "/org/accessorysetup1", introspect=False), "org.freedesktop.DBus.ObjectManager")
        [grant] = [path for path, each in objects.GetManagedObjects().items() if f"{DAEMON_NAME}.Grant" in each]
        self.machine.bus.get_object(DAEMON_NAME, grant, introspect=False).Set(
            f"{DAEMON_NAME}.Grant", "Enabled", dbus.Boolean(enabled, variant_level=1), dbus_interface=dbus.PROPERTIES_IFACE)

    def restart_daemon(self):
        self.machine.forget_starts()
        self.machine.systemctl("restart", DAEMON)
        self.machine.wait_for_bluetooth()

    def stop_bluetoothd(self):
        self.machine.systemctl("stop", "bluetooth.service")

    def start_bluetoothd(self):
        self.machine.systemctl("start", "bluetooth.service")
        self.machine.wait_for_bluetooth()


def prepare(machine, client):
    """With the accessory granted to the app of the socket, and nothing else."""
    machine.installed()
    user = DOOR_USER if client.isElsewhere else USER
    if SOCKET.exists() and SOCKET.owner() == user and [each["app"] for each in machine.grants()] == [containers.APP]:
        return
    if client.isElsewhere:
        open_door(machine)
    containers.prepare(machine, **{"Remote": KEY} if client.isElsewhere else {"SocketUser": USER})
    picker = machine.picker("Dice 4F")
    picker.wait_for("waiting for a picker", 60)
    machine.run(*as_user(user), "env", f"DBUS_SYSTEM_BUS_ADDRESS=unix:path={SOCKET}", machine.dice, "add", "--timeout", STANDSTILL * 90, seconds=240)
    expect(picker.wait_exit(60) == 0, f"the picker ended with an error: {picker.lines[-1:]}")
    if client.isElsewhere:
        # It asks the daemon on the app's socket for the key's file.
        machine.wait_until(lambda: "app may connect" in machine.journal(f"--unit={DOOR}"), 60, "the door to read the key", every=0.2)


def open_door(machine):
    """As an administrator does, for this machine alone. The package leaves the door shut."""
    if machine.state(DOOR) == "active":
        return
    enabled = machine.systemctl("is-enabled", DOOR, fails=True)
    expect(enabled == "disabled" and machine.state(DOOR) == "inactive", f"the door is {enabled} and {machine.state(DOOR)}")
    DOOR_CONFIGURATION.write_text("[Door]\nListen=127.0.0.1\nName=lab\n")
    said = machine.run("/usr/bin/accessory-door", "--new-key", KEY)
    expect(said == KEY.read_text().strip(), "the printed key is another")
    status = KEY.stat()
    expect((status.st_mode & 0o777, KEY.group(), KEY.parent.group()) == (0o640, DOOR_USER, DOOR_USER), f"the key's file is {status}")
    machine.systemctl("start", DOOR)
    expect(machine.state(DOOR) == "active", f"the door is {machine.state(DOOR)}")


def expect_results(machine, client):
    prepare(machine, client)
    world = World(machine, client)
    expected = lambda row: suite.expected(client, row, lab=True)
    differing = []
    for row in suite.ROWS:
        world.start()
        watched = rows.Rows(world, expected)
        watched.hear("ready")
        observed = watched.observe(row)
        print(row, "→", observed, world.lines[-5:], flush=True)
        if observed != expected(row):
            differing.append(f"{row}: {observed}")
    world.start()
    expect(not differing, f"{client.name} differs: {'; '.join(differing)}")


def check_of(client):
    def run(machine):
        expect_results(machine, client)

    run.__name__ = "".join(each if each.isalnum() else "_" for each in client.name.lower()).strip("_")
    return check(seconds=1800)(run)


# The clients, and their versions in the results, are those of Debian 12.
if "VERSION_ID=\"12\"" in Path("/etc/os-release").read_text():
    for each in suite.CLIENTS:
        check_of(each)
