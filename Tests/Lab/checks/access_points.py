# SPDX-License-Identifier: Apache-2.0
"""The access points of a scenario, on the air of a real kernel: mac80211_hwsim's virtual radios, one for this machine (wlan0), the
others with hostapd and an address server behind each network, in a network namespace of their own, where no Wi-Fi service sees them."""

import errno
import re
import select
import subprocess
import time
from pathlib import Path

NAMESPACE = "air"
DIRECTORY = Path(__file__).resolve().parent
RADIOS = 5
# Channels that all allow active scans, 36 to 48 among them, without a database; and two at a time, which lets the radio
# scan by itself as real ones do, in a second: the kernel goes back to its own channel after each of the others, and
# needs six.
MODULE = ("modprobe", "mac80211_hwsim", f"radios={RADIOS}", "channels=2", "regtest=5")
# Since Linux 6.6 or so the radio has 6 GHz, too, and a complete scan takes four times as long. This country has no
# more than 2.4 GHz and channels 36 to 48.
COUNTRY = "WS"
SIX_GHZ = 5945
DEBUG = Path("/sys/kernel/debug/ieee80211")
# hostapd's transmit power; hwsim adds it to a value of the sender's, which gives the rssi.
TRANSMIT_POWER = 20
NEAR, FAR = 1, 2
READY_SECONDS = 180

SECURITY = {
    "open": "",
    "wpa2": "wpa=2\nrsn_pairwise=CCMP\nwpa_key_mgmt=WPA-PSK\n",
    "wpa3": "wpa=2\nrsn_pairwise=CCMP\nwpa_key_mgmt=SAE\nieee80211w=2\n",
    "wpa2-wpa3": "wpa=2\nrsn_pairwise=CCMP\nwpa_key_mgmt=WPA-PSK SAE\nieee80211w=1\nsae_require_mfp=1\n",
}


class AccessPoints:
    """Starts them. `alone` are the ids of access points that appear and disappear by themselves: each has a radio, and so has the first, the way home;
    the others share one for each frequency, and with it their rssi, which is that of the faintest one."""

    def __init__(self, points, alone, logs):
        self._logs = logs
        self._folder = Path("/run/lab-state/access-points")
        self._folder.mkdir()
        self._radios = self._share_out(points, {points[0]["id"], *alone})
        self._programs = []
        self._run(*MODULE)
        self._leave_out_6_ghz()
        self._run("ip", "netns", "add", NAMESPACE)
        configurations = [self._set_up(number, points) for number, points in enumerate(self._radios, start=1)]
        self._hostapd(configurations)
        for number in range(1, len(self._radios) + 1):
            self._in_air("iw", "dev", f"wlan{number}", "set", "txpower", "fixed", str(100 * TRANSMIT_POWER))
        for number, points in enumerate(self._radios, start=1):
            for index, point in enumerate(points):
                if point.get("fault") != "noAddress":
                    self._serve_addresses(self._interface(number, index), number, index)
        self.all_near()

    @staticmethod
    def _share_out(points, alone):
        radios = {}
        for point in points:
            unknown = point.keys() & {"count", "appearsAt", "leavesAt", "faultCount"}
            if unknown or point.get("fault") not in (None, "refuse", "noAddress"):
                raise ValueError(f"{point['id']}: the lab does not play {sorted(unknown) or point['fault']}")
            radios.setdefault(point["id"] if point["id"] in alone else point.get("frequency", 2412), []).append(point)
        if len(radios) >= RADIOS:
            raise ValueError(f"{len(radios)} radios are needed, there are {RADIOS - 1}")
        return list(radios.values())

    @staticmethod
    def _run(*command):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}")

    def _leave_out_6_ghz(self):
        def is_there():
            channels = subprocess.run(["iw", "phy", "phy0", "channels"], stdout=subprocess.PIPE, text=True, check=True).stdout
            return any(int(each) >= SIX_GHZ for each in re.findall(r" (\d+) MHz \[\d+\] *$", channels, re.M))

        if is_there():
            self._run("iw", "reg", "set", COUNTRY)
        deadline = time.monotonic() + READY_SECONDS
        # The kernel reads its database first, and sends no event afterwards.
        while is_there():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the radios have 6 GHz still; is there a regulatory database with {COUNTRY}?")
            select.select([], [], [], 0.05)

    @staticmethod
    def _interface(number, index):
        return f"wlan{number}" + (f"_{index}" if index else "")

    def _set_up(self, number, points):
        """Moves a radio away and writes its configuration for hostapd."""
        self._run("iw", "phy", f"phy{number}", "set", "netns", "name", NAMESPACE)
        base = f"02:00:00:01:{number:02x}"
        # hostapd wants the first address of a block.
        self._in_air("ip", "link", "set", f"wlan{number}", "address", f"{base}:00")
        frequency = points[0].get("frequency", 2412)
        band, channel = ("g", (frequency - 2407) // 5) if frequency < 5000 else ("a", (frequency - 5000) // 5)
        rssi = min(point.get("rssi", -50) for point in points)
        # As an unsigned number: the file takes no sign.
        (DEBUG / f"phy{number}/hwsim/rx_rssi").write_text(str((rssi - TRANSMIT_POWER) % (1 << 64)))
        nobody = self._folder / "nobody"
        nobody.write_text("")
        text = f"driver=nl80211\nctrl_interface={self._folder}/control\nhw_mode={band}\nchannel={channel}\n"
        for index, point in enumerate(points):
            name = bytes.fromhex(point["ssidHex"]) if "ssidHex" in point else point["ssid"].encode()
            text += f"{'bss' if index else 'interface'}={self._interface(number, index)}\nbssid={base}:{index:02x}\n"
            text += f"ssid2={name.hex()}\nignore_broadcast_ssid={int(point.get('hidden', False))}\n"
            text += SECURITY[point.get("security", "open")]
            if point.get("security") == "wpa2":
                self._write_keys(point["id"], point["passphrase"])
                text += f"wpa_psk_file={self._keys(point['id'])}\n"
            elif "passphrase" in point:
                text += f"wpa_passphrase={point['passphrase']}\n"
            if point.get("fault") == "refuse":
                text += f"macaddr_acl=1\naccept_mac_file={nobody}\n"
        path = self._folder / f"hostapd-{number}.conf"
        path.write_text(text)
        return path

    def _in_air(self, *command):
        self._run("ip", "netns", "exec", NAMESPACE, *command)

    def _start(self, log, *command):
        program = subprocess.Popen(
            ["ip", "netns", "exec", NAMESPACE, *command], stdin=subprocess.DEVNULL, stdout=(self._logs / log).open("ab"),
            stderr=subprocess.STDOUT)
        self._programs.append(program)
        return program

    def _hostapd(self, configurations):
        log = self._logs / "hostapd.log"
        # Before all that is not the air's: an access point of its own waits for no program of this machine. Here it
        # would answer probes after the scan, and begin its handshake anew when it was asked twice.
        program = self._start(log.name, "chrt", "--rr", "1", "hostapd", "-t", *map(str, configurations))
        deadline = time.monotonic() + READY_SECONDS
        # It writes to a file, which sends no event.
        while len(re.findall("AP-ENABLED", self._said(log))) < len(configurations):
            if program.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("hostapd does not start: " + " ".join(self._said(log).splitlines()[-3:]))
            select.select([], [], [], 0.05)

    @staticmethod
    def _said(log):
        try:
            return log.read_text()
        except OSError as error:
            # Over 9p, where it grows meanwhile: Linux 7.2 reports that error then, and returns everything the next
            # time.
            if error.errno != errno.ENODATA:
                raise
            return ""

    def _serve_addresses(self, interface, number, index):
        """With them it offers a router and a name server, or, where there are several networks, routes that are as good as a default one."""
        network = f"10.{number}.{index}"
        halves = f"option staticroutes 0.0.0.0/1 {network}.1,128.0.0.0/1 {network}.1\n" if index else ""
        self._in_air("ip", "address", "add", f"{network}.1/24", "dev", interface)
        configuration = self._folder / f"udhcpd-{interface}.conf"
        leases = self._folder / f"leases-{interface}"
        leases.touch()
        configuration.write_text(
            f"interface {interface}\nstart {network}.10\nend {network}.99\nlease_file {leases}\npidfile {self._folder}/{interface}.pid\n"
            f"option subnet 255.255.255.0\noption router {network}.1\noption dns {network}.1\noption domain accessory.example\n{halves}"
            f"option lease 3600\n")
        self._start("udhcpd.log", "busybox", "udhcpd", "-f", str(configuration))

    # Changes by checks

    def _number(self, identifier):
        number = next(number for number, points in enumerate(self._radios, start=1) if identifier in [each["id"] for each in points])
        if len(self._radios[number - 1]) > 1:
            raise ValueError(f"{identifier} shares a radio: it cannot come and go by itself")
        return number

    def _move(self, number, where):
        # Radios of different groups do not hear each other, from one frame to the next.
        (DEBUG / f"phy{number}/hwsim/group").write_text(str(where))

    def network_of(self, ssid):
        """How the addresses begin that are given out there."""
        return next(
            f"10.{number}.{index}." for number, points in enumerate(self._radios, start=1)
            for index, point in enumerate(points) if point.get("ssid") == ssid)

    def advertise(self, ssid):
        """A router speaks there, until the check ends: for all prefixes, for half the prefixes, and for a name server."""
        number, index = self.network_of(ssid).split(".")[1:3]
        self._start("router.log", "/usr/bin/python3", "-B", str(DIRECTORY / "router.py"), self._interface(int(number), int(index)))

    def bssid_of(self, identifier):
        return next(
            f"02:00:00:01:{number:02x}:{index:02x}" for number, points in enumerate(self._radios, start=1)
            for index, point in enumerate(points) if point["id"] == identifier)

    def _keys(self, identifier):
        return self._folder / f"keys-{identifier}"

    def _write_keys(self, identifier, passphrase):
        self._keys(identifier).write_text(f"00:00:00:00:00:00 {passphrase}\n")

    def open_with(self, identifier, passphrase):
        """Has one with WPA2 take this passphrase, and no other, from the next association on."""
        self._write_keys(identifier, passphrase)
        self._run("hostapd_cli", "-p", f"{self._folder}/control", "-i", self._interface(self._number(identifier), 0), "reload_wpa_psk")

    def vanish(self, identifier):
        self._move(self._number(identifier), FAR)

    def bring_back(self, identifier):
        self._move(self._number(identifier), NEAR)

    def all_near(self):
        for number in range(1, len(self._radios) + 1):
            self._move(number, NEAR)
