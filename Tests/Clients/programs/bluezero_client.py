# SPDX-License-Identifier: Apache-2.0
"""bluezero's central role."""

from bluezero import adapter, central, device
from bluezero import constants, dbus_tools
from lines import say, serve_glib


class Client:
    def __init__(self):
        self.adapter = self.central = None

    def list(self):
        """Of the adapter there is: an object of the library's stays with one bluetoothd."""
        self.adapter = adapter.Adapter()
        self.adapter.on_disconnect = lambda _adapter, _device: say("disconnected")
        return sorted(str(each.address) for each in device.Device.available(self.adapter.address))

    def connect(self, address):
        if self.adapter is None:
            self.list()
        self.central = central.Central(address, self.adapter.address)
        self.central.connect()
        self.characteristics = {}

    def characteristic(self, uuid):
        """The library asks for its service, too."""
        if uuid not in self.characteristics:
            path = self.central.rmt_device.remote_device_path
            objects = dbus_tools.get_managed_objects()
            found = [each[constants.GATT_CHRC_IFACE] for at, each in objects.items()
                     if at.startswith(path) and each.get(constants.GATT_CHRC_IFACE, {}).get("UUID") == uuid]
            service = objects[found[0]["Service"]][constants.GATT_SERVICE_IFACE]["UUID"]
            self.characteristics[uuid] = self.central.add_characteristic(service, uuid)
            self.central.load_gatt()
        return self.characteristics[uuid]

    def services(self):
        """From all objects: `services_available` only contains the advertised ones."""
        path = self.central.rmt_device.remote_device_path
        return sorted(str(each[constants.GATT_SERVICE_IFACE]["UUID"]) for at, each in dbus_tools.get_managed_objects().items()
                      if at.startswith(path) and constants.GATT_SERVICE_IFACE in each)

    def read(self, uuid):
        return [bytes(self.characteristic(uuid).value).hex()]

    def write(self, uuid, value):
        self.characteristic(uuid).value = list(bytes.fromhex(value))

    def notify(self, uuid):
        characteristic = self.characteristic(uuid)
        characteristic.add_characteristic_cb(
            lambda _, values, __: "Value" in values and say("value", bytes(values["Value"]).hex()))
        characteristic.start_notify()

    def disconnect(self):
        self.central.disconnect()


serve_glib(Client())
