# SPDX-License-Identifier: Apache-2.0
"""Waiting without sleeping: GLib's main loop runs until something is true, with a limit that only a hang reaches."""

import time

from gi.repository import GLib

# How much longer anything may take than is said where it is waited for, because the machine may stand still meanwhile.
# It multiplies limits that only end hangs, and nothing is timed by it.
STANDSTILL = 4
# A longer wait is a hang: no machine is so slow.
HANG = 120


class Interruption:
    """Where something may end that others wait for: `check` is asked before each look, and raises when waiting has no sense any
    more."""

    check = staticmethod(lambda: None)



def wait(happens, seconds=10, what="it", also_every=None):
    """Runs the main loop until `happens()` is true, and returns its result. Evaluated after each message, and, for
    conditions without a signal, every so many seconds. It must happen: a hang ends after `HANG` seconds, or STANDSTILL times
    those that are given, whichever is later."""
    return _wait(happens, max(HANG, STANDSTILL * seconds), what, also_every)


def _wait(happens, seconds, what, also_every):
    deadline = time.monotonic() + seconds
    context = GLib.MainContext.default()
    while not (result := happens()):
        Interruption.check()
        left = deadline - time.monotonic()
        if left <= 0:
            raise AssertionError(f"waited {seconds:g} s for {what() if callable(what) else what}")
        alarm = GLib.timeout_source_new(int(1000 * min(left, also_every or left)) + 1)
        alarm.set_callback(lambda *_: False)
        alarm.attach(context)
        context.iteration(True)
        alarm.destroy()
    return result


def happens_within(seconds, happens, also_every=None):
    """Whether it happens so soon, where either is right: STANDSTILL has no part in it."""
    try:
        _wait(happens, seconds, "it", also_every)
        return True
    except AssertionError:
        return False
