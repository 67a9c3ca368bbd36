# SPDX-License-Identifier: Apache-2.0
"""An administrator who is not root, where polkit runs. polkit is played here: what it decides is its own business, what we ask and do is
ours."""

import shutil
import unittest

import dbus
import dbus.service

from harness.clients import Client
from harness.names import GRANT, NAME, ROOT, SOMEBODY
from harness.programs import BIN, Program
from harness.world import APITest

AUTHORITY = "org.freedesktop.PolicyKit1"


class Authority(dbus.service.Object):
    """polkit, as far as it is asked."""

    def __init__(self, client, answer):
        self.answer = answer
        self.asked = []
        client.connection.request_name(AUTHORITY)
        super().__init__(client.connection, "/org/freedesktop/PolicyKit1/Authority")

    @dbus.service.method(AUTHORITY + ".Authority", in_signature="(sa{sv})sa{ss}us", out_signature="(bba{ss})")
    def CheckAuthorization(self, subject, action, details, flags, cancellation):
        self.asked.append((str(subject[0]), str(subject[1]["name"]), str(action), int(flags)))
        return self.answer, False, dbus.Dictionary({}, signature="ss")


class Polkit(APITest):
    def setUp(self):
        super().setUp()
        self.accessory = self.add(self.app(), self.picker(), "Dice 4F")
        self.grant = next(iter(self.world.grants()))

    def busctl(self, *words, interactive=True):
        """busctl as a user who is nobody to us; true when it was served."""
        done = Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", "busctl", f"--address={self.world.bus.address}",
            *([] if interactive else ["--allow-interactive-authorization=no"]), *words)
        return done.wait_end() == 0, done.lines

    def test_who_proves_it_is_an_admin(self):
        authority = Authority(Client(self.world), True)
        served, lines = self.busctl("call", NAME, self.grant, GRANT, "Revoke")
        self.assertTrue(served, lines)
        self.assertEqual(self.world.grants(), {})
        self.assertEqual(len(authority.asked), 1)
        kind, name, action, flags = authority.asked[0]
        self.assertEqual((kind, action, flags), ("system-bus-name", "org.accessorysetup1.manage", 1))
        self.assertTrue(name.startswith(":1."))
        authority.remove_from_connection()

    def test_who_does_not_learns_nothing(self):
        authority = Authority(Client(self.world), False)
        for path in (self.grant, self.grant + "99", ROOT + "/admin", ROOT + "/accessory/none"):
            with self.subTest(path=path):
                served, lines = self.busctl("call", NAME, path, GRANT, "Revoke")
                self.assertFalse(served)
                self.assertIn(f"no such object: {path}", lines[-1])
        self.assertEqual(len(authority.asked), 4)
        self.assertEqual(len(self.world.grants()), 1)
        authority.remove_from_connection()

    def test_who_is_not_prepared_is_not_asked(self):
        authority = Authority(Client(self.world), True)
        served, lines = self.busctl("call", NAME, self.grant, GRANT, "Revoke", interactive=False)
        self.assertFalse(served)
        self.assertEqual(authority.asked, [])
        authority.remove_from_connection()

    def test_without_polkit_it_is_refused(self):
        served, lines = self.busctl("call", NAME, self.grant, GRANT, "Revoke")
        self.assertFalse(served)
        self.assertIn("no such object", lines[-1])

    def test_accessoryctl_asks_too(self):
        authority = Authority(Client(self.world), True)
        # Where everybody can execute it.
        program = self.world.directory / "accessoryctl"
        shutil.copy(BIN / "accessoryctl", program)
        done = Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", program, "list", "--bus", self.world.bus.address)
        self.assertEqual(done.wait_end(), 0, done.lines)
        self.assertIn("Pink Dice", "\n".join(done.lines))
        self.assertEqual(len(authority.asked), 1)
        authority.remove_from_connection()


if __name__ == "__main__":
    unittest.main()
