# SPDX-License-Identifier: Apache-2.0
"""Qt's Bluetooth, through PyQt: `qt_client.py 5` or `6`. QBluetoothDeviceDiscoveryAgent finds the accessory, and QLowEnergyController is the
central, as Qt's example “Heart Rate” uses them."""

import importlib
import sys

from lines import answer, say

QtCore, QtBluetooth = (importlib.import_module(f"PyQt{sys.argv[1]}.{each}") for each in ("QtCore", "QtBluetooth"))
Controller, Service, Agent = QtBluetooth.QLowEnergyController, QtBluetooth.QLowEnergyService, QtBluetooth.QBluetoothDeviceDiscoveryAgent
Uuid = QtBluetooth.QBluetoothUuid
CONFIGURATION = Uuid(QtCore.QUuid("{00002902-0000-1000-8000-00805f9b34fb}"))


def text(uuid):
    return uuid.toString().strip("{}")


class Failure(Exception):
    pass


def errors_of(source):
    """The signal is called so in Qt 6, and `error`, as the function, before."""
    return getattr(source, "errorOccurred", None) or source.error


def until(done, *failed):
    """Runs Qt's main loop until a given signal; returns the arguments of a successful one."""
    loop, said = QtCore.QEventLoop(), []

    def good(*values):
        said.append((True, values))
        loop.quit()

    def bad(*values):
        said.append((False, values))
        loop.quit()

    connections = [(done, good), *((each, bad) for each in failed)]
    for signal, slot in connections:
        signal.connect(slot)
    getattr(loop, "exec_", loop.exec)() if not said else None
    for signal, slot in connections:
        signal.disconnect(slot)
    well, values = said[0]
    if not well:
        raise Failure(" ".join(getattr(each, "name", str(each)) for each in values) or "disconnected")
    return values


class Client:
    def __init__(self):
        self.found, self.controller, self.service, self.found_services = {}, None, None, {}

    def scan(self):
        agent = Agent()
        agent.setLowEnergyDiscoveryTimeout(0)
        errors = errors_of(agent)
        loop_of_one = agent.deviceDiscovered
        QtCore.QTimer.singleShot(0, lambda: agent.start(Agent.DiscoveryMethod.LowEnergyMethod))
        until(loop_of_one, errors)
        self.found |= {each.address().toString(): each for each in agent.discoveredDevices()}
        agent.stop()

    def list(self):
        self.scan()
        return sorted(self.found)

    def connect(self, address):
        if address not in self.found:
            self.scan()
        if self.controller is None:
            self.controller = Controller.createCentral(self.found[address])
            self.controller.disconnected.connect(lambda: say("disconnected"))
        controller = self.controller
        QtCore.QTimer.singleShot(0, controller.connectToDevice)
        until(controller.connected, errors_of(controller))
        QtCore.QTimer.singleShot(0, controller.discoverServices)
        until(controller.discoveryFinished, errors_of(controller), controller.disconnected)
        self.service, self.found_services = None, {}

    def services(self):
        return sorted(text(each) for each in self.controller.services())

    def characteristic(self, uuid):
        """In the service that has it."""
        uuid = Uuid(QtCore.QUuid("{" + uuid + "}"))
        for service in self.discovered():
            if service.characteristic(uuid).isValid():
                self.service = service
                return service.characteristic(uuid)
        raise Failure("no such characteristic")

    def discovered(self):
        for each in self.controller.services():
            if each.toString() not in self.found_services:
                service = self.controller.createServiceObject(each)
                QtCore.QTimer.singleShot(0, service.discoverDetails)
                done = getattr(Service.ServiceState, "RemoteServiceDiscovered", None) or Service.ServiceState.ServiceDiscovered
                while service.state() != done:
                    until(service.stateChanged, errors_of(service), self.controller.disconnected)
                service.characteristicChanged.connect(lambda _, value: say("value", bytes(value).hex()))
                self.found_services[each.toString()] = service
            yield self.found_services[each.toString()]

    def ask(self, call, done):
        if self.controller.state() in (Controller.ControllerState.UnconnectedState, Controller.ControllerState.ClosingState):
            raise Failure("UnconnectedState")
        QtCore.QTimer.singleShot(0, call)
        return until(done, errors_of(self.service), self.controller.disconnected)

    def read(self, uuid):
        characteristic = self.characteristic(uuid)
        return [bytes(self.ask(lambda: self.service.readCharacteristic(characteristic), self.service.characteristicRead)[1]).hex()]

    def write(self, uuid, value):
        characteristic = self.characteristic(uuid)
        self.ask(lambda: self.service.writeCharacteristic(characteristic, bytes.fromhex(value)), self.service.characteristicWritten)

    def notify(self, uuid):
        configuration = self.characteristic(uuid).descriptor(CONFIGURATION)
        self.ask(lambda: self.service.writeDescriptor(configuration, b"\x01\x00"), self.service.descriptorWritten)

    def disconnect(self):
        QtCore.QTimer.singleShot(0, self.controller.disconnectFromDevice)
        until(self.controller.disconnected, errors_of(self.controller))


application = QtCore.QCoreApplication([])
client = Client()
waiting = []


def readable():
    """A command may run the loop itself: lines that arrive meanwhile wait for its end."""
    line = sys.stdin.readline()
    if not line:
        application.quit()
        return
    waiting.append(line)
    if len(waiting) > 1:
        return
    while waiting:
        answer(client, waiting[0])
        del waiting[0]


notifier = QtCore.QSocketNotifier(0, QtCore.QSocketNotifier.Type.Read)
notifier.activated.connect(readable)
say("ready")
getattr(application, "exec_", application.exec)()
