# SPDX-License-Identifier: Apache-2.0
"""Shared by the attacks: a world with an app that has an accessory and one that has none, and programs that are run as unprivileged users."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "API"))

from harness.clients import Identity
from harness.names import GRANT, MANAGER, NAME, PROPERTIES, ROOT, SOMEBODY, SOMEBODY_ELSE, error
from harness.programs import Program
from view import ADAPTER, MANAGERS, ViewTest

INVALID = error("InvalidRequest")
# In groups without rights, as a user without rights.
AS_SOMEBODY = {"user": SOMEBODY, "group": SOMEBODY, "extra_groups": []}
AS_SOMEBODY_ELSE = {"user": SOMEBODY_ELSE, "group": SOMEBODY_ELSE, "extra_groups": []}

# The beginning of every attacker's program: calls on a bus, and the result of each as a line.
PROGRAM = f"""
import ctypes, dbus, dbus.bus, os, select, socket, sys

MANAGER, ROOT, NAME = {MANAGER!r}, {ROOT!r}, {NAME!r}
BUS, VIEW = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)

def say(*words):
    print(*words, flush=True)

def call(bus, path=ROOT, interface=MANAGER, member="CreateSession", signature="a{{sv}}", *arguments, to=NAME):
    if member == "CreateSession":
        arguments = (dbus.Dictionary(signature="sv"),)
    try:
        return "answered " + str(bus.call_blocking(to, path, interface, member, signature, arguments, timeout=80))
    except dbus.DBusException as error:
        return f"{{error.get_dbus_name()}}: {{error.get_dbus_message()}}"

def version(bus):
    return call(bus, ROOT, "org.freedesktop.DBus.Properties", "Get", "ss", MANAGER, "Version")

# The bus keeps so many bytes and descriptors for the daemon, and refuses calls to it while these are not read.
def version_in_the_end(bus):
    while "LimitsExceeded" in (said := version(bus)):
        pass
    return said
"""


class Attack(ViewTest):
    """Dice has the accessory pink. Board, of another user, has a manifest and nothing else."""

    def attack(self, program, *words, executable=None, identity=AS_SOMEBODY, stdin=subprocess.DEVNULL):
        """Starts a program of an attacker, by default as the user of dice; it knows the two sockets and the `words`."""
        command = [executable or Identity("stranger").executable, "-c", PROGRAM + textwrap.dedent(program), self.world.bus.address,
                   f"unix:path={self.world.view}", *words]
        user, group = identity["user"], identity["group"]
        program = Program("/usr/bin/setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", *command,
                          environment={"PYTHONHOME": "/usr", "PYTHONDONTWRITEBYTECODE": "1"}, stdin=stdin)
        self.addCleanup(lambda: program.stop(signal.SIGKILL))
        return program

    def said(self, program, *, words=(), **more):
        """All that a program of an attacker said; it has to end well."""
        started = self.attack(program, *words, **more)
        self.assertEqual(started.wait_end(), 0, "\n".join(started.lines))
        return started.lines

    def restart_daemon(self):
        """The daemon anew, with a person and the two apps."""
        for client in (self.person, self.dice, self.board):
            client.close()
        self.world.restart_daemon()
        self.person, self.dice, self.board = self.picker(), self.app("dice"), self.app("board", SOMEBODY_ELSE)

    def switch(self, on):
        self.world.admin.call(self.grant(), PROPERTIES, "Set", "ssv", GRANT, "Enabled", on)

    def assertServed(self):
        """Others are answered: an app of another user, on the bus and in the view."""
        self.board.get(ROOT, MANAGER, "Version")
        self.assertEqual(list(self.view("board").tree()), [MANAGERS, ADAPTER])
