# SPDX-License-Identifier: Apache-2.0
"""SimpleBLE, through its Python binding simplepyble."""

import simplepyble
from lines import say, serve_blocking


class Client:
    def __init__(self):
        self.adapter = None
        self.peripheral = None

    def scan(self):
        if self.adapter is None:
            self.adapter = simplepyble.Adapter.get_adapters()[0]
        self.adapter.scan_for(1000)
        return self.adapter.scan_get_results()

    def list(self):
        return sorted(each.address() for each in self.scan())

    def connect(self, address):
        [self.peripheral] = [each for each in self.scan() if each.address() == address]
        self.peripheral.set_callback_on_disconnected(lambda: say("disconnected"))
        self.peripheral.connect()

    def characteristic(self, uuid):
        return next((service.uuid(), each.uuid()) for service in self.peripheral.services() for each in service.characteristics()
                    if each.uuid() == uuid)

    def services(self):
        return sorted(each.uuid() for each in self.peripheral.services())

    def read(self, uuid):
        return [self.peripheral.read(*self.characteristic(uuid)).hex()]

    def write(self, uuid, value):
        self.peripheral.write_request(*self.characteristic(uuid), bytes.fromhex(value))

    def notify(self, uuid):
        self.peripheral.notify(*self.characteristic(uuid), lambda value: say("value", value.hex()))

    def disconnect(self):
        self.peripheral.disconnect()


serve_blocking(Client())
