# SPDX-License-Identifier: Apache-2.0
"""The clients of this suite, the rows of its table, and `results.json`, the expected result of each."""

import json
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
# Put there by Tests/Support/deps-clients.
PACKAGES, BUILT = (HERE.parent.parent / ".build" / each for each in ("client-packages", "client-programs"))
RESULTS = HERE / "results.json"

ROWS = ("list", "connect", "services", "read", "write", "notify", "disconnect", "grant off", "grant on", "daemon restart",
        "bluetoothd restart")

Client = namedtuple("Client", "name program arguments packages isElsewhere", defaults=((), None, False))

CLIENTS = (
    Client("bleak 0.20.2", "bleak_client.py", (), "bleak-0.20.2"),
    Client("bleak 1.1.1", "bleak_client.py", (), "bleak-1.1.1"),
    Client("bleak 3.1.0", "bleak_client.py", (), "bleak-3.1.0"),
    Client("dbus-fast 5.2.0", "dbus_fast_client.py", (), "bleak-3.1.0"),
    Client("dbus-python 1.3.2", "dbus_python_client.py"),
    Client("Gio 2.74", "gio_client.py"),
    Client("sd-bus (sdbus 0.14.3)", "sdbus_client.py", (), "sdbus"),
    Client("godbus 5.1.0", "godbus_client"),
    Client("go-bluetooth 5.60", "go_bluetooth_client"),
    Client("Qt 5.15", "qt_client.py", ("5",)),
    Client("Qt 6.4", "qt_client.py", ("6",)),
    Client("BluezQt 5.103", "bluezqt_client"),
    Client("SimpleBLE 1.2.0", "simpleble_client.py", (), "simplepyble"),
    Client("bluezero 0.9.1", "bluezero_client.py", (), "bluezero"),
    Client("bluetoothctl 5.66", "command_lines.py", ("bluetoothctl",)),
    Client("bt-device 2.0", "command_lines.py", ("bt-device",)),
    Client("busctl 252", "command_lines.py", ("busctl",)),
    Client("gdbus 2.74", "command_lines.py", ("gdbus",)),
    # Over the door.
    Client("bleak-esphome 4.1.0", "esphome_client.py", (), "bleak-esphome", True),
)


def results():
    """Client → row → "yes", or an object: `observed` is the suite's observation, `says` the text of the table, and `lab` the observation on
    the lab, if different."""
    return json.loads(RESULTS.read_text())


def expected(client, row, lab=False):
    """The expected observation."""
    found = results()[client.name][row]
    return found if isinstance(found, str) else lab and found.get("lab") or found["observed"]


def command(client, programs=PROGRAMS, built=BUILT, python="/usr/bin/python3"):
    """How the client's program is started from these folders."""
    if client.program.endswith(".py"):
        return (python, programs / client.program, *client.arguments)
    return (built / client.program, *client.arguments)


def environment(socket, packages):
    """The environment of a client's program on this socket and in this folder."""
    return {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={socket}", "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore", "HOME": "/", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
