# SPDX-License-Identifier: Apache-2.0
"""The frame for checks of a whole machine: systemd is PID 1, the Debian package gets installed, and everything runs as the
installed service. There is one machine, one air and one store for all checks; so each states its requirements (`installed`,
`set_up`) which are met already after the checks before it. Each runs in a process of its own with a limit of time."""

import grp
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import dbus
import dbus.mainloop.glib

import framework
from lab import DAEMON_NAME, STANDSTILL, AirControl, Lab, Output, SystemBus, expect

# How a check ends a boot: its result instead of whether it passed.
CUT, REBOOT = "power cut", "reboot"
BOOT_AGAIN = 75
SYSTEM_BUS = "unix:path=/run/dbus/system_bus_socket"
VIEW = "unix:path=/run/accessory-setup/bus"
DAEMON = "accessorysetupd.service"
GRANTS = Path("/var/lib/accessory-setup/grants.sqlite")
APPS = Path(__file__).resolve().parent.parent / "apps"
PINK_DICE = "C0:FF:EE:00:00:01"
BLUE_DICE = "C0:FF:EE:00:00:02"
GREEN_DICE = "C0:FF:EE:00:00:06"

MANIFEST = """\
[Application]
Id=com.example.dice
Name=Dice
Unit=dice.service

[AccessorySetup]
Supports=Bluetooth;WiFi;
BluetoothServices=E56A082E-C49B-47CA-A2AB-389127B8ABE3;0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7;
"""


def scenario(path):
    """The dice of the sample, both of which pair without a question, one slowly enough for a power cut meanwhile, the other with
    a value to write and one that takes the bond; and one more that has the person compare numbers."""
    air = json.loads((framework.DIRECTORY.parent / "Scenarios/dice.json").read_text())
    for accessory in air["accessories"]:
        if "pairing" in accessory:
            slowly = {"fault": "slow", "delay": 8} if accessory["address"] == BLUE_DICE else {}
            accessory["pairing"] = {"mode": "justWorks"} | slowly
        if accessory["address"] == PINK_DICE:
            accessory["gatt"][0]["characteristics"] += [
                {"uuid": "FF40", "flags": ["read", "write"], "value": "00"},
                {"uuid": "FF41", "flags": ["read", "encrypt-read", "write", "encrypt-write"], "value": "2A"}]
        if accessory["address"] == BLUE_DICE:
            asks = json.loads(json.dumps(accessory)) | {"id": "green-dice", "address": GREEN_DICE, "pairing": {"mode": "numericComparison"}}
            asks["adverts"][0]["scanResponse"]["name"] = "Dice C7"
    air["accessories"].append(asks)
    path.write_text(json.dumps(air, indent=2))
    return path


class Followed:
    """The lines that are added to a file from now on. They come without an event, and often."""

    def __init__(self, path):
        self._file = open(path)
        self._file.seek(0, os.SEEK_END)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def __iter__(self):
        rest = ""
        while True:
            if not (read := self._file.readline()):
                time.sleep(0.02)
            elif not (rest := rest + read).endswith("\n"):
                continue
            else:
                yield rest
                rest = ""


class App(Output):
    """dice.service, with a program in it."""

    def __init__(self, machine, name, *command):
        output = Path("/run/lab-app/dice.output")
        output.unlink(missing_ok=True)
        os.mkfifo(output)
        Path("/run/lab-app/dice").write_text("APP=" + " ".join(map(str, command)) + "\n")
        self._machine = machine
        # Without waiting for the writer; it is there when Type=exec says that the program runs.
        reading = os.open(output, os.O_RDONLY | os.O_NONBLOCK)
        machine.systemctl("start", "dice.service")
        os.set_blocking(reading, True)
        super().__init__(machine, name, open(reading, errors="replace"))

    def wait_exit(self, seconds=60):
        """Waits for its end and for the last of its output; returns the exit status."""
        self._machine.wait_until(lambda: self.ended, seconds, f"{self.name} to end")
        # systemd notices the end after that of its output.
        self._machine.wait_until(
            lambda: self._machine.state("dice.service") in ("inactive", "failed"), 20, "dice.service to end", every=0.1)
        return int(self._machine.show("dice.service", "ExecMainStatus"))

    def stop(self):
        self._machine.systemctl("stop", "dice.service")


class Machine(Lab):
    """The environment of a check: the machine as its administrator sees it, and the air around it."""

    def __init__(self, logs, air_socket, air_log, found_bonds):
        self.logs = logs
        self.air_socket = air_socket
        self.air_log = air_log
        # The bonds that were in bluetoothd's store before anything of this boot could touch them.
        self.found_bonds = found_bonds
        self.after_boot = False
        self.debs = [Path(each) for each in os.environ["LAB_DEB"].split(":")]
        self.dice = Path(os.environ["LAB_BIN"]) / "dice"

    def open(self):
        """In the check's own process."""
        dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        self.bus = SystemBus()
        self.bus.wake_for("org.freedesktop.DBus", "org.bluez", DAEMON_NAME)
        self.air = AirControl(self)

    def open_air_log(self):
        return Followed(self.air_log)

    # Programs

    def run(self, *command, seconds=60, fails=False):
        """Runs a tool to its end and returns its output; it must succeed unless `fails` (None: whatever it does)."""
        done = subprocess.run([str(each) for each in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=STANDSTILL * seconds)
        print("$", *command, "→", done.returncode, done.stdout.rstrip(), sep=" ", flush=True)
        said = done.stdout.strip()
        if fails is not None:
            expect((done.returncode != 0) == fails, f"{command[0]} {command[1]} ended with {done.returncode}: {said[-200:]}")
        return said

    def start_as(self, name, user, *command, **options):
        """A program of a user in a transient unit, whose output and exit status are the process' that is returned."""
        return self.start(
            name, "systemd-run", "--quiet", "--collect", "--wait", "--pipe", f"--unit=lab-{name}", f"--uid={user}",
            "--property=Environment=HOME=/", *command, **options)

    def forget_starts(self):
        """systemd starts the daemon five times a minute and no more: checks come faster, one after the other."""
        subprocess.run(["systemctl", "reset-failed", DAEMON], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def systemctl(self, *words, **options):
        return self.run("systemctl", "--no-pager", *words, **options)

    def show(self, unit, name):
        return subprocess.run(
            ["systemctl", "show", "--value", "--property", name, unit], stdout=subprocess.PIPE, text=True).stdout.strip()

    def state(self, unit):
        return self.show(unit, "ActiveState")

    def journal(self, *more):
        return subprocess.run(
            ["journalctl", "--boot", "--no-pager", "--output=cat", *more], stdout=subprocess.PIPE, text=True).stdout

    def accessoryctl(self, *words, **options):
        return self.run("/usr/bin/accessoryctl", *words, **options)

    def lockdown(self):
        """accessoryctl's status of the lock-down, also where it does not hold all processes yet."""
        return json.loads(self.accessoryctl("lockdown", "status", "--json", fails=None))

    def probe(self, name, bus, *asks, user=None, cgroup=None):
        """The results of a program that makes the requests `asks` (apps/probe.py): as the app in dice.service, or as a user in a unit of
        the program's own, or in a control group."""
        command = ("/usr/bin/python3", "-B", APPS / "probe.py", bus, *asks)
        if user is None:
            program = App(self, name, *command)
        elif cgroup is None:
            program = self.start_as(name, user, *command)
        else:
            enter = 'mkdir -p "$0" && echo $$ >"$0/cgroup.procs" && exec "$@"'
            program = self.start(name, "sh", "-c", enter, f"/sys/fs/cgroup/{cgroup}",
                                 "setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", *command)

        def answers():
            expect(program.wait_exit(60) == 0, f"{name} ended with an error: {program.lines[-1:]}")
            return json.loads(program.lines[-1])

        return answers

    def hear(self, *addresses):
        """Makes BlueZ discover the addresses."""
        adapter = dbus.Interface(self.bus.get_object("org.bluez", "/org/bluez/hci0", introspect=False), "org.bluez.Adapter1")
        adapter.StartDiscovery()
        self.wait_until(lambda: set(addresses) <= set(self.bluez_devices()), 60, "BlueZ to hear the accessories")
        adapter.StopDiscovery()

    # Preconditions

    def install(self):
        said = self.run("dpkg", "--install", *self.debs, seconds=180)
        # Late, because the package makes the group.
        if "person" not in grp.getgrnam("accessory-picker").gr_mem:
            self.run("gpasswd", "--add", "person", "accessory-picker")
        return said

    def installed(self):
        """With the package there and running, and a manifest for the app."""
        if not Path("/usr/bin/accessorysetupd").exists():
            self.install()
        self.declare("com.example.dice", MANIFEST)
        self.wait_for_bluetooth()

    def declare(self, app, text):
        """With this manifest there and read."""
        manifest = Path(f"/etc/accessory-setup/apps/{app}.conf")
        if not manifest.exists():
            # In one piece: the directory is watched.
            draft = manifest.with_suffix(".draft")
            draft.write_text(text)
            draft.rename(manifest)
            self.wait_until(lambda: app in self.accessoryctl("apps"), 20, "the manifest to be read")

    def wait_for_bluetooth(self):
        self.wait_until(lambda: self.radio("Bluetooth") == "ready", 60, "Manager.Bluetooth to be “ready”")

    @property
    def wifi(self):
        return self.radio("WiFi")

    def radio(self, name):
        """The daemon's state of one of its radios."""
        root = self.bus.get_object(DAEMON_NAME, "/org/accessorysetup1", introspect=False)
        return root.Get("org.accessorysetup1.Manager", name, dbus_interface=dbus.PROPERTIES_IFACE)

    def picker(self, pick, user="person"):
        return self.start_as("picker", user, "/usr/bin/accessoryctl", "picker", "--pick", pick)

    def begin_setup(self, pick):
        """The app asks for a die and the person picks one; returns the app and the picker."""
        picker = self.picker(pick)
        picker.wait_for("waiting for a picker", 30)
        return App(self, "dice", self.dice, "add", "--timeout", STANDSTILL * 90), picker

    def begin_choice(self):
        """The same, up to where the person has a die to choose that will ask a question; also returns the picker's input
        for that."""
        picker = self.start_as("picker", "person", "/usr/bin/accessoryctl", "picker", listens=True)
        picker.wait_for("waiting for a picker", 30)
        app = App(self, "dice", self.dice, "add", "--timeout", STANDSTILL * 90)
        return app, picker, picker.wait_for(r"^(\d+)\) .*Dice C7", 60)[1]

    def set_up(self, address=PINK_DICE, pick="Dice 4F"):
        """With this accessory set up for the app."""
        self.installed()
        if address not in self.listed():
            app, picker = self.begin_setup(pick)
            expect(app.wait_exit(90) == 0, f"dice ended with an error: {app.lines[-1:]}")
            expect(picker.wait_exit(20) == 0, f"the picker ended with an error: {picker.lines[-1:]}")
        return self.listed()[address]

    def listed(self):
        return {each["address"]: each for each in json.loads(self.accessoryctl("list", "--json"))}

    def grants(self):
        return json.loads(self.accessoryctl("grants", "--json"))

    def expect_set_up(self, *addresses):
        """These, and nothing else, have a grant; they have a bond in bluetoothd's store, and nothing else has."""
        expect(set(self.listed()) == set(addresses), f"accessoryctl lists {sorted(self.listed())}")
        expect(len(self.grants()) == len(addresses), f"the grants are {self.grants()}")
        self.wait_until(lambda: set(self.bonds()) == set(addresses), 30, f"bonds with {sorted(addresses) or 'nobody'}")

    def forget_all_but(self, *addresses):
        """With these set up, and nothing else."""
        for each in json.loads(self.accessoryctl("list", "--json")):
            if each["address"] not in addresses:
                self.accessoryctl("remove", each["id"])
        self.expect_set_up(*addresses)

    def bleak(self, *words):
        """The app is a program over bleak (apps/bleak_dice.py), which finds its accessories on its bus."""
        return App(self, "bleak", os.environ["LAB_PYTHON"], "-B", APPS / "bleak_dice.py", *words)

    def cut_power(self):
        """Never returns: the check is called again after the next boot, with `after_boot`."""
        raise BootEnds(CUT)

    def reboot(self):
        """The same, with an orderly end of all services."""
        raise BootEnds(REBOOT)


def copy_programs(usr, *programs):
    """Makes a folder `usr` with the given programs, a shell, and their libraries."""
    (usr / "lib").mkdir(parents=True)
    (usr / "lib64").symlink_to("lib")
    (usr / "bin").mkdir()
    for each in ("/bin/bash", *programs):
        shutil.copy(each, usr / "bin")
        linked = subprocess.run(["ldd", each], stdout=subprocess.PIPE, text=True, check=True).stdout
        for library in re.findall(r"(?:=> |^\s+)(/\S+)", linked, re.M):
            shutil.copy(library, usr / "lib")  # the dynamic linker among them
    (usr / "bin/sh").symlink_to("bash")


class BootEnds(Exception):
    """How it ends is its text."""


# The runner

def run_all(checks, logs, stock, scenario=scenario):
    """Runs them in order, one line each, over as many boots as that takes, and returns the exit status. `scenario` writes the
    air's into a file."""
    kept = logs / "boot.json"
    before = json.loads(kept.read_text()) if kept.exists() else {"check": None, "seconds": 0, "keys": {}}
    results = framework.Results(logs)
    # In memory: of a growing file on the host, testing's kernel (7.2) was seen to say that there is no data (ENODATA).
    air_socket, air_log = Path("/run/lab-state/air"), Path("/run/lab-state/air.log")
    air_log.touch()
    found = Lab.bonds(None)
    stock.wait_until_ready()
    stock.make(scenario(logs / "scenario.json"), air_socket, air_log)
    _start_air(air_socket, before["keys"])
    names = [each.name for each in checks]
    for each in checks[names.index(before["check"]) if before["check"] else 0 :]:
        began = time.monotonic() - (before["seconds"] if each.name == before["check"] else 0)
        machine = Machine(logs / each.name, air_socket, air_log, found)
        machine.after_boot = each.name == before["check"]
        why = _run(each, machine)
        seconds = time.monotonic() - began
        if why not in (None, CUT, REBOOT):
            (machine.logs / "journal.log").write_text(_journal_since(began))
        if why in (CUT, REBOOT) and not machine.after_boot:
            keys = _ask_air(air_socket, do="keys")["keys"]
            kept.write_text(json.dumps({"check": each.name, "seconds": seconds, "keys": keys}))
            _keep(air_log, logs)
            _boot_again(why)
        results.add(each, why, seconds, machine.logs)
    _keep(air_log, logs)
    return results.close()


def _keep(air_log, logs):
    shutil.copy(air_log, logs / f"air-{os.environ['LAB_BOOT']}.log")


def _start_air(path, keys):
    """Has the accessories appear, with the keys that they had before a boot of this machine. The air listens soon after it
    was made; there is nothing to wait for."""
    deadline = time.monotonic() + STANDSTILL * 30
    while socket.socket(socket.AF_UNIX).connect_ex(str(path)) != 0:
        if time.monotonic() > deadline:
            raise RuntimeError("the air does not start, see its log")
        time.sleep(0.05)
    _ask_air(path, do="remember", keys=keys)
    _ask_air(path, do="start")


def _ask_air(path, **request):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile() as replies:
            return json.loads(replies.readline())


def _journal():
    """Each line begins with the time as `time.monotonic` gives it, in brackets. On testing journalctl (262) was seen to find the
    journal truncated, once."""
    return _read_journal() or _read_journal()


def _read_journal():
    return subprocess.run(["journalctl", "--boot", "--no-pager", "--output=short-monotonic"], stdout=subprocess.PIPE).stdout.decode(errors="replace")


def _journal_since(began):
    return "".join(line for line in _journal().splitlines(True) if (at := re.match(r"\[ *([0-9.]+)\]", line)) and float(at[1]) >= began)


def _boot_again(how):
    Path(f"/run/lab/journal-{os.environ['LAB_BOOT']}.log").write_text(_journal())
    Path("/run/lab/status").write_text(f"{BOOT_AGAIN}\n")
    # Writes of the programs under test are on the disk; their pending actions are lost.
    os.sync()
    if how == CUT:
        Path("/proc/sysrq-trigger").write_text("b")
    else:
        # It ends the lab's service, too. (“systemctl reboot” would ask logind first.)
        subprocess.run(["systemctl", "--no-block", "--job-mode=replace-irreversibly", "start", "reboot.target"], check=True)
    signal.pause()


def _run(each, machine):
    """Returns None, or in a few words why the check failed."""
    machine.logs.mkdir(exist_ok=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        _be_the_check(each, machine, writing)
    os.close(writing)
    with open(reading, "rb", buffering=0) as pipe:
        ready, _, _ = select.select([pipe], [], [], STANDSTILL * each.seconds)
        why = pipe.read(4096).decode() if ready else f"killed after {STANDSTILL * each.seconds:.0f} s"
    if why not in (CUT, REBOOT):
        os.killpg(child, signal.SIGKILL)
        # Programs of users are in units of their own.
        subprocess.run(["systemctl", "stop", "dice.service", "lab-*.service"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.waitpid(child, 0)
    if why == "passed":
        return None
    return why or "the check's process died"


def _be_the_check(each, machine, verdict):
    """The child: never returns."""
    log = os.open(machine.logs / "check.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)

    def take():
        machine.open()
        machine.forget_starts()
        try:
            each.function(machine)
        except BootEnds as ends:
            return str(ends)

    why = framework.judge(take)
    sys.stdout.flush()
    os.write(verdict, why.encode())
    if why in (CUT, REBOOT):
        signal.pause()  # stopped processes stay stopped
    os._exit(0)
