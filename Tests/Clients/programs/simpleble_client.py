# SPDX-License-Identifier: Apache-2.0
"""SimpleBLE, through its Python binding simplepyble. It asks libdbus to be called for an answer after it has sent the call; an answer that
another of its threads has read by then is lost, and the call times out. So a call that timed out is made again: on a busy machine two
answers in a row are lost now and then."""

import contextlib
import functools

import simplepyble
from lines import say, serve_blocking


TRIES = 4


def patiently(method):
    @functools.wraps(method)
    def call(*arguments):
        for left in reversed(range(TRIES)):
            try:
                return method(*arguments)
            except RuntimeError as failure:
                if "D-Bus call timed out" not in str(failure) or not left:
                    raise

    return call


class Client:
    def __init__(self):
        self.adapter = None
        self.peripheral = None

    def scan(self):
        if self.adapter is None:
            self.adapter = simplepyble.Adapter.get_adapters()[0]
        try:
            self.adapter.scan_for(1000)
        except RuntimeError:
            # The answer that was lost may be StartDiscovery's: then the discovery goes on.
            with contextlib.suppress(RuntimeError):
                self.adapter.scan_stop()
            raise
        return self.adapter.scan_get_results()

    @patiently
    def list(self):
        return sorted(each.address() for each in self.scan())

    @patiently
    def connect(self, address):
        [self.peripheral] = [each for each in self.scan() if each.address() == address]
        self.peripheral.set_callback_on_disconnected(lambda: say("disconnected"))
        self.peripheral.connect()

    def characteristic(self, uuid):
        return next((service.uuid(), each.uuid()) for service in self.peripheral.services() for each in service.characteristics()
                    if each.uuid() == uuid)

    @patiently
    def services(self):
        return sorted(each.uuid() for each in self.peripheral.services())

    @patiently
    def read(self, uuid):
        return [self.peripheral.read(*self.characteristic(uuid)).hex()]

    @patiently
    def write(self, uuid, value):
        self.peripheral.write_request(*self.characteristic(uuid), bytes.fromhex(value))

    @patiently
    def notify(self, uuid):
        self.peripheral.notify(*self.characteristic(uuid), lambda value: say("value", value.hex()))

    @patiently
    def disconnect(self):
        self.peripheral.disconnect()


serve_blocking(Client())
