# SPDX-License-Identifier: Apache-2.0
"""The environment of a check: the processes it can start and watch, the air it can change, bluetoothd, and a look at BlueZ
over D-Bus and at its store. Nothing here sleeps: all waiting is for an event, with a limit, in `Lab.wait_until`."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import dbus
import dbus.mainloop.glib
from gi.repository import GLib

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "Support"))
from patience import PatientBus

# How much longer anything may take than is said where it is waited for, because the machine may stand still meanwhile.
# It multiplies limits that only end hangs, and nothing is timed by it.
STANDSTILL = 3
# So many messages and lines may come before the awaited condition is evaluated again.
AT_ONCE = 50
# Of a growing file, until the error is raised.
READINGS = 10
BLUETOOTHD = "/usr/libexec/bluetooth/bluetoothd"
STORE = Path("/var/lib/bluetooth")
DAEMON_NAME = "org.accessorysetup1"


class CheckFailed(Exception):
    """A check's expectation was not met; the text is the line that a person reads."""


def expect(condition, text):
    if not condition:
        raise CheckFailed(text)


class SystemBus(PatientBus):
    """A connection of one's own to the system bus."""

    times = STANDSTILL

    def __new__(cls):
        return super().__new__(cls, cls.TYPE_SYSTEM)

    def wake_for(self, *senders):
        """Every signal of theirs ends a turn of the main loop, and is not read."""
        for sender in senders:
            self.add_match_string_non_blocking(f"type='signal',sender='{sender}'")


class Lines:
    """Output of a program: `lines` that can be waited for, until it has `ended`."""

    lines, ended = (), False

    def __init__(self, lab, name):
        self.name = name
        self._lab = lab
        self._searched = 0

    def wait_for(self, pattern, seconds=10):
        """Waits for a line after those already waited for that matches; returns the match."""
        found = None

        def look():
            nonlocal found
            ended, lines = self.ended, self.lines
            while found is None and self._searched < len(lines):
                found = re.search(pattern, lines[self._searched])
                self._searched += 1
            return found or ended

        self._lab.wait_until(look, seconds, f"{self.name} to say “{pattern}”")
        expect(found, f"{self.name} ended without saying “{pattern}”")
        return found

    def has(self, pattern):
        return any(re.search(pattern, line) for line in self.lines)


def _take_events(seconds):
    """Waits so long for an event, and takes simultaneous events too; of an endless stream, a part."""
    context = GLib.MainContext.default()
    alarm = GLib.timeout_source_new(int(1000 * seconds) + 1)
    alarm.set_callback(lambda *_: False)
    alarm.attach(context)
    context.iteration(True)
    for _ in range(AT_ONCE):
        if not context.iteration(False):
            break
    alarm.destroy()


def _read_growing(log):
    """The contents of a growing file on the host's share. Linux 7.2 reports now and then that there are no data
    (ENODATA) where it found more than the file had a moment before."""
    begin = log.tell()
    for left in reversed(range(READINGS)):
        try:
            log.seek(begin)
            return log.read()
        except OSError as failure:
            if failure.errno != errno.ENODATA or not left:
                raise


class Output(Lines):
    """Lines that arrive in the background, are kept in a file and end a turn of the main loop."""

    def __init__(self, lab, name, stream):
        super().__init__(lab, name)
        self.lines = []
        threading.Thread(target=self._read, args=(stream, lab.logs / f"{name}.log"), daemon=True).start()

    def _read(self, stream, path):
        with stream, path.open("a", buffering=1) as log:
            for line in stream:
                log.write(line)
                self.lines.append(line.rstrip("\n"))
                GLib.MainContext.default().wakeup()
        self.ended = True
        GLib.MainContext.default().wakeup()


class Running:
    """A program that was started."""

    _popen = None

    @property
    def pid(self):
        return self._popen.pid

    @property
    def running(self):
        return self._popen.poll() is None

    def wait_exit(self, seconds=10):
        """Waits for its end and for the last of its output; returns the exit status."""
        self._lab.wait_until(lambda: self.ended and not self.running, seconds, f"{self.name} to end", every=0.1)
        return self._popen.returncode

    def kill(self, number=signal.SIGKILL, seconds=10):
        """Sends a signal that ends it and waits until it has; returns the exit status."""
        if self.running:
            self._popen.send_signal(number)
        return self.wait_exit(seconds)

    def signal(self, number):
        self._popen.send_signal(number)


class Process(Running, Output):
    """A program under test, with its output, and its input if it `listens`."""

    def __init__(self, lab, name, command, environment, listens):
        self._popen = subprocess.Popen(
            [str(part) for part in command], stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=os.environ | environment)
        super().__init__(lab, name, self._popen.stdout)

    def tell(self, *lines):
        """Writes lines to its input."""
        self._popen.stdin.write("".join(f"{line}\n" for line in lines))
        self._popen.stdin.flush()


class LoudProcess(Running, Lines):
    """A program that says how it does each thing, hundreds of lines in a check, of which hardly one is waited for: it
    writes its file itself, and wakes no waiter."""

    def __init__(self, lab, name, command):
        self._path = lab.logs / f"{name}.log"
        with self._path.open("ab") as log:
            self._begin = log.tell()
            self._popen = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        super().__init__(lab, name)

    @property
    def lines(self):
        with self._path.open("rb") as log:
            log.seek(self._begin)
            return _read_growing(log).decode(errors="replace").splitlines()

    @property
    def ended(self):
        return not self.running


class AirControl:
    """The check's line to the air; Tests/Lab/air.py describes the requests. `log` is the air's log."""

    def __init__(self, lab):
        self._lab = lab
        self.log = Output(lab, "air", lab.open_air_log())
        lab.wait_until(self._connect, 30, "the air", every=0.05)

    def _connect(self):
        expect(not self.log.ended, "the air ended: " + " ".join(self.log.lines[-1:]))
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self._lab.air_socket))
        except OSError:
            return False
        self._socket = connection
        self._replies = connection.makefile()
        return True

    def _ask(self, do, seconds=10, **request):
        # Blocks, so nothing else of the check runs meanwhile: the air answers at once, except while a display is empty.
        self._socket.settimeout(STANDSTILL * seconds)
        self._socket.sendall(json.dumps({"do": do, **request}).encode() + b"\n")
        try:
            reply = json.loads(self._replies.readline())
        except TimeoutError:
            raise CheckFailed(f"the air did not answer “{do}” in {STANDSTILL * seconds:g} s") from None
        expect("error" not in reply, f"the air: {reply.get('error')}")
        return reply

    def start(self):
        self._ask("start")

    def vanish(self, accessory):
        self._ask("vanish", accessory=accessory)

    def bring_back(self, accessory):
        self._ask("return", accessory=accessory)

    def set_rssi(self, accessory, rssi):
        self._ask("rssi", accessory=accessory, rssi=rssi)

    def rotate(self, accessory):
        """Gives it a new private address and returns that."""
        return self._ask("rotate", accessory=accessory)["address"]

    def unplug(self, adapter="hci0"):
        self._ask("unplug", adapter=adapter)

    def plug(self, adapter="hci0"):
        self._ask("plug", adapter=adapter)

    def shown_passkey(self, accessory, seconds=10):
        """The number on the accessory's display; waits until it shows one."""
        return self._ask("passkey", seconds, accessory=accessory)["passkey"]

    def enter_passkey(self, accessory, passkey):
        self._ask("passkey", accessory=accessory, passkey=int(passkey))

    def bonds(self, accessory):
        """The accessory's bonds: a list of {"address", "authenticated"}."""
        return self._ask("bonds", accessory=accessory)["bonds"]

    def forget(self, accessory):
        self._ask("forget", accessory=accessory)

    def change_services(self, accessory, pause=0):
        """From then on it takes `pause` seconds to answer, as over a slow link."""
        self._ask("servicesChanged", accessory=accessory, pause=pause)

    def request_security(self, accessory):
        self._ask("secure", accessory=accessory)

    def when_connected(self, accessory, act):
        """The next time that it is connected it does this at once: vanish, rotate, secure, forget."""
        self._ask("when", accessory=accessory, act=act)

    def wait_for(self, pattern, seconds=10):
        return self.log.wait_for(pattern, seconds)


class Lab:
    """One check's world. `logs` is the folder where everything it leaves behind is kept."""

    def __init__(self, logs, scenario):
        self.logs = logs
        self.scenario = scenario
        self.repository = Path(os.environ["LAB_REPOSITORY"])
        # The build, and the programs that are installed from packages.
        self.bin, self.released = (Path(os.environ[each]) for each in ("LAB_BIN", "LAB_RELEASED"))
        self.accessoryctl = self.released / "accessoryctl"
        self.state = Path(tempfile.mkdtemp(prefix="check-", dir="/run/lab-state"))
        self.air_socket = self.state / "air"
        self.air_log = self.state / "air.log"
        os.mkfifo(self.air_log)

    def set_up(self, start):
        """Brings up air and bluetoothd, in the check's own process."""
        dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
        self.air = AirControl(self)
        self.bus = SystemBus()
        # wait_until notices every change because each wakes the loop.
        self.bus.wake_for("org.freedesktop.DBus", "org.bluez", DAEMON_NAME)
        # The air has read it and would have ended over a mistake.
        adapters = json.loads(self.scenario.read_text()).get("adapters", [{}])
        self._adapters = [each.get("name", "hci0") for each in adapters]
        self.start_bluetoothd()
        for adapter in adapters:
            self.set_powered(adapter.get("powered", True), adapter.get("name", "hci0"))
        if start:
            self.air.start()

    def open_air_log(self):
        return open(self.air_log)

    def note(self, text):
        """Adds a line to the check's result."""
        with (self.logs / "notes").open("a") as notes:
            notes.write(text + "\n")

    # Waiting

    def wait_until(self, happens, seconds=10, what="it", every=0.5):
        """Waits until `happens()` is true and returns its result. It is evaluated again after signals of BlueZ and the
        daemon and after lines of output, and, for conditions without a signal, such as a file, `every` so often. It must happen: to
        verify that an event does not occur, wait for a later one. `what` may be called, to describe the state at the end."""
        seconds *= STANDSTILL
        asked = time.monotonic()
        deadline = asked + seconds
        while not (result := happens()):
            answered = time.monotonic()
            left = deadline - answered
            if left <= 0:
                raise CheckFailed(f"waited {seconds:g} s for {what() if callable(what) else what}")
            _take_events(min(left, every))
            # Calls at each line of a log would keep the awaited program busy: leave it two thirds of the time.
            rest_ends = answered + min(2 * (answered - asked), every)
            while (rest := rest_ends - time.monotonic()) > 0:
                _take_events(rest)
            asked = time.monotonic()
        return result

    # Processes

    def start(self, name, *command, environment={}, listens=False):
        """Starts a program; its output goes to <name>.log and can be waited for. If it `listens`, it accepts
        commands."""
        return Process(self, name, command, environment, listens)

    def start_loud(self, name, *command):
        """Starts a program that says much; its output goes to <name>.log."""
        return LoudProcess(self, name, command)

    def start_bluetoothd(self, *arguments):
        """Starts bluetoothd (again) and waits until it is on the bus, with the adapter if there is one."""
        self.bluetoothd = self.start_loud("bluetoothd", BLUETOOTHD, "-n", "-d", *arguments)
        self.wait_until(lambda: self.bus.name_has_owner("org.bluez") or self.bluetoothd.ended, 20, "bluetoothd")
        expect(not self.bluetoothd.ended, "bluetoothd ended, see bluetoothd.log")
        for adapter in self._adapters:
            self.wait_for_adapter(adapter=adapter)

    def start_daemon(self, *arguments, environment={}):
        """Starts accessorysetupd on the system bus, with this check's store, and waits until it owns its name.
        Started a second time, it finds the store as the first one left it. Where it is to end at an effect it is a debug
        build: no other can."""
        folder = self.bin if "ACCESSORY_END" in environment else self.released
        daemon = self.start(
            "accessorysetupd", folder / "accessorysetupd", "--bus", "system",
            "--state-directory", self.state / "store", "--log-level", "debug", *arguments, environment=environment)
        self.wait_until(
            lambda: self.bus.name_has_owner(DAEMON_NAME) or daemon.ended, 20, "accessorysetupd")
        expect(not daemon.ended, "accessorysetupd ended, see accessorysetupd.log")
        return daemon

    # BlueZ, as it shows itself on the bus

    def bluez_objects(self):
        root = self.bus.get_object("org.bluez", "/", introspect=False)
        manager = dbus.Interface(root, "org.freedesktop.DBus.ObjectManager")
        return manager.GetManagedObjects(timeout=10)

    def bluez_devices(self):
        """The devices BlueZ knows: address → properties, plus "path"."""
        return {
            str(interfaces["org.bluez.Device1"]["Address"]): {**interfaces["org.bluez.Device1"], "path": str(path)}
            for path, interfaces in self.bluez_objects().items() if "org.bluez.Device1" in interfaces
        }

    def wait_for_adapter(self, present=True, seconds=20, adapter="hci0"):
        path = f"/org/bluez/{adapter}"
        self.wait_until(
            lambda: (path in self.bluez_objects()) == present, seconds,
            f"the adapter to {'appear' if present else 'go'}")

    def set_powered(self, powered, adapter="hci0"):
        properties = dbus.Interface(
            self.bus.get_object("org.bluez", f"/org/bluez/{adapter}", introspect=False), "org.freedesktop.DBus.Properties")

        def arrived():
            # bluetoothd powers a new adapter on by itself, and answers Busy while it does.
            try:
                if bool(properties.Get("org.bluez.Adapter1", "Powered")) == powered:
                    return True
                properties.Set("org.bluez.Adapter1", "Powered", dbus.Boolean(powered, variant_level=1))
            except dbus.DBusException as error:
                if error.get_dbus_name() not in ("org.bluez.Error.Busy", "org.bluez.Error.NotReady"):
                    raise
            return False

        self.wait_until(arrived, 20, f"Powered to become {powered}")

    # BlueZ, as it is on disk

    def bonds(self):
        """The bonds in bluetoothd's store: identity address → the sections of its info file."""
        bonds = {}
        for info in STORE.glob("*:*/*:*/info"):
            sections, section = {}, None
            try:
                lines = info.read_text().splitlines()
            except FileNotFoundError:  # bluetoothd has taken it away just now
                continue
            for line in lines:
                if line.startswith("["):
                    section = sections.setdefault(line.strip("[]"), {})
                elif "=" in line:
                    key, _, value = line.partition("=")
                    section[key] = value
            if {"LongTermKey", "PeripheralLongTermKey", "SlaveLongTermKey", "LinkKey"} & sections.keys():
                bonds[info.parent.name] = sections
        return bonds
