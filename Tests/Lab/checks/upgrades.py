# SPDX-License-Identifier: Apache-2.0
"""Other versions of the package on a machine with systemd: an upgrade in the middle of a set-up, and with a store of another version; a
downgrade, which succeeds if the older daemon can read the store. The other versions are the package itself, packed again by
`Tests/Lab/guest_image.py`."""

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from framework import check
from lab import expect
from machine import DAEMON, GRANTS, GREEN_DICE, PINK_DICE

PACKAGE = "accessorysetupd"
# The version of the store's schema (Sources/GrantStore/Schema.swift).
NEWEST = 9
# The place of `user_version` in SQLite's header.
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
    # Both programs get an error, and nothing is left.
    expect(app.wait_exit(60) != 0, "the app reports success")
    expect(picker.wait_exit(60) != 0, "the picker reports success")
    machine.air.wait_for("green-dice: (pairing failed|disconnected)", 60)
    machine.wait_for_bluetooth()
    machine.expect_set_up(PINK_DICE)
    expect(ids(machine.grants()) == ids(before), f"the grants are {machine.grants()}")
    expect(not machine.bluez_devices().get(GREEN_DICE, {"Paired": False})["Paired"], "BlueZ says that it is paired")
    # The next one works.
    finish(*machine.begin_choice())
    machine.expect_set_up(PINK_DICE, GREEN_DICE)
    machine.forget_all_but(PINK_DICE)


@check(seconds=300)
def an_upgrade_keeps_a_store_of_another_version_aside(machine):
    prepare(machine)
    machine.systemctl("stop", DAEMON, "accessorysetupd-bus.socket")
    machine.forget_starts()
    # As an unreleased daemon left it.
    set_version(8)
    before = GRANTS.read_bytes()
    machine.run("dpkg", "--install", packed_as("99"), seconds=180)
    expect(machine.state(DAEMON) == "active", "it is not active")
    machine.wait_for_bluetooth()
    (kept,) = (each for each in GRANTS.parent.glob("*.damaged-*") if not each.name.endswith(("-wal", "-shm")))
    expect(kept.read_bytes() == before, "the store is not kept byte for byte")
    expect(ids(machine.grants()) == [], f"the grants are {machine.grants()}")
    expect(set(machine.bonds()) == {PINK_DICE}, f"the bonds are {sorted(machine.bonds())}")
    # The same store again, of this version.
    machine.systemctl("stop", DAEMON, "accessorysetupd-bus.socket")
    kept.replace(GRANTS)
    for each in GRANTS.parent.glob("*.damaged-*"):
        each.unlink()
    set_version(NEWEST)
    machine.systemctl("start", "accessorysetupd-bus.socket", DAEMON)
    machine.wait_for_bluetooth()
    machine.expect_set_up(PINK_DICE)
    finish(*machine.begin_choice())
    machine.forget_all_but(PINK_DICE)


@check(seconds=300)
def a_downgrade_is_refused_that_could_not_read_the_store(machine):
    prepare(machine)
    newer, ours = packed_as("99"), package(machine)
    machine.run("dpkg", "--install", newer, seconds=180)
    machine.wait_for_bluetooth()
    pid, before = machine.show(DAEMON, "MainPID"), ids(machine.grants())
    app, picker, number = machine.begin_choice()
    # As a newer version would have made it.
    set_version(NEWEST + 1)
    try:
        said = machine.run("dpkg", "--install", ours, seconds=180, fails=True)
        expect("was written by a newer version" in said and "Nothing was changed" in said, f"dpkg says {said[-600:]}")
        expect(installed_version() == "99", f"installed is {installed_version()}")
        expect(machine.show(DAEMON, "MainPID") == pid, "the daemon was started again")
        # The running set-up continues.
        finish(app, picker, number)
        expect(GREEN_DICE in machine.listed() and set(before) < set(ids(machine.grants())), f"the grants are {machine.grants()}")
        expect(int.from_bytes(GRANTS.read_bytes()[VERSION]) == NEWEST + 1, "the store was changed")
    finally:
        set_version(NEWEST)
    # An older daemon that can read the store is installed.
    before = ids(machine.grants())
    machine.run("dpkg", "--install", ours, seconds=180)
    expect(installed_version() != "99" and machine.state(DAEMON) == "active", f"installed is {installed_version()}")
    machine.wait_for_bluetooth()
    expect(ids(machine.grants()) == before, f"the grants are {machine.grants()}")
    machine.forget_all_but(PINK_DICE)


def prepare(machine):
    """Sets up the pink die for the app, and nothing else."""
    machine.installed()
    if [each["app"] for each in machine.grants()] != ["com.example.dice"]:
        machine.forget_all_but()
    machine.set_up()
    machine.forget_all_but(PINK_DICE)


def choose(picker, number):
    """Continues to the question whether the die shows the same number."""
    picker.tell(number)
    picker.wait_for(r"\[y/n\]", 60)


def finish(app, picker, number):
    choose(picker, number)
    picker.tell("y")
    expect(app.wait_exit(90) == 0, f"dice ended with an error: {app.lines[-1:]}")
    expect(picker.wait_exit(30) == 0, f"the picker ended with an error: {picker.lines[-1:]}")


def package(machine):
    """The daemon's package among those of the lab."""
    (found,) = (each for each in machine.debs if machine.run("dpkg-deb", "--field", each, "Package") == PACKAGE)
    return found


def packed_as(version):
    """The package as another version."""
    return Path(os.environ["LAB_PACKAGES"], f"{PACKAGE}_{version}.deb")


def installed_version():
    return subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Version}", PACKAGE], stdout=subprocess.PIPE, text=True, check=True).stdout


def set_version(version):
    with closing(sqlite3.connect(GRANTS)) as store:
        store.execute(f"PRAGMA user_version = {version}")
        (busy, _, _) = store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    expect(not busy, "the version is not in the file")


def ids(grants):
    return sorted((each["id"], each["app"]) for each in grants)
