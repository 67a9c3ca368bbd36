# SPDX-License-Identifier: Apache-2.0
"""Persistence: over restarts, power cuts, and damage of the store."""

import contextlib
import re
import signal
import sqlite3

from harness.apps import App
from harness.clients import Client
from harness.names import ACCESSORY, BLUE, GRANT, PNG, error
from harness.radio import Paired, accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest


class Keeping(APITest):
    def setUp(self):
        super().setUp()
        app = self.app()
        self.accessory = self.add(app, self.picker(), "Dice 4F", item(productImage=PNG))
        self.properties = app.get_all(self.accessory, ACCESSORY)
        self.grants = self.world.grants()

    def expect_all(self):
        app = App(self.world)
        app.session = app.create_session()
        self.assertEqual(app.accessories, [])  # not before it is active
        app.request("Activate")
        app.wait_event("activated")
        self.assertEqual(app.accessories, [self.accessory])
        wait(lambda: app.get_all(self.accessory, ACCESSORY) == self.properties, 10, "the properties as they were", also_every=0.1)
        self.assertEqual(self.world.grants(), self.grants)
        self.assertEqual(self.simulator.bonds, ["pink-dice"])
        self.assertEqual(app.told(), ["activated"])

    def test_a_restart(self):
        self.world.restart_daemon()
        self.expect_all()

    def test_a_kill(self):
        self.world.restart_daemon(signal.SIGKILL)
        self.expect_all()

    def test_a_restart_of_the_service(self):
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.assertEqual(self.world.admin.get(self.accessory, ACCESSORY, "Device"), "/")
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")
        self.expect_all()

    def test_a_restart_without_radio(self):
        self.simulator.do("serviceStopped")
        self.world.restart_daemon()
        app = self.app()
        self.assertEqual(app.accessories, [self.accessory])
        self.assertEqual(app.get(self.accessory, ACCESSORY, "Device"), "/")
        self.assertEqual(app.get(self.accessory, ACCESSORY, "DisplayName"), "Pink Dice")

    def test_numbers_of_grants_are_not_used_again(self):
        [grant] = self.grants
        self.world.admin.call(grant, GRANT, "Revoke")
        self.world.restart_daemon()
        self.add(self.app(), self.picker(), "Dice 4F")
        self.assertNotIn(grant, self.world.grants())

    def damage(self, change):
        """Stops the daemon, changes the store's main file, and starts it again; returns the file's contents then."""
        self.assertEqual(self.world.daemon.stop(), 0)
        files = [each for each in self.world.state.iterdir() if each.is_file()]
        store = max(files, key=lambda each: each.stat().st_size)
        for other in files:
            if other != store:
                other.unlink()
        content = change(store.read_bytes())
        store.write_bytes(content)
        self.world.start_daemon()
        return content

    def test_a_damaged_store_is_kept_aside(self):
        damages = {
            "garbage": lambda content: b"no store at all\n" * 64,
            "cut off": lambda content: content[: len(content) // 2],
            "holes": lambda content: content[:100] + bytes(len(content) - 100),
        }
        for what, change in damages.items():
            with self.subTest(what):
                self.start(self.scenario)
                self.add(self.app(), self.picker(), "Dice 4F")
                content = self.damage(change)
                self.assertEqual(self.world.grants(), {})
                self.assertEqual(self.app().accessories, [])
                kept = [each for each in self.world.state.iterdir() if each.is_file() and each.read_bytes() == content]
                self.assertEqual(len(kept), 1, [each.name for each in self.world.state.iterdir()])
                # The log says where it is.
                self.world.daemon.wait_for(re.escape(kept[0].name), 1)
                # And the daemon works.
                self.add(self.app(), self.picker(), "Dice A2", item("Blue Dice", BLUE), answer={"accept": True})
                self.assertEqual(len(self.world.grants()), 1)



class PowerCut(APITest):
    """The daemon is killed at a moment of its work, and finds its traces after the restart."""

    def kill_in_pairing(self, **accessory_keys):
        self.start(scenario(
            accessory("pink", 1, pairing={"fault": "slow", "delay": 4, "faultCount": 1}, **accessory_keys), accessory("other", 2)))
        app, picker = self.app(), self.picker()
        app.show_picker(item())
        picker.pick("pink")
        wait(lambda: self.simulator.connections == ["pink"], 10, "the link", also_every=0.05)

    def expect_nothing(self):
        self.assertNothingLeft()
        self.add(self.app(), self.picker(), "other")

    def test_in_pairing(self):
        self.kill_in_pairing()
        self.world.restart_daemon(signal.SIGKILL)
        self.expect_nothing()

    def test_a_link_that_comes_up_later(self):
        """As of a kernel that bluetoothd had asked for it: no program has it, and the accessory would not advertise."""
        self.kill_in_pairing()
        self.world.restart_daemon(signal.SIGKILL)
        wait(lambda: self.simulator.connections == [], 10, "the pairing's link to end", also_every=0.05)
        device = "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"
        other = Client(self.world)
        other.call("/org/bluez/hci0", "org.bluez.Adapter1", "StartDiscovery", to="org.bluez")
        wait(lambda: "C0:FF:EE:00:02:01" in self.simulator.devices(), 10, "the device", also_every=0.05)
        other.call_later(device, "org.bluez.Device1", "Connect", lambda *_: None, to="org.bluez")
        self.world.daemon.wait_for("disconnecting a link that no program is waiting for")
        wait(lambda: self.simulator.connections == [], 10, "the link to end", also_every=0.05)
        other.close()
        # Paired, it keeps its link.
        self.add(self.app(), self.picker(), "pink")
        self.assertEqual(self.simulator.connections, ["pink"])

    def test_between_pairing_and_grant(self):
        for keys in ({}, {"addressType": "rpa"}):
            with self.subTest(**keys):
                self.kill_in_pairing(**keys)
                self.world.daemon.pause()
                wait(lambda: self.simulator.bonds == ["pink"], 10, "the bond", also_every=0.1)
                self.world.restart_daemon(signal.SIGKILL)
                self.expect_nothing()

    def test_between_pairing_and_grant_of_everything(self):
        # The service restarts as well: it then knows an accessory with a private address by its identity only.
        for keys in ({}, {"addressType": "rpa"}):
            with self.subTest(**keys):
                self.kill_in_pairing(**keys)
                self.world.daemon.pause()
                wait(lambda: self.simulator.bonds == ["pink"], 10, "the bond", also_every=0.1)
                self.simulator.do("serviceStopped")
                self.world.daemon.stop(signal.SIGKILL)
                self.simulator.do("serviceStarted")
                self.world.start_daemon()
                self.expect_nothing()

    def test_before_the_bond_was_removed(self):
        app = self.app()
        accessory = self.add(app, self.picker(), "Dice 4F")
        self.simulator.do("adapterPowerOff", "hci0")
        self.world.wait_bluetooth("off")
        app.remove(accessory)
        self.world.daemon.stop(signal.SIGKILL)
        self.simulator.do("adapterPowerOn", "hci0")
        self.world.start_daemon()
        self.assertNothingLeft()


class BondsOfOthers(APITest):
    """A bond that another program made is taken over by a grant, and stays when there is none in the end. The service is held
    while the daemon asks it who the accessory is, so that the end comes in the middle."""

    scenario = scenario(accessory("compares", pairing={"mode": "numericComparison"}))

    def pick_and_hold(self):
        """Up to the middle of the set-up; returns the app and the picker."""
        app, person = self.app(), self.picker()
        app.show_picker(item())
        person.wait_offer("compares")
        self.simulator.pause()
        self.addCleanup(lambda: self.simulator.running and self.simulator.resume())
        person.pick("compares")
        app.wait_event("pickerSetupPairing")
        return app, person

    def test_they_stay_after_a_look_around(self):
        with Paired(self.world, "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"):
            app, person = self.app(), self.picker()
            app.show_picker(item())
            person.wait_offer("compares")
            person.cancel()
            app.wait_event("pickerDidDismiss")
            self.world.restart_daemon()
            self.assertEqual(self.simulator.bonds, ["compares"])

    def test_they_stay_when_the_person_cancels(self):
        with Paired(self.world, "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"):
            app, person = self.pick_and_hold()
            person.cancel()
            self.simulator.resume()
            self.assertDismissed(app, "UserCancelled")
            self.world.restart_daemon()
            self.assertEqual(self.simulator.bonds, ["compares"])

    def test_they_stay_when_the_daemon_is_killed(self):
        with Paired(self.world, "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"):
            self.pick_and_hold()
            self.world.daemon.stop(signal.SIGKILL)
            self.simulator.resume()
            self.world.start_daemon()
            self.world.restart_daemon()
            self.assertEqual(self.world.grants(), {})
            self.assertEqual(self.simulator.bonds, ["compares"])


class AStoreThatRefuses(APITest):
    """Another program holds the database: a change that cannot be stored has not happened."""

    scenario = scenario(accessory("asks", pairing={"mode": "numericComparison"}), accessory("pink", 2))

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()

    @contextlib.contextmanager
    def locked(self):
        with contextlib.closing(sqlite3.connect(self.world.state / "grants.sqlite", isolation_level=None)) as store:
            store.execute("BEGIN EXCLUSIVE")
            yield
            store.execute("ROLLBACK")

    def test_the_grant_cannot_be_written(self):
        self.dice.show_picker(item())
        self.person.pick("asks")
        self.person.wait_prompt("confirm-passkey")
        with self.locked():
            self.person.respond(accept=True)
            self.assertDismissed(self.dice, "Unknown")
        self.assertNothingLeft()
        self.add(self.dice, self.person, "pink")

    def test_the_intent_cannot_be_noted(self):
        self.dice.show_picker(item())
        with self.locked():
            self.person.pick("pink")
            self.dice.wait_event("pickerSetupFailed")
        self.assertEqual(self.simulator.bonds, [])
        self.person.pick("pink")
        self.dice.wait_event("accessoryAdded")

    def test_a_removal_cannot_be_written(self):
        accessory = self.add(self.dice, self.person, "pink")
        with self.locked():
            self.assertFails(error("Unknown"), self.dice.remove, accessory, says=["store"])
            self.assertFails(error("Unknown"), self.world.admin.call, accessory, ACCESSORY, "Rename", "s", "Mine", says=["store"])
        self.assertEqual(self.dice.accessories, [accessory])
        self.assertEqual(self.dice.get(accessory, ACCESSORY, "DisplayName"), "Pink Dice")
        self.dice.remove(accessory)
