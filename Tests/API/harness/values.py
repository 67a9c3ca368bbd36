# SPDX-License-Identifier: Apache-2.0
"""Values of requests: dictionaries with the types that the API names, and the items of pickers."""

import dbus

from harness.names import PINK


def sv(value):
    """A dictionary as a{sv}: text, numbers, bytes and lists of text get the types that the API names; dbus types stay."""
    return dbus.Dictionary({key: _typed(each) for key, each in value.items()}, signature="sv")


def _typed(value):
    if type(value) is dict:
        return sv(value)
    if type(value) is bytes:
        return dbus.ByteArray(value)
    if type(value) is list:
        return dbus.Array(value, signature="s")
    return value


def item(name="Pink Dice", service=PINK, pairs=True, **more):
    """A display item; further keys go into the descriptor, except for the item's own keys."""
    own = {key: more.pop(key) for key in ("productImage", "setupOptions", "renameOptions", "end", "endChoices") if key in more}
    descriptor = {"bluetoothServiceUUID": service} if service else {}
    if pairs:
        descriptor["supportedOptions"] = ["bluetoothPairingLE"]
    return {"name": name, "descriptor": {**descriptor, **more}, **own}
