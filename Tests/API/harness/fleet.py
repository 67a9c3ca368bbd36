# SPDX-License-Identifier: Apache-2.0
"""A fleet: a real broker, the operator's directory made by accessoryctl, agents, and MQTT clients that share no code with either."""

import base64
import itertools
import json
import os
import queue
import shutil
import ssl
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import paho.mqtt.client as mqtt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from paho.mqtt.packettypes import PacketTypes

from harness.clients import Client
from harness.programs import BIN, Program
from harness.radio import accessory, scenario
from harness.waiting import wait

PORT = 8883
_numbers = itertools.count(1)


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def air(strength):
    """Two accessories, of which a gateway hears the first this well."""
    return scenario(accessory("pink", 1, rssi=strength), accessory("other", 2, rssi=-60))


def bond(world):
    """Pairs the first accessory of `air`, as another program does."""
    adapter, device = "/org/bluez/hci0", "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"
    call = lambda path, interface, member: world.admin.call(path, f"org.bluez.{interface}", member, to="org.bluez")
    call(adapter, "Adapter1", "StartDiscovery")
    world.pass_until(lambda: "C0:FF:EE:00:02:01" in world.simulator.devices(), 10, "the accessory to be heard")
    call(device, "Device1", "Pair")
    call(adapter, "Adapter1", "StopDiscovery")
    # A connected accessory does not advertise.
    call(device, "Device1", "Disconnect")


class Agent(Program):
    """accessory-fleet of a gateway, on a world's bus."""

    def __init__(self, fleet, world, gateway, state=None, environment={}, before=()):
        """`before` goes before the command, and ends with executing it."""
        self.gateway = gateway
        self.state = state or fleet.directory / f"state-{gateway}"
        self.state.mkdir(exist_ok=True)
        super().__init__(
            *before, BIN / "accessory-fleet", "--bus", world.bus.address, "--config", fleet.gateway(gateway) / "fleet.conf",
            "--state-directory", self.state, "--log-level", "debug", environment=environment)

    def wait_connected(self, times=1):
        wait(
            lambda: sum("connected to the broker" in line and "no conn" not in line for line in self.lines) >= times, 60,
            lambda: f"a connection; said was {self.lines[-10:]}")


class Listener:
    """A client of the broker that keeps all it receives, in order."""

    def __init__(self, fleet, user, client_id=None, port=None, will=None):
        self.fleet = fleet
        self.queue = queue.Queue()
        self.messages = []
        self.codes = queue.Queue()
        self.client = mqtt.Client(client_id or f"test-{uuid.uuid4().hex[:8]}", protocol=mqtt.MQTTv5)
        certificate, key = fleet.certificate(user)
        self.client.tls_set(str(fleet.path / "ca.crt"), str(certificate), str(key), cert_reqs=ssl.CERT_REQUIRED)
        self.client.on_message = lambda _client, _data, message: self.queue.put(message)
        self.client.on_connect = lambda _client, _data, _flags, code, _properties=None: self.codes.put(code)
        self.client.on_subscribe = lambda _client, _data, _mid, codes, _properties=None: self.codes.put(codes[0])
        self.client.on_publish = lambda _client, _data, mid: self.codes.put(mid)
        self.client.connect(fleet.address, port or (PORT + 1 if user == "operators" else PORT))
        self.client.loop_start()
        self.code()

    def code(self):
        return self.codes.get(timeout=60)

    def subscribe(self, *filters):
        for each in filters:
            self.client.subscribe(each, qos=1)
            self.code()
        return self

    def publish(self, topic, payload=b"", retain=False, response=None, correlation=None, expiry=None):
        properties = mqtt.Properties(PacketTypes.PUBLISH)
        if response:
            properties.ResponseTopic = response
        if correlation:
            properties.CorrelationData = correlation
        if expiry:
            properties.MessageExpiryInterval = expiry
        self.client.publish(topic, payload, qos=1, retain=retain, properties=properties)

    def take_in(self):
        Client.take_in()
        while not self.queue.empty():
            self.messages.append(self.queue.get())
        return self.messages

    def payloads(self, topic):
        """All payloads of a topic so far, read."""
        return [json.loads(each.payload) if each.payload else None for each in self.take_in() if each.topic == topic]

    def retained(self):
        """The last payload of each topic with one, without the topics that operators write."""
        last = {each.topic: each.payload for each in self.take_in() if each.topic.split("/")[4] in ("status", "reported")}
        return {topic: json.loads(payload) for topic, payload in last.items() if payload}

    def wait(self, condition, seconds=30, what="a message"):
        return wait(condition, seconds, lambda: f"{what}; came {[(each.topic, each.payload[:200]) for each in self.take_in()[-5:]]}", also_every=0.05)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class Fleet:
    """The operator's directory, a broker, and a signer that knows the formats from the documents alone."""

    def __init__(self, *gateways, name="hall", host=None):
        """`host` is the broker's name for the gateways; without one they have its address."""
        process = os.getpid()
        self.name = name
        self.address = f"127.{1 + process // 256 % 250}.{process % 256}.{100 + next(_numbers) % 150}"
        self.directory = Path(tempfile.mkdtemp(prefix="accessory-fleet-"))
        self.directory.chmod(0o755)
        self.path = self.directory / "fleet"
        self.listeners = []
        self.agents = []
        self.broker = None
        try:
            self.run("init", name, "--broker", f"mqtts://{host or self.address}")
            for gateway in gateways:
                self.add(gateway)
            self.start_broker()
        except BaseException:
            self.close()
            raise

    # The operator's tool.

    def command(self, *arguments):
        return [str(each) for each in (BIN / "accessoryctl", "fleet", arguments[0], "--fleet", self.path, *arguments[1:])]

    def run(self, *arguments, check=True):
        """One of the operator's commands to its end, while all programs' output is read."""
        process = subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        wait(lambda: process.poll() is not None, 120, f"the end of {arguments}", also_every=0.02)
        process.output, process.problems = process.communicate()
        if check and process.returncode != 0:
            raise AssertionError(f"{arguments}: {process.returncode}: {process.output}{process.problems}")
        return process

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "--json").output)

    def start(self, *arguments):
        return Program(*self.command(*arguments), stdin=subprocess.PIPE)

    def add(self, gateway, *labels):
        self.run("add", gateway, "--directory", self.gateway(gateway), *itertools.chain(*(("--label", label) for label in labels)))

    def gateway(self, gateway):
        return self.path / "gateways" / gateway

    def certificate(self, user):
        if user == "operators":
            return self.path / "operator-tls.crt", self.path / "operator-tls.key"
        return self.gateway(user) / "fleet-tls.crt", self.gateway(user) / "fleet-tls.key"

    # The broker.

    def start_broker(self):
        text = (self.path / "broker/mosquitto.conf").read_text()
        for port in (PORT, PORT + 1):
            text = text.replace(f"listener {port}\n", f"listener {port} {self.address}\n")
        configuration = self.directory / "mosquitto.conf"
        configuration.write_text(text + ("user root\n" if os.geteuid() == 0 else ""))
        self.broker = Program("/usr/sbin/mosquitto", "-c", configuration)
        self.broker.wait_for("running")

    def restart_broker(self, *signals):
        self.broker.stop(*signals)
        self.start_broker()

    def collected(self, gateway):
        """The lines of a gateway's trail at the operator."""
        file = self.path / f"audit/{gateway}.jsonl"
        # The last line may be on its way to the file.
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def listen(self, user="operators", *filters, **more):
        listener = Listener(self, user, **more)
        self.listeners.append(listener)
        return listener.subscribe(*filters)

    def agent(self, world, gateway, **more):
        agent = Agent(self, world, gateway, **more)
        self.agents.append(agent)
        return agent

    def topic(self, gateway, end):
        return f"as/1/{self.name}/{gateway}/{end}"

    # Documents.

    @property
    def key(self):
        return Ed25519PrivateKey.from_private_bytes(base64.b64decode((self.path / "operator.key").read_text()))

    def sign(self, kind, claims, key=None, algorithm="EdDSA"):
        signed = b".".join(base64url(json.dumps(each).encode()) for each in ({"alg": algorithm, "typ": kind}, claims))
        return signed + b"." + base64url((key or self.key).sign(signed))

    def document(self, kind="policy", version=1, files={}, **changes):
        now = int(time.time())
        claims = {"fleet": self.name, "version": version, "nbf": now - 10, "exp": now + 3600, "gateways": ["*"], "files": files} | changes
        return self.sign(f"as1-{kind}", claims)

    def signed_command(self, verb, arguments, id=None, key=None, **changes):
        now = int(time.time())
        claims = {
            "id": id or uuid.uuid4().hex, "fleet": self.name, "gateways": ["*"], "verb": verb, "args": arguments, "iat": now, "exp": now + 60}
        return self.sign("as1-command", claims | changes, key)

    def close(self):
        for listener in self.listeners:
            listener.close()
        for program in (*self.agents, self.broker):
            if program is not None:
                program.stop(9)
        shutil.rmtree(self.directory)
