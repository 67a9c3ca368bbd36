# SPDX-License-Identifier: Apache-2.0
"""No process and no thread can be made (RLIMIT_NPROC, as TasksMax= does it for a unit): neither the daemon nor accessoryctl makes any."""

import os
import shutil
import subprocess

# First: it says where the harness is.
from shortage import ShortageTest

from harness.names import NAME, SOMEBODY_ELSE
from harness.programs import BIN, Program
from harness.waiting import wait

# A user whom the limit binds, as it does not bind root; it counts from the next program on.
USER = str(SOMEBODY_ELSE)
ALONE = ("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs",
         "prlimit", "--nproc=0:0", "--")


class Alone(ShortageTest):
    def setUp(self):
        super().setUp()
        self.programs = self.world.directory / "programs"
        self.programs.mkdir()
        self.programs.chmod(0o755)

    def program(self, name):
        """Where that user may execute it."""
        path = self.programs / name
        shutil.copyfile(BIN / name, path)
        path.chmod(0o755)
        return path

    def test_the_limit_binds(self):
        """The tests' precondition: a shell cannot make a process then."""
        done = subprocess.run([*ALONE, "sh", "-c", "true & wait"], capture_output=True, text=True, cwd="/")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("fork", done.stderr)

    def test_the_daemon(self):
        """It starts, serves, and ends on a signal."""
        command = self.world.daemon.command
        self.world.daemon.stop()
        for each in (self.world.directory, self.world.state, *self.world.state.iterdir()):
            shutil.chown(each, SOMEBODY_ELSE)
        # The view's socket of the former one, which was root's.
        self.world.view.unlink(missing_ok=True)
        self.world.daemon = Program(*ALONE, self.program("accessorysetupd"), *command[1:])
        wait(lambda: self.world.admin.has_owner(NAME), 20, lambda: f"the daemon; said was {self.world.daemon.lines}", also_every=0.02)
        self.world.wait_bluetooth("ready")
        self.picker()
        self.assertTrue(self.world.admin.objects())
        self.assertEqual(os.listdir(f"/proc/{self.world.daemon.pid}/task"), [str(self.world.daemon.pid)])
        self.assertEqual(self.world.daemon.stop(), 0)
        self.world.start_daemon()

    def test_the_daemon_has_one_thread_in_use(self):
        """Also in a set-up and while a client of the view is there."""
        self.add(self.app(), self.picker(), "Dice 4F")
        self.assertEqual(os.listdir(f"/proc/{self.world.pid}/task"), [str(self.world.pid)])

    def test_accessoryctl(self):
        """Looks, and a picker that waits for an app."""
        program = self.program("accessoryctl")
        done = subprocess.run([*ALONE, program, "status", "--bus", self.world.bus.address], capture_output=True, text=True, cwd="/")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
