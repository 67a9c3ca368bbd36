# SPDX-License-Identifier: Apache-2.0
"""The invariants of a world after the daemon was killed at any moment and has started again: checked in the store's file, the simulated
services and the daemon, which must agree."""

import contextlib
import sqlite3

from harness.names import ACCESSORY, GRANT, PROPERTIES
from harness.waiting import wait

# All that the daemon keeps on the disk.
FILES = {"grants.sqlite", "grants.sqlite-wal", "grants.sqlite-shm"}
SUPPLICANT = "fi.w1.wpa_supplicant1"


class Broken(AssertionError):
    """Something does not hold."""


def expect(holds, what):
    if not holds:
        raise Broken(what() if callable(what) else what)


class Store:
    """The rows of the store's file, read beside the daemon."""

    def __init__(self, world):
        path = world.state / "grants.sqlite"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            store.row_factory = sqlite3.Row
            self.accessories = {row["id"]: row for row in store.execute("SELECT * FROM accessory")}
            self.grants = {row["id"]: row for row in store.execute("SELECT * FROM accessGrant")}
            self.intents = [dict(row) for row in store.execute("SELECT * FROM bondIntent")]
            self.joined = [row["content"] for row in store.execute("SELECT * FROM joinRecord")]
            self.lines = list(store.execute("SELECT * FROM audit ORDER BY id"))

    @property
    def names(self):
        """The accessories' names."""
        return {each: row["displayName"] for each, row in self.accessories.items()}

    def count(self, event):
        return sum(line["event"] == event for line in self.lines)


def holds(stage):
    """Raises if an invariant does not hold; waits for the daemon's recovery after its start."""
    world = stage.world
    wait(lambda: not Store(world).intents, 15, lambda: f"intents to go: {Store(world).intents}", also_every=0.05)
    if stage.has_wifi:
        wait(lambda: not Store(world).joined, 15, "the record of a joined network to go", also_every=0.05)
    store = Store(world)
    whole(store)
    same_for_the_admin(store, world)
    bonds(store, stage)
    trail(store, stage.journey.joined_before)
    files(stage)
    wait(lambda: not world.simulator.discovering, 10, "discovery to end", also_every=0.05)
    if stage.has_wifi:
        home(stage)


def whole(store):
    """No accessory without a grant, no grant without an accessory."""
    used = {grant["accessory"] for grant in store.grants.values()}
    expect(used == set(store.accessories), lambda: f"accessories {set(store.accessories)}, granted are {used}")


def replaced(store):
    """The trail begins with why there is no earlier one."""
    expect(store.lines and store.lines[0]["event"] == "storeReplaced", lambda: f"the trail begins with {store.lines[:1]}")


def same_for_the_admin(store, world):
    """The daemon's objects equal its store."""
    objects = world.admin.objects()
    told = {(str(each[GRANT]["App"]), str(each[GRANT]["Accessory"]).rpartition("/")[2], str(each[GRANT]["State"]), bool(each[GRANT]["Enabled"]))
            for each in objects.values() if GRANT in each}
    stored = {(each["app"], part(each["accessory"]), each["state"], bool(each["isEnabled"])) for each in store.grants.values()}
    expect(told == stored, lambda: f"told are the grants {told}, stored are {stored}")
    names = {path.rpartition("/")[2]: str(each[ACCESSORY]["DisplayName"]) for path, each in objects.items() if ACCESSORY in each}
    kept = {part(each): name for each, name in store.names.items()}
    expect(names == kept, lambda: f"told are the accessories {names}, stored are {kept}")


def part(identifier):
    """An accessory's identifier as it stands in a path."""
    return identifier.replace("-", "_")


def bonds(store, stage):
    """BlueZ' bonds are those of the ledger and of other programs, and no other."""
    expected = set(stage.journey.bonds_of_others)
    for accessory in store.accessories.values():
        if accessory["isBonded"]:
            expected.add(stage.ids[accessory["address"]])
    for grant in store.grants.values():
        if grant["classicAddress"]:
            expected.add(stage.ids[grant["classicAddress"]])
    wait(lambda: set(stage.simulator.bonds) == expected, 10, lambda: f"the bonds {expected}; there are {stage.simulator.bonds}",
         also_every=0.05)


def trail(store, joined_before):
    """Read from its beginning, the trail ends with the current grants; and no line is false."""
    grants, states, networks = {}, {}, set(joined_before)
    for line in store.lines:
        what, event = (line["app"], line["accessory"]), line["event"]
        if event == "granted":
            expect(what not in grants, lambda: f"line {line['id']}: granted again: {what}")
            grants[what] = True
        elif event in ("revoked", "disabled", "enabled", "authorized"):
            expect(what in grants, lambda: f"line {line['id']}: {event} without a grant: {what}")
            if event == "revoked":
                del grants[what]
                states.pop(what, None)
            elif event == "authorized":
                states[what] = True
            else:
                expect(grants[what] != (event == "enabled"), lambda: f"line {line['id']}: {event} twice")
                grants[what] = event == "enabled"
        elif event == "storeReplaced":
            expect(line is store.lines[0], lambda: f"line {line['id']}: {event} in the middle")
        elif event == "joined":
            networks.add(line["accessory"])
        elif event == "left":
            expect(line["accessory"] in networks, lambda: f"line {line['id']}: a network was left that was not joined")
            networks.remove(line["accessory"])
    expect(networks == set(), "the trail says that a network was joined, and not that it was left")
    stored = {(each["app"], each["accessory"]): bool(each["isEnabled"]) for each in store.grants.values()}
    expect(grants == stored, lambda: f"the trail ends with {grants}, stored are {stored}")
    for each in store.grants.values():
        if (each["app"], each["accessory"]) in states:
            expect(each["state"] == "authorized", lambda: f"the trail says authorized, stored is {each['state']}")


def files(stage):
    """No draft, copy or other file is left."""
    found = {each.name for each in stage.world.state.iterdir() if not each.name.startswith(stage.journey.kept_files)}
    expect(found <= FILES, lambda: f"files in the state directory: {found - FILES}")


def home(stage):
    """The interface is where it was, the services have the networks that they had, all enabled."""
    simulator = stage.simulator
    simulator.wait_joined("Home")
    wait(lambda: simulator.known_networks == ["Home"], 10, lambda: f"profiles to go: {simulator.known_networks}", also_every=0.05)
    expect(simulator.secrets == 0, "a passphrase is left")
    if stage.wifi_service == "wpa_supplicant":
        wait(lambda: switched_off(stage) == [], 10, lambda: f"networks to be switched on: {switched_off(stage)}", also_every=0.05)


def switched_off(stage):
    """wpa_supplicant's networks that are not enabled."""
    def get(path, interface, name):
        return stage.world.admin.call(path, PROPERTIES, "Get", "ss", interface, name, to=SUPPLICANT)

    found = []
    for interface in get("/" + SUPPLICANT.replace(".", "/"), SUPPLICANT, "Interfaces"):
        networks = get(interface, f"{SUPPLICANT}.Interface", "Networks")
        found += [str(each) for each in networks if not get(each, f"{SUPPLICANT}.Network", "Enabled")]
    return found


def nothing(stage):
    """After all was removed."""
    wait(lambda: not Store(stage.world).intents, 15, "intents to go", also_every=0.05)
    store = Store(stage.world)
    expect(not store.accessories and not store.grants, "accessories or grants are left")
    bonds(store, stage)
    trail(store, stage.journey.joined_before)
    wait(lambda: stage.world.admin.paths("picker") == [], 10, "the picker to go", also_every=0.05)
    wait(lambda: not stage.simulator.discovering, 10, "discovery to end", also_every=0.05)
