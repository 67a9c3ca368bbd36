#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A discovery extension that finds printers through Avahi: python3-gi, and a socket from systemd (printers.socket). It serves
org.accessorysetup1.Extension on each connection, and reports the printers that Avahi finds while a picker is shown."""

import os
import socket
import sys

from gi.repository import Gio, GLib

PATH, INTERFACE = "/org/accessorysetup1/extension", "org.accessorysetup1.Extension"
XML = f"""<node><interface name="{INTERFACE}">
<method name="StartDiscovery"><arg type="a{{sv}}" direction="in"/></method><method name="StopDiscovery"/>
<signal name="ItemFound"><arg type="a{{sv}}"/></signal><signal name="ItemLost"><arg type="s"/></signal>
</interface></node>"""
AVAHI, BROWSER = "org.freedesktop.Avahi", "org.freedesktop.Avahi.ServiceBrowser"
TYPE, ANY = "_ipp._tcp", -1


class Discovery:
    """One search, for one connection of the daemon."""

    def __init__(self, report, lost):
        self.report, self.lost = report, lost
        # The bus forgets the browser with the connection.
        address = Gio.dbus_address_get_for_bus_sync(Gio.BusType.SYSTEM, None)
        flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
        self.bus = Gio.DBusConnection.new_for_address_sync(address, flags, None, None)
        # Before the browser exists: it signals at once.
        for member, handler in (("ItemNew", self.found), ("ItemRemove", self.gone)):
            self.bus.signal_subscribe(AVAHI, BROWSER, member, None, None, Gio.DBusSignalFlags.NONE, handler)
        self.ask("ServiceBrowserNew", GLib.Variant("(iissu)", (ANY, ANY, TYPE, "local", 0)), lambda *_: None)

    def ask(self, member, arguments, answered):
        def finish(bus, result):
            try:
                answered(bus.call_finish(result).unpack())
            except GLib.Error as error:
                print(f"{member}: {error.message}", file=sys.stderr)

        self.bus.call(AVAHI, "/", f"{AVAHI}.Server", member, arguments, None, Gio.DBusCallFlags.NONE, -1, None, finish)

    def found(self, *signal):
        interface, protocol, name, kind, domain, _ = signal[5].unpack()

        def resolved(answer):
            host, port = answer[5], answer[8]
            self.report(name, host, port)

        self.ask("ResolveService", GLib.Variant("(iisssiu)", (interface, protocol, name, kind, domain, ANY, 0)), resolved)

    def gone(self, *signal):
        self.lost(signal[5].unpack()[2])

    def end(self):
        self.bus.close_sync(None)


class Extension:
    """One connection of the daemon."""

    def __init__(self, connection):
        self.connection, self.discovery = connection, None
        connection.connect("closed", lambda *_: self.stop())
        [interface] = Gio.DBusNodeInfo.new_for_xml(XML).interfaces
        connection.register_object(PATH, interface, self.call, None, None)
        connection.start_message_processing()

    def call(self, _connection, _sender, _path, _interface, member, _arguments, invocation):
        self.stop()
        if member == "StartDiscovery":
            self.discovery = Discovery(self.report, lambda name: self.emit("ItemLost", GLib.Variant("s", name)))
        invocation.return_value(None)

    def report(self, name, host, port):
        endpoint = {"host": GLib.Variant("s", host), "port": GLib.Variant("q", port)}
        item = {
            "identifier": GLib.Variant("s", name), "name": GLib.Variant("s", name), "endpoint": GLib.Variant("a{sv}", endpoint)}
        self.emit("ItemFound", GLib.Variant("a{sv}", item))

    def emit(self, member, value):
        if self.discovery:
            self.connection.emit_signal(None, PATH, INTERFACE, member, GLib.Variant.new_tuple(value))

    def stop(self):
        if self.discovery:
            self.discovery.end()
            self.discovery = None


def accept(service, peer, _source):
    Gio.DBusConnection.new(
        peer, Gio.dbus_generate_guid(),
        Gio.DBusConnectionFlags.AUTHENTICATION_SERVER | Gio.DBusConnectionFlags.DELAY_MESSAGE_PROCESSING, None, None,
        lambda _, result: Extension(Gio.DBusConnection.new_finish(result)))
    return False


if os.environ.get("LISTEN_FDS") != "1":
    sys.exit("printers.py: systemd has passed no socket (LISTEN_FDS)")
service = Gio.SocketService()
service.add_socket(Gio.Socket.new_from_fd(socket.socket(fileno=3).detach()), None)
service.connect("incoming", accept)
GLib.MainLoop().run()
