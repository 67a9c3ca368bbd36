# SPDX-License-Identifier: Apache-2.0
"""Apps in containers, by a socket of their own (Docs/Containers.md): Debian's podman with and without privileges, and
systemd-nspawn, on a machine with systemd. A container has the sample app, a shell, what they are linked to, and the app's
directory; there is no image and no network."""

import pwd
from pathlib import Path

import accounts
from accounts import PERSON, Terminal
from framework import check
from lab import STANDSTILL, expect
from machine import BLUE_DICE, DAEMON, PINK_DICE, copy_programs

APP = "com.example.contained"
SOCKETS = Path("/run/accessory-setup/app")
ROOT = Path("/var/lib/lab-container")
MOUNT = f"{SOCKETS / APP}:/run/accessory-setup:ro"
BUS = "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/accessory-setup/bus"
# As in Docs/Containers.md. overlayfs does not go over the guest's own; the guest has no network to share.
PODMAN = ("podman", "--storage-driver=vfs", "run", "--rm", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges",
          "-v", MOUNT, "-e", BUS, "--rootfs", f"{ROOT}:O")
NSPAWN = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2", "--pipe", f"--directory={ROOT}", "--volatile=overlay",
          f"--bind-ro={MOUNT.removesuffix(':ro')}", f"--setenv={BUS}")
# An attempt by root of the container to be a picker program and an admin.
ESCAPE = """
gdbus call --system --dest org.accessorysetup1 --object-path /org/accessorysetup1 --method org.accessorysetup1.Manager.RegisterPicker '@a{sv} {}'
gdbus call --system --dest org.accessorysetup1 --object-path /org/accessorysetup1/admin --method org.accessorysetup1.Admin.GetAudit '@a{sv} {}'
gdbus call --system --dest org.bluez --object-path / --method org.freedesktop.DBus.ObjectManager.GetManagedObjects
"""


def manifest(**keys):
    lines = "".join(f"{key}={value}\n" for key, value in keys.items())
    return f"""\
[Application]
Id={APP}
Name=Contained Dice
Socket=yes
{lines}
[AccessorySetup]
Supports=Bluetooth;
BluetoothServices=E56A082E-C49B-47CA-A2AB-389127B8ABE3;0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7;
"""


def prepare(machine, **keys):
    """With a socket for these, nothing set up, and a root for the container."""
    machine.installed()
    machine.forget_all_but()
    declared = Path(f"/etc/accessory-setup/apps/{APP}.conf")
    declared.unlink(missing_ok=True)
    machine.wait_until(lambda: not (SOCKETS / APP / "bus").exists(), 30, "the socket to go", every=0.1)
    machine.declare(APP, manifest(**keys))
    machine.wait_until((SOCKETS / APP / "bus").exists, 30, "the socket", every=0.1)
    if not ROOT.exists():
        copy_programs(ROOT / "usr", "/usr/bin/gdbus", "/usr/bin/sleep", machine.dice)
        for each in ("bin", "lib", "lib64"):
            (ROOT / each).symlink_to(f"usr/{each}")
        for each in ("dev", "etc", "proc", "run", "sys", "tmp", "var"):
            (ROOT / each).mkdir()
        (ROOT / "etc/os-release").write_text("ID=lab\n")
        (ROOT / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")


def set_up(machine, run):
    """A person picks a die for the container's app, which `run` runs in it."""
    picker = machine.picker("Dice 4F")
    picker.wait_for("waiting for a picker", 60)
    said = run("dice", "add", "--timeout", STANDSTILL * 90)
    expect(picker.wait_exit(60) == 0, f"the picker ended with an error: {picker.lines[-1:]}; the app said {said}")
    expect([each["app"] for each in machine.grants()] == [APP], f"the grants are {machine.grants()}")
    rolls = run("dice", "rolls", "Pink Dice", "--count", 3)
    expect(rolls.count("Pink Dice rolled") == 3, f"the app said {rolls}")


def expect_contained(machine, run):
    """Root inside is no picker program and no admin, and sees no accessory of another app."""
    machine.hear(BLUE_DICE)
    said = run("sh", "-c", ESCAPE, fails=None)
    expect("AccessDenied" in said and "UnknownObject" in said, f"root of the container hears {said}")
    expect(PINK_DICE in said and BLUE_DICE not in said, f"root of the container sees {said}")


def expect_app(machine, *container):
    """What runs in this container is the app, and no more."""
    prepare(machine)

    def run(*command, **options):
        return machine.run(*container, *command, seconds=240, **options)

    set_up(machine, run)
    expect_contained(machine, run)


@check(seconds=600)
def one_of_podmans_is_its_app(machine):
    expect_app(machine, *PODMAN)


@check(seconds=900)
def one_without_privileges_is_its_app(machine):
    accounts.prepare(machine)
    prepare(machine, SocketUser=PERSON)
    # Her user namespace takes no overlay over this guest's: the container has a root of hers.
    root = Path(f"/home/{PERSON}/container")
    machine.run("cp", "--archive", ROOT, root)
    machine.run("chown", "--recursive", PERSON, root)
    terminal = Terminal(machine, PERSON)

    def run(*command, fails=False):
        status, said = terminal.run(*PODMAN[:-1], root, *(f"'{each}'" if " " in str(each) else each for each in command), seconds=300)
        expect(fails is None or (status != 0) == fails, f"podman ends with {status}: {said}")
        return said

    set_up(machine, run)
    expect(pwd.getpwnam(PERSON).pw_uid != 0, "the person is root")


@check(seconds=600)
def one_of_nspawns_is_its_app(machine):
    expect_app(machine, *NSPAWN)


@check(seconds=600)
def one_that_runs_stays_the_app_over_a_restart(machine):
    """Its mount has the socket again, after a restart, and after a stop that has ended the socket, too."""
    prepare(machine)
    name = "lab-contained"
    machine.run(*PODMAN[:3], "--detach", f"--name={name}", *PODMAN[3:], "sleep", 100000, seconds=240)

    def listed():
        return machine.run("podman", "--storage-driver=vfs", "exec", name, "dice", "list", seconds=120)

    try:
        listed()
        for words in (("restart",), ("stop", "start")):
            for word in words:
                machine.systemctl(word, DAEMON)
            machine.wait_for_bluetooth()
            listed()
    finally:
        machine.run("podman", "--storage-driver=vfs", "kill", name, seconds=120, fails=None)
