# SPDX-License-Identifier: Apache-2.0
"""One client of org.bluez' GATT interfaces, and the cases that it goes through: on accessory-sim (Tests/Simulator/test_gatt.py) and on the
real bluetoothd (Tests/Lab/checks/gatt.py), with the accessories of Tests/Scenarios/gatt.json. A case is a function that takes a `Client`.

Where the two differ the case has the result of each, so that a difference that went away is noticed; DIFFERENCES has them in words, as
Docs/Simulator.md does."""

import socket

import dbus

METER = "C0:FF:EE:00:00:41"
LAMP = "C0:FF:EE:00:00:42"
ADAPTER = "/org/bluez/hci0"
BLUEZ = "org.bluez.Error."
ADAPTER_INTERFACE = "org.bluez.Adapter1"
DEVICE = "org.bluez.Device1"
CHARACTERISTIC = "org.bluez.GattCharacteristic1"
DESCRIPTOR = "org.bluez.GattDescriptor1"
PROPERTIES = "org.freedesktop.DBus.Properties"
# Of the accessories: their values at the start, and the MTU of the meter.
LONG = bytes(range(100))
SHORT = bytes([1, 2, 3, 4, 5])
DESCRIBED = b"M" * 60
MTU = 48
PACKET = MTU - 3

CASES = []
DIFFERENCES = {}


def case(function):
    CASES.append(function)
    return function


def differs(text, *, simulator, bluetoothd):
    """A case that returns its observation, which differs between the two; `text` is the sentence of Docs/Simulator.md."""

    def register(function):
        def run(client):
            equal(function(client), simulator if client.is_simulator else bluetoothd, "the outcome")

        run.__name__ = function.__name__
        DIFFERENCES[function.__name__] = text
        return case(run)

    return register


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what} is {found!r}, not {expected!r}")


def refused(error, name, message=None):
    """The outcome of a call must be this error of BlueZ."""
    if not isinstance(error, dbus.DBusException):
        raise AssertionError(f"answered {error!r}, not {name}")
    found = error.get_dbus_name().removeprefix(BLUEZ), error.get_dbus_message()
    if found[0] != name or message not in (None, found[1]):
        raise AssertionError(f"failed with {found}, not {(name, message)}")


class Pending:
    """A call under way. When answered, it is added to the client's list."""

    def __init__(self, client, path, interface, member, signature="", *arguments):
        self._client, self._member = client, member
        self.outcome = []
        client.bus.call_async(
            "org.bluez", path, interface, member, signature, arguments, lambda *result: self._end(result[0] if result else None), self._end)

    def _end(self, outcome):
        self.outcome.append(outcome)
        self._client.answered.append(self)

    def wait(self):
        """The result, or the error as a value."""
        self._client.wait(lambda: self.outcome, f"{self._member} to answer")
        return self.outcome[0]


class Client:
    """A program on the bus. `connect` makes a connection, `wait(predicate, what)` turns the main loop; `version` is that of the bluetoothd
    which is played, or is there."""

    def __init__(self, connect, wait, version, is_simulator):
        self._connect, self.wait, self.version, self.is_simulator = connect, wait, version, is_simulator
        self.bus = connect()
        self.answered = []

    def another(self):
        return Client(self._connect, self.wait, self.version, self.is_simulator)

    def call(self, path, interface, member, signature="", *arguments):
        return self.bus.call_blocking("org.bluez", path, interface, member, signature, arguments, timeout=60)

    def attempt(self, *call):
        """The result of a call, or the error as a value."""
        try:
            return self.call(*call)
        except dbus.DBusException as error:
            return error

    def objects(self):
        return self.call("/", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")

    def device(self, address):
        """The path of a device, which is heard for that if it has to be. A scan that goes on would hold up the link."""

        def look():
            for path, interfaces in self.objects().items():
                if interfaces.get(DEVICE, {}).get("Address") == address:
                    return path
            return None

        if path := look():
            return path
        self.call(ADAPTER, ADAPTER_INTERFACE, "SetDiscoveryFilter", "a{sv}", {"Transport": "le"})
        self.call(ADAPTER, ADAPTER_INTERFACE, "StartDiscovery")
        path = self.wait(look, f"{address} to be heard")
        self.call(ADAPTER, ADAPTER_INTERFACE, "StopDiscovery")
        return path

    def get(self, path, interface, name):
        return self.call(path, PROPERTIES, "Get", "ss", interface, name)

    def connect(self, address=METER):
        device = self.device(address)
        self.call(device, DEVICE, "Connect")
        self.wait(lambda: self.get(device, DEVICE, "ServicesResolved"), "the services")
        return device

    def attribute(self, short, address=METER, below=None):
        """A characteristic of a connected accessory, or a descriptor `below` one."""
        uuid = f"0000{short.lower()}-0000-1000-8000-00805f9b34fb"
        device = self.device(address)
        for path, interfaces in self.objects().items():
            for interface in (CHARACTERISTIC, DESCRIPTOR):
                if path.startswith(below.path if below else device) and interfaces.get(interface, {}).get("UUID") == uuid:
                    return Attribute(self, path, interface)
        raise AssertionError(f"there is no {short}")


class Attribute:
    """A characteristic or a descriptor. Its methods return errors as values."""

    def __init__(self, client, path, interface):
        self._client, self.path, self._interface = client, path, interface

    def seen_by(self, client):
        return Attribute(client, self.path, self._interface)

    def _attempt(self, *call):
        return self._client.attempt(self.path, self._interface, *call)

    @staticmethod
    def _options(options):
        typed = {name: dbus.UInt16(value) if type(value) is int else value for name, value in options.items()}
        return dbus.Dictionary(typed, signature="sv")

    def read(self, **options):
        answer = self._attempt("ReadValue", "a{sv}", self._options(options))
        return answer if isinstance(answer, dbus.DBusException) else bytes(answer)

    def write(self, value, **options):
        return self._attempt("WriteValue", "aya{sv}", dbus.ByteArray(value), self._options(options))

    def start_writing(self, value):
        return Pending(
            self._client, self.path, self._interface, "WriteValue", "aya{sv}", dbus.ByteArray(value), self._options({}))

    def start_reading(self, **options):
        return Pending(self._client, self.path, self._interface, "ReadValue", "a{sv}", self._options(options))

    def start_notify(self):
        return self._attempt("StartNotify")

    def stop_notify(self):
        return self._attempt("StopNotify")

    def acquire(self, member):
        """A `Socket`, or the error."""
        answer = self._attempt(member, "a{sv}", self._options({}))
        return answer if isinstance(answer, dbus.DBusException) else Socket(self._client, *answer)

    def properties(self):
        return self._client.call(self.path, PROPERTIES, "GetAll", "s", self._interface)

    def get(self, name):
        return self.properties().get(name)

    def holds(self, value):
        """Waits until the accessory has a value that was written without a response."""
        self._client.wait(lambda: self.read() == value, f"{value!r} to arrive")

    def becomes(self, name, value):
        self._client.wait(lambda: self.get(name) == value, f"{name} to become {value}")

    def values(self):
        """The list grows with each signal of its value."""
        values = []

        def changed(_interface, properties, _invalidated):
            if "Value" in properties:
                values.append(bytes(properties["Value"]))

        self._client.bus.add_signal_receiver(changed, "PropertiesChanged", PROPERTIES, "org.bluez", self.path)
        return values


class Socket:
    """One that was acquired."""

    def __init__(self, client, descriptor, mtu):
        self._client, self.mtu = client, int(mtu)
        self._socket = socket.socket(fileno=descriptor.take())
        self._socket.setblocking(False)

    def send(self, packet):
        self._socket.send(packet)

    def receive(self):
        """The next packet; an empty one when the other end is closed."""
        arrived = []

        def look():
            try:
                arrived.append(self._socket.recv(1024))
            except BlockingIOError:
                pass
            except ConnectionResetError:
                arrived.append(b"")
            return arrived

        self._client.wait(look, "a packet")
        return arrived[0]

    def close(self):
        self._socket.close()


# Properties

@case
def says_the_mtu_that_both_can_do(client):
    client.connect()
    equal(client.attribute("FF41").get("MTU"), MTU, "the meter's MTU")
    equal(client.attribute("FF44").get("MTU"), MTU, "that of another characteristic")
    client.connect(LAMP)
    equal(client.attribute("FF49", LAMP).get("MTU"), 517, "the lamp's MTU")


@case
def has_the_properties_that_the_flags_give(client):
    client.connect()
    for short, flags, expected in (
        ("FF41", ["read", "write"], set()),
        ("FF42", ["read", "write-without-response"], {"WriteAcquired"}),
        ("FF43", ["notify"], {"Notifying", "NotifyAcquired"}),
        ("FF47", ["read"], set()),
    ):
        found = client.attribute(short).properties()
        equal(list(found["Flags"]), flags, f"Flags of {short}")
        equal({"Notifying", "WriteAcquired", "NotifyAcquired"} & found.keys(), expected, f"what {short} has")
    indicating = client.attribute("FF44").properties()
    equal(list(indicating["Flags"]), ["indicate"], "Flags of FF44")
    equal(indicating["Notifying"], False, "Notifying of FF44")


@case
def knows_a_value_once_it_was_read(client):
    client.connect()
    characteristic = client.attribute("FF41")
    signals = characteristic.values()
    equal(bytes(characteristic.get("Value")), b"", "Value before it was read")
    equal(characteristic.read(), LONG, "the value")
    client.wait(lambda: signals == [LONG], "the signal")
    equal(bytes(characteristic.get("Value")), LONG, "Value after it was read")
    equal(characteristic.write(SHORT), None, "the answer to a write")
    equal(bytes(characteristic.get("Value")), LONG, "Value after it was written")
    equal(characteristic.read(), SHORT, "the value after the write")
    equal(bytes(characteristic.get("Value")), SHORT, "Value after it was read again")


# Reading

@case
def reads_from_an_offset(client):
    client.connect()
    characteristic = client.attribute("FF41")
    equal(characteristic.read(offset=60), LONG[60:], "the end, unknown before")
    equal(bytes(characteristic.get("Value")), bytes(60) + LONG[60:], "Value then")
    equal(characteristic.read(), LONG, "all")
    equal(characteristic.read(offset=1), LONG[1:], "all but the first byte")
    equal(characteristic.read(offset=100), b"", "the value behind its end")
    refused(characteristic.read(offset=101), "InvalidArguments", "Invalid offset")
    refused(characteristic.read(offset=dbus.UInt32(1)), "InvalidArguments", "Invalid arguments in method call")
    # The accessory's answer for a value that fits into a packet.
    refused(client.attribute("FF45").read(offset=2), "Failed", "Operation failed with ATT error: 0x0b")


@case
def reads_what_may_be_read(client):
    client.connect()
    equal(client.attribute("FF45").read(), SHORT, "the value")
    refused(client.attribute("FF46").read(), "NotPermitted", "Read not permitted")
    refused(client.attribute("FF43").read(), "NotPermitted", "Read not permitted")


@case
def reads_and_writes_descriptors(client):
    client.connect()
    descriptor = client.attribute("2901", below=client.attribute("FF41"))
    equal(bytes(descriptor.get("Value")), b"", "Value before it was read")
    equal(descriptor.read(), DESCRIBED, "the value")
    equal(descriptor.read(offset=50), DESCRIBED[50:], "the end of the value")
    refused(descriptor.read(offset=61), "InvalidArguments", "Invalid offset")
    equal(descriptor.write(b"L" * 70), None, "the answer to a long write")
    equal(bytes(descriptor.get("Value")), DESCRIBED, "Value then")
    equal(descriptor.read(), b"L" * 70, "the value after the write")
    equal(descriptor.write(b"!", offset=69), None, "the answer to a write with an offset")
    equal(descriptor.read(), b"L" * 69 + b"!", "the value after that")
    refused(descriptor.write(b"", offset=1), "Failed", "Failed to initiate write")


@case
def keeps_subscribing_to_itself(client):
    client.connect()
    characteristic = client.attribute("FF44")
    descriptor = client.attribute("2902", below=characteristic)
    equal(descriptor.read(), bytes([0, 0]), "the configuration")
    refused(descriptor.write(bytes([2, 0])), "NotPermitted", "Write not permitted")
    equal(characteristic.start_notify(), None, "the answer to StartNotify")
    equal(descriptor.read(), bytes([2, 0]), "the configuration of indications")


# Writing

@case
def writes_what_is_longer_than_a_packet(client):
    client.connect()
    characteristic = client.attribute("FF41")
    equal(characteristic.write(b"w" * (PACKET + 1)), None, "the answer")
    equal(characteristic.read(), b"w" * (PACKET + 1), "the written value")
    equal(characteristic.write(b"W" * 512), None, "the answer to the longest")
    equal(characteristic.read(), b"W" * 512, "the longest")
    refused(characteristic.write(b"W" * 513), "InvalidArguments", "Invalid Length")
    equal(characteristic.write(b"r" * 50, type="reliable"), None, "the answer to a reliable write")
    equal(characteristic.read(), b"r" * 50, "the value after a reliable write")


@case
def writes_from_an_offset(client):
    client.connect()
    characteristic = client.attribute("FF41")
    equal(characteristic.write(b"end", offset=97), None, "the answer")
    equal(characteristic.read(), LONG[:97] + b"end", "the written value")
    equal(characteristic.write(b"", offset=0), None, "the answer to nothing")
    equal(characteristic.read(), b"", "the rest")
    refused(characteristic.write(b"x", offset=1), "InvalidArguments", "Invalid offset")
    refused(characteristic.write(b"", offset=1), "Failed", "Failed to initiate write")
    refused(characteristic.write(b"", type="reliable"), "Failed", "Failed to initiate write")
    refused(characteristic.write(b"x", offset="1"), "InvalidArguments", "Invalid arguments in method call")


@case
def writes_commands_that_fit(client):
    client.connect()
    characteristic = client.attribute("FF42")
    equal(characteristic.write(b"c" * PACKET), None, "the answer")
    characteristic.holds(b"c" * PACKET)
    refused(characteristic.write(b"c" * (PACKET + 1)), "Failed", "Failed to initiate write")
    refused(characteristic.write(b"c", offset=1), "NotSupported", "Operation is not supported")


@case
def writes_as_it_is_asked_to(client):
    client.connect()
    characteristic = client.attribute("FF41")
    equal(characteristic.write(b"command", type="command"), None, "the answer to a command")
    characteristic.holds(b"command")
    refused(characteristic.write(b"c" * (PACKET + 1), type="command"), "Failed", "Failed to initiate write")
    refused(characteristic.write(b"c", type="command", offset=1), "NotSupported", "Operation is not supported")
    equal(client.attribute("FF42").write(b"request", type="Request"), None, "the answer to a request")
    equal(client.attribute("FF42").read(), b"request", "the value of the request")
    refused(characteristic.write(b"x", type="letter"), "NotSupported", "Operation is not supported")
    refused(characteristic.write(b"x", type=dbus.Boolean(True)), "InvalidArguments", "Invalid arguments in method call")


@case
def writes_what_may_be_written(client):
    client.connect()
    equal(client.attribute("FF46").write(b"x"), None, "the answer")
    characteristic = client.attribute("FF45")
    refused(characteristic.write(b"x"), "NotSupported", "Operation is not supported")
    refused(characteristic.write(b"x", type="request"), "NotPermitted", "Write not permitted")
    refused(characteristic.write(b"x", type="reliable"), "NotPermitted", "Write not permitted")
    equal(characteristic.write(b"x", type="command"), None, "the answer to a command, which is lost")
    equal(characteristic.read(), SHORT, "the value")


@case
def writes_one_at_a_time(client):
    client.connect()
    characteristic = client.attribute("FF41")
    outcomes = [each.wait() for each in [characteristic.start_writing(bytes([number])) for number in range(20)]]
    equal(outcomes[0], None, "the answer to the first")
    failed = [each for each in outcomes if each is not None]
    if not failed:
        raise AssertionError("twenty at once were written")
    for each in failed:
        refused(each, "InProgress", "In Progress")
    equal(characteristic.write(b"after"), None, "the answer to one after them")


@case
def answers_in_the_order_of_the_requests(client):
    client.connect()
    characteristic, other = client.attribute("FF41"), client.attribute("FF45")
    calls = [characteristic.start_writing(b"x"), characteristic.start_reading(), other.start_reading()]
    outcomes = [each.wait() for each in calls]
    equal([outcomes[0], *map(bytes, outcomes[1:])], [None, b"x", SHORT], "the answers")
    equal([calls.index(each) for each in client.answered], [0, 1, 2], "their order")


# Sockets

@case
def writes_through_a_socket(client):
    client.connect()
    characteristic = client.attribute("FF42")
    acquired = characteristic.acquire("AcquireWrite")
    equal(acquired.mtu, MTU, "the MTU that comes with it")
    equal(characteristic.get("WriteAcquired"), True, "WriteAcquired")
    refused(characteristic.acquire("AcquireWrite"), "NotPermitted", "Write acquired")
    refused(characteristic.seen_by(client.another()).acquire("AcquireWrite"), "NotPermitted", "Write acquired")
    refused(characteristic.write(b"x"), "NotPermitted", "Write acquired")
    acquired.send(b"a" * PACKET)
    characteristic.holds(b"a" * PACKET)
    acquired.send(b"b" * (PACKET + 1))  # lost
    equal(characteristic.read(), b"a" * PACKET, "the value after a packet that is too long")
    acquired.send(b"c")
    characteristic.holds(b"c")
    acquired.close()
    characteristic.becomes("WriteAcquired", False)
    equal(characteristic.write(b"d"), None, "the answer to a write after that")
    characteristic.holds(b"d")


@case
def reads_no_socket_behind_an_empty_packet(client):
    client.connect()
    characteristic = client.attribute("FF42")
    acquired = characteristic.acquire("AcquireWrite")
    acquired.send(b"a")
    characteristic.holds(b"a")
    acquired.send(b"")
    acquired.send(b"b")
    equal(characteristic.read(), b"a", "the value after an empty packet")
    equal(characteristic.get("WriteAcquired"), True, "WriteAcquired")
    acquired.close()
    characteristic.becomes("WriteAcquired", False)
    equal(characteristic.read(), b"a", "the value at the end")


@case
def hands_out_no_socket_without_the_flag(client):
    client.connect()
    for short in ("FF41", "FF46", "FF45", "FF43"):
        refused(client.attribute(short).acquire("AcquireWrite"), "NotSupported", "Operation is not supported")
    for short in ("FF41", "FF42", "FF45"):
        refused(client.attribute(short).acquire("AcquireNotify"), "NotSupported", "Operation is not supported")


@case
def indicates_through_a_socket_since_5_80(client):
    client.connect()
    acquired = client.attribute("FF44").acquire("AcquireNotify")
    if client.version >= (5, 80):
        equal(acquired.receive(), b"\x02", "the first value")
    else:
        refused(acquired, "NotSupported", "Operation is not supported")


@case
def notifies_through_a_socket(client):
    client.connect()
    characteristic = client.attribute("FF43")
    acquired = characteristic.acquire("AcquireNotify")
    equal(acquired.mtu, MTU, "the MTU that comes with it")
    equal((characteristic.get("NotifyAcquired"), characteristic.get("Notifying")), (True, False), "NotifyAcquired, Notifying")
    equal([acquired.receive(), acquired.receive()], [b"\x01", b"N" * PACKET], "the packets")
    equal(bytes(characteristic.get("Value")), b"", "Value, which the socket bypasses")
    for each in (characteristic, characteristic.seen_by(client.another())):
        refused(each.acquire("AcquireNotify"), "NotPermitted", "Notify acquired")
        refused(each.start_notify(), "NotPermitted", "Notify acquired")
    acquired.close()
    characteristic.becomes("NotifyAcquired", False)
    equal(characteristic.start_notify(), None, "the answer to StartNotify after that")
    characteristic.becomes("Notifying", True)


@case
def takes_a_socket_back_from_whoever_has_it(client):
    client.connect()
    characteristic = client.attribute("FF43")
    acquired = characteristic.acquire("AcquireNotify")
    equal(characteristic.seen_by(client.another()).stop_notify(), None, "the answer to another program's StopNotify")
    characteristic.becomes("NotifyAcquired", False)
    while acquired.receive():
        pass
    refused(characteristic.stop_notify(), "Failed", "No notify session started")


# Notifications

@case
def notifies_each_program_that_asks(client):
    client.connect()
    characteristic = client.attribute("FF43")
    refused(characteristic.stop_notify(), "Failed", "No notify session started")
    refused(client.attribute("FF41").start_notify(), "NotSupported", "Operation is not supported")
    values = characteristic.values()
    equal(characteristic.start_notify(), None, "the answer to StartNotify")
    equal(characteristic.start_notify(), None, "the answer to another")
    characteristic.becomes("Notifying", True)
    other = characteristic.seen_by(client.another())
    equal(other.start_notify(), None, "the answer to another program's")
    client.wait(lambda: values[:2] == [b"\x01", b"N" * PACKET], "two values, the second cut")
    equal(characteristic.stop_notify(), None, "the answer to StopNotify")
    equal(characteristic.get("Notifying"), True, "Notifying, with the other program")
    equal(other.stop_notify(), None, "the answer to the other's StopNotify")
    characteristic.becomes("Notifying", False)


@case
def hands_out_no_socket_while_it_notifies(client):
    client.connect()
    characteristic = client.attribute("FF43")
    equal(characteristic.start_notify(), None, "the answer to StartNotify")
    for each in (characteristic, characteristic.seen_by(client.another())):
        refused(each.acquire("AcquireNotify"), "InProgress", "In Progress")
    equal(characteristic.stop_notify(), None, "the answer to StopNotify")
    equal(characteristic.acquire("AcquireNotify").receive(), b"\x01", "the first value")


@case
def indicates(client):
    client.connect()
    characteristic = client.attribute("FF44")
    values = characteristic.values()
    equal(characteristic.start_notify(), None, "the answer to StartNotify")
    client.wait(lambda: values[:2] == [b"\x02", b"\x03"], "two values")


# The link

@case
def ends_a_connect_that_is_under_way(client):
    device = client.device(METER)
    connecting = Pending(client, device, DEVICE, "Connect")
    disconnecting = Pending(client, device, DEVICE, "Disconnect")
    refused(connecting.wait(), "Failed", "br-connection-canceled")
    equal(disconnecting.wait(), None, "the answer to Disconnect")
    client.wait(lambda: not client.get(device, DEVICE, "Connected"), "the end of the link")


@case
def disconnects_what_is_not_connected(client):
    equal(client.attempt(client.device(METER), DEVICE, "Disconnect"), None, "the answer to Disconnect")


@case
def connects_once_at_a_time(client):
    device = client.device(METER)
    first, second = Pending(client, device, DEVICE, "Connect"), Pending(client, device, DEVICE, "Connect")
    if client.version >= (5, 82):
        refused(second.wait(), "InProgress", "In Progress")
    else:
        refused(second.wait(), "Failed", "Operation already in progress")
    equal(first.wait(), None, "the answer to the first")
    equal(client.attempt(device, DEVICE, "Connect"), None, "the answer to one after it")


@case
def closes_sockets_with_the_link(client):
    device = client.connect()
    writing = client.attribute("FF42").acquire("AcquireWrite")
    notifying = client.attribute("FF43").acquire("AcquireNotify")
    equal(client.attempt(device, DEVICE, "Disconnect"), None, "the answer to Disconnect")
    for each in (writing, notifying):
        while each.receive():
            pass


# Where they differ

@differs(
    "the objects of a GATT server go with the link, where bluetoothd keeps them and answers `Failed` (“Not connected”)",
    simulator="org.freedesktop.DBus.Error.UnknownObject", bluetoothd="org.bluez.Error.Failed")
def reads_after_the_end_of_the_link(client):
    device = client.connect()
    characteristic = client.attribute("FF41")
    client.call(device, DEVICE, "Disconnect")
    client.wait(lambda: not client.get(device, DEVICE, "Connected"), "the end of the link")
    return characteristic.read().get_dbus_name()


@differs(
    "a value that wants encryption is refused without a bond (`NotPermitted`, “Not paired”), where bluetoothd pairs by itself first",
    simulator=("org.bluez.Error.NotPermitted", False), bluetoothd=(b"\x2a", True))
def reads_a_value_that_wants_encryption(client):
    device = client.connect()
    answer = client.attribute("FF47").start_reading().wait()  # the loop turns meanwhile, and serves the agent
    outcome = answer.get_dbus_name() if isinstance(answer, dbus.DBusException) else bytes(answer)
    return outcome, bool(client.get(device, DEVICE, "Paired"))


@differs(
    "a read is answered at once, so that two of one value with different offsets are never `InProgress`",
    simulator=False, bluetoothd=True)
def reads_one_offset_at_a_time(client):
    client.connect()
    characteristic = client.attribute("FF41")
    outcomes = [each.wait() for each in [characteristic.start_reading(offset=number % 2 * 60) for number in range(10)]]
    failed = [each for each in outcomes if isinstance(each, dbus.DBusException)]
    for each in failed:
        refused(each, "InProgress", "In Progress")
    return bool(failed)
