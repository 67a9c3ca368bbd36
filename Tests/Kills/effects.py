# SPDX-License-Identifier: Apache-2.0
"""The daemon's effects on the world, as a debug build lists them (Sources/Effects), and the moments at which it is killed."""

from collections import Counter, namedtuple

# Nothing in the world changes by these: a moment before them is a moment between two others, and that is all.
LOOKS = frozenset(f"call {each}" for each in (
    "org.freedesktop.DBus.Properties.Get", "org.freedesktop.DBus.Properties.GetAll",
    "org.freedesktop.DBus.ObjectManager.GetManagedObjects", "org.freedesktop.DBus.GetNameOwner",
    "org.freedesktop.DBus.GetConnectionCredentials", "org.freedesktop.DBus.GetConnectionUnixProcessID", "org.freedesktop.DBus.ListNames",
    "org.freedesktop.NetworkManager.Device.Wireless.GetAllAccessPoints", "net.connman.iwd.Station.GetOrderedNetworks"))
# Waited for on the spot: the answer is there when the call returns.
BLOCKING = frozenset({"call org.freedesktop.DBus.RequestName", "call org.freedesktop.DBus.ReloadConfig"})
# The name on the bus is the end of the daemon's start.
READY = "call org.freedesktop.DBus.RequestName"


class Moment(namedtuple("Moment", "when number effect")):
    """Before or after the nth effect of a kind and name; for a call also between the arrival of its answer and its use."""

    def __str__(self):
        return f"{self.when} {self.number} {self.effect}"


def listed(path):
    """The effects in a list that a daemon has written: each with its number among those of its name."""
    counts = Counter()
    effects = []
    for effect in path.read_text().splitlines() if path.exists() else []:
        counts[effect] += 1
        effects.append((counts[effect], effect))
    return effects


def moments(effects, with_start=False):
    """All moments at which a daemon is to end that has these effects, in their order; without those of its start, if they are not asked
    for: they are the same for all journeys."""
    names = [effect for _, effect in effects]
    if not with_start and READY in names:
        effects = effects[names.index(READY) + 1:]
    found = []
    for number, effect in effects:
        whens = ("before",) if effect in LOOKS else ("before", "after")
        if effect.startswith("call ") and effect not in LOOKS | BLOCKING:
            whens += ("answered",)
        found += [Moment(when, number, effect) for when in whens]
    return found


def parsed(text):
    """A moment by its name."""
    when, number, effect = text.split(" ", 2)
    return Moment(when, int(number), effect)


def more(effects, ordinary):
    """The effects of a start beyond an ordinary one: its recovery."""
    known = set(ordinary)
    return [each for each in effects if each not in known]
