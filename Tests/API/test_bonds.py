# SPDX-License-Identifier: Apache-2.0
"""Bonds that go: another program removes one, the accessory forgets its keys, an admin removes one. A grant does not continue with another
device at the address, and the person can pair the accessory again without losing the grant."""

import os
import pty
import subprocess

import dbus

from harness.names import ACCESSORY, ADMIN, ADMIN_PATH, error
from harness.programs import BIN, Program
from harness.radio import Paired, accessory, scenario
from harness.values import item
from harness.world import APITest
from harness.waiting import wait
from view import ADAPTER1, BLUEZ, DEVICE1, ViewTest


class BondTest(APITest):
    def state(self, path, client=None):
        return str((client or self.world.admin).get(path, ACCESSORY, "State"))

    def events(self):
        return [str(each["event"]) for each in self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", {})]

    def remove_bond(self, device):
        """As another program does, bluetoothctl for one."""
        self.world.admin.call("/org/bluez/hci0", ADAPTER1, "RemoveDevice", "o", dbus.ObjectPath(device), to=BLUEZ)

    def pass_seconds(self, count):
        for _ in range(count):
            self.world.pass_second()

    def wait_state(self, path, state):
        self.world.pass_until(lambda: self.state(path) == state, 10, f"the state {state}")

    def ctl(self, *words):
        program = Program(BIN / "accessoryctl", *words, "--bus", self.world.bus.address)
        return program.wait_end(), program.lines


class LostBonds(BondTest, ViewTest):
    def lose(self):
        self.remove_bond(self.pink)
        self.wait_state(self.accessory, "unauthorized")

    def test_another_program_removes_it(self):
        grants = self.world.grants()
        view = self.view()
        self.assertIn(self.pink, view.tree())
        self.lose()
        self.assertEqual(str(self.dice.wait_event("accessoryChanged")["properties"]["State"]), "unauthorized")
        self.assertEqual(self.state(self.accessory, self.dice), "unauthorized")
        # Another program's search has bluetoothd know the accessory again: it is not the app's.
        self.world.admin.call("/org/bluez/hci0", ADAPTER1, "StartDiscovery", to=BLUEZ)
        self.world.pass_until(lambda: "C0:FF:EE:00:02:01" in self.simulator.devices(), 10, "the accessory to be heard")
        self.assertNotIn(self.pink, view.tree())
        self.assertFails("org.freedesktop.DBus.Error.UnknownObject", view.connect, self.pink)
        self.assertFails("org.freedesktop.DBus.Error.UnknownObject", self.view().connect, self.pink)
        self.assertEqual(self.events().count("unpaired"), 1)
        problems = self.world.admin.get(self.accessory, ACCESSORY, "Problems")
        self.assertEqual(list(problems), ["it is no longer paired: pair it again in a picker of com.example.dice"])
        # It stays so after a restart.
        self.world.restart_daemon()
        self.assertEqual(self.state(self.accessory), "unauthorized")

        # The person pairs it again: the grant is the one from before.
        self.dice, self.person = self.app("dice"), self.picker()
        self.dice.show_picker(item("Pink"))
        offer = self.person.wait_offer("pink")
        self.assertEqual((bool(offer.get("shared")), bool(offer.get("paired"))), (False, False))
        self.person.ask("Pick", "s", offer["id"])
        self.assertEqual(str(self.dice.wait_event("accessoryAdded")["accessory"]), self.accessory)
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.simulator.bonds, ["pink"])
        self.assertEqual({path: each["State"] for path, each in self.world.grants().items()}, dict.fromkeys(grants, "authorized"))
        self.assertEqual(self.dice.accessories, [self.accessory])
        self.unlink(self.pink)
        self.view().connect(self.pink)

    def test_while_the_daemon_is_away(self):
        self.world.daemon.stop()
        self.remove_bond(self.pink)
        self.world.start_daemon()
        self.wait_state(self.accessory, "unauthorized")

    def test_a_loss_is_not_reported_before_it_is_certain(self):
        """An adapter that is unplugged withdraws its devices first, which looks the same at first."""
        self.remove_bond(self.pink)
        wait(lambda: self.world.admin.get(self.accessory, ACCESSORY, "Device") == "/", 10, "the device to go", also_every=0.02)
        problems = self.world.admin.get(self.accessory, ACCESSORY, "Problems")
        self.assertEqual(list(problems), ["Bluetooth does not currently list its bond"])
        self.wait_state(self.accessory, "unauthorized")

    def test_what_is_no_loss(self):
        """An adapter or a bluetoothd that goes takes its objects along, and comes back with the bond."""
        for gone, back in (("adapterRemoved", "adapterAdded"), ("serviceStopped", "serviceStarted"), ("adapterPowerOff", "adapterPowerOn")):
            with self.subTest(gone):
                target = "" if gone.startswith("service") else "hci0"
                self.simulator.do(gone, target)
                self.pass_seconds(8)
                self.assertEqual(self.state(self.accessory), "authorized")
                self.simulator.do(back, target)
                self.world.wait_bluetooth("ready")
                self.pass_seconds(8)
                self.assertEqual(self.state(self.accessory), "authorized")
        self.assertNotIn("unpaired", self.events())

    def test_two_apps(self):
        """Each app's person decides for that app."""
        self.share()
        self.lose()
        self.assertEqual({str(each["State"]) for each in self.world.grants().values()}, {"unauthorized"})
        self.add(self.dice, self.person, "pink", item("Pink"))
        self.assertEqual([self.state(self.accessory, app) for app in (self.dice, self.board)], ["authorized", "unauthorized"])
        # Nothing is paired for the second: the bond is there.
        self.board.show_picker(item("Pink"))
        self.assertTrue(self.person.wait_offer("pink")["shared"])
        self.person.pick("pink")
        self.board.wait_event("pickerDidDismiss")
        self.assertEqual(self.state(self.accessory, self.board), "authorized")
        self.assertEqual(self.events().count("paired"), 2)

    def test_removed_by_the_app(self):
        self.lose()
        self.dice.remove(self.accessory)
        self.assertEqual(self.world.grants(), {})
        self.add(self.dice, self.person, "pink", item("Pink"))


class ForgottenKeys(BondTest, ViewTest):
    """An accessory that was reset: bluetoothd keeps the bond, and every link ends at once."""

    def test_the_way_out(self):
        view = self.view()
        view.connect(self.pink)
        view.disconnect(self.pink)
        self.simulator.do("keysForgotten", "pink")
        says = ["may have forgotten its pairing", "remove it, or have an admin run"]
        for _ in range(2):
            self.assertFails("org.bluez.Error.Failed", view.connect, self.pink, says=says)
        self.assertEqual(self.state(self.accessory), "authorized")
        problem, = self.world.admin.get(self.accessory, ACCESSORY, "Problems")
        self.assertIn("accessoryctl unpair", problem)
        self.assertEqual(self.ctl("unpair", "--yes", "Pink")[0], 0)
        self.add(self.dice, self.person, "pink", item("Pink"))
        self.unlink(self.pink)
        self.view().connect(self.pink)
        self.assertEqual(list(self.world.admin.get(self.accessory, ACCESSORY, "Problems")), [])

    def test_out_of_range_is_no_refusal(self):
        self.simulator.do("vanish", "pink")
        with self.assertRaises(dbus.DBusException) as caught:
            self.view().connect(self.pink)
        self.assertNotIn("forgotten", caught.exception.get_dbus_message())
        self.assertEqual(list(self.world.admin.get(self.accessory, ACCESSORY, "Problems")), [])


class RemovedBonds(BondTest):
    """The way out for an accessory that another program has paired, and that has forgotten its keys."""

    scenario = scenario(accessory("pink", 1))
    device = "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"

    def test_by_an_admin(self):
        app, picker = self.app(), self.picker()
        with Paired(self.world, self.device):
            path = self.add(app, picker, "pink")
        self.assertEqual(self.events().count("paired"), 0)
        # Without a terminal nothing is confirmed.
        self.assertEqual(self.ctl("unpair", "Pink Dice"), (1, ["accessoryctl: nothing was changed"]))
        self.assertEqual((self.state(path), self.simulator.bonds), ("authorized", ["pink"]))
        code, lines = self.ctl("unpair", "--yes", "Pink Dice")
        self.assertEqual((code, lines), (0, ["unpaired: Pink Dice can be paired again in a picker of com.example.dice"]))
        self.assertEqual((self.state(path), self.simulator.bonds), ("unauthorized", []))
        line = next(each for each in self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", {}) if each["event"] == "unpaired")
        self.assertEqual((str(line["why"]), str(line["accessory"])), ("unpaired by an admin", path.rpartition("/")[2].replace("_", "-")))
        self.assertIn("accessoryctl", line["who"])
        self.assertFails(error("InvalidRequest"), self.world.admin.call, path, ACCESSORY, "Unpair", says=["not paired"])
        # Now it is paired, and the bond is ours.
        self.assertEqual(self.add(app, picker, "pink"), path)
        self.assertEqual((self.state(path), self.simulator.bonds, self.events().count("paired")), ("authorized", ["pink"], 1))
        app.remove(path)
        self.assertEqual(self.simulator.bonds, [])

    def test_on_a_terminal_it_asks(self):
        app, picker = self.app(), self.picker()
        path = self.add(app, picker, "pink")
        for answer, status, bonds in (("n", 1, ["pink"]), ("y", 0, [])):
            ours, theirs = pty.openpty()
            with open(ours, "r+b", buffering=0) as terminal:
                command = [BIN / "accessoryctl", "unpair", "--bus", self.world.bus.address, "Pink Dice"]
                with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as program:
                    os.close(theirs)
                    self.assertIn(b"Remove the bond with Pink Dice? com.example.dice cannot use it", terminal.readline())
                    terminal.write(f"{answer}\n".encode())
                    self.assertEqual(program.wait(), status)
            self.assertEqual(self.simulator.bonds, bonds)
        self.assertEqual(self.state(path), "unauthorized")
