# SPDX-License-Identifier: Apache-2.0
"""sd-bus, through the Python binding sdbus: classes that declare the interfaces of org.bluez, as its documentation has it."""

import asyncio

from lines import CHARACTERISTIC1, DEVICE1, SERVICE1, say, serve
from sdbus import DbusInterfaceCommonAsync, dbus_method_async, dbus_property_async, sd_bus_open_system, set_default_bus
from sdbus_async.dbus_daemon import FreedesktopDbus
from sdbus import DbusObjectManagerInterfaceAsync


class Device(DbusInterfaceCommonAsync, interface_name=DEVICE1):
    @dbus_method_async()
    async def connect(self) -> None:
        raise NotImplementedError

    @dbus_method_async()
    async def disconnect(self) -> None:
        raise NotImplementedError

    @dbus_property_async("b")
    def connected(self) -> bool:
        raise NotImplementedError

    @dbus_property_async("b")
    def services_resolved(self) -> bool:
        raise NotImplementedError


class Characteristic(DbusInterfaceCommonAsync, interface_name=CHARACTERISTIC1):
    @dbus_method_async("a{sv}", "ay")
    async def read_value(self, options: dict) -> bytes:
        raise NotImplementedError

    @dbus_method_async("aya{sv}")
    async def write_value(self, value: bytes, options: dict) -> None:
        raise NotImplementedError

    @dbus_method_async()
    async def start_notify(self) -> None:
        raise NotImplementedError

    @dbus_property_async("ay")
    def value(self) -> bytes:
        raise NotImplementedError


class Client:
    def __init__(self):
        self.manager = DbusObjectManagerInterfaceAsync.new_proxy("org.bluez", "/")
        self.tasks = [asyncio.create_task(self.owners())]
        self.device = self.path = None

    def follow(self, coroutine):
        self.tasks.append(asyncio.create_task(coroutine))

    async def owners(self):
        async for name, _, new in FreedesktopDbus().name_owner_changed:
            if name == "org.bluez" and not new:
                say("bluez gone")

    async def having(self, name, beneath="/"):
        objects = await self.manager.get_managed_objects()
        return [(path, each[name]) for path, each in objects.items() if name in each and path.startswith(beneath)]

    async def list(self):
        return sorted(each["Address"][1] for _, each in await self.having(DEVICE1))

    async def connect(self, address):
        [path] = [path for path, each in await self.having(DEVICE1) if each["Address"][1] == address]
        if path != self.path:
            self.path, self.device = path, Device.new_proxy("org.bluez", path)
            self.resolved = asyncio.Event()
            self.follow(self.states(self.device))
            # The task has to ask for the signals before the call that causes them.
            await asyncio.sleep(0)
        self.resolved.clear()
        await self.device.connect()
        if not await self.device.services_resolved:
            await self.resolved.wait()

    async def states(self, device):
        async for interface, values, _ in device.properties_changed:
            if interface == DEVICE1 and values.get("Connected", ("b", True))[1] is False:
                say("disconnected")
            if interface == DEVICE1 and values.get("ServicesResolved", ("b", False))[1]:
                self.resolved.set()

    async def characteristic(self, uuid):
        [path] = [path for path, each in await self.having(CHARACTERISTIC1, self.path) if each["UUID"][1] == uuid]
        return Characteristic.new_proxy("org.bluez", path)

    async def services(self):
        return sorted(each["UUID"][1] for _, each in await self.having(SERVICE1, self.path))

    async def read(self, uuid):
        return [(await (await self.characteristic(uuid)).read_value({})).hex()]

    async def write(self, uuid, value):
        await (await self.characteristic(uuid)).write_value(bytes.fromhex(value), {})

    async def notify(self, uuid):
        characteristic = await self.characteristic(uuid)
        self.follow(self.values(characteristic))
        await asyncio.sleep(0)
        await characteristic.start_notify()

    async def values(self, characteristic):
        async for interface, values, _ in characteristic.properties_changed:
            if interface == CHARACTERISTIC1 and "Value" in values:
                say("value", bytes(values["Value"][1]).hex())

    async def disconnect(self):
        await self.device.disconnect()


async def main():
    set_default_bus(sd_bus_open_system())
    await serve(Client())


asyncio.run(main())
