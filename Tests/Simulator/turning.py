"""Waiting for what happens on the bus, in GLib's main loop."""

from gi.repository import GLib


def wait_for(happens, seconds=20, last=lambda: ""):
    """Turns the loop until it happens; every signal and, at the latest, every 50 ms is a reason to look. `last` says what was seen."""
    context = GLib.MainContext.default()
    end = GLib.get_monotonic_time() + seconds * 1_000_000
    while GLib.get_monotonic_time() < end:
        found = happens()
        if found:
            return found
        GLib.timeout_add(50, lambda: False)
        context.iteration(True)
    raise AssertionError(f"it did not happen {last()}")
