# SPDX-License-Identifier: Apache-2.0
"""The random life of Tests/Soak on a real bluetoothd: the same steps, troubles and invariants, with accessories on the air of the lab, links
that apps make, and bluetoothd killed. It is in a guest of its own, which `Tests/Lab/run --soak MINUTES --seed N` starts and nothing else does.
"""

import os
import signal
import time
from pathlib import Path

import dbus

# Before the harness reads it.
os.environ["BIN"] = os.environ.get("LAB_BIN", "")

import sys

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "Soak"))

import life
from framework import check
from lab import Output, expect
from shortage import ShortWorld

from harness.clients import Client, Identity
from harness.names import OBJECT_MANAGER, PINK
from harness.waiting import wait

MINUTES, SEED = float(os.environ.get("LAB_MINUTES", 20)), int(os.environ.get("LAB_SEED", 1))
SOCKET = "/run/dbus/system_bus_socket"
ADDRESSES = {each["id"]: each["address"] for each in life.SCENARIO["accessories"]}
# With the service that they advertise: once connected, bluetoothd reports the actual services, and not the
# advertised ones.
SERVED = [{"uuid": PINK, "characteristics": [{"uuid": "FF3F", "flags": ["read", "notify"], "value": "01"}]}]
SCENARIO = life.SCENARIO | {"accessories": [
    each | {"adverts": [advert | {"interval": 0.2} for advert in each["adverts"]], "gatt": SERVED} for each in life.SCENARIO["accessories"]]}
# How often all is taken away and counted; a step takes some seconds here.
COUNTED_EVERY = 10


class SystemBus:
    address, socket = f"unix:path={SOCKET}", SOCKET

    def stop(self, _number):
        """It is the guest's."""


class Radio:
    """The lab's counterpart of the simulator for a life: the air, bluetoothd and its store."""

    def __init__(self, lab):
        self._lab = lab
        self.lines = []

    def do(self, action, target=""):
        lab = self._lab
        match action:
            case "serviceStopped":
                lab.bluetoothd.kill(signal.SIGKILL)
            case "serviceStarted":
                if not lab.bluetoothd.running:
                    lab.start_bluetoothd()
                    lab.set_powered(True)
            case "adapterRemoved":
                lab.air.unplug()
            case "adapterAdded":
                lab.air.plug()
                lab.wait_for_adapter()
                lab.set_powered(True)
            case "adapterPowerOff" | "adapterPowerOn":
                lab.set_powered(action == "adapterPowerOn")
            case "vanish":
                lab.air.vanish(target)
            case "return":
                lab.air.bring_back(target)
            case _:
                raise ValueError(action)

    @property
    def _adapter(self):
        if not self._lab.bus.name_has_owner("org.bluez"):
            return None
        return self._lab.bluez_objects().get("/org/bluez/hci0", {}).get("org.bluez.Adapter1")

    @property
    def bluetooth(self):
        adapter = self._adapter
        return "absent" if adapter is None else "ready" if adapter["Powered"] else "off"

    @property
    def discovering(self):
        return bool(self._adapter["Discovering"])

    def devices(self):
        return {address: bool(each["Paired"]) for address, each in self._lab.bluez_devices().items()}

    @property
    def bonds(self):
        """The bonds in bluetoothd's store and in its memory, which must be the same."""
        names = {address: name for name, address in ADDRESSES.items()}
        stored = set(self._lab.bonds())
        paired = {address for address, is_paired in self.devices().items() if is_paired}
        return sorted(names.get(each, each) for each in stored | paired) if stored == paired else [f"{stored}, and in memory {paired}"]

    def stop(self, _number):
        """The frame ends it."""


class LabWorld(ShortWorld):
    def __init__(self, lab):
        self._lab = lab
        super().__init__(SCENARIO, tuple(life.APPS))

    def make_bus(self):
        return SystemBus()

    def make_simulator(self, _scenario):
        return Radio(self._lab)


class LabLife(life.Soak):
    """With features of a real radio: private addresses that change, and links."""

    STEPS = {name: weight for name, weight in life.Soak.STEPS.items() if name != "some_hours"} | {
        "another_address": 1, "a_reset": 1, "a_link": 4}

    def __init__(self, seed, lab):
        self.lab = lab
        super().__init__(seed, LabWorld(lab))

    def fill_store(self):
        """The trail is short, and read in no time; so it grows, and a part of the bytes with it."""

    def another_address(self):
        self.lab.air.rotate("private")

    def a_reset(self):
        """An accessory without a grant loses its keys."""
        free = sorted(set(ADDRESSES) - set(self.names().values()) - self.others)
        if free:
            self.lab.air.forget(self.chance.choice(free))

    def a_link(self):
        """An app connects to one of its accessories through the view, and disconnects, or is killed."""
        name = self.chance.choice(list(life.APPS))
        client = Client(self.world, Identity(name, life.APPS[name]), self.world.view)
        try:
            objects = client.call("/", OBJECT_MANAGER, "GetManagedObjects", to="org.bluez", seconds=60)
            devices = sorted(str(path) for path, each in objects.items() if "org.bluez.Device1" in each)
            if not devices:
                return "no device"
            device = self.chance.choice(devices)
            done = []
            client.call_later(device, "org.bluez.Device1", "Connect", lambda *result: done.append(result), to="org.bluez")
            wait(lambda: done, 60, f"Connect of {device} to answer", also_every=0.1)
            said = "connected" if not done[0] else done[0][0].get_dbus_name().rsplit(".", 1)[-1]
            if said == "connected" and self.chance.random() < 0.5:
                client.call(device, "org.bluez.Device1", "Disconnect", to="org.bluez", seconds=60)
            return said
        finally:
            self.end(client)

    def mend(self):
        super().mend()
        # An accessory with a link does not advertise. Whose view it was ends it after a while, or it is ended here.
        for address, each in self.lab.bluez_devices().items():
            if each["Connected"]:
                device = dbus.Interface(self.lab.bus.get_object("org.bluez", each["path"], introspect=False), "org.bluez.Device1")
                self.call(device.Disconnect)
                self.lab.wait_until(lambda: not self.lab.bluez_devices().get(address, {"Connected": False})["Connected"], 30, f"{address} to be free")


@check(SCENARIO, seconds=60 * MINUTES + 1200)
def lives_by_chance(lab):
    began = time.monotonic()
    alive, taken, points = None, 0, []
    try:
        alive = LabLife(SEED, lab)
        while (passed := time.monotonic() - began) < 60 * MINUTES:
            alive.is_mortal = passed < 60 * MINUTES * life.MORTAL
            taken += 1
            alive.step()
            print(f"step {taken}, {passed:.0f} s: {alive.last}", flush=True)
            if not alive.is_mortal and taken % COUNTED_EVERY == 0:
                points.append((taken, *alive.held()))
                print(f"{points[-1][1]} B, {points[-1][2]} descriptors, {points[-1][3]} match rules", flush=True)
    except BaseException:
        if alive is not None:
            print("\n".join(alive.said + [f"-- after {alive.last}"] + alive.world.daemon.lines[-60:]), flush=True)
        print(f"soak: it failed in step {taken} of seed {SEED}", flush=True)
        raise
    finally:
        if alive is not None:
            counted = "".join(f"{count:6} {what}\n" for what, count in sorted(alive.done.items()))
            print(counted, flush=True)
    said = f"seed {SEED}: {taken} steps in {(time.monotonic() - began) / 60:.1f} minutes"
    if len(points) > 2:
        rise, deviation = life.slope([each[:2] for each in points])
        said += f", descriptors {points[0][2]} → {points[-1][2]}, match rules {points[0][3]} → {points[-1][3]}, {rise:.1f} ± {deviation:.1f} B a step"
        expect(points[-1][2] <= points[0][2] and points[-1][3] <= points[0][3], f"descriptors or match rules have grown: {said}")
    (lab.logs / "notes").write_text(said + "\n")
