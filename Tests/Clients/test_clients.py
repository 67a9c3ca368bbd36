# SPDX-License-Identifier: Apache-2.0
"""Unmodified BlueZ clients on the socket of an app (`Socket=yes`): each class is one client, each test a row of the table in Docs/View.md.
results.json has the expected behavior; any difference is a failure, for better or worse."""

import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

import clients
from harness import service_manager
from harness.door import Door, Key
from harness.names import GRANT, PINK, PROPERTIES, SOMEBODY
from harness.programs import Program
from harness.radio import accessory, scenario
from harness.waiting import wait
from rows import Rows
from view import GATT, ViewTest, path_of

DICE = "com.example.dice"
# The configuration of notifications is an object of bluetoothd's too: Qt looks for it.
[ROLLS] = GATT[0]["characteristics"]
SERVICES = [{"uuid": PINK, "characteristics": [
    {**ROLLS, "descriptors": [{"uuid": "2902", "value": "0000"}]}, {"uuid": "FF40", "flags": ["read", "write"], "value": "00"}]}]


def adverts(name):
    """With strengths that differ, as on the air: bluetoothd signals an advert that is like the last one only once in a search, and bleak
    misses a signal that arrives together with the answer to StartDiscovery."""
    return [{"interval": 0.05, "rssi": rssi, "serviceUUIDs": [PINK], "name": name} for rssi in (-50, -60)]


class ClientTest(service_manager.Kept, ViewTest):
    """The rows for one client, each in a world of its own. The test is the world of `Rows`."""

    scenario = scenario(*(
        accessory(name, number, gatt=SERVICES, adverts=adverts(name)) for name, number in (("pink", 1), ("other", 2))))
    address = path_of(1)[-17:].replace("_", ":")
    service = PINK.lower()
    values = ("01", "03", "06")
    client = None

    def setUp(self):
        super().setUp()
        keys = {"Socket": "yes"}
        if self.client.isElsewhere:
            key = Key(self.world.directory)
            keys = {"Remote": key.file}
        self.world.declare("dice", Executable=None, SocketUser=SOMEBODY, **keys)
        socket = self.world.app_sockets / DICE / "bus"
        wait(socket.exists, 10, "the socket", also_every=0.02)
        # The app's user may not be allowed to look into this directory.
        programs, packages = self.world.directory / "programs", self.world.directory / "packages"
        shutil.copytree(clients.PROGRAMS, programs, ignore=shutil.ignore_patterns("__pycache__"))
        if self.client.packages:
            shutil.copytree(clients.PACKAGES / self.client.packages, packages)
        if not self.client.program.endswith(".py"):
            shutil.copy(clients.BUILT / self.client.program, programs)
        doors = {}
        if self.client.isElsewhere:
            self.door = door = Door(self.world)
            self.addCleanup(lambda: door.stop(signal.SIGKILL))
            door.wait_key()
            doors = {"DOORS": f"{door.address}={key.text}"}
        self.program = Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups",
            *clients.command(self.client, programs, programs), stdin=subprocess.PIPE,
            environment=clients.environment(socket, packages) | doors
            # Qt runs `--version` of the program that is org.bluez, and the simulator's is another.
            | {"BLUETOOTH_FORCE_DBUS_LE_VERSION": "5.66"})
        self.addCleanup(lambda: self.program.stop(signal.SIGKILL))

    def hold(self, row):
        """The result of a row equals the expected one."""
        expected = lambda row: clients.expected(self.client, row)
        rows = Rows(self, expected)
        rows.hear("ready")
        self.assertEqual(rows.observe(row), expected(row), self.lines[-20:])

    # The world of the rows

    @property
    def lines(self):
        return self.program.lines

    @property
    def silent(self):
        return self.program.silent

    def type(self, line):
        self.program.type(line)

    def wait(self, happens, what):
        return wait(happens, 60, lambda: f"{what}; said was {self.lines[-20:]}", also_every=0.1)

    def is_linked(self):
        return self.linked() == ["pink"]

    def switch(self, enabled):
        self.world.admin.call(self.grant(), PROPERTIES, "Set", "ssv", GRANT, "Enabled", enabled)

    def restart_daemon(self):
        self.restart()

    def stop_bluetoothd(self):
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")

    def start_bluetoothd(self):
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")


def name_of(client):
    """A class' name: Bleak3_1_0."""
    return "".join(each[:1].upper() + each[1:] for each in client.name.replace(".", "_").translate(str.maketrans("-()", "   ")).split())


def test_of(row):
    return lambda self: self.hold(row)


# Classes of this module, and methods of theirs, so that each can be named and run by itself.
for client in clients.CLIENTS:
    tests = {f"test_{row.replace(' ', '_')}": test_of(row) for row in clients.ROWS}
    globals()[name_of(client)] = type(name_of(client), (ClientTest,), {"client": client, "__module__": __name__, **tests})
# The mixins are no tests by themselves.
del ClientTest, ViewTest

if __name__ == "__main__":
    unittest.main()
