#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sets up a die through accessorysetupd and prints its first rolls."""

import sys

import dbus
import dbus.mainloop.glib
from gi.repository import GLib

SETUP = "org.accessorysetup1"
PINK = "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
BLUE = "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"
ROLLS = "0000ff3f-0000-1000-8000-00805f9b34fb"

dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
bus = dbus.SystemBus()
loop = GLib.MainLoop()
status = 1


def interface(service, path, name):
    return dbus.Interface(bus.get_object(service, path), name)


def item(name, service):
    descriptor = dbus.Dictionary(
        {"bluetoothServiceUUID": service, "supportedOptions": ["bluetoothPairingLE"]}, signature="sv")
    return dbus.Dictionary({"name": name, "descriptor": descriptor}, signature="sv")


def on_event(kind, details):
    print("event", kind, details.get("message", ""), flush=True)
    if kind == "accessoryAdded":
        on_event.accessory = details["accessory"]
    elif kind == "pickerDidDismiss":
        # Only now may the app show another picker.
        if "error" in details:
            return loop.quit()
        device = bus.get_object(SETUP, on_event.accessory).Get(
            f"{SETUP}.Accessory", "Device", dbus_interface=dbus.PROPERTIES_IFACE)
        interface("org.bluez", device, "org.bluez.Device1").Connect(
            reply_handler=lambda: GLib.timeout_add(200, find_rolls, device), error_handler=failed)


def find_rolls(device):
    """Services appear some time after the connection does."""
    objects = interface("org.bluez", "/", "org.freedesktop.DBus.ObjectManager").GetManagedObjects()
    for path, interfaces in objects.items():
        characteristic = interfaces.get("org.bluez.GattCharacteristic1")
        if characteristic and path.startswith(device + "/") and characteristic["UUID"] == ROLLS:
            bus.add_signal_receiver(on_roll, "PropertiesChanged", "org.freedesktop.DBus.Properties", "org.bluez", path)
            interface("org.bluez", path, "org.bluez.GattCharacteristic1").StartNotify()
            return False
    return True


def on_roll(_interface, changed, _invalidated):
    global status
    if "Value" in changed:
        print("rolled", int(changed["Value"][0]), flush=True)
        on_roll.count += 1
        if on_roll.count == 3:
            status = 0
            loop.quit()


def failed(error):
    print(error.get_dbus_name(), error.get_dbus_message(), file=sys.stderr)
    loop.quit()


on_roll.count = 0
try:
    path = interface(SETUP, "/org/accessorysetup1", f"{SETUP}.Manager").CreateSession(dbus.Dictionary(signature="sv"))
    session = interface(SETUP, path, f"{SETUP}.Session")
    bus.add_signal_receiver(on_event, "Event", f"{SETUP}.Session", SETUP, path)
    session.Activate()
    session.ShowPicker(
        dbus.Array([item("Pink Dice", PINK), item("Blue Dice", BLUE)], signature="a{sv}"),
        dbus.Dictionary({"discoveryTimeout": 30.0}, signature="sv"))
    loop.run()
except dbus.DBusException as error:
    failed(error)
sys.exit(status)
