# SPDX-License-Identifier: Apache-2.0
"""Each participant of a set-up, of joining a network and of a removal stands still for a minute, in each stage; the date jumps
by days, the machine sleeps. The minute is the daemon's: its clock is moved, and no test waits. The pending operation then continues or has ended with
an error; either way bonds and networks are the ledger's, the trail gives the grants, and the next set-up works."""

import contextlib
import socket
import time

import dbus

from shortage import ShortageTest

from harness.clients import Identity
from harness.names import ACCESSORY, PINK
from harness.pickers import PickerProgram
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import STANDSTILL, wait

MINUTE = 60
DAYS = 10 * 24 * 3600
NETWORK = "Dice-1234"
STAGES = ("searching", "offering", "pairing", "confirming", "authorizing", "removing", "joining")


def in_each_stage(kind_of_test):
    """For a class: a test for each stage, which plays it."""
    for stage in STAGES:
        setattr(kind_of_test, f"test_{stage}", lambda self, stage=stage: self.play(stage))
    return kind_of_test


class StageTest(ShortageTest):
    """`reach` goes to a stage, `go_on` from there to the end, as a person would."""

    # The participants take a moment: the minute begins in the middle.
    scenario = scenario(
        accessory("pink", pairing={"mode": "numericComparison", "fault": "slow", "delay": 0.3}), accessory("other", 2),
        accessory("far", 3, service="180A"), wifi={"services": ["wpa_supplicant"], "interfaces": [{"name": "wlan0", "uplink": "Home"}]},
        accessPoints=[{"id": "hotspot", "ssid": NETWORK, "security": "wpa2", "passphrase": "sixsided1", "fault": "slow", "delay": 0.3}])
    manifest = {"Supports": "Bluetooth;WiFi;", "BluetoothServices": f"{PINK};180A;"}

    def setUp(self):
        super().setUp()
        # A process of its own, which can stand still.
        self.person, self.dice = PickerProgram(self.world, Identity("shower", 0)).register(), self.app()

    def reach(self, stage):
        self.stage = stage
        self.forget()
        if stage in ("removing", "joining"):
            return self.reach_in_use()
        self.simulator.do("vanish" if stage == "searching" else "return", "pink")
        self.dice.show_picker(item(setupOptions=["confirmAuthorization"]))
        self.picks = 0
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

    def reach_in_use(self):
        """An app's accessory is removed, or its network joined."""
        self.answers = []
        answered = lambda *results: self.answers.append(results[0] if results else None)
        if self.stage == "removing":
            path = self.add(self.dice, self.person, "other")
            self.world.admin.call_later(path, ACCESSORY, "Remove", answered)
            self.world.admin.connection.flush()
        else:
            self.world.wait_wifi("ready")
            self.simulator.wait_joined("Home")
            path = self.add(self.dice, self.person, NETWORK, {"name": "Dice", "descriptor": {"ssid": NETWORK}})
            before = len(self.world.daemon.lines)
            self.dice.call_later(path, ACCESSORY, "JoinNetwork", answered, "a{sv}", sv({"passphrase": "sixsided1"}))
            wait(lambda: any("joining an accessory's network" in each for each in self.world.daemon.lines[before:]), what="the joining to begin")

    def pick(self):
        self.person.ask("Pick", "s", self.person.wait_offer("pink")["id"])
        self.picks += 1

    def go_on(self):
        """Continues to the end; returns whether it succeeded."""
        if self.stage in ("removing", "joining"):
            wait(lambda: self.answers, 20, f"an answer in {self.stage}")
            return self.answers == [None]
        done = set()

        def tried(act):
            # The object may have gone by now; then the objects are read again.
            with contextlib.suppress(dbus.DBusException):
                act()
                return True
            return False

        def once(what, act):
            if what not in done and tried(act):
                done.add(what)

        def look():
            if "pickerDidDismiss" in self.dice.event_types:
                return True
            failures = self.dice.event_types.count("pickerSetupFailed")
            if self.person.path is None:
                return False
            if self.person.state.get("Stage") in ("offering", "failed") and any(each["advertisedName"] == "pink" for each in self.person.offers):
                # Once, and again after each attempt that failed.
                if self.picks <= failures:
                    tried(self.pick)
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

    def check(self, is_well):
        """Bonds, networks, ledger, trail; and the next set-up."""
        if self.stage == "joining":
            self.leave(is_well)
        is_granted = self.stage == "joining" or (self.stage != "removing" and is_well)
        bonds = ["pink"] * (is_granted and self.stage != "joining")
        grants = self.world.grants()
        self.assertEqual([str(each["State"]) for each in grants.values()], ["authorized"] * is_granted)
        wait(lambda: self.simulator.bonds == bonds, 10, lambda: f"the bonds to fit; are {self.simulator.bonds}", also_every=0.05)
        trail = [event for _, event, *_ in self.world.trail()]
        self.assertEqual(trail.count("granted") - trail.count("revoked"), is_granted)
        if is_granted:
            self.dice.remove(self.dice.accessories[0])
        self.assertNothingLeft()
        # Pending work is done within a minute.
        self.pass_a_minute()
        self.forget()
        self.dice.remove(self.add(self.dice, self.person, "other"))
        self.assertNothingLeft()

    def leave(self, is_joined):
        """The interface is on the network that was joined, or else it is back; then it is given back."""
        if is_joined:
            self.simulator.wait_joined(NETWORK)
            self.dice.call(self.dice.accessories[0], ACCESSORY, "LeaveNetwork", seconds=30)
        self.simulator.wait_joined("Home")
        wait(lambda: self.simulator.known_networks == ["Home"], what=lambda: f"profiles to go: {self.simulator.known_networks}", also_every=0.05)
        self.assertEqual(self.simulator.secrets, 0)

    def pass_a_minute(self):
        for _ in range(MINUTE // 5):
            self.world.shortage.now.uptime += 5 * 10**9
            self.moment()

    def moment(self):
        """The daemon looks at its clock."""
        self.world.admin.settle()

    def forget(self):
        """Nothing of an earlier picker is taken for one of the next."""
        for client in self.world.clients:
            client.signals.clear()
        self.person.state = {}


class StandingStill(StageTest):
    """All others continue meanwhile."""

    def play(self, stage):
        self.reach(stage)
        with self.still():
            self.pass_a_minute()
        self.moment()
        self.check(self.go_on())

    @property
    def who(self):
        raise NotImplementedError

    @contextlib.contextmanager
    def still(self):
        program = self.who
        program.pause()
        yield
        program.resume()


@in_each_stage
class Bluetoothd(StandingStill):
    """With the Wi-Fi service, which is the same program here."""

    who = property(lambda self: self.simulator)


@in_each_stage
class TheApp(StandingStill):
    who = property(lambda self: self.dice)


@in_each_stage
class ThePicker(StandingStill):
    who = property(lambda self: self.person)


@in_each_stage
class TheDaemon(StandingStill):
    who = property(lambda self: self.world.daemon)
    is_still = False

    @contextlib.contextmanager
    def still(self):
        with super().still():
            self.is_still = True
            yield
            self.is_still = False

    def moment(self):
        if not self.is_still:
            super().moment()


@in_each_stage
class TheBus(StandingStill):
    who = property(lambda self: self.world.bus)

    def moment(self):
        """By the one way to the daemon on which there is no bus."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20 * STANDSTILL)
            client.connect(str(self.world.view))
            client.sendall(b"\0AUTH\r\n")
            self.assertTrue(client.recv(100).startswith(b"REJECTED EXTERNAL"))


@in_each_stage
class Jumps(StageTest):
    """The date is for people: no deadline goes by it."""

    def play(self, stage):
        for days in (DAYS, -2 * DAYS, DAYS):
            with self.subTest(days=days):
                self.reach(stage)
                self.world.jump(days)
                self.world.admin.settle()
                self.assertTrue(self.go_on())
                self.check(True)


@in_each_stage
class Sleep(StageTest):
    """The machine sleeps: the date goes on, the clock of deadlines does not."""

    def play(self, stage):
        self.reach(stage)
        self.world.daemon.pause()
        self.simulator.pause()
        self.world.jump(DAYS)
        self.shortage.now.boottime += DAYS * 10**9
        self.simulator.resume()
        self.world.daemon.resume()
        self.assertTrue(self.go_on())
        self.check(True)


class Dates(StageTest):
    """Behavior that depends on the date, and behavior that does not."""

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
        """As the date is then; later lines are read in their order whatever their date."""
        self.world.jump(DAYS)
        accessory = self.add(self.dice, self.person, "other")
        [grant] = self.world.grants().values()
        self.assertAlmostEqual(int(grant["Created"]), time.time() + DAYS, delta=3600)
        self.world.jump(-2 * DAYS)
        self.dice.remove(accessory)
        events = [event for _, event, *_ in self.world.trail()]
        self.assertEqual(events[-1], "revoked")
        self.assertIn("granted", events)
