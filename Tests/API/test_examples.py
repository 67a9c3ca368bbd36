# SPDX-License-Identifier: Apache-2.0
"""The examples of Docs/Examples, as their readers run them."""

import shlex
import signal
import subprocess
from pathlib import Path

from harness.programs import BIN, TESTS, Program
from harness.waiting import STANDSTILL
from harness.world import APITest

EXAMPLES = TESTS.parent / "Docs" / "Examples"


class Examples(APITest):
    apps = ()

    def run_example(self, executable, *command, pick="Pink Dice"):
        self.world.declare("example", Executable=Path(executable).resolve())
        self.world.restart_daemon()
        picker = Program(BIN / "accessoryctl", "picker", "--bus", self.world.bus.address, "--pick", pick)
        self.addCleanup(picker.stop, signal.SIGKILL)
        picker.wait_for("waiting for a picker")
        example = Program(*command, environment={"DBUS_SYSTEM_BUS_ADDRESS": self.world.bus.address})
        self.addCleanup(example.stop, signal.SIGKILL)
        return example

    def expect_rolls(self, example):
        self.assertEqual(example.wait_end(), 0, example.lines)
        self.assertEqual([line.split()[1] for line in example.lines if line.startswith("event")], [
            "activated", "pickerDidPresent", "pickerSetupPairing", "accessoryAdded", "pickerDidDismiss"])
        self.assertEqual(sum(line.startswith("rolled ") for line in example.lines), 3)

    def compile(self):
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "gio-2.0"], check=True, capture_output=True, text=True).stdout
        program = self.world.directory / "dice"
        subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", program, EXAMPLES / "dice.c", *shlex.split(flags)], check=True)
        return program

    def test_python(self):
        self.expect_rolls(self.run_example("/usr/bin/python3", "/usr/bin/python3", EXAMPLES / "dice.py"))

    def test_c(self):
        program = self.compile()
        self.expect_rolls(self.run_example(program, program))

    def test_a_refusal_is_said(self):
        program = self.compile()
        example = Program(program, environment={"DBUS_SYSTEM_BUS_ADDRESS": self.world.bus.address})
        self.addCleanup(example.stop, signal.SIGKILL)
        self.assertEqual(example.wait_end(), 1)
        self.assertIn("no manifest matches", "\n".join(example.lines))

    def test_dice(self):
        """The dice app: add with a name, list, rolls, rename, remove."""
        program = BIN / "dice"
        self.world.declare("example", Executable=program)
        self.world.restart_daemon()

        def person(*options):
            picker = Program(BIN / "accessoryctl", "picker", "--bus", self.world.bus.address, "--pick", "Dice 4F", *options)
            self.addCleanup(picker.stop, signal.SIGKILL)
            picker.wait_for("waiting for a picker")
            return picker

        def dice(*words, status=0):
            app = Program(
                program, *words, "--timeout", STANDSTILL * 30,
                environment={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.world.view}"})
            self.addCleanup(app.stop, signal.SIGKILL)
            self.assertEqual(app.wait_end(), status, app.lines)
            return app.lines

        person("--rename", "Kitchen")
        self.assertIn("event pickerSetupRename", dice("add", "--rename"))
        self.assertIn("Kitchen  ", dice("list")[-1])
        self.assertEqual(sum("Kitchen rolled" in line for line in dice("rolls", "Kitchen", "--count", "2")), 2)
        person("--rename", "Hall")
        self.assertIn("event accessoryChanged “Hall”", dice("rename", "Kitchen"))
        person()
        self.assertIn("userCancelled", dice("rename", "Hall", status=1)[-1])
        self.assertIn("no die is named Kitchen", dice("remove", "Kitchen", status=1)[-1])
        self.assertIn("event accessoryRemoved “Hall”", dice("remove", "Hall"))
        self.assertNothingLeft()
