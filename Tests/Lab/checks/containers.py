# SPDX-License-Identifier: Apache-2.0
"""Apps in containers, by a socket of their own (Docs/Containers.md): Debian's podman with and without privileges, docker, bubblewrap and
systemd-nspawn, on a machine with systemd. A container has the sample app, a shell, their libraries, and the app's
directory; there is no image and no network."""

import os
import pwd
from pathlib import Path

import accounts
import upgrades
from accounts import PERSON, Terminal
from framework import check
from lab import STANDSTILL, expect
from machine import APPS, BLUE_DICE, DAEMON, GREEN_DICE, PINK_DICE, copy_programs

APP = "com.example.contained"
SOCKETS = Path("/run/accessory-setup/app")
ROOT = Path("/srv/lab-container")
MOUNT = f"{SOCKETS / APP}:/run/accessory-setup:ro"
BUS = "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/accessory-setup/bus"
# As in Docs/Containers.md. The guest has no network to share.
PODMAN = ("podman", "--storage-driver=vfs", "run", "--rm", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges",
          "-v", MOUNT, "-e", BUS, "--rootfs", ROOT)
NSPAWN = ("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2", "--pipe", f"--directory={ROOT}", "--volatile=overlay",
          f"--bind-ro={MOUNT.removesuffix(':ro')}", f"--setenv={BUS}")
BUBBLEWRAP = ("bwrap", "--unshare-all", "--die-with-parent", "--uid", 0, "--gid", 0, "--ro-bind", ROOT, "/", "--dev", "/dev", "--proc", "/proc",
              "--tmpfs", "/run", "--ro-bind", SOCKETS / APP, "/run/accessory-setup", "--setenv", *BUS.split("=", 1))
# The guest's kernel has AppArmor, and the guest no parser of its profiles.
DOCKER = ("/usr/bin/docker", "run", "--rm", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges",
          "--security-opt=apparmor=unconfined", "-v", MOUNT, "-e", BUS, "lab")
# Without a network, and on this guest's file system.
DOCKERD = ("/usr/sbin/dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=vfs", "--data-root=/run/lab-docker")
# Which systemd runs when it loads units; the guest's does without generators.
QUADLET = Path("/usr/libexec/podman/quadlet")
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


def expect_app(machine, *container, **keys):
    """A program in this container is the app, and no more."""
    prepare(machine, **keys)

    def run(*command, **options):
        return machine.run(*container, *command, seconds=240, **options)

    set_up(machine, run)
    expect_contained(machine, run)


@check(seconds=600)
def one_of_podmans_is_its_app(machine):
    expect_app(machine, *PODMAN)


def rootless(machine):
    """A root of the person's own for a container: her user namespace has no other files that she could change."""
    accounts.prepare(machine)
    prepare(machine, SocketUser=PERSON)
    root = Path(f"/home/{PERSON}/container")
    if not root.exists():
        machine.run("cp", "--archive", ROOT, root)
        machine.run("chown", "--recursive", PERSON, root)
    return root


def typed(words):
    return (f"'{each}'" if set(" \"") & set(str(each)) else each for each in words)


@check(seconds=900)
def one_without_privileges_is_its_app(machine):
    root = rootless(machine)
    terminal = Terminal(machine, PERSON)

    def run(*command, fails=False):
        status, said = terminal.run(*PODMAN[:-1], root, *typed(command), seconds=300)
        expect(fails is None or (status != 0) == fails, f"podman ends with {status}: {said}")
        return said

    set_up(machine, run)
    expect(pwd.getpwnam(PERSON).pw_uid != 0, "the person is root")


@check(seconds=1800)
def home_assistant_goes_on_over_an_upgrade(machine):
    """Its Bluetooth stack in a container without privileges, with two accessories, beside an app of the machine's with the third."""
    root = rootless(machine)
    upgrades.finish(*machine.begin_choice())
    terminal = Terminal(machine, PERSON)
    packages = Path(os.environ["LAB_PYTHON"]).parent.parent
    mounts = (word for path in ("/usr", packages, APPS) for word in ("-v", f"{path}:{path}:ro"))
    container = (*PODMAN[:-2], *mounts, "-i", "--rootfs", root)
    for pick in ("Dice 4F", "Dice A2"):
        picker = machine.picker(pick)
        picker.wait_for("waiting for a picker", 60)
        status, said = terminal.run(*PODMAN[:-1], root, "dice", "add", "--timeout", STANDSTILL * 90, seconds=300)
        expect(status == 0 and picker.wait_exit(60) == 0, f"dice add ends with {status}: {said}")
    other = machine.bleak()
    other.wait_for(f"found {GREEN_DICE}$", 120)
    other.wait_for("rolled", 120)
    python = (os.environ["LAB_PYTHON"], "-B")
    expect("HCI is open" in machine.run(*python, APPS / "past_the_bus.py", GREEN_DICE), "not even the machine's root gets past the bus")
    status, said = terminal.run(*container, *python, APPS / "past_the_bus.py", GREEN_DICE, seconds=300)
    expect(status == 0 and said.count("is refused") == 2, f"past the bus: {status}, {said}")
    before = len(terminal.shown)
    terminal.begin(*container, *python, APPS / "home_bluetooth.py", 2)
    both = sorted((PINK_DICE, BLUE_DICE))
    terminal.wait_for(f"found {' '.join(both)}\n", 300)
    for each in both:
        terminal.wait_for(f"connected {each}", 120)
    for _ in range(2):
        pid = machine.show(DAEMON, "MainPID")
        machine.install()
        expect(machine.show(DAEMON, "MainPID") != pid, "the old daemon still runs")
        terminal.type("read")
        for each in sorted(both):
            terminal.wait_for(f"(disconnected|failed|(?<!dis)read {each} )", 120)
        expect("disconnected" not in terminal.shown and "failed" not in terminal.shown, f"it says {terminal.shown[-500:]}")
        for each in both:
            terminal.wait_for(f"rolled {each}", 60)
        other.wait_for("rolled", 60)
    expect(GREEN_DICE not in terminal.shown[before:], "it has seen an accessory of another app")
    terminal.press("D")
    terminal.finish(60)
    other.stop()


@check(seconds=600)
def one_of_nspawns_is_its_app(machine):
    expect_app(machine, *NSPAWN)


@check(seconds=900)
def one_of_dockers_is_its_app(machine):
    prepare(machine)  # its root is the image
    machine.run("systemd-run", "--unit=lab-docker", "--property=Delegate=yes", *DOCKERD)
    try:
        machine.wait_until(lambda: not machine.run("/usr/bin/docker", "version", fails=None).count("Cannot connect"), 120, "dockerd", every=0.5)
        machine.run("sh", "-c", f"tar --create --directory={ROOT} . | /usr/bin/docker import - lab", seconds=240)
        expect_app(machine, *DOCKER)
    finally:
        machine.systemctl("stop", "lab-docker.service", seconds=120)


@check(seconds=600)
def one_of_bubblewraps_is_its_app(machine):
    """A user namespace in which the person is root."""
    expect_app(machine, "setpriv", f"--reuid={PERSON}", f"--regid={PERSON}", "--init-groups", *BUBBLEWRAP, SocketUser=PERSON)


@check(seconds=900)
def one_of_a_unit_is_its_app(machine):
    """A Quadlet, where podman has it (4.4), and else a service that runs podman."""
    prepare(machine)
    command = ("dice", "add", "--timeout", STANDSTILL * 90)
    if QUADLET.exists():
        unit, text = Path("/etc/containers/systemd/lab-dice.container"), f"""\
[Unit]
After=accessorysetupd.service
Wants=accessorysetupd.service
[Container]
GlobalArgs=--storage-driver=vfs
Rootfs={ROOT}
Network=none
Volume={MOUNT}
Environment={BUS}
DropCapability=all
NoNewPrivileges=true
Exec={" ".join(map(str, command))}
"""
    else:
        unit, text = Path("/etc/systemd/system/lab-dice.service"), f"""\
[Unit]
After=accessorysetupd.service
Wants=accessorysetupd.service
[Service]
ExecStart=/usr/bin/{" ".join(map(str, (*PODMAN, *command)))}
"""
    unit.parent.mkdir(parents=True, exist_ok=True)
    unit.write_text(text)
    if QUADLET.exists():
        machine.run(QUADLET, "/run/systemd/system")
    machine.systemctl("daemon-reload")
    picker = machine.picker("Dice 4F")
    picker.wait_for("waiting for a picker", 60)
    machine.systemctl("start", "lab-dice.service", seconds=240)
    machine.wait_until(lambda: machine.state("lab-dice.service") in ("inactive", "failed"), 240, "the unit to end", every=0.2)
    expect(machine.show("lab-dice.service", "ExecMainStatus") == "0", machine.journal("--unit=lab-dice.service"))
    expect(picker.wait_exit(60) == 0, f"the picker ended with an error: {picker.lines[-1:]}")
    expect([each["app"] for each in machine.grants()] == [APP], f"the grants are {machine.grants()}")


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
