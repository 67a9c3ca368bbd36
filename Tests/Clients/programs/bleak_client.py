# SPDX-License-Identifier: Apache-2.0
"""bleak, as its documentation has it: a scanner that looks for the accessory, and a client for it."""

import asyncio

from bleak import BleakClient, BleakScanner
from lines import say, serve


class Client:
    def __init__(self):
        self.client = None

    async def list(self):
        heard = asyncio.Event()
        async with BleakScanner(detection_callback=lambda _device, _advert: heard.set()) as scanner:
            await heard.wait()
            return sorted(each.address for each in scanner.discovered_devices)

    async def connect(self, address):
        self.client = BleakClient(address, disconnected_callback=lambda _: say("disconnected"), timeout=60)
        await self.client.connect()

    async def services(self):
        return sorted(each.uuid for each in self.client.services)

    async def read(self, uuid):
        return [(await self.client.read_gatt_char(uuid)).hex()]

    async def write(self, uuid, value):
        await self.client.write_gatt_char(uuid, bytes.fromhex(value), response=True)

    async def notify(self, uuid):
        await self.client.start_notify(uuid, lambda _, value: say("value", value.hex()))

    async def disconnect(self):
        await self.client.disconnect()


if __name__ == "__main__":
    asyncio.run(serve(Client()))
