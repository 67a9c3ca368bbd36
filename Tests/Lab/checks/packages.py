# SPDX-License-Identifier: Apache-2.0
"""The end of a machine with systemd that had the packages: the leftovers of their removal. Last of its guest's groups, because no check
installs them again."""

import shutil
import subprocess
from pathlib import Path

from framework import check
from lab import DAEMON_NAME, expect
from machine import DAEMON, GRANTS

# Of an app elsewhere.
REMOTE = """\
[Application]
Id=com.example.remote
Name=Remote
Remote=/etc/accessory-setup/keys/com.example.remote.key

[AccessorySetup]
Supports=Bluetooth;
BluetoothServices=E56A082E-C49B-47CA-A2AB-389127B8ABE3;
"""
PACKAGES = ("accessory-door", "accessory-fleet", "accessory-sim", "accessoryctl", "accessorysetupd", "cockpit-accessories")
DOOR = "accessory-door.service"
DOOR_CONFIGURATION = Path("/etc/accessory-setup/door.conf")
FLEET = "accessory-fleet.service"
FLEET_USER = "accessory-fleet"
FLEET_CONFIGURATION = Path("/etc/accessory-setup/fleet.conf")
FLEET_STATE = Path("/var/lib/accessory-fleet")
LOCKDOWN = "accessory-fleet-lockdown@{}.service"
NO_IPV6 = Path("/run/systemd/system/accessory-door.service.d/no-ipv6.conf")
LOCAL_BUS_CONFIGURATION = Path("/etc/dbus-1/system-local.conf")
# Where something could be left: whatever a program or systemd writes by itself.
PLACES = ("/etc", "/var/cache", "/var/lib", "/var/log", "/run/accessory-setup", "/usr/lib/systemd", "/usr/share/dbus-1", "/usr/share/polkit-1")


@check(seconds=300)
def the_door_is_opened_by_its_admin(machine):
    """Not by the package, because it listens on the network; an upgrade restarts it if it runs, and a removal ends it."""
    machine.installed()
    package = package_of(machine, "accessory-door")

    def expect_closed():
        enabled = machine.systemctl("is-enabled", DOOR, fails=True)
        expect(enabled == "disabled" and machine.state(DOOR) == "inactive", f"the door is {enabled} and {machine.state(DOOR)}")

    machine.systemctl("stop", DOOR)
    # An earlier check's, which listens on one address.
    DOOR_CONFIGURATION.unlink(missing_ok=True)
    machine.run("dpkg", "--install", package, seconds=180)
    expect_closed()
    # Also on a machine without IPv6, for which the error is the same.
    NO_IPV6.parent.mkdir(parents=True, exist_ok=True)
    NO_IPV6.write_text("[Service]\nRestrictAddressFamilies=\nRestrictAddressFamilies=AF_INET AF_UNIX\n")
    machine.systemctl("daemon-reload")
    machine.systemctl("start", DOOR)
    expect("nothing to listen on" in machine.journal(f"--unit={DOOR}"), "the door listens on IPv6")
    NO_IPV6.unlink()
    machine.systemctl("daemon-reload")
    before = machine.show(DOOR, "MainPID")
    machine.run("dpkg", "--install", package, seconds=180)
    machine.wait_until(lambda: machine.state(DOOR) == "active", 60, "the door to be open", every=0.1)
    expect(machine.show(DOOR, "MainPID") != before, "an upgrade leaves the older door open")
    machine.run("dpkg", "--remove", "accessory-door", seconds=180)
    # A manifest that came before the package counts as soon as there is the door's user.
    machine.run("userdel", "accessory-door")
    machine.declare("com.example.remote", REMOTE)
    is_good = lambda: any(line.startswith("com.example.remote ") and " good " in line for line in machine.accessoryctl("apps").splitlines())
    expect(not is_good(), "an app elsewhere needs no door")
    machine.run("dpkg", "--install", package, seconds=180)
    expect_closed()
    machine.wait_until(is_good, 30, "the manifest to be read again", every=0.2)


@check(seconds=300)
def a_fleets_agent_has_the_rights_that_it_needs(machine):
    """Once its admin has started it: by polkit those of an administrator, and the start of two units. A broker is elsewhere."""
    machine.installed()
    package = package_of(machine, "accessory-fleet")
    machine.run("dpkg", "--install", package, seconds=180)
    enabled = machine.systemctl("is-enabled", FLEET, fails=True)
    machine.systemctl("start", FLEET)
    expect(enabled == "disabled" and machine.state(FLEET) == "inactive", f"without a fleet the agent is {enabled} and {machine.state(FLEET)}")
    admins = lambda: machine.journal(f"--unit={DAEMON}").count("client is an admin by polkit")
    before = admins()
    join_fleet(machine)
    said = lambda text: text in machine.journal(f"--unit={FLEET}")
    machine.wait_until(lambda: said("no connection to the broker"), 60, "the agent to miss its broker", every=0.2)
    machine.wait_until(lambda: admins() > before, 60, "polkit to let the agent in", every=0.2)
    expect(not said("permission denied"), "the daemon refuses the agent")
    # The daemon's user, too, reads the operator's documents, and nothing else there.
    (FLEET_STATE / "apps").mkdir()
    machine.run("runuser", "--user", "accessory-setup", "--", "ls", FLEET_STATE / "apps")
    machine.run("runuser", "--user", "accessory-setup", "--", "ls", FLEET_STATE / "private", fails=True)
    for state in ("on", "on", "off"):
        start_as_agent(machine, LOCKDOWN.format(state))
        unit = LOCKDOWN.format(state)
        machine.wait_until(lambda: machine.state(unit) in ("inactive", "failed"), 60, f"{unit} to end", every=0.2)
        expect(machine.show(unit, "Result") == "success", f"{unit} says {machine.journal(f'--unit={unit}')}")
        expect(machine.lockdown()["lockdown"] == state, f"the lock-down is not {state}")
    start_as_agent(machine, LOCKDOWN.format("status"), fails=True)
    start_as_agent(machine, "dice.service", fails=True)
    start_as_agent(machine, LOCKDOWN.format("on"), method="StopUnit", fails=True)
    before = machine.show(FLEET, "MainPID")
    machine.run("dpkg", "--install", package, seconds=180)
    machine.wait_until(lambda: machine.state(FLEET) == "active", 60, "the agent to be back", every=0.1)
    expect(machine.show(FLEET, "MainPID") != before, "an upgrade leaves the older agent running")
    machine.run("dpkg", "--remove", "accessory-fleet", seconds=180)
    expect(machine.state(FLEET) == "inactive" and FLEET_STATE.exists(), "a removal leaves the agent running, or takes its state")
    machine.run("dpkg", "--install", package, seconds=180)


@check(seconds=300)
def a_removal_ends_the_lock_down_and_an_installation_restores_it(machine):
    machine.installed()
    machine.accessoryctl("lockdown", "on", "--except", "lab-radio@.service")
    before = machine.lockdown()["exceptions"]
    said = machine.run("dpkg", "--remove", *(each for each in ("accessory-door", "accessory-fleet", "cockpit-accessories", "accessorysetupd") if is_installed(each)), seconds=180)
    expect("the lock-down of org.bluez ends" in said, f"dpkg says {said}")
    expect(not LOCAL_BUS_CONFIGURATION.exists(), "BlueZ is still locked down")
    expect(not drop_ins(), f"systemd has {drop_ins()}")
    machine.run("dpkg", "--install", *machine.debs, seconds=180)
    now = machine.lockdown()
    expect(now["lockdown"] == "on", "the lock-down is off")
    expect(now["exceptions"] == before, f"exceptions are {now['exceptions']}, not {before}")
    machine.accessoryctl("lockdown", "off")
    expect(not GRANTS.with_name("lockdown-was-on").exists(), "it would be switched on once more")


@check(seconds=240)
def a_purge_leaves_nothing(machine):
    machine.installed()
    # Of the admin's: additions to the bus' configuration, and keys, must be removed, too.
    machine.accessoryctl("lockdown", "on")
    machine.run("/usr/bin/accessory-door", "--new-key", "/etc/accessory-setup/keys/com.example.left.key")
    join_fleet(machine)
    expect(LOCAL_BUS_CONFIGURATION.exists() and GRANTS.exists() and FLEET_STATE.exists(), "there is nothing to leave")
    names = [name for name in PACKAGES if is_installed(name)]
    expect("accessorysetupd" in names and "accessoryctl" in names, f"installed are {names}")
    listed = {Path(line) for line in machine.run("dpkg", "--listfiles", *names).splitlines() if line.startswith("/")}
    files = {each for each in listed if not each.is_dir()}
    machine.run("dpkg", "--purge", *names, seconds=180)
    left = sorted(str(each) for each in files if each.is_symlink() or each.exists())
    places = [each for each in PLACES if Path(each).exists()]
    found = machine.run("find", *places, "-iname", "*accessory*", "-o", "-iname", "*accessories*", fails=None).splitlines()
    expect(not left and not found, f"left are {left + found}")
    expect(not LOCAL_BUS_CONFIGURATION.exists(), "BlueZ is still locked down")
    expect(not any(is_installed(name) for name in names), "dpkg has not purged them all")
    machine.systemctl("daemon-reload")
    expect(machine.show(DAEMON, "LoadState") == "not-found", "systemd has its unit")
    expect(not machine.bus.name_has_owner(DAEMON_NAME), "it is on the bus")
    activatable = machine.bus.list_activatable_names()
    expect(DAEMON_NAME not in activatable, "the bus would start it")


def package_of(machine, name):
    (package,) = (each for each in machine.debs if machine.run("dpkg-deb", "--field", each, "Package") == name)
    return package


def join_fleet(machine):
    """With the agent running, and its broker not there."""
    operators = FLEET_STATE.with_name("operators")
    if not FLEET_CONFIGURATION.exists():
        machine.accessoryctl("fleet", "init", "--fleet", operators, "--broker", "mqtt://localhost", "lab")
        machine.accessoryctl("fleet", "add", "--fleet", operators, "gateway")
        machine.run("sh", "-c", 'install -m 640 -g accessory-fleet "$0"/fleet* "$1"', operators / "gateways/gateway", FLEET_CONFIGURATION.parent)
        shutil.rmtree(operators)
    machine.systemctl("start", FLEET)
    expect(machine.state(FLEET) == "active", f"the agent is {machine.state(FLEET)}")


def start_as_agent(machine, unit, method="StartUnit", **options):
    """Asks systemd as the agent does."""
    systemd = "org.freedesktop.systemd1"
    machine.run("runuser", "--user", FLEET_USER, "--", "busctl", "call", systemd, "/org/freedesktop/systemd1", f"{systemd}.Manager", method,
                "ss", unit, "replace", **options)


def drop_ins():
    return sorted(map(str, Path("/etc/systemd/system").glob("*.d/*accessorysetupd*")))


def is_installed(name):
    said = subprocess.run(["dpkg-query", "--show", "--showformat", "${db:Status-Status}", name], capture_output=True, text=True)
    return said.returncode == 0 and said.stdout != "not-installed"
