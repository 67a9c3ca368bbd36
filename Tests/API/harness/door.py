# SPDX-License-Identifier: Apache-2.0
"""The door of a world's daemon, as a user of its own, and the keys of apps elsewhere."""

import base64
import itertools
import os
import socket

from harness.names import SOMEBODY
from harness.programs import BIN, Program
from harness.waiting import wait

# Clients know one port only, so each door has an address of this machine's own.
PORT = 6053
_numbers = itertools.count(1)


class Key:
    """A key file that the door may read."""

    def __init__(self, directory, app="dice", owner=SOMEBODY):
        self.file = directory / f"{app}.key"
        self.owner = owner
        self.write(os.urandom(32))

    def write(self, secret):
        self.secret = secret
        self.text = base64.b64encode(secret).decode()
        draft = self.file.with_suffix(".new")
        draft.write_text(self.text + "\n")
        draft.chmod(0o600)
        os.chown(draft, self.owner, self.owner)
        draft.rename(self.file)


class Door(Program):
    """accessory-door on the sockets of a world."""

    def __init__(self, world, *options, environment={}, before=(), settings="Announce=no\n", address=None):
        process = os.getpid()
        self.address = address or f"127.{1 + process // 256 % 250}.{process % 256}.{next(_numbers)}"
        self.configuration = world.directory / f"door-{self.address}.conf"
        self.configuration.write_text(f"[Door]\nListen={self.address}\nName=gateway\n{settings}")
        super().__init__(
            *before, "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", BIN / "accessory-door",
            "--bus", world.bus.address, "--config", self.configuration, "--app-sockets", world.app_sockets, "--log-level", "debug", *options,
            environment=environment)
        self.wait_for("listening")

    def wait_key(self, times=1):
        """The door has read an app's key so many times."""
        wait(lambda: sum("app may connect" in line for line in self.lines) >= times, 20, lambda: f"a key; said was {self.lines[-10:]}")

    def dial(self):
        """A stranger's connection."""
        return socket.create_connection((self.address, PORT), timeout=20)
