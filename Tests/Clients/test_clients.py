# SPDX-License-Identifier: Apache-2.0
"""BlueZ clients as they are, on the socket of an app (`Socket=yes`): each class is one of them, each test a row of the table in Docs/View.md.
What a client does is in results.json, and whatever differs from that is a failure, for better or worse."""

import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

import clients
from harness import service_manager
from harness.names import GRANT, PINK, PROPERTIES, SOMEBODY
from harness.programs import Program
from harness.radio import accessory, scenario
from harness.waiting import wait
from view import DEVICE1, GATT, ViewTest, path_of

DICE = "com.example.dice"
SERVICE = PINK.lower()
ROLLS = "0000ff3f-0000-1000-8000-00805f9b34fb"
# Its configuration is an object of bluetoothd's too: Qt looks for it.
SERVICES = [{**GATT[0], "characteristics": [{**GATT[0]["characteristics"][0], "descriptors": [{"uuid": "2902", "value": "0000"}]}]}]
ADDRESS = path_of(1)[-17:].replace("_", ":")
# Seconds for an answer of a program: of a library that waits itself, more than its own limit.
PATIENCE = 60


class Differs(Exception):
    """It did this instead."""


class Adapter(Program):
    """A client's program, as the app's user: takes a command, answers with a line."""

    def ask(self, *words, seconds=PATIENCE):
        verb, seen = words[0], len(self.lines)
        self.type(" ".join(words))

        def answered():
            found = next((line for line in self.lines[seen:] if line.split()[:2] in (["ok", verb], ["failed", verb])), None)
            return found or self.silent and "ended: " + " ".join(self.lines[-1:])

        return wait(answered, seconds, lambda: f"the answer to {words}; said was {self.lines[-20:]}")

    def does(self, *words):
        """Must be answered well; the rest of the answer."""
        answer = self.ask(*words)
        if not answer.startswith("ok "):
            raise Differs(answer)
        return answer.split()[2:]

    def values(self, since=0):
        return [line.split()[1] for line in self.lines[since:] if line.startswith("value ")]


class ClientTest(service_manager.Kept, ViewTest):
    """The scenario: a mixin for one class of each client."""

    scenario = scenario(accessory("pink", 1, gatt=SERVICES), accessory("other", 2, gatt=SERVICES))
    client = None

    def setUp(self):
        super().setUp()
        self.world.declare("dice", Executable=None, Socket="yes", SocketUser=SOMEBODY)
        self.socket = self.world.app_sockets / DICE / "bus"
        wait(self.socket.exists, 10, "the socket", also_every=0.02)
        # The app's user may not be allowed to look into this directory.
        programs, packages = self.world.directory / "programs", self.world.directory / "packages"
        shutil.copytree(clients.PROGRAMS, programs, ignore=shutil.ignore_patterns("__pycache__"))
        if self.client.packages:
            shutil.copytree(clients.PACKAGES / self.client.packages, packages)
        if not self.client.program.endswith(".py"):
            shutil.copy(clients.BUILT / self.client.program, programs)
        self.program = Adapter(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups",
            *clients.command(self.client, programs, programs), stdin=subprocess.PIPE,
            environment={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.socket}", "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1",
                         "PYTHONWARNINGS": "ignore", "HOME": "/", "TERM": "dumb", "LC_ALL": "C.UTF-8",
                         # Qt runs `--version` of the program that is org.bluez, and the simulator's is another.
                         "BLUETOOTH_FORCE_DBUS_LE_VERSION": "5.66"})
        self.addCleanup(lambda: self.program.stop(signal.SIGKILL))

    def expected(self, row):
        return clients.expected(self.client, row)

    def hold(self, row, steps):
        """What comes of these steps is what the results say."""
        self.well = self.expected(row) == "yes"
        try:
            self.ready()
            steps()
            observed = "yes"
        except Differs as differs:
            observed = str(differs)
        self.assertEqual(observed, self.expected(row), self.program.lines[-20:])

    def ready(self):
        wait(lambda: "ready" in self.program.lines or self.program.silent, 60, "the program")
        if "ready" not in self.program.lines:
            raise Differs("ended: " + " ".join(self.program.lines[-1:]))

    def same(self, observed, expected):
        if observed != expected:
            raise Differs(observed if isinstance(observed, str) else f"{observed} instead of {expected}")

    def works(self, good, *words):
        """As programs do, again and again until it does; one that cannot has one try."""
        def tried():
            answer = self.program.ask(*words)
            return answer if good(answer) or answer.startswith("failed ") and not self.well else None

        answer = wait(tried, PATIENCE, lambda: f"{words} to work; said was {self.program.lines[-20:]}", also_every=0.1)
        if not good(answer):
            raise Differs(answer)

    def reconnect(self):
        """When the client lists the accessory again."""
        self.works(lambda answer: answer.startswith("ok ") and ADDRESS in answer, "list")
        self.works(lambda answer: answer == "ok connect", "connect", ADDRESS)

    def connect(self):
        self.program.does("connect", ADDRESS)

    def rolls(self, since=None):
        """Three values arrive from here on."""
        since = len(self.program.lines) if since is None else since
        wait(lambda: len(self.program.values(since)) >= 3 or self.program.silent, PATIENCE, lambda: f"values; said was {self.program.lines[-20:]}")

    def notify(self):
        self.program.does("notify", ROLLS)
        self.rolls()

    def reads(self):
        """A value that there may be: the notifications change it."""
        [value] = self.program.does("read", ROLLS)
        if value not in ("01", "03", "06"):
            raise Differs(f"read {value}")

    def cut_off(self):
        """The grant is switched off: the client says that the link has ended, if it ever does, and reads no more. Returns the answer to
        that. (A read that is on its way at that moment is another matter: SimpleBLE may never come back from it.)"""
        self.switch(False)
        if self.expected("grant off") == "yes":
            wait(lambda: "disconnected" in self.program.lines or self.program.silent, PATIENCE,
                 lambda: f"“disconnected”; said was {self.program.lines[-20:]}")
        while (answer := self.program.ask("read", ROLLS)).startswith("ok "):
            pass
        return answer

    def switch(self, enabled):
        self.world.admin.call(self.grant(), PROPERTIES, "Set", "ssv", GRANT, "Enabled", enabled)

    def notify_if_it_can(self):
        """What cannot is in the results under its own row."""
        if self.expected("notify") == "yes":
            self.notify()
            return True
        return False

    def test_list(self):
        self.hold("list", lambda: self.same(self.program.does("list"), [ADDRESS]))

    def test_connect(self):
        def steps():
            self.connect()
            self.same(self.linked(), ["pink"])

        self.hold("connect", steps)

    def test_services(self):
        def steps():
            self.connect()
            self.same(self.program.does("services"), [SERVICE])

        self.hold("services", steps)

    def test_read(self):
        def steps():
            self.connect()
            self.same(self.program.does("read", ROLLS), ["01"])

        self.hold("read", steps)

    def test_write(self):
        def steps():
            self.connect()
            self.program.does("write", ROLLS, "2a2b")
            self.same(self.program.does("read", ROLLS), ["2a2b"])

        self.hold("write", steps)

    def test_notify(self):
        def steps():
            self.connect()
            self.notify()

        self.hold("notify", steps)

    def test_disconnect(self):
        def steps():
            self.connect()
            self.program.does("disconnect")
            wait(lambda: not self.linked(), 10, "the link to end", also_every=0.05)

        self.hold("disconnect", steps)

    def test_grant_off(self):
        def steps():
            self.connect()
            self.notify_if_it_can()
            answer = self.cut_off()
            if "disconnected" not in self.program.lines:
                raise Differs(f"says nothing; {answer}")

        self.hold("grant off", steps)

    def test_grant_on(self):
        def steps():
            self.connect()
            notifies = self.notify_if_it_can()
            self.cut_off()
            self.switch(True)
            self.reconnect()
            self.reads()
            if notifies:
                self.notify()

        self.hold("grant on", steps)

    def test_daemon_restart(self):
        def steps():
            self.connect()
            notifies = self.notify_if_it_can()
            self.restart()
            self.reads()
            if notifies:
                self.rolls()
            said = [each for each in self.program.lines if each in ("disconnected", "bluez gone", "bus gone")]
            if said:
                raise Differs(f"says {', '.join(said)}")

        self.hold("daemon restart", steps)

    def test_bluetoothd_restart(self):
        def steps():
            self.connect()
            notifies = self.notify_if_it_can()
            self.simulator.do("serviceStopped")
            self.world.wait_bluetooth("absent")
            self.simulator.do("serviceStarted")
            self.world.wait_bluetooth("ready")
            self.reconnect()
            self.reads()
            if notifies:
                self.notify()

        self.hold("bluetoothd restart", steps)


def name_of(client):
    return "".join(each.capitalize() if each.islower() else each for each in client.name.replace(".", "_").replace("-", " ").split()).translate(
        {ord("("): None, ord(")"): None})


# Classes of this module, so that each can be named and run by itself.
for each in clients.CLIENTS:
    globals()[name_of(each)] = type(name_of(each), (ClientTest,), {"client": each, "__module__": __name__})
# The mixin is no test by itself.
del ClientTest, ViewTest, each

if __name__ == "__main__":
    unittest.main()
