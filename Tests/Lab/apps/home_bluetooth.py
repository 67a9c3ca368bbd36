# SPDX-License-Identifier: Apache-2.0
"""The Bluetooth of Home Assistant: habluetooth, bleak-retry-connector and dbus-fast as they come from PyPI, set up as Home Assistant does.
Finds the given number of dice, connects, and prints their rolls. At each line of its input it reads every die once more."""

import asyncio
import sys

import bleak_retry_connector
from bleak.exc import BleakError
from bleak_retry_connector import BleakSlotManager, establish_connection
from bluetooth_adapters import get_adapters
from habluetooth import BluetoothManager, BluetoothScanningMode, HaScanner, set_manager

ROLLS = "0000ff3f-0000-1000-8000-00805f9b34fb"


def say(*words):
    print(*words, flush=True)


async def scanner_of(adapters, manager):
    [(adapter, details)] = adapters.adapters.items()
    scanner = HaScanner(BluetoothScanningMode.ACTIVE, adapter, details["address"])
    scanner.async_setup()
    manager.async_register_scanner(scanner, connection_slots=5)
    await scanner.async_start()
    return scanner


async def found(manager, count):
    """The first so many devices that are heard."""
    enough = asyncio.Event()

    def heard(*_):
        if len(list(manager.async_discovered_service_info(True))) >= count:
            enough.set()

    manager.async_register_bleak_callback(heard, {})
    await enough.wait()
    return sorted((each.device for each in manager.async_discovered_service_info(True)), key=lambda each: each.address)


async def main(count):
    adapters, slots = get_adapters(), BleakSlotManager()
    await adapters.refresh()
    manager = BluetoothManager(adapters, slots)
    set_manager(manager)
    await manager.async_setup()
    await scanner_of(adapters, manager)
    devices = await found(manager, count)
    say("found", *(each.address for each in devices))
    clients = []
    for device in devices:
        client = await establish_connection(
            bleak_retry_connector.BleakClientWithServiceCache, device, device.name,
            disconnected_callback=lambda client: say("disconnected", client.address))
        await client.start_notify(ROLLS, lambda _, value, device=device: say("rolled", device.address, value.hex()))
        say("connected", device.address)
        clients.append(client)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        for client in clients:
            try:
                say("read", client.address, (await client.read_gatt_char(ROLLS)).hex())
            except BleakError as error:
                say("failed", client.address, error)


asyncio.run(main(int(sys.argv[1])))
