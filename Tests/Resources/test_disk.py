# SPDX-License-Identifier: Apache-2.0
"""The disk takes nothing more: full, read-only or broken from the n-th call on, for every n that a change has, by number. A refused change
has not happened, for any client; an answered one has, also after a power cut; and once the disk works everything continues."""

import errno
import os
import signal

import dbus

from shortage import ShortageTest

from harness.names import ACCESSORY, GRANT, NAME, PINK, PROPERTIES, SOMEBODY_ELSE, error
from harness.programs import Program
from harness.radio import Paired, accessory, scenario
from harness.values import item, sv
from harness.waiting import wait

NUMBERS = (errno.ENOSPC, errno.EROFS, errno.EIO)
CLASSIC = b"\x00\x11\x22\x33\x44\x55"
# Every n-th of a change's calls on the disk; EVERY=1 tries all.
EVERY = int(os.environ.get("EVERY", "3"))


class DiskTest(ShortageTest):
    """`every_call` is the way of all these tests; how a change is made, undone and seen is theirs."""

    apps = ("dice", "board")
    scenario = scenario(accessory("pink"), accessory("other", 2))
    # Which disks: each kind of error comes to the same, so most changes meet one.
    numbers = NUMBERS[:1]
    every = EVERY

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()

    def lines(self, event):
        return [each for each in self.world.trail() if each[1] == event]

    def clear(self):
        """Discards the events so far."""
        for client in self.world.clients:
            client.signals.clear()

    def every_call(self, event, do, undo, again=lambda: None):
        """Does it while the disk takes nothing from the n-th call on. `do` says whether it was refused; `undo` reverts it;
        `event` is its line in the trail; `again` restores the initial state."""
        for number in self.numbers:
            n, refusals, failed = 0, 0, 1
            again()
            while failed:
                what = f"{errno.errorcode[number]} from call {n} on"
                self.clear()
                seen, lines = self.seen(), self.lines(event)
                self.shortage.fail(self.world.state, number, first=n)
                is_refused = do()
                failed = self.shortage.end()
                if is_refused:
                    refusals += 1
                    self.settle()
                    self.assertEqual(self.seen(), seen, what)
                    self.assertEqual(self.lines(event), lines, what)
                else:
                    self.assertNotEqual(self.seen(), seen, what)
                    self.assertEqual(len(self.lines(event)), len(lines) + 1, what)
                    undo()
                    again()
                n += self.every
            # At the first call at least, and not at the last, when all is written.
            self.assertGreater(refusals, 0, errno.errorcode[number])

    def settle(self):
        """Waits until the leftovers of a refused change are undone."""

    def refused(self, function, *arguments):
        """Whether it was refused; then because of the store, and the error says so."""
        try:
            function(*arguments)
            return False
        except dbus.DBusException as refusal:
            self.assertEqual(refusal.get_dbus_name(), error("Unknown"), refusal.get_dbus_message())
            self.assertIn("store", refusal.get_dbus_message())
            return True

    def ended(self, app=None):
        """Whether a set-up was refused, once it has ended: a person who sees the failure closes the picker."""
        app = app or self.dice
        wait(lambda: {"pickerSetupFailed", "pickerDidDismiss"} & set(app.event_types), 10, lambda: f"an end; came {app.event_types}")
        if "pickerDidDismiss" not in app.event_types:
            self.assertEqual(app.wait_event("pickerSetupFailed")["error"], error("Unknown"))
            self.person.cancel()
        refusal = app.wait_event("pickerDidDismiss").get("error")
        self.person.wait_gone()
        if refusal is not None and "pickerSetupFailed" not in app.event_types:
            self.assertEqual(refusal, error("Unknown"))
        return refusal is not None

    def wait_bonds(self, *bonds):
        wait(lambda: self.simulator.bonds == sorted(bonds), 10, lambda: f"the bonds {bonds}; there are {self.simulator.bonds}", also_every=0.05)

    def grant(self, accessory):
        return next(path for path, each in self.world.grants().items() if each["Accessory"] == accessory)


class Granted(DiskTest):
    """Changes of grants."""

    numbers = NUMBERS
    every = 1

    def setUp(self):
        super().setUp()
        self.accessory = self.add(self.dice, self.person, "pink")

    def rename(self, name):
        self.world.admin.call(self.accessory, ACCESSORY, "Rename", "s", name)

    def switch(self, on):
        self.world.admin.call(self.grant(self.accessory), PROPERTIES, "Set", "ssv", GRANT, "Enabled", on)

    def test_a_name(self):
        self.every_call("renamed", lambda: self.refused(self.rename, "Mine"), lambda: self.rename("Pink Dice"))

    def test_switched_off(self):
        self.every_call("disabled", lambda: self.refused(self.switch, False), lambda: self.switch(True))

    def test_switched_on(self):
        self.switch(False)
        self.every_call("enabled", lambda: self.refused(self.switch, True), lambda: self.switch(False))


class TakenAway(DiskTest):
    """A grant is removed, with its bond."""

    def again(self):
        self.accessory = self.add(self.dice, self.person, "pink")

    def test_by_the_app(self):
        self.every_call("revoked", lambda: self.refused(self.dice.remove, self.accessory), self.assertNothingLeft, self.again)

    def test_by_the_admin(self):
        revoke = lambda: self.world.admin.call(self.grant(self.accessory), GRANT, "Revoke")
        self.every_call("revoked", lambda: self.refused(revoke), self.assertNothingLeft, self.again)


class SetUp(DiskTest):
    """An accessory is set up."""

    def settle(self):
        self.assertNothingLeft()

    def set_up(self, *items):
        self.dice.show_picker(*(items or [item()]))
        self.person.pick("pink")
        return self.ended()

    def take_away(self):
        self.dice.remove(self.dice.accessories[0])
        self.assertNothingLeft()

    def test_with_pairing(self):
        self.every_call("granted", self.set_up, self.take_away)

    def test_without_pairing(self):
        self.every_call("granted", lambda: self.set_up(item(pairs=False)), self.take_away)


class Shared(DiskTest):
    """A second app gets an accessory."""

    def setUp(self):
        super().setUp()
        self.accessory = self.add(self.dice, self.person, "pink")
        self.board = self.app("board", SOMEBODY_ELSE)

    def share(self):
        self.board.show_picker(item())
        self.person.pick("pink")
        return self.ended(self.board)

    def test_it(self):
        self.every_call("granted", self.share, lambda: self.board.remove(self.accessory))


class Migrated(DiskTest):
    """A known accessory is taken over."""

    scenario = scenario(accessory("pink"))

    def test_it(self):
        with Paired(self.world, "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"):
            pass

        def migrate():
            self.dice.show_picker(item() | {"peripheralIdentifier": "C0:FF:EE:00:02:01"})
            self.person.wait_prompt("consent")
            self.person.respond(accept=True)
            told = self.dice.wait_event("migrationComplete").get("error")
            self.dice.wait_event("pickerDidDismiss")
            self.person.wait_gone()
            self.assertIn(told, (None, error("Unknown")))
            return told is not None

        self.every_call("granted", migrate, lambda: self.dice.remove(self.dice.accessories[0]))
        self.assertEqual(self.simulator.bonds, ["pink"])


class Confirmed(DiskTest):
    """The app's confirmation of a waiting accessory."""

    scenario = scenario(
        accessory("pink"), {**accessory("classic", 5, addressType="public", transport="bredr"), "address": "00:11:22:33:44:55"})

    def again(self, **options):
        self.dice.show_picker(item(setupOptions=["confirmAuthorization"], **options))
        self.person.pick("pink")
        self.accessory = str(self.dice.wait_event("accessoryAdded")["accessory"])
        self.person.wait_stage("confirming")

    def undo(self):
        self.dice.wait_event("pickerDidDismiss")
        self.dice.remove(self.accessory)
        self.taken_back()

    def taken_back(self):
        self.person.wait_gone()
        self.assertNothingLeft()

    def test_finished(self):
        finish = lambda: self.dice.request("FinishAuthorization", "oa{sv}", dbus.ObjectPath(self.accessory), sv({}))
        self.every_call("authorized", lambda: self.refused(finish), self.undo, self.again)

    def test_failed(self):
        fail = lambda: self.dice.request("FailAuthorization", "o", dbus.ObjectPath(self.accessory))
        self.every_call("revoked", lambda: self.refused(fail), self.taken_back, self.again)

    def test_with_a_classic_side(self):
        def finish():
            self.dice.request("FinishAuthorization", "oa{sv}", dbus.ObjectPath(self.accessory),
                              sv({"bluetoothTransportBridgingIdentifier": CLASSIC}))
            wait(lambda: {"pickerSetupFailed", "pickerDidDismiss"} & set(self.dice.event_types), 10, lambda: self.dice.event_types)
            if "pickerDidDismiss" in self.dice.event_types:
                return False
            self.assertIn("store", self.dice.wait_event("pickerSetupFailed")["message"])
            return True

        options = {"supportedOptions": ["bluetoothPairingLE", "bluetoothTransportBridging"]}
        self.every_call("authorized", finish, self.undo, lambda: self.again(**options))

    def settle(self):
        self.wait_bonds("pink")


class Updated(DiskTest):
    """An accessory is updated to another descriptor."""

    def again(self):
        self.accessory = self.add(self.dice, self.person, "pink", item(pairs=False))
        self.clear()

    def undo(self):
        self.dice.remove(self.accessory)
        self.assertNothingLeft()

    def settle(self):
        self.wait_bonds()

    def test_it(self):
        def update():
            self.dice.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(self.accessory),
                              sv({"bluetoothServiceUUID": PINK, "supportedOptions": ["bluetoothPairingLE"]}))
            self.person.pick("pink")
            return self.ended()

        self.every_call("updated", update, self.undo, self.again)


class PowerCut(DiskTest):
    """A change that was refused because of the disk has not happened after a power cut either, and an answered one has."""

    def test_it(self):
        accessory = self.add(self.dice, self.person, "pink")
        name = "Pink Dice"
        for number in NUMBERS:
            n, failed = 0, 1
            while failed:
                lines = len(self.lines("renamed"))
                self.shortage.fail(self.world.state, number, first=n)
                try:
                    self.world.admin.call(accessory, ACCESSORY, "Rename", "s", f"Name {number} {n}")
                    name = f"Name {number} {n}"
                    lines += 1
                except dbus.DBusException as refusal:
                    self.assertEqual(refusal.get_dbus_name(), error("Unknown"))
                failed = self.shortage.now.failed
                self.world.daemon.stop(signal.SIGKILL)
                self.shortage.end()
                self.world.start_daemon(waits=False)
                what = f"{errno.errorcode[number]} from call {n} on"
                self.assertEqual(str(self.world.admin.get(accessory, ACCESSORY, "DisplayName")), name, what)
                self.assertEqual(len(self.lines("renamed")), lines, what)
                n += EVERY


class Slow(DiskTest):
    """A disk that takes its time: all is done, only later."""

    def test_it(self):
        self.shortage.slow(self.world.state, 400)
        path = self.add(self.dice, self.person, "pink")
        self.world.admin.call(path, ACCESSORY, "Rename", "s", "Mine")
        self.dice.remove(path)
        self.assertGreater(self.shortage.now.seen, 5)
        self.shortage.end()
        self.assertNothingLeft()


class AtStart(DiskTest):
    """There is no room to begin with: the daemon says so and ends, and leaves all as it was."""

    def test_it(self):
        path = self.add(self.dice, self.person, "pink")
        self.world.admin.call(path, ACCESSORY, "Rename", "s", "Mine")
        command = self.world.daemon.command
        for number in NUMBERS:
            n, failed, ends = 0, 1, 0
            while failed:
                self.world.daemon.stop(signal.SIGKILL)
                self.shortage.fail(self.world.state, number, first=n)
                self.world.daemon = Program(*command, environment=self.shortage.environment)
                wait(lambda: self.world.admin.has_owner(NAME) or not self.world.daemon.running, 20, "its end or its name", also_every=0.02)
                if not self.world.daemon.running:
                    ends += 1
                    self.assertEqual(self.world.daemon.wait_end(), 1)
                    self.assertIn("cannot run", self.world.daemon.lines[-1])
                failed = self.shortage.end()
                n += EVERY
            self.assertGreater(ends, 0, errno.errorcode[number])
            self.assertEqual(str(self.world.admin.get(path, ACCESSORY, "DisplayName")), "Mine")
