# SPDX-License-Identifier: Apache-2.0
"""An app that has a grant and does nothing but stay on its accessory's network: `hotspot.py ACCESSORY PASSPHRASE`. It says “joined”, and stays
until it is killed."""

import sys

import dbus
import dbus.mainloop.glib
from gi.repository import GLib

NAME = "org.accessorysetup1"
accessory, passphrase = sys.argv[1:]

dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
bus = dbus.SystemBus()


def interface(path, name):
    return dbus.Interface(bus.get_object(NAME, path, introspect=False), f"{NAME}.{name}")


session = interface("/org/accessorysetup1", "Manager").CreateSession(dbus.Dictionary({}, signature="sv"))
interface(session, "Session").Activate()
options = dbus.Dictionary({"passphrase": passphrase}, signature="sv")
interface(accessory, "Accessory").JoinNetwork(options, signature="a{sv}", timeout=90)
print("joined", flush=True)
GLib.MainLoop().run()
