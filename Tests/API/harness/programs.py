# SPDX-License-Identifier: Apache-2.0
"""Programs under test and their output: the bus, the daemon, and any other that a test starts."""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

from gi.repository import GLib

from harness.names import NAME
from harness.waiting import STANDSTILL, wait

TESTS = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("BIN") or TESTS.parent / ".build/debug").resolve()

# A shell starts background processes with this signal ignored, which every program that a test starts would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Has a debug build let a second pass at SIGUSR1.
TEST_CLOCK = {"ACCESSORY_TEST_CLOCK": "1"}


class Program:
    """A process under test; its output can be waited for."""

    def __init__(self, *command, environment={}, stdin=subprocess.DEVNULL, pass_fds=()):
        self.command = [str(each) for each in command]
        self.lines = []
        self._seconds = 0
        self._rest = b""
        self._process = subprocess.Popen(
            self.command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | environment, pass_fds=pass_fds)
        os.set_blocking(self._process.stdout.fileno(), False)
        self._watch = GLib.io_add_watch(
            self._process.stdout, GLib.PRIORITY_DEFAULT, GLib.IOCondition.IN | GLib.IOCondition.HUP, self._read)

    def _read(self, stream, _condition):
        data = os.read(stream.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.lines += [line.decode(errors="replace") for line in lines]
        if not data:
            self._watch = None
        return bool(data)

    @property
    def pid(self):
        return self._process.pid

    @property
    def running(self):
        return self._process.poll() is None

    @property
    def silent(self):
        """Its output has ended: it has, or is just about to."""
        return self._watch is None

    def wait_end(self, seconds=40):
        """Its exit status, with all of its output read."""
        wait(lambda: not self.running and self._watch is None, seconds, lambda: f"{self.command[0]} to end; said was {self.lines[-5:]}",
             also_every=0.1)
        return self._process.returncode

    def wait_for(self, pattern, seconds=20):
        """The first line that matches, once there is one."""
        def look():
            found = next((line for line in self.lines if re.search(pattern, line)), None)
            if not found and self._watch is None:
                raise AssertionError(f"ended without “{pattern}”:\n" + "\n".join(self.lines[-20:]))
            return found

        return wait(look, seconds, lambda: f"“{pattern}”, said was:\n" + "\n".join(self.lines[-20:]))

    def pass_second(self):
        """A second passes for it, beside those of this machine, and all that was due in it is done: of a debug build with
        `ACCESSORY_TEST_CLOCK` in its environment."""
        self._seconds += 1
        self._process.send_signal(signal.SIGUSR1)
        self.wait_for(f"test clock: {self._seconds} s$")

    def type(self, line):
        """It reads this line from its input, a pipe."""
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def pause(self):
        """It stands still until it is resumed or killed."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def stop(self, number=signal.SIGTERM, seconds=10, meanwhile=None):
        """Ends it and returns its exit status; `meanwhile` is done now and again until it has ended."""
        if self.running:
            self._process.send_signal(number)
        try:
            if meanwhile:
                wait(lambda: not self.running or meanwhile() and False, seconds, f"{self.command[0]} to end", also_every=0.02)
            status = self._process.wait(STANDSTILL * seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self._process.args[0]} did not end in {STANDSTILL * seconds} s") from None
        finally:
            if self._watch is not None:
                GLib.source_remove(self._watch)
                with contextlib.suppress(BlockingIOError):  # a child may still hold the other end
                    while self._read(self._process.stdout, None):
                        pass
                self._watch = None
            self._process.stdout.close()
        return status


class Bus(Program):
    """A dbus-daemon of the test's own."""

    def __init__(self):
        super().__init__(
            "dbus-daemon", f"--config-file={TESTS / 'Support/private-bus.conf'}", "--nofork", "--print-address=1")
        self.address = self.wait_for("^unix:")

    @property
    def socket(self):
        return re.search("path=([^,]+)", self.address)[1]


class Daemon(Program):
    """accessorysetupd; started again, it finds store and manifests as they were left."""

    def __init__(self, world, environment={}, before=(), pass_fds=()):
        """`before` goes before the command, and ends with executing it."""
        world.daemon = self
        # A bus that is slow may still have the name of a daemon that has just ended.
        wait(lambda: not world.admin.has_owner(NAME), 20, "the name of the daemon before to go", also_every=0.02)
        arguments = []
        for directory in world.app_directories:
            arguments += ["--apps", directory]
        if world.config.exists():
            arguments += ["--config", world.config]
        super().__init__(
            *before, BIN / "accessorysetupd", "--bus", world.daemon_address, "--state-directory", world.state, "--view", world.view,
            *(each for path in world.policy_directories for each in ("--policy", path)), "--lockdown-file", world.lockdown_file, "--lockdown-policy", world.lockdown_policy,
            "--lockdown-units", world.lockdown_units, *(each for path in world.socket_units for each in ("--socket-units", path)),
            "--input-directory", world.inputs, "--route-directory", world.routes, "--log-level", "debug",
            "--app-sockets", world.app_sockets, *arguments, environment=TEST_CLOCK | environment, pass_fds=pass_fds)
        wait(lambda: world.admin.has_owner(NAME) or not self.running, 20, "the daemon's name", also_every=0.02)
        if not self.running:
            raise AssertionError("the daemon has ended:\n" + "\n".join(self.lines[-20:]))
