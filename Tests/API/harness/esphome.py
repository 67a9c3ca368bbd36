# SPDX-License-Identifier: Apache-2.0
"""A client of the door that sends any message of a test: Noise by `noiseprotocol`, messages by aioesphomeapi's own description."""

import contextlib
import socket
import sys
import time

from harness.clients import Client
from harness.door import PORT
from harness.programs import TESTS
from harness.waiting import STANDSTILL

# Put there by Tests/Support/deps-clients.
sys.path.append(str(TESTS.parent / ".build/client-packages/bleak-esphome"))

from aioesphomeapi import api_pb2 as pb  # noqa: E402
from aioesphomeapi.api_options_pb2 import id as number  # noqa: E402
from noise.connection import NoiseConnection  # noqa: E402

NUMBERS = {name: kind.GetOptions().Extensions[number] for name, kind in pb.DESCRIPTOR.message_types_by_name.items()}
TYPES = {value: name for name, value in NUMBERS.items() if value}
CONNECT, DISCONNECT, PAIR, UNPAIR, CONNECT_WITH_CACHE, CONNECT_WITHOUT_CACHE, CLEAR_CACHE = range(7)


class Refused(Exception):
    """The door's words for a client that it does not let in."""


class Closed(Exception):
    """The door has closed the connection."""


def address(text):
    """C0:FF:EE:00:02:01 as a number."""
    return int(text.replace(":", ""), 16)


class ESPHomeClient:
    """A connection. Messages stay in `messages`, oldest first, until they are waited for or cleared."""

    def __init__(self, door, key, source=None, hello=True):
        self.socket = socket.create_connection((door.address, PORT), timeout=10 * STANDSTILL, source_address=source and (source, 0))
        self.bytes = b""
        self.messages = []
        self.noise = NoiseConnection.from_name(b"Noise_NNpsk0_25519_ChaChaPoly_SHA256")
        self.noise.set_as_initiator()
        self.noise.set_psks(key if isinstance(key, bytes) else key.secret)
        self.noise.set_prologue(b"NoiseAPIInit\0\0")
        self.noise.start_handshake()
        self.frame(b"")
        self.frame(b"\0" + self.noise.write_message())
        self.server = self.take()
        answer = self.take()
        if answer[:1] != b"\0":
            self.socket.close()
            raise Refused(answer[1:].decode())
        self.noise.read_message(answer[1:])
        if hello:
            self.send("HelloRequest", client_info="a test", api_version_major=1, api_version_minor=12)
            self.wait("HelloResponse")

    # Frames

    def frame(self, contents):
        self.socket.sendall(b"\x01" + len(contents).to_bytes(2, "big") + contents)

    def take(self):
        """The contents of the next frame."""
        while len(self.bytes) < 3 or len(self.bytes) < 3 + int.from_bytes(self.bytes[1:3], "big"):
            # A program stands still at last if its output is not read.
            Client.take_in()
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Closed
            self.bytes += data
        size = 3 + int.from_bytes(self.bytes[1:3], "big")
        contents, self.bytes = self.bytes[3:size], self.bytes[size:]
        return contents

    # Messages

    def send(self, name, **fields):
        body = getattr(pb, name)(**fields).SerializeToString()
        self.send_bytes(NUMBERS[name], body)

    def send_bytes(self, kind, body):
        self.frame(self.noise.encrypt(kind.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body))

    def receive(self):
        """The next message, as (name, message)."""
        data = self.noise.decrypt(self.take())
        name = TYPES[int.from_bytes(data[:2], "big")]
        message = getattr(pb, name)()
        message.ParseFromString(bytes(data[4:]))
        self.messages.append((name, message))
        return name, message

    def wait(self, *names, fits=lambda message: True, seconds=20):
        """The next message with one of the names that fits, which may have come before."""
        end, looked = time.monotonic() + seconds * STANDSTILL, 0
        while time.monotonic() < end:
            for place in range(looked, len(self.messages)):
                name, message = self.messages[place]
                if name in names and fits(message):
                    del self.messages[place]
                    return message
            looked = len(self.messages)
            self.receive()
        raise AssertionError(f"waited for {names}; came {[name for name, _ in self.messages][-20:]}")

    def wait_closed(self, seconds=20):
        """The door closes the connection."""
        end = time.monotonic() + seconds * STANDSTILL
        with contextlib.suppress(Closed):
            while time.monotonic() < end:
                self.receive()
            raise AssertionError("the door keeps the connection")

    def settle(self):
        """Everything that the door has sent up to now is in `messages`."""
        self.send("PingRequest")
        self.wait("PingResponse")

    def clear(self):
        """Only messages that come from now on count."""
        self.settle()
        self.messages.clear()

    def seen(self, name):
        """The messages of this name that were not waited for."""
        return [message for each, message in self.messages if each == name]

    def close(self):
        self.socket.close()

    # Requests

    def device(self, device, action):
        self.send("BluetoothDeviceRequest", address=device, request_type=action, has_address_type=True, address_type=1)

    def connect(self, device):
        """The answer to a connection's request."""
        self.device(device, CONNECT_WITHOUT_CACHE)
        return self.wait("BluetoothDeviceConnectionResponse", fits=lambda message: message.address == device)

    def disconnect(self, device):
        self.device(device, DISCONNECT)
        return self.wait("BluetoothDeviceConnectionResponse", fits=lambda message: message.address == device)

    def services(self, device):
        """The accessory's services."""
        self.send("BluetoothGATTGetServicesRequest", address=device)
        found = []
        while True:
            message = self.wait("BluetoothGATTGetServicesResponse", "BluetoothGATTGetServicesDoneResponse", "BluetoothGATTErrorResponse")
            if isinstance(message, pb.BluetoothGATTErrorResponse):
                return message
            if isinstance(message, pb.BluetoothGATTGetServicesDoneResponse):
                return found
            found += message.services

    def ask(self, name, device, handle, answer, **fields):
        """The answer to a request about an attribute, or its error's number."""
        self.send(name, address=device, handle=handle, **fields)
        message = self.wait(answer, "BluetoothGATTErrorResponse", fits=lambda message: message.handle == handle)
        return message.error if isinstance(message, pb.BluetoothGATTErrorResponse) else message

    def read(self, device, handle):
        answer = self.ask("BluetoothGATTReadRequest", device, handle, "BluetoothGATTReadResponse")
        return answer if isinstance(answer, int) else answer.data

    def write(self, device, handle, value, response=True):
        return self.ask("BluetoothGATTWriteRequest", device, handle, "BluetoothGATTWriteResponse", data=value, response=response)

    def notify(self, device, handle, enable=True):
        return self.ask("BluetoothGATTNotifyRequest", device, handle, "BluetoothGATTNotifyResponse", enable=enable)
