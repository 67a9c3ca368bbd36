# SPDX-License-Identifier: Apache-2.0
"""The journeys of a person with the project on a real radio stack: the daemon, the sample app and the terminal picker that
answers by itself. The session API defines the expected results; bluetoothd's way there does not matter here."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import dbus

import bluez_versions
from bluez import BlueZ
from framework import DIRECTORY, check
from lab import DAEMON_NAME, STANDSTILL, expect

PINK_DICE = "C0:FF:EE:00:00:01"
PINK_SERVICE = "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
# Of an accessory that only advertises the one above.
ITS_SERVICE = "00001815-0000-1000-8000-00805f9b34fb"
BLUE_DICE = "C0:FF:EE:00:00:02"
ADDED = ["activated", "pickerDidPresent", "pickerSetupPairing", "accessoryAdded", "pickerDidDismiss"]
FAILED = ["activated", "pickerDidPresent", "pickerSetupPairing", "pickerSetupFailed", "pickerDidDismiss"]
ENDED = ["activated", "pickerDidPresent", "pickerDidDismiss"]
MODES = "pairing-modes.json"

MANIFEST = """\
[Application]
Id={id}
Name={name}
Executable={executables}

[AccessorySetup]
Supports=Bluetooth;
{declared}
"""
DICE = {"BluetoothServices": "E56A082E-C49B-47CA-A2AB-389127B8ABE3;0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7;"}


class Journey:
    """One app, one picker, one daemon; each is started again as often as the story wants. `more` are other programs of
    the app's."""

    def __init__(self, lab, *more, configuration=""):
        self.lab = lab
        self.apps = lab.state / "apps"
        self.apps.mkdir()
        self.declare("com.example.dice", "Dice", lab.bin / "dice", *more)
        self._configuration = lab.state / "accessorysetupd.conf"
        self._configuration.write_text(configuration)
        self.daemon = None
        self.start_daemon()

    def declare(self, identifier, name, *executables, keys=DICE):
        paths = ";".join(str(each.resolve()) for each in executables)
        declared = "\n".join(f"{key}={value}" for key, value in keys.items())
        (self.apps / f"{identifier}.conf").write_text(MANIFEST.format(id=identifier, name=name, executables=paths, declared=declared))

    def start_daemon(self, **environment):
        self.daemon = self.lab.start_daemon("--apps", self.apps, "--config", self._configuration, environment=environment)
        self.wait_for_bluetooth("ready")

    def restart_daemon(self, number=signal.SIGTERM, **environment):
        status = self.daemon.kill(number)
        if number == signal.SIGTERM:
            expect(status == 0, f"accessorysetupd ended with {status}")
        self.start_daemon(**environment)

    def picker(self, pick, *options):
        picker = self.lab.start("picker", self.lab.accessoryctl, "picker", "--pick", pick, *options)
        picker.wait_for("waiting for a picker", 20)
        return picker

    def app(self, *options, executable=None, name="dice", environment={}):
        return self.lab.start(
            name, executable or self.lab.bin / "dice", "--timeout", STANDSTILL * 90, *options, environment=environment)

    def add(self, pick, *options):
        """The whole way with one accessory; returns app and picker, with the accessory added."""
        picker = self.picker(pick, *options)
        app = self.app()
        app.wait_for("event accessoryAdded", 60)
        app.wait_for("event pickerDidDismiss", 10)
        return app, picker

    def expect_added(self, pick, address, *options):
        """Adds an accessory and sees that it is there in every respect: events, rolls, bond and grant."""
        app, picker = self.add(pick, *options)
        self.expect_rolls(app)
        expect_events(app, ADDED)
        self.expect_set_up(address)
        return app, picker

    def expect_rolls(self, app):
        app.wait_for(r"rolled \d", 60)
        expect(app.wait_exit(60) == 0, f"{app.name} ended with an error: {app.lines[-1:]}")

    def expect_set_up(self, *addresses):
        """These, and nothing else, have a grant; they have a bond in bluetoothd's store, and nothing else has."""
        listed = self.listed()
        expect(set(listed) == set(addresses), f"accessoryctl lists {sorted(listed)}")
        self.expect_bonds(*addresses)

    def expect_bonds(self, *addresses):
        self.lab.wait_until(
            lambda: set(self.lab.bonds()) == set(addresses), 20, f"bonds with {sorted(addresses) or 'nobody'}")

    def expect_nothing_left(self):
        """No grant, no bond, in bluetoothd's store or its memory, and no scan of ours."""
        self.expect_set_up()
        paired = [address for address, device in self.lab.bluez_devices().items() if device["Paired"]]
        expect(paired == [], f"BlueZ says that {paired} are paired")
        self.lab.wait_until(lambda: not self.discovering, 20, "discovery to end")

    def expect_usable(self):
        """The earlier failure has broken nothing: the next accessory can be set up."""
        self.expect_added("Works", "C0:FF:EE:00:01:01")

    def expect_failed(self, pick, *options, seconds=60):
        """An attempt at an accessory that ends without it; returns the app."""
        picker = self.picker(pick, *options)
        app = self.app()
        app.wait_for("event pickerSetupFailed: .+", seconds)
        app.wait_for("event pickerDidDismiss: .+", 20)
        expect(app.wait_exit() == 1, "dice does not say that it failed")
        expect(picker.wait_exit() == 1, "the picker does not say that it failed")
        expect_events(app, FAILED)
        self.expect_nothing_left()
        return app

    # Output of the daemon and of the admin's tool

    def listed(self):
        """The output of `accessoryctl list --json`: address → entry."""
        listing = self.lab.start("list", self.lab.accessoryctl, "list", "--json")
        expect(listing.wait_exit(20) == 0, f"accessoryctl list ended with an error: {listing.lines[-1:]}")
        return {each["address"]: each for each in json.loads("\n".join(listing.lines))}

    def grants(self):
        listing = self.lab.start("grants", self.lab.accessoryctl, "grants", "--json")
        expect(listing.wait_exit(20) == 0, f"accessoryctl grants ended with an error: {listing.lines[-1:]}")
        return json.loads("\n".join(listing.lines))

    def admin(self, *words):
        command = self.lab.start("accessoryctl", self.lab.accessoryctl, *words)
        expect(command.wait_exit(60) == 0, f"accessoryctl {words[0]} ended with an error: {command.lines[-1:]}")

    @property
    def bluetooth(self):
        root = self.lab.bus.get_object(DAEMON_NAME, "/org/accessorysetup1", introspect=False)
        return str(root.Get("org.accessorysetup1.Manager", "Bluetooth", dbus_interface=dbus.PROPERTIES_IFACE))

    def wait_for_bluetooth(self, state, seconds=30):
        self.lab.wait_until(lambda: self.bluetooth == state, seconds, f"Manager.Bluetooth to be “{state}”")

    @property
    def discovering(self):
        return bool(self.lab.bluez_objects()["/org/bluez/hci0"]["org.bluez.Adapter1"]["Discovering"])


def events(app):
    return [found[1] for line in app.lines if (found := re.match(r"event (\w+)", line))]


def expect_events(app, expected):
    found = events(app)[: len(expected)]
    expect(found == expected, f"{app.name} got the events {events(app)}")


# Journey 1: add

@check("dice.json", seconds=120)
def adds_the_pink_dice(lab):
    journey = Journey(lab)
    _, picker = journey.expect_added("Dice 4F", PINK_DICE)
    expect(picker.wait_exit() == 0, "the picker does not say that it was set up")
    offered = [line for line in picker.lines if line.startswith("offered:")]
    expect(offered and all(re.match("offered: (Pink|Blue) Dice ", line) for line in offered), f"the picker says {offered}")
    expect("authorized" in journey.listed()[PINK_DICE]["state"], "the accessory is not authorized")
    lab.wait_until(lambda: not journey.discovering, 20, "discovery to end")


@check("dice.json", seconds=120, start=False)
def offers_the_dice_only(lab):
    # The person waits until everything on the air has been heard, the phone that calls itself “Pink Dice” and soon
    # goes, too.
    journey = Journey(lab)
    picker = journey.picker("Nobody")
    app = journey.app("--discovery-timeout", STANDSTILL * 60)
    lab.wait_until(lambda: journey.discovering, 30, "discovery")
    lab.air.start()
    for name in ("Dice 4F", "Dice A2"):
        lab.wait_until(lambda: picker.has(f"offered: .*“{name}”"), 30, f"{name} to be offered")
    lab.wait_until(lambda: {"Lamp", "Pink Dice"} <= {str(device.get("Name")) for device in lab.bluez_devices().values()},
                   30, "BlueZ to have heard everything")
    picker.kill(signal.SIGTERM)
    app.wait_for("event pickerDidDismiss: .+", 20)
    app.wait_for("userCancelled", 10)
    for line in picker.lines:
        if line.startswith("offered:"):
            ours = re.match("offered: (Pink Dice  (“Dice 4F”  )?|Blue Dice  (“Dice A2”  )?)[▮▯]{4} ", line)
            expect(ours, f"the picker says {line}")
    journey.expect_nothing_left()


# Journey 2: come back

def _keeps_no_keys():
    """The dice, of which the pink one is paired as long as a link lasts."""
    air = json.loads((DIRECTORY.parent / "Scenarios/dice.json").read_text())
    for accessory in air["accessories"]:
        if accessory.get("address") == PINK_DICE:
            accessory["pairing"] = {"mode": "justWorks", "bonding": False}
    return air


@check(_keeps_no_keys(), seconds=120)
def sets_up_what_keeps_no_keys(lab):
    journey = Journey(lab)
    app, _ = journey.add("Dice 4F")
    journey.expect_rolls(app)
    journey.daemon.wait_for("paired without a bond", 10)
    lab.air.wait_for("pink-dice: disconnected", 60)
    journey.expect_bonds()
    expect(set(journey.listed()) == {PINK_DICE}, f"accessoryctl lists {sorted(journey.listed())}")
    # It goes on being the app's, over another link, and after the daemon was started again.
    journey.expect_rolls(journey.app())
    journey.restart_daemon()
    journey.expect_rolls(journey.app())
    journey.admin("remove", "Pink Dice")
    journey.expect_nothing_left()


@check("dice.json", seconds=150)
def comes_back(lab):
    journey = Journey(lab)
    journey.expect_added("Dice 4F", PINK_DICE)
    for restart in (lambda: None, journey.restart_daemon):
        restart()
        app = journey.app()
        app.wait_for("Pink Dice is already set up", 30)
        journey.expect_rolls(app)
        expect(events(app) == ["activated"], f"the app got the events {events(app)}")
    journey.expect_set_up(PINK_DICE)


@check("dice.json", seconds=150)
def comes_back_after_a_restart_of_everything(lab):
    journey = Journey(lab)
    journey.expect_added("Dice 4F", PINK_DICE)
    journey.daemon.kill(signal.SIGTERM)
    lab.bluetoothd.kill(signal.SIGTERM)
    lab.start_bluetoothd()
    lab.set_powered(True)
    journey.start_daemon()
    app = journey.app()
    app.wait_for("Pink Dice is already set up", 30)
    journey.expect_rolls(app)


@check("dice.json", seconds=150)
def comes_back_after_power_is_cut(lab):
    journey = Journey(lab)
    journey.expect_added("Dice 4F", PINK_DICE)
    journey.daemon.kill(signal.SIGKILL)
    lab.bluetoothd.kill(signal.SIGKILL)
    lab.start_bluetoothd()
    lab.set_powered(True)
    journey.start_daemon()
    journey.expect_rolls(journey.app())
    journey.expect_set_up(PINK_DICE)


# Journey 3: share

def with_a_second_app(lab):
    journey = Journey(lab)
    second = lab.state / "second-sample"
    shutil.copy2(lab.bin / "dice", second)
    journey.declare("com.example.second", "Second", second)
    journey.restart_daemon()
    return journey, second


def begin_to_share(lab):
    """A journey with a second app, and the pink dice set up for the first."""
    journey, second = with_a_second_app(lab)
    journey.expect_added("Dice 4F", PINK_DICE)
    return journey, second


@check("dice.json", seconds=150)
def shares_what_is_connected_to_the_first_app(lab):
    # It does not advertise then.
    journey, second = begin_to_share(lab)
    journey.app("--rolls", "100000", name="first-sample").wait_for(r"rolled \d", 60)
    expect(lab.bluez_devices()[PINK_DICE]["Connected"], "it is not connected")
    journey.picker("Dice 4F")
    journey.expect_rolls(journey.app(executable=second, name="second-sample"))


@check("dice.json", seconds=150)
def shares_with_a_second_app(lab):
    journey, second = begin_to_share(lab)
    BlueZ(lab).device_call(PINK_DICE, "Disconnect").wait()
    picker = journey.picker("Dice 4F")
    app = journey.app(executable=second, name="second-sample")
    journey.expect_rolls(app)
    expect_events(app, ["activated", "pickerDidPresent", "accessoryAdded", "pickerDidDismiss"])
    expect(picker.has("offered: Pink Dice .* shared with another app"), f"the picker says {picker.lines}")
    expect(sum("pairing started" in line for line in lab.air.log.lines) == 1, "it was paired again")
    expect(sorted(each["app"] for each in journey.grants()) == ["com.example.dice", "com.example.second"],
           f"the grants are {journey.grants()}")

    # The apps share the bond until the last grant ends.
    journey.expect_rolls(journey.app("--remove"))
    journey.expect_set_up(PINK_DICE)
    journey.expect_rolls(journey.app("--remove", executable=second, name="second-sample"))
    journey.expect_nothing_left()


@check({"accessories": [{
    "id": "pink-dice", "address": PINK_DICE, "adverts": [{"serviceUUIDs": [PINK_SERVICE], "scanResponse": {"name": "Dice 4F"}}],
    "gatt": [{"uuid": "1815", "characteristics": [{"uuid": "2A56", "flags": ["read"], "value": "00"}]}],
}]}, seconds=150)
def shares_what_advertises_a_service_that_it_has_not(lab):
    journey, second = with_a_second_app(lab)
    for app in (lab.bin / "dice", second):
        journey.picker("Dice 4F")
        adding = lab.start(app.name, app, "add")
        expect(adding.wait_exit(90) == 0, f"{app.name} ended with an error: {adding.lines[-1:]}")
        lab.wait_until(lambda: ITS_SERVICE in lab.bluez_devices()[PINK_DICE]["UUIDs"], 30, "its services to be known")
        # From now on bluetoothd may report those alone.
        tells = PINK_SERVICE.lower() in lab.bluez_devices()[PINK_DICE]["UUIDs"]
        expect(tells == bluez_versions.tells_what_was_only_advertised(),
               f"the service that it has not is {'still' if tells else 'no longer'} among its UUIDs")
        if lab.bluez_devices()[PINK_DICE]["Connected"]:
            BlueZ(lab).device_call(PINK_DICE, "Disconnect").wait()
    expect(sorted(each["app"] for each in journey.grants()) == ["com.example.dice", "com.example.second"],
           f"the grants are {journey.grants()}")


# Every way of pairing

@check(MODES, seconds=120)
def pairs_with_a_passkey_shown_by_the_accessory(lab):
    _, picker = Journey(lab).expect_added("Shows Passkey", "C0:FF:EE:00:01:03", "--passkey", "42913")
    expect(picker.has("Which number does the accessory show"), f"the picker says {picker.lines}")
    expect(lab.air.bonds("shows-passkey")[0]["authenticated"], "the bond is not authenticated")


@check(MODES, seconds=120)
def pairs_with_a_passkey_entered_at_the_accessory(lab):
    journey = Journey(lab)
    picker = journey.picker("Takes Passkey")
    app = journey.app()
    shown = picker.wait_for(r"Enter (\d{6}) on the accessory", 60)[1]
    lab.air.enter_passkey("takes-passkey", shown)
    journey.expect_rolls(app)
    expect_events(app, ADDED)
    journey.expect_set_up("C0:FF:EE:00:01:04")
    expect(lab.air.bonds("takes-passkey")[0]["authenticated"], "the bond is not authenticated")


@check(MODES, seconds=120)
def pairs_with_numbers_that_the_person_accepts(lab):
    _, picker = Journey(lab).expect_added("Compares", "C0:FF:EE:00:01:05", "--accept-passkey")
    shown = lab.air.shown_passkey("compares")
    expect(picker.has(f"Does the accessory show {shown:06}"), f"{shown:06} was not shown: {picker.lines}")
    expect(lab.air.bonds("compares")[0]["authenticated"], "the bond is not authenticated")


@check(MODES, seconds=150)
def fails_with_numbers_that_the_person_refuses(lab):
    journey = Journey(lab)
    journey.expect_failed("Compares")
    lab.air.wait_for("compares: pairing failed", 20)
    journey.expect_usable()


@check(MODES, seconds=120)
def pairs_with_legacy_just_works(lab):
    Journey(lab).expect_added("Legacy", "C0:FF:EE:00:01:07")
    lab.air.wait_for("legacy: paired, legacy")


@check(MODES, seconds=150)
def keeps_a_private_address_by_its_identity(lab):
    journey = Journey(lab)
    journey.expect_added("Private", "C0:FF:EE:00:01:08")
    lab.air.rotate("private")
    journey.restart_daemon()
    journey.expect_rolls(journey.app())
    journey.expect_set_up("C0:FF:EE:00:01:08")
    journey.expect_rolls(journey.app("--remove"))
    journey.expect_nothing_left()


# Pairing that fails

@check(MODES, seconds=150)
def fails_when_the_accessory_refuses(lab):
    journey = Journey(lab)
    journey.expect_failed("Refuses")
    journey.expect_usable()


@check(MODES, seconds=150)
def fails_when_the_accessory_cannot_pair(lab):
    journey = Journey(lab)
    journey.expect_failed("No Pairing")
    journey.expect_usable()


@check(MODES, seconds=150)
def fails_when_the_accessory_disagrees(lab):
    journey = Journey(lab)
    journey.expect_failed("Disagrees", "--accept-passkey")
    journey.expect_usable()


@check(MODES, seconds=150)
def fails_when_the_accessory_vanishes(lab):
    journey = Journey(lab)
    journey.expect_failed("Vanishes")
    lab.air.wait_for("vanishes: vanishes")
    journey.expect_usable()


@check(MODES, seconds=150)
def fails_when_the_link_drops(lab):
    journey = Journey(lab)
    journey.expect_failed("Drops")
    journey.expect_usable()


@check(MODES, seconds=150)
def fails_with_the_wrong_key(lab):
    journey = Journey(lab)
    journey.expect_failed("Wrong Key", "--passkey", "111111")
    journey.expect_usable()


@check(MODES, seconds=150)
def fails_with_a_mistyped_passkey_and_works_with_the_right_one(lab):
    journey = Journey(lab)
    journey.expect_failed("Shows Passkey", "--passkey", "42914")
    journey.expect_added("Shows Passkey", "C0:FF:EE:00:01:03", "--passkey", "42913")


@check(MODES, seconds=150)
def works_at_the_second_try(lab):
    journey = Journey(lab)
    journey.expect_failed("Works Later")
    journey.expect_added("Works Later", "C0:FF:EE:00:01:02")


@check(MODES, seconds=180)
def fails_when_nobody_answers(lab):
    journey = Journey(lab)
    journey.expect_failed("Silent", seconds=90)
    journey.expect_usable()


@check(MODES, seconds=150)
def leaves_nothing_when_the_person_cancels_a_pairing(lab):
    journey = Journey(lab)
    picker = journey.picker("Silent")
    app = journey.app()
    lab.air.wait_for("silent: pairing started", 60)
    picker.kill(signal.SIGTERM)
    app.wait_for("event pickerDidDismiss: .+", 30)
    app.wait_for("userCancelled", 10)
    journey.expect_nothing_left()
    journey.expect_usable()


@check(MODES, seconds=150)
def leaves_nothing_when_the_app_dies_in_a_pairing(lab):
    journey = Journey(lab)
    picker = journey.picker("Slow")
    app = journey.app()
    lab.air.wait_for("slow: pairing started", 60)
    app.kill()
    expect(picker.wait_exit(30) == 1, "the picker does not say that nothing was set up")
    journey.expect_nothing_left()
    journey.expect_usable()


# Journey 4: manage

@check("dice.json", seconds=150)
def removes_for_the_app(lab):
    journey = Journey(lab)
    journey.picker("Dice 4F")
    app = journey.app("--remove")
    journey.expect_rolls(app)
    expect_events(app, [*ADDED, "accessoryRemoved"])
    journey.expect_nothing_left()
    journey.expect_added("Dice 4F", PINK_DICE)


@check("dice.json", seconds=150)
def revokes_for_the_admin(lab):
    journey = Journey(lab)
    journey.expect_added("Dice 4F", PINK_DICE)
    app = journey.app("--rolls", "100000")
    app.wait_for(r"rolled \d", 60)
    journey.admin("revoke", str(journey.grants()[0]["id"]))
    app.wait_for("event accessoryRemoved “Pink Dice”", 20)
    journey.expect_nothing_left()
    lab.air.wait_for("pink-dice: disconnected", 20)


@check("dice.json", seconds=150)
def removes_for_the_admin(lab):
    journey = Journey(lab)
    journey.expect_added("Dice A2", BLUE_DICE, "--accept-passkey")
    journey.admin("remove", BLUE_DICE)
    journey.expect_nothing_left()
    journey.expect_added("Dice 4F", PINK_DICE)


# The data path: the app has nothing but its view of org.bluez

VIEW = "unix:path=/run/accessory-setup/bus"


@check("dice.json", seconds=180)
def lives_on_its_view_of_bluez(lab):
    journey = Journey(lab)
    journey.picker("Pink Dice")
    app = journey.app("--rolls", "1000", environment={"DBUS_SYSTEM_BUS_ADDRESS": VIEW})
    app.wait_for("event accessoryAdded", 60)
    app.wait_for(r"rolled \d", 60)
    # Another program on the same socket sees an adapter without power, and no device.
    stranger = lab.start("stranger", "busctl", "tree", "--list", "org.bluez", environment={"DBUS_SYSTEM_BUS_ADDRESS": VIEW})
    expect(stranger.wait_exit(20) == 0, f"busctl ended with an error: {stranger.lines[-1:]}")
    expect(stranger.lines[-1] == "/org/bluez/hci0", f"a stranger sees {stranger.lines}")
    expect(connected(lab) == [PINK_DICE], f"connected are {connected(lab)}")
    # In the middle of notifications.
    journey.admin("revoke", "1")
    expect(app.wait_exit(30) == 1, f"dice went on: {app.lines[-2:]}")
    lab.wait_until(lambda: connected(lab) == [], 20, "the link to be dropped")
    journey.expect_nothing_left()


ROLLS = "0000ff3f-0000-1000-8000-00805f9b34fb"
WRITABLE = {"accessories": [{
    "id": "pink", "address": PINK_DICE, "adverts": [{"serviceUUIDs": [PINK_SERVICE], "scanResponse": {"name": "Pink"}}],
    "gatt": [{"uuid": PINK_SERVICE, "characteristics": [
        {"uuid": "FF3F", "flags": ["read", "write", "write-without-response", "notify"], "value": "01",
         "notify": {"interval": 0.3, "values": ["01", "03"]}}]}],
}]}


@check(WRITABLE, seconds=180)
def answers_and_signals_come_in_bluetoothds_order(lab):
    """One recorder on the system bus and on the view: clients rely on the order."""
    python = Path(os.environ["LAB_PYTHON"])
    journey = Journey(lab, python)
    journey.add("Pink Dice")
    device = "/org/bluez/hci0/dev_" + PINK_DICE.replace(":", "_")
    BlueZ(lab).device_call(PINK_DICE, "Disconnect").wait()

    def record(name, bus):
        recorder = lab.start(name, python, "-B", DIRECTORY / "apps/recorder.py", device, ROLLS, environment={"DBUS_SYSTEM_BUS_ADDRESS": bus})
        expect(recorder.wait_exit(120) == 0, f"the recorder on {bus}: {recorder.lines[-1:]}")
        return json.loads(recorder.lines[-1])

    there, here = record("recorder-bus", "unix:path=/run/dbus/system_bus_socket"), record("recorder-view", VIEW)
    differences = [f"{name}: {there[name]}, on the view {here[name]}" for name in there if there[name] != here[name]]
    expect(not differences, "\n".join(differences))


def connected(lab):
    return [address for address, device in lab.bluez_devices().items() if device["Connected"]]
