# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the scoped view: a client that uses org.bluez as an app would, and a monitor of the
private bus that records the daemon's calls to org.bluez."""

import signal

from harness.clients import Client, Identity
from harness.names import BUS_ERROR, GRANT, OBJECT_MANAGER, PINK, PROPERTIES, SOMEBODY, SOMEBODY_ELSE
from harness.programs import Program
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest

BLUEZ = "org.bluez"
ADAPTER = "/org/bluez/hci0"
# Where bluetoothd has the managers of agents and profiles.
MANAGERS = "/org/bluez"
ADAPTER1, DEVICE1, SERVICE1, CHARACTERISTIC1, AGENTS = (
    f"org.bluez.{each}" for each in ("Adapter1", "Device1", "GattService1", "GattCharacteristic1", "AgentManager1"))
DRIVER = "org.freedesktop.DBus"
ACCESS_DENIED = BUS_ERROR + "AccessDenied"
LIMITS_EXCEEDED = BUS_ERROR + "LimitsExceeded"

# A characteristic with every property, in every accessory of the tests.
GATT = [{"uuid": PINK, "characteristics": [
    {"uuid": "FF3F", "flags": ["read", "write", "write-without-response", "notify"], "value": "01",
     "notify": {"interval": 0.05, "values": ["03", "06", "01"]}}]}]


def path_of(number):
    """Where org.bluez has the accessory of this number."""
    return f"{ADAPTER}/dev_C0_FF_EE_00_02_{number:02X}"


class View(Client):
    """A connection to the view, in an app's identity."""

    def __init__(self, world, app="dice", uid=SOMEBODY):
        super().__init__(world, Identity(app, uid), world.view)

    def bluez(self, path, interface, member, signature="", *arguments, seconds=20):
        return self.call(path, interface, member, signature, *arguments, to=BLUEZ, seconds=seconds)

    def driver(self, member, signature="", *arguments):
        return self.call("/org/freedesktop/DBus", DRIVER, member, signature, *arguments, to=DRIVER)

    def read_property(self, path, interface, name):
        return self.bluez(path, PROPERTIES, "Get", "ss", interface, name)

    def tree(self):
        return {str(path): value for path, value in self.bluez("/", OBJECT_MANAGER, "GetManagedObjects").items()}

    def connect(self, device):
        self.bluez(device, DEVICE1, "Connect")
        return self

    def disconnect(self, device):
        self.bluez(device, DEVICE1, "Disconnect")

    def characteristic(self, device):
        return next(path for path, interfaces in self.tree().items()
                    if path.startswith(device + "/") and CHARACTERISTIC1 in interfaces)

    def told(self, member, path):
        """The signals of this kind that are about this path."""
        return [each for each in self.signals if each.member == member and path in (each.path, each.arguments[0])]

    def changes(self, path, name):
        """The values that a property was said to change to."""
        return [each.arguments[1][name] for each in self.told("PropertiesChanged", path) if name in each.arguments[1]]

    def invalidated(self, path, name):
        """Whether a property was said to be there no more."""
        return any(name in each.arguments[2] for each in self.told("PropertiesChanged", path))

    def wait_change(self, path, name, value, seconds=10):
        wait(lambda: value in self.changes(path, name), seconds, lambda: f"{name} to be {value}; was {self.changes(path, name)}")


class ViewTest(APITest):
    """An accessory that was set up for the app dice, and one that was not."""

    apps = ("dice", "board")
    scenario = scenario(accessory("pink", 1, gatt=GATT), accessory("other", 2, gatt=GATT))

    def setUp(self):
        super().setUp()
        self.person = self.picker()
        self.dice, self.board = self.app("dice"), self.app("board", SOMEBODY_ELSE)
        self.accessory = self.add(self.dice, self.person, "pink", item("Pink"))
        self.pink, self.other = path_of(1), path_of(2)
        # The pairing leaves the link up.
        self.unlink(self.pink)

    def unlink(self, device):
        self.world.admin.call(device, DEVICE1, "Disconnect", to=BLUEZ)

    def view(self, app="dice"):
        view = View(self.world, app, SOMEBODY if app == "dice" else SOMEBODY_ELSE)
        view.listen_to_everything()
        return view

    def hear(self, *rules):
        """A program that prints the messages on the bus from here on."""
        ear = Program("dbus-monitor", "--address", self.world.bus.address, *rules)
        self.addCleanup(lambda: ear.stop(signal.SIGKILL))
        ear.wait_for("NameAcquired|NameLost")
        return ear

    def grant(self, app="dice"):
        return next(path for path, each in self.world.grants().items() if each["App"] == f"com.example.{app}")

    def revoke(self, app="dice"):
        self.world.admin.call(self.grant(app), GRANT, "Revoke")

    def share(self):
        """The app board gets the accessory too."""
        self.add(self.board, self.person, "pink", item("Pink"))

    def linked(self):
        return self.simulator.connections
