# SPDX-License-Identifier: Apache-2.0
"""Calls every method that the view passes to bluetoothd, on whichever bus DBUS_SYSTEM_BUS_ADDRESS names, and prints for each call the
answer and the signals in the order in which they arrived: on the system bus and on the view the lists must be the same. (Not for
StartNotify without a link, which the view refuses.) Arguments: the device's path, and the UUID of a characteristic that can be read,
written and notified."""

import json
import os
import sys

import dbus
import dbus.bus
import dbus.lowlevel
import dbus.mainloop.glib
from gi.repository import GLib

BLUEZ = "org.bluez"
ADAPTER1, DEVICE1, CHARACTERISTIC1 = (f"{BLUEZ}.{each}" for each in ("Adapter1", "Device1", "GattCharacteristic1"))
PROPERTIES, OBJECT_MANAGER = "org.freedesktop.DBus.Properties", "org.freedesktop.DBus.ObjectManager"
# Other changes depend on the air.
TOLD = {
    ADAPTER1: {"Discovering"}, DEVICE1: {"Connected", "ServicesResolved", "Paired", "Bonded"},
    CHARACTERISTIC1: {"Notifying", "NotifyAcquired", "WriteAcquired", "Value"},
}
SIGNAL, ANSWER, ERROR = 4, 2, 3
SECONDS = 60
NOTHING = dbus.Dictionary({}, "sv")


class Recorder:
    def __init__(self, device, uuid):
        dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        self._bus = dbus.bus.BusConnection(os.environ["DBUS_SYSTEM_BUS_ADDRESS"])
        self._device, self._adapter = device, device.rpartition("/")[0]
        self._events, self._answers = [], {}
        self._bus.add_message_filter(self._take)
        self._bus.add_match_string(f"type='signal',sender='{BLUEZ}'")
        # Its attributes are there once it was connected.
        self.call(device, DEVICE1, "Connect", until=["ServicesResolved=True"])
        objects = self._bus.call_blocking(BLUEZ, "/", OBJECT_MANAGER, "GetManagedObjects", "", ())
        self._characteristic = next(
            path for path, interfaces in objects.items()
            if path.startswith(device + "/") and interfaces.get(CHARACTERISTIC1, {}).get("UUID") == uuid)
        self.call(device, DEVICE1, "Disconnect", until=["Connected=False"])

    def _take(self, _, message):
        if message.get_type() == SIGNAL:
            self._events += self._told(message)
        elif message.get_reply_serial() in self._answers:
            name = message.get_error_name()
            self._answers[message.get_reply_serial()] = message
            self._events.append(name or "answer")

    def _told(self, message):
        path, member, arguments = str(message.get_path()), message.get_member(), message.get_args_list()
        if member in ("InterfacesAdded", "InterfacesRemoved"):
            path = str(arguments[0])
            return [member] if path == self._device or path.startswith(self._device + "/") else []
        if path != self._adapter and not (path + "/").startswith(self._device + "/"):
            return []
        if member == "PropertiesChanged":
            interface, changed, _ = arguments
            names = sorted(TOLD.get(interface, set()) & set(changed))
            return [name if name == "Value" else f"{name}={bool(changed[name])}" for name in names]
        return [member]

    def call(self, path, interface, member, signature="", *arguments, until=()):
        """The answer, and the events until it and all of `until` have come, and whatever came with them."""
        self._events = []
        answer = self._send(path, interface, member, signature, *arguments)
        self._wait(lambda: self._answers[answer] and all(each in self._events for each in until), f"{member}: {until}")
        # Messages before this answer have arrived.
        flush = self._send(self._adapter, PROPERTIES, "GetAll", "s", ADAPTER1)
        known = len(self._events)
        self._wait(lambda: self._answers[flush], "the answer of GetAll")
        events = self._events
        for index in range(known, len(events)):
            if events[index] == "answer":
                del events[index]
                break
        # A value may be repeated.
        events = [each for index, each in enumerate(events) if each != "Value" or "Value" not in events[:index]]
        return self._answers.pop(answer), events

    def _send(self, path, interface, member, signature, *arguments):
        message = dbus.lowlevel.MethodCallMessage(BLUEZ, path, interface, member)
        if signature:
            message.append(signature=signature, *arguments)
        serial = self._bus.send_message(message)
        self._answers[serial] = None
        return serial

    def _wait(self, condition, what):
        late = False

        def give_up():
            nonlocal late
            late = True

        alarm = GLib.timeout_add_seconds(SECONDS, give_up)
        while not condition():
            if late:
                sys.exit(f"waited for {what}; so far: {self._events}")
            GLib.MainContext.default().iteration(True)
        if not late:
            GLib.source_remove(alarm)

    def acquire(self, member, name):
        """Including the signals after the client closes the descriptor."""
        answer, events = self.call(self._characteristic, CHARACTERISTIC1, member, "a{sv}", NOTHING, until=[f"{name}=True"])
        self._events = []
        os.close(answer.get_args_list()[0].take())
        # The message has the descriptor, too.
        del answer
        self._wait(lambda: f"{name}=False" in self._events, f"{name}=False")
        return [*events, "closed", *self._events]

    def run(self):
        adapter, device, characteristic = self._adapter, self._device, self._characteristic
        steps = {
            "SetDiscoveryFilter": (adapter, ADAPTER1, "SetDiscoveryFilter", "a{sv}", dbus.Dictionary({"Transport": "le"}, "sv")),
            "StopDiscovery before": (adapter, ADAPTER1, "StopDiscovery"),
            "StartDiscovery": (adapter, ADAPTER1, "StartDiscovery"),
            "StartDiscovery again": (adapter, ADAPTER1, "StartDiscovery"),
            "StopDiscovery": (adapter, ADAPTER1, "StopDiscovery"),
            "Disconnect before": (device, DEVICE1, "Disconnect"),
            "ReadValue before": (characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", NOTHING),
            "Connect": (device, DEVICE1, "Connect"),
            "Connect again": (device, DEVICE1, "Connect"),
            "ReadValue": (characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", NOTHING),
            "WriteValue": (characteristic, CHARACTERISTIC1, "WriteValue", "aya{sv}", dbus.ByteArray(b"\2"), NOTHING),
            "StopNotify before": (characteristic, CHARACTERISTIC1, "StopNotify"),
            "StartNotify": (characteristic, CHARACTERISTIC1, "StartNotify"),
            "StartNotify again": (characteristic, CHARACTERISTIC1, "StartNotify"),
            "StopNotify": (characteristic, CHARACTERISTIC1, "StopNotify"),
            "AcquireNotify": ("AcquireNotify", "NotifyAcquired"),
            "AcquireWrite": ("AcquireWrite", "WriteAcquired"),
            "Disconnect": (device, DEVICE1, "Disconnect"),
            "an unknown method": (device, DEVICE1, "Explode"),
        }
        until = {
            "StartDiscovery": ["Discovering=True"], "StopDiscovery": ["Discovering=False"], "Connect": ["ServicesResolved=True"],
            "StartNotify": ["Notifying=True", "Value"], "StopNotify": ["Notifying=False"], "Disconnect": ["Connected=False"],
        }
        return {
            name: self.acquire(*step) if len(step) == 2 else self.call(*step, until=until.get(name, ()))[1]
            for name, step in steps.items()
        }


print(json.dumps(Recorder(*sys.argv[1:]).run()), flush=True)
