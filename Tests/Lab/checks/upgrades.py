# SPDX-License-Identifier: Apache-2.0
"""Other versions of the package on a machine with systemd: an upgrade in the middle of a set-up, and of the store of every older
version; a downgrade, which goes as long as the store can be read. The other versions are the package itself, packed again by
`Tests/Lab/guest_image.py`."""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from framework import DIRECTORY, check
from lab import expect
from machine import DAEMON, GRANTS, GREEN_DICE, PINK_DICE, VIEW

PACKAGE = "accessorysetupd"
# What each older daemon left: the pink die, and more.
STORES = DIRECTORY.parent / "GrantStoreTests/Stores"
NEWEST = 8
# Where SQLite keeps `user_version`.
VERSION = slice(60, 64)


@check(seconds=300)
def an_upgrade_in_the_middle_of_a_setup_ends_it(machine):
    prepare(machine)
    newer = packed_as("99")
    before = machine.grants()
    # All but its end, which restarts the daemon: a pairing without an answer has half a minute.
    machine.run("dpkg", "--unpack", newer, seconds=180)
    app, picker, number = machine.begin_choice()
    choose(picker, number)
    machine.run("dpkg", "--configure", PACKAGE, seconds=180)
    expect(installed_version() == "99", f"installed is {installed_version()}")
    # Both hear of it, and nothing is half done.
    expect(app.wait_exit(60) != 0, "the app was told that it has a die")
    expect(picker.wait_exit(60) != 0, "the picker was told that all is well")
    machine.air.wait_for("green-dice: (pairing failed|disconnected)", 60)
    machine.wait_for_bluetooth()
    machine.expect_set_up(PINK_DICE)
    expect(ids(machine.grants()) == ids(before), f"the grants are {machine.grants()}")
    expect(not machine.bluez_devices().get(GREEN_DICE, {"Paired": False})["Paired"], "BlueZ says that it is paired")
    # The next one works.
    finish(*machine.begin_choice())
    machine.expect_set_up(PINK_DICE, GREEN_DICE)
    machine.forget_all_but(PINK_DICE)


@check(seconds=600)
def an_upgrade_takes_the_store_of_every_older_version(machine):
    prepare(machine)
    packages = [packed_as(each) for each in ("99", "99.1")]
    for version in range(1, NEWEST + 1):
        machine.systemctl("stop", DAEMON, "accessorysetupd-bus.socket")
        machine.forget_starts()
        before = lay(version)
        expect("com.example.dice" in dict(before).values(), f"the store of version {version} has no grant of ours")
        # To unpack it again takes a minute here: for the stores between the oldest and the newest the package is there.
        if version in (1, NEWEST):
            machine.run("dpkg", "--install", packages.pop(0), seconds=180)
        else:
            machine.systemctl("start", "accessorysetupd-bus.socket", DAEMON)
        expect(machine.state(DAEMON) == "active", f"it is not active with a store of version {version}")
        machine.wait_for_bluetooth()
        expect(ids(machine.grants()) == before, f"of version {version} the grants are {machine.grants()}")
        # The bond that goes with the grant is there still, and the app reaches its die.
        expect(set(machine.bonds()) == {PINK_DICE}, f"with a store of version {version} the bonds are {sorted(machine.bonds())}")
        app = machine.probe("app", VIEW, "objects")()
        expect(app == {"objects": [PINK_DICE]}, f"with a store of version {version} the app sees {app}")
        expect(not list(GRANTS.parent.glob("*.damaged-*")), f"a store of version {version} was put aside")
        expect(int.from_bytes(GRANTS.read_bytes()[VERSION]) == NEWEST, f"the store of version {version} is not brought up to date")
    finish(*machine.begin_choice())
    expect(set(machine.bonds()) == {PINK_DICE, GREEN_DICE}, f"the bonds are {sorted(machine.bonds())}")
    machine.forget_all_but()


@check(seconds=300)
def a_downgrade_is_refused_that_could_not_read_the_store(machine):
    prepare(machine)
    newer, ours = packed_as("99"), package(machine)
    machine.run("dpkg", "--install", newer, seconds=180)
    machine.wait_for_bluetooth()
    pid, before = machine.show(DAEMON, "MainPID"), ids(machine.grants())
    app, picker, number = machine.begin_choice()
    # As the newer version would have made it: our daemon looks there when it starts.
    set_version(NEWEST + 1)
    try:
        said = machine.run("dpkg", "--install", ours, seconds=180, fails=True)
        expect("was written by a newer version" in said and "Nothing was changed" in said, f"dpkg says {said[-600:]}")
        expect(installed_version() == "99", f"installed is {installed_version()}")
        expect(machine.show(DAEMON, "MainPID") == pid, "the daemon was started again")
        # What people were doing goes on.
        finish(app, picker, number)
        expect(GREEN_DICE in machine.listed() and set(before) < set(ids(machine.grants())), f"the grants are {machine.grants()}")
        expect(int.from_bytes(GRANTS.read_bytes()[VERSION]) == NEWEST + 1, "the store was changed")
    finally:
        set_version(NEWEST)
    # One that can read it goes, as an upgrade does.
    before = ids(machine.grants())
    machine.run("dpkg", "--install", ours, seconds=180)
    expect(installed_version() != "99" and machine.state(DAEMON) == "active", f"installed is {installed_version()}")
    machine.wait_for_bluetooth()
    expect(ids(machine.grants()) == before, f"the grants are {machine.grants()}")
    machine.forget_all_but(PINK_DICE)


def prepare(machine):
    """With the pink die set up for the app, and nothing else for anybody."""
    machine.installed()
    if [each["app"] for each in machine.grants()] != ["com.example.dice"]:
        machine.forget_all_but()
    machine.set_up()
    machine.forget_all_but(PINK_DICE)


def choose(picker, number):
    """Up to where the person is asked whether the die shows the same number."""
    picker.tell(number)
    picker.wait_for(r"\[y/n\]", 60)


def finish(app, picker, number):
    choose(picker, number)
    picker.tell("y")
    expect(app.wait_exit(90) == 0, f"dice ended with an error: {app.lines[-1:]}")
    expect(picker.wait_exit(30) == 0, f"the picker ended with an error: {picker.lines[-1:]}")


def package(machine):
    """The daemon's package, of those that the lab installs."""
    (found,) = (each for each in machine.debs if machine.run("dpkg-deb", "--field", each, "Package") == PACKAGE)
    return found


def packed_as(version):
    """The same as another version."""
    return Path(os.environ["LAB_PACKAGES"], f"{PACKAGE}_{version}.deb")


def installed_version():
    return subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Version}", PACKAGE], stdout=subprocess.PIPE, text=True, check=True).stdout


def lay(version):
    """Puts the store of a version in place, as its daemon left it when it stopped; returns the grants in it."""
    for each in GRANTS.parent.glob(f"{GRANTS.name}*"):
        each.unlink()
    with closing(sqlite3.connect(GRANTS)) as store:
        store.execute("PRAGMA journal_mode = WAL")
        store.executescript(STORES.joinpath(f"version-{version}.sql").read_text())
        if version >= 5:
            # Before that nobody noted whose bond it is. Here it is ours, and goes with the grant.
            store.execute("UPDATE accessory SET ownsBond = 1")
            store.commit()
        grants = store.execute("SELECT id, app FROM accessGrant ORDER BY id").fetchall()
    GRANTS.chmod(0o600)
    shutil.chown(GRANTS, "accessory-setup", "accessory-setup")
    return grants


def set_version(version):
    with closing(sqlite3.connect(GRANTS)) as store:
        store.execute(f"PRAGMA user_version = {version}")
        (busy, _, _) = store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    expect(not busy, "the store's file does not say its version")


def ids(grants):
    return sorted((each["id"], each["app"]) for each in grants)
