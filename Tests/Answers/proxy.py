# SPDX-License-Identifier: Apache-2.0
"""A way between the daemon and its bus that alters one answer: it identifies messages by their headers, passes all on unchanged, and alters
the answer of one call as a test demands. It works on a thread of its own, so that a test may wait for the daemon meanwhile."""

import contextlib
import os
import selectors
import socket
import struct
import threading

from gi.repository import Gio, GLib

CALL, REPLY, ERROR = 1, 2, 3
PROPERTIES = "org.freedesktop.DBus.Properties"
HUGE = 16 << 20
# A value of each type that an answer may begin with, for an unsolicited answer.
PLAIN = {"": "()", "a{sv}": "(@a{sv} {},)", "u": "(uint32 7,)", "v": "(<7>,)", "s": "('',)", "ao": "(@ao [],)", "o": "(objectpath '/nowhere',)",
         "a(on)": "(@a(on) [],)", "ooa{sv}": "(objectpath '/nowhere', objectpath '/nowhere', @a{sv} {})",
         "(bba{ss})": "((false, false, @a{ss} {}),)", "a{oa{sa{sv}}}": "(@a{oa{sa{sv}}} {},)"}


class Header:
    """A message's header; its fields by their codes in the D-Bus specification."""

    def __init__(self, data):
        self.kind, self.flags = data[1], data[2]
        order = "<" if data[:1] == b"l" else ">"
        self.body, self.serial, length = struct.unpack_from(order + "III", data, 4)
        self.fields = {}
        at, end = 16, 16 + length
        while at < end:
            at = (at + 7) & ~7
            code, kind = data[at], data[at + 2:at + 3]
            at += 4
            if kind == b"u":
                at = (at + 3) & ~3
                self.fields[code] = struct.unpack_from(order + "I", data, at)[0]
                at += 4
            elif kind == b"g":
                self.fields[code] = data[at + 1:at + 1 + data[at]].decode()
                at += 2 + data[at]
            else:
                at = (at + 3) & ~3
                count = struct.unpack_from(order + "I", data, at)[0]
                self.fields[code] = data[at + 4:at + 4 + count].decode(errors="replace")
                at += 5 + count

    path, interface, member, error, answers, destination, sender, signature = (
        property(lambda self, code=code: self.fields.get(code)) for code in range(1, 9))

    @property
    def descriptors(self):
        return self.fields.get(9, 0)


def length_of(data):
    order = "<" if data[:1] == b"l" else ">"
    body, _, fields = struct.unpack_from(order + "III", data, 4)
    return 16 + ((fields + 7) & ~7) + body


def answer(kind, serial, sender, body=None, error=None):
    """A message as a peer might have sent it."""
    message = Gio.DBusMessage.new()
    message.set_message_type(Gio.DBusMessageType.ERROR if kind == ERROR else Gio.DBusMessageType.METHOD_RETURN)
    message.set_serial(1)
    message.set_reply_serial(serial)
    message.set_sender(sender)
    message.set_flags(Gio.DBusMessageFlags.NO_REPLY_EXPECTED)
    if error:
        message.set_error_name(error)
    if body is not None:
        message.set_body(body)
    return message.to_blob(Gio.DBusCapabilityFlags.NONE)


def plain(returns):
    return GLib.Variant.parse(None, PLAIN[returns], None, None) if returns else None


def huge(returns, data):
    """16 MiB, of the right type where it holds so much; a tree of objects keeps its objects, and has one more."""
    text = "x" * HUGE
    if returns == "a{oa{sa{sv}}}":
        had = Gio.DBusMessage.new_from_blob(data, Gio.DBusCapabilityFlags.NONE).get_body().get_child_value(0)
        more = GLib.Variant(returns, {"/huge": {"org.example.Huge": {"Name": GLib.Variant("s", text)}}})
        tree = GLib.VariantBuilder(GLib.VariantType(returns))
        for each in (had, more):
            for number in range(each.n_children()):
                tree.add_value(each.get_child_value(number))
        return GLib.Variant.new_tuple(tree.end())
    if returns == "a{sv}":
        return GLib.Variant("(a{sv})", ({"Address": GLib.Variant("s", text)},))
    if returns in ("s", "v"):
        return GLib.Variant(f"({returns})", (text if returns == "s" else GLib.Variant("s", text),))
    return GLib.Variant.new_tuple(GLib.Variant.new_from_bytes(GLib.VariantType("ay"), GLib.Bytes(bytes(HUGE)), True))


def odd(returns):
    """Of another type than it should be."""
    return GLib.Variant("(t)", (7,)) if returns != "t" else GLib.Variant("(s)", ("odd",))


class Fault:
    """The alteration of a call's answer. `call` is a row of the daemon's own list of calls; `which` selects among the calls of that kind,
    by header and body."""

    def __init__(self, call, kind, error=None, number=1):
        self.call, self.kind, self.error, self.number = call, kind, error, number
        self.seen = 0
        # The connection and the serial, once it was done.
        self.caught = None
        self.held = None

    @property
    def done(self):
        return self.caught is not None

    def is_meant(self, header, data):
        call = self.call
        if header.member != call["member"] or header.interface != call["interface"]:
            return False
        if call["interface"] == PROPERTIES:
            texts = [each.encode() + b"\0" for each in call["about"]]
            if not all(each in data[-header.body:] for each in texts):
                return False
        # The name, or the unique name behind it: those of services that are not the bus begin with a colon.
        if call["service"] and header.destination != call["service"] and not (header.destination or "").startswith(":"):
            return False
        self.seen += 1
        return self.seen == self.number


class Side:
    """One direction of a connection."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.data = bytearray()
        self.descriptors = []
        self.is_binary = False


class Link:
    """One connection of the daemon's."""

    def __init__(self, ours, bus):
        self.out, self.back = Side(ours, bus), Side(bus, ours)
        # Serials of calls that wait for their answers, and the calls.
        self.waiting = {}

    def close(self):
        for each in (self.out.source, self.back.source):
            each.close()


class Proxy:
    # Calls that may take long without a fault.
    SLOW = {"Pair", "Connect", "ConnectHiddenNetwork", "CheckAuthorization"}

    def __init__(self, path, target):
        self.path, self.target = str(path), target
        self.fault = None
        self.lock = threading.RLock()
        self.links = []
        self.selector = selectors.DefaultSelector()
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen(16)
        self.bell, self.rung = socket.socketpair()
        self.selector.register(self.listening, selectors.EVENT_READ, None)
        self.selector.register(self.rung, selectors.EVENT_READ, None)
        self.running = True
        self.thread = threading.Thread(target=self.play, daemon=True)
        self.thread.start()

    @property
    def address(self):
        return f"unix:path={self.path}"

    def play(self):
        while self.running:
            for key, _ in self.selector.select():
                if key.fileobj is self.listening:
                    self.accept()
                elif key.data is not None:
                    self.read(*key.data)

    def accept(self):
        ours, _ = self.listening.accept()
        bus = socket.socket(socket.AF_UNIX)
        bus.connect(self.target)
        link = Link(ours, bus)
        with self.lock:
            self.links.append(link)
        for side in (link.out, link.back):
            self.selector.register(side.source, selectors.EVENT_READ, (link, side))

    def read(self, link, side):
        try:
            data, descriptors, _, _ = socket.recv_fds(side.source, 1 << 18, 64)
        except OSError:
            data, descriptors = b"", []
        if not data:
            with self.lock:
                for each in (link.out, link.back):
                    with contextlib.suppress(KeyError, ValueError):
                        self.selector.unregister(each.source)
                link.close()
                if link in self.links:
                    self.links.remove(link)
            return
        side.data += data
        side.descriptors += descriptors
        with self.lock, contextlib.suppress(OSError):
            self.pass_on(link, side)

    def pass_on(self, link, side):
        if not side.is_binary:
            self.greet(link, side)
        while side.is_binary and len(side.data) >= 16 and len(side.data) >= (length := length_of(side.data)):
            data = bytes(side.data[:length])
            del side.data[:length]
            header = Header(data)
            descriptors, side.descriptors = side.descriptors[:header.descriptors], side.descriptors[header.descriptors:]
            take = self.asked if side is link.out else self.answered
            for each in take(link, header, data):
                self.send(side.target, each, descriptors)
            for each in descriptors:
                os.close(each)

    @staticmethod
    def greet(link, side):
        """The authentication before the first message: lines, from the daemon up to BEGIN, from the bus up to the first byte of a message."""
        while side.data:
            if side is link.back and side.data[:1] in (b"l", b"B"):
                side.is_binary = True
                return
            end = side.data.find(b"\r\n")
            if end < 0:
                return
            line = bytes(side.data[:end + 2])
            del side.data[:end + 2]
            side.target.sendall(line)
            if side is link.out and line == b"BEGIN\r\n":
                side.is_binary = True
                return

    @staticmethod
    def send(target, data, descriptors=()):
        if descriptors:
            sent = socket.send_fds(target, [data], descriptors)
            data = data[sent:]
        target.sendall(data)

    def asked(self, link, header, data):
        """The bytes for the bus, given a message of the daemon."""
        if header.kind == CALL and not header.flags & 1:
            fault = self.fault
            if fault and not fault.done and fault.is_meant(header, data):
                fault.caught = (link, header)
                if fault.kind == "error":
                    self.tell(link, answer(ERROR, header.serial, self.sender(header), GLib.Variant("(s)", ("played",)), fault.error))
                if fault.kind in ("error", "silent", "gone", "away"):
                    return []
            link.waiting[header.serial] = header
        return [data]

    @staticmethod
    def sender(header):
        return header.destination if header.destination.startswith(":") or header.destination == "org.freedesktop.DBus" else ":1.9999"

    def tell(self, link, data):
        self.send(link.out.source, data)

    def answered(self, link, header, data):
        """The bytes for the daemon, given a message of the bus."""
        if header.kind not in (REPLY, ERROR):
            return [data]
        link.waiting.pop(header.answers, None)
        fault = self.fault
        if not fault or not fault.done or fault.caught[0] is not link or fault.caught[1].serial != header.answers:
            return [data]
        returns = fault.call["returns"]
        forged = lambda body: [answer(REPLY, header.answers, header.sender, body)]
        match fault.kind:
            case "lost": return []
            case "late": fault.held = data
            case "twice": return [data, data]
            case "odd": return forged(odd(returns))
            case "huge": return forged(huge(returns, data))
            case _: return [data]
        return []

    # For tests

    def arm(self, fault):
        with self.lock:
            self.fault = fault

    def release(self):
        """Sends the answer that was held; an empty one if the call was not passed on."""
        with self.lock, contextlib.suppress(OSError):
            fault, self.fault = self.fault, None
            if fault is None or not fault.done:
                return
            link, header = fault.caught
            if fault.kind in ("gone", "away"):
                self.tell(link, answer(REPLY, header.serial, self.sender(header), plain(fault.call["returns"])))
            elif fault.held:
                self.tell(link, fault.held)

    @property
    def is_quiet(self):
        """Whether no call waits for an answer, except for the altered one."""
        with self.lock:
            ours = self.fault.caught if self.fault and self.fault.done else None
            return not any(
                header.member not in self.SLOW and not (ours and ours[0] is link and ours[1].serial == serial)
                for link in self.links for serial, header in link.waiting.items())

    @property
    def unanswered(self):
        """The members of all calls that wait for an answer."""
        with self.lock:
            return sorted(f"{header.interface}.{header.member}" for link in self.links for header in link.waiting.values())

    def close(self):
        self.running = False
        self.bell.send(b"x")
        self.thread.join()
        with self.lock:
            for link in self.links:
                link.close()
            self.links = []
        for each in (self.listening, self.bell, self.rung):
            each.close()
        self.selector.close()
