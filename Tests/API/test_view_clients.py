# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of us, on the scoped view: bleak, bluetoothctl, busctl. They think it is the system bus."""

import json
import os
import re
import shutil
import subprocess
import unittest

from harness.clients import Identity
from harness.names import PINK, SOMEBODY
from harness.programs import BIN, TESTS, Program
from harness.waiting import STANDSTILL, wait
from harness.world import APITest
from view import CHARACTERISTIC1, DEVICE1, ViewTest

# Bluetooth clients from PyPI, installed by Tests/Support/deps.
PACKAGES = TESTS.parent / ".build/test-packages"

BLEAK = """
import asyncio, sys
from bleak import BleakClient, BleakScanner

async def main():
    heard = asyncio.Event()
    async with BleakScanner(lambda _device, _advert: heard.set()) as scanner:
        await heard.wait()
        # Other devices have as much time to be shown as usual.
        await asyncio.sleep(1.0)
        devices = scanner.discovered_devices
    print("found", *sorted(each.address for each in devices), flush=True)
    lost = asyncio.Event()
    async with BleakClient(devices[0], disconnected_callback=lambda _: lost.set(), timeout=60) as client:
        characteristic = client.services.get_service(sys.argv[1]).characteristics[0]
        await client.write_gatt_char(characteristic, b"\\x2a", response=True)
        print("read", (await client.read_gatt_char(characteristic)).hex(), flush=True)
        values = asyncio.Queue()
        await client.start_notify(characteristic, lambda _, value: values.put_nowait(bytes(value)))
        print("notified", *[(await values.get()).hex() for _ in range(4)], flush=True)
        if sys.argv[2] == "stay":
            await lost.wait()
            print("cut off", client.is_connected, flush=True)
            return
        await client.stop_notify(characteristic)
        print("connected", client.is_connected, flush=True)
    print("connected", client.is_connected, flush=True)

asyncio.run(asyncio.wait_for(main(), 120))
"""


class Clients(ViewTest):
    def setUp(self):
        super().setUp()
        # The app's user may not be allowed to look into this directory.
        shutil.copytree(PACKAGES, self.world.directory / "packages")
        self.environment = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.world.view}", "HOME": "/", "TERM": "dumb"}

    def speak_for_dice(self, program):
        """From now on this program is the app too."""
        read = lambda: sum("manifests read" in each for each in self.world.daemon.lines)
        before = read()
        self.world.declare("dice", Executable=f"{Identity('dice').executable};{program}")
        wait(lambda: read() > before, what="the manifest to be read")

    def run_as_app(self, *command, typed=None, **environment):
        done = subprocess.run(
            [str(each) for each in command], user=SOMEBODY, group=SOMEBODY, extra_groups=[], cwd="/", text=True, timeout=STANDSTILL * 60,
            input=typed or "", capture_output=True, env={**os.environ, **self.environment, **environment})
        return done.returncode, done.stdout, done.stderr

    def bleak(self, mode):
        return Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", Identity("dice").executable, "-c",
            BLEAK, PINK, mode, environment={**self.environment, "PYTHONPATH": str(self.world.directory / "packages")})

    def test_bleak(self):
        program = self.bleak("go")
        self.assertEqual(program.wait_end(), 0, program.lines)
        self.assertEqual(program.lines, [
            "found C0:FF:EE:00:02:01", "read 2a", "notified 03 06 01 03", "connected True", "connected False"])
        self.assertEqual(self.linked(), [])

    def test_bleak_is_cut_off_when_the_grant_goes(self):
        program = self.bleak("stay")
        program.wait_for("^notified")
        self.revoke()
        self.assertEqual(program.wait_for("^cut off"), "cut off False")
        wait(lambda: not self.linked(), what="the link to be dropped", also_every=0.05)

    def test_bluetoothctl(self):
        self.speak_for_dice("/usr/bin/bluetoothctl")
        address = "C0:FF:EE:00:02:01"
        program = Conversation(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", "bluetoothctl",
            environment=self.environment)
        for command, answer in (
                ("list", "Controller .* simulator"), ("devices", f"Device {address} pink"),
                (f"connect {address}", "Connection successful"), (f"info {address}", "Connected: yes"),
                (f"gatt.list-attributes {address}", "0000ff3f-0000-1000-8000-00805f9b34fb"),
                ("gatt.select-attribute 0000ff3f-0000-1000-8000-00805f9b34fb", r"char[0-9a-f]{4}\]"),
                ("gatt.write 0x2b", "Attempting to write"), ("gatt.read", r"\b2b\b"), ("gatt.notify on", "Notify started"),
                ("gatt.notify off", "Notify stopped"), ("gatt.acquire-notify", "AcquireNotify success"),
                ("gatt.release-notify", "NotifyAcquired: no"), ("gatt.acquire-write", "AcquireWrite success"),
                ("gatt.release-write", "WriteAcquired: no"),
                ("back", ""), (f"pair {address}", "Failed to pair: org.bluez.Error.AlreadyExists"),
                (f"remove {address}", "Failed to remove device: org.bluez.Error.NotPermitted"),
                ("power off", "Failed to set power off: org.bluez.Error.NotPermitted"),
                ("scan on", "Discovery started"), ("scan off", "Discovery stopped"),
                (f"disconnect {address}", "Successful disconnected")):
            with self.subTest(command):
                program.ask(command, answer)
        self.assertNotIn("C0:FF:EE:00:02:02", "\n".join(program.lines))
        program.end()
        self.assertEqual(self.simulator.bonds, ["pink"])

    def test_busctl(self):
        self.speak_for_dice("/usr/bin/busctl")
        code, out, err = self.run_as_app("busctl", "tree", "--list", "org.bluez")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual([each for each in out.split() if "dev_" in each], [self.pink])
        code, out, err = self.run_as_app("busctl", "list")
        self.assertEqual(code, 0, err)
        self.assertIn("org.accessorysetup1", out)
        # A connection each: the link is the app's, not the connection's.
        for expected, *command in (
                ("", "call", "org.bluez", self.pink, DEVICE1, "Connect"),
                ("b true\n", "get-property", "org.bluez", self.pink, DEVICE1, "Connected")):
            self.assertEqual(self.run_as_app("busctl", *command), (0, expected, ""))
        code, out, err = self.run_as_app("busctl", "tree", "--list", "org.bluez")
        characteristic = next(each for each in out.split() if each.endswith("char000c"))
        for expected, *command in (
                ("", "call", "org.bluez", characteristic, CHARACTERISTIC1, "WriteValue", "aya{sv}", "1", "9", "0"),
                ("ay 1 9\n", "call", "org.bluez", characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", "0"),
                ("", "call", "org.bluez", self.pink, DEVICE1, "Disconnect")):
            self.assertEqual(self.run_as_app("busctl", *command), (0, expected, ""))
        code, out, err = self.run_as_app("busctl", "introspect", "org.bluez", self.pink)
        self.assertEqual(code, 0, err)
        self.assertIn("org.bluez.Device1", out)
        code, out, err = self.run_as_app("busctl", "status", "org.bluez")
        self.assertEqual(code, 0, err)
        self.assertIn(f"PID={self.simulator.pid}\n", out)
        code, out, err = self.run_as_app("busctl", "monitor", "org.bluez")
        self.assertEqual(code, 1)
        self.assertIn("AddMatch", err)
        code, out, err = self.run_as_app("busctl", "call", "org.bluez", self.pink, DEVICE1, "CancelPairing")
        self.assertEqual(code, 1)
        self.assertIn("apps pair accessories with org.accessorysetup1", err)


class Order(ViewTest):
    """Answers and signals come in the order in which org.bluez sends them: one recorder on the bus and on the view. (The radio lab does
    it with bluetoothd, which shows attributes of accessories that are not connected.)"""

    def record(self, bus, *command):
        recorder = Program(*command, "-c", (TESTS / "Lab/apps/recorder.py").read_text(), self.pink, "0000ff3f-0000-1000-8000-00805f9b34fb",
                           environment={"DBUS_SYSTEM_BUS_ADDRESS": bus, "HOME": "/"})
        self.assertEqual(recorder.wait_end(60), 0, recorder.lines)
        calls = json.loads(recorder.lines[-1])
        return {name: [each for each in events if not each.startswith("Interfaces")] for name, events in calls.items()
                if name != "ReadValue before"}

    def test_it_is_that_of_the_bus(self):
        there = self.record(self.world.bus.address, "/usr/bin/python3")
        here = self.record(f"unix:path={self.world.view}", "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}",
                           "--clear-groups", Identity("dice").executable)
        self.assertEqual(here, there)
        # As bluetoothd has them, in the lab.
        self.assertEqual(there["StartDiscovery"], ["answer", "Discovering=True"])
        self.assertEqual(there["Disconnect"], ["ServicesResolved=False", "answer", "Disconnected", "Connected=False"])


class SampleApp(APITest):
    """The app dice, over the Swift module, with nothing but the view."""

    def test_it_sets_up_and_rolls(self):
        self.world.declare("dice", Executable=BIN / "dice")
        self.world.restart_daemon()
        picker = Program(BIN / "accessoryctl", "picker", "--bus", self.world.bus.address, "--pick", "Pink Dice")
        picker.wait_for("waiting for a picker")
        app = Program(
            BIN / "dice", "--timeout", STANDSTILL * 30, "--remove",
            environment={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.world.view}"})
        self.assertEqual(app.wait_end(), 0, app.lines)
        self.assertEqual(len([each for each in app.lines if "rolled" in each]), 3, app.lines)
        self.assertEqual(picker.wait_end(), 0, picker.lines)
        self.assertEqual((self.world.grants(), self.simulator.bonds, self.simulator.connections), ({}, [], []))


class Conversation(Program):
    """An interactive program: each command waits for the one before."""

    def __init__(self, *command, environment):
        super().__init__(*command, environment=environment, stdin=subprocess.PIPE)

    def ask(self, command, answer):
        seen = len(self.lines)
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        wait(lambda: any(re.search(answer, plain(each)) for each in self.lines[seen:] + [self._rest.decode(errors="replace")]), 15,
             lambda: f"“{answer}” after {command}; said was {self.lines[seen:]}", also_every=0.05)

    def end(self):
        self._process.stdin.close()
        self.wait_end()


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f]", "", text)


if __name__ == "__main__":
    unittest.main()
