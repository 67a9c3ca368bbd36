# SPDX-License-Identifier: Apache-2.0
"""A fleet's attackers: a gateway that was taken over, a broker with another owner, and everything in between."""

import contextlib
import json
import socket
import ssl
import struct
import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from harness.fleet import PORT, Fleet
from harness.names import GRANT
from harness.programs import Program
from harness.waiting import wait
from harness.world import APITest


class FleetAttack(APITest):
    def setUp(self):
        super().setUp()
        self.fleet = Fleet("gw-1", "gw-2")
        self.addCleanup(self.fleet.close)
        app, picker = self.app(), self.picker()
        self.add(app, picker, "Dice 4F")
        picker.unregister()

    def gateway(self, name="gw-1", **more):
        agent = self.fleet.agent(self.world, name, **more)
        agent.wait_connected()
        return agent

    def topic(self, end, gateway="gw-1"):
        return self.fleet.topic(gateway, end)

    def enable(self):
        self.world.admin.call("/org/accessorysetup1/grant/1", "org.freedesktop.DBus.Properties", "Set", "ssv", GRANT, "Enabled", True)

    def assertUntouched(self):
        self.assertTrue(self.world.grants()["/org/accessorysetup1/grant/1"]["Enabled"])


class TakenGateway(FleetAttack):
    """The certificate of gw-2 is the attacker's."""

    def test_it_cannot_write_or_read_anothers_topics(self):
        self.gateway()
        operator = self.fleet.listen("operators", self.topic("#"), self.topic("#", "gw-2"))
        thief = self.fleet.listen("gw-2")
        for filter in (self.topic("#"), self.topic("cmd/+"), "as/1/hall/+/reported/#", "#"):
            thief.client.subscribe(filter, qos=1)
            thief.code()
        for end in ("status", "reported/grant/1", "audit", "answer/me", "desired/policy", "cmd/disable", "audit-seen", "secret/1"):
            thief.publish(self.topic(end), b"stolen", retain=True)
        thief.publish(self.topic("status", "gw-2"), b"own", retain=True)
        operator.wait(lambda: any(each.payload == b"own" for each in operator.take_in()))
        self.assertNotIn(b"stolen", [each.payload for each in operator.take_in()])
        self.fleet.run("disable", "gw-1", 1)
        self.assertEqual([each.topic for each in thief.take_in() if "/gw-2/" not in each.topic], [])

    def test_it_cannot_take_anothers_connection(self):
        agent = self.gateway()
        # The name of the connection is the certificate's, whatever is asked for.
        thief = self.fleet.listen("gw-2", client_id="gw-1")
        thief.publish(self.topic("status", "gw-2"), b"own", retain=True)
        thief.code()
        self.fleet.run("disable", "gw-1", 1)
        self.assertEqual(sum("no connection to the broker" in line for line in agent.lines), 0)

    def assertShutOut(self, port, *certificate):
        """The broker ends the connection before it answers. With TLS 1.3 it exists until then."""
        context = ssl.create_default_context(cafile=str(self.fleet.path / "ca.crt"))
        context.check_hostname = False
        if certificate:
            context.load_cert_chain(*certificate)
        with self.assertRaises((ssl.SSLError, ConnectionError)), socket.create_connection((self.fleet.address, port), timeout=60) as raw:
            with context.wrap_socket(raw, server_hostname=self.fleet.address) as connection:
                connection.sendall(b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03abc")
                if connection.recv(1) == b"":
                    raise ConnectionError("closed")

    def test_it_cannot_be_an_operator(self):
        self.assertShutOut(PORT + 1, *self.fleet.certificate("gw-2"))

    def test_without_a_certificate_there_is_no_connection(self):
        for port in (PORT, PORT + 1):
            self.assertShutOut(port)


class BrokersOwner(FleetAttack):
    """The attacker may write and read everything at the broker, and has no operator's key."""

    def setUp(self):
        super().setUp()
        self.agent = self.gateway()
        self.owner = self.fleet.listen("operators", self.topic("#"))

    def send(self, verb, text, **more):
        self.owner.publish(self.topic(f"cmd/{verb}"), text, **{"response": self.topic("answer/x"), "correlation": b"x"} | more)

    def answers(self):
        return self.owner.payloads(self.topic("answer/x"))

    def settle(self):
        """The gateway has taken in all that was sent before."""
        count = len(self.answers())
        self.send("rename", b"the last one")
        self.owner.wait(lambda: len(self.answers()) > count)

    def test_commands_without_the_operators_signature(self):
        stranger = Ed25519PrivateKey.generate()
        for text in (
            b"", b"{}", b"...", b"\xff" * 100, self.fleet.signed_command("disable", {"grant": 1}, key=stranger),
            self.fleet.document(), self.fleet.sign("as1-policy", {"id": "0" * 32}),
        ):
            self.send("disable", text)
        self.settle()
        self.assertEqual({each["outcome"] for each in self.answers()}, {"refused"})
        self.assertUntouched()

    def test_replayed_moved_and_kept_commands(self):
        text = self.fleet.signed_command("disable", {"grant": 1}, gateways=["gw-2"])
        self.send("disable", text)
        # For another verb.
        self.send("enable", self.fleet.signed_command("disable", {"grant": 1}))
        self.settle()
        self.assertUntouched()
        # Once to a gateway that is connected, and again from the broker's memory when it connects the next time.
        self.owner.publish(self.topic("cmd/disable"), self.fleet.signed_command("disable", {"grant": 1}), retain=True)
        self.settle()
        self.enable()
        self.agent.stop()
        self.gateway()
        self.settle()
        self.assertUntouched()
        # Performed once, then replayed by the hundred.
        text = self.fleet.signed_command("disable", {"grant": 1})
        count = len(self.answers())
        self.send("disable", text)
        self.owner.wait(lambda: len(self.answers()) > count)
        self.enable()
        for _ in range(100):
            self.send("disable", text)
        self.settle()
        self.assertUntouched()

    def test_an_answer_goes_nowhere_else(self):
        for response in (self.topic("desired/policy"), self.topic("answer/#"), self.topic("answer/x", "gw-2"), "elsewhere", self.topic("status")):
            with contextlib.suppress(ValueError):
                self.send("disable", self.fleet.signed_command("disable", {"grant": 1}), response=response)
        self.settle()
        self.assertUntouched()
        self.assertEqual([each.topic for each in self.owner.take_in() if b"outcome" in each.payload and "/answer/x" not in each.topic], [])

    def test_documents_with_another_signature_change_nothing(self):
        def report():
            return self.owner.retained().get(self.topic("reported/policy"), {})

        self.owner.publish(self.topic("desired/policy"), self.fleet.document(version=2), retain=True)
        self.owner.wait(lambda: report().get("version") == 2)
        stranger = Ed25519PrivateKey.generate()
        claims = {"fleet": "hall", "version": 9, "nbf": 0, "exp": 1 << 40, "gateways": ["*"], "files": {"a.conf": "[Deny x]\n"}}
        self.owner.publish(self.topic("desired/policy"), self.fleet.sign("as1-policy", claims, key=stranger), retain=True)
        self.owner.wait(lambda: "the signature" in report().get("reason", ""))
        # An emptied topic takes nothing away.
        self.owner.publish(self.topic("desired/policy"), b"", retain=True)
        self.settle()
        self.assertEqual(report()["version"], 2)

    def test_poisoned_reports_are_cleared(self):
        self.agent.stop()
        for number in range(2000):
            self.owner.publish(self.topic(f"reported/grant/{number}"), b'{"App":"com.example.evil"}', retain=True)
        self.gateway()
        self.owner.wait(
            lambda: [each for each in self.owner.retained() if "/reported/grant/" in each] == [self.topic("reported/grant/1")], 60,
            what="the one grant")

    def test_confirmations_of_lines_that_do_not_exist(self):
        for payload in (b"{}", b"x", b'{"trail":1,"id":9007199254740992}', b'{"trail":-5,"id":3}', b'{"trail":1,"id":-1}', b'{"trail":99,"id":5}'):
            self.owner.publish(self.topic("audit-seen"), payload, retain=True)
        self.settle()
        self.fleet.run("audit", "--quiet", 2)
        lines = self.fleet.collected("gw-1")
        trail = [int(each["id"]) for each in self.world.admin.call("/org/accessorysetup1/admin", "org.accessorysetup1.Admin", "GetAudit", "a{sv}", {})]
        self.assertEqual([each["id"] for each in lines if each["trail"] == lines[-1]["trail"]], trail)

    def test_large_messages(self):
        """A broker of the attacker's sends them however the operator has limited its own."""
        self.fleet.broker.stop()
        configuration = self.fleet.directory / "mosquitto.conf"
        configuration.write_text(configuration.read_text().replace("message_size_limit 1048576\n", ""))
        self.fleet.broker = Program("/usr/sbin/mosquitto", "-c", configuration)
        self.fleet.broker.wait_for("running")
        self.agent.wait_connected(2)
        owner = self.fleet.listen("operators", self.topic("#"))
        for end in ("cmd/disable", "desired/policy", "desired/manifests", "audit-seen"):
            owner.publish(self.topic(end), b"x" * (16 << 20))
        owner.publish(self.topic("cmd/disable"), self.fleet.signed_command("disable", {"grant": 1}), response=self.topic("answer/y"))
        owner.wait(lambda: owner.payloads(self.topic("answer/y")), 60)
        self.assertEqual(owner.payloads(self.topic("answer/y"))[-1]["outcome"], "done")
        self.assertTrue(self.agent.running)


class LyingBroker(FleetAttack):
    """A server with the broker's certificate that speaks nonsense."""

    def test_nonsense_ends_a_connection_and_no_agent(self):
        self.fleet.broker.stop()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.fleet.path / "broker/broker.crt", self.fleet.path / "broker/broker.key")
        listening = socket.create_server((self.fleet.address, PORT))
        self.addCleanup(listening.close)
        connack = b"\x20\x03\x00\x00\x00"
        marker = self.topic("reported-marker").encode()
        publish = struct.pack(">H", len(marker)) + marker + b"\x00\x01\x00"
        turns = [
            b"", b"\x00" * 64, b"\xff" * 64, b"\x20\x03\x00\x87\x00", b"\x20\xff\xff\xff\x7f", connack + b"\x30\xff\xff\xff\x7f",
            connack + b"\x32" + bytes([len(publish)]) + publish, connack + b"\x32\x03\xff\xff\x00", connack + b"\x40\x02\x00\x63",
            connack + b"\x90\x05\x00\x01\x00\x80\x80", connack + connack, connack + b"\xe0\x00", connack + b"\xf0\x00", connack + b"\x62\x02\x00\x01",
            connack + b"\x30\x08\x00\x04" + b"\x00\xff\xfe/" + b"\x00", connack + b"\x30\x07\x00\x01#\x00abc",
        ]
        served = []

        def serve():
            for turn in turns:
                with contextlib.suppress(OSError):
                    raw, _ = listening.accept()
                    raw.settimeout(5)
                    with context.wrap_socket(raw, server_side=True) as connection:
                        connection.recv(4096)
                        connection.sendall(turn)
                        with contextlib.suppress(OSError):
                            connection.settimeout(1)
                            connection.recv(4096)
                served.append(turn)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        # A fresh agent for each turn: one that is refused waits longer each time.
        for number in range(len(turns)):
            agent = self.fleet.agent(self.world, "gw-1")
            wait(lambda: len(served) > number, 60, f"turn {number}", also_every=0.05)
            self.assertTrue(agent.running, turns[number])
            agent.stop()
        thread.join()
        self.assertUntouched()
