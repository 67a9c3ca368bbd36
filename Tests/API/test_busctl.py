# SPDX-License-Identifier: Apache-2.0
"""The session with busctl in Docs/Administration.md, line by line."""

import os
import re
import subprocess
import unittest

from harness.programs import TESTS
from harness.waiting import STANDSTILL
from harness.world import APITest

DOCUMENT = TESTS.parent / "Docs/Administration.md"


class Busctl(APITest):
    def test_the_documented_session(self):
        self.add(self.app(), self.picker(), "Dice 4F")
        lines = [line.strip() for line in DOCUMENT.read_text().splitlines() if re.match(r"    (busctl|accessory=|grant=)", line)]
        self.assertGreater(len(lines), 6)
        script = 'set -euo pipefail\nbusctl() { command busctl --address="$ADDRESS" "$@"; }\n' + "\n".join(lines)
        done = subprocess.run(
            ["bash", "-c", script], env=dict(os.environ, ADDRESS=self.world.bus.address), capture_output=True, text=True, timeout=STANDSTILL * 60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for said in ("/org/accessorysetup1/grant/1", ".Revoke", ".Enabled", 's "Pink Dice"', 's "C0:FF:EE:00:00:01"', "com.example.dice"):
            self.assertIn(said, done.stdout)
        self.assertEqual(self.world.grants(), {})
        self.assertEqual(self.simulator.bonds, [])


if __name__ == "__main__":
    unittest.main()
