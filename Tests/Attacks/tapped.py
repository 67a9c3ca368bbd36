# SPDX-License-Identifier: Apache-2.0
"""A client of the view whose every received byte is kept: so the complete output to it is known, on whichever path it left."""

import contextlib
import re
import select
import socket
import threading

from gi.repository import Gio

from harness.clients import Client, Identity
from harness.names import SOMEBODY
from view import DRIVER, View


class Tap(Identity):
    """An identity with a listener between its process and the client."""

    def start_relay(self, target, socket_path):
        self.received = b""
        inner = socket_path.with_name(socket_path.name + "-tapped")
        relay = super().start_relay(target, inner)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(socket_path))
        self._listening.listen()
        threading.Thread(target=self._pass, args=(str(inner),), daemon=True).start()
        return relay

    def _pass(self, inner):
        near, far = self._listening.accept()[0], socket.socket(socket.AF_UNIX)
        self._listening.close()
        far.connect(inner)
        with near, far, contextlib.suppress(OSError):
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data, descriptors, _, _ = socket.recv_fds(source, 1 << 16, 16)
                    if not data:
                        return
                    if source is far:
                        self.received += data
                    socket.send_fds(near if source is far else far, [data], descriptors)
                    for each in descriptors:
                        socket.close(each)


class Tapped(View):
    """A client of the view, and the messages that it was sent."""

    def __init__(self, world, app="dice", uid=SOMEBODY):
        self.tap = Tap(app, uid)
        Client.__init__(self, world, self.tap, world.view)
        self.listen_to_everything()
        self._seen = 0

    @property
    def messages(self):
        """All messages, parsed."""
        # Lines of authentication come first.
        data = re.sub(rb"^(?:[A-Z_]+[^\r\n]*\r\n)+", b"", self.tap.received)
        found = []
        while len(data) >= 16 and len(data) >= (length := Gio.DBusMessage.bytes_needed(data)):
            found.append(Gio.DBusMessage.new_from_blob(data[:length], Gio.DBusCapabilityFlags.UNIX_FD_PASSING))
            data = data[length:]
        return found

    def news(self):
        """The messages since the last call, except for errors, which carry nothing, and the bus' own messages."""
        # Its answer comes after whatever was sent before.
        self.driver("GetId")
        messages = self.messages
        new, self._seen = messages[self._seen:], len(messages)
        return [f"{each.get_message_type().value_nick} {each.get_member() or ''} {each.get_path() or ''} {each.get_body()}" for each in new
                if each.get_message_type() != Gio.DBusMessageType.ERROR and each.get_sender() != DRIVER]
