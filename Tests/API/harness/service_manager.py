# SPDX-License-Identifier: Apache-2.0
"""A service manager for the daemon, as far as the daemon uses one: receives its messages (sd_notify(3)), keeps the descriptors that it
hands over, and starts it again with these (sd_listen_fds(3))."""

import array
import os
import socket

from harness.programs import Daemon

# Takes descriptors from 200 on to where systemd hands them over, and becomes the daemon.
HAND_OVER = """
import os, sys
names = sys.argv[1].split(":")
for number in range(len(names)):
    os.dup2(200 + number, 3 + number)
    os.close(200 + number)
os.environ |= {"LISTEN_FDS": str(len(names)), "LISTEN_FDNAMES": sys.argv[1], "LISTEN_PID": str(os.getpid())}
os.execv(sys.argv[2], sys.argv[2:])
"""


class ServiceManager:
    def __init__(self, world):
        self.world = world
        self._path = str(world.directory / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self._path)
        self._socket.setblocking(False)
        self._messages = []
        self._kept = []

    def close(self):
        self._socket.close()
        for _, descriptor in self._kept:
            os.close(descriptor)

    @property
    def environment(self):
        return {"NOTIFY_SOCKET": self._path}

    def heard(self):
        """The daemon's messages since it was started."""
        space = socket.CMSG_SPACE(array.array("i").itemsize)
        while True:
            try:
                text, more, _, _ = self._socket.recvmsg(4096, space)
            except BlockingIOError:
                return self._messages
            self._take(text.decode(), [descriptor for _, _, data in more for descriptor in array.array("i", data[:4])])

    def _take(self, text, descriptors):
        self._messages.append(text)
        words = dict(line.split("=", 1) for line in text.splitlines())
        if "FDSTORE" in words:
            self._kept += [(words["FDNAME"], descriptor) for descriptor in descriptors]
            return
        for descriptor in descriptors:  # of a barrier
            os.close(descriptor)
        if "FDSTOREREMOVE" in words:
            for each in [each for each in self._kept if each[0] == words["FDNAME"]]:
                self._kept.remove(each)
                os.close(each[1])

    @property
    def kept(self):
        """The names of the stored descriptors."""
        self.heard()
        return [name for name, _ in self._kept]

    def stop(self):
        """Ends the daemon; a barrier is answered meanwhile."""
        self.world.daemon.stop(meanwhile=self.heard)
        self.heard()

    def start(self, **environment):
        """Starts the daemon with the stored descriptors."""
        self._messages.clear()
        given = list(range(200, 200 + len(self._kept)))
        for number, (_, descriptor) in zip(given, self._kept):
            os.dup2(descriptor, number)
        before = ("/usr/bin/python3", "-c", HAND_OVER, ":".join(name for name, _ in self._kept)) if given else ()
        Daemon(self.world, self.environment | environment, before, given)
        for each in given:
            os.close(each)
        self.heard()

    def restart(self, meanwhile=lambda: None):
        self.stop()
        meanwhile()
        self.start()


class Kept:
    """For a test: the daemon is a service, and its descriptors are kept over `restart`."""

    def setUp(self):
        super().setUp()
        self.manager = ServiceManager(self.world)
        self.addCleanup(self.manager.close)
        self.restart()

    def restart(self, meanwhile=lambda: None):
        self.manager.restart(meanwhile)
        self.world.wait_bluetooth(self.simulator.bluetooth)
