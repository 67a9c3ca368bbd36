# SPDX-License-Identifier: Apache-2.0
"""A fixed sample of the moments at which `Tests/Kills/run` ends the daemon: around the effects that make, record and remove grants, bonds and
networks. By the effects' names, which are the same in every run."""

import os
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "API"))

from effects import parsed
from harness.programs import BIN
from journeys import ALL
from stage import Stage


class _Sample(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise RuntimeError("these tests must run as root: they play apps of several users")
        if not (BIN / "accessorysetupd").exists():
            raise RuntimeError(f"accessorysetupd is not in {BIN}: build first, or set BIN")

    def end_at(self, journey, *moments):
        stage = Stage(ALL[journey]())
        try:
            for moment in moments:
                first, *in_recovery = moment.split(", then ")
                came = stage.end_at(parsed(first), *map(parsed, in_recovery))
                self.assertTrue(came, f"{journey}: {moment}: did not come")
        except Exception as problem:
            lines = "\n".join(stage.daemon.lines[-20:])
            raise AssertionError(f"{journey}: {moment}: {problem}\n{lines}") from problem
        finally:
            stage.close()


class SettingUp(_Sample):
    def test_just_works(self):
        self.end_at(
            "set_up", "after 1 commit persist", "after 1 call org.bluez.Device1.Pair", "answered 1 call org.bluez.Device1.Pair",
            "before 1 commit commit", "after 1 commit commit")

    def test_a_private_address(self):
        self.end_at("set_up_of_private_address", "answered 1 call org.bluez.Device1.Pair")

    def test_two_sides(self):
        self.end_at("bridged_later", "answered 2 call org.bluez.Device1.Pair", "after 2 commit commit")


class TakingOver(_Sample):
    def test_migration(self):
        self.end_at("migration", "after 1 commit commit")

    def test_sharing(self):
        self.end_at("sharing", "after 1 commit commit")

    def test_an_update(self):
        self.end_at("update", "answered 1 call org.bluez.Device1.Pair", "after 1 commit commit")

    def test_a_confirmation(self):
        self.end_at("finished_authorization", "after 2 commit commit")


class TakingAway(_Sample):
    def test_removal(self):
        self.end_at("removal_by_app", "after 1 commit commit", "answered 1 call org.bluez.Adapter1.RemoveDevice")

    def test_switching(self):
        self.end_at("switching", "after 1 commit commit")

    def test_renaming(self):
        self.end_at("renaming", "after 1 commit commit")

    def test_lock_down(self):
        self.end_at("lock_down", "before 1 call org.freedesktop.DBus.ReloadConfig")


class Networks(_Sample):
    def test_wpa_supplicant(self):
        self.end_at(
            "joining_wpa_supplicant", "after 1 call fi.w1.wpa_supplicant1.Interface.AddNetwork",
            "after 1 call fi.w1.wpa_supplicant1.Interface.RemoveNetwork")

    def test_network_manager(self):
        self.end_at("joining_network_manager", "after 1 call org.freedesktop.NetworkManager.AddAndActivateConnection2")

    def test_iwd(self):
        self.end_at("joining_iwd", "answered 1 call net.connman.iwd.Network.Connect")


class AgainAndAgain(_Sample):
    """The recovering daemon is killed during its recovery, and so is the next."""

    def test_a_bond_that_nobody_has(self):
        self.end_at(
            "set_up_bridged",
            "answered 1 call org.bluez.Device1.Pair, then before 1 call org.bluez.Adapter1.RemoveDevice, "
            "then answered 1 call org.bluez.Adapter1.RemoveDevice, then before 1 commit delete")

    def test_a_network_that_was_joined(self):
        self.end_at(
            "joining_wpa_supplicant",
            "after 1 call fi.w1.wpa_supplicant1.Interface.SelectNetwork, "
            "then answered 1 call fi.w1.wpa_supplicant1.Interface.RemoveNetwork, then before 1 commit write")


class Starting(_Sample):
    def test_with_a_bond_that_nobody_has(self):
        self.end_at("start_with_bond", "before 1 call org.bluez.Adapter1.RemoveDevice")

    def test_with_a_store_of_another_version(self):
        self.end_at("store_of_another_version", "before 1 file move grants.sqlite", "after 1 file move grants.sqlite")

    def test_with_a_damaged_store(self):
        self.end_at("damaged_store", "after 1 file move grants.sqlite")
        # The damaged store is gone, and the record of the joined network is in the pending one.
        self.end_at("start_joined_with_damage", "after 1 file move grants.sqlite, then before 1 file move grants.sqlite.pending")


if __name__ == "__main__":
    unittest.main()
