# SPDX-License-Identifier: Apache-2.0
"""Clients of the view over a restart of the daemon: with a service manager that keeps descriptors they notice nothing that bluetoothd did not
do, and without one they hear that all is gone."""

import shutil
import signal
import subprocess
import sys


from harness import service_manager
from harness.apps import App
from harness.names import BUS_ERROR, NAME, PINK, SOMEBODY
from harness.programs import TESTS, Program
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from test_app_sockets import DICE
from test_view import Acquiring
from test_view_clients import PACKAGES
from view import ADAPTER, ADAPTER1, BLUEZ, CHARACTERISTIC1, DEVICE1, DRIVER, GATT, path_of


class HandoverTest(service_manager.Kept, Acquiring):
    def wait_closed(self, client):
        wait(lambda: not client.connection.get_is_connected(), 10, "the connection to end")

    def goes_on(self, view):
        """Its calls are answered, and it has heard no change of bluetoothd's owner or of the link."""
        self.assertTrue(view.read_property(self.pink, DEVICE1, "Connected"))
        self.assertEqual(view.changes(self.pink, "Connected"), [True])
        self.assertEqual(view.told("InterfacesRemoved", self.pink), [])


class Kept(HandoverTest):
    def test_a_client_notices_nothing(self):
        view = self.view().connect(self.pink)
        name, tree = view.name, set(view.tree())
        self.restart()
        self.goes_on(view)
        self.assertEqual((view.driver("GetNameOwner", "s", name), set(view.tree())), (name, tree))
        self.assertEqual(self.manager.kept, [])
        self.assertEqual(self.linked(), ["pink"])

    def test_our_own_name_goes_and_comes(self):
        view = self.view().connect(self.pink)
        owners = []
        view.connection.add_signal_receiver(
            lambda name, old, new: owners.append((str(name), str(old), str(new))), "NameOwnerChanged", DRIVER)
        self.restart()
        wait(lambda: len(owners) == 2, 10, "the changes of owner")
        self.assertEqual(owners, [(NAME, ":accessorysetup.1", ""), (NAME, "", ":accessorysetup.1")])

    def test_several_times(self):
        view = self.view().connect(self.pink)
        for _ in range(3):
            self.restart()
        self.goes_on(view)

    def test_another_client_has_another_name(self):
        view = self.view().connect(self.pink)
        self.restart()
        self.assertNotEqual(self.view().name, view.name)

    def test_what_is_sent_meanwhile_is_answered(self):
        view = self.view().connect(self.pink)
        answers = []

        def meanwhile():
            view.call_later(self.pink, DEVICE1, "Disconnect", lambda *result: answers.append(result), to=BLUEZ)
            view.deliver()

        self.restart(meanwhile)
        wait(lambda: answers, 10, "the answer")
        self.assertEqual(answers, [()])
        self.assertEqual(self.linked(), [])

    def test_a_call_without_an_answer_is_answered(self):
        """bluetoothd does not answer."""
        view, answers = self.view(), []
        view.tree()
        self.simulator.pause()
        view.call_later(self.pink, DEVICE1, "Connect", lambda *result: answers.append(result), to=BLUEZ)
        view.driver("GetId")
        self.restart(self.simulator.resume)
        wait(lambda: answers, 10, "the answer")
        self.assertEqual(answers[0][0].get_dbus_name(), BUS_ERROR + "NoReply")

    def test_it_is_the_same_app_and_no_other(self):
        view, board = self.view().connect(self.pink), self.view("board")
        board.tree()
        self.restart()
        self.goes_on(view)
        self.assertNotIn(self.pink, board.tree())

    def test_a_link_lingers_for_an_app_that_has_gone(self):
        """Its share is kept over the restart, and ends after its time."""
        self.view().connect(self.pink).close()
        self.restart()
        self.assertEqual(self.linked(), ["pink"])
        self.world.pass_until(lambda: not self.linked(), 31, "the link to end")


class Changed(HandoverTest):
    """Changes in between are signalled."""

    def test_a_grant_that_went(self):
        view = self.view().connect(self.pink)
        end, _ = self.acquire(view, "AcquireNotify")
        self.restart((self.world.app_directories[0] / "com.example.dice.conf").unlink)
        wait(lambda: view.told("InterfacesRemoved", self.pink), 10, "the object to go")
        self.assertEqual(view.changes(self.pink, "Connected"), [True, False])
        self.assertNotIn(self.pink, view.tree())
        with end:
            while self.receive(end):
                pass
        self.world.pass_until(lambda: not self.linked(), 31, "the link to end")

    def test_another_program_by_then(self):
        """Its connection is not one of the app's any more."""
        view, other = self.view().connect(self.pink), self.view()
        other.tree()
        self.restart(view.become_another_program)
        self.wait_closed(view)
        self.assertIn(self.pink, other.tree())

    def test_a_link_that_went(self):
        view = self.view().connect(self.pink)
        self.restart(lambda: self.unlink(self.pink))
        view.wait_change(self.pink, "Connected", False)

    def test_an_object_that_went(self):
        view = self.view()
        self.assertIn(self.pink, view.tree())
        self.restart(lambda: self.world.admin.call(ADAPTER, ADAPTER1, "RemoveDevice", "o", self.pink, to=BLUEZ))
        wait(lambda: view.told("InterfacesRemoved", self.pink), 10, "the object to go")

    def test_another_bluetoothd(self):
        view = self.view().connect(self.pink)
        owner = view.driver("GetNameOwner", "s", BLUEZ)

        def replace():
            self.simulator.stop()
            self.world.simulator = self.simulator = self.world.make_simulator(self.scenario)

        self.restart(replace)
        wait(lambda: view.driver("GetNameOwner", "s", BLUEZ) != owner, 10, "the other owner", also_every=0.05)
        self.assertNotIn(True, [each.get(DEVICE1, {}).get("Connected") for each in view.tree().values()])


class Streams(HandoverTest):
    """Fifty values a second: none is lost. (Of packets the kernel holds 278 for one that does not read.)"""

    scenario = scenario(accessory("pink", 1, gatt=[{"uuid": PINK, "characteristics": [
        {"uuid": "FF3F", "flags": ["read", "write", "write-without-response", "notify"], "value": "01",
         "notify": {"interval": 0.02, "values": [f"{number:02X}" for number in range(256)]}}]}]), accessory("other", 2, gatt=GATT))

    def assertSuccessive(self, numbers):
        self.assertEqual(numbers, [(numbers[0] + each) % 256 for each in range(len(numbers))])

    def test_notifications(self):
        view = self.view().connect(self.pink)
        characteristic = view.characteristic(self.pink)
        view.bluez(characteristic, CHARACTERISTIC1, "StartNotify")
        for count in (20, 120):
            wait(lambda: len(view.changes(characteristic, "Value")) >= count, what=f"{count} notifications")
            self.restart()
        wait(lambda: len(view.changes(characteristic, "Value")) >= 220, what="notifications after the second restart")
        self.assertSuccessive([int(each[0]) for each in view.changes(characteristic, "Value")])
        view.bluez(characteristic, CHARACTERISTIC1, "StopNotify")
        wait(lambda: not view.read_property(characteristic, CHARACTERISTIC1, "Notifying"), 10, "no notifications any more")

    def test_packets_and_their_end(self):
        view = self.view().connect(self.pink)
        end, characteristic = self.acquire(view, "AcquireNotify")
        write, _ = self.acquire(view, "AcquireWrite")
        with end, write:
            numbers = [self.receive(end)[0] for _ in range(20)]
            self.restart()
            numbers += [self.receive(end)[0] for _ in range(100)]
            self.assertSuccessive(numbers)
            write.send(b"\x11\x22")
            wait(lambda: bytes(view.bluez(characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}))) == b"\x11\x22",
                 what="the value", also_every=0.02)
            self.revoke()
            while self.receive(end):
                pass

    def test_a_discovery(self):
        view = self.view()
        view.tree()
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        self.restart()
        self.assertTrue(view.read_property(ADAPTER, ADAPTER1, "Discovering"))
        view.bluez(ADAPTER, ADAPTER1, "StopDiscovery")


class NotKept(Acquiring):
    """Without a service manager."""

    def test_clients_hear_that_all_is_gone(self):
        view = self.view().connect(self.pink)
        end, _ = self.acquire(view, "AcquireNotify")
        self.world.restart_daemon()
        wait(lambda: view.told("InterfacesRemoved", self.pink), 10, "the object to go")
        self.assertEqual(view.changes(self.pink, "Connected"), [True, False])
        with end:
            while self.receive(end):
                pass


class Containers(HandoverTest):
    def test_the_holder_of_a_socket(self):
        self.world.declare("dice", Executable=None, Socket="yes", SocketMode="666")
        path = self.world.app_sockets / DICE / "bus"
        wait(path.exists, 10, "the socket", also_every=0.02)
        holder = App(self.world, "stranger", SOMEBODY, path)
        holder.call(self.pink, DEVICE1, "Connect", to=BLUEZ)
        self.restart()
        self.assertTrue(holder.call(self.pink, "org.freedesktop.DBus.Properties", "Get", "ss", DEVICE1, "Connected", to=BLUEZ))
        self.restart(lambda: self.world.declare("dice"))
        self.wait_closed(holder)


class HomeAssistant(HandoverTest):
    """Its Bluetooth as it is, on the socket of a container, with two of three accessories."""

    scenario = scenario(*(accessory(name, number, gatt=GATT) for number, name in enumerate(("pink", "other", "third"), 1)))

    def test_it_goes_on_over_a_restart(self):
        self.add(self.app("dice"), self.picker(), "other", item("Other"))
        self.unlink(path_of(2))
        self.world.declare("dice", Executable=None, Socket="yes", SocketMode="666")
        path = self.world.app_sockets / DICE / "bus"
        wait(path.exists, 10, "the socket", also_every=0.02)
        shutil.copytree(PACKAGES, self.world.directory / "packages")
        home = Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", sys.executable, "-c",
            (TESTS / "Lab/apps/home_bluetooth.py").read_text(), 2, stdin=subprocess.PIPE, environment={
                "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={path}", "PYTHONPATH": str(self.world.directory / "packages"), "HOME": "/"})
        self.addCleanup(lambda: home.stop(signal.SIGKILL))
        both = [path_of(each)[-17:].replace("_", ":") for each in (1, 2)]
        self.assertEqual(home.wait_for("^found", 60), f"found {' '.join(both)}")
        for each in both:
            home.wait_for(f"^connected {each}", 60)
        self.restart()
        seen = len(home.lines)
        home.type("read")
        for each in both:
            home.wait_for(f"^read {each} 0[136]$", 60)
            wait(lambda: any(f"rolled {each}" in line for line in home.lines[seen:]), 60, "rolls")
        self.assertEqual([line for line in home.lines if line.startswith(("disconnected", "failed"))], [])
