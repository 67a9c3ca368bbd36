# SPDX-License-Identifier: Apache-2.0
"""One accessory on the air: it advertises by its timeline, rotates its private address, accepts connections, pairs the
way its scenario says, faults included, and serves GATT. Its Bluetooth host is bumble's, made when first connected, so
that a hundred accessories that only advertise cost next to nothing."""

import asyncio
import hashlib

from bumble import device, hci, host, pairing, smp
from bumble.keys import PairingKeys
from bumble.transport.common import AsyncPipeSink

from air_gatt import Database
from air_radio import AirController

RPA_SECONDS = 15 * 60  # Core Specification's default for private address rotation

IO_CAPABILITIES = {
    "justWorks": pairing.PairingDelegate.NO_OUTPUT_NO_INPUT,
    "displayPasskey": pairing.PairingDelegate.DISPLAY_OUTPUT_ONLY,
    "enterPasskey": pairing.PairingDelegate.KEYBOARD_INPUT_ONLY,
    "numericComparison": pairing.PairingDelegate.DISPLAY_OUTPUT_AND_YES_NO_INPUT,
    "none": pairing.PairingDelegate.NO_OUTPUT_NO_INPUT,
}


class Passkey(int):
    """A passkey, true even when it is 000000: bumble tests it for truth where it means “is there one”."""

    def __bool__(self):
        return True


class AccessoryDevice(device.Device):
    """bumble's host, with keys and security levels as on a real accessory: a link is authenticated only if its key
    came from a passkey or a comparison, and the key of a legacy bond is the one the accessory gave out."""

    def __init__(self, name, address, irk, bonds):
        self.bonds = bonds
        super().__init__(config=device.DeviceConfiguration(name=name, address=address, irk=irk))

    async def update_keys(self, address, keys):
        self.bonds[address] = keys

    async def get_long_term_key(self, connection_handle, rand, ediv):
        connection = self.lookup_connection(connection_handle)
        if connection is None:
            return None
        in_progress = self.smp_manager.get_long_term_key(connection, rand, ediv)
        if in_progress is not None:
            return in_progress
        key = self._bond_key(connection)
        return None if key is None else key.value

    def _bond_key(self, connection):
        keys = self.bonds.get(str(connection.peer_address))
        return None if keys is None else keys.ltk or keys.ltk_central

    def on_connection_encryption_change(self, connection_handle, encryption, encryption_key_size):
        super().on_connection_encryption_change(connection_handle, encryption, encryption_key_size)
        self._set_authenticated(connection_handle)

    def on_pairing(self, connection, identity_address, keys, sc):
        super().on_pairing(connection, identity_address, keys, sc)
        self._set_authenticated(connection.handle)

    def _set_authenticated(self, connection_handle):
        connection = self.lookup_connection(connection_handle)
        if connection is None:
            return
        session = self.smp_manager.sessions.get(connection_handle)
        if session is not None:
            connection.authenticated = session.pairing_method != smp.PairingMethod.JUST_WORKS
        else:
            key = self._bond_key(connection)
            connection.authenticated = key is not None and key.authenticated

    def on_pairing_failure(self, connection, reason):
        # bumble keeps the session of a failed attempt and would answer the next one in its name.
        self.smp_manager.sessions.pop(connection.handle, None)
        super().on_pairing_failure(connection, reason)


class PairingSide(pairing.PairingDelegate):
    """The accessory's side of a pairing: the answers of its buttons, its display and its faults."""

    def __init__(self, accessory):
        super().__init__(
            io_capability=IO_CAPABILITIES[accessory.description.pairing.mode],
            local_initiator_key_distribution=self.KeyDistribution.DISTRIBUTE_ENCRYPTION_KEY,
            # Only who hides its address has an identity to hand out.
            local_responder_key_distribution=self.DEFAULT_KEY_DISTRIBUTION
            if accessory.private else self.KeyDistribution.DISTRIBUTE_ENCRYPTION_KEY,
        )
        self._accessory = accessory
        self._behaviour = accessory.description.pairing
        self._fault = None

    async def accept(self):
        self._fault = self._accessory.next_fault()
        self._accessory.pairing_started(self._fault)
        match self._fault:
            case "refuse":
                return False
            case "vanish":
                self._accessory.vanish()
                await asyncio.Future()
            case "drop":
                self._accessory.drop_links()
                await asyncio.Future()
            case "silent":
                await asyncio.Future()
            case "slow":
                await asyncio.sleep(self._behaviour.delay)
        return self._behaviour.mode != "none"

    async def confirm(self, auto=False):
        return self._fault != "wrongKey"

    async def compare_numbers(self, number, digits):
        self._accessory.show(number)
        agrees = self._behaviour.confirms and self._fault != "wrongKey"
        self._accessory.log(f"compares {number:06}: {'confirms' if agrees else 'says no'}")
        return agrees

    async def get_number(self):
        self._accessory.log("waits for a passkey")
        passkey = await self._accessory.entered_passkey()
        self._accessory.log(f"passkey {passkey:06} entered")
        return self._maybe_wrong(passkey)

    async def generate_passkey(self):
        self._accessory.show(self._behaviour.passkey)
        self._accessory.log(f"shows {self._behaviour.passkey:06}")
        return self._maybe_wrong(self._behaviour.passkey)

    def _maybe_wrong(self, passkey):
        return Passkey((passkey + 1) % 1_000_000 if self._fault == "wrongKey" else passkey)


class Accessory:
    """`description` is its part of the scenario; `adapters` gives those it is heard by."""

    def __init__(self, description, air_link, adapters, on_pairing_started, log):
        self.description = description
        self.private = description.address_type == "rpa"
        self.rssi = None  # set by a check instead of the scenario's
        self._link = air_link
        self._adapters = adapters
        self._on_pairing_started = on_pairing_started
        self._log = log
        # Derived, so that every run has the same; secret enough for a laboratory.
        self._irk = hashlib.sha256(description.address.encode()).digest()[:16]
        self._identity = hci.Address(
            description.address,
            hci.Address.PUBLIC_DEVICE_ADDRESS if description.address_type == "public" else hci.Address.RANDOM_DEVICE_ADDRESS)
        self.address = self._identity
        self._device = None
        self._bonds = {}
        self._database = None
        self._preparing = asyncio.Lock()
        self._on_air = []
        self._shown = asyncio.get_running_loop().create_future()
        self._entered = asyncio.get_running_loop().create_future()
        self._faults_left = description.pairing.fault_count
        self._when_connected = None

    def log(self, text):
        self._log(f"{self.description.id}: {text}")

    # In and out of range

    def appear(self):
        if self._on_air:
            return
        self.rotate()
        self.log("appears")
        self._on_air = [asyncio.ensure_future(self._advertise(advert)) for advert in self.description.adverts]
        if self.private:
            self._on_air.append(asyncio.ensure_future(self._rotate_now_and_then()))

    def vanish(self):
        if not self._on_air:
            return
        self.log("vanishes")
        for task in self._on_air:
            task.cancel()
        self._on_air = []
        self.drop_links()

    def drop_links(self):
        if self._device is not None:
            self._controller.drop_links()

    def rotate(self):
        if self.private:
            self.address = hci.Address.generate_private_address(self._irk)
            self.log(f"is on the air as {self.address}")

    async def _rotate_now_and_then(self):
        while True:
            await asyncio.sleep(RPA_SECONDS)
            self.rotate()

    async def _advertise(self, advert):
        loop = asyncio.get_running_loop()
        end = loop.time() + advert.end
        await asyncio.sleep(advert.start)
        try:
            while loop.time() < end:
                for adapter in self._adapters():
                    if adapter.listening and not self._connected:
                        adapter.hear(
                            self.address, advert.rssi if self.rssi is None else self.rssi, self.description.connectable,
                            advert.data, advert.scan_response, self._prepare_for_connection)
                await asyncio.sleep(advert.interval)
        finally:
            for adapter in self._adapters():
                adapter.forget(self.address)

    # Connections

    @property
    def _connected(self):
        return self._device is not None and bool(self._controller.le_connections)

    async def _prepare_for_connection(self):
        async with self._preparing:
            if self._device is None:
                await self._make_device()
        # The connection belongs to the address that was heard, whatever it rotates to later.
        self._device.random_address = self.address
        self._controller.random_address = self.address
        advertiser = self._controller.le_legacy_advertiser
        advertiser.own_address_type = (
            hci.OwnAddressType.PUBLIC if self.description.address_type == "public" else hci.OwnAddressType.RANDOM)
        advertiser.enabled = True

    async def _make_device(self):
        public = self.description.address_type == "public"
        self._controller = AirController(
            self.description.id, link=self._link, public_address=self._identity if public else hci.Address.ANY)
        made = AccessoryDevice(self.description.device_name, self._identity, self._irk, self._bonds)
        made.host = host.Host(self._controller, AsyncPipeSink(self._controller))
        behaviour = self.description.pairing
        made.smp_manager.pairing_config_factory = lambda _connection: pairing.PairingConfig(
            sc=not behaviour.legacy, mitm=behaviour.mode not in ("justWorks", "none"), bonding=behaviour.bonding,
            delegate=PairingSide(self),
            identity_address_type=pairing.PairingConfig.AddressType.PUBLIC if public
            else pairing.PairingConfig.AddressType.RANDOM)
        self._database = Database(self.description.services, made, self.log)
        made.gatt_server.max_mtu = self.description.mtu
        made.on(made.EVENT_CONNECTION, self._on_connection)
        await made.power_on()
        self._device = made

    def _on_connection(self, connection):
        self.log(f"connected by {connection.peer_address.to_string(False)}")
        connection.on(connection.EVENT_DISCONNECTION, lambda reason: self.log(
            f"disconnected, {hci.HCI_ErrorCode(reason).name.removesuffix('_ERROR').lower().replace('_', ' ')}"))
        connection.on(connection.EVENT_CONNECTION_ENCRYPTION_CHANGE, lambda: self.log(
            "link encrypted" if connection.is_encrypted else "link no longer encrypted"))
        connection.on(connection.EVENT_PAIRING, lambda keys: self.log(
            f"paired, {'secure connections' if keys.ltk else 'legacy'}"))
        connection.on(connection.EVENT_PAIRING_FAILURE, lambda reason: self.log(
            f"pairing failed, {smp.ErrorCode(reason).name.lower().replace('_', ' ')}"))
        if act := self._when_connected:
            self._when_connected = None
            # After the host has heard of the connection, too.
            asyncio.get_running_loop().call_soon(act)

    def when_connected(self, act):
        """Does so at its next connection."""
        self._when_connected = {
            "vanish": self.vanish, "rotate": self.rotate, "secure": self.request_security, "forget": self.forget}[act]

    # Pairing

    def next_fault(self):
        fault = self.description.pairing.fault
        if fault is None or self._faults_left is None:
            return fault
        if self._faults_left == 0:
            return None
        self._faults_left -= 1
        return fault

    def pairing_started(self, fault):
        self.log(f"pairing started, {self.description.pairing.mode}{f', fault {fault}' if fault else ''}")
        loop = asyncio.get_running_loop()
        if self._shown.done():
            self._shown = loop.create_future()
        if self._entered.done():
            self._entered = loop.create_future()
        self._on_pairing_started(self.description.id)

    def show(self, number):
        if not self._shown.done():
            self._shown.set_result(number)

    async def shown(self):
        """The number on the display, once there is one."""
        return await asyncio.shield(self._shown)

    def enter(self, passkey):
        if not self._entered.done():
            self._entered.set_result(passkey)

    async def entered_passkey(self):
        return await asyncio.shield(self._entered)

    @property
    def bonds(self):
        return [
            {"address": address.removesuffix("/P"), "authenticated": (keys.ltk or keys.ltk_central).authenticated}
            for address, keys in self._bonds.items()
        ]

    def request_security(self):
        """Asks the connected device for a bond with protection against a man in the middle, which takes new keys where there are some without
        (Core Specification 5.4, Vol 3, Part H, 3.6.7)."""
        if self._connected:
            self.log("asks for security")
            request = smp.SMP_Security_Request_Command(auth_req=smp.AuthReq.from_booleans(bonding=True, sc=True, mitm=True))
            for connection in self._device.connections.values():
                self._device.smp_manager.send_command(connection, request)

    def forget(self):
        self._bonds.clear()
        self.log("forgets its bonds")

    @property
    def keys(self):
        """All that it remembers of its bonds, as JSON."""
        return {address: keys.to_dict() for address, keys in self._bonds.items()}

    def remember(self, keys):
        self._bonds.update({address: PairingKeys.from_dict(each) for address, each in keys.items()})

    # GATT

    def change_services(self, pause=0):
        """Replaces its services, if a connected device can be notified."""
        if self._connected:
            self.log("changes its services")
            self._database.change(pause)
