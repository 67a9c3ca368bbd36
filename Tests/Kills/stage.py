# SPDX-License-Identifier: Apache-2.0
"""Where a journey is played again and again: one bus and one simulator, and in that world a daemon that ends at one moment after the other
and is started again."""

import signal

import dbus
import dbus.mainloop.glib

import effects
import invariants
from harness.apps import App
from harness.names import ACCESSORY, SOMEBODY
from harness.pickers import PickerProgram
from harness.programs import Program
from harness.radio import Paired
from harness.values import item
from harness.waiting import Interruption, wait
from harness.world import World


class Ended(Exception):
    """The daemon has been killed as planned: the awaited event does not come."""


class Stage:
    """One journey's world."""

    def __init__(self, journey):
        self.journey = journey
        dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        self.world = World(journey.scenario, journey.apps, journey.manifest)
        self.simulator = self.world.simulator
        self._first_client = len(self.world.clients)
        self._person = None
        self.tool_environment, self.tool_was_ended = {}, False
        try:
            scenario = journey.scenario
            self.ids = {each["address"]: each["id"] for each in scenario.get("accessories", [])}
            self.has_wifi = "wifi" in scenario
            self.wifi_service = scenario["wifi"]["services"][0] if self.has_wifi else None
            self.wait_ready()
            for path in journey.paired_by_others:
                with Paired(self.world, path):
                    pass
        except BaseException:
            self.close()
            raise

    def close(self):
        self.world.close()

    @property
    def daemon(self):
        return self.world.daemon

    def wait_ready(self):
        if self.has_wifi:
            self.world.wait_wifi("ready")
            self.simulator.wait_joined("Home")

    # Parts of journeys.

    def app(self, app="dice", uid=SOMEBODY):
        return App(self.world, app, uid).begin()

    def person(self):
        """The one who picks: the same one until all leave."""
        if self._person is None:
            self._person = PickerProgram(self.world).register()
        return self._person

    def add(self, name, *items, answer=None, app=None):
        """The whole way with one accessory; returns its path."""
        person, app = self.person(), app or self.app()
        before = app.event_types.count("accessoryAdded"), app.event_types.count("pickerDidDismiss")
        app.show_picker(*(items or [item()]))
        person.pick(name)
        if answer is not None:
            person.wait_stage("confirming")
            person.respond(**answer)
        added = app.wait_event("accessoryAdded", count=before[0] + 1)
        app.wait_event("pickerDidDismiss", count=before[1] + 1)
        person.wait_gone()
        return str(added["accessory"])

    @property
    def accessories(self):
        return self.world.admin.paths("accessory")

    def leave(self):
        """Apps, pickers and their connections go."""
        for client in self.world.clients[self._first_client:]:
            client.close()
        del self.world.clients[self._first_client:]
        self._person = None

    # Ending and starting.

    def start(self, **environment):
        """Starts the daemon, and waits for the radios; false if it was killed before that, as planned."""
        try:
            with_end = "ACCESSORY_END" in environment
            if with_end:
                self.world.daemon = None
                Interruption.check = staticmethod(self._check)
            self.world.start_daemon(environment)
            self.wait_ready()
            return True
        except (AssertionError, dbus.DBusException, Ended):
            if with_end and self.was_killed():
                return False
            raise
        finally:
            Interruption.check = staticmethod(lambda: None)

    def stop(self):
        """Ends the daemon as a service manager does; true when it has ended so, and not by the moment's kill."""
        status = self.daemon.stop()
        if status not in (0, -signal.SIGKILL):
            raise AssertionError(f"the daemon's exit status is {status}")
        return status == 0

    def _check(self):
        if self.daemon is not None and self.daemon.silent:
            raise Ended

    def was_killed(self):
        """Whether the daemon has ended by its own hand; after an error, it may be just about to."""
        try:
            return self.daemon.stop(0, 2) == -signal.SIGKILL
        except AssertionError:
            return False

    def act(self):
        """Plays the journey; false when the daemon has ended in it."""
        def whole():
            self.journey.act(self)
            self.rest()

        return self._lives_through(whole)

    def _lives_through(self, what):
        """Does something; false when the daemon has ended in it."""
        Interruption.check = staticmethod(self._check)
        try:
            what()
            return True
        except (AssertionError, dbus.DBusException, Ended) as problem:
            if isinstance(problem, Ended) or self.was_killed():
                return False
            raise
        finally:
            Interruption.check = staticmethod(lambda: None)

    def rest(self):
        """Until the daemon has nothing more to do by itself."""
        wait(lambda: not self.simulator.discovering, 10, "discovery to end", also_every=0.02)
        wait(lambda: not invariants.Store(self.world).intents, 10, "intents to go", also_every=0.02)
        self.world.admin.settle()

    # One round.

    def play(self, **environment):
        """Plays the journey with the daemon or the tool that is to be killed, from start to end; true if it was killed."""
        if self.journey.tool_is_ended:
            self.start()
            self.tool_environment = environment
            self.journey.act(self)
            self.tool_environment = {}
            self.stop()
            return self.tool_was_ended
        return not (self.start(**environment) and self.act() and self.stop())

    def run_tool(self, *command):
        """Runs a program of ours, which may be the one to be ended."""
        status = Program(*command, environment=self.tool_environment).wait_end()
        self.tool_was_ended = status == -signal.SIGKILL
        if status not in (0, -signal.SIGKILL):
            raise AssertionError(f"{command}: exit status {status}")

    def record(self):
        """Plays the journey undisturbed, from a daemon's start to its end, and returns the daemon's effects."""
        self.journey.prepare(self)
        self.leave()
        self.stop()
        self.journey.between(self)
        path = self.world.directory / "effects"
        path.unlink(missing_ok=True)
        if self.play(ACCESSORY_EFFECTS=str(path)):
            raise AssertionError("it has ended")
        self.leave()
        self.look_and_clear()
        return effects.listed(path)

    def look_and_clear(self):
        """A daemon that is not killed finds a consistent state, removes everything, and leaves nothing."""
        self.start()
        self.journey.look(self)
        self.clear()

    def clear(self):
        for accessory in self.accessories:
            self.world.admin.call(accessory, ACCESSORY, "Remove")
        self.journey.clear(self)
        invariants.nothing(self)
        invariants.holds(self)

    def recover(self, **environment):
        """A daemon starts, recovers from the one before, and is stopped; true if it was killed before that."""
        return not (self.start(**environment) and self._lives_through(lambda: invariants.holds(self)) and self.stop())

    def record_recovery(self, moment=None):
        """The effects of a daemon that starts where another one has ended at a moment; without one, of an ordinary start."""
        self.journey.prepare(self)
        self.leave()
        self.stop()
        if moment is not None:
            self.journey.between(self)
            self.play(ACCESSORY_END=str(moment))
            self.leave()
        path = self.world.directory / "effects"
        path.unlink(missing_ok=True)
        if self.recover(ACCESSORY_EFFECTS=str(path)):
            raise AssertionError("it has ended")
        self.start()
        self.clear()
        return effects.listed(path)

    def end_at(self, moment, *in_recovery):
        """Plays the journey to a moment at which the daemon is killed, and checks the recovery of another daemon; each further moment is one at
        which the next daemon is killed during its recovery. Returns whether the first moment was reached."""
        self.journey.prepare(self)
        self.leave()
        self.stop()
        before = invariants.Store(self.world)
        self.journey.between(self)
        came = self.play(ACCESSORY_END=str(moment))
        self.leave()
        # One that does not come is a recovery more that is whole.
        for each in in_recovery:
            self.recover(ACCESSORY_END=str(each))
        self.start()
        invariants.holds(self)
        self.journey.look_after(self, before)
        self.clear()
        # The next one works, and leaves nothing.
        self.journey.again(self)
        self.leave()
        self.journey.look(self)
        self.clear()
        return came
