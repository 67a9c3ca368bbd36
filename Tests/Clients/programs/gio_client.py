# SPDX-License-Identifier: Apache-2.0
"""Gio's D-Bus by itself: a GDBusObjectManagerClient for org.bluez, whose objects and proxies hold all that there is."""

from gi.repository import Gio, GLib
from lines import CHARACTERISTIC1, DEVICE1, SERVICE1, say, serve_glib


class Client:
    def __init__(self):
        self.bus = Gio.bus_get_sync(Gio.BusType.SYSTEM)
        self.bus.set_exit_on_close(False)
        self.bus.connect("closed", lambda *_: say("bus gone"))
        self.manager = Gio.DBusObjectManagerClient.new_sync(
            self.bus, Gio.DBusObjectManagerClientFlags.NONE, "org.bluez", "/", None, None, None)
        self.manager.connect("notify::name-owner", lambda manager, _: manager.get_name_owner() or say("bluez gone"))
        self.manager.connect("interface-proxy-properties-changed", self.changed)
        self.path = None

    def changed(self, _manager, _object, proxy, values, _invalidated):
        values = values.unpack()
        if proxy.get_interface_name() == DEVICE1 and proxy.get_object_path() == self.path and values.get("Connected", True) is False:
            say("disconnected")
        if proxy.get_interface_name() == CHARACTERISTIC1 and "Value" in values:
            say("value", bytes(values["Value"]).hex())

    def having(self, name, beneath="/"):
        return [each.get_interface(name) for each in self.manager.get_objects()
                if each.get_interface(name) and each.get_object_path().startswith(beneath)]

    def value(self, proxy, name):
        return proxy.get_cached_property(name).unpack()

    def call(self, proxy, member, arguments=None):
        # Calls of people's programs have no limit but the accessory's.
        return proxy.call_sync(member, arguments, Gio.DBusCallFlags.NONE, 60_000, None)

    def list(self):
        return sorted(self.value(each, "Address") for each in self.having(DEVICE1))

    def connect(self, address):
        [self.device] = [each for each in self.having(DEVICE1) if self.value(each, "Address") == address]
        self.path = self.device.get_object_path()
        self.call(self.device, "Connect")
        while not self.value(self.device, "ServicesResolved"):
            GLib.MainContext.default().iteration(True)

    def characteristic(self, uuid):
        [found] = [each for each in self.having(CHARACTERISTIC1, self.path) if self.value(each, "UUID") == uuid]
        return found

    def services(self):
        return sorted(self.value(each, "UUID") for each in self.having(SERVICE1, self.path))

    def read(self, uuid):
        return [bytes(self.call(self.characteristic(uuid), "ReadValue", GLib.Variant("(a{sv})", ({},))).unpack()[0]).hex()]

    def write(self, uuid, value):
        self.call(self.characteristic(uuid), "WriteValue", GLib.Variant("(aya{sv})", (bytes.fromhex(value), {})))

    def notify(self, uuid):
        self.call(self.characteristic(uuid), "StartNotify")

    def disconnect(self):
        self.call(self.device, "Disconnect")


serve_glib(Client())
