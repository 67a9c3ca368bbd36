# SPDX-License-Identifier: Apache-2.0
"""Unmodified habluetooth and bleak-esphome with two gateways that hear one accessory: the client chooses, and goes on over the other one."""

import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

import clients
from harness.apps import App
from harness.door import Door, Key
from harness.names import OBJECT_MANAGER, PINK, SOMEBODY
from harness.pickers import PickerProgram
from harness.programs import Program
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest, World
from rows import ROLLS
from view import BLUEZ, DEVICE1, GATT, path_of

DICE = "com.example.dice"
ADDRESS = "C0:FF:EE:00:02:01"
# A gateway is known by its machine's identifier.
AS_ANOTHER_MACHINE = """
for file in /etc/machine-id /var/lib/dbus/machine-id; do mount --bind "$0" $file; done
exec "$@"
"""


def heard_at(rssi):
    adverts = [{"interval": 0.05, "rssi": each, "serviceUUIDs": [PINK], "name": "pink"} for each in (rssi, rssi - 1)]
    return scenario(accessory("pink", 1, gatt=GATT, adverts=adverts))


class Gateway:
    """A machine with a daemon, an accessory that is granted to the app, and a door."""

    def __init__(self, test, world, machine):
        self.test, self.world = test, world
        self.machine = world.directory / "machine-id"
        self.machine.write_text(f"{machine:032x}\n")
        self.key = Key(world.directory)
        world.declare("dice", Executable=None, SocketUser=SOMEBODY, Remote=self.key.file)
        socket = world.app_sockets / DICE / "bus"
        wait(socket.exists, 10, "the socket", also_every=0.02)
        app = App(world, "stranger", SOMEBODY, socket).begin()
        test.add(app, PickerProgram(world).register(), "pink", item("Pink"))
        world.admin.call(path_of(1), DEVICE1, "Disconnect", to=BLUEZ)
        self.door = None
        self.open()

    def open(self):
        self.door = Door(self.world, before=("/usr/bin/unshare", "-m", "/bin/sh", "-ec", AS_ANOTHER_MACHINE, self.machine),
                         address=self.door and self.door.address)
        self.test.addCleanup(lambda door=self.door: door.stop(signal.SIGKILL))
        self.door.wait_key()

    def linked(self):
        objects = self.world.admin.call("/", OBJECT_MANAGER, "GetManagedObjects", to=BLUEZ)
        return bool(objects.get(path_of(1), {}).get(DEVICE1, {}).get("Connected"))


class TwoGateways(APITest):
    scenario = heard_at(-40)

    def setUp(self):
        super().setUp()
        self.near = Gateway(self, self.world, 1)
        other = World(heard_at(-80), self.apps, self.manifest)
        self.addCleanup(other.close)
        self.far = Gateway(self, other, 2)
        programs, packages = self.world.directory / "programs", self.world.directory / "packages"
        shutil.copytree(clients.PROGRAMS, programs, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(clients.PACKAGES / "bleak-esphome", packages)
        doors = " ".join(f"{each.door.address}={each.key.text}" for each in (self.near, self.far))
        self.program = Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", "/usr/bin/python3",
            programs / "esphome_client.py", stdin=subprocess.PIPE,
            environment=clients.environment("/nowhere", packages) | {"DOORS": doors})
        self.addCleanup(lambda: self.program.stop(signal.SIGKILL))
        self.program.wait_for("^ready")

    def ask(self, *words):
        seen = len(self.program.lines)
        self.program.type(" ".join(words))
        return wait(lambda: next((line for line in self.program.lines[seen:] if line.split()[:2] in (["ok", words[0]], ["failed", words[0]])), None),
                    60, lambda: f"the answer to {words}; said was {self.program.lines[-10:]}", also_every=0.1)

    def links(self):
        return self.near.linked(), self.far.linked()

    def until(self, *words):
        """As programs do, again and again until it works."""
        wait(lambda: self.ask(*words).startswith("ok "), 60, lambda: f"{words} to work; said was {self.program.lines[-10:]}", also_every=0.2)

    def test_the_nearer_one_is_used_and_then_the_other(self):
        self.assertEqual(self.ask("list"), f"ok list {ADDRESS}")
        self.assertEqual(self.ask("heard", ADDRESS, "2"), "ok heard")
        self.until("connect", ADDRESS)
        self.assertEqual(self.links(), (True, False))
        self.assertTrue(self.ask("read", ROLLS).startswith("ok read "))
        # The gateway in use goes down.
        self.near.door.stop(signal.SIGKILL)
        self.program.wait_for("^disconnected")
        self.until("connect", ADDRESS)
        self.assertTrue(self.far.linked())
        self.assertTrue(self.ask("read", ROLLS).startswith("ok read "))
        # It comes back, and the other one goes.
        self.near.open()
        self.near.door.wait_for("client connected", 60)
        self.far.door.stop()
        wait(lambda: self.program.lines.count("disconnected") == 2, 60, "the second end", also_every=0.1)
        wait(lambda: not self.far.linked(), 20, "a door that stops to give its links back", also_every=0.1)
        self.until("connect", ADDRESS)
        self.assertTrue(self.near.linked())


if __name__ == "__main__":
    unittest.main()
