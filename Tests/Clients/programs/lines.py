# SPDX-License-Identifier: Apache-2.0
"""The lines that the programs here and the tests speak: a command on each line of the input, one line as its answer (`ok VERB …` or
`failed VERB REASON`), and lines of the program's own in between (`value HEX`, `disconnected`, `bluez gone`, `bus gone`)."""

import asyncio
import os
import sys

DEVICE1, SERVICE1, CHARACTERISTIC1 = "org.bluez.Device1", "org.bluez.GattService1", "org.bluez.GattCharacteristic1"


def say(*words):
    # In one piece: threads of a library have lines of their own.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def _call(client, line):
    verb, *arguments = line.split()
    return verb, getattr(client, verb), arguments


def _failed(verb, error):
    # D-Bus libraries have the error's name in an attribute, if at all.
    name = getattr(error, "get_dbus_name", lambda: None)() or getattr(error, "type", None) or getattr(error, "dbus_error_name", None)
    text = " ".join(str(error).split())
    say("failed", verb, *([name] if isinstance(name, str) and name not in text else []), text or type(error).__name__)


def answer(client, line):
    """For a library that blocks: a method of the client for each command, which returns the answer's words."""
    verb, method, arguments = _call(client, line)
    try:
        say("ok", verb, *(method(*arguments) or ()))
    except Exception as error:
        _failed(verb, error)


def serve_blocking(client):
    """Reads on while the library has threads of its own."""
    say("ready")
    for line in sys.stdin:
        answer(client, line)
    # A library's threads must not keep the process.
    os._exit(0)


def serve_glib(client):
    """With the main loop of GLib, on which the library depends too."""
    from gi.repository import GLib

    loop = GLib.MainLoop()

    def readable(*_):
        line = sys.stdin.readline()
        answer(client, line) if line else loop.quit()
        return bool(line)

    # Unbuffered, so that every line is answered before the next is read.
    sys.stdin = os.fdopen(0, "r", buffering=1)
    GLib.io_add_watch(0, GLib.PRIORITY_DEFAULT, GLib.IOCondition.IN | GLib.IOCondition.HUP, readable)
    say("ready")
    loop.run()


async def serve(client):
    """For a library on asyncio: the same with methods that are awaited."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    say("ready")
    while line := (await lines.readline()).decode():
        verb, method, arguments = _call(client, line)
        try:
            say("ok", verb, *(await method(*arguments) or ()))
        except (Exception, asyncio.CancelledError) as error:
            _failed(verb, error)
