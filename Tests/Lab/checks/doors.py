# SPDX-License-Identifier: Apache-2.0
"""The doors to an accessory besides D-Bus, with the lock-down off and on: the kernel's Bluetooth sockets, from all processes that systemd starts, and
from their child processes."""

import json
import pwd
from pathlib import Path

import accounts
from accounts import PERSON
from framework import check
from lab import expect
from machine import APPS, DAEMON, PINK_DICE
from systemd import PINK_PATH

UNITS = Path("/etc/systemd/system")
DOORS = ("/usr/bin/python3", "-B", APPS / "doors.py")
OPEN = {"open"}
# By the ways of apps/doors.py; a program of another architecture is ended. (Python's name for EOPNOTSUPP is ENOTSUP.)
CLOSED = {"native": "EAFNOSUPPORT", "foreign": "SIGSYS", "ring": "ENOTSUP"}
# A setuid program that says as which user it acts.
SETUID = Path("/usr/local/bin/lab-setuid")
# As cron runs a job and sshd a session: root's service gives up its rights, the latter by PAM and logind.
JOB = ("setpriv", f"--reuid={PERSON}", f"--regid={PERSON}", "--init-groups")
SESSION = ("runuser", "--login", PERSON, "--command")


def in_service(machine, *command, unit=None, user=None):
    """The output of a program in a transient service, as root unless `user` is given."""
    return machine.run("systemd-run", "--quiet", "--collect", "--wait", "--pipe", *([f"--unit={unit}"] if unit else []),
                       *([f"--uid={user}"] if user else []), *command, seconds=120)


def in_session(machine, *command):
    """In a session of a person's that a service has begun."""
    return in_service(machine, *SESSION, " ".join(map(str, command)))


def in_own_service(machine, *command):
    """In a service of the person's own manager."""
    return in_session(machine, "systemd-run", "--user", "--quiet", "--collect", "--wait", "--pipe", *command)


def last(said):
    """A login may print a greeting first."""
    return json.loads(said.splitlines()[-1])


def doors(machine):
    """Which doors are open, for all that a program without rights could be."""
    return {
        "service": last(in_service(machine, *DOORS, user="nobody")),
        "root's service": last(in_service(machine, *DOORS)),
        "job": last(in_service(machine, *JOB, *DOORS)),
        "session": last(in_session(machine, *DOORS)),
        "own service": last(in_own_service(machine, *DOORS)),
    }


def expect_open(machine):
    for name, ways in doors(machine).items():
        expect(set(ways.values()) == OPEN, f"{name}: {ways}")


def expect_closed(machine):
    for name, ways in doors(machine).items():
        expect(ways == {each: CLOSED[each] for each in ways}, f"{name}: {ways}")


def user_manager():
    return f"user@{pwd.getpwnam(PERSON).pw_uid}.service"


def rights(machine):
    """As which user a setuid program acts, in the same places."""
    return {
        "service": in_service(machine, SETUID, user="nobody"), "job": in_service(machine, *JOB, SETUID), "session": in_session(machine, SETUID),
        "own service": in_own_service(machine, SETUID),
    }


def prepare(machine):
    machine.installed()
    accounts.prepare(machine)
    # A manager that goes with the session would be another each time.
    machine.run("loginctl", "enable-linger", PERSON)
    machine.wait_until(lambda: machine.state(user_manager()) == "active", 90, "the person's manager", every=0.2)
    SETUID.write_bytes(Path("/usr/bin/id").read_bytes())
    SETUID.chmod(0o4755)


def units(status):
    return {each["unit"] for each in status["processes"]}


@check(seconds=900)
def the_lock_down_closes_sockets_to_all_that_is_started_from_now_on(machine):
    prepare(machine)
    before = sorted(map(str, UNITS.rglob("*")))
    expect_open(machine)
    for service, more in (("lab-old", ""), ("lab-filtered", "SystemCallFilter=~@clock\n"), ("lab-none", "RestrictAddressFamilies=none\n")):
        Path(f"/run/systemd/system/{service}.service").write_text(f"[Service]\nExecStart=sleep infinity\n{more}")
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "lab-old", "lab-filtered")
    machine.accessoryctl("lockdown", "on", "--except", "lab-radio@.service")
    try:
        status = machine.lockdown()
        expect(status["exceptions"] == ["bluetooth.service", "lab-radio@.service"], f"exceptions are {status['exceptions']}")
        listed = {each["unit"]: each for each in status["processes"]}
        pid = int(machine.show("lab-old.service", "MainPID"))
        expect(listed["lab-old.service"] == {"pid": pid, "uid": 0, "program": "sleep", "unit": "lab-old.service", "filter": "none"},
               f"status says {listed['lab-old.service']}")
        expect(listed["lab-filtered.service"]["filter"] == "earlier", f"status says {listed['lab-filtered.service']}")
        expect({"dbus.service", user_manager()} <= listed.keys(), f"status lists {sorted(map(str, listed))}")
        expect("bluetooth.service" not in listed, "an exception is listed")
        expect(machine.run("sh", "-c", "accessoryctl lockdown status --json >/dev/null; echo $?") == "4", "processes are no status of their own")
        # Child processes of the person's manager inherit its filter.
        expect(set(last(in_own_service(machine, *DOORS)).values()) == OPEN, "the manager was started again")
        machine.systemctl("restart", "lab-old", "lab-filtered", "lab-none", user_manager())
        expect(not units(machine.lockdown()) & {"lab-old.service", "lab-filtered.service", "lab-none.service", user_manager()},
               f"status lists {machine.lockdown()}")
        expect_closed(machine)
        # A list of no family at all stays one.
        expect(machine.show("lab-none.service", "RestrictAddressFamilies") in ("none", ""), machine.show("lab-none.service", "RestrictAddressFamilies"))
        excepted = last(in_service(machine, *DOORS, unit="lab-radio@1"))
        expect(set(excepted.values()) == OPEN, f"the exception: {excepted}")
        # BlueZ' daemon and ours begin anew, and do their work; so does a service with a list of allowed calls that says
        # no error.
        machine.systemctl("restart", "bluetooth.service", DAEMON, "systemd-hostnamed.service")
        machine.wait_for_bluetooth()
        machine.hear(PINK_DICE)
        setuid_programs_work(machine)
    finally:
        machine.accessoryctl("lockdown", "off")
        machine.systemctl("restart", user_manager())
    expect(sorted(map(str, UNITS.rglob("*"))) == before, "something is left of it")
    expect_open(machine)
    machine.systemctl("stop", "lab-old", "lab-filtered", "lab-none")


def setuid_programs_work(machine):
    """But, before systemd 255, for services with User=, of which a person's manager is one."""
    older = int(machine.run("systemctl", "--version").split()[1]) < 255
    for place, said in rights(machine).items():
        expect(("euid=0(root)" in said) == (place in ("job", "session") or not older), f"{place}: {said}")


@check(seconds=300)
def the_lock_down_closes_the_way_to_a_bonded_accessory(machine):
    """The attack as a whole: the user `nobody` reads and writes attributes that need the bond."""
    machine.set_up()
    machine.forget_all_but(PINK_DICE)
    attack = lambda value: last(in_service(machine, "/usr/bin/python3", "-B", APPS / "attribute.py", PINK_DICE, "FF41", value, user="nobody"))
    machine.run("busctl", "call", "org.bluez", PINK_PATH, "org.bluez.Device1", "Disconnect")
    before = attack("7b")
    expect(before["error"] is None and before["read"][1] == "7b", f"without the lock-down: {before}")
    machine.accessoryctl("lockdown", "on")
    try:
        during = attack("2a")
        expect(during == {"read": [], "error": "EAFNOSUPPORT"}, f"with the lock-down: {during}")
    finally:
        machine.accessoryctl("lockdown", "off")
    after = attack("2a")
    expect(after == {"read": ["7b", "2a"], "error": None}, f"after it: {after}")
