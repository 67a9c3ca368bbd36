# SPDX-License-Identifier: Apache-2.0
"""bleak over the door, as Home Assistant has it: habluetooth's manager takes bleak's place, and each gateway is a scanner of bleak-esphome.
Without arguments the gateways are those of DOORS: address=key, separated by spaces."""

import asyncio
import os

from habluetooth import BluetoothManager, set_manager
from bluetooth_adapters import BluetoothAdapters
from lines import say, serve


class Manager(BluetoothManager):
    """Home Assistant handles discoveries in its own subclass."""

    def _discover_service_info(self, service_info):
        pass


class NoAdapters(BluetoothAdapters):
    """This machine has none: all Bluetooth is elsewhere."""
    adapters = {}
    default_adapter = ""


async def main():
    manager = Manager(NoAdapters())
    set_manager(manager)
    await manager.async_setup()
    # Only now: the manager has replaced bleak's classes.
    import bleak_client

    class Client(bleak_client.Client):
        async def heard(self, address, gateways):
            """Waits until so many gateways have heard the device."""
            while len(manager.async_scanner_devices_by_address(address, True)) < int(gateways):
                await asyncio.sleep(0.05)

        async def connect(self, address):
            # The manager connects to devices that a scanner has heard.
            while manager.async_ble_device_from_address(address, True) is None:
                await asyncio.sleep(0.05)
            await super().connect(address)

    from bleak_esphome import APIConnectionManager
    for door in os.environ["DOORS"].split():
        address, key = door.split("=", 1)
        await APIConnectionManager({"address": address, "noise_psk": key}).start()
    await serve(Client())


asyncio.run(main())
