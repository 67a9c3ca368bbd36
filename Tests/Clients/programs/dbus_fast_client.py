# SPDX-License-Identifier: Apache-2.0
"""dbus-fast by itself, the way its documentation has it: proxy objects from `Introspect`."""

import asyncio

from dbus_fast import BusType
from dbus_fast.aio import MessageBus
from lines import CHARACTERISTIC1, DEVICE1, SERVICE1, say, serve


class Client:
    async def start(self):
        self.bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
        asyncio.get_running_loop().create_task(self.closed())
        root = await self.interface("/", "org.freedesktop.DBus.ObjectManager")
        self.objects = root.call_get_managed_objects
        driver = self.bus.get_proxy_object(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", await self.bus.introspect("org.freedesktop.DBus", "/org/freedesktop/DBus"))
        driver.get_interface("org.freedesktop.DBus").on_name_owner_changed(
            lambda name, _, new: name == "org.bluez" and not new and say("bluez gone"))
        return self

    async def closed(self):
        try:
            await self.bus.wait_for_disconnect()
        finally:
            say("bus gone")

    async def interface(self, path, name):
        return self.bus.get_proxy_object("org.bluez", path, await self.bus.introspect("org.bluez", path)).get_interface(name)

    async def having(self, name, beneath="/"):
        return [(path, each[name]) for path, each in (await self.objects()).items() if name in each and path.startswith(beneath)]

    async def list(self):
        return sorted(each["Address"].value for _, each in await self.having(DEVICE1))

    async def connect(self, address):
        [self.path] = [path for path, each in await self.having(DEVICE1) if each["Address"].value == address]
        self.device = await self.interface(self.path, DEVICE1)
        resolved = asyncio.Event()
        properties = await self.interface(self.path, "org.freedesktop.DBus.Properties")

        def changed(_, values, __):
            if "Connected" in values and not values["Connected"].value:
                say("disconnected")
            if "ServicesResolved" in values and values["ServicesResolved"].value:
                resolved.set()

        properties.on_properties_changed(changed)
        await self.device.call_connect()
        if not await self.device.get_services_resolved():
            await resolved.wait()

    async def characteristic(self, uuid):
        [found] = [path for path, each in await self.having(CHARACTERISTIC1, self.path) if each["UUID"].value == uuid]
        return found

    async def services(self):
        return sorted(each["UUID"].value for _, each in await self.having(SERVICE1, self.path))

    async def read(self, uuid):
        characteristic = await self.interface(await self.characteristic(uuid), CHARACTERISTIC1)
        return [(await characteristic.call_read_value({})).hex()]

    async def write(self, uuid, value):
        characteristic = await self.interface(await self.characteristic(uuid), CHARACTERISTIC1)
        await characteristic.call_write_value(bytes.fromhex(value), {})

    async def notify(self, uuid):
        path = await self.characteristic(uuid)
        properties = await self.interface(path, "org.freedesktop.DBus.Properties")
        properties.on_properties_changed(lambda _, values, __: "Value" in values and say("value", values["Value"].value.hex()))
        await (await self.interface(path, CHARACTERISTIC1)).call_start_notify()

    async def disconnect(self):
        await self.device.call_disconnect()


async def main():
    await serve(await Client().start())


asyncio.run(main())
