# SPDX-License-Identifier: Apache-2.0
"""Everybody who takes part in a set-up stands still for a minute, in each of its stages; the date jumps by days, the machine sleeps. The minute
is the daemon's: its clock is moved, and nobody waits. A set-up then goes on or has ended with an error; either way the bonds are the ledger's,
the trail says what is granted, and the next one works."""

import contextlib
import time

import dbus

from shortage import ShortageTest

from harness.clients import Identity
from harness.names import PINK
from harness.pickers import PickerProgram
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait

MINUTE = 60
DAYS = 10 * 24 * 3600


class StageTest(ShortageTest):
    """`reach` goes to a stage, `go_on` from there to the end, as a person would."""

    scenario = scenario(
        accessory("pink", pairing={"mode": "numericComparison", "fault": "slow", "delay": 0.3}), accessory("other", 2),
        accessory("far", 3, service="180A"))
    manifest = {"BluetoothServices": f"{PINK};180A;"}
    STAGES = ("searching", "offering", "pairing", "confirming", "authorizing")

    def setUp(self):
        super().setUp()
        # A process of its own, which can stand still.
        self.person, self.dice = PickerProgram(self.world, Identity("shower", 0)).register(), self.app()

    def reach(self, stage):
        for client in self.world.clients:
            client.signals.clear()
        self.simulator.do("vanish" if stage == "searching" else "return", "pink")
        self.dice.show_picker(item(setupOptions=["confirmAuthorization"]))
        self.picked = None
        if stage == "searching":
            self.person.wait_shown()
            self.simulator.do("return", "pink")
            return
        self.person.wait_offer("pink")
        if stage == "offering":
            return
        self.pick()
        if stage == "pairing":
            self.dice.wait_event("pickerSetupPairing")
            return
        self.person.wait_prompt("confirm-passkey")
        if stage == "confirming":
            return
        self.person.respond(accept=True)
        self.dice.wait_event("accessoryAdded")

    def pick(self):
        self.picked = self.person.wait_offer("pink")["id"]
        self.person.ask("Pick", "s", self.picked)

    def go_on(self):
        """To the end of the set-up; returns whether it was one."""
        done = set()

        def once(what, act):
            if what not in done:
                # What is asked for may have gone by now.
                with contextlib.suppress(dbus.DBusException):
                    act()
                    done.add(what)

        def look():
            if "pickerDidDismiss" in self.dice.event_types:
                return True
            failures = self.dice.event_types.count("pickerSetupFailed")
            if self.person.path is None:
                return False
            if self.person.state.get("Stage") in ("offering", "failed") and any(each["advertisedName"] == "pink" for each in self.person.offers):
                if not self.picked or failures:
                    once(("pick", failures), self.pick)
            elif self.person.state.get("Prompt", {}).get("kind") == "confirm-passkey":
                once(("prompt", failures), lambda: self.person.respond(accept=True))
            elif "accessoryAdded" in self.dice.event_types:
                once("finish", lambda: self.finish(str(self.dice.wait_event("accessoryAdded")["accessory"])))
            return False

        wait(look, 20, lambda: f"the end; came {self.dice.event_types}, stages {self.person.stages}", also_every=0.05)
        self.person.wait_gone()
        return "error" not in self.dice.wait_event("pickerDidDismiss")

    def finish(self, accessory):
        self.dice.request("FinishAuthorization", "oa{sv}", dbus.ObjectPath(accessory), sv({}))

    def check(self, is_granted):
        """Bonds, ledger, trail; and the next set-up."""
        grants = self.world.grants()
        self.assertEqual([str(each["State"]) for each in grants.values()], ["authorized"] * is_granted)
        wait(lambda: self.simulator.bonds == ["pink"] * is_granted, 10, lambda: f"the bonds to fit; are {self.simulator.bonds}", also_every=0.05)
        trail = [event for _, event, *_ in self.world.trail()]
        self.assertEqual(trail.count("granted") - trail.count("revoked"), is_granted)
        if is_granted:
            self.dice.remove(self.dice.accessories[0])
        self.assertNothingLeft()
        for client in self.world.clients:
            client.signals.clear()


class StandingStill(StageTest):
    def each_stage(self, who):
        for stage in self.STAGES:
            with self.subTest(stage):
                self.reach(stage)
                with who():
                    for _ in range(MINUTE // 5):
                        self.world.shortage.now.uptime += 5 * 10**9
                        self.moment()
                self.moment()
                self.check(self.go_on())

    moment = lambda self: self.world.admin.settle()

    @contextlib.contextmanager
    def still(self, program):
        program.pause()
        yield
        program.resume()

    def test_the_daemon(self):
        self.moment = lambda: None
        self.each_stage(lambda: self.still(self.world.daemon))

    def test_bluetoothd(self):
        self.each_stage(lambda: self.still(self.simulator))

    def test_the_bus(self):
        self.moment = lambda: None
        self.each_stage(lambda: self.still(self.world.bus))

    def test_the_app(self):
        self.each_stage(lambda: self.still(self.dice))

    def test_the_picker(self):
        self.each_stage(lambda: self.still(self.person))


class Dates(StageTest):
    """The date is for people: no deadline goes by it."""

    def test_a_jump_in_each_stage(self):
        for days in (DAYS, -2 * DAYS, DAYS):
            for stage in self.STAGES:
                with self.subTest(stage, days=days):
                    self.reach(stage)
                    self.world.jump(days)
                    self.world.admin.settle()
                    self.assertTrue(self.go_on())
                    self.check(True)

    def test_deadlines(self):
        self.simulator.do("vanish", "pink")
        self.simulator.do("vanish", "other")
        self.dice.show_picker(item(), discoveryTimeout=30.0)
        self.person.wait_shown()
        for days in (DAYS, -2 * DAYS, DAYS):
            self.world.jump(days)
            self.world.admin.settle()
        self.assertNotIn("pickerDidDismiss", self.dice.told())
        self.world.pass_time(31)
        self.assertTrue(self.dice.wait_event("pickerDidDismiss"))

    def test_what_is_written_down(self):
        """As the date is then; what comes later is told in its order whatever its date."""
        self.world.jump(DAYS)
        accessory = self.add(self.dice, self.person, "other")
        [grant] = self.world.grants().values()
        self.assertAlmostEqual(int(grant["Created"]), time.time() + DAYS, delta=3600)
        self.world.jump(-2 * DAYS)
        self.dice.remove(accessory)
        events = [event for _, event, *_ in self.world.trail()]
        self.assertEqual(events[-1], "revoked")
        self.assertIn("granted", events)

    def test_sleep(self):
        """The machine sleeps in each stage: the date goes on, the clock of deadlines does not."""
        for stage in self.STAGES:
            with self.subTest(stage):
                self.reach(stage)
                self.world.daemon.pause()
                self.simulator.pause()
                self.world.jump(DAYS)
                self.shortage.now.boottime += DAYS * 10**9
                self.simulator.resume()
                self.world.daemon.resume()
                self.assertTrue(self.go_on())
                self.check(True)
