# SPDX-License-Identifier: Apache-2.0
"""Connections to the bus in any identity: a client that calls, and keeps every signal that reaches it. As this process it is root, and so an
admin."""

import atexit
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
from collections import namedtuple
from pathlib import Path

import dbus
import dbus.lowlevel
from gi.repository import GLib

from harness.names import NAME, OBJECT_MANAGER, PROPERTIES, ROOT, SOMEBODY
from harness.programs import TESTS
from harness.waiting import STANDSTILL, wait

sys.path.append(str(TESTS / "Support"))
from patience import PatientBus


class Identity:
    """A process that a client can be seen as: an executable of its own, run by a user."""

    # Besides the group of the user's number.
    groups = []
    _directory = None

    def __init__(self, app, uid=SOMEBODY):
        if Identity._directory is None:
            Identity._directory = Path(tempfile.mkdtemp(prefix="accessory-api-"))
            Identity._directory.chmod(0o755)
            atexit.register(shutil.rmtree, Identity._directory)
        self.uid = uid
        self.executable = Identity._directory / app
        if not self.executable.exists():
            shutil.copyfile(os.path.realpath(sys.executable), self.executable)
            self.executable.chmod(0o755)

    def start_relay(self, target, socket_path):
        """Starts the process; a client that connects to `socket_path` is on the bus in its name."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(socket_path))
        listening.listen()
        user = {} if self.uid == 0 else {"user": self.uid, "group": self.uid, "extra_groups": self.groups}
        with listening:
            return subprocess.Popen(
                [self.executable, "-I", "-S", "-c", (Path(__file__).parent / "relay.py").read_text(),
                 str(listening.fileno()), target],
                stdin=subprocess.DEVNULL, pass_fds=[listening.fileno()], cwd="/", **user)


Signal = namedtuple("Signal", "path interface member arguments")


class BusOfTheTest(PatientBus):
    times = STANDSTILL


class Client:
    """A connection to the bus, as this process (root: an admin) or in another identity, and all signals that reach it."""

    _made = 0

    def __init__(self, world, identity=None, socket=None):
        self.signals = []
        self._relay = None
        address = f"unix:path={socket}" if socket else world.bus.address
        if identity is not None:
            Client._made += 1
            path = world.directory / f"relay-{Client._made}"
            self._relay = identity.start_relay(socket or world.bus.socket, path)
            address = f"unix:path={path}"
        self._connection = BusOfTheTest(address)
        self._connection.set_exit_on_disconnect(False)
        self._connection.add_message_filter(self._filter)
        world.clients.append(self)

    def _filter(self, _connection, message):
        if isinstance(message, dbus.lowlevel.SignalMessage) and message.get_sender() not in (None, "org.freedesktop.DBus"):
            self.received(Signal(
                str(message.get_path()), str(message.get_interface()), str(message.get_member()), message.get_args_list()))
        return dbus.lowlevel.HANDLER_RESULT_NOT_YET_HANDLED

    def received(self, signal):
        self.signals.append(signal)

    @property
    def name(self):
        return self._connection.get_unique_name()

    @property
    def pid(self):
        return self._relay.pid if self._relay else os.getpid()

    def call(self, path, interface, member, signature="", *arguments, to=NAME, seconds=20):
        return self._connection.call_blocking(to, path, interface, member, signature, arguments, timeout=seconds)

    def call_later(self, path, interface, member, then, signature="", *arguments, to=NAME):
        """Calls without waiting; `then` gets the result or the exception."""
        self._connection.call_async(to, path, interface, member, signature, arguments, then, then, timeout=20)

    @property
    def connection(self):
        return self._connection

    def has_owner(self, name):
        return self._connection.name_has_owner(name)

    def get(self, path, interface, name):
        return self.call(path, PROPERTIES, "Get", "ss", interface, name)

    def get_all(self, path, interface):
        return self.call(path, PROPERTIES, "GetAll", "s", interface)

    def objects(self):
        """The objects of ObjectManager: path → interfaces."""
        objects = self.call(ROOT, OBJECT_MANAGER, "GetManagedObjects")
        return {str(path): {str(name): values for name, values in interfaces.items()} for path, interfaces in objects.items()}

    def paths(self, kind):
        return sorted(path for path in self.objects() if path.startswith(f"{ROOT}/{kind}/"))

    def introspect(self, path):
        return str(self.call(path, "org.freedesktop.DBus.Introspectable", "Introspect"))

    def settle(self):
        """Until all that the daemon has sent to this connection up to now has arrived."""
        self.call(ROOT, "org.freedesktop.DBus.Peer", "Ping")
        self.take_in()

    def drain(self):
        """Waits until all messages that the bus has for this connection have arrived; the daemon is not involved."""
        self.call("/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId", to="org.freedesktop.DBus")
        self.take_in()

    @staticmethod
    def take_in():
        while GLib.MainContext.default().iteration(False):
            pass

    def listen_to_everything(self):
        self._connection.add_match_string("type='signal'")

    def become_another_program(self):
        """The process executes something else, with the connection that it has."""
        old = os.readlink(f"/proc/{self.pid}/exe")
        self._relay.send_signal(signal.SIGUSR1)
        wait(lambda: os.readlink(f"/proc/{self.pid}/exe") != old, what="the other program", also_every=0.02)

    def pause(self):
        """The process stands still until it is resumed."""
        self._relay.send_signal(signal.SIGSTOP)

    def resume(self):
        self._relay.send_signal(signal.SIGCONT)

    def kill(self):
        """Kills the process; its last output is not read."""
        self._relay.kill()
        self._relay.wait()

    def deliver(self):
        """Waits until each message sent so far is in the socket that the bus or the view reads, whether or not it reads."""
        self._connection.flush()
        wait(self._is_delivered, what="the relay", also_every=0.01)

    def _is_delivered(self):
        if self._relay is None:
            return True
        unread = fcntl.ioctl(self._connection.get_unix_fd(), termios.TIOCOUTQ, bytes(4))
        # The relay sleeps in its `select` alone, after it has sent all that it read.
        state = Path(f"/proc/{self._relay.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return not any(unread) and state == "S"

    def close(self):
        """The connection ends, as if the program had been killed."""
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait()
            self._relay = None
        self._connection.close()
