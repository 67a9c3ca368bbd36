# SPDX-License-Identifier: Apache-2.0
"""An app over bleak as it comes from PyPI, which is independent of this project: finds dice, reads one and is notified of its
rolls; then it stays until it is disconnected and prints the results of its calls. DBUS_SYSTEM_BUS_ADDRESS names its bus."""

import asyncio

from bleak import BleakClient, BleakScanner
from bleak.exc import BleakError

ROLLS = "0000ff3f-0000-1000-8000-00805f9b34fb"


def say(*words):
    print(*words, flush=True)


async def main():
    heard = asyncio.Event()
    async with BleakScanner(lambda _device, _advert: heard.set()) as scanner:
        # An advert may take long in an emulated machine. Other output has as much time after it as it usually
        # takes.
        await heard.wait()
        await asyncio.sleep(2.0)
        devices = scanner.discovered_devices
    say("found", *sorted(each.address for each in devices))
    lost = asyncio.Event()

    def on_disconnect(_):
        say("disconnected")
        lost.set()

    client = BleakClient(devices[0], disconnected_callback=on_disconnect, timeout=30)
    await client.connect()
    say("read", (await client.read_gatt_char(ROLLS)).hex())
    await client.start_notify(ROLLS, lambda _, value: say("rolled", value.hex()))
    await lost.wait()
    for name, call in {
        "read": lambda: client.read_gatt_char(ROLLS), "notify": lambda: client.start_notify(ROLLS, print), "connect": client.connect,
    }.items():
        try:
            await call()
            say("later", name, "works")
        except (BleakError, TimeoutError) as error:
            say("later", name, "fails:", f"{type(error).__name__}: {error}")
    try:
        say("then finds", *sorted(each.address for each in await BleakScanner.discover(timeout=1.0)))
    except BleakError as error:
        say("then finds nothing:", error)


asyncio.run(main())
