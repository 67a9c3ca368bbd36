# SPDX-License-Identifier: Apache-2.0
"""Whole gateways in one fleet, each with its bus, simulated radios, the real daemon and the real agent: a check that the simulation's fake
daemons are honest. GATEWAYS (20) and SEED (1) may be set."""

import json
import os
import random
import signal
import sys
import uuid
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

import dbus
from harness.apps import App
from harness.fleet import Fleet
from harness.names import ACCESSORY, ADMIN, ADMIN_PATH, GRANT, SOMEBODY
from harness.pickers import PickerProgram
from harness.values import item
from harness.waiting import wait
from harness.world import APITest, World

GATEWAYS = int(os.environ.get("GATEWAYS", 20))
SEED = int(os.environ.get("SEED", 1))
ROUNDS = 3


class WholeGateways(APITest):
    def setUp(self):
        self.world = None
        self.names = [f"gw-{number}" for number in range(GATEWAYS)]
        self.fleet = Fleet(*self.names)
        self.addCleanup(self.fleet.close)
        self.worlds = {}
        for name in self.names:
            self.worlds[name] = World(self.scenario, self.apps)
            self.addCleanup(self.worlds[name].close)
        self.agents = {}
        # The identifiers of commands, with the names that they give, and the outcomes.
        self.sent, self.outcomes = {}, {}
        self.ends = {}

    def set_up(self, world):
        app, picker = App(world, "dice", SOMEBODY).begin(), PickerProgram(world).register()
        self.add(app, picker, "Dice 4F", item("Pink Dice"))
        picker.unregister()

    def path(self, name, interface):
        return next(path for path, each in self.worlds[name].admin.objects().items() if interface in each)

    def start_agent(self, name):
        self.agents[name] = self.fleet.agent(self.worlds[name], name)

    # One step of the faults.

    def rename_locally(self, chance, name):
        self.worlds[name].admin.call(self.path(name, ACCESSORY), ACCESSORY, "Rename", "s", f"local {chance.randrange(1000)}")

    def switch_locally(self, chance, name):
        self.worlds[name].admin.call(
            self.path(name, GRANT), "org.freedesktop.DBus.Properties", "Set", "ssv", GRANT, "Enabled", chance.random() < 0.5)

    def command(self, _chance, name):
        accessory = str(self.path(name, ACCESSORY)).rsplit("/", 1)[1].replace("_", "-")
        id = uuid.uuid4().hex
        self.sent[id] = (name, f"by {id}")
        text = self.fleet.signed_command("rename", {"accessory": accessory, "name": f"by {id}"}, id=id, gateways=[name])
        # A network may deliver it twice.
        for _ in range(2):
            self.operator.publish(
                self.fleet.topic(name, "cmd/rename"), text, response=self.fleet.topic(name, "answer/test"), correlation=b"c", expiry=60)

    def kill_agent(self, _chance, name):
        self.agents[name].stop(signal.SIGKILL)
        self.start_agent(name)

    def restart_daemon(self, chance, name):
        self.worlds[name].restart_daemon(chance.choice((signal.SIGTERM, signal.SIGKILL)))

    def restart_broker(self, *_):
        self.operator.close()
        self.fleet.listeners.remove(self.operator)
        self.take_answers()
        self.fleet.restart_broker(signal.SIGKILL)
        self.listen()

    def listen(self):
        self.operator = self.fleet.listen("operators", *(self.fleet.topic("+", end) for end in ("answer/test", "reported/#")))

    def take_answers(self):
        for message in self.operator.take_in():
            if message.topic.endswith("/answer/test"):
                answer = json.loads(message.payload)
                self.outcomes.setdefault(answer["id"], set()).add(answer["outcome"])

    # The promises.

    def trail(self, name):
        lines = self.worlds[name].admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", {"limit": dbus.UInt32(10_000)})
        return [(int(each["id"]), str(each["event"]), str(each["why"])) for each in lines]

    def collected(self, name):
        return [(each["id"], each["event"], each["why"]) for each in self.fleet.collected(name)]

    def differences(self):
        """Gateways whose reports or trails at the operator are not the daemon's."""
        reported = self.operator.retained()
        for name, world in self.worlds.items():
            objects = world.admin.objects()
            for interface, kind, keys in ((GRANT, "grant", ("App", "Enabled", "State")), (ACCESSORY, "accessory", ("DisplayName", "State"))):
                for path, each in objects.items():
                    if interface not in each:
                        continue
                    end = str(path).rsplit("/", 1)[1].replace("_", "-")
                    report = reported.get(self.fleet.topic(name, f"reported/{kind}/{end}"), {})
                    if any(report.get(key) != each[interface][key] for key in keys):
                        yield f"{name}: {kind}: {report}"
            if self.collected(name) != self.trail(name):
                yield f"{name}: trail of {len(self.collected(name))} lines, not {len(self.trail(name))}"

    def test_a_fleet_of_whole_gateways(self):
        chance = random.Random(SEED)
        for name, world in self.worlds.items():
            self.set_up(world)
            self.start_agent(name)
        collector = self.fleet.start("audit", "--follow")
        self.addCleanup(collector.stop)
        self.listen()
        steps = [self.rename_locally, self.switch_locally, self.command, self.command, self.kill_agent, self.restart_daemon]
        for _ in range(ROUNDS):
            for _ in range(GATEWAYS):
                chance.choice(steps)(chance, chance.choice(self.names))
            self.restart_broker()
        for name in self.names:
            self.command(chance, name)
        wait(lambda: not list(self.differences()), 120, lambda: f"seed {SEED}: {list(self.differences())[:5]}", also_every=0.5)
        self.take_answers()
        for id, (name, given) in self.sent.items():
            times = sum(event == "renamed" and f"is “{given}” now" in why for _, event, why in self.trail(name))
            outcomes = self.outcomes.get(id, set())
            self.assertLessEqual(times, 1, f"seed {SEED}: {given} at {name}")
            self.assertLessEqual(len(outcomes), 1, f"seed {SEED}: {outcomes} for {id}")
            if outcomes == {"done"}:
                self.assertEqual(times, 1, f"seed {SEED}: {given} at {name}")
            if outcomes & {"failed", "refused"}:
                self.assertEqual(times, 0, f"seed {SEED}: {given} at {name}")
        self.assertTrue([each for each in self.outcomes.values() if each == {"done"}], "no command was answered")
        for name in self.names:
            self.assertTrue(self.agents[name].running, name)
