#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A program that wants more than it may have: `probe.py BUS ASK…` asks each thing on a bus and prints one JSON object, ask →
its result, an error by its name. It has no identity of its own: its rights depend on how it was started.

    session      begin a session of org.accessorysetup1
    objects      org.bluez' devices, as a list of addresses
    powered      whether org.bluez' adapter is on
    get=PATH     an object's Device1.Address
    connect=PATH Device1.Connect
    join=SSID,PASSPHRASE   have a picker find this network, join it, say on which interface, and leave it
    reads=ADDRESS  the mean time of a read of its characteristic FF3F, in milliseconds, after connecting to it"""

import json
import sys
import time

import dbus
import dbus.bus

ROLLS = "0000ff3f-0000-1000-8000-00805f9b34fb"
# Much longer than anything takes: the machine may stand still meanwhile.
PATIENCE = 90
READS = 40


def interface(path, name, service="org.bluez"):
    return dbus.Interface(bus.get_object(service, path, introspect=False), name)


def properties(path, name):
    return interface(path, dbus.PROPERTIES_IFACE).GetAll(name, timeout=PATIENCE)


def objects():
    return interface("/", "org.freedesktop.DBus.ObjectManager").GetManagedObjects(timeout=PATIENCE)


def mean_read(address):
    """In milliseconds, over a link that is there already."""
    (device,) = (path for path, each in objects().items() if each.get("org.bluez.Device1", {}).get("Address") == address)
    interface(device, "org.bluez.Device1").Connect(timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while not properties(device, "org.bluez.Device1")["ServicesResolved"]:
        if time.monotonic() > deadline:
            raise TimeoutError("no services")
        time.sleep(0.05)
    (rolls,) = (path for path, each in objects().items()
                if path.startswith(device) and each.get("org.bluez.GattCharacteristic1", {}).get("UUID") == ROLLS)
    characteristic = interface(rolls, "org.bluez.GattCharacteristic1")
    read = lambda: characteristic.ReadValue(dbus.Dictionary(signature="sv"), timeout=PATIENCE)
    read()  # the first one finds out who we are
    began = time.monotonic()
    for _ in range(READS):
        read()
    return (time.monotonic() - began) * 1000 / READS


def accessory_setup(path, name):
    return interface(path, f"org.accessorysetup1.{name}", "org.accessorysetup1")


def join(name, passphrase):
    """A session of its own; another program shows the picker."""
    empty = dbus.Dictionary(signature="sv")
    session = accessory_setup("/org/accessorysetup1", "Manager").CreateSession(empty, timeout=PATIENCE)
    accessory_setup(session, "Session").Activate(timeout=PATIENCE)
    descriptor = dbus.Dictionary({"ssid": dbus.ByteArray(name.encode())}, signature="sv")
    item = dbus.Dictionary({"name": name, "descriptor": descriptor}, signature="sv")
    accessory_setup(session, "Session").ShowPicker(dbus.Array([item], "a{sv}"), empty, signature="aa{sv}a{sv}", timeout=PATIENCE)
    tell = interface(session, dbus.PROPERTIES_IFACE, "org.accessorysetup1")
    deadline = time.monotonic() + PATIENCE
    while not (found := tell.Get("org.accessorysetup1.Session", "Accessories", timeout=PATIENCE)):
        if time.monotonic() > deadline:
            raise TimeoutError("nothing was picked")
        time.sleep(0.1)
    options = dbus.Dictionary({"passphrase": passphrase}, signature="sv")
    accessory_setup(found[0], "Accessory").JoinNetwork(options, timeout=PATIENCE)
    joined = interface(found[0], dbus.PROPERTIES_IFACE, "org.accessorysetup1").Get(
        "org.accessorysetup1.Network", "Interface", timeout=PATIENCE)
    accessory_setup(found[0], "Accessory").LeaveNetwork(timeout=PATIENCE)
    accessory_setup(session, "Session").RemoveAccessory(found[0], timeout=PATIENCE)
    return str(joined)


def answer(ask):
    match ask.partition("="):
        case ("session", _, _):
            manager = interface("/org/accessorysetup1", "org.accessorysetup1.Manager", "org.accessorysetup1")
            return str(manager.CreateSession(dbus.Dictionary(signature="sv"), timeout=PATIENCE))
        case ("objects", _, _):
            return [str(each["org.bluez.Device1"]["Address"]) for each in objects().values() if "org.bluez.Device1" in each]
        case ("powered", _, _):
            return bool(properties("/org/bluez/hci0", "org.bluez.Adapter1")["Powered"])
        case ("get", _, path):
            return str(properties(path, "org.bluez.Device1")["Address"])
        case ("connect", _, path):
            interface(path, "org.bluez.Device1").Connect(timeout=PATIENCE)
            return "connected"
        case ("join", _, name):
            return join(*name.split(","))
        case ("reads", _, address):
            return mean_read(address)
    sys.exit(f"cannot ask {ask}")


if __name__ == "__main__":
    bus = dbus.bus.BusConnection(sys.argv[1])
    answers = {}
    for ask in sys.argv[2:]:
        try:
            answers[ask] = answer(ask)
        except dbus.DBusException as error:
            answers[ask] = error.get_dbus_name().removeprefix("org.freedesktop.DBus.Error.")
    print(json.dumps(answers), flush=True)
