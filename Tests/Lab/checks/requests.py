# SPDX-License-Identifier: Apache-2.0
"""An app's requests besides a first set-up, on a real radio stack: names, confirmation, its own filter, existing bonds of
bluetoothd, lost state. The app is a D-Bus client in Python; the person is the terminal picker that answers by itself."""

import grp
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dbus

from bluez import BlueZ
from framework import check
from journeys import BLUE_DICE, DICE, MODES, PINK_DICE, PINK_SERVICE, Journey
from lab import DAEMON_NAME, STANDSTILL, CheckFailed, SystemBus, expect

BLUE_SERVICE = "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"
ROOT = "/org/accessorysetup1"


class App:
    """An app in Python: one session, whose events are kept as (type, details)."""

    def __init__(self, journey):
        self.lab = journey.lab
        journey.declare("com.example.python", "Python", Path(sys.executable))
        journey.restart_daemon()
        self.bus = SystemBus()
        self.events = []
        self.bus.add_signal_receiver(
            lambda kind, details: self.events.append((str(kind), details)), "Event", f"{DAEMON_NAME}.Session", DAEMON_NAME)
        self.session = self.interface(self.interface(ROOT, "Manager").CreateSession(sv({})), "Session")
        self.session.Activate()

    def interface(self, path, name):
        return dbus.Interface(self.bus.get_object(DAEMON_NAME, path, introspect=False), f"{DAEMON_NAME}.{name}")

    def show(self, *items, **settings):
        settings.setdefault("discoveryTimeout", STANDSTILL * 60.0)
        self.session.ShowPicker(dbus.Array([sv(each) for each in items], "a{sv}"), sv(settings), signature="aa{sv}a{sv}")

    def event(self, kind, seconds=60, count=1):
        """The details of the `count`th event of a type."""
        def look():
            found = [details for each, details in self.events if each == kind]
            return [found[count - 1]] if len(found) >= count else None

        return self.lab.wait_until(look, seconds, lambda: f"{kind}; came {[each for each, _ in self.events]}")[0]

    def add(self, *items):
        self.show(*items)
        added = self.event("accessoryAdded")
        self.event("pickerDidDismiss")
        return str(added["accessory"])

    def properties(self, accessory):
        return self.interface(accessory, "Accessory").GetAll(f"{DAEMON_NAME}.Accessory", dbus_interface=dbus.PROPERTIES_IFACE)

    def expect_types(self, *types):
        expect([each for each, _ in self.events] == list(types), f"the events are {[each for each, _ in self.events]}")


def sv(values):
    return dbus.Dictionary(
        {key: sv(value) if type(value) is dict else dbus.Array(value, "s") if type(value) is list else value
         for key, value in values.items()}, signature="sv")


def item(name="Pink Dice", pairs=True, **more):
    own = {key: more.pop(key) for key in ("setupOptions", "peripheralIdentifier") if key in more}
    options = {"supportedOptions": ["bluetoothPairingLE"]} if pairs else {}
    return {"name": name, "descriptor": {"bluetoothServiceUUID": PINK_SERVICE, **options, **more}, **own}


def begin(lab):
    journey = Journey(lab)
    return journey, App(journey)


# The app's extension

PRINTER = """<service-group><name>Laser</name><service><type>_ipp._tcp</type><port>631</port></service></service-group>"""
EXAMPLE = Path(__file__).resolve().parents[3] / "Docs/Examples/printers.py"


@check("dice.json", seconds=180)
def finds_printers_through_avahi(lab):
    """The example of the documents, started by its socket, on a real avahi-daemon."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/etc/avahi/services/printer.service").write_text(PRINTER)
    Path("/run/avahi-daemon").mkdir(exist_ok=True)
    configuration = lab.state / "avahi.conf"
    configuration.write_text("[server]\nhost-name=laser\n")
    avahi = lab.start("avahi-daemon", "avahi-daemon", "--no-drop-root", "--no-chroot", "--no-rlimits", "--file", configuration)
    avahi.wait_for("Service .*successfully established", 60)
    path = lab.state / "extension"
    lab.start("printers", "systemd-socket-activate", "--listen", path, EXAMPLE)
    lab.wait_until(path.exists, 20, "the extension's socket")
    journey, app = begin(lab)
    journey.declare("com.example.python", "Python", Path(sys.executable), keys={**DICE, "Extension": path})
    journey.daemon.wait_for("manifests read")
    journey.picker("Laser")
    accessory = app.add()
    endpoint = app.properties(accessory)["Endpoint"]
    expect((endpoint["host"], endpoint["port"]) == ("laser.local", 631), f"the endpoint is {endpoint}")
    app.expect_types("activated", "pickerDidPresent", "accessoryAdded", "pickerDidDismiss")


# Grants that end

@check("dice.json", seconds=240)
def ends_a_grant_whatever_the_clock_says(lab):
    journey, app = begin(lab)
    journey.picker("Dice 4F")
    began = time.clock_gettime(time.CLOCK_BOOTTIME)
    accessory = app.add(item() | {"end": "60s"})
    state = lambda: str(app.properties(accessory)["State"])
    for jump in (86_400, -3 * 86_400, 10 * 365 * 86_400, -9 * 365 * 86_400):
        time.clock_settime(time.CLOCK_REALTIME, time.time() + jump)
        lab.wait_until(lambda: abs(int(app.properties(accessory)["Ends"]) - time.time()) <= 61, 20, "Ends to follow the clock")
        expect(state() == "authorized", f"after a jump of {jump} s it is {state()}")
    journey.restart_daemon()
    app = App(journey)
    expect(state() == "authorized", f"after a restart it is {state()}")
    app.event("accessWillEnd")
    app.event("accessDidEnd", 120)
    expect(time.clock_gettime(time.CLOCK_BOOTTIME) - began >= 60, "it ended early")
    expect(state() == "unauthorized", f"at the end it is {state()}")
    expect(PINK_DICE in lab.bluez_devices() and lab.bluez_devices()[PINK_DICE]["Paired"], "the bond is gone")
    # More time, without pairing.
    journey.picker("Pink Dice")
    app.session.RenewAccess(dbus.ObjectPath(accessory), sv({}), signature="oa{sv}")
    app.event("pickerDidDismiss")
    expect(state() == "authorized", f"renewed it is {state()}")


# Presence

@check("dice.json", seconds=300)
def reports_presence_by_a_monitor(lab):
    """bluetoothd compares the adverts itself, as Debian's kernels let no controller do so."""
    lab.bluetoothd.kill(signal.SIGTERM)
    lab.start_bluetoothd("--experimental")
    lab.set_powered(True)
    journey = Journey(lab, configuration="[Presence]\nMonitors=always\n")
    app = App(journey)
    journey.picker("Dice 4F")
    accessory = app.add(item())
    dbus.Interface(lab.bus.get_object("org.bluez", lab.bluez_devices()[PINK_DICE]["path"], introspect=False), "org.bluez.Device1").Disconnect()
    app.session.ObservePresence(dbus.ObjectPath(accessory), True, signature="ob")
    news = lambda: [(bool(each["present"]), str(each["reason"])) for kind, each in app.events if kind == "presenceChanged"]
    wait = lambda *last: lab.wait_until(lambda: news()[-1:] == [last], 60, lambda: f"{last}; came {news()}")
    said = lambda text: sum(text in line for line in journey.daemon.lines)
    windows = lambda: said("presence: a window begins")
    wait(True, "advert")
    journey.daemon.wait_for("controllers monitor adverts", 30)
    lab.bluetoothd.wait_for("Calling DeviceFound.*monitors/1", 60)
    lab.wait_until(lambda: windows() == said("presence: the window ends"), 20, "the first windows to end")
    before = windows()
    lab.air.vanish("pink-dice")
    lab.bluetoothd.wait_for("Calling DeviceLost.*monitors/1", 60)
    wait(False, "advert")
    lab.air.bring_back("pink-dice")
    wait(True, "advert")
    expect(windows() == before, "it was searched for")
    # No monitor without bluetoothd, and another one with the next.
    lab.bluetoothd.kill(signal.SIGTERM)
    wait(False, "lost")
    lab.start_bluetoothd("--experimental")
    lab.set_powered(True)
    wait(True, "advert")
    lab.bluetoothd.wait_for("Calling DeviceFound.*monitors/", 60)


# Names

@check("dice.json", seconds=150)
def asks_for_a_name_and_tells_bluez(lab):
    journey, app = begin(lab)
    journey.picker("Dice 4F", "--rename", "Kitchen")
    accessory = app.add(item(setupOptions=["rename"]))
    app.expect_types("activated", "pickerDidPresent", "pickerSetupPairing", "pickerSetupRename", "accessoryAdded", "pickerDidDismiss")
    expect(app.properties(accessory)["DisplayName"] == "Kitchen", "the name is another")
    lab.wait_until(lambda: lab.bluez_devices()[PINK_DICE]["Alias"] == "Kitchen", 10, "the alias")


@check("dice.json", seconds=180)
def renames_for_the_app(lab):
    journey, app = begin(lab)
    journey.picker("Dice 4F")
    accessory = app.add(item())
    journey.picker("-", "--rename", "Hall")
    app.session.RenameAccessory(dbus.ObjectPath(accessory), sv({}), signature="oa{sv}")
    app.event("pickerDidDismiss", count=2)
    app.event("accessoryChanged")
    lab.wait_until(lambda: lab.bluez_devices()[PINK_DICE]["Alias"] == "Hall", 10, "the alias")
    journey.restart_daemon()
    expect(journey.listed()[PINK_DICE]["name"] == "Hall", "the name was not kept")


# The app's confirmation

@check("dice.json", seconds=150)
def waits_for_the_apps_word(lab):
    journey, app = begin(lab)
    journey.picker("Dice 4F")
    app.show(item(setupOptions=["confirmAuthorization"]))
    accessory = app.event("accessoryAdded")["accessory"]
    expect(app.properties(accessory)["State"] == "awaitingAuthorization", "it does not wait")
    journey.expect_bonds(PINK_DICE)
    app.session.FinishAuthorization(accessory, sv({}), signature="oa{sv}")
    app.event("pickerDidDismiss")
    expect(app.properties(accessory)["State"] == "authorized", "it is not authorized")
    journey.expect_set_up(PINK_DICE)


@check("dice.json", seconds=150)
def takes_back_what_the_app_fails(lab):
    journey, app = begin(lab)
    journey.picker("Dice 4F")
    app.show(item(setupOptions=["confirmAuthorization"]))
    accessory = app.event("accessoryAdded")["accessory"]
    app.session.FailAuthorization(accessory, signature="o", timeout=60)
    app.event("accessoryRemoved")
    app.event("pickerDidDismiss")
    journey.expect_nothing_left()


@check("dice.json", seconds=150)
def pairs_what_was_set_up_without(lab):
    journey, app = begin(lab)
    journey.picker("Dice 4F")
    accessory = app.add(item(pairs=False))
    journey.expect_bonds()
    journey.picker("Pink Dice")
    app.session.UpdateAuthorization(dbus.ObjectPath(accessory), sv(item()["descriptor"]), signature="oa{sv}")
    app.event("pickerDidDismiss", count=2)
    app.event("accessoryChanged")
    journey.expect_set_up(PINK_DICE)


# The app's filter

@check("dice.json", seconds=150)
def shows_only_what_the_app_has_looked_at(lab):
    journey, app = begin(lab)
    journey.picker("More Specific")
    app.show(item(), options=["filterDiscoveryResults"], discoveryTimeout=float("inf"))
    found = app.event("accessoryDiscovered")
    advert = found["advertisement"]
    expect(str(advert["localName"]) == "Dice 4F", f"it is called {advert.get('localName')}")
    expect([str(each).upper() for each in advert["serviceUUIDs"]] == [PINK_SERVICE], f"its services are {advert['serviceUUIDs']}")
    expect(-90 < int(found["rssi"]) < -20, f"its strength is {found['rssi']}")
    app.session.UpdatePicker(
        dbus.Array([sv({"name": "More Specific", "identifier": found["identifier"]})], "a{sv}"), signature="aa{sv}")
    added = app.event("accessoryAdded")
    expect(added["properties"]["BluetoothIdentifier"] == found["identifier"], "it has another identifier now")
    app.event("pickerDidDismiss")
    journey.expect_set_up(PINK_DICE)


@check("dice.json", seconds=120)
def ends_a_discovery_that_the_app_finishes(lab):
    journey, app = begin(lab)
    journey.picker("nothing")
    app.show(item(), options=["filterDiscoveryResults"], discoveryTimeout=float("inf"))
    app.event("accessoryDiscovered")
    app.session.FinishPickerDiscovery()
    expect(app.event("pickerDidDismiss")["error"] == f"{DAEMON_NAME}.Error.DiscoveryTimeout", "it ended otherwise")
    journey.expect_nothing_left()


@check({"accessories": []}, seconds=120)
def times_out(lab):
    journey, app = begin(lab)
    journey.picker("nothing")
    app.show(item(), discoveryTimeout=2.0)
    expect(app.event("pickerDidDismiss")["error"] == f"{DAEMON_NAME}.Error.DiscoveryTimeout", "it ended otherwise")
    journey.expect_nothing_left()


# Existing and lost state

@check("dice.json", seconds=180)
def takes_over_what_bluetoothd_has(lab):
    journey, app = begin(lab)
    BlueZ(lab).expect_paired(PINK_DICE)
    journey.picker("-", "--accept-passkey")
    app.show(item(peripheralIdentifier=PINK_DICE))
    migrated = app.event("migrationComplete")
    app.event("pickerDidDismiss")
    app.expect_types("activated", "pickerDidPresent", "migrationComplete", "pickerDidDismiss")
    expect(app.properties(migrated["accessory"])["Device"] == lab.bluez_devices()[PINK_DICE]["path"], "it is another device")
    journey.expect_set_up(PINK_DICE)
    app.session.RemoveAccessory(migrated["accessory"], signature="o", timeout=60)
    # The bond is another program's, and stays.
    expect(not journey.listed(), "it is listed still")
    journey.expect_bonds(PINK_DICE)


@check("dice.json", seconds=180)
def takes_over_along_with_a_new_one(lab):
    journey, app = begin(lab)
    BlueZ(lab).expect_paired(BLUE_DICE)
    picker = journey.picker("Dice 4F")
    try:
        app.show(item("Blue Dice", peripheralIdentifier=BLUE_DICE))
        raise CheckFailed("what is paired and is not what the item looks for is taken over")
    except dbus.DBusException as error:
        expect(error.get_dbus_name() == f"{DAEMON_NAME}.Error.InvalidRequest", f"it is refused with {error}")
    app.show(item("Blue Dice", peripheralIdentifier=BLUE_DICE, bluetoothServiceUUID=BLUE_SERVICE), item())
    app.event("pickerDidDismiss", 90)
    app.expect_types(
        "activated", "pickerDidPresent", "pickerSetupPairing", "accessoryAdded", "migrationComplete", "pickerDidDismiss")
    expect(picker.has("choosing one also gives the app access to accessories that are already paired: Blue Dice"), f"the picker says {picker.lines}")
    journey.expect_set_up(PINK_DICE, BLUE_DICE)


@check("dice.json", seconds=180)
def adds_again_what_lost_its_bond(lab):
    # The accessory was reset: its side of the bond is gone, ours is not.
    journey, app = begin(lab)
    journey.picker("Dice 4F")
    accessory = app.add(item())
    lab.air.forget("pink-dice")
    app.session.RemoveAccessory(dbus.ObjectPath(accessory), timeout=60)
    journey.expect_nothing_left()
    journey.picker("Dice 4F")
    app.show(item())
    app.event("accessoryAdded", count=2)
    app.event("pickerDidDismiss", count=2)
    journey.expect_set_up(PINK_DICE)


@check("dice.json", seconds=240)
def pairs_again_what_another_program_removed(lab):
    journey, app = begin(lab)
    journey.picker("Dice 4F")
    accessory = app.add(item())

    def state():
        return str(app.properties(accessory)["State"])

    # The service and its adapter come and go: the bond does not.
    lab.bluetoothd.kill(signal.SIGTERM)
    lab.start_bluetoothd()
    bluez = BlueZ(lab)
    bluez.adapter.RemoveDevice(dbus.ObjectPath(bluez.find(PINK_DICE, Paired=True)["path"]))
    expect(str(app.event("accessoryChanged")["properties"]["State"]) == "unauthorized", "the grant stands without the bond")
    journey.expect_bonds()
    journey.picker("Dice 4F")
    app.show(item())
    expect(str(app.event("accessoryAdded", count=2)["accessory"]) == accessory, "it is another accessory")
    app.event("pickerDidDismiss", count=2)
    expect(state() == "authorized", f"it is {state()}")
    journey.expect_set_up(PINK_DICE)
    app.expect_types(
        "activated", "pickerDidPresent", "pickerSetupPairing", "accessoryAdded", "pickerDidDismiss", "accessoryChanged", "pickerDidPresent",
        "pickerSetupPairing", "accessoryChanged", "accessoryAdded", "pickerDidDismiss")


@check(MODES, seconds=180)
def picks_a_private_address_after_it_has_rotated(lab):
    journey, app = begin(lab)
    picker = journey.picker("Works Later")
    app.show(item(pairs=True))
    app.event("pickerDidPresent")
    picker.kill()
    app.event("pickerDidDismiss")
    lab.air.rotate("private")
    journey.picker("Private")
    app.show(item())
    app.event("accessoryAdded", 90)
    app.event("pickerDidDismiss", count=2)
    lab.air.rotate("private")
    journey.expect_set_up("C0:FF:EE:00:01:08")


TWELVE = {"accessories": [
    {"id": f"twelve-{number}", "address": f"C0:FF:EE:00:03:{number:02X}",
     "adverts": [{"name": f"D{number:02}", "serviceUUIDs": [PINK_SERVICE], "interval": 0.2}]} for number in range(12)]}


@check(TWELVE, seconds=400)
def sets_twelve_up(lab):
    journey, app = begin(lab)
    for number in range(12):
        journey.picker(f"D{number:02}")
        app.show(item(f"Die {number}"))
        app.event("pickerDidDismiss", 60, count=number + 1)
        app.event("accessoryAdded", count=number + 1)
    journey.expect_set_up(*(each["address"] for each in TWELVE["accessories"]))


# Beside low energy

@check("dice.json", seconds=180)
def undoes_a_pairing_that_cannot_be_bridged(lab):
    journey, app = begin(lab)
    journey.picker("Dice 4F")
    app.show(item(supportedOptions=["bluetoothPairingLE", "bluetoothTransportBridging"]))
    app.event("pickerSetupBridging")
    expect("classic" in app.event("pickerSetupFailed", 90)["message"], "the message is another")
    app.event("pickerDidDismiss")
    journey.expect_nothing_left()


KEYBOARD = {"accessories": [{
    "id": "keyboard", "address": "C0:FF:EE:00:04:01",
    "adverts": [{"serviceUUIDs": [PINK_SERVICE], "interval": 0.2, "scanResponse": {"name": "Keyboard", "serviceUUIDs": ["1812"]}}],
    "gatt": [{"uuid": "1812", "characteristics": [
        {"uuid": "2A4A", "flags": ["read"], "value": "11010003"},
        # One key: usage page keyboard, usage keyboard, an application collection with one bit.
        {"uuid": "2A4B", "flags": ["read"], "value": "05010906a101050719e029e71500250175019508810295017508810395057501050819012905910295017503910395067508150025650507190029658100c0"},
        {"uuid": "2A4C", "flags": ["write-without-response"], "value": "00"},
    ]}],
}]}


@check(KEYBOARD, seconds=180)
def sets_a_keyboard_up(lab):
    journey, app = begin(lab)
    journey.picker("Keyboard")
    app.add(item("Keyboard", supportedOptions=["bluetoothPairingLE", "bluetoothHID"]))
    device = lab.bluez_devices()["C0:FF:EE:00:04:01"]
    expect(device["Trusted"] and device["Connected"], "it is not trusted, or not connected")
    names = [each.read_text().strip() for each in Path("/sys/class/input").glob("input*/uniq")]
    expect("c0:ff:ee:00:04:01" in [each.lower() for each in names], f"the kernel has {names}")


# Who may show pickers

@check("dice.json", seconds=180)
def lets_members_of_the_picker_group_pick(lab):
    subprocess.run(["groupadd", "--force", "--system", "accessory-picker"], check=True)
    group = grp.getgrnam("accessory-picker").gr_gid
    journey, app = begin(lab)
    # Where the project lies, others than root may not be let in.
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    program = shutil.copy2(lab.accessoryctl, place)

    def picker(name, *groups):
        return lab.start(
            name, "setpriv", "--reuid", "nobody", "--regid", "nogroup", *groups, program, "picker", "--pick", "Dice 4F")

    outsider = picker("outsider", "--clear-groups")
    expect(outsider.wait_exit(20) == 1, "an outsider may show pickers")
    expect(outsider.has("accessory-picker"), f"the refusal says {outsider.lines}")
    member = picker("member", "--groups", str(group))
    member.wait_for("waiting for a picker", 20)
    app.add(item())
    expect(member.wait_exit(20) == 0, f"the member's picker ended with an error: {member.lines[-1:]}")
    journey.expect_set_up(PINK_DICE)
