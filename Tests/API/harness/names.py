# SPDX-License-Identifier: Apache-2.0
"""Shared names: names of the bus and of the session API, its errors, and the users, services and bytes that tests share."""

import pwd

NAME = "org.accessorysetup1"
ROOT = "/org/accessorysetup1"
ADMIN_PATH = f"{ROOT}/admin"
MANAGER, SESSION, ACCESSORY, NETWORK, PICKER, GRANT, APP, ADMIN = (
    f"{NAME}.{each}" for each in ("Manager", "Session", "Accessory", "Network", "Picker", "Grant", "App", "Admin"))
PROPERTIES = "org.freedesktop.DBus.Properties"
OBJECT_MANAGER = "org.freedesktop.DBus.ObjectManager"
BUS_ERROR = "org.freedesktop.DBus.Error."
UNKNOWN_OBJECT = BUS_ERROR + "UnknownObject"
INVALID_ARGS = BUS_ERROR + "InvalidArgs"

PINK = "E56A082E-C49B-47CA-A2AB-389127B8ABE3"
BLUE = "0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)

# Not root; a bus lets in only users that exist.
SOMEBODY = pwd.getpwnam("nobody").pw_uid
SOMEBODY_ELSE = pwd.getpwnam("daemon").pw_uid


def error(name):
    """The bus name of an error of the session API."""
    return f"{NAME}.Error.{name}"
