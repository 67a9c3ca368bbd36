# SPDX-License-Identifier: Apache-2.0
"""The Wi-Fi services under which the checks are run: how each is configured, with the network “Home” as an administrator would save it,
how it is started, and its stored networks. Each is the real one of Debian, with Debian's defaults."""

import shutil
import subprocess
from pathlib import Path

import dbus

from lab import expect

HOME, HOME_PASSPHRASE = "Home", "correct horse"
# Whatever a service writes to keep: empty at the start of each check.
KEPT = ("/etc/NetworkManager/system-connections", "/run/NetworkManager", "/var/lib/NetworkManager", "/var/lib/iwd", "/run/wpa_supplicant")
# networkd, which gives addresses, writes to directories of its own user.
NETWORKD = ("/run/systemd/network", "/run/systemd/netif")
# Makes NetworkManager use iwd.
OVER_IWD = "[device]\nwifi.backend=iwd\n"


def write_private(path, text):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


class Service:
    """One service in one check. `process` is the one that is to be killed; `below` is the supplicant of one that needs it."""

    name = bus_name = None
    # Whether the service below connects to the home network, too.
    goes_home_below = False
    # The kernel's scans until all channels have been scanned once.
    kernel_scans = 1

    def __init__(self, lab):
        self.lab = lab
        self.process = self.below = None

    def object(self, path, interface):
        return dbus.Interface(self.lab.bus.get_object(self.bus_name, path, introspect=False), interface)

    def get(self, path, interface, name):
        return self.object(path, dbus.PROPERTIES_IFACE).Get(interface, name)

    def run(self, name, *command):
        return self.lab.start_loud(name, *command)

    def wait_for_name(self, process, name):
        self.lab.wait_until(lambda: self.lab.bus.name_has_owner(name) or process.ended, 30, name)
        expect(not process.ended, f"{process.name} ended: {process.lines[-1:]}")

    def kill(self):
        self.process.kill()

    def secrets(self, *secrets):
        """The files of the service that contain a secret."""
        found = []
        for each in KEPT:
            for path in Path(each).rglob("*"):
                if path.is_file() and any(secret.encode() in path.read_bytes() for secret in secrets):
                    found.append(str(path))
        return found


class Supplicant(Service):
    name, bus_name = "wpa_supplicant", "fi.w1.wpa_supplicant1"
    interface = "fi.w1.wpa_supplicant1.Interface"
    configuration = "/run/lab-state/wpa_supplicant.conf"

    def start(self):
        write_private(self.configuration, f'network={{\n  ssid="{HOME}"\n  psk="{HOME_PASSPHRASE}"\n}}\n')
        self.process = self.run("wpa_supplicant", "/sbin/wpa_supplicant", "-u", "-t", "-d", "-i", "wlan0", "-c", self.configuration)
        self.wait_for_name(self.process, self.bus_name)

    @property
    def path(self):
        return self.object("/fi/w1/wpa_supplicant1", "fi.w1.wpa_supplicant1").GetInterface("wlan0")

    def profiles(self):
        """The names of its networks."""
        return sorted(
            str(self.get(network, "fi.w1.wpa_supplicant1.Network", "Properties")["ssid"]).strip('"')
            for network in self.get(self.path, self.interface, "Networks"))

    def disconnect(self):
        self.object(self.path, self.interface).Disconnect()

    def rest(self):
        for network in self.get(self.path, self.interface, "Networks"):
            self.object(network, dbus.PROPERTIES_IFACE).Set("fi.w1.wpa_supplicant1.Network", "Enabled", dbus.Boolean(False, variant_level=1))


class NetworkManager(Service):
    name, bus_name = "NetworkManager", "org.freedesktop.NetworkManager"

    @staticmethod
    def home():
        return (
            "/etc/NetworkManager/system-connections/Home.nmconnection",
            f"[connection]\nid={HOME}\nuuid=5d2b5f0e-7d1c-4f0e-9a55-000000000001\ntype=wifi\n\n[wifi]\nssid={HOME}\n\n"
            f"[wifi-security]\nkey-mgmt=wpa-psk\npsk={HOME_PASSPHRASE}\n")

    def start(self):
        write_private(*self.home())
        if not self.lab.bus.name_has_owner(Supplicant.bus_name):
            self.below = self.run("wpa_supplicant", "/sbin/wpa_supplicant", "-u", "-t", "-d")
            self.wait_for_name(self.below, Supplicant.bus_name)
        self.start_manager()

    def start_manager(self):
        self.process = self.run("NetworkManager", "/usr/sbin/NetworkManager", "--debug", "--log-level=INFO")
        self.wait_for_name(self.process, self.bus_name)
        # It has its name before it has anything else.
        self.lab.wait_until(self._is_up, 30, "NetworkManager to be up", every=0.2)

    def _is_up(self):
        try:
            self.profiles()
            return True
        except dbus.DBusException:
            return False

    def disconnect_below(self):
        """Disconnects the service below, which then stays disconnected until a command."""
        Supplicant(self.lab).disconnect()

    def rest_below(self):
        """The service below silently stops looking for its networks."""
        Supplicant(self.lab).rest()

    def profiles(self):
        settings = self.object("/org/freedesktop/NetworkManager/Settings", "org.freedesktop.NetworkManager.Settings")
        found = []
        for path in settings.ListConnections():
            values = self.object(path, "org.freedesktop.NetworkManager.Settings.Connection").GetSettings()
            if "802-11-wireless" in values:
                found.append(bytes(values["802-11-wireless"]["ssid"]).decode(errors="replace"))
        return sorted(found)


class IWD(Service):
    name, bus_name = "iwd", "net.connman.iwd"
    # It begins with the likeliest channels.
    kernel_scans = 3
    command = ("/usr/libexec/iwd", "-d")
    configuration = Path("/etc/iwd/main.conf")

    @staticmethod
    def home():
        return f"/var/lib/iwd/{HOME}.psk", f"[Security]\nPassphrase={HOME_PASSPHRASE}\n"

    def start(self):
        write_private(*self.home())
        self.process = self.run("iwd", *self.command)
        self.wait_for_name(self.process, self.bus_name)

    def profiles(self):
        """Its networks, on the bus and on its disk."""
        known = {str(each["Name"]) for each in self._objects("KnownNetwork").values()}
        files = {path.stem for path in Path("/var/lib/iwd").iterdir() if path.suffix in (".psk", ".open", ".8021x")}
        return sorted(known | files)

    def disconnect(self):
        for path in self._objects("Station"):
            self.object(path, "net.connman.iwd.Station").Disconnect()

    def _objects(self, interface):
        objects = self.object("/", "org.freedesktop.DBus.ObjectManager").GetManagedObjects()
        name = f"net.connman.iwd.{interface}"
        return {path: interfaces[name] for path, interfaces in objects.items() if name in interfaces}


class NetworkManagerOverIWD(NetworkManager):
    """NetworkManager with iwd in the place of wpa_supplicant. The two know networks of each other's: NetworkManager has a file of iwd's
    for each of its own, and a connection for each that iwd knows."""

    name = "NetworkManager_over_iwd"
    goes_home_below = True
    kernel_scans = IWD.kernel_scans

    def __init__(self, lab):
        super().__init__(lab)
        self._iwd = IWD(lab)

    def start(self):
        configuration = Path("/run/NetworkManager/conf.d/iwd.conf")
        configuration.parent.mkdir(exist_ok=True)
        configuration.write_text(OVER_IWD)
        # As it is once it has been joined: NetworkManager has iwd go there by itself.
        write_private(*self.home())
        write_private(*IWD.home())
        if not self.lab.bus.name_has_owner(IWD.bus_name):
            self.below = self.run("iwd", *IWD.command)
            self.wait_for_name(self.below, IWD.bus_name)
        self.start_manager()

    def disconnect_below(self):
        self._iwd.disconnect()

    def profiles(self):
        return sorted(set(super().profiles()) | set(self._iwd.profiles()))


def start_networkd(lab):
    """networkd, which gives addresses over wpa_supplicant and iwd, with our example for the interface, and a file for the network from before."""
    folder = Path("/run/systemd/network")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(lab.repository / "Docs/Examples/accessory-networks.network", folder / "20-accessories.network")
    (folder / "10-home.network").write_text(f"[Match]\nSSID={HOME}\n\n[Network]\nDHCP=yes\n")
    networkd = lab.start_loud("systemd-networkd", "/lib/systemd/systemd-networkd")
    lab.wait_until(lambda: lab.bus.name_has_owner("org.freedesktop.network1") or networkd.ended, 30, "networkd")
    expect(not networkd.ended, f"networkd ended: {networkd.lines[-1:]}")


SERVICES = {each.name: each for each in (Supplicant, NetworkManager, IWD, NetworkManagerOverIWD)}


def make_interface():
    """wlan0 as it was at the start: iwd replaces it by its own, which goes with it."""
    if not Path("/sys/class/net/wlan0").exists():
        subprocess.run(["iw", "phy", "phy0", "interface", "add", "wlan0", "type", "managed"], check=True)
    subprocess.run(["ip", "link", "set", "wlan0", "down"], check=True)
    subprocess.run(["ip", "address", "flush", "dev", "wlan0"], check=True)


def forget_heard():
    """The kernel keeps the results of a scan for half a minute, and iwd takes them for present."""
    subprocess.run(["ip", "link", "set", "wlan0", "up"], check=True)
    # On a busy machine iw was seen to wait for ever for the end of a scan that the kernel had reported.
    for left in reversed(range(6)):
        try:
            subprocess.run(["iw", "dev", "wlan0", "scan", "flush"], stdout=subprocess.DEVNULL, check=True, timeout=20)
            break
        except subprocess.TimeoutExpired:
            if not left:
                raise
    subprocess.run(["ip", "link", "set", "wlan0", "down"], check=True)
