# SPDX-License-Identifier: Apache-2.0
"""A guest's components, by its own report: release, kernel, the services' packages, and which program is the system bus.
The host keeps it with the results."""

import json
import os
import subprocess
from pathlib import Path

import dbus

# Those that the product speaks to, and those it is run by.
PACKAGES = (
    "bluez", "cockpit-ws", "dbus-broker", "dbus-daemon", "dbus", "flatpak", "hostapd", "iwd", "network-manager", "polkitd", "systemd", "wpasupplicant",
)


def write(logs):
    file = logs / "versions"
    if file.exists():
        return  # of the boot before
    installed = subprocess.run(
        ["dpkg-query", "--show", "--showformat", r"${Package}\t${Version}\t${db:Status-Status}\n", *PACKAGES],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    known = [line.split("\t") for line in installed.splitlines()]
    packages = {name: version for name, version, status in known if status == "installed"}
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines())
    versions = {
        "debian": Path("/etc/debian_version").read_text().strip(), "release": release.get("VERSION_CODENAME", ""),
        "kernel": os.uname().release, "bus": _bus(), "packages": packages,
    }
    file.write_text(json.dumps(versions, indent=1) + "\n")


def _bus():
    """The program behind the system bus."""
    bus = dbus.SystemBus(private=True)
    try:
        pid = bus.get_object("org.freedesktop.DBus", "/org/freedesktop/DBus", introspect=False).GetConnectionUnixProcessID(
            "org.freedesktop.DBus", dbus_interface="org.freedesktop.DBus")
    finally:
        bus.close()
    return Path(f"/proc/{pid}/exe").readlink().name.removesuffix("-launch")
