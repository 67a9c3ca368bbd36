# SPDX-License-Identifier: Apache-2.0
"""Strangers at the door, who have no key, and clients who have one and misuse it: others are served, and the door's memory stays small."""

import os
import socket
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

from doors import PINKS, ROLLS, WRITTEN, DoorTest
from harness.door import PORT
from harness.esphome import Closed, ESPHomeClient
from harness.waiting import wait


def rss(pid):
    """Resident memory, KiB."""
    return int(next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])


class AtTheDoor(DoorTest):
    def dial(self, source="127.9.9.9"):
        dialled = socket.create_connection((self.door.address, PORT), timeout=60, source_address=(source, 0))
        self.addCleanup(dialled.close)
        return dialled

    def answer(self, data, source="127.9.9.9"):
        """Everything that the door says to these bytes, until it closes the connection."""
        dialled = self.dial(source)
        dialled.sendall(data)
        said = b""
        try:
            while got := dialled.recv(4096):
                said += got
        except ConnectionResetError:
            pass
        return said

    def test_bytes_that_are_no_handshake(self):
        hello = b"\x01\x00\x00"
        refused = b"\x01\x00\x13\x01Bad indicator byte"
        # A client that does not encrypt, one of another protocol, and lengths beyond the limit.
        for data in (b"\x00\x02\x01\x0a", b"GET / HTTP/1.1\r\n\r\n", b"\x01\xff\xff", hello + b"\x01\x00\x81"):
            self.assertTrue(self.answer(data).endswith(refused), data)
        for frame in (b"", b"\0", b"\1" + b"x" * 48, b"\0" + b"x" * 47, b"\0" + b"x" * 49):
            self.assertTrue(self.answer(hello + b"\x01" + len(frame).to_bytes(2, "big") + frame).endswith(b"\x01Handshake error"), frame)
        # Ephemeral keys of small order, under a guessed key.
        for point in (b"\0" * 32, b"\1" + b"\0" * 31, b"\xff" * 32):
            self.assertTrue(self.answer(hello + b"\x01\x00\x31\0" + point + os.urandom(16)).endswith(b"\x01Handshake MAC failure"))
        self.connected().settle()

    def test_a_handshake_that_is_played_again(self):
        """It brings nothing: the answer differs, and the messages do not fit."""
        client = self.client()
        recorded = []
        frame = ESPHomeClient.frame

        class Recorded(ESPHomeClient):
            def frame(self, contents):
                recorded.append(contents)
                frame(self, contents)

        Recorded(self.door, self.key).close()
        said = self.answer(b"".join(b"\x01" + len(each).to_bytes(2, "big") + each for each in recorded))
        # The hello and the handshake's answer; then the end.
        self.assertEqual(said[3:4], b"\x01")
        self.assertEqual(len(said), 3 + len(client.server) + 3 + 49)
        self.door.wait_for("client disconnected.*not encrypted with the key")
        self.assertEqual(sum("client connected" in line for line in self.door.lines), 2)

    def test_places_without_a_handshake(self):
        """From one address a few; a client that is in, and one from elsewhere, are served."""
        inside = self.connected()
        crowd = [self.dial() for _ in range(200)]
        inside.settle()
        self.assertTrue(self.client(source="127.0.0.1").connect(PINKS).connected)
        # Those that are let in have five seconds.
        for each in crowd:
            each.settimeout(60)
            try:
                self.assertEqual(each.recv(1), b"")
            except ConnectionResetError:
                pass
        self.assertTrue(self.client(source="127.9.9.9").connect(PINKS).connected)

    def test_places_from_everywhere(self):
        """All places for handshakes are taken for some seconds; a client that is in notices nothing."""
        inside = self.connected()
        [self.dial(f"127.8.{number // 200}.{1 + number % 200}") for number in range(400)]
        inside.settle()
        written = self.handle(inside, WRITTEN)
        self.assertEqual(inside.read(PINKS, written), b"\0")

        def let_in():
            try:
                return self.client(source="127.7.7.7")
            except (Closed, ConnectionResetError, BrokenPipeError):
                return None

        self.assertTrue(wait(let_in, 60, "a place to be free again", also_every=0.2).connect(PINKS).connected)

    def test_the_journal_is_not_filled(self):
        for _ in range(200):
            self.answer(b"\x00")
        self.assertLessEqual(sum("client refused" in line for line in self.door.lines), 40)


class WithAKey(DoorTest):
    def test_messages_that_are_none(self):
        for kind, body in ((68, b"\xff"), (75, b"\x22\xff\xff\xff\xff\x0f"), (66, b"\x08" + b"\x80" * 11), (73, b"\x0b"), (1, b"\x00\x00")):
            client = self.client()
            client.send_bytes(kind, body)
            client.wait_closed()
        # Others are of a newer version, or of other devices: they are passed over.
        client = self.client()
        for kind in (0, 13, 500, 0xFFFF):
            client.send_bytes(kind, b"\x08\x01\xfa\xff\xff\xff\x0f\x03abc")
        client.settle()

    def test_no_message_before_hello(self):
        for name in ("DeviceInfoRequest", "SubscribeBluetoothLEAdvertisementsRequest", "BluetoothGATTReadRequest"):
            client = ESPHomeClient(self.door, self.key, hello=False)
            client.send(name)
            client.wait_closed()

    def test_a_frame_of_somebody_else(self):
        client = self.connected()
        client.frame(os.urandom(100))
        client.wait_closed()
        wait(lambda: not self.linked(), 20, "the link to end", also_every=0.1)

    def test_requests_without_end(self):
        """More than the places for waiting calls, at once: each has one answer, and another client is served."""
        client, other = self.connected(), self.connected()
        written = self.handle(client, WRITTEN)
        handle = self.handle(other, WRITTEN)
        for _ in range(1000):
            client.send("BluetoothGATTReadRequest", address=PINKS, handle=written)
        self.assertEqual(other.read(PINKS, handle), b"\0")
        for _ in range(1000):
            answer = client.wait("BluetoothGATTReadResponse", "BluetoothGATTErrorResponse")
            self.assertIn(getattr(answer, "error", 0x84), (0x84,))

    def test_a_client_that_does_not_read(self):
        """It is disconnected before it costs memory; its link ends."""
        client, other = self.connected(), self.connected()
        rolls = self.handle(client, ROLLS)
        client.notify(PINKS, rolls)
        before = rss(self.door.pid)
        ended = lambda: any("does not read" in line for line in self.door.lines)
        client.socket.settimeout(5)

        def push():
            try:
                for _ in range(2000):
                    client.send("DeviceInfoRequest")
            except (TimeoutError, OSError):
                pass
            return ended()

        wait(push, 10, lambda: f"the end; said was {self.door.lines[-10:]}", also_every=0.05)
        other.settle()
        self.assertLess(rss(self.door.pid) - before, 16 << 10)

    def test_a_key_takes_a_share_of_the_places(self):
        clients = [self.client() for _ in range(16)]
        late = ESPHomeClient(self.door, self.key, hello=False)
        late.send("HelloRequest")
        late.wait_closed()
        for each in clients:
            each.settle()


# The mixin is no test by itself.
del DoorTest
