# SPDX-License-Identifier: Apache-2.0
"""A second opinion on the simulator: python3-dbusmock's bluez5 template is another account of bluetoothd's interface.
Where both speak of the same member, they must agree on its type; and the same client code must work on both."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import dbus
import dbus.mainloop.glib

from turning import Bus, wait_for

dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("BIN", os.path.join(ROOT, ".build", "debug")))
ADDRESS = "C0:00:00:00:00:01"
MANAGER = "org.freedesktop.DBus.ObjectManager"
DEVICE = "org.bluez.Device1"
ADAPTER = "org.bluez.Adapter1"


def type_of(value):
    """The D-Bus type of a value, as dbus-python carries it."""
    names = {
        dbus.Boolean: "b", dbus.Byte: "y", dbus.Int16: "n", dbus.UInt16: "q", dbus.Int32: "i", dbus.UInt32: "u", dbus.String: "s",
        dbus.ObjectPath: "o",
    }
    if isinstance(value, dbus.Array):
        return f"a{value.signature}"
    if isinstance(value, dbus.Dictionary):
        return f"a{{{value.signature}}}"
    return names.get(type(value), type(value).__name__)


class Peer:
    """A bus with one account of org.bluez on it."""

    def __init__(self, test):
        bus = subprocess.Popen(
            ["dbus-daemon", f"--config-file={ROOT}/Tests/Support/private-bus.conf", "--nofork", "--print-address=1"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        test.addCleanup(self.end, bus)
        self.address = bus.stdout.readline().strip()
        self.bus = Bus(self.address)
        test.addCleanup(self.bus.close)

    @staticmethod
    def end(process):
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()

    def objects(self):
        return self.call("/", MANAGER, "GetManagedObjects")

    def call(self, path, interface, member, *arguments, signature=""):
        return self.bus.call_blocking("org.bluez", path, interface, member, signature, arguments, timeout=20)

    def discover(self):
        # The template wants a filter before it starts; bluetoothd does not mind one.
        self.call("/org/bluez/hci0", ADAPTER, "SetDiscoveryFilter", dbus.Dictionary({"Transport": "le"}, signature="sv"), signature="a{sv}")
        self.call("/org/bluez/hci0", ADAPTER, "StartDiscovery")

    def device(self):
        for path, interfaces in self.objects().items():
            if interfaces.get(DEVICE, {}).get("Address") == ADDRESS:
                return path, interfaces[DEVICE]
        return None


def simulated(test):
    peer = Peer(test)
    file = tempfile.NamedTemporaryFile("w", suffix=".json")
    test.addCleanup(file.close)
    json.dump(
        {"accessories": [{"id": "a", "address": ADDRESS, "transport": "dual", "crossTransportKeys": True, "adverts": [
            {"name": "A", "serviceUUIDs": ["180F"], "manufacturerData": {"FFFF": "01"}, "txPower": 1}]}]}, file)
    file.flush()
    process = subprocess.Popen([f"{BIN}/accessory-sim", "--bus", peer.address, file.name], stdout=subprocess.PIPE, text=True)
    test.addCleanup(Peer.end, process)
    test.assertEqual(process.stdout.readline(), "ready\n")
    peer.discover()
    wait_for(peer.device)
    return peer


def mocked(test):
    peer = Peer(test)
    process = subprocess.Popen(
        [sys.executable, "-m", "dbusmock", "--system", "--template", "bluez5"],
        env={**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": peer.address}, stdout=subprocess.DEVNULL)
    test.addCleanup(Peer.end, process)
    wait_for(lambda: peer.bus.name_has_owner("org.bluez"))
    mock = "org.bluez.Mock"
    peer.call("/org/bluez", mock, "AddAdapter", "hci0", "mock", signature="ss")
    peer.discover()
    peer.call("/org/bluez", mock, "AddDevice", "hci0", ADDRESS, "A", signature="sss")
    return peer


class SecondOpinion(unittest.TestCase):
    def test_properties_have_the_same_types(self):
        ours, theirs = simulated(self), mocked(self)
        compared = 0
        for interface, ours_of, theirs_of in [
            (ADAPTER, ours.objects()["/org/bluez/hci0"][ADAPTER], theirs.objects()["/org/bluez/hci0"][ADAPTER]),
            (DEVICE, ours.device()[1], theirs.device()[1]),
        ]:
            # The template gives ManufacturerData as aa{qv}; BlueZ' own documentation (org.bluez.Device.rst) says a{qv}.
            for name in (set(ours_of) & set(theirs_of)) - {"ManufacturerData"}:
                self.assertEqual(type_of(ours_of[name]), type_of(theirs_of[name]), f"{interface}.{name}")
                compared += 1
        self.assertGreater(compared, 12, "too little in common to compare")

    def test_the_same_client_works_on_both(self):
        for make in (simulated, mocked):
            with self.subTest(make.__name__):
                peer = make(self)
                path, before = peer.device()
                self.assertFalse(before["Paired"])
                peer.call(path, DEVICE, "Pair")
                wait_for(lambda: peer.device()[1]["Paired"])
                # By signal: the template signals a connection without keeping it as a property.
                seen = []
                peer.bus.add_signal_receiver(
                    lambda _, changed, __: seen.append(changed.get("Connected")), "PropertiesChanged",
                    "org.freedesktop.DBus.Properties", path=path)
                # Pairing leaves BlueZ' link up; the template's pairing makes none.
                if not peer.device()[1]["Connected"]:
                    peer.call(path, DEVICE, "Connect")
                    wait_for(lambda: True in seen)
                peer.call(path, DEVICE, "Disconnect")
                wait_for(lambda: False in seen)
                peer.call("/org/bluez/hci0", ADAPTER, "StopDiscovery")
                peer.call("/org/bluez/hci0", ADAPTER, "RemoveDevice", path, signature="o")
                self.assertIsNone(peer.device())

    def test_a_second_pairing_is_refused_by_both(self):
        # Paired over both transports: over one only, bluetoothd takes it for the other one, as the lab shows, and the
        # mock does not.
        for make in (simulated, mocked):
            with self.subTest(make.__name__):
                peer = make(self)
                path, _ = peer.device()
                peer.call(path, DEVICE, "Pair")
                with self.assertRaises(dbus.DBusException) as caught:
                    peer.call(path, DEVICE, "Pair")
                self.assertEqual(caught.exception.get_dbus_name(), "org.bluez.Error.AlreadyExists")


if __name__ == "__main__":
    unittest.main()
