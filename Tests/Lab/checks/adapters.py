# SPDX-License-Identifier: Apache-2.0
"""Two adapters on a real kernel and a real bluetoothd: an accessory is one offer, belongs to one adapter, and waits for that adapter."""

import json
import signal

import dbus

from framework import check
from journeys import Journey
from lab import expect

FAR, NEAR = "00:AA:01:00:00:42", "00:AA:01:00:00:43"
ADDRESS = "C0:FF:EE:00:00:01"
PINK_SERVICE = "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
VIEW = "unix:path=/run/accessory-setup/bus"
TWO = {
    "adapters": [{"name": "hci0", "address": FAR, "gain": -20}, {"name": "hci1", "address": NEAR}],
    "accessories": [{
        "id": "pink-dice", "address": ADDRESS,
        "adverts": [{"interval": 0.2, "rssi": -48, "name": "Dice 4F", "serviceUUIDs": [PINK_SERVICE]}],
        "gatt": [{"uuid": PINK_SERVICE, "characteristics": [
            {"uuid": "FF3F", "flags": ["read", "notify"], "value": "01", "notify": {"interval": 0.3, "values": ["01", "04", "06"]}}]}],
    }],
}


def path_on(adapter):
    return f"/org/bluez/{adapter}/dev_{ADDRESS.replace(':', '_')}"


def device(lab, adapter):
    """BlueZ' object on this adapter: its properties; empty without one."""
    return lab.bluez_objects().get(path_on(adapter), {}).get("org.bluez.Device1", {})


def scan(lab, adapter):
    """Another program searches, and keeps both adapters' objects fresh."""
    dbus.Interface(lab.bus.get_object("org.bluez", f"/org/bluez/{adapter}", introspect=False), "org.bluez.Adapter1").StartDiscovery()
    lab.wait_until(lambda: "RSSI" in device(lab, adapter), 30, f"the accessory to be heard by {adapter}")


def set_up(lab):
    """Where it is heard best, both adapters having heard it."""
    journey = Journey(lab)
    for adapter in ("hci0", "hci1"):
        scan(lab, adapter)
    journey.add("Dice 4F")
    expect(journey.listed()[ADDRESS]["device"] == path_on("hci1"), f"it is {journey.listed()[ADDRESS]['device']}")
    return journey


def shown(lab):
    """An app's view of adapters and devices."""
    program = lab.start("tree", "busctl", "tree", "--list", "org.bluez", environment={"DBUS_SYSTEM_BUS_ADDRESS": VIEW})
    program.wait_exit(20)
    return program.lines


@check(TWO, seconds=150)
def an_accessory_is_set_up_where_it_is_nearest(lab):
    journey = set_up(lab)
    expect(device(lab, "hci1").get("Bonded", device(lab, "hci1").get("Paired")), "there is no bond on hci1")
    expect(not device(lab, "hci0").get("Paired"), "there is a bond on hci0")
    expect(journey.listed()[ADDRESS]["adapter"] == NEAR, f"the adapter is {journey.listed()[ADDRESS]['adapter']}")
    status = lab.start("status", lab.accessoryctl, "status", "--json")
    status.wait_exit(20)
    rows = {each["name"]: each["powered"] for each in json.loads("\n".join(status.lines))["adapters"]}
    expect(rows == {"hci0": True, "hci1": True}, f"the adapters are {rows}")


@check(TWO, seconds=200)
def a_removal_waits_for_its_adapter(lab):
    journey = set_up(lab)
    lab.air.unplug("hci1")
    lab.wait_until(lambda: journey.listed()[ADDRESS]["device"] == "/", 20, "the accessory to be out of range")
    expect(journey.bluetooth == "ready", "the other adapter does not count")
    journey.admin("remove", ADDRESS)
    expect(set(lab.bonds()) == {ADDRESS}, "the bond is gone")
    lab.air.plug("hci1")
    lab.wait_for_adapter(adapter="hci1")
    lab.set_powered(True, "hci1")
    lab.wait_until(lambda: lab.bonds() == {}, 60, "the bond to go")


@check(TWO, seconds=200)
def its_adapter_goes_and_comes(lab):
    journey = set_up(lab)
    app = journey.app("--rolls", "1000", environment={"DBUS_SYSTEM_BUS_ADDRESS": VIEW})
    app.wait_for(r"rolled \d", 60)
    lab.air.unplug("hci1")
    lab.wait_until(lambda: journey.listed()[ADDRESS]["device"] == "/", 20, "the accessory to be out of range")
    lab.air.plug("hci1")
    lab.wait_for_adapter(adapter="hci1")
    lab.set_powered(True, "hci1")
    lab.wait_until(lambda: journey.listed()[ADDRESS]["device"] == path_on("hci1"), 30, "the accessory to be back")
    again = journey.app(environment={"DBUS_SYSTEM_BUS_ADDRESS": VIEW})
    again.wait_for(r"rolled \d", 60)


@check(TWO, seconds=200)
def the_other_adapter_is_enough(lab):
    journey = Journey(lab)
    for adapter in ("hci0", "hci1"):
        scan(lab, adapter)
    lab.air.unplug("hci1")
    lab.wait_for_adapter(present=False, adapter="hci1")
    expect(journey.bluetooth == "ready", "the other adapter does not count")
    journey.add("Dice 4F")
    expect(journey.listed()[ADDRESS]["device"] == path_on("hci0"), f"it is {journey.listed()[ADDRESS]['device']}")


@check(TWO, seconds=200)
def names_swap(lab):
    """The first adapter is pulled out, and the second becomes the first after a restart of everything."""
    journey = set_up(lab)
    expect(journey.daemon.kill(signal.SIGTERM) == 0, "accessorysetupd ended with an error")
    lab.air.unplug("hci0")
    lab.air.unplug("hci1")
    lab.air.plug("hci1")
    lab.air.plug("hci0")
    for adapter in ("hci0", "hci1"):
        lab.wait_for_adapter(adapter=adapter)
        lab.set_powered(True, adapter)
    journey.start_daemon()
    lab.wait_until(lambda: journey.listed()[ADDRESS]["device"] == path_on("hci0"), 30, "the accessory on the adapter of that address")
    app = journey.app(environment={"DBUS_SYSTEM_BUS_ADDRESS": VIEW})
    app.wait_for(r"rolled \d", 60)
