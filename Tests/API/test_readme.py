# SPDX-License-Identifier: Apache-2.0
"""The two apps of README.md: the one in Python as README.md has it, the one in Swift as the target `readme-app`, whose source must
be README.md's text."""

import signal
import sys
from pathlib import Path

from harness.programs import BIN, TESTS, Program
from harness.world import APITest

sys.path.append(str(TESTS / "Lab"))

import readme  # noqa: E402


class Readme(APITest):
    apps = ()

    def expect_set_up(self, executable, *command):
        self.world.declare("readme", Executable=Path(executable).resolve())
        self.world.restart_daemon()
        picker = Program(BIN / "accessoryctl", "picker", "--bus", self.world.bus.address, "--pick", "Pink Dice")
        self.addCleanup(picker.stop, signal.SIGKILL)
        picker.wait_for("waiting for a picker")
        app = Program(*command, environment={"DBUS_SYSTEM_BUS_ADDRESS": self.world.bus.address})
        self.addCleanup(app.stop, signal.SIGKILL)
        self.assertEqual(app.wait_end(), 0, app.lines)
        self.assertEqual(app.lines, ["activated", "pickerDidPresent", "accessoryAdded", "pickerDidDismiss"])
        self.assertEqual(len(self.world.grants()), 1)

    def test_python(self):
        source = self.world.directory / "app.py"
        source.write_text(readme.block("An app in Python"))
        self.expect_set_up("/usr/bin/python3", "/usr/bin/python3", "-u", source)

    def test_swift(self):
        source = (TESTS / "Readme/main.swift").read_text()
        self.assertEqual(source.split("\n\n", 1)[1], readme.block("The same app in Swift"))
        self.expect_set_up(BIN / "readme-app", BIN / "readme-app")

    def test_length(self):
        self.assertLessEqual(len(readme.DOCUMENTS[0].read_text().splitlines()), 90)
