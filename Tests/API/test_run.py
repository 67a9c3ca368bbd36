# SPDX-License-Identifier: Apache-2.0
"""accessory-sim run: an app against simulated accessories by one command, its exit status, and the processes and files that it leaves."""

import os
import pwd
import shutil
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

from harness.names import SOMEBODY
from harness.programs import BIN, TESTS, Program
from harness.waiting import wait

sys.path.append(str(TESTS / "Lab"))

import shell  # noqa: E402

EXAMPLES = TESTS.parent / "Docs/Examples"
MANIFEST = TESTS.parent / "Sources/dice/com.example.dice.conf"
SCENARIO = TESTS / "Scenarios/dice.json"


class RunTest(unittest.TestCase):
    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="accessory-run-"))
        self.addCleanup(shutil.rmtree, self.directory)
        # All files of a run are here, and all its processes have it in their environment.
        self.runtime = self.directory / "runtime"
        self.runtime.mkdir()
        self.addCleanup(self.end_all)

    def command(self, *program, app=MANIFEST, scenario=SCENARIO, pick="Pink Dice", simulator=BIN / "accessory-sim"):
        words = [simulator, "run", "--app", app, "--scenario", scenario, *(("--pick", pick) if pick else ()), "--", *program]
        return [str(each) for each in words]

    def start(self, *program, environment={}, **options):
        run = Program(*self.command(*program, **options), environment={"XDG_RUNTIME_DIR": str(self.runtime)} | environment)
        self.addCleanup(run.stop, signal.SIGKILL)
        return run

    def expect(self, status, *program, says=(), **options):
        """The run ends so, and leaves nothing."""
        run = self.start(*program, **options)
        self.assertEqual(run.wait_end(), status, run.lines)
        for each in says:
            self.assertIn(each, "\n".join(run.lines))
        self.assertEqual((self.processes(), list(self.runtime.iterdir())), ([], []))
        return run.lines

    def processes(self):
        """The processes of this test's runs."""
        mark = f"XDG_RUNTIME_DIR={self.runtime}".encode()
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (each / "environ").read_bytes().split(b"\0"):
                    found.append((int(each.name), (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
            except OSError:
                continue
        return found

    def end_all(self):
        for pid, _ in self.processes():
            os.kill(pid, signal.SIGKILL)

    def file(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path


class Run(RunTest):
    def test_an_app_to_its_end(self):
        lines = self.expect(0, BIN / "dice", "--rolls", "2")
        self.assertEqual([each for each in lines if each.startswith("event")], [
            "event activated", "event pickerDidPresent", "event pickerSetupPairing", "event accessoryAdded “Pink Dice”",
            "event pickerDidDismiss"])
        self.assertEqual(sum("rolled" in each for each in lines), 2)

    def test_an_interpreted_app_and_its_children(self):
        rolls = self.expect(
            0, "sh", "-c", f"/usr/bin/python3 {EXAMPLES}/dice.py && busctl tree --list org.bluez")
        self.assertEqual(sum(each.startswith("rolled ") for each in rolls), 3)
        self.assertTrue(any(each.startswith("/org/bluez/hci0/dev_") for each in rolls), rolls)

    def test_from_a_package(self):
        """There the simulator is another name of accessoryctl."""
        simulator = self.directory / "accessory-sim"
        simulator.symlink_to(BIN / "accessoryctl")
        self.expect(0, "dice", "add", simulator="accessory-sim", environment={"PATH": f"{self.directory}:{BIN}:{os.environ['PATH']}"})

    def test_a_long_identifier(self):
        identifier = "com.example." + "a" * 200
        manifest = MANIFEST.read_text().replace("com.example.dice\n", f"{identifier}\n").replace("/usr/lib/dice/", f"{MANIFEST.parent}/")
        self.expect(0, BIN / "dice", "add", app=self.file(f"{identifier}.conf", manifest))

    def test_a_socket_for_users_of_another_machine(self):
        manifest = MANIFEST.read_text().replace("/usr/lib/dice/", f"{MANIFEST.parent}/").replace(
            "\n[AccessorySetup]", "Socket=yes\nSocketUser=no-such-user\nSocketGroup=no-such-group\nSocketMode=000\n\n[AccessorySetup]")
        self.expect(0, BIN / "dice", "add", app=self.file("com.example.dice.conf", manifest))

    def test_several_pickers(self):
        lines = self.expect(0, "sh", "-c", f"{BIN}/dice add && {BIN}/dice remove 'Pink Dice' && {BIN}/dice add")
        self.assertEqual(lines.count("event pickerDidPresent"), 2)

    def test_the_exit_status_is_the_apps(self):
        self.expect(7, "sh", "-c", "exit 7")
        self.expect(128 + signal.SIGKILL, "sh", "-c", "kill -KILL $$")

    def test_standard_files_are_the_apps(self):
        echo = self.file("echo", "#!/bin/sh\nread line; echo \"$line\"; echo to you >&2\n")
        echo.chmod(0o755)
        run = self.start("sh", "-c", f"{echo} </dev/null; readlink /proc/self/fd/0")
        self.assertEqual(run.wait_end(), 0, run.lines)
        self.assertEqual([each for each in run.lines if not each.startswith("picker: ")], ["", "to you", "/dev/null"])

    def test_processes_that_the_app_leaves_end(self):
        self.expect(0, "sh", "-c", "sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' & sleep 0")

    def test_an_ordinary_user(self):
        shutil.chown(self.runtime, SOMEBODY)
        self.directory.chmod(0o755)
        # Only root may be able to enter the directory of the programs.
        for each in ("accessory-sim", "accessorysetupd", "accessoryctl", "dice"):
            shutil.copy(BIN / each, self.directory)
        for each in (MANIFEST, MANIFEST.parent / "Info.plist", SCENARIO):
            shutil.copy(each, self.directory)
        user = pwd.getpwuid(SOMEBODY)
        run = Program(
            "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *self.command(
                self.directory / "dice", "--rolls", "1", simulator=self.directory / "accessory-sim", app=self.directory / MANIFEST.name,
                scenario=self.directory / SCENARIO.name), environment={"XDG_RUNTIME_DIR": str(self.runtime)})
        self.addCleanup(run.stop, signal.SIGKILL)
        self.assertEqual(run.wait_end(), 0, run.lines)
        self.assertEqual((self.processes(), list(self.runtime.iterdir())), ([], []))

    def test_a_directory_with_any_name(self):
        self.runtime = self.directory / "a <b>,c=d;%"
        self.runtime.mkdir()
        self.expect(0, BIN / "dice", "add")
        # Where there is no such directory, TMPDIR's is taken.
        self.expect(0, "true", environment={"TMPDIR": str(self.runtime), "XDG_RUNTIME_DIR": "/no/such"})


class Failures(RunTest):
    def test_of_the_program(self):
        self.expect(1, "no-such-program", says=["accessory-sim: no-such-program: no such program in PATH"])
        self.expect(1, "/no/such/program", says=["accessory-sim: /no/such/program: No such file or directory"])
        broken = self.file("broken", "")
        self.expect(1, broken, says=["Permission denied"])
        broken.chmod(0o755)
        self.expect(1, broken, says=["Exec format error"])

    def test_of_the_manifest(self):
        self.expect(1, "true", app="/no/such.conf", says=["accessory-sim: /no/such.conf: No such file or directory"])
        other = self.file("other.conf", MANIFEST.read_text())
        self.expect(1, "true", app=other, says=[f"{other}:2: Id: com.example.dice: the file must be named com.example.dice.conf"])
        wrong = self.file("a.conf", "[Application]\nId=a\nName=A\n\n[AccessorySetup]\nSupport=Bluetooth\n")
        self.expect(1, "true", app=wrong, says=[f"{wrong}:6: Support: unknown key", "Supports: is missing"])
        no_plist = self.file("com.example.dice.conf", MANIFEST.read_text())
        self.expect(1, "true", app=no_plist, says=[f"{no_plist}:7: InfoPlist: /usr/lib/dice/Info.plist: not a readable file"])

        words = self.command("true")
        words[2:2] = ["--app", str(MANIFEST)]
        run = Program(*words, environment={"XDG_RUNTIME_DIR": str(self.runtime)})
        self.assertEqual(run.wait_end(), 1)
        self.assertIn(f"accessory-sim: {MANIFEST}: another manifest has this name", run.lines)

    def test_of_the_scenario(self):
        self.expect(1, "true", scenario="/no/such.json", says=["/no/such.json: cannot be read: No such file or directory"])
        self.expect(1, "true", scenario=self.file("wrong.json", '{"accessories": [{"id": "a"}]}'), says=["accessories[0].id: id and address are required"])

    def test_of_the_command(self):
        self.expect(64, "true", pick=None, says=["without a terminal there is no person to ask"])
        self.expect(64, says=["Missing expected argument '-- <program> ...'"])

    def test_parts_that_are_missing(self):
        simulator = self.directory / "accessory-sim"
        simulator.symlink_to(BIN / "accessory-sim")
        for name in ("true", "accessorysetupd"):
            (self.directory / name).symlink_to(shutil.which(name) or BIN / name)
        path = {"PATH": str(self.directory)}
        self.expect(1, "true", simulator=simulator, environment=path, says=["dbus-daemon: no such program in PATH (Debian's package dbus-daemon has it)"])
        (self.directory / "dbus-daemon").symlink_to(shutil.which("dbus-daemon"))
        self.expect(1, "true", simulator=simulator, environment=path, says=["accessoryctl: no such program in PATH"])

    def test_of_parts_that_end(self):
        simulator = self.directory / "accessory-sim"
        simulator.symlink_to(BIN / "accessory-sim")
        (self.directory / "accessoryctl").symlink_to(BIN / "accessoryctl")
        daemon = self.file("accessorysetupd", "#!/bin/sh\necho out of order >&2\nexit 3\n")
        daemon.chmod(0o755)
        self.expect(1, "true", simulator=simulator, says=["accessory-sim: accessorysetupd has ended with status 3:", "out of order"])
        for name in ("accessorysetupd", "dbus-daemon", "accessoryctl"):
            with self.subTest(name):
                run = self.start("sh", "-c", "echo begun; exec sleep 1000")
                run.wait_for("begun")
                [pid] = [pid for pid, words in self.processes() if Path(words.split()[0]).name == name]
                os.kill(pid, signal.SIGKILL)
                self.assertEqual(run.wait_end(), 1)
                # The end of the bus ends the others, too.
                self.assertRegex("\n".join(run.lines), r"accessory-sim: \S+ has ended with status")
                self.assertEqual((self.processes(), list(self.runtime.iterdir())), ([], []))


class Signals(RunTest):
    def begin(self, script="echo begun; exec sleep 1000"):
        run = self.start("sh", "-c", script)
        run.wait_for("begun")
        return run

    def test_end_the_app(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number):
                run = self.begin()
                os.kill(run.pid, number)
                self.assertEqual(run.wait_end(), 128 + number)
                self.assertEqual((self.processes(), list(self.runtime.iterdir())), ([], []))

    def test_an_app_may_end_in_its_own_way(self):
        run = self.begin("trap 'echo so long; exit 5' TERM; sleep 1000 & echo begun; wait")
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait_end(), 5)
        self.assertIn("so long", run.lines)
        run = self.begin("trap '' TERM; echo begun; exec sleep 1000")
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait_end(), 128 + signal.SIGKILL)
        self.assertEqual(self.processes(), [])

    def test_a_kill_leaves_no_processes(self):
        run = self.begin()
        # The app's shell has no environment, by which it is found, for the moment in which it becomes another program.
        wait(lambda: len(self.processes()) == 5, 10, lambda: f"five processes; there are {self.processes()}", also_every=0.02)
        os.kill(run.pid, signal.SIGKILL)
        wait(lambda: not self.processes(), 10, lambda: f"the end of {self.processes()}", also_every=0.02)

    def test_a_kill_at_the_start(self):
        # Whatever runs by then.
        for count in range(1, 5):
            with self.subTest(count):
                run = self.start("sleep", "1000")
                wait(lambda: len(self.processes()) >= count, 10, f"{count} processes", also_every=0.001)
                os.kill(run.pid, signal.SIGKILL)
                wait(lambda: not self.processes(), 10, lambda: f"the end of {self.processes()}", also_every=0.02)


class InATerminal(RunTest):
    def terminal(self):
        terminal = shell.Shell("env", f"XDG_RUNTIME_DIR={self.runtime}", *shell.ENVIRONMENT, *shell.BASH)
        self.addCleanup(terminal.__exit__)
        return terminal

    def run_in(self, terminal, play, *program):
        words = self.command(*program, pick=None)
        return terminal.run(" ".join(f"'{each}'" for each in words), play)

    def test_a_picker_in_front_of_the_app(self):
        terminal = self.terminal()
        status, shown = self.run_in(terminal, shell.pick_pink_dice, BIN / "dice", "--rolls", "2")
        self.assertEqual(status, 0)
        # Nothing of the app's between the lines of the picker.
        picker = shown[shown.index("Dice would like"):shown.index("ready to use\r\n", shown.rindex("Dice would like"))]
        self.assertNotIn("event", picker)
        rest = shown[shown.rindex("Dice would like"):]
        self.assertIn("event pickerSetupPairing\r\nevent accessoryAdded “Pink Dice”\r\nevent pickerDidDismiss\r\n", rest)
        self.assertEqual(rest.count("rolled"), 2)

    def test_one_picker_after_the_other(self):
        def play(terminal):
            shell.pick_pink_dice(terminal)
            terminal.wait_for("pickerDidDismiss")
            terminal.wait_for(r"\x1b\[7m > Blue Dice")
            terminal.type("\x1b")

        status, shown = self.run_in(self.terminal(), play, "sh", "-c", f"{BIN}/dice add && {BIN}/dice add")
        self.assertEqual(status, 1)
        self.assertIn("dice: userCancelled", shown)

    def test_the_terminal_is_the_apps_in_between(self):
        def play(terminal):
            terminal.wait_for("your name")
            terminal.type("Ada\n")

        status, shown = self.run_in(self.terminal(), play, "sh", "-c", "echo your name; read name; echo hello $name")
        self.assertEqual((status, "hello Ada" in shown), (0, True))

    def test_a_process_that_is_left_may_write_on(self):
        def play(terminal):
            terminal.wait_for("0000")

        self.assertEqual(self.run_in(self.terminal(), play, "sh", "-c", "yes $(printf %04000d 0) & sleep 0.5; exit 3")[0], 3)

    def test_no_output_is_lost(self):
        """Of an app that makes its terminal non-blocking, while the terminal is slow."""
        app = self.file("app.py", "\n".join((
            "import os", "os.set_blocking(0, False)", "print('begun', flush=True)", "for _ in range(300): print('x' * 999)")))

        def play(terminal):
            terminal.wait_for("begun")
            time.sleep(1)

        status, shown = self.run_in(self.terminal(), play, "/usr/bin/python3", app)
        self.assertEqual((status, shown.count("x" * 999)), (0, 300))

    def test_an_app_that_writes_much_waits_for_the_picker(self):
        app = self.file("app.py", "\n".join((
            "import os", "from subprocess import *", f"dice = Popen(['{BIN}/dice', 'add'], stdout=PIPE, stderr=DEVNULL)", "count = 0",
            "while b'DidPresent' not in dice.stdout.readline(): pass",
            "while dice.poll() is None: count += os.write(1, b'x' * 999 + b'\\n')", "print('written:', count)")))

        def play(terminal):
            terminal.wait_for(r"\x1b\[7m > [^\x1b\r\n]*Dice")
            time.sleep(1)
            terminal.type("\x1b")

        status, shown = self.run_in(self.terminal(), play, "/usr/bin/python3", app)
        self.assertEqual(status, 0)
        self.assertLess(int(shown.rpartition("written: ")[2]), 16_000_000)

    def test_a_picker_after_a_suspension(self):
        terminal = self.terminal()
        marked = r"\x1b\[7m > [^\x1b\r\n]*Dice"

        def suspend(terminal):
            terminal.wait_for(marked)
            terminal.type(shell.CONTROL_Z)

        def cancel(terminal):
            terminal.wait_for(marked)
            terminal.type("\x1b")

        self.assertEqual(self.run_in(terminal, suspend, BIN / "dice", "--timeout", "20", "add")[0], 128 + signal.SIGTSTP)
        status, shown = terminal.run("fg", cancel)
        self.assertEqual((status, "dice: userCancelled" in shown), (1, True))

    def test_an_interrupt(self):
        terminal = self.terminal()

        def play(terminal):
            terminal.wait_for("choose an accessory")
            terminal.type(shell.CONTROL_C)

        self.assertEqual(self.run_in(terminal, play, BIN / "dice")[0], 130)
        # It echoes again.
        self.assertIn(" echo ", terminal.run("stty -a")[1])

        # The app may continue, and receives it once.
        app = self.file("app.py", "\n".join((
            "from signal import *", "pthread_sigmask(SIG_BLOCK, {SIGINT})", "print('begun', flush=True)", "sigwait({SIGINT})",
            "print('interrupted', flush=True)", "input()", "print('again' if sigpending() else 'once')")))

        def interrupt(terminal):
            terminal.wait_for("begun")
            terminal.type(shell.CONTROL_C)
            terminal.wait_for("interrupted")
            terminal.type("\n")

        status, shown = self.run_in(terminal, interrupt, "/usr/bin/python3", app)
        self.assertEqual((status, "once" in shown), (0, True))
