# SPDX-License-Identifier: Apache-2.0
"""The disk of a fleet's gateway takes nothing more from the n-th call on, for every n that a document has: its files are in force as a
whole or not at all, the operator sees the reason, and once the disk works the document is applied."""

import errno

from shortage import CHANGING, Shortage

from harness.fleet import Fleet
from harness.waiting import wait
from harness.world import APITest

RULE = "[{}]\nApp=com.example.dice\n"


class FullDisk(APITest):
    def setUp(self):
        super().setUp()
        self.fleet = Fleet("gw-1")
        self.addCleanup(self.fleet.close)
        self.shortage = Shortage(self.fleet.directory)
        self.agent = self.fleet.agent(self.world, "gw-1", environment=self.shortage.environment)
        self.agent.wait_connected()
        self.watch = self.fleet.listen("operators", self.fleet.topic("gw-1", "reported/policy"))
        self.operator = self.fleet.listen("operators")
        self.version = 0

    def publish(self, document):
        self.operator.publish(self.fleet.topic("gw-1", "desired/policy"), document, retain=True)

    def apply(self):
        """A document of the next version, with two files; returns it."""
        self.version += 1
        document = self.fleet.document(version=self.version, files={name: RULE.format(f"Deny {self.version}") for name in ("a.conf", "b.conf")})
        self.publish(document)
        return document

    def report(self):
        return self.watch.retained().get(self.fleet.topic("gw-1", "reported/policy"), {})

    def wait_state(self, *states):
        self.watch.wait(
            lambda: self.report().get("desired") == self.version and self.report()["state"] in states, what=f"version {self.version} {states}")
        return self.report()

    def in_force(self):
        """The version of each file that the daemon would read."""
        texts = [each.read_text() for each in sorted((self.agent.state / "policy.d").iterdir())]
        return [int(each.split("Deny ")[1].split("]")[0]) for each in texts]

    def test_a_document(self):
        self.apply()
        self.wait_state("applied")
        failures = 0
        for first in range(100):
            self.shortage.fail(self.agent.state, errno.ENOSPC, CHANGING, first)
            document = self.apply()
            report = self.wait_state("applied", "waiting")
            self.assertIn(self.in_force(), ([self.version - 1] * 2, [self.version] * 2))
            if report["state"] == "waiting":
                failures += 1
                self.assertRegex(report["reason"], "No space left")
            failed = self.shortage.end()
            if report["state"] == "waiting":
                # A minute later, or when the operator sends it again.
                self.publish(document)
                self.wait_state("applied")
            self.assertEqual(self.in_force(), [self.version] * 2)
            if not failed:
                break
        self.assertGreater(failures, 4)
        # As one line, and the agent goes on.
        self.assertTrue(self.agent.running)
        self.agent.stop()
        self.fleet.agent(self.world, "gw-1").wait_connected()
        wait(lambda: self.in_force() == [self.version] * 2, 20, "the document after a restart", also_every=0.1)
