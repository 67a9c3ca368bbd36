#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the checks inside a guest: `main.py [--list] [--only PATTERN]… [--sample] [--times N] [--guest GUEST]`.
The last line counts them; the exit status is 0 only if at least one ran and none failed."""

import argparse
import dataclasses
import importlib
import os
import sys
from pathlib import Path

from air_stock import AirStock

# By the guest that they need, in the order in which they run; each is a module beside this one.
GROUPS = {
    "plain": ("radio", "gatt", "journeys", "central", "trouble", "adapters", "requests", "hostile", "field"), "wifi": ("wifi",),
    "systemd": ("systemd", "doors", "people", "flatpak", "containers", "clients", "upgrades", "web", "packages"), "gateway": ("gateway",),
    "soak": ("soak",),
}
# Runs on demand only, for the given time.
ON_DEMAND = ("soak",)
# Two have one check each, a long one; the other has checks on one release of Debian alone.
NOT_IN_SAMPLE = ("gateway", "field", "clients")
# A short check of each group, for CI and for a look at another release of Debian. Together they meet each service once:
# bluetoothd, wpa_supplicant below NetworkManager, iwd, systemd, polkit, Flatpak and Cockpit.
SAMPLE = (
    "radio.pairs_with_numeric_comparison", "gatt.reads_from_an_offset", "journeys.adds_the_pink_dice", "central.discovers_reads_and_writes",
    "trouble.says_when_the_adapter_is_off",
    "adapters.an_accessory_is_set_up_where_it_is_nearest", "requests.renames_for_the_app", "hostile.shouts_what_no_accessory_should",
    "wifi.joins_and_leaves_with_NetworkManager", "wifi.joins_and_leaves_with_iwd", "systemd.bleak_finds_and_uses_what_was_picked",
    "doors.the_lock_down_closes_the_way_to_a_bonded_accessory",
    "people.an_administrator_proves_it_to_polkit", "flatpak.it_sets_up_and_uses_an_accessory",
    "containers.one_of_podmans_is_its_app",
    "upgrades.an_upgrade_in_the_middle_of_a_setup_ends_it", "web.a_person_picks_in_a_page", "packages.a_purge_leaves_nothing",
)
# Who runs the checks of a guest.
RUNNERS = {"plain": "framework", "wifi": "wifi_lab", "systemd": "machine", "gateway": "gateway", "soak": "framework"}

parser = argparse.ArgumentParser()
parser.add_argument("--only", action="append", default=[])
parser.add_argument("--sample", action="store_true")
parser.add_argument("--times", type=int, default=1)
parser.add_argument("--list", action="store_true")
parser.add_argument("--guest", choices=GROUPS)
options = parser.parse_args()

logs = Path(os.environ.get("LAB_LOGS", "."))
stock = None
if not options.list:
    logs.mkdir(parents=True, exist_ok=True)  # a guest that lost its power finds them there
    if options.guest != "wifi":
        stock = AirStock(logs / "air-stock.log")  # first of all: it takes as long as all the rest together

framework = importlib.import_module("framework")
guests = [options.guest] if options.guest else [each for each in GROUPS if each not in ON_DEMAND]
groups = [group for guest in guests for group in GROUPS[guest] if not (options.sample and group in NOT_IN_SAMPLE)]
for group in groups:
    importlib.import_module(group)
checks = framework.chosen([*options.only, *(SAMPLE if options.sample else ())])
if options.sample and (without := set(groups) - {each.name.partition(".")[0] for each in checks}):
    sys.exit(f"the sample has no check of {', '.join(sorted(without))}: was one renamed?")
if options.list:
    for each in checks:
        print(each.name)
    sys.exit(0)
# Each is a check of its own, with a name and a folder.
again = [dataclasses.replace(each, name=f"{each.name}#{turn}") for turn in range(2, options.times + 1) for each in checks]
if options.guest != "gateway":  # the checks' root is another there
    importlib.import_module("versions").write(logs)
runner = importlib.import_module(RUNNERS[options.guest or "plain"])
sys.exit(runner.run_all(checks + again, logs, stock))
