# SPDX-License-Identifier: Apache-2.0
"""Programs for people, as they would type them: `command_lines.py bluetoothctl`, `bt-device`, `busctl` or `gdbus`."""

import json
import re
import subprocess
import sys
import threading

from lines import CHARACTERISTIC1, DEVICE1, SERVICE1, say, serve_blocking

PROPERTIES, OBJECT_MANAGER = "org.freedesktop.DBus.Properties", "org.freedesktop.DBus.ObjectManager"


# A line of a value: its bytes, then its characters.
VALUE = r" *((?:[0-9a-f]{2} )+) {3,}\S"


# The prompt without bluetoothd: nothing that is typed is read then.
WITHOUT = r"Waiting to connect to bluetoothd[^#]*\Z"
# Shows that the earlier commands are done.
VERSION = "Version [0-9.]+"


class Failure(Exception):
    pass


def run(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure((done.stderr or done.stdout).strip() or f"exit status {done.returncode}")
    return done.stdout


class Bluetoothctl:
    """Typed into the one that runs on."""

    def __init__(self):
        self.process = subprocess.Popen(["bluetoothctl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        # Its output, without its prompt; the last line may get longer.
        self.lines, self.more = [""], threading.Condition()
        self.address, self.notified = None, False
        threading.Thread(target=self.follow, daemon=True).start()
        with self.more:
            self.more.wait_for(lambda: "]#" in self.shown(1))

    def follow(self):
        while data := self.process.stdout.read1():
            *lines, rest = (self.lines[-1] + re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x09\x0b-\x1f]", "", data.decode(errors="replace"))).split("\n")
            lines = [re.sub(r"^(?:\S*\[[^\]]*\]# +)+", "", line) for line in lines]
            for line in lines:
                if f"Device {self.address} Connected: no" in line:
                    say("disconnected")
                if self.notified and (value := re.match(VALUE, line)):
                    say("value", value[1].replace(" ", ""))
            with self.more:
                self.lines[-1:] = [*lines, rest]
                self.more.notify()
        say("bus gone")

    def ask(self, command, answer):
        """Types it and waits for the answer, or for that of a command that fails."""
        bad = r".*(?:Failed to|not available|No device connected|Missing|Unable|Invalid|No attribute selected).*|" + WITHOUT
        with self.more:
            while re.search(WITHOUT, self.lines[-1]):
                self.more.wait()
            before = len(self.lines)
            self.process.stdin.write(f"{command}\n".encode())
            self.process.stdin.flush()
            while not (found := re.search(f"{answer}|{bad}", self.shown(before))):
                self.more.wait()
            if re.fullmatch(bad, found[0]):
                raise Failure(found[0].strip())
            return self.shown(before)[:found.end()]

    def shown(self, since):
        return "\n".join(self.lines[since - 1:])

    def list(self):
        return sorted(re.findall(r"Device ((?:[0-9A-F]{2}:){5}[0-9A-F]{2}) ", self.ask("devices\nversion", VERSION)))

    def connect(self, address):
        self.address = address
        self.ask(f"connect {address}", "Connection successful")
        while "Connected: yes" not in self.ask(f"info {address}\nversion", VERSION):
            pass
        # It lists attributes as BlueZ announces them, which on a real radio takes a second or two.
        while not self.services():
            pass

    def attributes(self):
        return self.ask(f"gatt.list-attributes {self.address}\nversion", VERSION)

    def services(self):
        return sorted(re.findall(r"Service \([^\n]*\)\s+/org/\S+\s+([0-9a-f-]{36})", self.attributes()))

    def select(self, uuid):
        # It says in its prompt alone that it has.
        self.ask(f"gatt.select-attribute {uuid}\nversion", VERSION)

    def read(self, uuid):
        self.select(uuid)
        # A late signal of an earlier value is shown below a line of its own.
        said = self.ask("gatt.read", r"(?<!Value:)\n" + VALUE)
        return [re.findall(VALUE, said)[-1].replace(" ", "")]

    def write(self, uuid, value):
        self.select(uuid)
        self.ask("gatt.write " + '"' + " ".join(f"0x{each:02x}" for each in bytes.fromhex(value)) + '"\nversion', VERSION)

    def notify(self, uuid):
        self.select(uuid)
        self.notified = True
        self.ask("gatt.notify on", "Notify started")

    def disconnect(self):
        self.ask(f"disconnect {self.address}", "Successful disconnected")


class BtDevice:
    def list(self):
        return sorted(re.findall(r"\(((?:[0-9A-F]{2}:){5}[0-9A-F]{2})\)", run("bt-device", "--list")))

    def connect(self, address):
        self.address = address
        run("bt-device", f"--connect={address}")

    def services(self):
        return re.findall(r"[0-9a-f-]{36}", run("bt-device", f"--services={self.address}"))

    def read(self, _uuid):
        raise Failure("it has no command for that")

    def write(self, _uuid, _value):
        self.read(None)

    def notify(self, _uuid):
        self.read(None)

    def disconnect(self):
        run("bt-device", f"--disconnect={self.address}")


class Caller:
    """The calls of a program, each on a connection of its own."""

    def having(self, name, beneath="/"):
        return [(path, each[name]) for path, each in self.objects().items() if name in each and path.startswith(beneath)]

    def list(self):
        return sorted(each["Address"] for _, each in self.having(DEVICE1))

    def connect(self, address):
        [self.path] = [path for path, each in self.having(DEVICE1) if each["Address"] == address]
        self.call(self.path, DEVICE1, "Connect")
        while not self.get(self.path, DEVICE1, "ServicesResolved"):
            pass

    def characteristic(self, uuid):
        found = [path for path, each in self.having(CHARACTERISTIC1, self.path) if each["UUID"] == uuid]
        if not found:
            raise Failure("no such characteristic")
        return found[0]

    def services(self):
        return sorted(each["UUID"] for _, each in self.having(SERVICE1, self.path))

    def notify(self, uuid):
        path = self.characteristic(uuid)
        self.call(path, CHARACTERISTIC1, "StartNotify")
        if not self.get(path, CHARACTERISTIC1, "Notifying"):
            raise Failure("the notifications have ended with the call's connection")

    def disconnect(self):
        self.call(self.path, DEVICE1, "Disconnect")


class Busctl(Caller):
    def busctl(self, verb, path, interface, *words):
        said = run("busctl", "--system", "--json=short", verb, "org.bluez", path, interface, *words)
        return json.loads(said) if said.strip() else None

    def call(self, path, interface, member, *words):
        return self.busctl("call", path, interface, member, *words)

    def get(self, path, interface, name):
        return self.busctl("get-property", path, interface, name)["data"]

    def objects(self):
        [objects] = self.call("/", OBJECT_MANAGER, "GetManagedObjects")["data"]
        return {path: {name: {key: value["data"] for key, value in values.items()} for name, values in each.items()}
                for path, each in objects.items()}

    def read(self, uuid):
        [value] = self.call(self.characteristic(uuid), CHARACTERISTIC1, "ReadValue", "a{sv}", "0")["data"]
        return [bytes(value).hex()]

    def write(self, uuid, value):
        numbers = [str(each) for each in bytes.fromhex(value)]
        self.call(self.characteristic(uuid), CHARACTERISTIC1, "WriteValue", "aya{sv}", str(len(numbers)), *numbers, "0")


class GDBus(Caller):
    """`gdbus monitor` runs meanwhile, and says when the accessory is gone, or bluetoothd."""

    def __init__(self):
        self.path = None
        # It ends with this program, however that ends.
        monitor = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "gdbus", "monitor", "--system", "--dest=org.bluez"], stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.follow, args=(monitor.stdout,), daemon=True).start()

    def follow(self, lines):
        for line in lines:
            if self.path and line.startswith(f"{self.path}: ") and "'Connected': <false>" in line:
                say("disconnected")
            if "does not have an owner" in line:
                say("bluez gone")
        say("bus gone")

    def call(self, path, interface, member, *words):
        from gi.repository import GLib

        said = run("gdbus", "call", "--system", "--dest=org.bluez", f"--object-path={path}", f"--method={interface}.{member}", *words)
        return GLib.Variant.parse(None, said.strip(), None, None).unpack()

    def get(self, path, interface, name):
        return self.call(path, PROPERTIES, "Get", interface, name)[0]

    def objects(self):
        return self.call("/", OBJECT_MANAGER, "GetManagedObjects")[0]

    def read(self, uuid):
        return [bytes(self.call(self.characteristic(uuid), CHARACTERISTIC1, "ReadValue", "{}")[0]).hex()]

    def write(self, uuid, value):
        numbers = ", ".join(f"0x{each:02x}" for each in bytes.fromhex(value))
        self.call(self.characteristic(uuid), CHARACTERISTIC1, "WriteValue", f"[byte {numbers}]", "{}")


serve_blocking({"bluetoothctl": Bluetoothctl, "bt-device": BtDevice, "busctl": Busctl, "gdbus": GDBus}[sys.argv[1]]())
