# SPDX-License-Identifier: Apache-2.0
"""The air of the lab: one process that plays a scenario's adapters and all its accessories with bumble. It runs in the
guest, where /dev/vhci makes its adapters the kernel's hci0 and so on. Checks speak to it over a Unix socket, one JSON object a
line: {"do": "vanish", "accessory": "pink-dice"} is answered by {} plus the requested values, or by {"error": why}.

    ready                        answered once the adapters are plugged in (or there are none to plug)
    start                        the scenario's clock starts: from now on there is something on the air
    vanish, return ACCESSORY     out of range, back again
    rssi ACCESSORY RSSI          heard at this strength from now on (null: the scenario's again)
    rotate ACCESSORY             a new private address; answers the address
    unplug, plug ADAPTER         pulls an adapter out, plugs it in; the kernel gives it the lowest name that is free
    passkey ACCESSORY [PASSKEY]  with one: enters it at the accessory; without: answers its display, once it shows one
    bonds ACCESSORY              answers the bonds it holds
    forget ACCESSORY             it loses its bonds
    keys                         answers the keys of all accessories' bonds
    remember KEYS                they do so again: for an air that follows another one
    servicesChanged ACCESSORY PAUSE
                                 connected, it replaces its services by others with the same values, and
                                 answers after that many seconds from then on
    secure ACCESSORY             connected, it asks to be paired (a security request), unasked
    when ACCESSORY ACT           the next time that it is connected it does so at once: vanish, rotate, secure, forget

Importing bumble takes seconds in an emulated guest. So `air.py --stock` imports it once and then makes an air for each
line of its input, {"scenario": file, "socket": path, "log": file}, answering with the process id; its first line of
output says that it is ready."""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
import time

from bumble import crypto

import air_scenario
from air_accessory import Accessory
from air_radio import AdapterController, AirLink, Vhci


class RequestError(Exception):
    """A check's request makes no sense; the text says why."""


class Air:
    def __init__(self, scenario):
        self._scenario = scenario
        self._link = AirLink()
        self._plugged = {}  # by the scenario's name: the kernel's end and the controller
        self._began = time.monotonic()
        self._events_to_come = [event for event in scenario.events if event.on is not None]
        self._accessories = {
            description.id: Accessory(description, self._link, self._adapters, self._on_pairing_started, self.log)
            for description in scenario.accessories
        }

    def log(self, text):
        print(f"{time.monotonic() - self._began:8.3f} {text}", flush=True)

    # The adapters

    @property
    def adapter_names(self):
        return [each.name for each in self._scenario.adapters]

    def _adapters(self):
        return [controller for _, controller in self._plugged.values()]

    def plug(self, name):
        if name in self._plugged:
            return
        adapter = next((each for each in self._scenario.adapters if each.name == name), None)
        if adapter is None:
            raise RequestError(f"no adapter “{name}”")
        vhci, controller = Vhci(), AdapterController(self._link, adapter.address, adapter.gain, self._on_discovery)
        self._plugged[name] = vhci, controller
        vhci.connect(controller)
        self.log(f"{name} plugged in")

    def unplug(self, name):
        if name not in self._plugged:
            return
        vhci, controller = self._plugged.pop(name)
        vhci.close()
        controller.drop_links()
        self._link.remove_controller(controller)
        self.log(f"{name} unplugged")

    # The scenario's time

    def start(self):
        self.log("scenario starts")
        for accessory in self._accessories.values():
            self._at(accessory.description.appears_at, accessory.appear)
            if accessory.description.leaves_at != air_scenario.FOREVER:
                self._at(accessory.description.leaves_at, accessory.vanish)
        for event in self._scenario.events:
            if event.at is not None:
                self._at(event.at + event.after, self._perform, event)

    def _at(self, seconds, act, *arguments):
        if seconds == 0:  # at once, even where the caller is in the middle of a pairing
            act(*arguments)
        else:
            asyncio.get_running_loop().call_later(seconds, act, *arguments)

    def _perform(self, event):
        accessory = self._accessories[event.accessory]
        acts = {"vanish": accessory.vanish, "return": accessory.appear, "servicesChanged": accessory.change_services}
        acts[event.do]()

    def _on_discovery(self):
        self.log("discovery started")
        self._trigger(lambda event: event.on == "discoveryStarted")

    def _on_pairing_started(self, accessory_id):
        self._trigger(lambda event: event.on == "pairingStarted" and event.accessory == accessory_id)

    def _trigger(self, happens):
        for event in [event for event in self._events_to_come if happens(event)]:
            self._events_to_come.remove(event)
            self._at(event.after, self._perform, event)

    # Requests of checks

    async def serve(self, path):
        await asyncio.start_unix_server(self._on_client, path)

    async def _on_client(self, reader, writer):
        while line := await reader.readline():
            try:
                answer = await self._answer(json.loads(line))
            except (RequestError, json.JSONDecodeError) as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, request):
        match request:
            case {"do": "ready"}:
                pass
            case {"do": "start"}:
                self.start()
            case {"do": "unplug", "adapter": name}:
                self.unplug(name)
            case {"do": "plug", "adapter": name}:
                self.plug(name)
            case {"do": "vanish", "accessory": name}:
                self._accessory(name).vanish()
            case {"do": "return", "accessory": name}:
                self._accessory(name).appear()
            case {"do": "rssi", "accessory": name, "rssi": rssi}:
                self._accessory(name).rssi = rssi
            case {"do": "rotate", "accessory": name}:
                self._accessory(name).rotate()
                return {"address": self._accessory(name).address.to_string(False)}
            case {"do": "passkey", "accessory": name, "passkey": passkey}:
                self._accessory(name).enter(passkey)
            case {"do": "passkey", "accessory": name}:
                return {"passkey": await self._accessory(name).shown()}
            case {"do": "bonds", "accessory": name}:
                return {"bonds": self._accessory(name).bonds}
            case {"do": "forget", "accessory": name}:
                self._accessory(name).forget()
            case {"do": "keys"}:
                return {"keys": {name: each.keys for name, each in self._accessories.items()}}
            case {"do": "remember", "keys": keys}:
                for name, each in keys.items():
                    self._accessory(name).remember(each)
            case {"do": "servicesChanged", "accessory": name, "pause": pause}:
                self._accessory(name).change_services(pause)
            case {"do": "secure", "accessory": name}:
                self._accessory(name).request_security()
            case {"do": "when", "accessory": name, "act": act}:
                self._accessory(name).when_connected(act)
            case _:
                raise RequestError(f"cannot do {request}")
        return {}

    def _accessory(self, name):
        if name not in self._accessories:
            raise RequestError(f"no accessory “{name}”")
        return self._accessories[name]


async def play(scenario_path, socket_path):
    air = Air(air_scenario.load(scenario_path))
    for adapter in air.adapter_names:
        air.plug(adapter)
    await air.serve(socket_path)
    await asyncio.Future()


def run(scenario_path, socket_path):
    # bumble warns about ordinary events here, such as a connection without an advertiser of its own.
    logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s")
    try:
        asyncio.run(play(scenario_path, socket_path))
    except air_scenario.ScenarioError as error:
        sys.exit(f"air: {error}")


def stock():
    # Loads the modules of the first pairing, which takes seconds under emulation.
    peer = crypto.EccKey.generate()
    crypto.EccKey.generate().dh(peer.x, peer.y)
    crypto.f4(bytes(32), bytes(32), bytes(16), bytes(1))
    gc.freeze()  # the copies share these objects: keep the collector from touching them all
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the airs: leave no zombies
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            run(order["scenario"], order["socket"])
            return
        print(child, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--stock"]:
        stock()
    elif len(sys.argv) == 3:
        run(sys.argv[1], sys.argv[2])
    else:
        sys.exit("usage: air.py SCENARIO SOCKET, or air.py --stock")
