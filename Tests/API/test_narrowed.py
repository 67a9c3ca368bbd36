# SPDX-License-Identifier: Apache-2.0
"""Grants with narrowed access: an app that may read and listen, or use the characteristics of a list, finds no other way
to its accessory, also while its grant is narrowed and its accessory's services change."""

import json
import select
import socket

import dbus

from harness import service_manager
from harness.names import ACCESSORY, GRANT, OBJECT_MANAGER, PINK, PROPERTIES, UNKNOWN_OBJECT, error
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import STANDSTILL, wait
from test_policy import PolicyTest, ctl
from view import ADAPTER, BLUEZ, CHARACTERISTIC1, DEVICE1, SERVICE1, View, path_of

NOT_PERMITTED = "org.bluez.Error.NotPermitted"
INVALID = error("InvalidRequest")
DESCRIPTOR1, BATTERY1 = "org.bluez.GattDescriptor1", "org.bluez.Battery1"
INTROSPECTABLE = "org.freedesktop.DBus.Introspectable"
ALL = ["read", "write", "write-without-response", "notify"]


def full(uuid):
    return f"0000{uuid.lower()}-0000-1000-8000-00805f9b34fb"


def characteristic(uuid, value, **more):
    return {"uuid": uuid, "flags": ALL, "value": value, "notify": {"interval": 0.05, "values": [value + "01", value + "02"]},
            "descriptors": [{"uuid": "2901", "value": "41"}], **more}


# Two services and two characteristics with the same UUIDs, beside others.
GATT = [
    {"uuid": PINK, "characteristics": [characteristic("FF3F", "A1"), characteristic("FF3F", "A2"), characteristic("FF40", "B1")]},
    {"uuid": PINK, "characteristics": [characteristic("FF3F", "A3")]},
    {"uuid": "180F", "characteristics": [characteristic("2A19", "32")]},
]


def entry(characteristic, *uses, service=PINK, instance=0):
    return dbus.Struct((service, characteristic, dbus.UInt32(instance), list(uses)), signature="ssuas")


def listed(*entries):
    return {"access": "listed", "characteristics": dbus.Array(entries, signature="(ssuas)")}


class NarrowedTest(PolicyTest):
    apps = ("dice", "board")
    scenario = scenario(accessory("pink", 1, gatt=GATT))
    access = {"access": "read"}

    def setUp(self):
        super().setUp()
        self.person = self.picker()
        self.dice = self.app()
        self.accessory = self.add(self.dice, self.person, "pink", item("Pink", **self.access))
        self.pink = path_of(1)
        self.world.admin.call(self.pink, DEVICE1, "Disconnect", to=BLUEZ)

    def view(self, app="dice"):
        view = View(self.world, app)
        view.listen_to_everything()
        return view

    def linked(self):
        """A client that holds the link, with its characteristics by UUID, in the order of handles."""
        view = self.view().connect(self.pink)
        wait(lambda: view.read_property(self.pink, DEVICE1, "ServicesResolved"), what="the services", also_every=0.02)
        return view

    def found(self, view, uuid="FF3F", interface=CHARACTERISTIC1):
        return sorted(path for path, each in view.tree().items()
                      if each.get(interface, {}).get("UUID") in (full(uuid), uuid.lower()))

    def ask(self, view, path, member, *arguments, interface=CHARACTERISTIC1):
        signature = {"ReadValue": "a{sv}", "WriteValue": "aya{sv}", "AcquireWrite": "a{sv}", "AcquireNotify": "a{sv}"}.get(member, "")
        options = () if not signature else (*arguments, sv({}))
        return view.bluez(path, interface, member, signature, *options)

    def acquire(self, view, path, member):
        descriptor, _ = self.ask(view, path, member)
        return socket.socket(fileno=descriptor.take())

    def receive(self, end):
        ready, _, _ = select.select([end], [], [], STANDSTILL * 10)
        self.assertTrue(ready, "nothing came")
        return end.recv(512)

    def assertEnds(self, end):
        """Nothing comes any more, after the packets that are there."""
        try:
            while self.receive(end):
                pass
        except ConnectionResetError:
            pass  # The other end has closed with packets that it has not read.

    def assertNoWrite(self, view, path):
        """No way to write to this characteristic works, and its value stays."""
        admin = self.world.admin
        for kind in ("command", "request", "reliable", None):
            options = sv({"type": kind} if kind else {})
            with self.subTest(type=kind):
                self.assertFails(
                    NOT_PERMITTED, view.bluez, path, CHARACTERISTIC1, "WriteValue", "aya{sv}", b"\xee", options, says=["write not permitted"])
        self.assertFails(NOT_PERMITTED, self.ask, view, path, "AcquireWrite", says=["write not permitted"])
        self.assertFails(
            NOT_PERMITTED, view.bluez, path, PROPERTIES, "Set", "ssv", CHARACTERISTIC1, "Value", dbus.Array([1], signature="y", variant_level=1))
        for descriptor in sorted(each for each in view.tree() if each.startswith(path + "/")):
            with self.subTest(descriptor):
                self.assertFails(NOT_PERMITTED, self.ask, view, descriptor, "WriteValue", b"\x01\x00", interface=DESCRIPTOR1)
        self.assertNotIn(0xee, bytes(admin.call(path, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}), to=BLUEZ)))

    def assertReads(self, view, path):
        value = bytes(self.ask(view, path, "ReadValue"))
        self.assertEqual(bytes(view.read_property(path, CHARACTERISTIC1, "Value")), value)
        self.assertIn("Value", view.bluez(path, PROPERTIES, "GetAll", "s", CHARACTERISTIC1))
        self.assertIn("Value", view.tree()[path][CHARACTERISTIC1])
        for descriptor in self.below(view, path):
            self.ask(view, descriptor, "ReadValue", interface=DESCRIPTOR1)

    def below(self, view, path):
        return sorted(each for each in view.tree() if each.startswith(path + "/"))

    def assertNoRead(self, view, path):
        self.world.admin.call(path, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}), to=BLUEZ)
        self.assertFails(NOT_PERMITTED, self.ask, view, path, "ReadValue", says=["read not permitted"])
        self.assertFails(NOT_PERMITTED, view.read_property, path, CHARACTERISTIC1, "Value", says=["read not permitted"])
        self.assertNotIn("Value", view.bluez(path, PROPERTIES, "GetAll", "s", CHARACTERISTIC1))
        self.assertNotIn("Value", view.tree()[path][CHARACTERISTIC1])
        for descriptor in self.below(view, path):
            self.world.admin.call(descriptor, DESCRIPTOR1, "ReadValue", "a{sv}", sv({}), to=BLUEZ)
            self.assertFails(NOT_PERMITTED, self.ask, view, descriptor, "ReadValue", interface=DESCRIPTOR1, says=["descriptors of"])
            self.assertFails(NOT_PERMITTED, view.read_property, descriptor, DESCRIPTOR1, "Value")
            self.assertNotIn("Value", view.tree()[descriptor][DESCRIPTOR1])

    def assertListens(self, view, path):
        self.ask(view, path, "StartNotify")
        wait(lambda: len(view.changes(path, "Value")) >= 2, what="notifications")
        self.ask(view, path, "StopNotify")
        with self.acquire(view, path, "AcquireNotify") as end:
            self.assertTrue(self.receive(end))
        wait(lambda: not view.read_property(path, CHARACTERISTIC1, "NotifyAcquired"), what="the descriptor to be closed", also_every=0.02)

    def assertNoListening(self, view, path):
        seen = len(view.changes(path, "Value"))
        self.assertFails(NOT_PERMITTED, self.ask, view, path, "StartNotify", says=["notify not permitted"])
        self.assertFails(NOT_PERMITTED, self.ask, view, path, "AcquireNotify", says=["notify not permitted"])
        # Another program subscribes: the app hears nothing.
        admin = self.world.admin
        admin.listen_to_everything()
        admin.call(path, CHARACTERISTIC1, "StartNotify", to=BLUEZ)
        wait(lambda: [each for each in admin.signals if each.path == path and "Value" in each.arguments[1]], what="a value")
        view.read_property(path, CHARACTERISTIC1, "UUID")
        view.drain()
        self.assertEqual(len(view.changes(path, "Value")), seen)
        admin.call(path, CHARACTERISTIC1, "StopNotify", to=BLUEZ)

    @property
    def grant(self):
        return next(path for path, each in self.world.grants().items() if each["App"] == "com.example.dice")

    def update(self, **descriptor):
        """The app asks for another descriptor, and the person agrees."""
        done = self.dice.told().count("pickerDidDismiss")
        self.dice.request(
            "UpdateAuthorization", "oa{sv}", dbus.ObjectPath(self.accessory),
            sv({"bluetoothServiceUUID": PINK, "supportedOptions": ["bluetoothPairingLE"], **descriptor}))
        self.person.wait_stage("offering")
        self.person.ask("Pick", "s", self.person.offers[0]["id"])
        self.dice.wait_event("pickerDidDismiss", count=done + 1)
        self.person.wait_gone()


class ReadOnly(NarrowedTest):
    def test_reading_and_listening_work_and_no_write(self):
        view = self.linked()
        for path in self.found(view) + self.found(view, "2A19"):
            self.assertReads(view, path)
            self.assertListens(view, path)
            self.assertNoWrite(view, path)

    def test_nothing_else_of_the_device_is_open(self):
        view = self.view()
        for interface, member, *arguments in (
                (DEVICE1, "ConnectProfile", "s", PINK), (DEVICE1, "DisconnectProfile", "s", PINK), (DEVICE1, "CancelPairing"),
                (PROPERTIES, "Set", "ssv", DEVICE1, "Trusted", True), (PROPERTIES, "Set", "ssv", DEVICE1, "Alias", "mine"),
                (PROPERTIES, "Set", "ssv", "org.bluez.Input1", "ReconnectMode", "none")):
            with self.subTest(member, arguments=arguments):
                self.assertFails(NOT_PERMITTED, view.bluez, self.pink, interface, member, *arguments)
        for interface in ("org.bluez.Input1", "org.bluez.Network1", "org.bluez.MediaControl1", "org.bluez.Unheard1"):
            with self.subTest(interface):
                self.assertFails("org.freedesktop.DBus.Error.UnknownMethod", view.bluez, self.pink, interface, "Connect")
        # Paired already: nothing happens, as for every app.
        self.assertFails("org.bluez.Error.AlreadyExists", view.bluez, self.pink, DEVICE1, "Pair")

    def test_a_write_is_refused_without_the_link_too(self):
        view = self.linked()
        path = self.found(view)[0]
        view.disconnect(self.pink)
        # The services go with the link, sooner or later.
        for member, arguments, name in (("WriteValue", [b"\x01"], NOT_PERMITTED), ("ReadValue", [], "org.bluez.Error.Failed")):
            with self.assertRaises(dbus.DBusException) as caught:
                self.ask(view, path, member, *arguments)
            self.assertIn(caught.exception.get_dbus_name(), (name, UNKNOWN_OBJECT))

    def test_a_notifying_socket_takes_no_packets(self):
        view = self.linked()
        path = self.found(view)[0]
        with self.acquire(view, path, "AcquireNotify") as end:
            self.receive(end)
            end.send(b"\xee")
            self.assertEnds(end)
        self.assertReads(view, path)

    def test_refusals_are_in_the_trail_once_a_minute(self):
        view = self.linked()
        path = self.found(view)[0]
        for _ in range(3):
            self.assertFails(NOT_PERMITTED, self.ask, view, path, "WriteValue", b"\x01")
        lines = [each for each in self.audit() if each["event"] == "refused"]
        self.assertEqual(len(lines), 1)
        self.assertEqual((lines[0]["app"], lines[0]["accessory"] != ""), ("com.example.dice", True))
        self.assertIn("may not write", lines[0]["why"])
        for _ in range(61):
            self.world.pass_second()
        self.assertFails(NOT_PERMITTED, self.ask, view, path, "WriteValue", b"\x01")
        self.assertEqual(len([each for each in self.audit() if each["event"] == "refused"]), 2)

    def test_where_it_is_shown(self):
        grant = self.world.grants()[self.grant]
        self.assertEqual((grant["Access"], list(grant["Characteristics"]), grant["Descriptor"]["access"]), ("read", [], "read"))
        self.assertEqual(self.dice.get(self.accessory, ACCESSORY, "Descriptor")["access"], "read")
        self.assertIn("picked, access read", [each["why"] for each in self.audit() if each["event"] == "granted"])
        bus = ("--bus", self.world.bus.address)
        self.assertIn("read", ctl("grants", *bus)[1][1].split())
        self.assertIn("  access read: the app can read and receive data, not write", "\n".join(ctl("show", "Pink", *bus)[1]))
        self.assertIn("access      read", "\n".join(ctl("policy", "explain", "com.example.dice", "Pink", *bus)[1]))
        [shown] = json.loads("\n".join(ctl("grants", "--json", *bus)[1]))
        self.assertEqual((shown["access"], shown["characteristics"]), ("read", []))

    def test_the_sheet_says_so(self):
        self.world.admin.call(self.grant, GRANT, "Revoke")
        self.dice.show_picker(item("Pink", **self.access))
        self.person.wait_stage("offering")
        self.assertEqual(self.person.offers[0]["access"], "read")
        self.assertNotIn("characteristics", self.person.offers[0])
        self.person.cancel()

    def test_another_apps_grant_is_its_own(self):
        board = self.app("board")
        self.add(board, self.person, "pink", item("Pink"))
        other, view = self.view("board").connect(self.pink), self.linked()
        path = self.found(view)[0]
        self.ask(other, path, "WriteValue", b"\x77")
        self.assertEqual(bytes(self.ask(view, path, "ReadValue")), b"\x77")
        self.assertFails(NOT_PERMITTED, self.ask, view, path, "WriteValue", b"\x78")

    def test_it_outlives_a_restart(self):
        self.world.restart_daemon()
        view = self.linked()
        self.assertNoWrite(view, self.found(view)[0])
        self.assertEqual(self.world.grants()[self.grant]["Access"], "read")


class Listed(NarrowedTest):
    access = listed(
        entry("FF3F", "read", "listen", instance=2), entry("FF3F", "write", instance=3), entry("FF40", "listen"))

    def test_each_instance_has_its_uses(self):
        view = self.linked()
        first, second, third = self.found(view)
        for path in (first, third):
            self.assertNoRead(view, path)
            self.assertNoListening(view, path)
        for path in (first, second):
            self.assertNoWrite(view, path)
        self.assertReads(view, second)
        self.assertListens(view, second)
        self.ask(view, third, "WriteValue", b"\x55")
        with self.acquire(view, third, "AcquireWrite") as end:
            end.send(b"\x66")
            wait(lambda: bytes(self.world.admin.call(third, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}), to=BLUEZ)) == b"\x66",
                 what="the value", also_every=0.02)

    def test_listening_alone_reads_nothing(self):
        view = self.linked()
        [path] = self.found(view, "FF40")
        self.assertNoRead(view, path)
        self.assertListens(view, path)
        self.assertNoRead(view, path)

    def test_other_characteristics_are_seen_and_not_used(self):
        view = self.linked()
        [battery] = self.found(view, "2A19")
        self.assertEqual(sorted(view.tree()[battery][CHARACTERISTIC1]["Flags"]), sorted(ALL))
        self.assertNoRead(view, battery)
        self.assertNoListening(view, battery)
        self.assertNoWrite(view, battery)
        self.assertFails(NOT_PERMITTED, self.ask, view, battery, "WriteValue", b"\x01", says=["180F/2A19#1", "listed"])
        self.assertFails(NOT_PERMITTED, self.ask, view, self.pink + "/service9999/char9999", "ReadValue", says=["not known"])

    def test_the_subscription_is_no_descriptor_to_write(self):
        view = self.linked()
        third = self.found(view)[2]
        for descriptor in self.below(view, third):
            uuid = str(view.tree()[descriptor][DESCRIPTOR1]["UUID"])
            with self.subTest(uuid):
                if uuid == full("2902"):
                    self.assertFails(NOT_PERMITTED, self.ask, view, descriptor, "WriteValue", b"\x01\x00", interface=DESCRIPTOR1)

    def test_the_list_goes_by_uuids_when_services_change(self):
        view = self.linked()
        before = self.found(view)
        with self.acquire(view, before[1], "AcquireNotify") as end:
            self.receive(end)
            self.simulator.do("servicesChanged", "pink")
            while self.receive(end):
                pass
        wait(lambda: len(self.found(view)) == 3 and self.found(view) != before, what="other handles", also_every=0.05)
        # The second service is the first one now.
        first, second, third = self.found(view)
        self.assertReads(view, second)
        self.assertNoRead(view, first)
        [battery] = self.found(view, "2A19")
        self.assertNoRead(view, battery)
        self.assertNoListening(view, battery)
        self.ask(view, third, "WriteValue", b"\x55")
        self.assertNoWrite(view, second)
        # Another characteristic's path by now.
        self.assertEqual(battery.rsplit("/", 1)[1], before[0].rsplit("/", 1)[1])

    def test_where_it_is_shown(self):
        texts = [f"{PINK}/FF3F#2:read+listen", f"{PINK}/FF3F#3:write", f"{PINK}/FF40:listen"]
        grant = self.world.grants()[self.grant]
        self.assertEqual((grant["Access"], list(grant["Characteristics"])), ("listed", texts))
        self.assertEqual(
            [(str(each[0]), int(each[2]), list(each[3])) for each in grant["Descriptor"]["characteristics"]],
            [(PINK.lower(), 2, ["read", "listen"]), (PINK.lower(), 3, ["write"]), (PINK.lower(), 0, ["listen"])])
        self.assertIn(
            f"picked, access listed ({'; '.join(texts)})", [each["why"] for each in self.audit() if each["event"] == "granted"])
        self.assertIn(f"  access listed: {', '.join(texts)}", ctl("show", "Pink", "--bus", self.world.bus.address)[1])
        self.world.admin.call(self.grant, GRANT, "Revoke")
        self.dice.show_picker(item("Pink", **self.access))
        self.person.wait_stage("offering")
        self.assertEqual(
            (self.person.offers[0]["access"], list(self.person.offers[0]["characteristics"])), ("listed", texts))
        self.person.cancel()

    def test_it_outlives_a_restart(self):
        before = self.world.grants()[self.grant]["Descriptor"]
        self.world.restart_daemon()
        self.assertEqual(self.world.grants()[self.grant]["Descriptor"], before)
        view = self.linked()
        first, second, _ = self.found(view)
        self.assertReads(view, second)
        self.assertNoRead(view, first)


class Narrowing(NarrowedTest):
    """A grant that opens less from now on, while its app has sockets and subscriptions."""

    access = {}

    def test_sockets_and_subscriptions_end_that_are_not_permitted_any_more(self):
        view = self.linked()
        first, second, third = self.found(view)
        write, notify = self.acquire(view, first, "AcquireWrite"), self.acquire(view, second, "AcquireNotify")
        with write, notify:
            self.ask(view, third, "StartNotify")
            self.receive(notify)
            self.update(access="read")
            self.assertRaises(BrokenPipeError, write.send, b"\xee")
            # Listening goes on.
            self.assertTrue(self.receive(notify))
            self.assertNoWrite(view, first)
            self.update(**listed(entry("FF3F", "read", instance=1)))
            while self.receive(notify):
                pass
            wait(lambda: not self.world.admin.call(third, PROPERTIES, "Get", "ss", CHARACTERISTIC1, "Notifying", to=BLUEZ),
                 what="notifications to be stopped", also_every=0.02)
            view.drain()
            seen = len(view.changes(third, "Value"))
            self.assertNoListening(view, third)
            self.assertEqual(len(view.changes(third, "Value")), seen)
            self.assertReads(view, first)
        self.assertIn(
            "another descriptor, access read", [each["why"] for each in self.audit() if each["event"] == "updated"])

    def test_calls_on_their_way_are_judged_when_they_are_answered(self):
        view = self.linked()
        path = self.found(view)[0]
        self.dice.request(
            "UpdateAuthorization", "oa{sv}", dbus.ObjectPath(self.accessory),
            sv({"bluetoothServiceUUID": PINK, "supportedOptions": ["bluetoothPairingLE"], "access": "read"}))
        self.person.wait_stage("offering")
        self.simulator.pause()
        self.addCleanup(self.simulator.resume)
        answers = []
        view.call_later(path, CHARACTERISTIC1, "AcquireWrite", lambda *result: answers.append(result), "a{sv}", sv({}), to=BLUEZ)
        view.driver("GetId")
        self.person.ask("Pick", "s", self.person.offers[0]["id"])
        self.dice.wait_event("accessoryChanged")
        self.simulator.resume()
        wait(lambda: answers, what="an answer")
        self.assertIsInstance(answers[0][0], dbus.DBusException)
        self.assertEqual(answers[0][0].get_dbus_name(), NOT_PERMITTED)

    def test_nothing_is_wider_before_the_person_agrees(self):
        self.update(access="read")
        view = self.linked()
        path = self.found(view)[0]
        self.dice.request(
            "UpdateAuthorization", "oa{sv}", dbus.ObjectPath(self.accessory),
            sv({"bluetoothServiceUUID": PINK, "supportedOptions": ["bluetoothPairingLE"]}))
        self.person.wait_stage("offering")
        self.assertEqual(self.person.offers[0]["access"], "full")
        self.assertNoWrite(view, path)
        self.person.cancel()
        self.dice.wait_event("pickerDidDismiss", count=3)
        self.assertNoWrite(view, path)
        self.assertEqual(self.world.grants()[self.grant]["Access"], "read")

    def test_no_rule_widens_it(self):
        """A rule approves the app's accessories: for an update a person is asked all the same."""
        self.update(access="read")
        self.write("[Approve the die]\nApp=com.example.dice\nBluetoothServiceUUID=" + PINK + "\n")
        self.person.unregister()
        self.assertFails(
            error("PickerRestricted"), self.dice.request, "UpdateAuthorization", "oa{sv}", dbus.ObjectPath(self.accessory),
            sv({"bluetoothServiceUUID": PINK, "supportedOptions": ["bluetoothPairingLE"]}))
        self.assertEqual(self.world.grants()[self.grant]["Access"], "read")


class OverAnUpgrade(service_manager.Kept, NarrowedTest):
    """The next daemon takes over sockets and subscriptions, and the access of the grant with them."""

    access = listed(entry("FF3F", "listen", instance=2), entry("FF3F", "write", instance=3))

    def test_sockets_go_on_and_open_no_more_than_before(self):
        view = self.linked()
        first, second, third = self.found(view)
        with self.acquire(view, second, "AcquireNotify") as notify, self.acquire(view, third, "AcquireWrite") as write:
            self.receive(notify)
            self.restart()
            self.assertTrue(self.receive(notify))
            write.send(b"\x66")
            wait(lambda: bytes(self.world.admin.call(third, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}), to=BLUEZ)) == b"\x66",
                 what="the value", also_every=0.02)
            self.assertNoWrite(view, second)
            self.assertNoRead(view, third)
            self.assertNoListening(view, first)
            notify.send(b"\xee")
            self.assertEnds(notify)


class Refusals(PolicyTest):
    scenario = scenario(accessory("pink", 1, gatt=GATT))

    def test_wrong_descriptors(self):
        dice, _ = self.app(), self.picker()
        many = listed(*(entry("FF3F", "read", instance=each) for each in range(65)))
        for says, more in (
                (["access", "hear", "full", "read", "listed", "write"], {"access": "write"}),
                (["access", "listed", "needs characteristics"], {"access": "listed"}),
                (["characteristics", "FF3F", "needs access listed"], {**listed(entry("FF3F", "read")), "access": "read"}),
                (["characteristics", "needs access listed"], {"characteristics": listed(entry("FF3F", "read"))["characteristics"]}),
                (["characteristics", "nonsense"], listed(entry("nonsense", "read"))),
                (["characteristics", "execute"], listed(entry("FF3F", "execute"))),
                (["characteristics", "FF3F", "no uses"], {
                    "access": "listed", "characteristics": dbus.Array(
                        [dbus.Struct((PINK, "FF3F", dbus.UInt32(0), dbus.Array([], signature="s")), signature="ssuas")],
                        signature="(ssuas)")}),
                (["characteristics", "70000"], listed(entry("FF3F", "read", instance=70000))),
                (["characteristics", "65 entries"], many),
                (["characteristics", "a(ssuas)"], {"access": "listed", "characteristics": ["FF3F"]}),
                (["access", "read", "ssid"], {"access": "read", "ssid": b"Dice"}),
                (["access", "read", "bluetoothHID"], {"access": "read", "supportedOptions": ["bluetoothHID"]}),
                (["access", "read", "bluetoothTransportBridging"],
                 {"access": "read", "supportedOptions": ["bluetoothTransportBridging"]}),
                (["maxDevices", "needs access hear"], {"access": "read", "maxDevices": dbus.UInt32(2)})):
            with self.subTest(says):
                self.assertFails(INVALID, dice.request, "ShowPicker", "aa{sv}a{sv}", [sv(item("Pink", pairs=False, **more))], sv({}), says=says)
