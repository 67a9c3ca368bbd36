# SPDX-License-Identifier: Apache-2.0
"""The simulator held against the cases of Tests/Support/gatt_cases.py, which the lab holds bluetoothd against."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

import dbus.mainloop.glib

from turning import Bus, wait_for

dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("BIN", ROOT / ".build/debug")).resolve()
sys.path.append(str(ROOT / "Tests/Support"))
import gatt_cases

# Whose GATT client the simulator follows.
PLAYED = (5, 66)


class GATTCases(unittest.TestCase):
    def setUp(self):
        bus = self.start(
            "dbus-daemon", f"--config-file={ROOT}/Tests/Support/private-bus.conf", "--nofork", "--print-address=1", stderr=subprocess.DEVNULL)
        self.address = bus.stdout.readline().strip()
        simulator = self.start(BIN / "accessory-sim", "--bus", self.address, ROOT / "Tests/Scenarios/gatt.json")
        self.assertEqual(simulator.stdout.readline(), "ready\n")

    def start(self, *command, **options):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.terminate()
        process.wait()
        process.stdout.close()

    def connect(self):
        bus = Bus(self.address)
        self.addCleanup(bus.close)
        return bus

    def client(self):
        return gatt_cases.Client(self.connect, lambda happens, what: wait_for(happens, last=lambda: what), PLAYED, is_simulator=True)


def test_of(case):
    return lambda self: case(self.client())


for each in gatt_cases.CASES:
    setattr(GATTCases, f"test_{each.__name__}", test_of(each))


class Differences(unittest.TestCase):
    def test_the_manual_has_them_all(self):
        manual = " ".join((ROOT / "Docs/Simulator.md").read_text().split())
        for text in gatt_cases.DIFFERENCES.values():
            self.assertIn(text, manual)


if __name__ == "__main__":
    unittest.main()
