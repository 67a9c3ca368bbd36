# SPDX-License-Identifier: Apache-2.0
"""No descriptor is free: who comes to the view's socket waits, everybody else is served, and the one who waited is let in once there
is room."""

import socket

from shortage import ShortageTest


class Descriptors(ShortageTest):
    def test_who_comes_to_the_view_waits(self):
        with self.world.few_descriptors():
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.addCleanup(client.close)
            client.settimeout(20)
            client.connect(str(self.world.view))
            client.sendall(b"\0AUTH\r\n")
            for _ in range(20):
                self.world.admin.settle()
        self.world.pass_time(1)
        self.assertTrue(client.recv(100).startswith(b"REJECTED EXTERNAL"))
        self.world.admin.settle()
