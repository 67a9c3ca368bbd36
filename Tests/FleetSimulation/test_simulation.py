# SPDX-License-Identifier: Apache-2.0
"""Small fleets with all faults, by three seeds. `make fleet-simulation` plays large ones."""

import os
import subprocess
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = os.path.abspath(os.environ.get("BIN", HERE.parent.parent / ".build/debug"))


class Simulation(unittest.TestCase):
    def play(self, seed):
        done = subprocess.run(
            [HERE / "run", "--gateways", "50", "--seed", str(seed), "--seconds", "3", "--pace", "10", "--no-measures", "--bin", BIN],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400)
        self.assertEqual(done.returncode, 0, done.stdout)
        for promise in ("each command at most once", "each line of the trails once", "the reports equal", "no document older"):
            self.assertIn(promise, done.stdout)

    def test_a_first_seed(self):
        self.play(1)

    def test_a_second_seed(self):
        self.play(2)

    def test_a_third_seed(self):
        self.play(3)


if __name__ == "__main__":
    unittest.main()
