# SPDX-License-Identifier: Apache-2.0
"""dbus-python by itself, the way BlueZ' own test scripts use it: blocking calls of proxies, and signals on GLib's main loop."""

import dbus
import dbus.mainloop.glib
from gi.repository import GLib
from lines import CHARACTERISTIC1, DEVICE1, SERVICE1, say, serve_glib

PROPERTIES = "org.freedesktop.DBus.Properties"


class Client:
    def __init__(self):
        self.bus = dbus.SystemBus()
        self.bus.set_exit_on_disconnect(False)
        self.bus.watch_name_owner("org.bluez", lambda owner: owner or say("bluez gone"))
        self.bus.call_on_disconnection(lambda _: say("bus gone"))
        self.bus.add_signal_receiver(self.changed, "PropertiesChanged", PROPERTIES, "org.bluez", path_keyword="path")
        self.path = None

    def changed(self, interface, values, _, path):
        if interface == DEVICE1 and path == self.path and values.get("Connected", True) == False:
            say("disconnected")
        if interface == CHARACTERISTIC1 and "Value" in values:
            say("value", bytes(values["Value"]).hex())

    def interface(self, path, name):
        return dbus.Interface(self.bus.get_object("org.bluez", path), name)

    def having(self, name, beneath="/"):
        objects = self.interface("/", "org.freedesktop.DBus.ObjectManager").GetManagedObjects()
        return [(path, each[name]) for path, each in objects.items() if name in each and path.startswith(beneath)]

    def list(self):
        return sorted(str(each["Address"]) for _, each in self.having(DEVICE1))

    def connect(self, address):
        [self.path] = [path for path, each in self.having(DEVICE1) if each["Address"] == address]
        self.interface(self.path, DEVICE1).Connect()
        properties = self.interface(self.path, PROPERTIES)
        while not properties.Get(DEVICE1, "ServicesResolved"):
            GLib.MainContext.default().iteration(True)

    def characteristic(self, uuid):
        [path] = [path for path, each in self.having(CHARACTERISTIC1, self.path) if each["UUID"] == uuid]
        return self.interface(path, CHARACTERISTIC1)

    def services(self):
        return sorted(str(each["UUID"]) for _, each in self.having(SERVICE1, self.path))

    def read(self, uuid):
        return [bytes(self.characteristic(uuid).ReadValue({})).hex()]

    def write(self, uuid, value):
        self.characteristic(uuid).WriteValue(bytes.fromhex(value), {})

    def notify(self, uuid):
        self.characteristic(uuid).StartNotify()

    def disconnect(self):
        self.interface(self.path, DEVICE1).Disconnect()


dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
serve_glib(Client())
