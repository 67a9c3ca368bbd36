# SPDX-License-Identifier: Apache-2.0
"""Descriptors: the daemon takes as many as it may need. Where none is free, new clients of the view's socket wait, all others are served, and
a file that could not be opened is opened once a descriptor is free."""

import os
import resource
import socket

from shortage import ShortageTest

from harness.programs import Daemon
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait

# As many as the unit gives, too.
ENOUGH = 16_384


class Limit(ShortageTest):
    def limit_with(self, soft, hard):
        """The soft limit of a daemon that begins with these."""
        self.world.daemon.stop()
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        # A child has the limits of who starts it.
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
        try:
            Daemon(self.world)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        self.assertEqual(resource.prlimit(self.world.pid, resource.RLIMIT_NOFILE)[0], min(hard, ENOUGH))

    def test_it_is_raised_as_far_as_it_may(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        self.limit_with(256, ENOUGH if hard == resource.RLIM_INFINITY else hard)

    def test_one_that_is_higher_stays(self):
        self.assertEqual(self.world.manager("Bluetooth"), "ready")
        resource.prlimit(self.world.pid, resource.RLIMIT_NOFILE, (ENOUGH + 1, ENOUGH + 1))
        self.world.admin.settle()
        self.assertEqual(resource.prlimit(self.world.pid, resource.RLIMIT_NOFILE)[0], ENOUGH + 1)


class Descriptors(ShortageTest):
    scenario = scenario(accessory("pink"), accessory("other", 2))

    @property
    def sockets(self):
        return sum(os.readlink(f"/proc/{self.world.pid}/fd/{each}").startswith("socket:") for each in os.listdir(f"/proc/{self.world.pid}/fd"))

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

    def test_the_feed_of_adverts_is_opened_once_there_is_room(self):
        """Until then adverts come another way, without a visible effect."""
        person, dice = self.picker(), self.app()
        idle = self.sockets
        dice.show_picker(item())
        person.wait_offer("pink")
        self.assertEqual(self.sockets, idle + 1, "the feed is a connection of its own")
        person.cancel()
        person.wait_gone()
        self.simulator.do("vanish", "other")
        with self.world.few_descriptors():
            dice.show_picker(item())
            person.wait_shown()
            person.wait_offer("pink")
            self.assertEqual(self.sockets, idle)
        # The pauses between its attempts become longer.
        for _ in range(10):
            self.world.pass_time(1)
        wait(lambda: self.sockets == idle + 1, what="the feed", also_every=0.05)
        self.simulator.do("return", "other")
        person.wait_offer("other")
        person.cancel()
        person.wait_gone()
        wait(lambda: self.sockets == idle, what="its end", also_every=0.05)
