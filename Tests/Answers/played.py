# SPDX-License-Identifier: Apache-2.0
"""The common parts of all cases of wrong answers: a world whose daemon reaches its bus through a proxy, time that passes on demand, and the
invariants afterwards."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import dbus

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

from harness.names import ACCESSORY, MANAGER, NAME, ROOT, SESSION
from harness.programs import BIN, Daemon
from harness.values import item, sv
from harness.waiting import happens_within, wait
from harness.world import APITest, World
from proxy import Fault, Proxy

CALLS = {each["name"]: each for each in json.loads(subprocess.run([BIN / "list-calls"], check=True, capture_output=True).stdout)}
# How long who waits may be left without an outcome.
PATIENCE = 30
# Seconds until a failed operation is retried, and after that.
RETRIED = 90
# Errors of services for removed objects; if the object exists, the daemon cannot find out, and leftovers are the
# service's fault.
GONE = ("DoesNotExist", "NotFound", "NetworkUnknown", "UnknownObject", "NotConnected", "AlreadyExists")
KINDS = ("error", "silent", "lost", "late", "gone", "away", "twice", "odd", "huge")
# The service or the client disconnects while the answer is awaited.
LEAVING = ("gone", "away")


class PlayedWorld(World):
    proxy = None

    @property
    def daemon_address(self):
        if self.proxy is None:
            self.proxy = Proxy(self.directory / "bus", self.bus.socket)
        return self.proxy.address

    def close(self):
        # First, so that a daemon that hangs is not waited for.
        if self.daemon is not None:
            self.daemon.stop(signal.SIGKILL)
        if self.proxy is not None:
            self.proxy.close()
        super().close()


class Played(APITest):
    """A journey that makes calls, each of which is answered wrongly in one case."""

    world_type = PlayedWorld
    # The calls of the list that the journey makes, each with which of its kind on the wire is meant.
    calls = {}
    # The service that stops: the simulator's actions that stop and start it.
    service = ("serviceStopped", "serviceStarted", "")
    # The object that goes, with those below it, while its service stays.
    thing = ("adapterRemoved", "adapterAdded", "hci0")
    # Kinds that are nothing for this journey.
    without = ()

    # Whether all is well even where a service has said that something is gone, or there, which is not.
    holds_after_lies = False
    # How it ends when nothing is wrong.
    expected = "done"

    def setUp(self):
        super().setUp()
        self.seconds = 0
        self.prepare()

    def prepare(self):
        """Up to where the calls are made."""
        self.person, self.dice = self.picker(), self.app()

    def act(self):
        """Makes the calls; returns the outcome as soon as the person or the app has received it."""
        raise NotImplementedError

    def again(self):
        """The same with nothing wrong: it has to work."""
        self.assertEqual(self.act(), "done")

    def tidy(self):
        """The invariants after everything was removed."""
        for path in self.world.admin.paths("accessory"):
            self.world.admin.call(path, ACCESSORY, "Remove")
        self.hold(lambda: self.simulator.bonds == [], lambda: f"no bonds: {self.simulator.bonds}")

    # Time

    def tick(self):
        """A second passes for the daemon, when all that it has asked for besides is answered."""
        wait(lambda: self.world.proxy.is_quiet, what=lambda: f"answers to {self.world.proxy.unanswered}", also_every=0.01)
        self.seconds += 1
        self.world.daemon.pass_second()

    def told(self, happened, what, limit=PATIENCE):
        """Waits until it happened; once the fault was played, that may take so many seconds of the daemon's time."""
        fault = self.fault
        wait(lambda: happened() or fault is None or fault.done, 60, what, also_every=0.02)
        if fault is None or fault.kind == "twice" or not fault.done:
            return wait(happened, 60, what, also_every=0.05)
        self.leave()
        while not happens_within(0.1, happened, also_every=0.02):
            self.assertLess(self.seconds, limit, f"nobody was told within {limit} s: {what() if callable(what) else what}")
            self.tick()
        return happened()

    @property
    def leaving(self):
        return {"gone": self.service, "away": self.thing}.get(self.fault and self.fault.kind)

    def leave(self):
        """Stops the service or the client of this case, once."""
        if self.leaving and not self.is_gone:
            self.is_gone = True
            self.simulator.do(self.leaving[0], self.leaving[2])

    def hold(self, happened, what):
        """Waits until it is so; the daemon has the time to try again."""
        for _ in range(RETRIED):
            if happens_within(0.2, happened, also_every=0.02):
                return
            self.tick()
        wait(happened, what=what, also_every=0.05)

    def ask(self, client, path, interface, member, signature="", *arguments, to=NAME, limit=PATIENCE):
        """A call of a client's; returns its error's name, or None. No answer at all is none."""
        answers = []
        client._connection.call_async(to, path, interface, member, signature, arguments, lambda *all: answers.append(None),
                                      answers.append, timeout=200)
        self.told(lambda: answers, f"an answer to {member}", limit)
        return answers[0] and answers[0].get_dbus_name()

    def restart(self):
        """The daemon anew."""
        self.world.daemon.stop()
        # The bus notices the end through the proxy, perhaps later.
        wait(lambda: not self.world.admin.has_owner(NAME), what="its name to go", also_every=0.02)
        self.seconds = 0
        self.world.daemon = Daemon(self.world)

    # The picker

    def set_up(self, name, *items, **settings):
        """A set-up by the person; returns how it ended."""
        before = len(self.dice.events)
        news = lambda: [kind for kind, _ in self.dice.events[before:]]
        ended = lambda: set(news()) & {"accessoryAdded", "pickerSetupFailed", "pickerDidDismiss"}
        refused = self.ask(self.dice, self.dice.session, SESSION, "ShowPicker", "aa{sv}a{sv}",
                           dbus.Array([sv(each) for each in items or [item()]], "a{sv}"), sv(settings))
        if refused:
            return self.checked(refused)
        offer = lambda: next((each for each in self.person.offers if each["advertisedName"] == name), None) if self.person.path else None
        self.told(lambda: offer() or ended(), lambda: f"{name} to be offered; told was {news()}")
        if not ended():
            refused = self.ask(self.person, self.person.path, f"{NAME}.Picker", "Pick", "s", offer()["id"])
            if refused:
                return self.checked(refused)
            self.told(ended, lambda: f"the outcome; told was {news()}")
        if "accessoryAdded" not in news() and "pickerDidDismiss" not in news():
            # A person could retry after a failure; not here.
            failed = next(details for kind, details in self.dice.events[before:] if kind == "pickerSetupFailed")
            self.checked(str(failed["error"]))
            self.cancel()
        self.told(lambda: "pickerDidDismiss" in news(), lambda: f"the end of the picker; told was {news()}")
        return "done" if "accessoryAdded" in news() else "told"

    def cancel(self):
        """The person has enough of the picker; it may be over by then."""
        if self.person.path:
            self.ask(self.person, self.person.path, f"{NAME}.Picker", "Cancel")

    def checked(self, name):
        self.assertTrue(name.startswith(f"{NAME}.Error."), name)
        return "told"

    # Cases

    fault = None
    is_gone = False

    def play(self, name, kind, error=None):
        call = CALLS[name]
        descriptors = lambda: len(os.listdir(f"/proc/{self.world.daemon._process.pid}/fd"))
        self.settle()
        before = descriptors()
        self.seconds_before = self.seconds
        self.fault = Fault(call, kind, error, self.calls[name])
        self.world.proxy.arm(self.fault)
        self.played = name, kind, error
        outcome = self.act()
        for _ in range(5):
            # A service may have acted by itself before the call.
            if happens_within(1, lambda: self.fault.done, also_every=0.02):
                break
            outcome = self.act()
        self.assertIn(outcome, ("done", "told"))
        # Calls after the outcome count, too.
        wait(lambda: self.fault.done, 5, f"{name}, which this journey is to make", also_every=0.02)
        self.leave()
        if kind == "twice":
            self.assertEqual(outcome, self.expected)
        if error and error.endswith(GONE) and not self.holds_after_lies:
            return self.assertTrue(self.world.daemon.running)
        # With the time that it would have been waited for.
        if kind in ("late", *LEAVING):
            for _ in range(call["timeout"] + 1 if call["timeout"] <= PATIENCE else 0):
                self.tick()
        self.world.proxy.release()
        self.world.proxy.arm(None)
        came_back, self.fault = self.leaving, None
        if came_back:
            self.simulator.do(came_back[1], came_back[2])
        self.settle()
        self.returned()
        self.again()
        self.tidy()
        self.hold(lambda: self.simulator.bluetooth == "absent" or not self.simulator.discovering, "the search to end")
        self.settle()
        self.hold(lambda: descriptors() == before, lambda: f"{before} descriptors; there are {descriptors()}")
        wait(lambda: self.world.proxy.unanswered == [], what=lambda: f"answers to {self.world.proxy.unanswered}", also_every=0.02)
        self.assertEqual([each for each in self.world.daemon.lines if "Fatal error" in each], [])

    def settle(self):
        self.world.admin.settle()
        self.world.admin.get(ROOT, MANAGER, "Version")

    def returned(self):
        """The radio is there again."""
        self.hold(lambda: self.world.manager("Bluetooth") == self.simulator.bluetooth, "Bluetooth to be what it is")


def cases(sample=frozenset()):
    """For a class: a test for each of its calls and each answer to it; without ANSWERS=all those of the `sample`."""
    def make(kind_of_test):
        everything = os.environ.get("ANSWERS") == "all"
        for name in kind_of_test.calls:
            for kind in KINDS:
                if kind in kind_of_test.without:
                    continue
                for error in CALLS[name]["errors"] + ["org.freedesktop.DBus.Error.LimitsExceeded"] if kind == "error" else [None]:
                    words = [name, kind] + ([error.split(".")[-1]] if error else [])
                    if everything or "_".join(words) in sample:
                        def test(self, name=name, kind=kind, error=error):
                            self.play(name, kind, error)
                        setattr(kind_of_test, "test_" + "_".join(words).replace(".", "_"), test)
        return kind_of_test
    return make
