# SPDX-License-Identifier: Apache-2.0
"""A fleet of gateways: inventory, documents, commands, trails and pickers, over a real broker with certificates."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

import dbus
from harness.apps import App
from harness.fleet import Fleet, air, bond
from harness.names import ADMIN, ADMIN_PATH, GRANT
from harness.values import item
from harness.waiting import wait
from harness.world import APITest, World

DENIAL = "[Deny everything]\nApp=com.example.dice\n"


class FleetTest(APITest):
    gateways = ("gw-1", "gw-2")

    def setUp(self):
        super().setUp()
        self.fleet = Fleet(*self.gateways)
        self.addCleanup(self.fleet.close)

    def gateway(self, name="gw-1", **more):
        """An agent on the world's daemon, connected."""
        agent = self.fleet.agent(self.world, name, **more)
        agent.wait_connected()
        return agent

    def topic(self, end, gateway="gw-1"):
        return self.fleet.topic(gateway, end)

    def enable(self, truth, grant=1):
        self.world.admin.call(
            f"/org/accessorysetup1/grant/{grant}", "org.freedesktop.DBus.Properties", "Set", "ssv", GRANT, "Enabled", truth)

    def set_up(self, name="Dice 4F"):
        app, picker = self.app(), self.picker()
        path = self.add(app, picker, name)
        picker.unregister()
        return app, path


class Names(APITest):
    """A broker that is named, in a name space of mounts where the test answers the resolver."""

    HOST = "broker.example"

    def setUp(self):
        super().setUp()
        self.fleet = Fleet("gw-1", host=self.HOST)
        self.addCleanup(self.fleet.close)

    def gateway(self, path, text):
        """An agent with another file at this path."""
        file = self.fleet.directory / Path(path).name
        file.write_text(text)
        mount = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        return self.fleet.agent(self.world, "gw-1", before=("unshare", "--mount", "sh", "-c", mount, "sh", file, path))

    def test_a_name_that_is_found(self):
        self.gateway("/etc/hosts", f"{self.fleet.address} {self.HOST}\n").wait_connected()

    def test_the_agent_does_not_wait_for_a_silent_name_server(self):
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(server.close)
        server.bind((self.fleet.address, 53))
        # Longer than any wait of a test.
        agent = self.gateway("/etc/resolv.conf", f"nameserver {self.fleet.address}\noptions timeout:30 attempts:5\n")
        query, client = wait(lambda: self.received(server), 30, "a query", also_every=0.05)
        self.assertIn(b"broker\x07example", query)
        self.assertEqual(agent.stop(), 0)

        agent = self.gateway("/etc/resolv.conf", f"nameserver {self.fleet.address}\n")

        def refuse():
            if received := self.received(server):
                query, client = received
                # The same question, answered: there is no such name.
                server.sendto(query[:2] + b"\x81\x83" + query[4:], client)
            return any(f"the name “{self.HOST}” cannot be looked up" in line for line in agent.lines)

        wait(refuse, 30, lambda: f"the refusal; said was {agent.lines}", also_every=0.05)

    @staticmethod
    def received(server):
        with contextlib.suppress(BlockingIOError):
            return server.recvfrom(512)


class Inventory(FleetTest):
    def test_the_operator_sees_accessories_and_grants_as_they_change(self):
        self.gateway()
        watch = self.fleet.listen("operators", self.topic("reported/#"), self.topic("status"))
        self.set_up()
        watch.wait(lambda: any("/reported/grant/" in topic for topic in watch.retained()), what="the grant")
        grants = self.fleet.json("grants")
        self.assertEqual([(each["gateway"], each["App"], each["State"]) for each in grants], [("gw-1", "com.example.dice", "authorized")])
        accessories = self.fleet.json("accessories")
        self.assertEqual([each["DisplayName"] for each in accessories], ["Pink Dice"])
        gateways = {each["gateway"]: each for each in self.fleet.json("list")}
        self.assertEqual(gateways["gw-1"]["status"]["state"], "online")
        self.assertIsNone(gateways["gw-2"]["status"])
        table = self.fleet.run("list").output.splitlines()
        self.assertEqual(table[2].split(), ["gw-2", "never", "seen", "0", "0"])

    def test_reports_equal_the_daemons_objects(self):
        self.set_up()
        self.gateway()
        watch = self.fleet.listen("operators", self.topic("reported/#"))
        grant = watch.wait(lambda: watch.retained().get(self.topic("reported/grant/1")), what="the grant")
        for key, value in self.world.grants()["/org/accessorysetup1/grant/1"].items():
            if not isinstance(value, list) and key not in ("Ssid", "Descriptor"):
                self.assertEqual(grant[key], value, key)
        self.assertEqual(len(grant["hash"]), 16)

    def test_what_has_gone_while_the_agent_was_away_is_cleared(self):
        self.set_up()
        agent = self.gateway()
        watch = self.fleet.listen("operators", self.topic("reported/#"))
        watch.wait(lambda: self.topic("reported/grant/1") in watch.retained())
        agent.stop(signal.SIGKILL)
        self.world.admin.call("/org/accessorysetup1/grant/1", "org.accessorysetup1.Grant", "Revoke")
        watch.publish(self.topic("reported/grant/99"), b"poison", retain=True)
        before = len(watch.take_in())
        self.gateway()
        watch.wait(lambda: not any("/grant/" in topic or "/accessory/" in topic for topic in watch.retained()), what="the end of the grant")
        # Differences alone: the manager's object has not changed.
        self.assertNotIn(self.topic("reported/manifests"), [each.topic for each in watch.take_in()[before:]])

    def test_a_lost_agent_is_offline_and_one_that_stops_too(self):
        watch = self.fleet.listen("operators", self.topic("status"))
        for number in (signal.SIGKILL, signal.SIGTERM):
            agent = self.gateway()
            watch.wait(lambda: (watch.payloads(self.topic("status")) or [{}])[-1].get("state") == "online")
            agent.stop(number)
            watch.wait(lambda: watch.payloads(self.topic("status"))[-1]["state"] == "offline")

    def test_a_daemon_that_restarts(self):
        self.set_up()
        agent = self.gateway()
        watch = self.fleet.listen("operators", self.topic("reported/#"), self.topic("status"))
        watch.wait(lambda: watch.retained().get(self.topic("status"), {}).get("daemon") == "running")
        self.world.daemon.stop()
        watch.wait(lambda: watch.retained()[self.topic("status")]["daemon"] == "absent")
        # The last known state stays.
        self.assertIn(self.topic("reported/grant/1"), watch.retained())
        self.world.start_daemon()
        watch.wait(lambda: watch.retained()[self.topic("status")]["daemon"] == "running")
        self.assertTrue(agent.running)

    def test_a_broker_that_restarts_without_its_memory(self):
        self.set_up()
        agent = self.gateway()
        self.fleet.broker.stop(signal.SIGKILL)
        for file in (self.fleet.path / "broker/data").iterdir():
            file.unlink()
        self.fleet.start_broker()
        agent.wait_connected(2)
        watch = self.fleet.listen("operators", self.topic("reported/#"))
        watch.wait(lambda: self.topic("reported/grant/1") in watch.retained())


class Documents(FleetTest):
    def policies(self):
        return [str(each["name"]) for each in self.world.admin.get(ADMIN_PATH, ADMIN, "Policy")]

    def start(self, scenario, apps=None):
        super().start(scenario, apps)

    def setUp(self):
        super().setUp()
        # The daemon reads the directories of its gateway's agent.
        self.state = self.fleet.directory / "state-gw-1"
        self.world.daemon.stop()
        self.world.policy_directories = [self.state / "policy.d", self.world.policy]
        self.world.app_directories.insert(0, self.state / "apps")
        self.world.start_daemon()
        self.rules = self.fleet.directory / "rules"
        self.rules.mkdir()

    def report(self, watch, kind="policy"):
        return watch.retained().get(self.topic(f"reported/{kind}"), {})

    def test_a_policy_is_rolled_out_and_enforced(self):
        self.gateway()
        app, _ = self.set_up()
        (self.rules / "10-all.conf").write_text(DENIAL)
        outcome = self.fleet.json("apply", "policy", self.rules, "--gateways", "gw-1")
        self.assertEqual([(each["gateway"], each["outcome"]) for each in outcome], [("gw-1", "applied")])
        wait(lambda: self.policies() == ["everything"], 20, "the daemon to read it", also_every=0.1)
        # Files that are gone are gone.
        (self.rules / "10-all.conf").unlink()
        self.fleet.run("apply", "policy", self.rules, "--document-version", int(time.time()) + 10, "--gateways", "gw-1")
        wait(lambda: self.policies() == [], 20, "the daemon to read it", also_every=0.1)

    def test_manifests_are_rolled_out(self):
        self.gateway()
        (self.rules / "com.example.fleet.conf").write_text(
            "[Application]\nId=com.example.fleet\nName=Fleet\nExecutable=/usr/bin/true\n\n"
            "[AccessorySetup]\nSupports=Bluetooth;\nBluetoothServices=180F;\n")
        self.fleet.run("apply", "manifests", self.rules, "--gateways", "gw-*1")
        watch = self.fleet.listen("operators", self.topic("reported/#"))
        watch.wait(lambda: "com.example.fleet" in str(self.report(watch, "manifests").get("apps")), what="the app")

    def test_gateways_that_are_away_apply_it_when_they_return(self):
        self.gateway()
        (self.rules / "10-all.conf").write_text(DENIAL)
        outcome = self.fleet.run("apply", "policy", self.rules, "--json", check=False)
        self.assertEqual(outcome.returncode, 1)
        self.assertEqual({each["gateway"]: each["outcome"] for each in json.loads(outcome.output)}, {"gw-1": "applied", "gw-2": "not connected"})
        watch = self.fleet.listen("operators", self.topic("reported/#", "gw-2"))
        self.gateway("gw-2")
        watch.wait(lambda: watch.retained().get(self.topic("reported/policy", "gw-2"), {}).get("state") == "applied")

    def test_a_mistake_is_refused_by_the_tool_and_by_the_gateway(self):
        agent = self.gateway()
        (self.rules / "10-all.conf").write_text("[Deny all]\nAp=com.example.dice\n")
        self.assertIn("10-all.conf:2: Ap", self.fleet.run("apply", "policy", self.rules, check=False).problems)
        watch = self.fleet.listen("operators", self.topic("reported/#"))
        watch.publish(self.topic("desired/policy"), self.fleet.document(version=7, files={"10-all.conf": "[Deny all]\nAp=x\n"}), retain=True)
        watch.wait(lambda: self.report(watch).get("state") == "refused")
        self.assertIn("10-all.conf:2: Ap", self.report(watch)["reason"])
        self.assertEqual((self.report(watch)["version"], self.report(watch)["desired"]), (0, 7))
        self.assertEqual(self.policies(), [])
        # The mended one may have the same version.
        watch.publish(self.topic("desired/policy"), self.fleet.document(version=7, files={"10-all.conf": DENIAL}), retain=True)
        watch.wait(lambda: self.report(watch).get("version") == 7)
        self.assertTrue(agent.running)

    def test_documents_that_are_not_for_now_or_not_for_this_gateway_are_refused(self):
        self.gateway()
        watch = self.fleet.listen("operators", self.topic("reported/#"))
        good = {"version": 5, "files": {"a-deny.conf": DENIAL}}
        watch.publish(self.topic("desired/policy"), self.fleet.document(**good), retain=True)
        watch.wait(lambda: self.report(watch).get("version") == 5)
        now = int(time.time())
        head, _, signature = self.fleet.document(**good | {"version": 6}).split(b".")
        other = self.fleet.document(**good | {"version": 6, "files": {}}).split(b".")[1]
        for text, reason in (
            (self.fleet.document(**good | {"version": 4}), "version: 4: 5 is in force"),
            (self.fleet.document(**good | {"files": {}}), "version: 5: in force with other contents"),
            (self.fleet.document(**good | {"version": 6, "gateways": ["gw-2", "@hall"]}), "gateways: gw-2 @hall: not for this gateway"),
            (self.fleet.document(**good | {"version": 6, "fleet": "other"}), "fleet: other: another fleet"),
            (self.fleet.document(**good | {"version": 6, "nbf": now - 100, "exp": now - 1}), "exp: the document has expired"),
            (self.fleet.document(kind="manifests", **good | {"version": 6}), "typ: as1-manifests: must be as1-policy"),
            (b".".join((head, other, signature)), "the signature is not the operator's"),
            (self.fleet.document(**good | {"version": 6, "extra": 1}), "extra: unknown key"),
            (self.fleet.document(**good | {"version": 6})[:-20], "not a signed document"),
            (self.fleet.document(**good | {"version": 6, "files": {"../x.conf": ""}}), "files: ../x.conf: must be"),
            (self.fleet.document(**good | {"version": 6, "files": {"x": ""}}), "files: x: must be"),
            (self.fleet.document(**good | {"version": "6"}), "version: not an integer"),
            (self.fleet.sign("as1-policy", {"version": 9}, algorithm="none"), "alg: must be EdDSA"),
        ):
            before = len(watch.take_in())
            watch.publish(self.topic("desired/policy"), text, retain=True)
            watch.wait(lambda: reason in b"".join(each.payload for each in watch.take_in()[before:]).decode(), what=reason)
            self.assertEqual((self.report(watch)["version"], self.report(watch)["state"]), (5, "refused"))
        self.assertEqual(os.listdir(self.state / "policy.d"), ["a-deny.conf"])

    def test_versions_only_grow_over_restarts_also_when_the_files_are_lost(self):
        agent = self.gateway()
        watch = self.fleet.listen("operators", self.topic("reported/#"))
        watch.publish(self.topic("desired/policy"), self.fleet.document(version=5, files={"a-deny.conf": DENIAL}), retain=True)
        watch.wait(lambda: self.report(watch).get("version") == 5)
        agent.stop(signal.SIGKILL)
        (self.state / "policy.d/a-deny.conf").unlink()
        agent = self.gateway()
        wait(lambda: os.listdir(self.state / "policy.d") == ["a-deny.conf"], 20, "the files", also_every=0.1)
        agent.stop(signal.SIGKILL)
        watch.publish(self.topic("desired/policy"), self.fleet.document(version=4), retain=True)
        self.gateway()
        watch.wait(lambda: self.report(watch).get("desired") == 4 and self.report(watch)["state"] == "refused")


class Commands(FleetTest):
    def setUp(self):
        super().setUp()
        self.app_, self.path = self.set_up()
        self.agent = self.gateway()
        self.operator = self.fleet.listen("operators", self.topic("answer/me"), self.topic("reported/#"))

    def send(self, topic, arguments, text=None, **more):
        self.operator.publish(
            self.topic(f"cmd/{topic}"), text or self.fleet.signed_command(**{"verb": topic} | more, arguments=arguments), response=self.topic("answer/me"), correlation=b"c")

    def answers(self):
        return self.operator.payloads(self.topic("answer/me"))

    def answer(self, count=1):
        self.operator.wait(lambda: len(self.answers()) >= count, what="an answer")
        return self.answers()[count - 1]

    def test_the_operators_commands(self):
        accessory = self.fleet.json("accessories")[0]["id"]
        self.assertEqual(self.fleet.run("disable", "gw-1", 1).output, "gw-1: grant 1 disabled\n")
        self.assertFalse(self.world.grants()["/org/accessorysetup1/grant/1"]["Enabled"])
        self.fleet.run("enable", "gw-1", 1)
        self.assertTrue(self.world.grants()["/org/accessorysetup1/grant/1"]["Enabled"])
        self.fleet.run("rename", "gw-1", accessory, "Gate")
        wait(lambda: self.fleet.json("accessories")[0]["DisplayName"] == "Gate", 20, "the name")
        self.fleet.run("revoke", "gw-1", 1)
        self.assertEqual(self.world.grants(), {})
        failed = self.fleet.run("revoke", "gw-1", 7, check=False)
        self.assertEqual((failed.returncode, failed.problems), (1, "accessoryctl: gw-1 has no grant 7\n"))
        trail = self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", {})
        key = next(line.split()[-1] for line in self.agent.lines if "verb=revoke" in line and "operator=" in line)
        revoked = next(each for each in trail if each["event"] == "revoked")
        self.assertRegex(str(revoked["who"]), r"accessory-fleet, uid 0, pid \d+, for operator [0-9a-f]{8}$")
        self.assertTrue(key)

    def test_an_accessory_is_removed(self):
        self.fleet.run("remove", "gw-1", self.fleet.json("accessories")[0]["id"])
        self.assertNothingLeft()

    def test_a_command_happens_once_however_often_it_comes(self):
        text = self.fleet.signed_command("disable", {"grant": 1})
        self.send("disable", {}, text)
        first = self.answer()
        self.assertEqual(first["outcome"], "done")
        self.enable(True)
        self.send("disable", {}, text)
        self.assertEqual(self.answer(2), first)
        self.agent.stop(signal.SIGKILL)
        self.gateway()
        self.send("disable", {}, text)
        self.assertEqual(self.answer(3), first)
        self.assertTrue(self.world.grants()["/org/accessorysetup1/grant/1"]["Enabled"])

    def test_a_command_that_a_crash_interrupts_is_unknown(self):
        for moment in ("before 1 call org.freedesktop.DBus.Properties.Set", "after 1 call org.freedesktop.DBus.Properties.Set"):
            with self.subTest(moment):
                self.agent.stop()
                count = len(self.answers())
                agent = self.gateway(environment={"ACCESSORY_END": moment})
                text = self.fleet.signed_command("disable", {"grant": 1})
                self.send("disable", {}, text)
                agent.wait_end()
                self.agent = self.gateway()
                # Unasked, and again when it is repeated.
                self.assertEqual(self.answer(count + 1)["outcome"], "unknown")
                self.send("disable", {}, text)
                self.assertEqual(self.answer(count + 2)["outcome"], "unknown")

    def test_commands_that_are_refused(self):
        now = int(time.time())
        for arguments, more, reason in (
            ({"grant": 1}, {"iat": now - 100, "exp": now - 50}, "exp: the command has expired"),
            ({"grant": 1}, {"iat": now + 1000, "exp": now + 1050}, "iat: the command is from the future"),
            ({"grant": 1}, {"exp": now + 3600}, "exp:"),
            ({"grant": 1}, {"fleet": "other"}, "fleet: other"),
            ({"grant": 1}, {"gateways": ["gw-2"]}, "gateways: gw-2"),
            ({"grant": 1}, {"verb": "enable"}, "verb: enable: the topic says disable"),
            ({"grant": 1}, {"id": "short"}, "id: short"),
            ({"grant": "1"}, {}, "grant: not an integer"),
            ({"grant": -1}, {}, "grant: -1"),
            ({"grant": 1, "force": True}, {}, "force: unknown key"),
            ({}, {}, "grant: is missing"),
        ):
            with self.subTest(reason):
                count = len(self.answers())
                self.send("disable", arguments, **more)
                answer = self.answer(count + 1)
                self.assertEqual(answer["outcome"], "refused")
                self.assertIn(reason, answer["reason"])
        for arguments, reason in (
            ({"grant": 9}, "grant: 9: there is no such grant"), ({"grant": 1, "app": "com.example.other"}, "app: com.example.other"),
            ({"grant": 1, "accessory": str(uuid.uuid4())}, "for another accessory"),
        ):
            count = len(self.answers())
            self.send("disable", arguments)
            answer = self.answer(count + 1)
            self.assertEqual(answer["outcome"], "failed")
            self.assertIn(reason, answer["reason"])
        self.assertTrue(self.world.grants()["/org/accessorysetup1/grant/1"]["Enabled"])

    def test_a_command_for_a_gateway_that_is_away_for_a_moment(self):
        self.agent.stop(signal.SIGKILL)
        self.send("disable", {"grant": 1})
        self.gateway()
        self.assertEqual(self.answer()["outcome"], "done")

    def test_without_a_daemon(self):
        self.world.daemon.stop()
        self.operator.subscribe(self.topic("status"))
        self.operator.wait(lambda: self.operator.retained().get(self.topic("status"), {}).get("daemon") == "absent")
        self.send("disable", {"grant": 1})
        answer = self.answer()
        self.assertEqual((answer["outcome"], answer["reason"]), ("failed", "the daemon is not running"))
        self.world.start_daemon()


class Trails(FleetTest):
    def collected(self):
        return self.fleet.collected("gw-1")

    def trail(self):
        return [int(each["id"]) for each in self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", {"limit": dbus.UInt32(10_000)})]

    def assertComplete(self):
        trail = self.trail()
        wait(lambda: [each["id"] for each in self.collected()] == trail, 60,
             lambda: f"the trail {trail}; collected {[each['id'] for each in self.collected()]}", also_every=0.2)

    def test_lines_are_collected_once_and_in_order(self):
        self.set_up()
        self.gateway()
        self.fleet.run("audit", "--quiet", 1)
        self.assertComplete()
        self.enable(False)
        text = self.fleet.run("audit", "--quiet", 1).output
        self.assertEqual(text.count("\n"), 1, text)
        self.assertIn("gw-1  disabled  com.example.dice", text)
        self.assertComplete()

    def test_a_collector_that_follows_survives_broker_and_agent(self):
        self.set_up()
        agent = self.gateway()
        collector = self.fleet.start("audit", "--follow")
        self.addCleanup(collector.stop)
        self.assertComplete()

        def change(truth):
            self.enable(truth)

        change(False)
        self.fleet.broker.stop(signal.SIGKILL)
        change(True)
        self.fleet.start_broker()
        self.assertComplete()
        agent.stop(signal.SIGKILL)
        change(False)
        self.gateway()
        self.assertComplete()
        collector.stop(signal.SIGKILL)
        change(True)
        self.addCleanup(self.fleet.start("audit", "--follow").stop)
        self.assertComplete()

    def test_a_line_that_arrives_with_the_end_of_the_connection(self):
        self.set_up()
        self.gateway()
        collector = self.fleet.start("audit", "--follow")
        self.addCleanup(collector.stop)
        self.assertComplete()
        collector.pause()
        other = self.fleet.listen("operators", self.topic("audit"))
        self.enable(False)
        other.wait(lambda: other.payloads(self.topic("audit")), what="the line")
        self.fleet.broker.stop(signal.SIGKILL)
        # Its confirmation goes to a broker that is no more.
        collector.resume()
        self.assertComplete()
        self.fleet.start_broker()
        self.enable(True)
        self.assertComplete()

    def test_a_collector_ends_with_the_reader_of_its_output(self):
        self.set_up()
        self.gateway()
        collector = subprocess.Popen(self.fleet.command("audit", "--follow"), stdout=subprocess.PIPE, text=True)
        self.assertIn("gw-1", collector.stdout.readline())
        self.assertComplete()
        collector.stdout.close()
        self.enable(False)
        wait(lambda: collector.poll() is not None, 60, "the collector's end", also_every=0.1)
        self.assertEqual(collector.returncode, 0)
        self.assertComplete()

    def test_a_long_trail(self):
        self.world.daemon.stop()
        self.world.fill_trail(2000)
        self.world.start_daemon()
        self.gateway()
        self.addCleanup(self.fleet.start("audit", "--follow").stop)
        self.assertComplete()

    def test_a_new_store_begins_a_new_trail(self):
        self.set_up()
        self.gateway()
        self.addCleanup(self.fleet.start("audit", "--follow").stop)
        self.assertComplete()
        self.world.daemon.stop()
        for file in self.world.state.iterdir():
            file.unlink()
        self.world.start_daemon()
        self.set_up()
        trail = self.trail()
        self.assertTrue(trail)
        wait(lambda: [each["id"] for each in self.collected() if each["trail"] == 2] == trail, 60, "the new trail", also_every=0.2)


class Pickers(FleetTest):
    def test_a_picker_of_the_fleet(self):
        self.gateway()
        picker = self.fleet.start("picker", "--gateways", "gw-1", "--pick", "Pink Dice")
        wait(lambda: self.world.manager("PickerAvailable"), 20, "the agent to register", also_every=0.1)
        app = self.app()
        app.show_picker(item())
        app.wait_event("accessoryAdded")
        app.wait_event("pickerDidDismiss")
        picker.wait_end()
        # The gateway shows no pickers elsewhere after that.
        wait(lambda: not self.world.manager("PickerAvailable"), 20, "the agent to unregister", also_every=0.1)

    def elsewhere(self, strength):
        """Another gateway's world, with the same accessories as this one's."""
        world = World(air(strength), self.apps)
        self.addCleanup(world.close)
        return world

    def two_gateways(self, bonded):
        """Both show their pickers to the operator, and the same app at both asks; the other one hears it better."""
        self.start(air(-70))
        other = self.elsewhere(-50)
        self.gateway()
        self.fleet.agent(other, "gw-2").wait_connected()
        for world in bonded(self.world, other):
            bond(world)
        operator = self.fleet.start("picker")
        apps = []
        for world in (self.world, other):
            wait(lambda: world.manager("PickerAvailable"), 20, "the agent to register", also_every=0.1)
            apps.append(App(world, "dice").begin())
            apps[-1].show_picker(item("Die"))
        return operator, apps

    def numbers(self, operator, name):
        """The numbers under which an offer is shown at gw-1 and gw-2."""
        def shown():
            numbers, gateway = {}, None
            for line in operator.lines:
                if line.startswith("gw-"):
                    gateway = line.split(":")[0]
                    numbers[gateway] = None
                elif line.split()[2:3] == [name] and line.endswith("dBm"):
                    numbers[gateway] = line.split()[0]
            return [numbers.get("gw-1"), numbers.get("gw-2")]
        return wait(lambda: None not in shown() and shown(), 20, lambda: f"{name} at both gateways; said was {operator.lines}", also_every=0.05)

    def test_other_terms_are_another_offer(self):
        """The operator agrees to the access that is shown."""
        def bonded(*both):
            self.world.policy.mkdir()
            (self.world.policy / "read.conf").write_text("[Limit read]\nApp=com.example.dice\nAccess=read\n")
            self.world.restart_daemon()
            return both
        operator, _ = self.two_gateways(bonded)
        here_pink, there_pink = self.numbers(operator, "pink")
        self.assertNotEqual(here_pink, there_pink)

    def test_a_gateway_that_has_gone_is_not_shown(self):
        operator, (here, _) = self.two_gateways(lambda *both: both)
        self.numbers(operator, "pink")
        self.fleet.agents[-1].stop(signal.SIGKILL)
        # The broker publishes its will.
        wait(lambda: "gw-2" not in "".join(self.last(operator)), 20, lambda: self.last(operator), also_every=0.1)
        operator.type(next(line.split()[0] for line in self.last(operator) if " pink " in line))
        here.wait_event("accessoryAdded")

    def last(self, operator):
        """The lines since the first gateway was shown the last time."""
        lines = list(operator.lines)
        begins = [index for index, line in enumerate(lines) if line.startswith("gw-1")]
        return lines[begins[-1]:] if begins else []

    def test_offers_of_two_gateways_are_one_where_both_have_bonds(self):
        operator, (here, there) = self.two_gateways(lambda *both: both)
        here_pink, there_pink = self.numbers(operator, "pink")
        self.assertEqual(here_pink, there_pink)
        here_other, there_other = self.numbers(operator, "other")
        self.assertNotEqual(here_other, there_other, "no bond proves that the other one is the same")
        operator.type(here_pink)
        # The gateway that hears it best sets it up.
        there.wait_event("accessoryAdded")
        self.assertEqual(self.world.grants(), {})
        self.assertNotIn("accessoryAdded", here.event_types)

    def test_a_bond_of_one_gateway_proves_nothing_to_another(self):
        operator, _ = self.two_gateways(lambda here, _: [here])
        here_pink, there_pink = self.numbers(operator, "pink")
        self.assertNotEqual(here_pink, there_pink)
