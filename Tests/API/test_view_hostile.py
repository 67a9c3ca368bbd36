# SPDX-License-Identifier: Apache-2.0
"""Clients of the view that do not keep to the rules: each is refused, cut off or kept small, and a well-behaved one beside it notices
nothing."""

import contextlib
import random
import select
import socket
import struct
import unittest

import dbus
import dbus.lowlevel

from harness.clients import Client
from harness.names import BUS_ERROR, MANAGER, NAME, OBJECT_MANAGER, PROPERTIES, ROOT
from harness.values import sv
from harness.waiting import STANDSTILL, wait
from view import ACCESS_DENIED, ADAPTER, BLUEZ, CHARACTERISTIC1, DEVICE1, DRIVER, LIMITS_EXCEEDED, View, ViewTest


class Raw:
    """A socket, and the bytes of D-Bus on it; as root, who is no app."""

    def __init__(self, world):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(world.view))
        self.serial = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        data = b""
        while not data.endswith(b"\r\n"):
            byte = self.receive(1)
            if not byte:
                break
            data += byte
        return data

    def receive(self, count, seconds=10):
        ready, _, _ = select.select([self.socket], [], [], STANDSTILL * seconds)
        if not ready:
            raise AssertionError(f"nothing came within {STANDSTILL * seconds} s")
        try:
            return self.socket.recv(count)
        except ConnectionResetError:
            return b""

    def authenticate(self):
        self.send(b"\0AUTH EXTERNAL 30\r\n")
        assert self.line().startswith(b"OK "), "not authenticated"
        self.send(b"BEGIN\r\n")
        return self

    def hello(self):
        self.authenticate()
        self.send(self.call("Hello"))
        return self

    def call(self, member, path="/org/freedesktop/DBus", interface=DRIVER, destination=DRIVER, body=b"", signature=None, flags=0, more=()):
        self.serial += 1
        fields = [(1, "o", path), (2, "s", interface), (3, "s", member), (6, "s", destination), *more]
        if signature:
            fields.append((8, "g", signature))
        packed = b""
        for code, kind, value in fields:
            packed += b"\0" * (-len(packed) % 8) + bytes([code, 1]) + kind.encode() + b"\0"
            data = value.encode()
            packed += (bytes([len(data)]) if kind == "g" else b"\0" * (-len(packed) % 4) + struct.pack("<I", len(data))) + data + b"\0"
        header = struct.pack("<cBBBIII", b"l", 1, flags, 1, len(body), self.serial, len(packed)) + packed
        return header + b"\0" * (-len(header) % 8) + body

    def wait_closed(self, seconds=10):
        """Reads on until the other side has closed."""
        while self.receive(1 << 16, seconds):
            pass


def text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


class Hostile(ViewTest):
    def setUp(self):
        super().setUp()
        self.good = self.view().connect(self.pink)
        self.characteristic = self.good.characteristic(self.pink)

    def assertUndisturbed(self):
        """The app beside still reads, and the daemon still serves the bus."""
        self.assertEqual(bytes(self.good.bluez(self.characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}))), b"\x01")
        self.assertTrue(self.world.manager("PickerAvailable"))

    def test_broken_authentication(self):
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\0AUTH ANONYMOUS\r\n", b"\0AUTH DBUS_COOKIE_SHA1 30\r\n", b"\0AUTH EXTERNAL 31303030\r\n",
                     b"\0AUTH EXTERNAL zz\r\n", b"\0BEGIN\r\n", b"\0" + b"A" * 100_000, b"\0AUTH EXTERNAL 30\r\n" + b"x" * 70_000,
                     b"\0NEGOTIATE_UNIX_FD\r\nBEGIN\r\n"):
            with self.subTest(sent=sent[:40]), Raw(self.world) as raw:
                try:
                    raw.send(sent)
                    answer = raw.receive(1 << 16)
                    self.assertFalse(answer.startswith(b"OK") and b"30" not in sent)
                except (BrokenPipeError, ConnectionResetError):
                    pass
        self.assertUndisturbed()

    def test_who_says_nothing_is_sent_away(self):
        with Raw(self.world) as silent, Raw(self.world) as rude:
            rude.authenticate()
            silent.wait_closed()
            rude.wait_closed()
        self.assertUndisturbed()

    def test_the_first_message_is_hello(self):
        with Raw(self.world) as raw:
            raw.authenticate()
            raw.send(raw.call("ListNames"))
            raw.wait_closed()
        self.assertUndisturbed()

    def test_malformed_messages_end_the_connection(self):
        good = Raw(self.world)
        hello = good.call("Hello")
        with good:
            for name, bad in {
                    "a huge body": hello[:4] + struct.pack("<I", 1 << 30) + hello[8:],
                    "a body over the limit": hello[:4] + struct.pack("<I", 5 << 20) + hello[8:],
                    "a huge header": hello[:12] + struct.pack("<I", 1 << 26) + hello[16:],
                    "an unknown byte order": b"x" + hello[1:],
                    "another protocol": hello[:3] + b"\x09" + hello[4:],
                    "no serial": hello[:8] + b"\0\0\0\0" + hello[12:],
                    "bad UTF-8": hello.replace(b"Hello", b"Hel\xffo"),
                    "a bad path": hello.replace(b"/org/freedesktop/DBus", b"/org//reedesktop/DBus")}.items():
                with self.subTest(name), Raw(self.world) as raw:
                    raw.hello()
                    raw.send(bad)
                    raw.wait_closed()
        self.assertUndisturbed()

    def test_mutated_messages(self):
        generator = random.Random(20261121)
        pattern = Raw(self.world)
        with pattern:
            messages = [
                pattern.call("AddMatch", body=text("type='signal',sender='org.bluez',arg0='x'"), signature="s"),
                pattern.call("GetManagedObjects", "/", OBJECT_MANAGER, BLUEZ),
                pattern.call("Get", self.pink, PROPERTIES, BLUEZ, text(DEVICE1) + b"\0" * 1 + text("Name"), "ss"),
                pattern.call("CreateSession", ROOT, MANAGER, NAME, struct.pack("<II", 0, 0), "a{sv}")]
        for _ in range(150):
            with Raw(self.world) as raw:
                raw.hello()
                for _ in range(4):
                    message = bytearray(generator.choice(messages))
                    for _ in range(generator.randrange(1, 6)):
                        message[generator.randrange(len(message))] = generator.randrange(256)
                    if generator.random() < 0.2:
                        del message[generator.randrange(len(message)):]
                    try:
                        raw.send(bytes(message))
                    except (BrokenPipeError, ConnectionResetError):
                        break
        self.assertUndisturbed()

    def test_mutated_match_rules(self):
        generator = random.Random(4)
        rules = ["type='signal',sender='org.bluez',path_namespace='/org/bluez',arg0='x'", "arg1path='/a/',arg63='',member=X",
                 r"arg0='it'\''s',interface='a.b'", "eavesdrop=true,arg0namespace='a.b'"]
        view = self.view()
        for _ in range(2000):
            rule = list(generator.choice(rules))
            for _ in range(generator.randrange(1, 4)):
                rule[generator.randrange(len(rule))] = generator.choice("',=\\/.ax0 é\U0001F4A9")
            try:
                view.driver("AddMatch", "s", "".join(rule))
                view.driver("RemoveMatch", "s", "".join(rule))
            except dbus.DBusException as refused:
                self.assertEqual(refused.get_dbus_name(), BUS_ERROR + "MatchRuleInvalid", "".join(rule))
        self.assertUndisturbed()

    def test_thousands_of_match_rules(self):
        view = View(self.world)
        # One more is the good client's, of the same user.
        for number in range(1023):
            view.driver("AddMatch", "s", f"type='signal',arg0='{number}'")
        for rule in ("type='signal'", "x" * 5000):
            with self.subTest(rule=rule[:20]), self.assertRaises(dbus.DBusException):
                view.driver("AddMatch", "s", rule)
        self.assertFails(LIMITS_EXCEEDED, view.driver, "AddMatch", "s", "type='signal'", says=["1024"])
        self.assertUndisturbed()

    def test_a_flood_is_answered_or_refused_and_others_have_their_turn(self):
        with Raw(self.world) as raw:
            raw.hello()
            flood = b"".join(raw.call("GetManagedObjects", "/", OBJECT_MANAGER, BLUEZ, flags=1) for _ in range(20_000))
            raw.socket.setblocking(False)
            sent = 0
            rounds = 0
            while sent < len(flood) and rounds < 400:
                try:
                    sent += raw.socket.send(flood[sent:sent + 65536])
                except BlockingIOError:
                    pass
                rounds += 1
                if rounds % 40 == 0:
                    self.assertUndisturbed()
        self.assertUndisturbed()

    def test_who_never_reads_is_cut_off(self):
        with Raw(self.world) as raw:
            raw.hello()
            cut = lambda: any("not reading" in each for each in self.world.daemon.lines)
            introspect = b"".join(raw.call("Introspect", "/org/freedesktop/DBus", "org.freedesktop.DBus.Introspectable") for _ in range(500))
            for _ in range(200):
                try:
                    raw.send(introspect)
                except (BrokenPipeError, ConnectionResetError):
                    break
                Client.take_in()
            wait(cut, what="it to be cut off", also_every=0.05)
        self.assertUndisturbed()

    def test_too_many_connections(self):
        with contextlib.ExitStack() as stack:
            for _ in range(64):
                try:
                    stack.enter_context(Raw(self.world)).hello()
                except (AssertionError, BrokenPipeError, ConnectionResetError):
                    break
            extra = stack.enter_context(Raw(self.world))
            extra.wait_closed()
            self.assertUndisturbed()
        wait(lambda: self._comes_in(), what="room for another", also_every=0.05)

    def _comes_in(self):
        try:
            with Raw(self.world) as raw:
                raw.hello()
                return True
        except (AssertionError, BrokenPipeError, ConnectionResetError):
            return False

    def test_calls_in_flight_are_limited(self):
        self.simulator.pause()
        try:
            answers = []
            for _ in range(524):
                self.good.call_later(self.characteristic, CHARACTERISTIC1, "ReadValue", lambda *each: answers.append(each), "a{sv}",
                                     sv({}), to=BLUEZ)
            wait(lambda: len(answers) >= 12, what="refusals")
            self.assertEqual({each[0].get_dbus_name() for each in answers}, {LIMITS_EXCEEDED})
        finally:
            self.simulator.resume()
        wait(lambda: len(answers) == 524, what="all answers")
        self.assertUndisturbed()

    def test_calls_that_want_no_answer_do_not_count_for_ever(self):
        for _ in range(200):
            message = dbus.lowlevel.MethodCallMessage(BLUEZ, self.pink, PROPERTIES, "GetAll")
            message.append(DEVICE1, signature="s")
            message.set_no_reply(True)
            self.good.connection.send_message(message)
            self.good.driver("GetId")
        wait(lambda: self.reads(), what="room for another call", also_every=0.02)

    def reads(self):
        try:
            self.assertUndisturbed()
            return True
        except dbus.DBusException:
            return False

    def test_a_forged_sender_is_of_no_use(self):
        """The sender is who the socket belongs to, whatever a message says."""
        with Raw(self.world) as raw:
            raw.hello()
            raw.receive(1 << 16)
            raw.send(raw.call("GetManagedObjects", "/", OBJECT_MANAGER, BLUEZ, more=[(7, "s", self.good.name)]))
            answer = b""
            while ADAPTER.encode() not in answer:
                answer += raw.receive(1 << 16)
            self.assertNotIn(self.pink.encode(), answer)

    def test_names_cannot_be_owned_nor_others_be_seen(self):
        for member, *arguments in (
                ("RequestName", "su", BLUEZ, dbus.UInt32(0)),
                ("UpdateActivationEnvironment", "a{ss}", dbus.Dictionary({}, "ss"))):
            with self.subTest(member):
                self.assertFails(ACCESS_DENIED, self.good.driver, member, *arguments)
        self.assertFails(BUS_ERROR + "NotSupported", self.good.call, "/org/freedesktop/DBus", DRIVER + ".Monitoring", "BecomeMonitor", "asu",
                         dbus.Array([], "s"), dbus.UInt32(0), to=DRIVER, says=["AddMatch"])
        other = self.view("board")
        for member in ("GetNameOwner", "GetConnectionUnixUser", "GetConnectionCredentials"):
            with self.subTest(member):
                self.assertFails(BUS_ERROR + "NameHasNoOwner", self.good.driver, member, "s", other.name)
        self.assertFails(BUS_ERROR + "ServiceUnknown", self.good.call, "/", "a.b", "C", to=other.name)
        self.assertFails(BUS_ERROR + "ServiceUnknown", self.good.driver, "StartServiceByName", "su", "org.example", dbus.UInt32(0))


if __name__ == "__main__":
    unittest.main()
