# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the door: an app that is elsewhere, with one accessory, and its clients."""

import signal

from harness.apps import App
from harness.door import Door, Key
from harness.esphome import ESPHomeClient, address
from harness.names import GRANT, NAME, OBJECT_MANAGER, PINK, PROPERTIES, ROOT, SOMEBODY
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest
from view import BLUEZ, DEVICE1, path_of

DICE = "com.example.dice"
PINKS, OTHER = address("C0:FF:EE:00:02:01"), address("C0:FF:EE:00:02:02")
ROLLS, WRITTEN, CONFIGURATION = 0xFF3F, 0xFF40, 0x2902
GATT = [{"uuid": PINK, "characteristics": [
    {"uuid": "FF3F", "flags": ["read", "notify"], "value": "01", "notify": {"interval": 0.05, "values": ["03", "06", "01"]}},
    {"uuid": "FF40", "flags": ["read", "write", "write-without-response"], "value": "00",
     "descriptors": [{"uuid": "2901", "value": "486f"}]}]}]


def adverts(name, company="FFFF"):
    return [{"interval": 0.05, "rssi": rssi, "serviceUUIDs": [PINK], "name": name, "manufacturerData": {company: "0102"}, "txPower": 4,
             "serviceData": {"180F": "63"}} for rssi in (-50, -60)]


def short(uuid):
    """The number of a short UUID."""
    return uuid[0] >> 32


class DoorTest(APITest):
    """The app dice is elsewhere. Its accessory is pink."""

    scenario = scenario(accessory("pink", 1, gatt=GATT, adverts=adverts("pink")), accessory("other", 2, gatt=GATT, adverts=adverts("other")))
    settings = "Announce=no\n"
    item = item("Pink")

    def setUp(self):
        super().setUp()
        self.clients = []
        self.key = Key(self.world.directory)
        self.declare()
        self.person = self.picker()
        self.dice = App(self.world, "stranger", SOMEBODY, self.world.app_sockets / DICE / "bus").begin()
        self.accessory = self.add(self.dice, self.person, "pink", self.item)
        if self.linked():
            self.world.admin.call(path_of(1), DEVICE1, "Disconnect", to=BLUEZ)
        self.door = self.open()
        self.door.wait_key()

    def declare(self, app="dice", **keys):
        self.world.declare(app, **{"Executable": None, "SocketUser": SOMEBODY, "Remote": self.key.file} | keys)
        wait((self.world.app_sockets / f"com.example.{app}" / "bus").exists, 10, "the socket", also_every=0.02)

    def open(self, **more):
        door = Door(self.world, settings=self.settings, **more)
        self.addCleanup(lambda: door.stop(signal.SIGKILL))
        return door

    def client(self, key=None, **more):
        client = ESPHomeClient(self.door, key or self.key, **more)
        self.addCleanup(client.close)
        return client

    def connected(self, **more):
        """A client with a link to pink."""
        client = self.client(**more)
        self.assertTrue(client.connect(PINKS).connected)
        return client

    def hear(self, client):
        """The client is subscribed, and has heard pink."""
        client.send("SubscribeBluetoothLEAdvertisementsRequest", flags=1)
        client.wait("BluetoothLERawAdvertisementsResponse", fits=lambda message: any(each.address == PINKS for each in message.advertisements))
        return client

    def handle(self, client, uuid, device=PINKS):
        """The handle of the attribute with this UUID."""
        characteristics = [each for service in client.services(device) for each in service.characteristics]
        return next(each.handle for parent in characteristics for each in (parent, *parent.descriptors) if short(each.uuid) == uuid)

    def linked(self):
        objects = self.world.admin.call("/", OBJECT_MANAGER, "GetManagedObjects", to=BLUEZ)
        return bool(objects.get(path_of(1), {}).get(DEVICE1, {}).get("Connected"))

    def grant(self):
        return next(path for path, each in self.world.grants().items() if each["App"] == DICE)

    def switch(self, enabled):
        self.world.admin.call(self.grant(), PROPERTIES, "Set", "ssv", GRANT, "Enabled", enabled)

    def trail(self):
        return self.world.admin.call(ROOT + "/admin", f"{NAME}.Admin", "GetAudit", "a{sv}", sv({}))
