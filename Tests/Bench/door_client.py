# SPDX-License-Identifier: Apache-2.0
"""A client of Tests/Bench/door: `local` is bleak on the app's socket, `door` is aioesphomeapi with bleak-esphome over the door."""

import asyncio
import os
import statistics
import sys
import time

KIND, TASK, AMOUNT = sys.argv[1:]
ROLLS = "0000ff3f-0000-1000-8000-00805f9b34fb"
ADDRESS = "C0:FF:EE:00:02:01"


async def read(client):
    times = []
    for _ in range(int(AMOUNT)):
        began = time.perf_counter()
        await client.read_gatt_char(ROLLS)
        times.append(time.perf_counter() - began)
    print("result", 1000 * statistics.median(times), flush=True)


async def local():
    from bleak import BleakClient, BleakScanner
    if TASK == "read":
        await BleakScanner.find_device_by_address(ADDRESS, timeout=30)
        async with BleakClient(ADDRESS) as client:
            return await read(client)
    heard = 0

    def count(_device, _advert):
        nonlocal heard
        heard += 1

    async with BleakScanner(count):
        await asyncio.sleep(1)
        heard = 0
        began = time.perf_counter()
        await asyncio.sleep(float(AMOUNT))
        print("result", heard / (time.perf_counter() - began), flush=True)


async def door():
    address, key = os.environ["DOOR"].split("=", 1)
    if TASK == "read":
        from bleak_esphome import APIConnectionManager
        from bluetooth_adapters import BluetoothAdapters
        from habluetooth import BluetoothManager, set_manager
        manager = BluetoothManager(type("NoAdapters", (BluetoothAdapters,), {"adapters": {}, "default_adapter": ""})())
        set_manager(manager)
        await manager.async_setup()
        import bleak
        await APIConnectionManager({"address": address, "noise_psk": key}).start()
        while manager.async_ble_device_from_address(ADDRESS, True) is None:
            await asyncio.sleep(0.05)
        async with bleak.BleakClient(ADDRESS) as client:
            return await read(client)
    from aioesphomeapi import APIClient
    client = APIClient(address=address, port=6053, password=None, noise_psk=key)
    await client.connect(login=True)
    heard = 0

    def count(message):
        nonlocal heard
        heard += len(message.advertisements)

    client.subscribe_bluetooth_le_raw_advertisements(count)
    await asyncio.sleep(1)
    heard = 0
    began = time.perf_counter()
    await asyncio.sleep(float(AMOUNT))
    print("result", heard / (time.perf_counter() - began), flush=True)


asyncio.run({"local": local, "door": door}[KIND]())
os._exit(0)
