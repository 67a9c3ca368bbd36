# SPDX-License-Identifier: Apache-2.0
"""The door: an app elsewhere uses its accessories by ESPHome's native API, and nothing else. Tests/Clients plays unmodified bleak-esphome;
here the messages are a test's own."""

import hashlib
import os
import signal

import dbus.service

from doors import CONFIGURATION, DICE, GATT, OTHER, PINKS, ROLLS, WRITTEN, DoorTest, adverts, short
from harness.clients import Client
from harness.door import Key
from harness.esphome import CLEAR_CACHE, PAIR, UNPAIR, Refused
from harness.names import BUS_ERROR, GRANT, NAME, PINK, ROOT, SOMEBODY
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait


class Gateway(DoorTest):
    def test_the_gateway_and_its_capabilities(self):
        client = self.client()
        name, mac = client.server[1:].split(b"\0")[:2]
        client.send("DeviceInfoRequest")
        info = client.wait("DeviceInfoResponse")
        self.assertEqual((info.name, info.mac_address, info.bluetooth_mac_address), (name.decode(), mac.decode(), mac.decode()))
        self.assertEqual(info.name, "gateway")
        # Adverts, links, services that the client keeps, raw adverts, the scanner's state; no pairing and no cache.
        self.assertEqual(info.bluetooth_proxy_feature_flags, 1 | 2 | 4 | 32 | 64)
        # Locally administered, and none of this machine's.
        self.assertEqual(int(info.mac_address[:2], 16) & 3, 2)
        client.send("ListEntitiesRequest")
        client.wait("ListEntitiesDoneResponse")
        # Home Assistant sends these to every device.
        for other in ("SubscribeStatesRequest", "SubscribeLogsRequest", "SubscribeHomeassistantServicesRequest"):
            client.send(other)
        client.settle()
        client.send("NoiseEncryptionSetKeyRequest", key=b"x" * 44)
        self.assertFalse(client.wait("NoiseEncryptionSetKeyResponse").success)
        client.send("DisconnectRequest")
        client.wait("DisconnectResponse")
        client.wait_closed()

    def test_adverts_of_granted_accessories_as_on_the_air(self):
        client = self.client()
        client.send("SubscribeBluetoothLEAdvertisementsRequest", flags=1)
        [advert] = client.wait("BluetoothLERawAdvertisementsResponse").advertisements
        from bluetooth_data_tools import parse_advertisement_data
        parsed = parse_advertisement_data([advert.data])
        self.assertEqual((parsed.local_name, parsed.service_uuids, parsed.manufacturer_data, parsed.tx_power),
                         ("pink", [PINK.lower()], {0xFFFF: b"\x01\x02"}, 4))
        self.assertEqual(parsed.service_data, {"0000180f-0000-1000-8000-00805f9b34fb": b"\x63"})
        self.assertIn(advert.rssi, (-50, -60))
        self.assertEqual(advert.address_type, 1)
        heard = {each.address for _ in range(5) for each in client.wait("BluetoothLERawAdvertisementsResponse").advertisements}
        self.assertEqual(heard, {PINKS}, "only the accessory that is granted")
        client.send("UnsubscribeBluetoothLEAdvertisementsRequest")
        wait(lambda: not self.simulator.discovering, 20, "the search to end", also_every=0.1)

    def test_adverts_by_their_parts(self):
        client = self.client()
        client.send("SubscribeBluetoothLEAdvertisementsRequest")
        advert = client.wait("BluetoothLEAdvertisementResponse")
        self.assertEqual((advert.address, advert.name, list(advert.service_uuids)), (PINKS, b"pink", [PINK.lower()]))
        self.assertEqual([(each.uuid, each.data) for each in advert.manufacturer_data], [("0xFFFF", b"\x01\x02")])
        self.assertEqual([each.data for each in advert.service_data], [b"\x63"])

    def test_the_scanners_state_and_mode(self):
        client = self.client()
        client.send("BluetoothScannerSetModeRequest", mode=0)
        state = client.wait("BluetoothScannerStateResponse")
        self.assertEqual((state.state, state.mode), (0, 1))
        client.send("SubscribeBluetoothLEAdvertisementsRequest", flags=1)
        running = client.wait("BluetoothScannerStateResponse", fits=lambda message: message.state == 2)
        self.assertEqual((running.mode, running.configured_mode), (1, 1))
        self.simulator.do("adapterPowerOff", "hci0")
        client.wait("BluetoothScannerStateResponse", fits=lambda message: message.state == 5)
        client.clear()
        self.simulator.do("adapterPowerOn", "hci0")
        client.wait("BluetoothScannerStateResponse", fits=lambda message: message.state == 2)
        client.wait("BluetoothLERawAdvertisementsResponse")

    def test_bluetoothd_restarts(self):
        client = self.hear(self.client())
        self.assertTrue(client.connect(PINKS).connected)
        self.simulator.do("serviceStopped")
        self.assertFalse(client.wait("BluetoothDeviceConnectionResponse").connected)
        client.wait("BluetoothScannerStateResponse", fits=lambda message: message.state == 5)
        client.clear()
        self.simulator.do("serviceStarted")
        client.wait("BluetoothLERawAdvertisementsResponse")
        self.assertTrue(client.connect(PINKS).connected)


class Links(DoorTest):
    settings = "Announce=no\nConnections=1\n"

    def test_services_values_and_descriptors(self):
        client = self.connected()
        [service] = client.services(PINKS)
        self.assertEqual([short(each.uuid) for each in service.characteristics], [ROLLS, WRITTEN])
        self.assertEqual([each.properties for each in service.characteristics], [0x02 | 0x10, 0x02 | 0x04 | 0x08])
        self.assertEqual([short(each.uuid) for each in service.characteristics[0].descriptors], [CONFIGURATION])
        # Handles ascend as on the accessory.
        handles = [service.handle] + [each.handle for parent in service.characteristics for each in (parent, *parent.descriptors)]
        self.assertEqual(handles, sorted(set(handles)))
        written = service.characteristics[1]
        for value, response in ((b"\x2a\x2b", True), (b"\x2c", False)):
            self.assertEqual(client.write(PINKS, written.handle, value, response).handle, written.handle)
            self.assertEqual(client.read(PINKS, written.handle), value)
        [described] = written.descriptors
        answer = client.ask("BluetoothGATTReadDescriptorRequest", PINKS, described.handle, "BluetoothGATTReadResponse")
        self.assertEqual(answer.data, b"Ho")

    def test_notifications(self):
        client = self.connected()
        rolls, configuration = self.handle(client, ROLLS), self.handle(client, CONFIGURATION)
        self.assertEqual(client.read(PINKS, configuration), b"\0\0")
        client.notify(PINKS, rolls)
        # As clients do that resolve the descriptor themselves.
        answer = client.ask("BluetoothGATTWriteDescriptorRequest", PINKS, configuration, "BluetoothGATTWriteResponse", data=b"\x01\x00")
        self.assertEqual(answer.handle, configuration)
        self.assertEqual(client.read(PINKS, configuration), b"\x01\0")
        values = [client.wait("BluetoothGATTNotifyDataResponse") for _ in range(4)]
        self.assertEqual({each.handle for each in values}, {rolls})
        self.assertLessEqual({each.data for each in values}, {b"\x01", b"\x03", b"\x06"})
        client.notify(PINKS, rolls, False)
        client.clear()
        client.read(PINKS, rolls)
        client.settle()
        self.assertEqual(client.seen("BluetoothGATTNotifyDataResponse"), [])

    def test_free_links(self):
        client = self.client()
        client.send("SubscribeBluetoothConnectionsFreeRequest")
        free = client.wait("BluetoothConnectionsFreeResponse")
        self.assertEqual((free.free, free.limit, list(free.allocated)), (1, 1, []))
        self.hear(client).device(PINKS, 5)
        taken = client.wait("BluetoothConnectionsFreeResponse")
        self.assertEqual((taken.free, list(taken.allocated)), (0, [PINKS]))
        self.assertTrue(client.wait("BluetoothDeviceConnectionResponse").connected)
        client.device(PINKS, 1)
        self.assertEqual(client.wait("BluetoothConnectionsFreeResponse").free, 1)
        wait(lambda: not self.linked(), 20, "the link to end", also_every=0.1)

    def test_no_pairing_and_no_cache(self):
        """A picker pairs."""
        client = self.connected()
        bonds = self.simulator.bonds
        for action, answer, said in ((PAIR, "Pairing", "paired"), (UNPAIR, "Unpairing", "success"), (CLEAR_CACHE, "ClearCache", "success")):
            client.device(PINKS, action)
            response = client.wait(f"BluetoothDevice{answer}Response")
            self.assertEqual((getattr(response, said), response.error), (False, 6))
        self.assertEqual(self.simulator.bonds, bonds)
        self.assertTrue(self.linked())

    def test_other_devices_do_not_exist(self):
        client = self.hear(self.client())
        for device in (OTHER, 0, 1 << 63):
            answer = client.connect(device)
            self.assertEqual((answer.connected, answer.error), (False, 0x3E))
            self.assertEqual(client.services(device).error, -1)
            self.assertEqual(client.read(device, 13), -1)

    def test_handles_that_there_are_not(self):
        client = self.connected()
        for handle in (0, 1, 0xFFFF, 0xFFFF_FFFF):
            self.assertEqual(client.read(PINKS, handle), 1)
            self.assertEqual(client.write(PINKS, handle, b"1"), 1)
            self.assertEqual(client.notify(PINKS, handle), 1)

    def test_two_clients_share_a_link(self):
        first, second = self.connected(), self.connected()
        written = self.handle(first, WRITTEN)
        self.assertFalse(first.disconnect(PINKS).connected)
        self.assertEqual(first.read(PINKS, written), -1)
        self.assertEqual(second.read(PINKS, written), b"\0")
        self.assertTrue(self.linked())
        # Also where one goes without a word.
        third = self.connected()
        third.close()
        self.assertEqual(second.read(PINKS, written), b"\0")
        second.close()
        wait(lambda: not self.linked(), 20, "the link to end with its last client", also_every=0.1)

    def test_a_link_that_breaks(self):
        client = self.connected()
        self.simulator.do("vanish", "pink")
        lost = client.wait("BluetoothDeviceConnectionResponse")
        self.assertEqual((lost.connected, lost.error), (False, 0x13))
        self.simulator.do("return", "pink")
        self.assertTrue(client.connect(PINKS).connected)


class Access(DoorTest):
    def test_the_trail_names_key_and_address(self):
        client = self.connected(source="127.3.4.5")
        client.read(PINKS, self.handle(client, WRITTEN))
        fingerprint = hashlib.sha256(self.key.secret).hexdigest()[:8]

        def named():
            return [each["who"] for each in self.trail() if each["event"] == "used" and f"for key {fingerprint} at 127.3.4.5" in each["who"]]

        [who] = wait(named, 10, lambda: f"the use; the trail has {self.trail()}", also_every=0.2)
        self.assertIn("accessory-door", who)
        self.door.wait_for(f"client connected.*127.3.4.5.*{fingerprint}")

    def test_a_grant_is_switched_off_and_on(self):
        client = self.hear(self.client())
        self.assertTrue(client.connect(PINKS).connected)
        written = self.handle(client, WRITTEN)
        self.switch(False)
        self.assertFalse(client.wait("BluetoothDeviceConnectionResponse").connected)
        self.assertEqual(client.read(PINKS, written), -1)
        wait(lambda: not self.linked(), 20, "the link to end", also_every=0.1)
        client.clear()
        self.assertFalse(client.connect(PINKS).connected)
        self.assertEqual(client.seen("BluetoothLERawAdvertisementsResponse"), [])
        self.switch(True)
        client.wait("BluetoothLERawAdvertisementsResponse")
        self.assertTrue(client.connect(PINKS).connected)
        self.assertEqual(client.read(PINKS, written), b"\0")

    def test_a_new_key_cuts_the_old_one_off(self):
        client, old = self.connected(), self.key.secret
        self.key.write(os.urandom(32))
        client.wait_closed()
        self.door.wait_key(2)
        wait(lambda: not self.linked(), 20, "the link to end", also_every=0.1)
        self.assertRaises(Refused, self.client, old)
        self.assertTrue(self.connected())

    def test_without_its_key_file(self):
        client = self.connected()
        self.key.file.unlink()
        client.wait_closed()
        self.assertRaises(Refused, self.client)
        self.assertIn("No such file", self.door.wait_for("app cannot connect"))

    def test_the_manifest_goes(self):
        client = self.connected()
        (self.world.app_directories[0] / f"{DICE}.conf").unlink()
        client.wait_closed()
        self.assertRaises(Refused, self.client)
        self.declare()
        self.door.wait_key(2)
        self.assertTrue(self.connected())

    def test_the_app_is_not_remote_any_more(self):
        client = self.connected()
        self.declare(Remote=None, Socket="yes")
        client.wait_closed()
        self.assertRaises(Refused, self.client)

    def test_addresses(self):
        inside, outside = self.connected(source="127.3.4.5"), self.connected(source="127.4.4.5")
        self.declare(RemoteAddresses="127.3.0.0/16;::1;")
        outside.wait_closed()
        inside.settle()
        # As for a wrong key: a stranger does not learn that the key is good.
        with self.assertRaises(Refused) as refused:
            self.client(source="127.4.4.5")
        self.assertEqual(str(refused.exception), "Handshake MAC failure")

    def test_less_than_full_access(self):
        self.world.admin.call(self.grant(), GRANT, "Revoke")
        self.dice.wait_event("accessoryRemoved")
        self.accessory = self.add(self.dice, self.person, "pink", item("Pink", access="read"))
        client = self.connected()
        written = self.handle(client, WRITTEN)
        self.assertEqual(client.read(PINKS, written), b"\0")
        self.assertEqual(client.write(PINKS, written, b"1"), 3)
        client.notify(PINKS, self.handle(client, ROLLS))
        client.wait("BluetoothGATTNotifyDataResponse")

    def test_two_apps_with_a_key_each(self):
        other = Key(self.world.directory, "board")
        self.declare("board", Remote=other.file)
        self.door.wait_key(2)
        board = self.client(other)
        board.send("SubscribeBluetoothLEAdvertisementsRequest", flags=1)
        self.hear(self.client())
        board.settle()
        self.assertEqual(board.seen("BluetoothLERawAdvertisementsResponse"), [], "it has no accessory")
        self.assertFalse(board.connect(PINKS).connected)
        # One key for both names neither: the second is refused.
        other.write(self.key.secret)
        self.assertIn(DICE, self.door.wait_for("app cannot connect.*is also the key of|app cannot connect.*com.example.board"))

    def test_keys_that_are_none(self):
        for text, mode, says in (("", 0o600, "32 bytes"), ("c2hvcnQ=", 0o600, "32 bytes"), (self.key.text, 0o604, "other users"),
                                 ("x" * 300, 0o600, "too large")):
            draft = self.key.file.with_suffix(".new")
            draft.write_text(text)
            draft.chmod(mode)
            os.chown(draft, SOMEBODY, SOMEBODY)
            draft.rename(self.key.file)
            self.assertIn(says, self.door.wait_for(f"app cannot connect.*{says}").lower().replace("file too large", "too large"))
            self.assertRaises(Refused, self.client)

    def test_the_daemon_dies_and_comes_back(self):
        client = self.connected()
        self.world.restart_daemon(signal.SIGKILL)
        client.wait_closed()
        # The socket is there again at once; the daemon may read manifests a moment longer.
        wait(lambda: sum("app may connect" in line for line in self.door.lines) >= 2, 30, "the app to be there again")
        self.assertTrue(self.connected())


class Kinds(DoorTest):
    scenario = scenario(*(accessory(f"tag-{number}", number, gatt=GATT, adverts=adverts(f"tag-{number}")) for number in (1, 2)),
                        accessory("stranger", 9, "180F"))

    def add(self, app, picker, name, *items, answer=None):
        app.show_picker(item("Tags", PINK, pairs=False, access="hear"))
        offer = wait(lambda: next((each for each in picker.offers if "maxDevices" in each), None), what="the kind to be offered")
        picker.ask("Pick", "s", offer["id"])
        added = app.wait_event("accessoryAdded")
        app.wait_event("pickerDidDismiss")
        picker.wait_gone()
        return str(added["accessory"])

    def test_all_of_the_kind_and_no_link(self):
        client = self.client()
        client.send("SubscribeBluetoothLEAdvertisementsRequest", flags=1)
        heard = set()
        while heard != {PINKS, OTHER}:
            heard |= {each.address for each in client.wait("BluetoothLERawAdvertisementsResponse").advertisements}
        answer = client.connect(PINKS)
        self.assertEqual((answer.connected, answer.error != 0), (False, True))


class Avahi(dbus.service.Object):
    """Records the services that are published: the part of Avahi's server that the door uses."""

    def __init__(self, bus):
        self.groups, self.published = 0, []
        super().__init__(bus, "/")

    @dbus.service.method("org.freedesktop.Avahi.Server", out_signature="o")
    def EntryGroupNew(self):
        self.groups += 1
        path = dbus.ObjectPath(f"/Client1/EntryGroup{self.groups}")
        Group(self, path)
        return path


class Group(dbus.service.Object):
    def __init__(self, avahi, path):
        self.avahi, self.services = avahi, []
        super().__init__(avahi.connection, path)

    @dbus.service.method("org.freedesktop.Avahi.EntryGroup", in_signature="iiussssqaay")
    def AddService(self, _interface, _protocol, _flags, name, kind, domain, host, port, text):
        self.services.append((str(name), str(kind), str(domain), str(host), int(port), [bytes(each).decode() for each in text]))

    @dbus.service.method("org.freedesktop.Avahi.EntryGroup")
    def Commit(self):
        self.avahi.published += self.services


class Announced(DoorTest):
    settings = ""

    def test_avahi_announces_it_and_again_after_a_restart(self):
        bus = self.world.admin.connection
        avahi = Avahi(bus)
        for times in (1, 2):
            name = dbus.service.BusName("org.freedesktop.Avahi", bus)
            wait(lambda: len(avahi.published) == times, 20, "the announcement", also_every=0.05)
            del name
            wait(lambda: not self.world.admin.has_owner("org.freedesktop.Avahi"), 10, "the name to go", also_every=0.05)
        service, kind, domain, host, port, text = avahi.published[0]
        self.assertEqual((service, kind, domain, host, port), ("gateway", "_esphomelib._tcp", "", "", 6053))
        self.assertEqual(avahi.published[1], avahi.published[0])
        values = dict(each.split("=", 1) for each in text)
        mac = self.client().server[1:].split(b"\0")[1].decode()
        # As Home Assistant needs it to recognise the gateway, and to ask for the key.
        self.assertEqual(values["mac"], mac.replace(":", "").lower())
        self.assertEqual(values["api_encryption"], "Noise_NNpsk0_25519_ChaChaPoly_SHA256")
        self.assertEqual(values["friendly_name"], "gateway")


class View(DoorTest):
    """The daemon's part: the terms of an app elsewhere, and its peer in the trail."""

    VIEW = ROOT + "/view", f"{NAME}.View"

    def holder(self, app=DICE):
        return Client(self.world, None, self.world.app_sockets / app / "bus")

    def act(self, client, key="0123abcd", peer="192.0.2.1"):
        client.call(*self.VIEW, "ActFor", "ss", key, peer)

    def test_the_terms(self):
        self.declare(RemoteAddresses="192.0.2.0/24;2001:db8::/32;192.0.2.1")
        client = self.holder()
        client.listen_to_everything()
        wait(lambda: client.get(*self.VIEW, "Remote").get("addresses") == ["192.0.2.0/24", "2001:db8::/32", "192.0.2.1/32"], 10,
             "the terms", also_every=0.1)
        self.assertEqual(client.get(*self.VIEW, "Remote")["keyFile"], str(self.key.file))
        self.declare(Remote=None, Socket="yes")
        wait(lambda: any(each.member == "PropertiesChanged" and each.arguments[1].get("Remote") == {} for each in client.signals), 10,
             "the change")

    def test_bad_peers(self):
        client = self.holder()
        for key, peer, part in (("", "192.0.2.1", "key"), ("0123abcg", "192.0.2.1", "key"), ("0123abcd00", "192.0.2.1", "key"),
                                ("0123abcd", "example.org", "address"), ("0123abcd", "192.0.2.1 by root", "address")):
            self.assertFails(BUS_ERROR + "InvalidArgs", self.act, client, key, peer, says=[part])
        self.act(client)
        self.assertFails(BUS_ERROR + "AccessDenied", self.act, client, says=["already"])

    def test_an_app_that_is_not_remote(self):
        self.world.declare("board", Executable=None, Socket="yes", SocketUser=SOMEBODY)
        wait((self.world.app_sockets / "com.example.board" / "bus").exists, 10, "the socket", also_every=0.02)
        board = self.holder("com.example.board")
        self.assertEqual(board.get(*self.VIEW, "Remote"), {})
        self.assertFails(BUS_ERROR + "AccessDenied", self.act, board, says=["Remote="])


# The mixin is no test by itself.
del DoorTest
