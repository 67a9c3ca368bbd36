# SPDX-License-Identifier: Apache-2.0
"""A browser's part in Cockpit, without the browser: the login over HTTPS, the files of pages, and the websocket with
channels to the session's bridge. The main loop that checks wait in reads the messages."""

import base64
import http.client
import json
import os
import select
import socket
import ssl
from pathlib import Path

from gi.repository import GLib

from lab import STANDSTILL, CheckFailed, expect

PORT = 9090
ORIGIN = f"https://localhost:{PORT}"
CERTIFICATES = Path("/etc/cockpit/ws-certs.d")
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
PROPERTIES = "org.freedesktop.DBus.Properties"


class CallFailed(Exception):
    """A call was answered with an error: `name` is the last part of its name."""

    def __init__(self, name, text):
        super().__init__(f"{name}: {text}")
        self.name = name.rpartition(".")[2]


class Cockpit:
    """Cockpit's server on this machine, as seen by a user who logs in."""

    def __init__(self, machine):
        self._machine = machine
        self._cookie = None
        # Whom the machine's certificate does not convince has no business here.
        self._tls = ssl.create_default_context(cafile=CERTIFICATES / "0-self-signed.cert")
        # It is its own authority.
        self._tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN

    def answers(self):
        """Whether it answers. It gives the instance that does 20 s to start, which can take longer here, and closes the connection
        then without a word (`request_dynamic_wsinstance` in its connection.c); who asks again finds it started."""
        try:
            self._get("/cockpit/static/login.html")
        except (ConnectionResetError, ssl.SSLEOFError):
            return False
        return True

    def login(self, user, password):
        """As the login page does it; returns the status and its words."""
        secret = base64.b64encode(f"{user}:{password}".encode()).decode()
        status, reason, headers, _ = self._get("/cockpit/login", {"Authorization": f"Basic {secret}", "X-Superuser": "none"})
        if status == 200:
            self._cookie = headers["Set-Cookie"].split(";")[0]
            expect("Secure" in headers["Set-Cookie"] and "HttpOnly" in headers["Set-Cookie"], f"the cookie is {headers['Set-Cookie']}")
        return status, reason

    def file(self, path):
        """The status, the headers and the content of a file of the page's."""
        status, _, headers, content = self._get(f"/cockpit/@localhost/accessories/{path}")
        return status, headers, content

    def _get(self, path, headers={}):
        connection = http.client.HTTPSConnection("localhost", PORT, timeout=60 * STANDSTILL, context=self._tls)
        try:
            connection.request("GET", path, headers={**headers, **({"Cookie": self._cookie} if self._cookie else {})})
            answer = connection.getresponse()
            return answer.status, answer.reason, answer.headers, answer.read()
        finally:
            connection.close()

    def open(self):
        """The websocket of one open page."""
        raw = socket.create_connection(("localhost", PORT), 60 * STANDSTILL)
        return Socket(self._machine, self._tls.wrap_socket(raw, server_hostname="localhost"), self._cookie)


class Socket:
    """A page's line to its session: `closed` when that has gone, with the last word in `problem`."""

    def __init__(self, machine, connection, cookie):
        self._machine = machine
        self._connection = connection
        self._buffer = b""
        self._channels = {}
        self.closed = False
        self.problem = None
        self.init = None
        key = base64.b64encode(os.urandom(16)).decode()
        connection.sendall("\r\n".join((
            "GET /cockpit/socket HTTP/1.1", f"Host: localhost:{PORT}", f"Origin: {ORIGIN}", f"Cookie: {cookie}",
            "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Protocol: cockpit1", "", "")).encode())
        while b"\r\n\r\n" not in self._buffer:
            received = connection.recv(4096)
            expect(received, "Cockpit closed the connection instead of opening a websocket")
            self._buffer += received
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        expect(head.startswith(b"HTTP/1.1 101"), f"no websocket but {head.splitlines()[0]}")
        connection.setblocking(False)
        GLib.unix_fd_add_full(GLib.PRIORITY_DEFAULT, connection.fileno(), GLib.IOCondition.IN | GLib.IOCondition.HUP, self._arrived)
        self._arrived()
        machine.wait_until(lambda: self.init or self.closed, 30, "Cockpit to begin")
        expect(self.init and "problem" not in self.init, f"Cockpit begins with {self.init}")
        self.control(command="init", version=1)

    def bus(self, number, **options):
        """A channel to a bus: `options` as a page gives them."""
        name = f"{self.init['channel-seed']}{number}"
        self._channels[name] = channel = Bus(self._machine, self, name)
        self.control(command="open", channel=name, payload="dbus-json3", **options)
        return channel

    def daemon(self, number):
        """The daemon, on a connection of the page's own, as the page opens it."""
        return self.bus(number, bus="none", address="unix:path=/run/dbus/system_bus_socket", name="org.accessorysetup1", superuser="try")

    def control(self, **command):
        self.send("", json.dumps(command))

    def send(self, channel, text):
        self._frame(TEXT, f"{channel}\n{text}".encode())

    def close(self):
        self._frame(CLOSE, (1000).to_bytes(2, "big"))
        self._machine.wait_until(lambda: self.closed, 30, "the websocket to close")

    # Frames

    def _frame(self, kind, content):
        size = len(content)
        length = bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + size.to_bytes(2, "big")
        mask = os.urandom(4)
        rest = bytes([0x80 | kind]) + length + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(content))
        while rest:
            try:
                rest = rest[self._connection.send(rest):]
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                select.select([], [self._connection], [], 1)

    def _arrived(self, *_):
        try:
            while received := self._connection.recv(65536):
                self._buffer += received
            self._end()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self._end()
        while not self.closed and (frame := self._take()):
            self._handle(*frame)
        return not self.closed

    def _take(self):
        """The next whole frame, if it is there: servers' have no mask, and Cockpit's are in one piece."""
        if len(self._buffer) < 2:
            return None
        size, start = self._buffer[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(self._buffer) < start:
                return None
            size = int.from_bytes(self._buffer[2:start], "big")
        if len(self._buffer) < start + size:
            return None
        frame = self._buffer[0] & 15, self._buffer[start : start + size]
        self._buffer = self._buffer[start + size :]
        return frame

    def _handle(self, kind, content):
        if kind == PING:
            self._frame(PONG, content)
        elif kind == CLOSE:
            self._end()
        elif kind == TEXT:
            channel, _, text = content.decode().partition("\n")
            if channel:
                self._channels[channel].take(json.loads(text))
            else:
                self._obey(json.loads(text))

    def _obey(self, command):
        print("cockpit:", command if command["command"] != "init" else "init", flush=True)
        if command["command"] == "init":
            self.init = command
        elif command["command"] == "close" and "channel" in command:
            self._channels[command["channel"]].problem = command.get("problem", "closed")
        elif command["command"] == "close":
            self.problem = command.get("problem", "closed")

    def _end(self):
        if not self.closed:
            self.closed = True
            self._connection.close()


class Bus:
    """A channel with messages of a bus."""

    def __init__(self, machine, line, name):
        self._machine = machine
        self._line = line
        self._name = name
        self._answers = {}
        self._calls = 0
        self.signals = []
        self.problem = None

    def take(self, message):
        if "id" in message:
            self._answers[message["id"]] = message
        elif "signal" in message:
            self.signals.append(message["signal"])

    def begin(self, path, interface, member, *arguments, **more):
        """Calls without waiting; returns a function that waits for the answer."""
        self._calls += 1
        number = str(self._calls)
        self._line.send(self._name, json.dumps({"call": [path, interface, member, list(arguments)], "id": number, **more}))

        def answer(seconds=30):
            self._machine.wait_until(
                lambda: number in self._answers or self.problem or self._line.closed, seconds, f"the answer to {member}")
            if number not in self._answers:
                raise CheckFailed(f"no answer to {member}: {self.problem or self._line.problem or 'the line is closed'}")
            message = self._answers[number]
            if "error" in message:
                name, words = message["error"]
                raise CallFailed(name, words)
            return plain(message["reply"][0])

        return answer

    def call(self, path, interface, member, *arguments, **more):
        return self.begin(path, interface, member, *arguments, **more)()

    def get(self, path, interface, name):
        # With the types said the bridge need not ask for them, and whatever the answer is, it is the daemon's.
        return self.call(path, PROPERTIES, "Get", interface, name, type="ss")[0]

    def subscribe(self, **match):
        self._line.send(self._name, json.dumps({"add-match": match}))


def plain(value):
    """Values without the types that the bridge gives variants."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return plain(value["v"]) if value.keys() == {"t", "v"} else {key: plain(each) for key, each in value.items()}
    return value
