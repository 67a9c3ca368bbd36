"""A world for each test: a private bus, simulated radios, the real daemon, and clients of it that know no more than the session API
says. Nothing here sleeps: all waiting is for messages and output, in GLib's main loop, with a deadline."""

import atexit
import contextlib
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections import namedtuple
from pathlib import Path

import dbus
import dbus.lowlevel
import dbus.mainloop.glib
import dbus.service
from gi.repository import GLib

TESTS = Path(__file__).resolve().parent.parent
sys.path.append(str(TESTS / "Support"))
from patience import PatientBus

# How much longer anything may take than is said where it is waited for, because the machine may stand still meanwhile. It multiplies limits
# that only end what hangs, and nothing is timed by it.
STANDSTILL = 4
BIN = Path(os.environ.get("BIN") or TESTS.parent / ".build/debug").resolve()

NAME = "org.accessorysetup1"
ROOT = "/org/accessorysetup1"
MANAGER, SESSION, ACCESSORY, NETWORK, PICKER, GRANT = (
    f"{NAME}.{each}" for each in ("Manager", "Session", "Accessory", "Network", "Picker", "Grant"))
PROPERTIES = "org.freedesktop.DBus.Properties"
OBJECT_MANAGER = "org.freedesktop.DBus.ObjectManager"
BUS_ERROR = "org.freedesktop.DBus.Error."
UNKNOWN_OBJECT = BUS_ERROR + "UnknownObject"
INVALID_ARGS = BUS_ERROR + "InvalidArgs"

PINK = "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
BLUE = "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)

# Not root; a bus lets in only users that exist.
SOMEBODY = pwd.getpwnam("nobody").pw_uid
SOMEBODY_ELSE = pwd.getpwnam("daemon").pw_uid


def error(name):
    """The bus name of an error of the session API."""
    return f"{NAME}.Error.{name}"


def setUpModule():
    """Imported by every test file: unittest calls it first."""
    if os.geteuid() != 0:
        raise RuntimeError("Tests/API must run as root: it plays apps of several users")
    missing = [each for each in ("accessorysetupd", "accessory-sim") if not (BIN / each).exists()]
    if missing:
        raise RuntimeError(f"{', '.join(missing)} not in {BIN}: build first, or set BIN")
    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)


# Waiting

def wait(happens, seconds=10, what="it", also_every=None):
    """Runs the main loop until `happens()` is true, and returns what it returned. Asked after everything that arrives, and, for
    what announces itself to nobody, every so many seconds. It must happen: what does not would take STANDSTILL times as long."""
    seconds *= STANDSTILL
    deadline = time.monotonic() + seconds
    context = GLib.MainContext.default()
    while not (result := happens()):
        left = deadline - time.monotonic()
        if left <= 0:
            raise AssertionError(f"waited {seconds:g} s for {what() if callable(what) else what}")
        alarm = GLib.timeout_source_new(int(1000 * min(left, also_every or left)) + 1)
        alarm.set_callback(lambda *_: False)
        alarm.attach(context)
        context.iteration(True)
        alarm.destroy()
    return result


def happens_within(seconds, happens, also_every=None):
    """Whether it happens so soon, where either is right: STANDSTILL has no part in it."""
    try:
        wait(happens, seconds / STANDSTILL, also_every=also_every)
        return True
    except AssertionError:
        return False


# Programs

class Program:
    """A process under test; its output can be waited for."""

    def __init__(self, *command, environment={}, stdin=subprocess.DEVNULL):
        self.command = [str(each) for each in command]
        self.lines = []
        self._rest = b""
        self._process = subprocess.Popen(
            self.command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | environment)
        os.set_blocking(self._process.stdout.fileno(), False)
        self._watch = GLib.io_add_watch(
            self._process.stdout, GLib.PRIORITY_DEFAULT, GLib.IOCondition.IN | GLib.IOCondition.HUP, self._read)

    def _read(self, stream, _condition):
        data = os.read(stream.fileno(), 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.lines += [line.decode(errors="replace") for line in lines]
        if not data:
            self._watch = None
        return bool(data)

    @property
    def running(self):
        return self._process.poll() is None

    def wait_end(self, seconds=40):
        """Its exit status, with all of its output read."""
        wait(lambda: not self.running and self._watch is None, seconds, lambda: f"{self.command[0]} to end; said was {self.lines[-5:]}",
             also_every=0.1)
        return self._process.returncode

    def wait_for(self, pattern, seconds=20):
        """The first line that matches, once there is one."""
        def look():
            found = next((line for line in self.lines if re.search(pattern, line)), None)
            if not found and self._watch is None:
                raise AssertionError(f"ended without “{pattern}”:\n" + "\n".join(self.lines[-20:]))
            return found

        return wait(look, seconds, lambda: f"“{pattern}”, said was:\n" + "\n".join(self.lines[-20:]))

    def pause(self):
        """It stands still until it is resumed or killed."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def stop(self, number=signal.SIGTERM, seconds=10):
        """Ends it and returns its exit status."""
        if self.running:
            self._process.send_signal(number)
        try:
            status = self._process.wait(STANDSTILL * seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self._process.args[0]} did not end in {STANDSTILL * seconds} s") from None
        finally:
            if self._watch is not None:
                GLib.source_remove(self._watch)
                with contextlib.suppress(BlockingIOError):  # somebody it started may still hold the other end
                    while self._read(self._process.stdout, None):
                        pass
                self._watch = None
            self._process.stdout.close()
        return status


class Bus(Program):
    """A dbus-daemon of the test's own."""

    def __init__(self):
        super().__init__(
            "dbus-daemon", f"--config-file={TESTS / 'Support/private-bus.conf'}", "--nofork", "--print-address=1")
        self.address = self.wait_for("^unix:")

    @property
    def socket(self):
        return re.search("path=([^,]+)", self.address)[1]


class Simulator(Program):
    """accessory-sim; `scenario` is a file of Tests/Scenarios or the scenario itself."""

    def __init__(self, world, scenario):
        if isinstance(scenario, dict):
            path = world.directory / "scenario.json"
            path.write_text(json.dumps(scenario))
        else:
            path = TESTS / "Scenarios" / scenario
        super().__init__(BIN / "accessory-sim", "--bus", world.bus.address, "--input-directory", world.inputs, path)
        self.wait_for("^ready")
        self._client = Client(world)

    def _call(self, member, signature="", *arguments):
        return self._client.call(
            "/org/accessorysetup/simulator", "org.accessorysetup.Simulator1", member, signature, *arguments,
            to="org.accessorysetup.Simulator1")

    def do(self, action, target=""):
        self._call("Do", "ss", action, target)

    @property
    def bonds(self):
        return sorted(str(each) for each in self._call("Bonds"))

    @property
    def discovering(self):
        adapter = self._client.call("/org/bluez/hci0", PROPERTIES, "Get", "ss", "org.bluez.Adapter1", "Discovering", to="org.bluez")
        return bool(adapter)

    @property
    def bluetooth(self):
        """What Manager.Bluetooth is to say."""
        try:
            objects = self._client.call("/", OBJECT_MANAGER, "GetManagedObjects", to="org.bluez").values()
        except dbus.DBusException:
            return "absent"
        powered = [bool(each["org.bluez.Adapter1"]["Powered"]) for each in objects if "org.bluez.Adapter1" in each]
        return "ready" if any(powered) else "off" if powered else "absent"

    @property
    def scans(self):
        """Wi-Fi scans that ran since the start, whoever asked."""
        return int(self._call("Scans"))

    @property
    def joined(self):
        """What each interface is connected to."""
        return {str(name): str(ssid) for name, ssid in self._call("Joined").items()}

    def wait_joined(self, network, interface="wlan0", seconds=20):
        wait(lambda: self.joined.get(interface) == network, seconds, lambda: f"{interface} on {network}; it is {self.joined}", also_every=0.05)

    @property
    def known_networks(self):
        """The profiles that the Wi-Fi services hold."""
        return sorted(str(each) for each in self._call("KnownNetworks"))

    @property
    def secrets(self):
        """How many profiles besides the uplinks hold a passphrase."""
        return int(self._call("Secrets"))

    @property
    def connections(self):
        return sorted(str(each) for each in self._call("Connections"))

    def devices(self):
        """The addresses that org.bluez knows → whether they are paired."""
        objects = self._client.call("/", OBJECT_MANAGER, "GetManagedObjects", to="org.bluez").values()
        devices = [each["org.bluez.Device1"] for each in objects if "org.bluez.Device1" in each]
        return {str(each["Address"]): bool(each["Paired"]) for each in devices}


class Daemon(Program):
    """accessorysetupd; started again, it finds store and manifests as they were left."""

    def __init__(self, world):
        arguments = []
        for directory in world.app_directories:
            arguments += ["--apps", directory]
        if world.config.exists():
            arguments += ["--config", world.config]
        super().__init__(
            BIN / "accessorysetupd", "--bus", world.bus.address, "--state-directory", world.state, "--view", world.view,
            "--policy", world.policy, "--input-directory", world.inputs, "--route-directory", world.routes, "--log-level", "debug",
            *arguments)
        wait(lambda: world.admin.has_owner(NAME) or not self.running, 20, "the daemon's name", also_every=0.02)
        if not self.running:
            raise AssertionError("the daemon has ended:\n" + "\n".join(self.lines[-20:]))


# Clients

class Identity:
    """A process that a client can be seen as: an executable of its own, run by a user."""

    _directory = None

    def __init__(self, app, uid=SOMEBODY):
        if Identity._directory is None:
            Identity._directory = Path(tempfile.mkdtemp(prefix="accessory-api-"))
            Identity._directory.chmod(0o755)
            atexit.register(shutil.rmtree, Identity._directory)
        self.uid = uid
        self.executable = Identity._directory / app
        if not self.executable.exists():
            shutil.copyfile(os.path.realpath(sys.executable), self.executable)
            self.executable.chmod(0o755)

    def start_relay(self, target, socket_path):
        """Starts the process; a client that connects to `socket_path` is on the bus in its name."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(socket_path))
        listening.listen()
        user = {} if self.uid == 0 else {"user": self.uid, "group": self.uid, "extra_groups": []}
        with listening:
            return subprocess.Popen(
                [self.executable, "-I", "-S", "-c", (Path(__file__).parent / "relay.py").read_text(),
                 str(listening.fileno()), target],
                stdin=subprocess.DEVNULL, pass_fds=[listening.fileno()], cwd="/", **user)


Signal = namedtuple("Signal", "path interface member arguments")


class BusOfTheTest(PatientBus):
    times = STANDSTILL


class Client:
    """A connection to the bus, as this process (root: an admin) or in another identity, and all signals that reach it."""

    _made = 0

    def __init__(self, world, identity=None, socket=None):
        self.signals = []
        self._relay = None
        address = f"unix:path={socket}" if socket else world.bus.address
        if identity is not None:
            Client._made += 1
            path = world.directory / f"relay-{Client._made}"
            self._relay = identity.start_relay(socket or world.bus.socket, path)
            address = f"unix:path={path}"
        self._connection = BusOfTheTest(address)
        self._connection.set_exit_on_disconnect(False)
        self._connection.add_message_filter(self._filter)
        world.clients.append(self)

    def _filter(self, _connection, message):
        if isinstance(message, dbus.lowlevel.SignalMessage) and message.get_sender() not in (None, "org.freedesktop.DBus"):
            self.received(Signal(
                str(message.get_path()), str(message.get_interface()), str(message.get_member()), message.get_args_list()))
        return dbus.lowlevel.HANDLER_RESULT_NOT_YET_HANDLED

    def received(self, signal):
        self.signals.append(signal)

    @property
    def name(self):
        return self._connection.get_unique_name()

    @property
    def pid(self):
        return self._relay.pid if self._relay else os.getpid()

    def call(self, path, interface, member, signature="", *arguments, to=NAME, seconds=20):
        return self._connection.call_blocking(to, path, interface, member, signature, arguments, timeout=seconds)

    def call_later(self, path, interface, member, then, signature="", *arguments, to=NAME):
        """Calls without waiting; `then` gets the result or the exception."""
        self._connection.call_async(to, path, interface, member, signature, arguments, then, then, timeout=20)

    @property
    def connection(self):
        return self._connection

    def has_owner(self, name):
        return self._connection.name_has_owner(name)

    def get(self, path, interface, name):
        return self.call(path, PROPERTIES, "Get", "ss", interface, name)

    def get_all(self, path, interface):
        return self.call(path, PROPERTIES, "GetAll", "s", interface)

    def objects(self):
        """What ObjectManager shows: path → interfaces."""
        objects = self.call(ROOT, OBJECT_MANAGER, "GetManagedObjects")
        return {str(path): {str(name): values for name, values in interfaces.items()} for path, interfaces in objects.items()}

    def paths(self, kind):
        return sorted(path for path in self.objects() if path.startswith(f"{ROOT}/{kind}/"))

    def introspect(self, path):
        return str(self.call(path, "org.freedesktop.DBus.Introspectable", "Introspect"))

    def settle(self):
        """Until all that the daemon has sent to this connection up to now has arrived."""
        self.call(ROOT, "org.freedesktop.DBus.Peer", "Ping")
        self.take_in()

    def drain(self):
        """Until all that the bus has for this connection has arrived; the daemon hears nothing of it."""
        self.call("/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId", to="org.freedesktop.DBus")
        self.take_in()

    @staticmethod
    def take_in():
        while GLib.MainContext.default().iteration(False):
            pass

    def listen_to_everything(self):
        self._connection.add_match_string("type='signal'")

    def become_another_program(self):
        """The process executes something else, with the connection that it has."""
        old = os.readlink(f"/proc/{self.pid}/exe")
        self._relay.send_signal(signal.SIGUSR1)
        wait(lambda: os.readlink(f"/proc/{self.pid}/exe") != old, what="the other program", also_every=0.02)

    def kill(self):
        """The process ends, and nobody has read what it said last."""
        self._relay.kill()
        self._relay.wait()

    def close(self):
        """The connection ends, as if the program had been killed."""
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()
            self._relay = None
        self._connection.close()


class App(Client):
    """An app: an executable and a manifest that names it, and one session."""

    def __init__(self, world, app="dice", uid=SOMEBODY):
        super().__init__(world, Identity(app, uid))
        self.session = None

    def create_session(self):
        return str(self.call(ROOT, MANAGER, "CreateSession", "a{sv}", sv({})))

    def begin(self):
        """Creates a session and activates it."""
        self.session = self.create_session()
        self.request("Activate")
        self.wait_event("activated")
        return self

    def request(self, member, signature="", *arguments):
        return self.call(self.session, SESSION, member, signature, *arguments)

    def show_picker(self, *items, **settings):
        return str(self.request("ShowPicker", "aa{sv}a{sv}", dbus.Array([sv(each) for each in items], "a{sv}"), sv(settings)))

    def remove(self, accessory):
        self.request("RemoveAccessory", "o", dbus.ObjectPath(accessory))

    @property
    def events(self):
        return [(str(each.arguments[0]), each.arguments[1]) for each in self.signals
                if each.member == "Event" and each.interface == SESSION and each.path == self.session]

    @property
    def event_types(self):
        """What has arrived so far; more may be on its way: to compare with what must have come, use `told`."""
        return [kind for kind, _ in self.events]

    def told(self):
        """The types of all events that the daemon has sent up to now."""
        self.settle()
        return self.event_types

    def wait_event(self, kind, seconds=10, count=1):
        """The details of the `count`th event of a type."""
        def look():
            found = [details for each, details in self.events if each == kind]
            return found[count - 1] if len(found) >= count else None

        # An empty dictionary is an answer too.
        return wait(lambda: (found := look()) is not None and [found], seconds, lambda: f"{kind}; came {self.event_types}")[0]

    @property
    def state(self):
        return str(self.get(self.session, SESSION, "State"))

    @property
    def accessories(self):
        return [str(each) for each in self.get(self.session, SESSION, "Accessories")]


class PickerProgram(Client):
    """A picker program: follows the picker objects that it is shown."""

    def __init__(self, world, identity=None):
        self.path = None
        self.state = {}
        self.stages = []
        super().__init__(world, identity)

    def register(self):
        self.call(ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({}))
        return self

    def unregister(self):
        self.call(ROOT, MANAGER, "UnregisterPicker")

    def received(self, signal):
        super().received(signal)
        if signal.member == "InterfacesAdded" and PICKER in signal.arguments[1]:
            self.path = str(signal.arguments[0])
            self.state, self.stages = {}, []
            self._take(signal.arguments[1][PICKER])
        elif signal.member == "PropertiesChanged" and signal.path == self.path and signal.arguments[0] == PICKER:
            self._take(signal.arguments[1])
        elif signal.member == "InterfacesRemoved" and signal.arguments[0] == self.path:
            self.path = None

    def _take(self, properties):
        self.state |= {str(key): value for key, value in properties.items()}
        stage = str(self.state["Stage"])
        if stage not in self.stages[-1:]:
            self.stages.append(stage)

    def wait_stage(self, stage, seconds=10):
        wait(lambda: self.state.get("Stage") == stage and self.path, seconds,
             lambda: f"stage {stage}; the picker is {self.path}, stages were {self.stages}")

    def wait_shown(self):
        wait(lambda: self.path, 5, "a picker")

    def wait_gone(self, seconds=10):
        wait(lambda: self.path is None, seconds, "the picker to go")

    @property
    def offers(self):
        return list(self.state.get("Offers", []))

    def wait_offer(self, name, seconds=10):
        """The offer of an accessory that advertises this name."""
        return wait(
            lambda: next((each for each in self.offers if each["advertisedName"] == name), None), seconds,
            lambda: f"{name} to be offered; offered are {[str(each['advertisedName']) for each in self.offers]}")

    def wait_prompt(self, kind, seconds=10):
        return wait(
            lambda: self.state.get("Prompt", {}).get("kind") == kind and self.state["Prompt"], seconds,
            lambda: f"the prompt {kind}; it is {self.state.get('Prompt')}")

    def ask(self, member, signature="", *arguments):
        self.wait_shown()
        return self.call(self.path, PICKER, member, signature, *arguments)

    def pick(self, name):
        self.ask("Pick", "s", self.wait_offer(name)["id"])

    def respond(self, **answer):
        self.ask("Respond", "a{sv}", sv(answer))

    def cancel(self):
        self.ask("Cancel")


# Another program

class Paired:
    """Another program that pairs a device, with an agent of its own, and lets the link go."""

    def __init__(self, world, device):
        self.client = Client(world)
        self.agent = Agent(self.client)
        self.bluez("/org/bluez", "AgentManager1", "RegisterAgent", "os", "/agent", "KeyboardDisplay")
        self.bluez("/org/bluez/hci0", "Adapter1", "StartDiscovery")
        wait(lambda: world.simulator.devices(), 10, "the device", also_every=0.05)
        done = []
        self.client.call_later(device, "org.bluez.Device1", "Pair", lambda *result: done.append(result), to="org.bluez")
        wait(lambda: done, 10, "the pairing")
        assert done == [()], done
        self.bluez("/org/bluez/hci0", "Adapter1", "StopDiscovery")
        self.bluez(device, "Device1", "Disconnect")

    def bluez(self, path, interface, member, signature="", *arguments):
        self.client.call(path, f"org.bluez.{interface}", member, signature, *arguments, to="org.bluez")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.agent.remove_from_connection()


class Agent(dbus.service.Object):
    def __init__(self, client):
        super().__init__(client.connection, "/agent")

    @dbus.service.method("org.bluez.Agent1", in_signature="ou")
    def RequestConfirmation(self, _device, _passkey):
        pass


# Values

def sv(value):
    """A dictionary as a{sv}: text, numbers, bytes and lists of text get the types that the API names; dbus types stay."""
    return dbus.Dictionary({key: _typed(each) for key, each in value.items()}, signature="sv")


def _typed(value):
    if type(value) is dict:
        return sv(value)
    if type(value) is bytes:
        return dbus.ByteArray(value)
    if type(value) is list:
        return dbus.Array(value, signature="s")
    return value


def item(name="Pink Dice", service=PINK, pairs=True, **more):
    """A display item; what is more goes into the descriptor, except for the item's own keys."""
    own = {key: more.pop(key) for key in ("productImage", "setupOptions", "renameOptions") if key in more}
    descriptor = {"bluetoothServiceUUID": service} if service else {}
    if pairs:
        descriptor["supportedOptions"] = ["bluetoothPairingLE"]
    return {"name": name, "descriptor": {**descriptor, **more}, **own}


def accessory(identifier, number=1, service=PINK, pairing=None, rssi=-50, advert=None, **more):
    """An accessory of a scenario that advertises its identifier as its name."""
    advert = advert or {"serviceUUIDs": [service], "name": identifier}
    return {"id": identifier, "address": f"C0:FF:EE:00:02:{number:02X}", "adverts": [{"interval": 0.05, "rssi": rssi, **advert}],
            "pairing": pairing or {}, **more}


def scenario(*accessories, **more):
    return {"accessories": list(accessories), **more}


# The world

class World:
    def __init__(self, scenario, apps, manifest={}):
        self.clients = []
        self.directory = Path(tempfile.mkdtemp(prefix="accessory-api-"))
        self.directory.chmod(0o755)
        self.state = self.directory / "state"
        self.inputs = self.directory / "inputs"
        self.view = self.directory / "view"
        self.config = self.directory / "accessorysetupd.conf"
        self.policy = self.directory / "policy.d"
        # Without a file there is no default route.
        self.routes = self.directory / "routes"
        self.routes.mkdir()
        self.app_directories = [self.directory / "apps"]
        self.app_directories[0].mkdir()
        self.daemon = self.simulator = self.bus = None
        for app in apps:
            self.declare(app, **manifest)
        try:
            self.bus = Bus()
            self.simulator = Simulator(self, scenario)
            self.admin = Client(self)
            self.start_daemon()
        except BaseException:
            self.close()
            raise

    def declare(self, app, directory=None, **keys):
        """Writes a manifest for the app, com.example.<app>; keys replace or add to those of a good one."""
        application = {"Id": f"com.example.{app}", "Name": app.capitalize(), "Executable": Identity(app).executable}
        setup = {"Supports": "Bluetooth;", "BluetoothServices": f"{PINK};{BLUE};"}
        for key, value in keys.items():
            (application if key in ("Id", "Name", "Executable", "User", "Unit", "Flatpak", "Snap", "SecurityLabel") else setup)[key] = value
        lines = ["[Application]", *(f"{key}={value}" for key, value in application.items() if value is not None)]
        lines += ["", "[AccessorySetup]", *(f"{key}={value}" for key, value in setup.items() if value is not None), ""]
        path = (directory or self.app_directories[0]) / f"com.example.{app}.conf"
        # Renamed into place, as package managers do: nobody reads half a file.
        draft = path.with_suffix(".new")
        draft.write_text("\n".join(lines))
        draft.rename(path)
        return path

    def start_daemon(self):
        """Starts it and waits until it knows the radio."""
        self.daemon = Daemon(self)
        self.wait_bluetooth(self.simulator.bluetooth)

    def restart_daemon(self, number=signal.SIGTERM):
        self.daemon.stop(number)
        self.start_daemon()

    def manager(self, name):
        return self.admin.get(ROOT, MANAGER, name)

    def wait_bluetooth(self, state, seconds=10):
        wait(lambda: self.manager("Bluetooth") == state, seconds, f"Bluetooth to be {state}", also_every=0.1)

    def wait_wifi(self, state, seconds=10):
        wait(lambda: self.manager("WiFi") == state, seconds, f"Wi-Fi to be {state}", also_every=0.1)

    def grants(self):
        """All grants, as the admin sees them: path → properties."""
        return {path: each[GRANT] for path, each in self.admin.objects().items() if GRANT in each}

    def close(self):
        for client in self.clients:
            client.close()
        for program in (self.daemon, self.simulator, self.bus):
            if program is not None:
                program.stop(signal.SIGKILL)
        # The loop must not keep what belongs to the last test.
        Client.take_in()
        shutil.rmtree(self.directory)


class APITest(unittest.TestCase):
    """A test with a world. `scenario` and `apps` may be set by class."""

    scenario = "dice.json"
    apps = ("dice",)
    # Keys for every manifest.
    manifest = {}
    maxDiff = None

    def setUp(self):
        self.world = None
        self.addCleanup(self._end)
        self.start(self.scenario)

    def start(self, scenario, apps=None):
        """A new world instead of the one there is."""
        if self.world is not None:
            self._close_world()
        self.world = World(scenario, apps or self.apps, self.manifest)
        self.simulator = self.world.simulator

    def _end(self):
        if self.world is None:
            return
        try:
            self.assertTrue(self.world.daemon.running, "the daemon has ended:\n" + "\n".join(self.world.daemon.lines[-20:]))
        finally:
            self._close_world()

    def _close_world(self):
        """When the test has failed in it, says how the logs end."""
        world, self.world = self.world, None
        result = self._outcome.result
        if any(self in (test, getattr(test, "test_case", None)) for test, _ in result.failures + result.errors):
            for program in (world.daemon, world.simulator):
                for line in program.lines[-25:]:
                    print(f"{Path(program.command[0]).name}: {line}", file=sys.stderr)
        world.close()

    def app(self, app="dice", uid=SOMEBODY):
        return App(self.world, app, uid).begin()

    def picker(self):
        return PickerProgram(self.world).register()

    def add(self, app, picker, name, *items, answer=None):
        """The whole way with one accessory; returns its path. `answer` is what the person says to a prompt."""
        before = app.event_types.count("accessoryAdded"), app.event_types.count("pickerDidDismiss")
        app.show_picker(*(items or [item()]))
        picker.wait_stage("offering")
        picker.pick(name)
        if answer is not None:
            picker.wait_stage("confirming")
            picker.respond(**answer)
        added = app.wait_event("accessoryAdded", count=before[0] + 1)
        app.wait_event("pickerDidDismiss", count=before[1] + 1)
        picker.wait_gone()
        return str(added["accessory"])

    def assertFails(self, name, function, *arguments, says=(), **more):
        """The call is refused with this error, and its message has all that `says`."""
        with self.assertRaises(dbus.DBusException) as caught:
            function(*arguments, **more)
        self.assertEqual(caught.exception.get_dbus_name(), name, caught.exception.get_dbus_message())
        for part in says:
            self.assertIn(str(part).lower(), caught.exception.get_dbus_message().lower())
        return caught.exception

    def assertDismissed(self, app, name, seconds=10):
        """The run ends with this error, and nothing is set up; returns the details."""
        details = app.wait_event("pickerDidDismiss", seconds, count=app.event_types[:-1].count("pickerDidDismiss") + 1)
        self.assertEqual(details.get("error"), error(name))
        self.assertTrue(details.get("message"), "no message")
        self.assertNotIn("accessoryAdded", app.event_types)
        self.assertEqual(app.accessories, [])
        self.assertEqual(self.world.grants(), {})
        return details

    def assertNothingLeft(self):
        """No grant, no bond, no picker, no scan."""
        self.assertEqual(self.world.grants(), {})
        self.assertEqual(self.world.admin.paths("accessory"), [])
        self.assertEqual(self.world.admin.paths("picker"), [])
        wait(lambda: self.simulator.bonds == [], 10, "the bonds to go", also_every=0.1)
        wait(lambda: not self.simulator.discovering, 10, "discovery to end", also_every=0.1)
