# SPDX-License-Identifier: Apache-2.0
"""Output that was requested by right, and would leave when the right has ended: to another program on an app's connection, and to an app that does not hold
the link. Each path is tried; and every message that reaches the client is checked, so that an unlisted path shows, too."""

import contextlib
import re
import select
import socket

import dbus.lowlevel

from attack import Attack
from harness.names import ACCESSORY, INVALID_ARGS, MANAGER, OBJECT_MANAGER, PINK, PROPERTIES, ROOT, SESSION, SOMEBODY_ELSE
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import STANDSTILL, wait
from tapped import Tapped
from view import ADAPTER, ADAPTER1, BLUEZ, CHARACTERISTIC1, DEVICE1, View

DESCRIPTOR1 = "org.bluez.GattDescriptor1"
# It occurs nowhere else.
MARK = "FACEB00CFACEB00C"
GATT = [{"uuid": PINK, "characteristics": [
    {"uuid": "FF3F", "flags": ["read", "write", "write-without-response", "notify"], "value": MARK,
     "notify": {"interval": 0.05, "values": [MARK, MARK + "01"]}, "descriptors": [{"uuid": "2901", "value": MARK}]}]}]


class Leaving(Attack):
    scenario = scenario(accessory("pink", 1, gatt=GATT), accessory("other", 2, gatt=GATT))

    def setUp(self):
        super().setUp()
        self.witness = self.view().connect(self.pink)
        self.characteristic = self.witness.characteristic(self.pink)

    def read(self, view, member="ReadValue"):
        return view.bluez(self.characteristic, CHARACTERISTIC1, member, "a{sv}", sv({}))

    def acquire(self, view, member):
        descriptor, _ = self.read(view, member)
        end = socket.socket(fileno=descriptor.take())
        self.addCleanup(end.close)
        return end

    def receive(self, end):
        ready, _, _ = select.select([end], [], [], STANDSTILL * 10)
        self.assertTrue(ready, "nothing came")
        # A packet that was never read resets the connection.
        with contextlib.suppress(ConnectionResetError):
            return end.recv(512)
        return b""


class AnotherProgram(Leaving):
    """Output is on its way to an app that is identified by its executable, when it executes another program."""

    def values(self, view):
        view.bluez(self.characteristic, CHARACTERISTIC1, "StartNotify")
        self.witness.bluez(self.characteristic, CHARACTERISTIC1, "StartNotify")

        def happen():
            count = len(self.witness.changes(self.characteristic, "Value"))
            wait(lambda: len(self.witness.changes(self.characteristic, "Value")) > count + 2, what="values")
        return happen

    def told(self, path, name, value, happen):
        def change():
            happen()
            self.witness.wait_change(path, name, value)
        return change

    def set(self, path, interface, name, value):
        return lambda: self.world.admin.call(path, PROPERTIES, "Set", "ssv", interface, name, value, to=BLUEZ)

    def device(self, view):
        name = f"device {view.name}"
        return self.told(self.pink, "Alias", name, self.set(self.pink, DEVICE1, "Alias", name))

    def adapter(self, view):
        name = f"adapter {view.name}"
        return self.told(ADAPTER, "Alias", name, self.set(ADAPTER, ADAPTER1, "Alias", name))

    def end_of_the_link(self, view):
        return self.told(self.pink, "Connected", False, lambda: self.unlink(self.pink))

    def peripherals(self, view):
        view.call("/org/accessorysetup1/view", PROPERTIES, "GetAll", "s", "org.accessorysetup1.View")
        self.witness.call("/org/accessorysetup1/view", PROPERTIES, "GetAll", "s", "org.accessorysetup1.View")
        return lambda: self.rename(f"peripheral {view.name}")

    def rename(self, name, app=None):
        app = app or self.dice
        app.request("RenameAccessory", "oa{sv}", self.accessory, sv({}))
        self.person.wait_stage("renaming")
        self.person.ask("Rename", "s", name)
        wait(lambda: app.get(self.accessory, ACCESSORY, "DisplayName") == name, what="the name", also_every=0.02)

    def session(self, view):
        path = view.call(ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))
        view.call(path, SESSION, "Activate")
        return path

    def event(self, view):
        self.session(view)
        return lambda: self.rename(f"event {view.name}")

    def answer(self, *call):
        """An answer that bluetoothd gives later."""
        def begin(view):
            self.simulator.pause()
            self.addCleanup(self.simulator.resume)
            ear = self.hear("type='method_call',destination='org.bluez'")
            answers = []
            view.call_later(*call[:3], lambda *answer: answers.append(answer), *call[3:], to=BLUEZ)
            ear.wait_for(f"member={call[2]}")

            def happen():
                self.simulator.resume()
                wait(lambda: answers, what="an answer")
            return happen
        return begin

    def answer_of_a_session(self, view):
        path, answers = self.session(view), []
        self.person.unregister()
        view.call_later(path, SESSION, "ShowPicker", lambda *answer: answers.append(answer), "aa{sv}a{sv}",
                        [sv(item("Other"))], sv({"waitForPicker": 60.0}))
        view.settle()

        def happen():
            self.person.register()
            wait(lambda: answers, what="an answer")
        return happen

    @property
    def ways(self):
        characteristic = self.characteristic
        return {
            "values": self.values, "a device": self.device, "an adapter": self.adapter,
            "a list of accessories": self.peripherals, "events": self.event, "an answer of a session": self.answer_of_a_session,
            "a value": self.answer(characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({})),
            "a property": self.answer(characteristic, PROPERTIES, "Get", "ss", CHARACTERISTIC1, "Value"),
            "properties": self.answer(characteristic, PROPERTIES, "GetAll", "s", CHARACTERISTIC1),
            "all objects": self.answer("/", OBJECT_MANAGER, "GetManagedObjects"),
            "a description": self.answer(characteristic, "org.freedesktop.DBus.Introspectable", "Introspect"),
            "a descriptor": self.answer(characteristic, CHARACTERISTIC1, "AcquireWrite", "a{sv}", sv({})),
            "the end of the link": self.end_of_the_link,
        }

    def test_nothing_leaves_to_it(self):
        """Each path is open to the app, and closed to the program that it has become."""
        for name, begin in self.ways.items():
            for changes in (False, True):
                with self.subTest(name, changes=changes):
                    self.witness.connect(self.pink)
                    view = Tapped(self.world).connect(self.pink)
                    view.tree()
                    happen = begin(view)
                    view.news()
                    if changes:
                        view.become_another_program()
                        # The output until then: the witness's notifications go on, and each app with a link gets them.
                        view.news()
                    happen()
                    self.witness.drain()
                    if changes:
                        self.assertEqual(view.news(), [])
                    else:
                        self.assertNotEqual(view.news(), [])
                    view.close()

    def test_events_on_the_bus(self):
        self.rename("before")
        self.person.wait_gone()
        self.assertIn("accessoryChanged", self.dice.told())
        self.dice.become_another_program()
        seen = len(self.dice.signals)
        other = self.app("dice")
        self.rename("after", other)
        other.wait_event("accessoryChanged")
        self.dice.drain()
        self.assertEqual(self.dice.signals[seen:], [])

    def test_descriptors_end(self):
        """A descriptor that the app holds: no packet reaches the other program, and none reaches the accessory."""
        view = self.view().connect(self.pink)
        notify, write = self.acquire(view, "AcquireNotify"), self.acquire(view, "AcquireWrite")
        self.receive(notify)
        view.become_another_program()
        with contextlib.suppress(BrokenPipeError):
            write.send(b"\x11\x22")
        while self.receive(notify):
            pass
        while self.receive(write):
            pass
        self.assertEqual(bytes(self.read(self.witness)).hex().upper()[:len(MARK)], MARK)

    def test_it_is_known_without_a_call(self):
        """The trail says so, once."""
        view = Tapped(self.world).connect(self.pink)
        self.values(view)
        view.become_another_program()
        self.world.daemon.wait_for("client of the view refused.*reconnect")
        self.witness.driver("GetId")
        self.assertEqual(sum("client of the view refused" in line for line in self.world.daemon.lines), 1)


class WithoutTheLink(Leaving):
    """Board has the accessory as well, and does not hold its link; dice does, reads and is notified."""

    def setUp(self):
        super().setUp()
        self.share()
        self.witness.connect(self.pink)
        self.observer = Tapped(self.world, "board", SOMEBODY_ELSE)
        self.witness.bluez(self.characteristic, CHARACTERISTIC1, "StartNotify")
        self.descriptor = next(path for path, interfaces in self.witness.tree().items() if DESCRIPTOR1 in interfaces and "FACE" in str(
            bytes(self.witness.bluez(path, DESCRIPTOR1, "ReadValue", "a{sv}", sv({}))).hex().upper()))
        wait(lambda: self.witness.changes(self.characteristic, "Value"), what="a value")

    def carries(self):
        """How often the accessory's values have reached the observer."""
        self.observer.driver("GetId")
        return self.observer.tap.received.count(bytes.fromhex(MARK))

    def everything(self, view):
        """Asks for all that objects and their descriptions name, with arguments that fit."""
        arguments = {"a{sv}": (sv({}),), "": (), "s": (CHARACTERISTIC1,), "ss": (CHARACTERISTIC1, "Value"), "aya{sv}": None}
        asked = []
        for path, interfaces in view.tree().items():
            described = str(view.bluez(path, "org.freedesktop.DBus.Introspectable", "Introspect"))
            for interface, body in re.findall(r'<interface name="([\w.]+)">(.*?)</interface>', described, re.S):
                for member, parts in re.findall(r'<method name="(\w+)"(?:/>|>(.*?)</method>)', body, re.S):
                    signature = "".join(re.findall(r'<arg (?=[^>]*direction="in")[^>]*type="([^"]+)"', parts))
                    if path.startswith(self.pink + "/") and arguments.get(signature) is not None:
                        asked.append((path, interface, member, signature, *arguments[signature]))
                for name in re.findall(r'<property name="(\w+)"', body):
                    asked.append((path, PROPERTIES, "Get", "ss", interface, name))
            asked += [(path, PROPERTIES, "GetAll", "s", interface) for interface in interfaces]
        return asked

    def test_no_value_leaves(self):
        """Requests of every kind, and signals."""
        before = self.carries()
        asked = self.everything(self.observer)
        self.assertIn((self.characteristic, PROPERTIES, "Get", "ss", CHARACTERISTIC1, "Value"), asked)
        self.assertIn((self.descriptor, PROPERTIES, "GetAll", "s", DESCRIPTOR1), asked)
        self.assertIn((self.characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({})), asked)
        for each in asked:
            with contextlib.suppress(Exception):
                self.observer.bluez(*each)
        count = len(self.witness.changes(self.characteristic, "Value"))
        wait(lambda: len(self.witness.changes(self.characteristic, "Value")) > count + 2, what="values")
        self.assertEqual((before, self.carries()), (0, 0))
        # All of this carries it to who holds the link.
        self.observer.connect(self.pink)
        for path, interface in ((self.characteristic, CHARACTERISTIC1), (self.descriptor, DESCRIPTOR1)):
            before = self.carries()
            self.observer.read_property(path, interface, "Value")
            self.observer.bluez(path, PROPERTIES, "GetAll", "s", interface)
            self.assertGreaterEqual(self.carries(), before + 2)
        before = self.carries()
        self.observer.tree()
        self.assertGreaterEqual(self.carries(), before + 2)

    def test_as_from_bluetoothd_before_a_value_was_read(self):
        for path, interface in ((self.characteristic, CHARACTERISTIC1), (self.descriptor, DESCRIPTOR1)):
            self.assertFails(INVALID_ARGS, self.observer.read_property, path, interface, "Value", says=["No such property 'Value'"])
            self.assertNotIn("Value", self.observer.bluez(path, PROPERTIES, "GetAll", "s", interface))
            self.assertNotIn("Value", self.observer.tree()[path][interface])
            self.assertIn("UUID", self.observer.tree()[path][interface])

    def stop(self):
        """No client is notified: bluetoothd hands out no descriptor otherwise."""
        self.witness.bluez(self.characteristic, CHARACTERISTIC1, "StopNotify")

    def late(self, path, interface, member, signature, *arguments):
        """The answers to an app that has released the link before bluetoothd has answered; dice still holds it."""
        self.observer.connect(self.pink)
        before, answers = self.carries(), []
        self.simulator.pause()
        self.addCleanup(self.simulator.resume)
        ear = self.hear("type='method_call',destination='org.bluez'")
        self.observer.call_later(path, interface, member, lambda *answer: answers.append(answer), signature, *arguments, to=BLUEZ)
        ear.wait_for(f"member={member}")
        self.observer.disconnect(self.pink)
        self.simulator.resume()
        wait(lambda: answers, what="an answer")
        self.assertEqual(self.carries(), before)
        return answers[0][0], ear

    def test_late_answers(self):
        self.stop()
        for member in ("ReadValue", "AcquireWrite", "AcquireNotify"):
            with self.subTest(member):
                answer, _ = self.late(self.characteristic, CHARACTERISTIC1, member, "a{sv}", sv({}))
                self.assertEqual(str(answer), "org.bluez.Error.Failed: Not connected")
        answer, _ = self.late(self.characteristic, PROPERTIES, "Get", "ss", CHARACTERISTIC1, "Value")
        self.assertIn("No such property", str(answer))
        answer, _ = self.late(self.characteristic, PROPERTIES, "GetAll", "s", CHARACTERISTIC1)
        self.assertNotIn("Value", answer)

    def test_a_late_descriptor_is_given_back(self):
        self.stop()
        for member, property in (("AcquireWrite", "WriteAcquired"), ("AcquireNotify", "NotifyAcquired")):
            self.late(self.characteristic, CHARACTERISTIC1, member, "a{sv}", sv({}))
            wait(lambda: not self.witness.read_property(self.characteristic, CHARACTERISTIC1, property), what="the end", also_every=0.05)

    def test_a_late_notification_is_stopped(self):
        answer, ear = self.late(self.characteristic, CHARACTERISTIC1, "StartNotify", "")
        self.assertEqual(str(answer), "org.bluez.Error.Failed: Not connected")
        ear.wait_for("member=StopNotify")

    def test_descriptors_end_with_the_share(self):
        """Before the answer to `Disconnect`."""
        self.observer.connect(self.pink)
        write = self.acquire(self.observer, "AcquireWrite")
        self.simulator.pause()
        self.addCleanup(self.simulator.resume)
        self.observer.disconnect(self.pink)
        with contextlib.suppress(BrokenPipeError):
            write.send(b"\x11\x22")
        self.assertEqual(self.receive(write), b"")
        self.simulator.resume()
        self.assertEqual(bytes(self.read(self.witness)).hex().upper()[:len(MARK)], MARK)


class Disconnecting(Leaving):
    """A client closes its connection while calls are on their way, or wait for their turn: nothing is begun for it afterwards."""

    def test_it_keeps_no_place(self):
        calls = (("/", OBJECT_MANAGER, "GetManagedObjects"), (self.characteristic, CHARACTERISTIC1, "ReadValue", sv({})),
                 (self.pink, DEVICE1, "Connect"), (self.pink, PROPERTIES, "GetAll", DEVICE1), (ADAPTER, ADAPTER1, "StartDiscovery"))
        for _ in range(10):
            for path, interface, member, *arguments in calls:
                view = View(self.world)
                message = dbus.lowlevel.MethodCallMessage(BLUEZ, path, interface, member)
                message.append(*arguments, signature="a{sv}" if arguments and isinstance(arguments[0], dbus.Dictionary) else "s" * len(arguments))
                view.connection.send_message(message)
                view.close()
                # The next client's call stands behind it.
                view = View(self.world)
                self.assertIn(self.pink, view.tree())
                view.close()
        self.assertEqual(bytes(self.read(self.witness)).hex().upper()[:len(MARK)], MARK)
        self.witness.disconnect(self.pink)
        wait(lambda: self.linked() == [], 20, "the link to end with its last holder", also_every=0.1)
        wait(lambda: not self.simulator.discovering, 20, "the search to end", also_every=0.1)
