# SPDX-License-Identifier: Apache-2.0
"""The frame for checks of Wi-Fi: the access points stay on the air for all checks; each check has its own process and cgroup, one Wi-Fi
service that is started afresh and has connected wlan0 to “Home”, a daemon, an app and a picker. There is no Bluetooth here."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import dbus
import dbus.mainloop.glib

import framework
from access_points import AccessPoints
from lab import DAEMON_NAME, Lab, SystemBus, expect
from wifi_services import HOME, HOME_PASSPHRASE, KEPT, NETWORKD, SERVICES, forget_heard, make_interface

SCENARIO = framework.DIRECTORY.parent / "Scenarios/wifi.json"
HOME_ID, DIE_ID = "home", "die"
# Two networks of one name, which differ in their protection.
TWINS = [
    {"id": "plug-open", "ssid": "Plug-1", "rssi": -60},
    {"id": "plug", "ssid": "Plug-1", "security": "wpa2", "passphrase": "sixsided9", "rssi": -60},
]
ROOT = "/org/accessorysetup1"
ACTIVATED = Path("/usr/share/dbus-1/system-services")

MANIFEST = """\
[Application]
Id=com.example.python
Name=Python
Executable={executable}

[AccessorySetup]
Supports=Bluetooth;WiFi;
"""


class WiFiLab(Lab):
    """The environment of a check: the programs of Lab, the service, the air, and the kernel's state of wlan0."""

    def __init__(self, logs, air):
        super().__init__(logs, SCENARIO)
        self.air = air
        self.apps = self.state / "apps"
        self.apps.mkdir()
        executable = Path(sys.executable).resolve()
        (self.apps / "com.example.python.conf").write_text(MANIFEST.format(executable=executable))

    def set_up(self):
        """In the check's own process."""
        dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        self.bus = SystemBus()
        self.bus.wake_for("org.freedesktop.DBus", DAEMON_NAME, *{each.bus_name for each in SERVICES.values()})
        self.kernel = self.start("iw-event", "stdbuf", "-oL", "iw", "event", "-t")
        self._asked, self._joined = None, None
        self.began = self.state / "began"
        self.began.touch()

    def begin(self, service, away):
        """Starts the service; access points that are `away` it has never heard."""
        for each in away:
            self.air.vanish(each)
        if away:
            forget_heard()
        self.service = SERVICES[service](self)
        self.service.start()
        self.wait_joined(HOME, 60)
        self.start_wifi_daemon()

    # The kernel

    def _told(self, pattern):
        """The number of the kernel's matching lines since the check began."""
        return sum(bool(re.search(pattern, line)) for line in self.kernel.lines)

    @property
    def scans(self):
        """How many scans wlan0 has begun."""
        return self._told("scan started")

    @property
    def refused_handshakes(self):
        """How often an access point has given a handshake up."""
        return self._told("deauth .*reason (2|15)[: ]")

    @property
    def ended_scans(self):
        return self._told("scan (finished|aborted)")

    @property
    def is_scanning(self):
        return self.scans > self.ended_scans

    def wait_heard(self, network, seconds=40):
        """Until the kernel has heard a network of which it knew nothing; returns in which scan, as `ended_scans` counts them."""
        looked_after = None

        def look():
            nonlocal looked_after
            if looked_after == (ended := self.ended_scans):
                return None
            looked_after = ended
            if not re.search(rf"SSID: {re.escape(network)}$", self.tell("iw", "dev", "wlan0", "scan", "dump"), re.M):
                return None
            # The next one may have begun meanwhile, and have heard it.
            return max(ended, self.scans)

        return self.wait_until(look, seconds, f"the kernel to hear {network}")

    @property
    def joined(self):
        """The network that wlan0 is on, keys and all; None when it is on none."""
        # Events say when to ask; iw's small buffer may lose one.
        asked = len(self.kernel.lines), int(time.monotonic())
        # The end of the handshake is no event.
        if self._asked != asked or self._joined == "":
            self._asked = asked
            link = self.tell("iw", "dev", "wlan0", "link")
            self._joined = None
            if "Connected to" in link:
                authorized = re.search(r"authorized:\s+yes", self.tell("iw", "dev", "wlan0", "station", "dump"))
                self._joined = re.search(r"SSID: (.*)", link)[1] if authorized else ""
        return self._joined

    @property
    def bssid(self):
        found = re.search(r"Connected to ([0-9a-f:]+)", self.tell("iw", "dev", "wlan0", "link"))
        return found and found[1]

    @staticmethod
    def tell(*command):
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout

    def wait_joined(self, network, seconds=40):
        def asked():
            link = " ".join(self.tell("iw", "dev", "wlan0", "link").split())
            return f"wlan0 to be on {network}; iw says “{link[:120]}”, and last reported “{''.join(self.kernel.lines[-1:])}”"

        self.wait_until(lambda: self.joined == network, seconds, asked, every=0.2)

    def forget(self, network):
        """Makes the kernel forget it, as after half a minute without a scan: a scan of channel 36 drops absent networks."""
        def forgotten():
            # As `forget_heard` says, it may wait for ever.
            self.tell("timeout", "20", "iw", "dev", "wlan0", "scan", "freq", "5180", "flush")
            return f"SSID: {network}\n" not in self.tell("iw", "dev", "wlan0", "scan", "dump")

        self.wait_until(forgotten, 30, f"the kernel to forget {network}")

    @property
    def address(self):
        found = re.search(r"inet ([\d.]+)", self.tell("ip", "-4", "address", "show", "dev", "wlan0"))
        return found and found[1]

    @property
    def routes(self):
        """Which ones lead out of wlan0, of both kinds; multicast apart."""
        found = self.tell("ip", "-4", "route", "show", "dev", "wlan0") + self.tell("ip", "-6", "route", "show", "dev", "wlan0")
        return sorted(line.split()[0] for line in found.splitlines() if not line.startswith("multicast "))

    @property
    def name_servers(self):
        """Those that NetworkManager or networkd has taken, and their domains."""
        files = [Path("/run/NetworkManager/resolv.conf"), *Path("/run/systemd/netif/links").glob("*"), Path("/etc/resolv.conf")]
        began = self.began.stat().st_mtime
        lines = [line for each in files if each.is_file() and each.stat().st_mtime >= began for line in each.read_text().splitlines()]
        return sorted({word for line in lines if re.match("nameserver |search |domain |(DNS|DOMAINS)=", line)
                       for word in re.split("[ =]", line)[1:] if word})

    @property
    def advertisements(self):
        """How many of routers the kernel has had on wlan0."""
        return int(re.search(r"Icmp6InRouterAdvertisements\s+(\d+)", Path("/proc/net/dev_snmp6/wlan0").read_text())[1])

    def hear_the_router(self, network):
        """Until an advertisement has come, and another one: the reaction to the first is then complete."""
        self.air.advertise(network)
        before = self.advertisements
        self.wait_until(lambda: self.advertisements >= before + 2, 20, "the router's advertisements", every=0.2)

    def written_with(self, *secrets):
        """The files below the directories of services in which a secret was left since the check began; apart from the air's own, and
        from logs of the check."""
        found = self.tell(
            "find", "/etc", "/var", "/run", "-type", "f", "-newer", self.began, "-not", "-path",
            "/run/lab-state/access-points/*", "-not", "-path", "/run/lab/*", "-not", "-path", f"{self.logs}/*")
        return sorted(each for each in found.splitlines() if any(secret.encode() in Path(each).read_bytes() for secret in secrets))

    def wait_quiet(self, seconds, limit):
        """Waits until the kernel has reported no scan for so long."""
        seen, since = self.scans, time.monotonic()

        def quiet():
            nonlocal seen, since
            if self.scans != seen:
                seen, since = self.scans, time.monotonic()
            return time.monotonic() - since >= seconds

        self.wait_until(quiet, limit, f"{seconds} s without a scan", every=0.2)

    # The daemon

    def start_wifi_daemon(self):
        self.daemon = self.start_daemon("--apps", self.apps)
        self.wait_wifi("ready")

    @property
    def wifi(self):
        root = self.bus.get_object(DAEMON_NAME, ROOT, introspect=False)
        return str(root.Get(f"{DAEMON_NAME}.Manager", "WiFi", dbus_interface=dbus.PROPERTIES_IFACE))

    def wait_wifi(self, state, seconds=30):
        self.wait_until(lambda: self.wifi == state, seconds, f"Manager.WiFi to be “{state}”")

    def expect_home(self, *secrets, seconds=40):
        """Back on the network from before, and the service knows of no other."""
        self.wait_joined(HOME, seconds)
        self.wait_until(lambda: self.service.profiles() == [HOME], 10, "the accessory's profile to go", every=0.2)
        found = self.service.secrets(*secrets)
        expect(not found, f"the accessory's passphrase is in {found}")


# The runner

def run_all(checks, logs, _stock):
    """Runs them in order, one line each, and returns the exit status."""
    air = _make_world(logs)
    print(f"access points up after {time.clock_gettime(time.CLOCK_BOOTTIME):.2f} s", flush=True)
    results = framework.Results(logs)
    for each in checks:
        began = time.monotonic()
        why = _run(each, logs / each.name, air)
        results.add(each, why, time.monotonic() - began, logs / each.name)
    return results.close()


def _make_world(logs):
    # Services are started by the checks only.
    for name in ("fi.w1.wpa_supplicant1", "org.freedesktop.NetworkManager", "net.connman.iwd", "org.freedesktop.nm_dispatcher", "org.bluez"):
        (ACTIVATED / f"{name}.service").unlink(missing_ok=True)
    bus = SystemBus()
    bus.get_object("org.freedesktop.DBus", "/org/freedesktop/DBus", introspect=False).ReloadConfig(dbus_interface="org.freedesktop.DBus")
    bus.close()
    for each in KEPT:
        Path(each).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", each], check=True)
    air = AccessPoints([*json.loads(SCENARIO.read_text())["accessPoints"], *TWINS], [DIE_ID], logs)
    # NetworkManager and iwd wait for udev to know an interface.
    Path("/run/udev").mkdir(exist_ok=True)
    subprocess.run(["/lib/systemd/systemd-udevd", "--daemon"], check=True)
    subprocess.run(["udevadm", "trigger", "--action=add", "--subsystem-match=net", "--subsystem-match=rfkill"], check=True)
    subprocess.run(["udevadm", "settle"], check=True)
    return air


def _run(each, logs, air):
    """Returns None, or in a few words why the check failed."""
    logs.mkdir()
    for kept in KEPT:
        for old in Path(kept).iterdir():
            subprocess.run(["rm", "-rf", "--", old], check=True)
    for own in NETWORKD:
        shutil.rmtree(own, ignore_errors=True)
    air.all_near()
    make_interface()
    framework.CGROUP.mkdir()
    try:
        lab = WiFiLab(logs, air)

        def set_up():
            lab.set_up()
            lab.begin(each.service, each.away)

        return framework.run_in_child(each, lab, logs, set_up)
    finally:
        framework.clear_away()
