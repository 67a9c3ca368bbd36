# SPDX-License-Identifier: Apache-2.0
"""An app's discovery extension, honest or not: a listening socket, and D-Bus on each connection of the daemon's."""

import contextlib
import os
import socket

from gi.repository import Gio, GLib

from harness.waiting import wait

PATH, INTERFACE = "/org/accessorysetup1/extension", "org.accessorysetup1.Extension"
XML = f"""<node><interface name="{INTERFACE}"><method name="StartDiscovery"><arg type="a{{sv}}" direction="in"/></method>
<method name="StopDiscovery"/></interface></node>"""


class Extension:
    """Serves every connection in the test's own main loop. `answers`: whether it authenticates and answers calls."""

    def __init__(self, path, answers=True):
        self.path = path
        self.answers = answers
        # The calls so far, with the settings.
        self.calls = []
        self.connections = []
        self.open = 0
        self._raw = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._socket.setblocking(False)
        self._watch = GLib.io_add_watch(self._socket, GLib.PRIORITY_DEFAULT, GLib.IOCondition.IN, self._accept)

    def _accept(self, listening, _condition):
        peer, _ = listening.accept()
        self.open += 1
        if not self.answers:
            self._raw.append(peer)
            return True
        stream = Gio.Socket.new_from_fd(peer.detach()).connection_factory_create_connection()
        Gio.DBusConnection.new(
            stream, Gio.dbus_generate_guid(), Gio.DBusConnectionFlags.AUTHENTICATION_SERVER
            | Gio.DBusConnectionFlags.DELAY_MESSAGE_PROCESSING, None, None, self._connected)
        return True

    def _connected(self, _source, result):
        connection = Gio.DBusConnection.new_finish(result)
        connection.connect("closed", self._closed)
        [interface] = Gio.DBusNodeInfo.new_for_xml(XML).interfaces
        connection.register_object(PATH, interface, self._call, None, None)
        connection.start_message_processing()
        self.connections.append(connection)

    def _closed(self, connection, *_):
        self.open -= 1

    def _call(self, _connection, _sender, _path, _interface, member, arguments, invocation):
        self.calls.append((member, *arguments.unpack()))
        invocation.return_value(None)

    def wait_call(self, member, count=1, seconds=10):
        """The arguments of the `count`th call of this method."""
        return wait(lambda: len(found := [each for each in self.calls if each[0] == member]) >= count and found[count - 1],
                    seconds, lambda: f"{member}; came {self.calls}")[1:]

    def wait_closed(self):
        wait(lambda: self.open == 0, 10, lambda: f"{self.open} connections to close")

    def emit(self, member, signature, value):
        [*_, connection] = self.connections
        connection.emit_signal(None, PATH, INTERFACE, member, GLib.Variant.new_tuple(GLib.Variant(signature, value)))

    def found(self, member="ItemFound", **keys):
        """Reports an item; of its keys the types are those of the API."""
        self.emit(member, "a{sv}", {name: _variant(name, value) for name, value in keys.items()})

    def changed(self, **keys):
        self.found("ItemChanged", **keys)

    def lost(self, identifier):
        self.emit("ItemLost", "s", identifier)

    def die(self):
        """Closes its connections, and its socket."""
        for connection in self.connections:
            connection.close_sync(None)
        for raw in self._raw:
            raw.close()
        self.close()

    def close(self):
        if self._watch is None:
            return
        GLib.source_remove(self._watch)
        self._watch = None
        self._socket.close()
        for connection in self.connections:
            with contextlib.suppress(GLib.Error):
                connection.close_sync(None)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def endpoint(host="printer.local", port=631):
    return {"host": GLib.Variant("s", host), "port": GLib.Variant("q", port)}


def _variant(name, value):
    if isinstance(value, GLib.Variant):
        return value
    types = {"endpoint": "a{sv}", "ssid": "ay", "productImage": "ay", "supportedOptions": "as"}
    return GLib.Variant(types.get(name, "s"), value)
