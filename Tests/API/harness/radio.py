# SPDX-License-Identifier: Apache-2.0
"""The radio: scenarios and their accessories, the simulator that plays them, and another program that uses it too."""

import json

import dbus
import dbus.service

from harness.clients import Client
from harness.names import OBJECT_MANAGER, PINK, PROPERTIES
from harness.programs import BIN, TEST_CLOCK, TESTS, Program
from harness.waiting import wait


def accessory(identifier, number=1, service=PINK, pairing=None, rssi=-50, advert=None, **more):
    """An accessory of a scenario that advertises its identifier as its name."""
    advert = advert or {"serviceUUIDs": [service], "name": identifier}
    return {"id": identifier, "address": f"C0:FF:EE:00:02:{number:02X}", "adverts": [{"interval": 0.05, "rssi": rssi, **advert}],
            "pairing": pairing or {}, **more}


def scenario(*accessories, **more):
    return {"accessories": list(accessories), **more}


class Simulator(Program):
    """accessory-sim; `scenario` is a file of Tests/Scenarios or the scenario itself."""

    def __init__(self, world, scenario):
        if isinstance(scenario, dict):
            path = world.directory / "scenario.json"
            path.write_text(json.dumps(scenario))
        else:
            path = TESTS / "Scenarios" / scenario
        super().__init__(BIN / "accessory-sim", "--bus", world.bus.address, "--input-directory", world.inputs, path, environment=TEST_CLOCK)
        self.wait_for("^ready")
        self._client = Client(world)

    def _call(self, member, signature="", *arguments):
        return self._client.call(
            "/org/accessorysetup/simulator", "org.accessorysetup.Simulator1", member, signature, *arguments,
            to="org.accessorysetup.Simulator1")

    def exchange(self):
        """It has taken all that was sent to it until now."""
        self._call("Scans")

    def do(self, action, target=""):
        self._call("Do", "ss", action, target)

    @property
    def bonds(self):
        return sorted(str(each) for each in self._call("Bonds"))

    @property
    def adverts(self):
        """The number of adverts sent while an adapter listened."""
        return int(self._call("Adverts"))

    @property
    def search_time(self):
        """Seconds for which an adapter has searched, of the simulator's clock."""
        return float(self._call("SearchTime"))

    @property
    def discovering(self):
        adapter = self._client.call("/org/bluez/hci0", PROPERTIES, "Get", "ss", "org.bluez.Adapter1", "Discovering", to="org.bluez")
        return bool(adapter)

    @property
    def bluetooth(self):
        """The expected value of Manager.Bluetooth."""
        try:
            objects = self._client.call("/", OBJECT_MANAGER, "GetManagedObjects", to="org.bluez").values()
        except dbus.DBusException:
            return "absent"
        powered = [bool(each["org.bluez.Adapter1"]["Powered"]) for each in objects if "org.bluez.Adapter1" in each]
        return "ready" if any(powered) else "off" if powered else "absent"

    @property
    def scans(self):
        """Wi-Fi scans that ran since the start, for any client."""
        return int(self._call("Scans"))

    @property
    def joined(self):
        """The network of each interface."""
        return {str(name): str(ssid) for name, ssid in self._call("Joined").items()}

    def wait_joined(self, network, interface="wlan0", seconds=20):
        wait(lambda: self.joined.get(interface) == network, seconds, lambda: f"{interface} on {network}; it is {self.joined}", also_every=0.05)

    @property
    def known_networks(self):
        """The profiles that the Wi-Fi services hold."""
        return sorted(str(each) for each in self._call("KnownNetworks"))

    @property
    def secrets(self):
        """How many profiles besides the uplinks hold a passphrase."""
        return int(self._call("Secrets"))

    @property
    def connections(self):
        return sorted(str(each) for each in self._call("Connections"))

    def devices(self):
        """The addresses that org.bluez knows → whether they are paired."""
        objects = self._client.call("/", OBJECT_MANAGER, "GetManagedObjects", to="org.bluez").values()
        devices = [each["org.bluez.Device1"] for each in objects if "org.bluez.Device1" in each]
        return {str(each["Address"]): bool(each["Paired"]) for each in devices}


class Paired:
    """Another program that pairs a device, with an agent of its own, and lets the link go."""

    def __init__(self, world, device):
        self.client = Client(world)
        self.agent = Agent(self.client)
        self.bluez("/org/bluez", "AgentManager1", "RegisterAgent", "os", "/agent", "KeyboardDisplay")
        self.bluez("/org/bluez/hci0", "Adapter1", "StartDiscovery")
        address = device[-17:].replace("_", ":")
        wait(lambda: address in world.simulator.devices(), 10, "the device", also_every=0.05)
        done = []
        self.client.call_later(device, "org.bluez.Device1", "Pair", lambda *result: done.append(result), to="org.bluez")
        wait(lambda: done, 10, "the pairing")
        assert done == [()], done
        self.bluez("/org/bluez/hci0", "Adapter1", "StopDiscovery")
        self.bluez(device, "Device1", "Disconnect")

    def bluez(self, path, interface, member, signature="", *arguments):
        self.client.call(path, f"org.bluez.{interface}", member, signature, *arguments, to="org.bluez")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.agent.remove_from_connection()


class Agent(dbus.service.Object):
    def __init__(self, client):
        super().__init__(client.connection, "/agent")

    @dbus.service.method("org.bluez.Agent1", in_signature="ou")
    def RequestConfirmation(self, _device, _passkey):
        pass
