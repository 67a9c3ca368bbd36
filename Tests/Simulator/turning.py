# SPDX-License-Identifier: Apache-2.0
"""Waiting for events on the bus, in GLib's main loop."""

import sys
from pathlib import Path

from gi.repository import GLib

sys.path.append(str(Path(__file__).resolve().parent.parent / "Support"))
from patience import PatientBus

# How much longer anything may take than is said where it is waited for, because the machine may stand still meanwhile.
STANDSTILL = 4


class Bus(PatientBus):
    times = STANDSTILL


def wait_for(happens, seconds=20, last=lambda: ""):
    """Turns the loop until it happens; every signal and, at the latest, every 50 ms is a reason to look. `last` describes the last state."""
    context = GLib.MainContext.default()
    end = GLib.get_monotonic_time() + STANDSTILL * seconds * 1_000_000
    while GLib.get_monotonic_time() < end:
        found = happens()
        if found:
            return found
        GLib.timeout_add(50, lambda: False)
        context.iteration(True)
    raise AssertionError(f"it did not happen {last()}")
