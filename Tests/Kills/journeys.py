# SPDX-License-Identifier: Apache-2.0
"""The journeys in which the daemon is killed. Each has its preparation, its actions, and its invariants beyond the common
ones."""

import contextlib
import json
import sqlite3

import dbus

import invariants
from harness.names import ACCESSORY, GRANT, PINK, PROPERTIES, SOMEBODY_ELSE
from harness.programs import BIN, TESTS
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait

CLASSIC = "00:11:22:33:44:55"
ALL = {}


class Journey:
    """A journey; subclasses register themselves by their names."""

    scenario = scenario(accessory("pink"), accessory("other", 2))
    apps = ("dice", "lamp")
    manifest = {}
    # Bonds that other programs made before, by the paths of BlueZ' objects, and by the accessories' names.
    paired_by_others = ()
    bonds_of_others = ()
    # Beginnings of names of files that stay besides the store's own.
    kept_files = ()
    # Accessories whose networks were joined before the trail begins.
    joined_before = ()
    # Whether the moments of the daemon's start count, too.
    with_start = False
    # Whether it is not the daemon that is ended, but a program of ours that it runs beside.
    tool_is_ended = False

    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        if not cls.__name__.startswith("_"):
            ALL["".join("_" * (n > 0 and c.isupper()) + c.lower() for n, c in enumerate(cls.__name__))] = cls

    def prepare(self, stage):
        """Makes the initial state, with a daemon that is not killed."""

    def between(self, stage):
        """Changes while no daemon runs, right before the one that is killed."""

    def act(self, stage):
        """The actions during which the daemon is killed."""
        raise NotImplementedError

    def look(self, stage):
        """The required state after the complete journey."""

    def look_after(self, stage, before):
        """The invariants after a kill at any moment; `before` is the store before the journey."""

    def again(self, stage):
        """The next one of the kind."""
        self.prepare(stage)
        self.act(stage)

    def clear(self, stage):
        """Undoes everything that the removal of all accessories leaves."""


# Set-ups

class _SetUp(Journey):
    pairing = {}
    keys = {}
    name = "pink"
    item = item()
    answer = None

    def __init__(self):
        self.scenario = scenario(accessory("pink", pairing=self.pairing, **self.keys), accessory("other", 2))

    def act(self, stage):
        stage.add(self.name, self.item, answer=self.answer)

    def look(self, stage):
        invariants.expect(len(stage.accessories) == 1, "nothing was set up")


class SetUp(_SetUp):
    """Just Works: no person is asked."""


class SetUpComparing(_SetUp):
    pairing = {"mode": "numericComparison"}
    answer = {"accept": True}


class SetUpWithPasskey(_SetUp):
    pairing = {"mode": "displayPasskey", "passkey": 42}
    answer = {"passkey": dbus.UInt32(42)}


class SetUpWithPin(_SetUp):
    pairing = {"mode": "pin", "pin": "4711"}
    answer = {"pin": "4711"}


class SetUpOfPrivateAddress(_SetUp):
    keys = {"addressType": "rpa"}


class SetUpOfInputDevice(_SetUp):
    keys = {"input": True}
    item = item(supportedOptions=["bluetoothPairingLE", "bluetoothHID"])


class SetUpBridged(_SetUp):
    keys = {"addressType": "public", "transport": "dual"}
    item = item(supportedOptions=["bluetoothPairingLE", "bluetoothTransportBridging"])


class SetUpWithoutPairing(_SetUp):
    item = item(pairs=False)


class SetUpWithName(_SetUp):
    item = item(setupOptions=["rename"])

    def act(self, stage):
        person, app = stage.person(), stage.app()
        app.show_picker(self.item)
        person.pick("pink")
        person.wait_stage("renaming")
        person.ask("Rename", "s", "Kitchen")
        app.wait_event("pickerDidDismiss")


class SetUpByClaimList(_SetUp):
    """No person is asked: an entry of a list is used up with the grant, and never without."""

    lists = 0

    def prepare(self, stage):
        self.lists += 1
        path = stage.world.policy.parent / "claims.d" / "list.conf"
        path.parent.mkdir(exist_ok=True)
        before = ChangeOfPolicy.read(stage)
        path.write_text(
            f"[Claims]\nId=list-{self.lists}\nApp=com.example.dice\nFrom=2020-01-01T00:00:00Z\nUntil=2100-01-01T00:00:00Z\n"
            "SerialInName=*\n[Entries]\nserial,name\npink,Kitchen\n")
        wait(lambda: ChangeOfPolicy.read(stage) > before, 10, "the list to be read")

    def act(self, stage):
        app = stage.app()
        app.show_picker(self.item)
        app.wait_event("pickerDidDismiss")

    def look_after(self, stage, before):
        with contextlib.closing(sqlite3.connect(f"file:{stage.world.state / 'grants.sqlite'}?mode=ro", uri=True)) as store:
            used = store.execute("SELECT accessory FROM claim WHERE list = ?", (f"list-{self.lists}",)).fetchall()
        granted = [(each["accessory"],) for each in invariants.Store(stage.world).grants.values()]
        invariants.expect(used == granted, lambda: f"used are {used}, granted are {granted}")


class FailingSetUp(_SetUp):
    """The accessory says no, and the person gives up."""

    pairing = {"mode": "numericComparison", "confirms": False}

    def act(self, stage):
        person, app = stage.person(), stage.app()
        app.show_picker(item())
        person.pick("pink")
        person.wait_stage("confirming")
        person.respond(accept=True)
        app.wait_event("pickerSetupFailed")
        person.cancel()
        app.wait_event("pickerDidDismiss")

    def look(self, stage):
        found = {stage.ids[each["address"]] for each in invariants.Store(stage.world).accessories.values()}
        invariants.expect("pink" not in found, "it was set up")

    def look_after(self, stage, before):
        self.look(stage)

    def again(self, stage):
        stage.add("other")


class CancelledSetUp(FailingSetUp):
    """The person closes the picker while a number is compared."""

    pairing = {"mode": "numericComparison"}

    def act(self, stage):
        person, app = stage.person(), stage.app()
        app.show_picker(item())
        person.pick("pink")
        person.wait_stage("confirming")
        person.cancel()
        app.wait_event("pickerDidDismiss")


class _Confirmed(Journey):
    options = {}

    def begin(self, stage):
        person, app = stage.person(), stage.app()
        app.show_picker(item(setupOptions=["confirmAuthorization"], **self.options))
        person.pick("pink")
        return app, app.wait_event("accessoryAdded")["accessory"]


class FinishedAuthorization(_Confirmed):
    def act(self, stage):
        app, path = self.begin(stage)
        app.request("FinishAuthorization", "oa{sv}", dbus.ObjectPath(path), sv({}))
        app.wait_event("pickerDidDismiss")

    def look(self, stage):
        invariants.expect([each["State"] for each in stage.world.grants().values()] == ["authorized"], "it is not authorized")


class FailedAuthorization(_Confirmed):
    def act(self, stage):
        app, path = self.begin(stage)
        app.request("FailAuthorization", "o", dbus.ObjectPath(path))
        app.wait_event("pickerDidDismiss")


class BridgedLater(_Confirmed):
    """The classic side has an address of its own, which the app names."""

    scenario = scenario(
        accessory("pink"), {**accessory("classic", 5, addressType="public", transport="bredr"), "address": CLASSIC})
    options = {"supportedOptions": ["bluetoothPairingLE", "bluetoothTransportBridging"]}

    def act(self, stage):
        app, path = self.begin(stage)
        settings = {"bluetoothTransportBridgingIdentifier": bytes.fromhex(CLASSIC.replace(":", ""))}
        app.request("FinishAuthorization", "oa{sv}", dbus.ObjectPath(path), sv(settings))
        app.wait_event("pickerDidDismiss")


class Sharing(Journey):
    """A second app gets the first one's accessory."""

    def prepare(self, stage):
        stage.add("pink")

    def act(self, stage):
        stage.add("pink", app=stage.app("lamp", SOMEBODY_ELSE))

    def look(self, stage):
        invariants.expect(len(stage.world.grants()) == 2, "there are not two grants")


class Migration(Journey):
    """Two accessories that another program has paired."""

    scenario = scenario(accessory("pink"), accessory("blue", 2))
    paired_by_others = tuple(f"/org/bluez/hci0/dev_C0_FF_EE_00_02_0{number}" for number in (1, 2))
    bonds_of_others = ("pink", "blue")

    def act(self, stage):
        person, app = stage.person(), stage.app()
        app.show_picker(*(item(name) | {"peripheralIdentifier": f"C0:FF:EE:00:02:0{number}"}
                          for number, name in ((1, "Pink Dice"), (2, "Blue Dice"))))
        person.wait_prompt("consent")
        person.respond(accept=True)
        app.wait_event("pickerDidDismiss")

    def look(self, stage):
        invariants.expect(len(stage.accessories) == 2, "not both were taken over")


# Changes of accessories

class _WithAccessory(Journey):
    def prepare(self, stage):
        stage.add("pink")

    @staticmethod
    def grant(stage):
        [path] = stage.world.grants()
        return path


class RemovalByApp(_WithAccessory):
    def act(self, stage):
        [path] = stage.accessories
        stage.app().remove(path)


class RemovalByAdmin(_WithAccessory):
    def act(self, stage):
        [path] = stage.accessories
        stage.world.admin.call(path, ACCESSORY, "Remove")


class RemovalOfBothSides(BridgedLater):
    def prepare(self, stage):
        BridgedLater.act(self, stage)

    def act(self, stage):
        [path] = stage.accessories
        stage.world.admin.call(path, ACCESSORY, "Remove")


class RevocationOfOne(Sharing):
    """One of two apps loses the accessory, and the bond stays."""

    def prepare(self, stage):
        stage.add("pink")
        stage.add("pink", app=stage.app("lamp", SOMEBODY_ELSE))

    def act(self, stage):
        stage.world.admin.call(min(stage.world.grants()), GRANT, "Revoke")

    def look(self, stage):
        invariants.expect(len(stage.world.grants()) == 1, "there is not one grant left")


class Switching(_WithAccessory):
    def act(self, stage):
        for is_on in (False, True):
            stage.world.admin.call(self.grant(stage), PROPERTIES, "Set", "ssv", GRANT, "Enabled", is_on)


class Renaming(_WithAccessory):
    def act(self, stage):
        [path] = stage.accessories
        stage.world.admin.call(path, ACCESSORY, "Rename", "s", "Kitchen")

    def look_after(self, stage, before):
        now = invariants.Store(stage.world)
        renamed = sum(name != now.names[each] for each, name in before.names.items())
        lines = now.count("renamed") - before.count("renamed")
        invariants.expect(renamed == lines, f"{renamed} accessories have another name, and {lines} lines say so")


class Update(Journey):
    """An accessory that was granted without a bond is paired later."""

    def prepare(self, stage):
        stage.add("pink", item(pairs=False))

    def act(self, stage):
        [path] = stage.accessories
        person, app = stage.person(), stage.app()
        descriptor = {"bluetoothServiceUUID": PINK, "supportedOptions": ["bluetoothPairingLE"]}
        app.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(path), sv(descriptor))
        person.pick("pink")
        app.wait_event("pickerDidDismiss")

    def look_after(self, stage, before):
        now = invariants.Store(stage.world)
        changed = sum(row["descriptor"] != now.grants[each]["descriptor"] for each, row in before.grants.items())
        lines = now.count("updated") - before.count("updated")
        invariants.expect(changed == lines, f"{changed} grants have another descriptor, and {lines} lines say so")


class ChangeOfPolicy(_WithAccessory):
    """A rule denies a granted accessory, and is removed."""

    def act(self, stage):
        app = stage.app()
        stage.world.policy.mkdir(exist_ok=True)
        rule = stage.world.policy / "no.conf"
        for change in (lambda: rule.write_text("[Deny no]\nApp=com.example.dice\n"), rule.unlink):
            before = self.read(stage)
            change()
            wait(lambda: self.read(stage) > before, 10, "the policy to be read")
            app.settle()

    @staticmethod
    def read(stage):
        return sum("policy read" in line for line in stage.daemon.lines)

    def clear(self, stage):
        (stage.world.policy / "no.conf").unlink(missing_ok=True)


class ChangeOfManifest(_WithAccessory):
    """The app's manifest goes while its session is open, and comes back."""

    def act(self, stage):
        app = stage.app()
        (stage.world.app_directories[0] / "com.example.dice.conf").unlink()
        wait(lambda: len(stage.world.admin.paths("app")) == 1, 10, "the manifest to go", also_every=0.02)
        self.clear(stage)

    def clear(self, stage):
        stage.world.declare("dice", **self.manifest)
        wait(lambda: len(stage.world.admin.paths("app")) == 2, 10, "the manifest", also_every=0.02)

    def look_after(self, stage, before):
        self.clear(stage)


class LockDown(Journey):
    """accessoryctl switches the lock-down on: the bus' configuration is always a whole one, and so is each drop-in of systemd's; BlueZ'
    daemon is never locked out."""

    tool_is_ended = True
    to = "on"

    @staticmethod
    def switch(stage, to):
        world = stage.world
        world.lockdown_policy.write_text("<busconfig/>")
        stage.run_tool(
            BIN / "accessoryctl", "lockdown", to, "--file", world.lockdown_file, "--policy", world.lockdown_policy,
            "--units", world.lockdown_units, "--since", world.lockdown_since, "--bus", world.bus.address)

    def act(self, stage):
        self.switch(stage, self.to)

    def clear(self, stage):
        self.switch(stage, "off")
        world = stage.world
        found = sorted(each.name for each in (*world.directory.glob(f"{world.lockdown_file.name}*"), *world.lockdown_units.rglob("*.conf*")))
        invariants.expect(found == [], f"left is {found}")

    def look_after(self, stage, before):
        file = stage.world.lockdown_file
        if file.exists():
            text = file.read_text()
            invariants.expect("<include" in text and text.rstrip().endswith("</busconfig>"), f"half a file: {text}")
        drops = {each.parent.name: each.read_text() for each in stage.world.lockdown_units.glob("*.d/*.conf")}
        if "service.d" in drops:
            invariants.expect(drops["service.d"].endswith("io_uring_setup:EOPNOTSUPP\n"), f"half a file: {drops}")
            invariants.expect("An exception" in drops.get("bluetooth.service.d", ""), f"bluetoothd is locked out: {drops}")


class EndOfLockDown(LockDown):
    to = "off"

    def prepare(self, stage):
        self.switch(stage, "on")


# Networks

class _Network(Journey):
    manifest = {"Supports": "Bluetooth;WiFi;"}
    service = "wpa_supplicant"

    def __init__(self):
        self.scenario = json.loads((TESTS / "Scenarios/wifi.json").read_text())
        self.scenario["wifi"]["services"] = [self.service]
        # With Bluetooth besides.
        del self.scenario["adapters"]

    @staticmethod
    def set_up(stage):
        return stage.add("Dice-1234", {"name": "Dice", "descriptor": {"ssidPrefix": "Dice-"}})


class SetUpOfNetwork(_Network):
    def act(self, stage):
        self.set_up(stage)


class SetUpOfAware(_Network):
    def __init__(self):
        super().__init__()
        self.scenario["wifi"]["aware"] = True
        self.scenario["awareServices"] = [
            {"id": "d6", "service": "_dice._tcp", "role": "publisher", "model": "Model D6", "vendor": "Example",
             "address": "02:00:00:00:0A:01"}]

    def act(self, stage):
        stage.add("Example Model D6", {"name": "Dice", "descriptor": {
            "wifiAwareServiceName": "_dice._tcp", "wifiAwareServiceRole": "publisher"}})


class JoiningWpaSupplicant(_Network):
    """Joins and leaves."""

    def prepare(self, stage):
        self.set_up(stage)

    def act(self, stage):
        [path] = stage.accessories
        app = stage.app()
        app.call(path, ACCESSORY, "JoinNetwork", "a{sv}", sv({"passphrase": "sixsided1"}), seconds=30)
        app.call(path, ACCESSORY, "LeaveNetwork", seconds=30)


class RemovalWhileJoined(JoiningWpaSupplicant):
    """The accessory goes, and with it the network that is joined."""

    def act(self, stage):
        [path] = stage.accessories
        app = stage.app()
        app.call(path, ACCESSORY, "JoinNetwork", "a{sv}", sv({"passphrase": "sixsided1"}), seconds=30)
        app.remove(path)
        stage.simulator.wait_joined("Home")


class JoiningNetworkManager(JoiningWpaSupplicant):
    service = "NetworkManager"


class JoiningIwd(JoiningWpaSupplicant):
    service = "iwd"


class FailingToJoinWpaSupplicant(JoiningWpaSupplicant):
    """The passphrase is wrong."""

    def act(self, stage):
        [path] = stage.accessories
        try:
            stage.app().call(path, ACCESSORY, "JoinNetwork", "a{sv}", sv({"passphrase": "not the one"}), seconds=30)
        except dbus.DBusException as problem:
            if not problem.get_dbus_name().endswith(".ConnectionFailed"):
                raise


class FailingToJoinNetworkManager(FailingToJoinWpaSupplicant):
    service = "NetworkManager"


class FailingToJoinIwd(FailingToJoinWpaSupplicant):
    service = "iwd"


# Starts

class _Leftovers(Journey):
    """A daemon starts where another one has ended in the middle."""

    with_start = True
    moment = "answered 1 call org.bluez.Device1.Pair"
    origin = SetUp

    def __init__(self):
        self.former = self.origin()
        self.scenario, self.manifest = self.former.scenario, self.former.manifest

    def prepare(self, stage):
        self.former.prepare(stage)

    def between(self, stage):
        if stage.start(ACCESSORY_END=self.moment):
            journey, stage.journey = stage.journey, self.former
            try:
                stage.act()
            finally:
                stage.journey = journey
        invariants.expect(stage.was_killed(), "the daemon was to end")
        stage.leave()

    def act(self, stage):
        stage.rest()
        if stage.has_wifi:
            wait(lambda: not invariants.Store(stage.world).joined, 15, "the record of a joined network to go", also_every=0.02)

    def again(self, stage):
        self.former.again(stage)


class StartWithBond(_Leftovers):
    pass


class StartWithRemoval(_Leftovers):
    origin = RemovalByApp
    moment = "before 1 call org.bluez.Adapter1.RemoveDevice"


class StartJoinedByWpaSupplicant(_Leftovers):
    origin = JoiningWpaSupplicant
    moment = "answered 1 call fi.w1.wpa_supplicant1.Interface.SelectNetwork"


class StartJoinedByNetworkManager(_Leftovers):
    origin = JoiningNetworkManager
    moment = "answered 1 call org.freedesktop.NetworkManager.AddAndActivateConnection2"


class StartJoinedByIwd(_Leftovers):
    origin = JoiningIwd
    moment = "answered 1 call net.connman.iwd.Network.Connect"


class StartJoinedWithDamage(StartJoinedByWpaSupplicant):
    """The record of the pending undo is in a damaged store."""

    kept_files = ("grants.sqlite.damaged-",)
    # The accessory is not known any more.
    joined_before = (None,)

    def between(self, stage):
        super().between(stage)
        with contextlib.closing(sqlite3.connect(stage.world.state / "grants.sqlite")) as store:
            store.execute("DROP TABLE counter")

    def look_after(self, stage, before):
        kept = any(each.name.startswith(self.kept_files[0]) for each in stage.world.state.iterdir())
        invariants.expect(kept, "it is not kept aside")
        store = invariants.Store(stage.world)
        invariants.expect(not store.grants, "there are grants")
        invariants.replaced(store)


class FirstStart(Journey):
    """There is no store yet."""

    with_start = True

    def between(self, stage):
        for each in stage.world.state.iterdir():
            each.unlink()
        stage.world.state.rmdir()

    def act(self, stage):
        stage.rest()

    def again(self, stage):
        stage.add("pink")


class DamagedStore(FirstStart):
    """The store is kept aside, whole: with its log."""

    kept_files = ("grants.sqlite.damaged-",)
    contents = {"": b"no store at all\n" * 64, "-wal": b"no log at all\n" * 64}

    def between(self, stage):
        super().between(stage)
        stage.world.state.mkdir(0o700)
        for suffix, content in self.contents.items():
            (stage.world.state / f"grants.sqlite{suffix}").write_bytes(content)

    def look_after(self, stage, before):
        kept = [each for each in stage.world.state.iterdir() if each.name.startswith(self.kept_files[0])]
        found = {each.read_bytes() for each in kept}
        invariants.expect(found >= set(self.contents.values()), f"kept aside are {kept}")
        invariants.replaced(invariants.Store(stage.world))


class StoreOfAnotherVersion(DamagedStore):
    """A store that an unreleased daemon wrote, with a schema of its own."""

    def between(self, stage):
        path = stage.world.state / "grants.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as store:
            store.execute("PRAGMA user_version = 8")
            store.execute("PRAGMA journal_mode = DELETE")
        self.contents = {"": path.read_bytes()}
