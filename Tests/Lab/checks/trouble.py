# SPDX-License-Identifier: Apache-2.0
"""Faults on a real radio stack during a set-up: bluetoothd or the adapter goes, the daemon is killed, the power
is cut. Afterwards there is either an accessory with its grant, or nothing."""

import signal
import time
from pathlib import Path

from framework import check
from journeys import ENDED, events, expect_events, Journey, MODES, PINK_DICE
from lab import expect

# Bluetooth goes

@check("dice.json", seconds=150)
def survives_the_end_of_bluetoothd_in_discovery(lab):
    journey = Journey(lab)
    picker = journey.picker("Nobody")
    app = journey.app()
    picker.wait_for("offered:", 60)
    lab.bluetoothd.kill(signal.SIGKILL)
    app.wait_for("event pickerDidDismiss: .+", 15)
    app.wait_for("dice: pickerRestricted: .+", 10)
    expect_events(app, ENDED)
    expect(picker.wait_exit() == 1, "the picker does not say that nothing was set up")
    journey.wait_for_bluetooth("absent")
    lab.start_bluetoothd()
    lab.set_powered(True)
    journey.wait_for_bluetooth("ready")
    journey.expect_added("Dice 4F", PINK_DICE)


@check("dice.json", seconds=150)
def survives_the_loss_of_the_adapter_in_discovery(lab):
    journey = Journey(lab)
    picker = journey.picker("Nobody")
    app = journey.app()
    picker.wait_for("offered:", 60)
    lab.air.unplug()
    app.wait_for("event pickerDidDismiss: .+", 15)
    app.wait_for("dice: pickerRestricted: .+", 10)
    expect_events(app, ENDED)
    journey.wait_for_bluetooth("absent")
    lab.air.plug()
    lab.wait_for_adapter()
    lab.set_powered(True)
    journey.wait_for_bluetooth("ready")
    journey.expect_added("Dice 4F", PINK_DICE)


@check("dice.json", seconds=150)
def says_when_the_adapter_is_off(lab):
    journey = Journey(lab)
    picker = journey.picker("Nobody", "--stay")
    app = journey.app()
    picker.wait_for("offered:", 60)
    lab.set_powered(False)
    app.wait_for("event pickerDidDismiss: .+", 15)
    expect(app.wait_exit() == 1, "dice does not say that it failed")
    journey.wait_for_bluetooth("off")
    refused = journey.app()
    refused.wait_for("off", 30)
    expect(refused.wait_exit() == 1 and events(refused) == ["activated"], f"the app got {events(refused)}")
    picker.kill(signal.SIGTERM)
    lab.set_powered(True)
    journey.wait_for_bluetooth("ready")
    journey.expect_added("Dice 4F", PINK_DICE)


@check(MODES, seconds=180)
def survives_the_end_of_bluetoothd_in_a_pairing(lab):
    journey = Journey(lab)
    journey.picker("Slow")
    app = journey.app()
    lab.air.wait_for("slow: pairing started", 60)
    lab.bluetoothd.kill(signal.SIGKILL)
    app.wait_for("event pickerDidDismiss: .+", 30)
    expect("accessoryAdded" not in events(app), "an accessory was added")
    journey.wait_for_bluetooth("absent")
    lab.start_bluetoothd()
    lab.set_powered(True)
    journey.wait_for_bluetooth("ready")
    journey.expect_nothing_left()
    journey.expect_usable()


@check(MODES, seconds=180)
def survives_the_loss_of_the_adapter_in_a_pairing(lab):
    journey = Journey(lab)
    journey.picker("Slow")
    app = journey.app()
    lab.air.wait_for("slow: pairing started", 60)
    lab.air.unplug()
    app.wait_for("event pickerDidDismiss: .+", 30)
    expect("accessoryAdded" not in events(app), "an accessory was added")
    journey.wait_for_bluetooth("absent")
    lab.air.plug()
    lab.wait_for_adapter()
    lab.set_powered(True)
    journey.wait_for_bluetooth("ready")
    journey.expect_nothing_left()
    journey.expect_usable()


@check("dice.json", seconds=150)
def removes_a_bond_once_the_adapter_is_back(lab):
    journey = Journey(lab)
    journey.expect_added("Dice 4F", PINK_DICE)
    lab.air.unplug()
    journey.wait_for_bluetooth("absent")
    journey.admin("revoke", str(journey.grants()[0]["id"]))
    expect(journey.listed() == {}, "the accessory is still there")
    lab.air.plug()
    lab.wait_for_adapter()
    lab.set_powered(True)
    journey.expect_nothing_left()


@check("dice.json", seconds=150)
def removes_a_bond_once_bluetoothd_is_back(lab):
    journey = Journey(lab)
    journey.expect_added("Dice 4F", PINK_DICE)
    lab.bluetoothd.kill(signal.SIGKILL)
    journey.wait_for_bluetooth("absent")
    journey.admin("revoke", str(journey.grants()[0]["id"]))
    # And even if the daemon does not live to see it.
    journey.daemon.kill(signal.SIGKILL)
    lab.start_bluetoothd()
    lab.set_powered(True)
    journey.start_daemon()
    journey.expect_nothing_left()


# The machine sleeps: the kernel's Bluetooth ends links and scans, and every process stands still. The
# kernel's own test of a suspend stops there and wakes up after 5 s; the devices go on, for the guest's files come over
# one that no suspend survives.

def suspend():
    power = Path("/sys/power")
    (power / "pm_test").write_text("freezer")
    (power / "state").write_text("freeze")


@check("dice.json", seconds=150)
def searches_on_after_a_suspend(lab):
    journey = Journey(lab)
    lab.air.vanish("pink-dice")
    picker = journey.picker("Dice 4F", "--stay")
    app = journey.app()
    picker.wait_for("offered:", 60)
    suspend()
    lab.air.bring_back("pink-dice")
    app.wait_for("event accessoryAdded", 60)
    journey.expect_rolls(app)
    picker.kill(signal.SIGTERM)
    journey.expect_set_up(PINK_DICE)


@check(MODES, seconds=180)
def survives_a_suspend_in_a_pairing(lab):
    journey = Journey(lab)
    picker = journey.picker("Slow")
    app = journey.app()
    lab.air.wait_for("slow: pairing started", 60)
    suspend()
    app.wait_for("event pickerDidDismiss", 60)
    app.kill()
    picker.kill()
    # The link may be down for longer than the accessory waits, or not: but it is set up, or nothing is left.
    if "accessoryAdded" in events(app):
        journey.expect_set_up("C0:FF:EE:00:01:0A")
        journey.admin("remove", "Slow")
    journey.expect_nothing_left()
    journey.expect_usable()


@check("dice.json", seconds=150)
def comes_back_after_a_suspend(lab):
    journey = Journey(lab)
    journey.expect_added("Dice 4F", PINK_DICE)
    suspend()
    journey.wait_for_bluetooth("ready")
    journey.expect_rolls(journey.app())
    journey.expect_set_up(PINK_DICE)


# Power cuts: between pairing and grant the daemon is stopped, so that it cannot get to the grant before it is killed.

def stop_the_daemon_in_a_pairing(journey, pick, accessory):
    journey.picker(pick)
    journey.app()
    journey.lab.air.wait_for(f"{accessory}: pairing started", 60)
    journey.daemon.signal(signal.SIGSTOP)


@check(MODES, seconds=150)
def leaves_nothing_when_killed_between_pairing_and_grant(lab):
    journey = Journey(lab)
    stop_the_daemon_in_a_pairing(journey, "Slow", "slow")
    lab.air.wait_for("slow: paired", 30)
    journey.expect_bonds("C0:FF:EE:00:01:0A")
    journey.restart_daemon(signal.SIGKILL)
    journey.expect_nothing_left()
    journey.expect_usable()


@check(MODES, seconds=150)
def leaves_nothing_when_killed_between_pairing_and_grant_of_a_private_address(lab):
    journey = Journey(lab)
    stop_the_daemon_in_a_pairing(journey, "Private Slow", "private-slow")
    lab.air.wait_for("private-slow: paired", 30)
    journey.expect_bonds("C0:FF:EE:00:01:09")
    journey.restart_daemon(signal.SIGKILL)
    journey.expect_nothing_left()
    journey.expect_usable()


@check(MODES, seconds=150)
def leaves_nothing_when_power_is_cut_between_pairing_and_grant(lab):
    journey = Journey(lab)
    stop_the_daemon_in_a_pairing(journey, "Slow", "slow")
    lab.air.wait_for("slow: paired", 30)
    journey.expect_bonds("C0:FF:EE:00:01:0A")
    lab.bluetoothd.kill(signal.SIGKILL)
    journey.daemon.kill(signal.SIGKILL)
    lab.start_bluetoothd()
    lab.set_powered(True)
    journey.start_daemon()
    journey.expect_nothing_left()


@check(MODES, seconds=150)
def leaves_nothing_when_power_is_cut_between_pairing_and_grant_of_a_private_address(lab):
    # After a restart bluetoothd knows the accessory by its identity only, and nothing by the address that was picked.
    journey = Journey(lab)
    stop_the_daemon_in_a_pairing(journey, "Private Slow", "private-slow")
    lab.air.wait_for("private-slow: paired", 30)
    journey.expect_bonds("C0:FF:EE:00:01:09")
    lab.bluetoothd.kill(signal.SIGKILL)
    journey.daemon.kill(signal.SIGKILL)
    lab.start_bluetoothd()
    lab.set_powered(True)
    journey.start_daemon()
    journey.expect_nothing_left()


@check("dice.json", seconds=240)
def leaves_nothing_half_when_killed_at_an_effect(lab):
    # A few of the moments of Tests/Kills.
    journey = Journey(lab)

    def end_at(moment, begin):
        journey.restart_daemon(ACCESSORY_END=moment)
        programs = begin()
        expect(journey.daemon.wait_exit(60) == -signal.SIGKILL, f"accessorysetupd did not end {moment}")
        for each in programs:
            each.kill()
        journey.start_daemon()

    def set_up():
        return [journey.picker("Dice 4F"), journey.app()]

    def remove():
        return [lab.start("accessoryctl", lab.accessoryctl, "remove", "Pink Dice")]

    end_at("answered 1 call org.bluez.Device1.Pair", set_up)
    journey.expect_nothing_left()
    end_at("after 1 commit commit", set_up)
    journey.expect_set_up(PINK_DICE)
    end_at("after 1 commit commit", remove)
    journey.expect_nothing_left()


@check(MODES, seconds=150)
def leaves_nothing_when_killed_in_a_pairing(lab):
    journey = Journey(lab)
    journey.picker("Slow")
    journey.app()
    lab.air.wait_for("slow: pairing started", 60)
    journey.restart_daemon(signal.SIGKILL)
    lab.air.wait_for("slow: disconnected", 30)
    journey.expect_nothing_left()
    journey.expect_usable()


@check("dice.json", seconds=600)
def can_be_set_up_after_a_kill_at_each_moment_of_a_pairing(lab):
    # A link that comes up, or stays, after the daemon has gone: the accessory is silent while it lasts.
    journey = Journey(lab)
    for _ in range(2):
        for says in ("Pair called", "connected by", "pairing started", "link encrypted", "paired"):
            picker, app = journey.picker("Dice 4F"), journey.app()
            if says == "Pair called":
                journey.daemon.wait_for("picker offering → pairing", 60)
            else:
                lab.air.wait_for(f"pink-dice: {says}", 60)
            journey.daemon.kill(signal.SIGKILL)
            for program in (picker, app):
                program.kill()
            journey.start_daemon()
            began = time.monotonic()
            # The grant may have been written; then the accessory is removed.
            if PINK_DICE in journey.listed():
                expect(lab.start("remove", lab.accessoryctl, "remove", "Pink Dice").wait_exit(40) == 0, "it cannot be removed")
            picker, app = journey.picker("Dice 4F"), journey.app()
            app.wait_for("event accessoryAdded", 120)
            app.wait_for("event pickerDidDismiss", 20)
            lab.note(f"{says}: {time.monotonic() - began:.1f} s")
            for program in (picker, app):
                program.kill()
            expect(lab.start("remove", lab.accessoryctl, "remove", "Pink Dice").wait_exit(40) == 0, "it cannot be removed")
            journey.expect_nothing_left()
