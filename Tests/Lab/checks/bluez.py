# SPDX-License-Identifier: Apache-2.0
"""A small client of BlueZ for checks that have no daemon of ours between them and bluetoothd: discovery, pairing with
an agent of the check's own, and GATT."""

import dbus
import dbus.service

from lab import CheckFailed, expect

ADAPTER = "/org/bluez/hci0"
AGENT = "/lab/agent"
AGENT_INTERFACE = "org.bluez.Agent1"


class Rejected(dbus.DBusException):
    _dbus_error_name = "org.bluez.Error.Rejected"


class Agent(dbus.service.Object):
    """The person at the gateway. `passkey` returns the typed digits, `on_display` receives the displayed ones, `confirm`
    is the answer to a number; `asked` keeps the questions in their order, as (name, number)."""

    def __init__(self, bus, passkey=None, on_display=None, confirm=True):
        super().__init__(bus, AGENT)
        self.asked = []
        self._passkey = passkey
        self._on_display = on_display
        self._confirm = confirm

    @dbus.service.method(AGENT_INTERFACE, in_signature="o", out_signature="u")
    def RequestPasskey(self, _device):
        self.asked.append(("RequestPasskey", None))
        if self._passkey is None:
            raise Rejected("nobody there")
        return dbus.UInt32(self._passkey())

    @dbus.service.method(AGENT_INTERFACE, in_signature="ouq")
    def DisplayPasskey(self, _device, passkey, _entered):
        if ("DisplayPasskey", int(passkey)) in self.asked:
            return  # called again for each digit entered
        self.asked.append(("DisplayPasskey", int(passkey)))
        if self._on_display is not None:
            self._on_display(int(passkey))

    @dbus.service.method(AGENT_INTERFACE, in_signature="ou")
    def RequestConfirmation(self, _device, passkey):
        self.asked.append(("RequestConfirmation", int(passkey)))
        if not self._confirm:
            raise Rejected("the numbers differ")

    @dbus.service.method(AGENT_INTERFACE, in_signature="o")
    def RequestAuthorization(self, _device):
        self.asked.append(("RequestAuthorization", None))

    @dbus.service.method(AGENT_INTERFACE)
    def Cancel(self):
        self.asked.append(("Cancel", None))

    @dbus.service.method(AGENT_INTERFACE)
    def Release(self):
        pass


class Call:
    """A method call under way: `error` is the D-Bus error's name, or None after success."""

    def __init__(self, lab, interface, method, *arguments, seconds=60):
        self._lab = lab
        self._what = method
        self.done = False
        self.error = None
        self.message = ""
        self.result = None
        getattr(interface, method)(
            *arguments, timeout=seconds, reply_handler=self._succeeded, error_handler=self._failed)

    def _succeeded(self, *result):
        self.done, self.result = True, result[0] if result else None

    def _failed(self, error):
        self.done, self.error, self.message = True, error.get_dbus_name(), error.get_dbus_message()

    def wait(self, seconds=30):
        self._lab.wait_until(lambda: self.done, seconds, f"{self._what} to answer")
        return self


class BlueZ:
    """BlueZ through one connection. Registers its agent as the connection's own, as the project's daemon does."""

    def __init__(self, lab, capability="KeyboardDisplay", **person):
        self._lab = lab
        self._capability = capability
        self.agent = Agent(lab.bus, **person)
        self.adapter = self._interface(ADAPTER, "org.bluez.Adapter1")
        self.register_agent()

    def register_agent(self):
        """Done at the start; to be done again when bluetoothd was."""
        manager = self._interface("/org/bluez", "org.bluez.AgentManager1")
        manager.RegisterAgent(dbus.ObjectPath(AGENT), self._capability)

    def _interface(self, path, name):
        return dbus.Interface(self._lab.bus.get_object("org.bluez", path, introspect=False), name)

    def device_call(self, address, method, *arguments, seconds=60):
        path = self._lab.bluez_devices()[address]["path"]
        return Call(self._lab, self._interface(path, "org.bluez.Device1"), method, *arguments, seconds=seconds)

    def discover(self):
        self.adapter.SetDiscoveryFilter(dbus.Dictionary({"Transport": "le", "DuplicateData": True}, signature="sv"))
        try:
            self.adapter.StartDiscovery()
        except dbus.DBusException as error:
            if error.get_dbus_name() != "org.bluez.Error.InProgress":  # ours, from before
                raise

    def find(self, address, seconds=15, **properties):
        """Waits until a device is known with these properties; returns all it has."""

        def look():
            device = self._lab.bluez_devices().get(address)
            return device if device and all(device.get(key) == value for key, value in properties.items()) else None

        return self._lab.wait_until(look, seconds, f"device {address} {properties or ''}")

    def pair(self, address, seconds=30):
        """Discovers, pairs and returns the error's short name, or None if it worked."""
        self.discover()
        self.find(address)
        error = self.device_call(address, "Pair").wait(seconds).error
        return error and error.removeprefix("org.bluez.Error.")

    def expect_paired(self, address, authenticated=None):
        """Pairs, which has to work, and looks at the bond in bluetoothd's store."""
        self.expect_pair_error(address, None)
        self.expect_bond(address, authenticated)

    def expect_pair_error(self, address, expected, seconds=30):
        error = self.pair(address, seconds)
        expect(error == expected, f"Pair answered {error}, not {expected}")

    def expect_bond(self, address, authenticated=None):
        bond = self._lab.wait_until(lambda: self._lab.bonds().get(address), 5, f"a bond with {address}")
        if authenticated is not None:
            # bluetoothd files keys of secure connections under the peripheral's.
            key = bond.get("PeripheralLongTermKey") or bond["LongTermKey"]
            # Odd types of key are protected against a man in the middle (kernel's mgmt API: Load Long Term Keys).
            kind = int(key["Authenticated"])
            expect((kind % 2 == 1) == authenticated, f"the bond's key is of type {kind}")
        return bond

    def characteristic(self, address, uuid, seconds=15):
        """The interface of a characteristic, once its services are resolved and exported."""
        device = self.find(address, seconds, ServicesResolved=True)["path"]

        def look():
            for path, interfaces in self._lab.bluez_objects().items():
                found = interfaces.get("org.bluez.GattCharacteristic1")
                if found and path.startswith(device) and found["UUID"] == uuid:
                    return path
            return None

        path = self._lab.wait_until(look, seconds, f"characteristic {uuid}")
        return self._interface(path, "org.bluez.GattCharacteristic1")

    def read(self, characteristic, seconds=10):
        options = dbus.Dictionary({}, signature="sv")
        call = Call(self._lab, characteristic, "ReadValue", options, seconds=seconds).wait(seconds + 1)
        if call.error:
            raise CheckFailed(f"ReadValue answered {call.error}: {call.message}")
        return bytes(call.result)

    def write(self, characteristic, value):
        call = Call(self._lab, characteristic, "WriteValue", dbus.ByteArray(value), dbus.Dictionary({}, signature="sv"))
        call.wait()
        expect(call.error is None, f"WriteValue answered {call.error}: {call.message}")

    def notified_values(self, characteristic):
        """Subscribes; the list that is returned grows with each value notified."""
        values = []

        def changed(_interface, properties, _invalidated):
            if "Value" in properties:
                values.append(bytes(properties["Value"]))

        self._lab.bus.add_signal_receiver(
            changed, "PropertiesChanged", "org.freedesktop.DBus.Properties", "org.bluez", characteristic.object_path)
        call = Call(self._lab, characteristic, "StartNotify").wait()
        expect(call.error is None, f"StartNotify answered {call.error}: {call.message}")
        return values
