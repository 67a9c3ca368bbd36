# SPDX-License-Identifier: Apache-2.0
"""The simulated Wi-Fi services, each played as a client of the real one would play it. All waiting is for messages on the bus."""

import json
import os
import subprocess
import tempfile
import unittest

import dbus
import dbus.bus
import dbus.mainloop.glib
import dbus.service

from turning import Bus, wait_for

dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("BIN", os.path.join(ROOT, ".build", "debug")))
PROPERTIES = "org.freedesktop.DBus.Properties"
MANAGER = "org.freedesktop.DBus.ObjectManager"

WPA = "fi.w1.wpa_supplicant1"
NM = "org.freedesktop.NetworkManager"
NM_PATH = "/org/freedesktop/NetworkManager"
IWD = "net.connman.iwd"


def scenario(*services, **changes):
    with open(os.path.join(ROOT, "Tests", "Scenarios", "wifi.json")) as file:
        result = json.load(file)
    result["wifi"]["services"] = list(services)
    result["wifi"].update(changes.pop("wifi", {}))
    result.update(changes)
    return result


def ssid(text):
    return dbus.ByteArray(text if isinstance(text, bytes) else text.encode())


def octets(value):
    return bytes(int(each) for each in value)


class WiFiTest(unittest.TestCase):
    maxDiff = None

    def serve(self, scenario):
        config = os.path.join(ROOT, "Tests", "Support", "private-bus.conf")
        daemon = subprocess.Popen(
            ["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address=1"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, daemon)
        self.address = daemon.stdout.readline().strip()
        file = tempfile.NamedTemporaryFile("w", suffix=".json")
        self.addCleanup(file.close)
        json.dump(scenario, file)
        file.flush()
        self.simulator = subprocess.Popen(
            [f"{BIN}/accessory-sim", "--bus", self.address, file.name], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, self.simulator)
        self.assertEqual(self.simulator.stdout.readline(), "ready\n")
        self.signals = []
        self.bus = self.connect()
        self.bus.add_signal_receiver(
            lambda *arguments, path, interface, member: self.signals.append((path, interface, member, arguments)),
            path_keyword="path", interface_keyword="interface", member_keyword="member")

    def connect(self):
        bus = Bus(self.address)
        bus.set_exit_on_disconnect(False)
        self.addCleanup(bus.close)
        return bus

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdout.close()

    def wait(self, happens, seconds=20):
        return wait_for(happens, seconds, lambda: "; last: " + "\n".join(map(str, self.signals[-8:])))

    def control(self, member, *arguments):
        return self.bus.call_blocking(
            "org.accessorysetup.Simulator1", "/org/accessorysetup/simulator", "org.accessorysetup.Simulator1", member,
            "s" * len(arguments), arguments)

    def do(self, action, target=""):
        self.control("Do", action, target)

    @property
    def joined(self):
        return {str(name): str(ssid) for name, ssid in self.control("Joined").items()}

    def wait_joined(self, network, interface="wlan0"):
        self.wait(lambda: self.joined.get(interface) == network)

    @property
    def known(self):
        return [str(each) for each in self.control("KnownNetworks")]

    def assertFails(self, name, function, *arguments, **more):
        with self.assertRaises(dbus.DBusException) as caught:
            function(*arguments, **more)
        self.assertEqual(caught.exception.get_dbus_name(), name)

    def get(self, service, path, interface, name):
        return self.bus.call_blocking(service, path, PROPERTIES, "Get", "ss", (interface, name))

    def get_all(self, service, path, interface):
        return self.bus.call_blocking(service, path, PROPERTIES, "GetAll", "s", (interface,))

    def set(self, service, path, interface, name, value):
        self.bus.call_blocking(service, path, PROPERTIES, "Set", "ssv", (interface, name, value))

    def managed(self, service, root):
        return self.bus.call_blocking(service, root, MANAGER, "GetManagedObjects", "", ())

    def heard(self, member, path=None):
        return [each[3] for each in self.signals if each[2] == member and path in (None, each[0])]

    def introspect(self, service, path):
        return self.bus.call_blocking(service, path, "org.freedesktop.DBus.Introspectable", "Introspect", "", ())


class SupplicantTest(WiFiTest):
    def begin(self, **more):
        self.serve(scenario("wpa_supplicant", **more))
        self.path = self.find()

    def find(self):
        return self.bus.call_blocking(WPA, "/fi/w1/wpa_supplicant1", WPA, "GetInterface", "s", ("wlan0",))

    def call(self, member, signature="", *arguments):
        return self.bus.call_blocking(WPA, self.path, f"{WPA}.Interface", member, signature, arguments)

    def property(self, name):
        return self.get(WPA, self.path, f"{WPA}.Interface", name)

    def scan(self, *names):
        arguments = {"Type": "active"}
        if names:
            arguments["SSIDs"] = dbus.Array([ssid(name) for name in names], signature="ay")
        self.signals.clear()
        self.call("Scan", "a{sv}", arguments)
        self.wait(lambda: self.heard("ScanDone"))
        self.assertEqual(self.heard("ScanDone"), [(True,)])

    def found(self):
        every = [self.get_all(WPA, path, f"{WPA}.BSS") for path in self.property("BSSs")]
        return {(octets(each["SSID"]), int(each["Frequency"])): each for each in every}

    def add(self, name, **more):
        return self.call("AddNetwork", "a{sv}", {"ssid": ssid(name), **more})

    def select(self, path):
        self.signals.clear()
        self.call("SelectNetwork", "o", path)

    def states(self):
        return [str(changed["State"]) for name, changed, _ in self.heard("PropertiesChanged", self.path)
                if name == f"{WPA}.Interface" and "State" in changed]

    def signals_of(self, member):
        return [each[3] for each in self.signals if each[1:3] == (f"{WPA}.Interface", member)]

    def enabled(self, network):
        return bool(self.get(WPA, network, f"{WPA}.Network", "Enabled"))


class Supplicant(SupplicantTest):
    def setUp(self):
        self.begin()

    def test_start(self):
        self.assertEqual(self.property("State"), "completed")
        self.assertEqual(self.joined, {"wlan0": "Home"})
        self.assertEqual(self.known, ["Home"])
        self.assertEqual(self.control("Secrets"), 0)
        self.assertFails(f"{WPA}.InterfaceUnknown", self.bus.call_blocking, WPA, "/fi/w1/wpa_supplicant1", WPA, "GetInterface", "s", ("wlan7",))
        self.assertIn("sae", self.property("Capabilities")["KeyMgmt"])
        self.assertNotIn("NAN", self.introspect(WPA, self.path))

    def test_scan(self):
        self.assertEqual(self.control("Scans"), 0)
        self.scan()
        self.assertEqual(self.control("Scans"), 1)
        found = self.found()
        self.assertIn((b"Dice-Open", 2412), found)
        self.assertFalse(found[b"Dice-Open", 2412]["Privacy"])
        self.assertEqual(found[b"Dice-1234", 2412]["RSN"]["KeyMgmt"], ["wpa-psk"])
        self.assertEqual(found[b"Dice-SAE", 2412]["RSN"]["KeyMgmt"], ["sae"])
        self.assertIn((b"Dice\xff", 2412), found)
        self.assertIn((b"Dice-Pair", 5180), found)
        self.assertIn((b"Dice-Pair", 2412), found)
        self.assertIn((b"", 2412), found)
        self.assertNotIn((b"Dice-Hidden", 2412), found)
        self.assertEqual(found[b"Dice-Open", 2412]["Signal"], -40)
        self.scan("Dice-Hidden")
        self.assertIn((b"Dice-Hidden", 2412), self.found())

    def test_old_ones_go(self):
        self.scan()
        self.do("vanish", "open")
        self.scan()
        self.assertIn((b"Dice-Open", 2412), self.found())
        self.scan()
        self.assertNotIn((b"Dice-Open", 2412), self.found())
        self.assertTrue(self.signals_of("BSSRemoved"))

    def test_scan_arguments(self):
        self.assertFails(f"{WPA}.InvalidArgs", self.call, "Scan", "a{sv}", {})
        self.assertFails(f"{WPA}.InvalidArgs", self.scan, *"abcde")
        self.assertFails(f"{WPA}.InvalidArgs", self.scan, "x" * 33)
        self.call("Scan", "a{sv}", {"Type": "active"})
        self.assertFails(f"{WPA}.Interface.ScanError", self.call, "Scan", "a{sv}", {"Type": "active"})
        self.wait(lambda: self.heard("ScanDone"))
        self.assertEqual(self.control("Scans"), 1)

    def test_join_and_come_back(self):
        uplink = self.property("CurrentNetwork")
        network = self.add("Dice-1234", psk="sixsided1", key_mgmt="WPA-PSK")
        self.assertFalse(self.enabled(network))
        self.assertEqual(self.get(WPA, network, f"{WPA}.Network", "Properties")["psk"], "*")
        self.assertEqual(self.control("Secrets"), 1)
        self.select(network)
        self.wait_joined("Dice-1234")
        self.wait(lambda: self.states()[-1:] == ["completed"])
        self.assertEqual(self.states(), ["disconnected", "scanning", "associating", "associated", "4way_handshake", "completed"])
        self.assertEqual(self.property("CurrentNetwork"), network)
        self.assertFalse(self.enabled(uplink))
        self.set(WPA, uplink, f"{WPA}.Network", "Enabled", True)
        self.assertEqual(self.joined, {"wlan0": "Dice-1234"})
        self.call("RemoveNetwork", "o", network)
        self.wait_joined("Home")
        self.assertFails(f"{WPA}.NetworkUnknown", self.call, "RemoveNetwork", "o", network)
        self.assertEqual(self.known, ["Home"])
        self.assertEqual(self.control("Secrets"), 0)

    def test_enabling_after_removal(self):
        uplink = self.property("CurrentNetwork")
        network = self.add("Dice-Open", key_mgmt="NONE")
        self.select(network)
        self.wait_joined("Dice-Open")
        self.call("RemoveNetwork", "o", network)
        self.wait(lambda: self.property("State") == "inactive")
        self.set(WPA, uplink, f"{WPA}.Network", "Enabled", True)
        self.wait_joined("Home")

    def test_sae_hidden_and_odd(self):
        for name, more in (
                ("Dice-SAE", {"psk": "sixsided3", "key_mgmt": "SAE", "ieee80211w": dbus.Int32(2)}),
                ("Dice-Hidden", {"psk": "sixsided4", "key_mgmt": "WPA-PSK", "scan_ssid": dbus.Int32(1)}),
                (b"Dice\xff", {"key_mgmt": "NONE"})):
            network = self.add(name, **more)
            self.select(network)
            self.wait(lambda: self.property("State") == "completed" and self.property("CurrentNetwork") == network)
            self.call("RemoveNetwork", "o", network)

    def test_wrong_passphrase(self):
        self.assertFails("org.freedesktop.DBus.Error.InvalidArgs", self.add, "Dice-1234", psk="short")
        network = self.add("Dice-1234", psk="not this one", key_mgmt="WPA-PSK")
        self.select(network)
        self.wait(lambda: self.states()[-2:] == ["disconnected", "scanning"] and "4way_handshake" in self.states())
        self.assertEqual(self.property("DisconnectReason"), 15)

    def test_wrong_sae_password(self):
        network = self.add("Dice-SAE", psk="not this one", key_mgmt="SAE", ieee80211w=dbus.Int32(2))
        self.select(network)
        self.wait(lambda: self.property("AuthStatusCode") == 15)
        self.assertNotIn("4way_handshake", self.states())

    def test_refused(self):
        network = self.add("Dice-Full", key_mgmt="NONE")
        self.select(network)
        self.wait(lambda: self.property("AssocStatusCode") == 17 and self.property("State") == "scanning")

    def test_slow_and_silent(self):
        for fault, state in (("slow", "completed"), ("silent", "disconnected")):
            self.begin(accessPoints=[{"id": "a", "ssid": "A", "fault": fault, "delay": 0.3, "faultCount": 1}])
            network = self.add("A", key_mgmt="NONE")
            self.select(network)
            self.wait(lambda: "associating" in self.states())
            self.wait(lambda: state in self.states()[self.states().index("associating"):])
            # A silent one answers the second time.
            self.wait_joined("A")

    def test_not_there(self):
        network = self.add("Nobody", key_mgmt="NONE")
        self.select(network)
        self.wait(lambda: self.control("Scans") > 2)
        self.assertEqual(self.property("State"), "scanning")

    def test_vanishing(self):
        network = self.add("Dice-Open", key_mgmt="NONE")
        uplink = self.property("CurrentNetwork")
        self.select(network)
        self.wait_joined("Dice-Open")
        self.set(WPA, uplink, f"{WPA}.Network", "Enabled", True)
        self.do("vanish", "open")
        self.wait_joined("Home")
        self.assertEqual(self.property("DisconnectReason"), -4)

    def test_stop_and_start(self):
        network = self.add("Dice-1234", psk="sixsided1", key_mgmt="WPA-PSK")
        self.select(network)
        self.wait_joined("Dice-1234")
        self.do("wifiStopped", "wpa_supplicant")
        self.wait(lambda: not self.bus.name_has_owner(WPA))
        self.assertEqual((self.joined, self.known), ({}, []))
        self.do("wifiStarted", "wpa_supplicant")
        self.assertEqual((self.joined, self.known), ({"wlan0": "Home"}, ["Home"]))

    def test_interface_and_radio(self):
        self.do("interfaceRemoved", "wlan0")
        self.wait(lambda: self.signals and self.heard("InterfaceRemoved"))
        self.assertEqual(self.joined, {})
        self.do("interfaceAdded", "wlan0")
        self.wait_joined("Home")
        self.path = self.find()
        self.do("wifiOff")
        self.assertEqual(self.property("State"), "interface_disabled")
        self.assertFails(f"{WPA}.Interface.ScanError", self.call, "Scan", "a{sv}", {"Type": "active"})
        self.do("wifiOn")
        self.wait_joined("Home")


class Aware(SupplicantTest):
    def setUp(self):
        self.begin(wifi={"aware": True}, awareServices=[
            {"id": "near", "service": "com.example.dice", "model": "D6", "vendor": "Example", "address": "02:00:00:00:09:01"},
            {"id": "other", "service": "com.example.lamp", "address": "02:00:00:00:09:02"},
            {"id": "asker", "service": "com.example.dice", "role": "subscriber", "address": "02:00:00:00:09:03"}])

    def test_methods(self):
        self.assertIn("NANSubscribe", self.introspect(WPA, self.path))

    def test_subscribe(self):
        handle = self.call("NANSubscribe", "a{sv}", {"srv_name": "com.example.dice", "active": True, "ttl": dbus.UInt32(60)})
        self.wait(lambda: self.heard("NANDiscoveryResult"))
        found = self.heard("NANDiscoveryResult")[0][0]
        self.assertEqual((found["subscribe_id"], found["peer_addr"]), (handle, "02:00:00:00:09:01"))
        self.assertEqual(octets(found["ssi"]), b"model=D6\nvendor=Example")
        self.call("NANCancelSubscribe", "u", handle)
        self.wait(lambda: self.heard("NANSubscribeTerminated"))
        self.assertEqual(self.heard("NANSubscribeTerminated"), [(handle, "user-request")])

    def test_publish(self):
        handle = self.call("NANPublish", "a{sv}", {"srv_name": "com.example.dice"})
        self.wait(lambda: self.heard("NANReplied"))
        self.assertEqual(self.heard("NANReplied")[0][0]["peer_addr"], "02:00:00:00:09:03")
        self.call("NANCancelPublish", "u", handle)
        self.assertFails(f"{WPA}.InvalidArgs", self.call, "NANPublish", "a{sv}", {"srv_name": "x", "nonsense": True})


class NetworkManager(WiFiTest):
    def setUp(self):
        self.begin()

    def begin(self, **more):
        self.serve(scenario("NetworkManager", **more))
        self.device = self.call("GetDeviceByIpIface", "s", "wlan0")

    def call(self, member, signature="", *arguments, bus=None):
        return (bus or self.bus).call_blocking(NM, NM_PATH, NM, member, signature, arguments)

    def wireless(self, member, signature="", *arguments):
        return self.bus.call_blocking(NM, self.device, f"{NM}.Device.Wireless", member, signature, arguments)

    def property(self, name):
        return self.get(NM, self.device, f"{NM}.Device" + (".Wireless" if name == "LastScan" else ""), name)

    def scan(self, *names):
        before = self.property("LastScan")
        self.wireless("RequestScan", "a{sv}", {"ssids": dbus.Array([ssid(name) for name in names], signature="ay")} if names else {})
        self.wait(lambda: self.property("LastScan") != before)

    def found(self):
        every = [(path, self.get_all(NM, path, f"{NM}.AccessPoint")) for path in self.wireless("GetAllAccessPoints")]
        return {(octets(each["Ssid"]), int(each["Frequency"])): {**each, "path": path} for path, each in every}

    def add(self, name, psk=None, management="wpa-psk", persist="volatile", bind=None, bus=None):
        self.signals.clear()
        settings = {"connection": {"id": "test", "autoconnect": False}, "802-11-wireless": {"ssid": ssid(name)}}
        if psk:
            settings["802-11-wireless-security"] = {"key-mgmt": management, "psk": psk}
        options = {"persist": persist}
        if bind:
            options["bind-activation"] = bind
        typed = dbus.Dictionary(
            {key: dbus.Dictionary(value, signature="sv") for key, value in settings.items()}, signature="sa{sv}")
        return self.call("AddAndActivateConnection2", "a{sa{sv}}ooa{sv}", typed, self.device, "/", options, bus=bus)[:2]

    def device_states(self):
        return [tuple(int(each) for each in arguments) for arguments in self.heard("StateChanged", self.device)]

    def test_start(self):
        self.assertEqual((self.property("State"), self.property("DeviceType")), (100, 2))
        self.assertEqual(self.property("LastScan"), -1)
        self.assertEqual(self.joined, {"wlan0": "Home"})
        self.assertEqual(self.known, ["Home"])
        self.assertIn(NM_PATH, self.managed(NM, "/org/freedesktop"))

    def test_scan(self):
        self.scan()
        found = self.found()
        self.assertEqual(found[b"Dice-Open", 2412]["Flags"], 0)
        self.assertEqual(found[b"Dice-Open", 2412]["Strength"], 100)
        self.assertEqual(found[b"Dice-1234", 2412]["Strength"], 80)
        self.assertEqual(found[b"Dice-1234", 2412]["RsnFlags"] & 0x700, 0x100)
        self.assertEqual(found[b"Dice-SAE", 2412]["RsnFlags"] & 0x700, 0x400)
        self.assertIn((b"Dice\xff", 2412), found)
        self.assertIn((b"Dice-Pair", 5180), found)
        self.assertIn((b"", 2412), found)
        self.scan("Dice-Hidden")
        self.assertIn((b"Dice-Hidden", 2412), self.found())

    def test_scan_while_scanning(self):
        self.wireless("RequestScan", "a{sv}", {})
        self.wireless("RequestScan", "a{sv}", {})
        self.wait(lambda: self.control("Scans") == 2)

    def test_rate_limit(self):
        self.begin(wifi={"rateLimit": 60})
        self.wireless("RequestScan", "a{sv}", {})
        self.assertFails(f"{NM}.Device.NotAllowed", self.wireless, "RequestScan", "a{sv}", {})
        self.wait(lambda: self.property("LastScan") != -1)
        self.assertFails(f"{NM}.Device.NotAllowed", self.wireless, "RequestScan", "a{sv}", {})
        self.assertEqual(self.control("Scans"), 1)

    def test_join_and_come_back(self):
        self.scan()
        profile, active = self.add("Dice-1234", "sixsided1")
        self.assertEqual(self.control("Secrets"), 1)
        self.wait_joined("Dice-1234")
        self.wait(lambda: (100, 90, 0) in self.device_states())
        self.assertEqual([each[0] for each in self.device_states()], [110, 30, 40, 50, 70, 80, 90, 100])
        self.assertEqual(self.get(NM, active, f"{NM}.Connection.Active", "Connection"), profile)
        self.assertEqual(self.get(NM, active, f"{NM}.Connection.Active", "State"), 2)
        self.call("DeactivateConnection", "o", active)
        self.wait_joined("Home")
        self.assertIn((4, 2), self.heard("StateChanged", active))
        self.assertEqual((self.known, self.control("Secrets")), (["Home"], 0))

    def test_hidden_odd_and_sae(self):
        for name, psk, management in (
                ("Dice-Hidden", "sixsided4", "wpa-psk"), (b"Dice\xff", None, None), ("Dice-SAE", "sixsided3", "sae")):
            _, active = self.add(name, psk, management)
            self.wait(lambda: self.property("State") == 100 and self.property("ActiveConnection") == active)
            self.call("DeactivateConnection", "o", active)
        self.wait_joined("Home")
        self.assertEqual(self.known, ["Home"])

    def test_wrong_passphrase(self):
        self.assertFails(f"{NM}.Settings.Connection.InvalidProperty", self.add, "Dice-1234", "short")
        self.scan()
        _, active = self.add("Dice-1234", "not this one")
        # It has not left “Home” yet.
        self.wait(lambda: (120, 60, 7) in self.device_states())
        self.wait_joined("Home")
        self.assertIn((60, 50, 8), self.device_states())
        self.assertIn((4, 3), self.heard("StateChanged", active))

    def test_refused_not_there_no_address(self):
        self.begin(wifi={"joinTimeout": 0.5})
        self.scan()
        for name, reason in (("Dice-Full", 11), ("Nobody", 53), ("Dice-Mute", 5)):
            self.add(name)
            self.wait(lambda: any(each[0] == 120 and each[2] == reason for each in self.device_states()))
            self.wait_joined("Home")

    def test_bound_client_leaves(self):
        self.scan()
        client = self.connect()
        self.add("Dice-1234", "sixsided1", bind="dbus-client", bus=client)
        self.wait_joined("Dice-1234")
        client.close()
        self.wait_joined("Home")
        self.assertEqual(self.known, ["Home"])

    def test_stop_and_start(self):
        self.scan()
        self.add("Dice-1234", "sixsided1")
        self.wait_joined("Dice-1234")
        self.do("wifiStopped", "NetworkManager")
        self.wait(lambda: not self.bus.name_has_owner(NM))
        self.assertEqual(self.known, ["Home"])
        self.do("wifiStarted", "NetworkManager")
        self.wait_joined("Home")
        self.assertEqual((self.known, self.control("Secrets")), (["Home"], 0))

    def test_options(self):
        self.assertFails(f"{NM}.InvalidArguments", self.add, "Dice-Open", persist="never")
        self.assertFails(f"{NM}.UnknownDevice", self.call, "GetDeviceByIpIface", "s", "wlan7")

    def test_vanishing(self):
        self.scan()
        self.add("Dice-Open")
        self.wait_joined("Dice-Open")
        self.do("vanish", "open")
        self.wait_joined("Home")

    def test_radio_and_interface(self):
        self.do("wifiOff")
        self.assertEqual(self.property("State"), 20)
        self.assertFails(f"{NM}.Device.NotAllowed", self.wireless, "RequestScan", "a{sv}", {})
        self.do("wifiOn")
        self.wait_joined("Home")
        self.do("interfaceRemoved", "wlan0")
        self.wait(lambda: self.heard("DeviceRemoved"))
        self.do("interfaceAdded", "wlan0")
        self.wait_joined("Home")


class Agent(dbus.service.Object):
    def __init__(self, bus, passphrase):
        super().__init__(bus, "/agent")
        self.passphrase = passphrase
        self.asked = []

    @dbus.service.method(f"{IWD}.Agent", in_signature="o", out_signature="s")
    def RequestPassphrase(self, network):
        self.asked.append(str(network))
        if self.passphrase is None:
            raise dbus.DBusException("no", name=f"{IWD}.Agent.Error.Canceled")
        return self.passphrase


class Wireless(WiFiTest):
    """iwd."""

    def setUp(self):
        self.begin()

    def begin(self, **more):
        self.serve(scenario("iwd", **more))
        self.station = next(path for path, each in self.objects().items() if f"{IWD}.Station" in each)

    def objects(self):
        return self.managed(IWD, "/")

    def call(self, path, interface, member, signature="", *arguments):
        """Calls and waits with the loop running: an agent of ours may be asked meanwhile."""
        answer = []
        self.bus.call_async(
            IWD, path, f"{IWD}.{interface}", member, signature, arguments, lambda *values: answer.append((values, None)),
            lambda error: answer.append((None, error)), timeout=30)
        self.wait(lambda: answer)
        values, error = answer[0]
        if error is not None:
            raise error
        return values[0] if values else None

    def property(self, name):
        return self.get(IWD, self.station, f"{IWD}.Station", name)

    def scan(self):
        before = self.control("Scans")
        self.call(self.station, "Station", "Scan")
        self.wait(lambda: self.control("Scans") > before and not self.property("Scanning"))

    def networks(self):
        return {str(each[f"{IWD}.Network"]["Name"]): path for path, each in self.objects().items() if f"{IWD}.Network" in each}

    def connect_to(self, name):
        self.call(self.networks()[name], "Network", "Connect")

    def agent(self, passphrase):
        agent = Agent(self.bus, passphrase)
        self.addCleanup(agent.remove_from_connection)
        self.call("/net/connman/iwd", "AgentManager", "RegisterAgent", "o", "/agent")
        return agent

    def forget(self, name):
        for path, each in self.objects().items():
            if each.get(f"{IWD}.KnownNetwork", {}).get("Name") == name:
                self.call(path, "KnownNetwork", "Forget")

    def test_start(self):
        self.assertEqual(self.property("State"), "connected")
        self.assertEqual((self.joined, self.known), ({"wlan0": "Home"}, ["Home"]))
        self.assertEqual(self.networks()["Home"], f"{self.station}/{b'Home'.hex()}_psk")

    def test_scan(self):
        self.scan()
        self.assertEqual(
            sorted(self.networks()), ["Dice-1234", "Dice-Full", "Dice-Mute", "Dice-Open", "Dice-Pair", "Dice-SAE", "Home"])
        ordered = self.call(self.station, "Station", "GetOrderedNetworks")
        self.assertEqual(ordered[0], (self.networks()["Home"], -4500))
        self.assertEqual(ordered[1], (self.networks()["Dice-Open"], -4000))
        self.assertIn((self.networks()["Dice-Pair"], -5000), ordered)
        self.call(self.station, "Station", "Scan")
        self.assertFails(f"{IWD}.InProgress", self.call, self.station, "Station", "Scan")

    def test_open_and_forget(self):
        self.scan()
        self.connect_to("Dice-Open")
        self.assertEqual(self.joined, {"wlan0": "Dice-Open"})
        self.assertEqual(self.known, ["Dice-Open", "Home"])
        self.forget("Dice-Open")
        self.wait_joined("Home")
        self.assertEqual(self.known, ["Home"])

    def test_passphrases(self):
        self.scan()
        self.assertFails(f"{IWD}.NoAgent", self.connect_to, "Dice-1234")
        agent = self.agent("not this one")
        self.assertFails(f"{IWD}.AlreadyExists", self.call, "/net/connman/iwd", "AgentManager", "RegisterAgent", "o", "/agent")
        self.assertFails(f"{IWD}.Failed", self.connect_to, "Dice-1234")
        self.wait_joined("Home")
        agent.passphrase = "short"
        self.assertFails(f"{IWD}.InvalidFormat", self.connect_to, "Dice-1234")
        agent.passphrase = None
        self.assertFails(f"{IWD}.Aborted", self.connect_to, "Dice-1234")
        self.assertEqual((self.known, self.control("Secrets")), (["Home"], 0))
        for name, agent.passphrase in (("Dice-1234", "sixsided1"), ("Dice-SAE", "sixsided3"), ("Dice-Pair", "sixsided5")):
            self.connect_to(name)
            self.assertEqual(self.joined, {"wlan0": name})
        self.assertEqual(self.control("Secrets"), 3)
        self.call("/net/connman/iwd", "AgentManager", "UnregisterAgent", "o", "/agent")
        self.assertFails(f"{IWD}.NotFound", self.call, "/net/connman/iwd", "AgentManager", "UnregisterAgent", "o", "/agent")

    def test_hidden(self):
        self.agent("sixsided4")
        self.call(self.station, "Station", "ConnectHiddenNetwork", "s", "Dice-Hidden")
        self.assertEqual(self.joined, {"wlan0": "Dice-Hidden"})
        self.assertFails(f"{IWD}.AlreadyProvisioned", self.call, self.station, "Station", "ConnectHiddenNetwork", "s", "Dice-Hidden")
        self.assertFails(f"{IWD}.NotFound", self.call, self.station, "Station", "ConnectHiddenNetwork", "s", "Nobody")
        self.forget("Dice-Hidden")
        self.wait_joined("Home")

    def test_refused(self):
        self.scan()
        self.assertFails(f"{IWD}.Failed", self.connect_to, "Dice-Full")
        self.wait_joined("Home")

    def test_vanishing(self):
        self.scan()
        self.connect_to("Dice-Open")
        self.do("vanish", "open")
        self.wait_joined("Home")

    def test_disconnect_holds(self):
        self.call(self.station, "Station", "Disconnect")
        self.wait(lambda: self.property("State") == "disconnected")
        self.call(self.station, "Station", "Disconnect")
        self.connect_to("Home")
        self.assertEqual(self.joined, {"wlan0": "Home"})

    def test_stop_and_start(self):
        self.scan()
        self.connect_to("Dice-Open")
        self.do("wifiStopped", "iwd")
        self.wait(lambda: not self.bus.name_has_owner(IWD))
        self.assertEqual(self.joined, {})
        self.do("wifiStarted", "iwd")
        self.assertEqual((self.joined, self.known), ({"wlan0": "Home"}, ["Dice-Open", "Home"]))

    def test_radio_and_interface(self):
        self.do("wifiOff")
        self.assertNotIn(f"{IWD}.Station", self.objects()[self.station])
        self.assertFalse(self.objects()[self.station][f"{IWD}.Device"]["Powered"])
        self.do("wifiOn")
        self.wait_joined("Home")
        self.do("interfaceRemoved", "wlan0")
        self.assertNotIn(self.station, self.objects())
        self.do("interfaceAdded", "wlan0")
        self.wait_joined("Home")


class Crowd(WiFiTest):
    def test_a_thousand(self):
        self.serve({"wifi": {"services": ["wpa_supplicant", "NetworkManager", "iwd"]},
                    "accessPoints": [{"id": "die", "ssid": "Die %d", "count": 1000}]})
        device = self.bus.call_blocking(NM, NM_PATH, NM, "GetDeviceByIpIface", "s", ("wlan0",))
        self.bus.call_blocking(NM, device, f"{NM}.Device.Wireless", "RequestScan", "a{sv}", ({},))
        self.wait(lambda: self.get(NM, device, f"{NM}.Device.Wireless", "LastScan") != -1)
        self.assertEqual(len(self.bus.call_blocking(NM, device, f"{NM}.Device.Wireless", "GetAllAccessPoints", "", ())), 1000)
        path = self.bus.call_blocking(WPA, "/fi/w1/wpa_supplicant1", WPA, "GetInterface", "s", ("wlan0",))
        self.assertEqual(len(self.get(WPA, path, f"{WPA}.Interface", "BSSs")), 1000)
        self.assertEqual(sum(f"{IWD}.Network" in each for each in self.managed(IWD, "/").values()), 1000)


class Scenarios(WiFiTest):
    def problem(self, scenario):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(scenario, file)
            file.flush()
            done = subprocess.run([f"{BIN}/accessory-sim", "--check", file.name], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else done.stderr

    def test_check(self):
        self.assertIn("10 access points", self.problem(scenario("iwd")))
        self.assertIn("1000 access points", self.problem({"accessPoints": [{"id": "a", "ssid": "Die %d", "count": 1000}]}))

    def test_problems(self):
        for text, more in (
                ("wifi.speed", {"wifi": {"speed": 1}}),
                ("wifi.services", {"wifi": {"services": ["connman"]}}),
                ("accessPoints[0].ssid", {"accessPoints": [{"id": "a"}]}),
                ("accessPoints[0].passphrase", {"accessPoints": [{"id": "a", "ssid": "A", "security": "wpa2"}]}),
                ("accessPoints[0].security", {"accessPoints": [{"id": "a", "ssid": "A", "security": "wpa4"}]}),
                ("accessPoints[0].ssidHex", {"accessPoints": [{"id": "a", "ssidHex": "00" * 33}]}),
                ("duplicate id a", {"accessPoints": [{"id": "a", "ssid": "A"}, {"id": "a", "ssid": "B"}]}),
                ("events[0].service", {"events": [{"at": 1, "do": "wifiStopped"}]}),
                ("no interface wlan9", {"events": [{"at": 1, "do": "interfaceRemoved", "interface": "wlan9"}]})):
            self.assertIn(text, self.problem(more))

    def test_interfaces(self):
        for service in ("wpa_supplicant", "NetworkManager", "iwd"):
            self.serve({"wifi": {"services": [service], "interfaces": [
                {"name": "wlan0", "uplink": "Home"}, {"name": "wlan1", "uplink": "Home"}, {"name": "wlan2"}]}})
            self.assertEqual((self.joined, self.known), ({"wlan0": "Home", "wlan1": "Home"}, ["Home"]))
            self.do("vanish", "uplink-0")
            self.wait(lambda: self.joined == {})
            self.do("return", "uplink-0")
            self.wait(lambda: self.joined == {"wlan0": "Home", "wlan1": "Home"})
            self.assertEqual(self.control("Secrets"), 0)

    def test_events_and_all_services(self):
        self.serve(scenario("NetworkManager", "iwd", "wpa_supplicant", events=[
            {"on": "scanStarted", "after": 0, "do": "vanish", "accessory": "home"}]))
        self.assertEqual((self.joined, self.known), ({"wlan0": "Home"}, ["Home"]))
        for name in (NM, IWD, WPA):
            self.assertTrue(self.bus.name_has_owner(name))
        path = self.bus.call_blocking(WPA, "/fi/w1/wpa_supplicant1", WPA, "GetInterface", "s", ("wlan0",))
        self.bus.call_blocking(WPA, path, f"{WPA}.Interface", "Scan", "a{sv}", ({"Type": "active"},))
        self.wait(lambda: self.joined == {})


if __name__ == "__main__":
    unittest.main()
