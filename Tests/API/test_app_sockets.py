# SPDX-License-Identifier: Apache-2.0
"""Sockets of apps' own (`Socket=yes`): every client is that app and nothing else, permissions hold, and the socket goes with the
manifest and stays over a restart. Tests/Attacks/test_sockets.py has the attacks."""

import json
import os
import socket
import subprocess

import dbus

from harness import service_manager
from harness.apps import App
from harness.names import BUS_ERROR, MANAGER, NAME, OBJECT_MANAGER, ROOT, SOMEBODY, SOMEBODY_ELSE, UNKNOWN_OBJECT, error
from harness.programs import BIN
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest
from view import BLUEZ, DEVICE1, GATT, path_of

DICE = "com.example.dice"


class SocketTest(APITest):
    """Dice is identified by its socket alone."""

    scenario = scenario(accessory("pink", 1, gatt=GATT), accessory("other", 2, gatt=GATT))
    keys = {"SocketUser": SOMEBODY}

    def setUp(self):
        super().setUp()
        self.declare()
        self.person = self.picker()

    def path(self, app=DICE):
        return self.world.app_sockets / app / "bus"

    def declare(self, app="dice", **keys):
        self.world.declare(app, Executable=None, Socket="yes", **(self.keys | keys))
        wait(lambda: self.path(f"com.example.{app}").exists(), 10, "the socket", also_every=0.02)

    def holder(self, program="stranger", uid=SOMEBODY, app=DICE):
        return App(self.world, program, uid, self.path(app))

    def connects(self, uid, groups=()):
        """Whether a program of this user may connect."""
        pid = os.fork()
        if pid == 0:
            os.setgroups(list(groups))
            os.setgid(groups[0] if groups else uid)
            os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as tried:
                os._exit(0 if tried.connect_ex(str(self.path())) == 0 else 1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


class Holders(SocketTest):
    def test_whoever_connects_is_the_app(self):
        """Another program, another user where the socket permits it: it sets up, and reaches its accessory."""
        app = self.holder().begin()
        self.add(app, self.person, "pink", item("Pink"))
        [pink] = [path for path in app.call("/", OBJECT_MANAGER, "GetManagedObjects", to=BLUEZ) if path.count("/") == 4]
        self.assertEqual(pink, path_of(1))
        self.world.admin.call(pink, DEVICE1, "Disconnect", to=BLUEZ)
        app.call(pink, DEVICE1, "Connect", to=BLUEZ)
        [grant] = self.world.grants().values()
        self.assertEqual(grant["App"], DICE)

    def test_several_hold_it(self):
        first, second = self.holder().begin(), self.holder("board").begin()
        self.add(first, self.person, "pink", item("Pink"))
        second.wait_event("accessoryAdded")
        self.assertEqual(second.accessories, first.accessories)

    def test_another_way_in_is_not_the_app(self):
        self.assertFails(error("ActivationFailed"), App(self.world, "dice").create_session)
        self.assertFails(error("ActivationFailed"), App(self.world, "dice", SOMEBODY, self.world.view).create_session)

    def test_the_app_of_another_manifest_is_the_sockets(self):
        """The executable does not count here."""
        self.world.declare("board")
        board = self.holder("board").begin()
        self.assertEqual([each["App"] for each in self.apps_of_sessions()], [DICE])
        self.assertTrue(board.session)

    def apps_of_sessions(self):
        return [each[f"{NAME}.Session"] for path, each in self.world.admin.objects().items() if "/session/" in path]

    def test_root_is_nobody_there(self):
        root = self.holder(uid=0).begin()
        self.assertFails(BUS_ERROR + "AccessDenied", root.call, ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({}))
        self.assertFails(UNKNOWN_OBJECT, root.call, ROOT + "/admin", f"{NAME}.Admin", "GetAudit", "a{sv}", sv({}))

    def test_the_trail_names_the_holder(self):
        app = self.holder().begin()
        self.add(app, self.person, "pink", item("Pink"))
        app.remove(app.accessories[0])
        entries = self.world.admin.call(ROOT + "/admin", f"{NAME}.Admin", "GetAudit", "a{sv}", sv({}))
        self.assertIn(f"uid {SOMEBODY}", " ".join(str(each.get("who")) for each in entries))


class Permissions(SocketTest):
    def test_root_alone(self):
        self.change(SocketUser=None)
        wait(lambda: not self.connects(SOMEBODY), 10, "the user to be kept out", also_every=0.05)
        self.assertTrue(self.connects(0))

    def test_the_user_alone(self):
        self.assertEqual([self.connects(uid) for uid in (0, SOMEBODY, SOMEBODY_ELSE)], [True, True, False])

    def test_a_group(self):
        self.change(SocketUser=None, SocketGroup=64_000)
        wait(lambda: self.connects(SOMEBODY_ELSE, [64_000]), 10, "the group to be let in", also_every=0.05)
        self.assertFalse(self.connects(SOMEBODY))

    def test_a_mode(self):
        self.change(SocketMode="066")
        wait(lambda: self.connects(SOMEBODY_ELSE), 10, "everybody to be let in", also_every=0.05)
        self.assertFalse(self.connects(SOMEBODY))

    def test_a_change_ends_nothing(self):
        app = self.holder().begin()
        self.change(SocketUser=SOMEBODY_ELSE)
        wait(lambda: self.connects(SOMEBODY_ELSE), 10, "the other user to be let in", also_every=0.05)
        self.assertFalse(self.connects(SOMEBODY))
        self.assertEqual(app.state, "active")

    def change(self, **keys):
        self.world.declare("dice", Executable=None, Socket="yes", **(self.keys | keys))


class Ends(SocketTest):
    def gone(self, client):
        try:
            client.call(ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))
        except dbus.DBusException as failure:
            return failure.get_dbus_name() in (BUS_ERROR + "Disconnected", BUS_ERROR + "NoReply")
        return False

    def test_with_the_manifest(self):
        app = self.holder().begin()
        (self.world.app_directories[0] / f"{DICE}.conf").unlink()
        wait(lambda: not self.path().exists(), 10, "the socket to go", also_every=0.02)
        wait(lambda: self.gone(app), 10, "the connection to end", also_every=0.05)
        # Its directory stays: it is mounted somewhere.
        folder = os.stat(self.path().parent).st_ino
        self.declare()
        self.assertEqual(os.stat(self.path().parent).st_ino, folder)
        self.holder().begin()

    def test_with_the_key(self):
        app = self.holder().begin()
        self.world.declare("dice")
        wait(lambda: not self.path().exists(), 10, "the socket to go", also_every=0.02)
        wait(lambda: self.gone(app), 10, "the connection to end", also_every=0.05)

    def test_without_a_daemon_the_directory_stays(self):
        folder = os.stat(self.path().parent).st_ino
        self.world.restart_daemon()
        self.person = self.picker()
        self.assertEqual(os.stat(self.path().parent).st_ino, folder)
        self.holder().begin()


class Restart(service_manager.Kept, SocketTest):
    def test_a_socket_stays_over_a_restart(self):
        """Clients that connect meanwhile wait, and are served."""
        self.assertEqual(self.manager.kept, [f"app-{DICE}"])
        waiting = socket.socket(socket.AF_UNIX)
        self.addCleanup(waiting.close)

        def connect():
            waiting.connect(str(self.path()))
            waiting.sendall(b"\0AUTH EXTERNAL\r\nDATA\r\n")

        self.restart(connect)
        waiting.settimeout(60)
        self.assertEqual(waiting.recv(6), b"DATA\r\n")
        self.holder().begin()

    def test_a_manifest_that_went_meanwhile(self):
        self.restart((self.world.app_directories[0] / f"{DICE}.conf").unlink)
        self.assertEqual(self.manager.kept, [])


class Shown(SocketTest):
    def ctl(self, *words):
        return subprocess.run([BIN / "accessoryctl", *words, "--bus", self.world.bus.address], capture_output=True, text=True)

    def test_an_admin_sees_it(self):
        path = next(path for path in self.world.admin.paths("app"))
        self.assertEqual(self.world.admin.get(path, f"{NAME}.App", "Socket"), str(self.path()))
        said = self.ctl("app", "socket", DICE)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(f"{self.path().parent}:/run/accessory-setup:ro", said.stdout)
        self.assertEqual(json.loads(self.ctl("app", "socket", DICE, "--json").stdout), {"app": DICE, "socket": str(self.path())})

    def test_an_app_without(self):
        self.world.declare("board")
        wait(lambda: len(self.world.admin.paths("app")) == 2, what="the manifest to be read")
        for app, says in (("com.example.board", "needs Socket=yes"), ("com.example.nothing", "no such app")):
            said = self.ctl("app", "socket", app)
            self.assertEqual((said.returncode, said.stdout), (1, ""))
            self.assertIn(says, said.stderr)


class Manifests(APITest):
    def test_bad_keys(self):
        for keys, says in (({"Socket": "perhaps"}, "perhaps: neither yes nor no"), ({"SocketUser": "root"}, "needs Socket=yes"),
                           ({"Socket": "yes", "SocketUser": "no-such-user"}, "no-such-user: no such user"),
                           ({"Socket": "yes", "SocketGroup": "no-such-group"}, "no-such-group: no such group"),
                           ({"Socket": "yes", "SocketMode": "888"}, "888: not an octal number"),
                           ({"Socket": "yes", "SocketMode": "4777"}, "4777: not an octal number")):
            with self.subTest(keys):
                path = self.world.declare("board", **keys)
                wait(lambda: any(says in line for line in self.world.daemon.lines), 10, f"“{says}”")
                path.unlink()
                self.assertFalse((self.world.app_sockets / "com.example.board").exists())
