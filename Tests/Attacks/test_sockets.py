# SPDX-License-Identifier: Apache-2.0
"""Apps' own sockets (`Socket=yes`), under attack by programs that hold one, and by programs that hold none."""

import os
import shutil
import signal
import socket
import stat
import textwrap

from attack import PROGRAM, Attack
from harness.apps import App
from harness.names import SOMEBODY, SOMEBODY_ELSE
from harness.programs import Program
from harness.waiting import wait
from view import ADAPTER, MANAGERS


class Sockets(Attack):
    """Dice, which has an accessory, has a socket, and so has lamp, which has none."""

    def setUp(self):
        super().setUp()
        for app, user in (("dice", SOMEBODY), ("lamp", SOMEBODY_ELSE)):
            self.world.declare(app, Socket="yes", SocketUser=user)
            wait(self.path(app).exists, 10, "the socket", also_every=0.02)

    def path(self, app):
        return self.world.app_sockets / f"com.example.{app}/bus"

    def test_another_containers_socket(self):
        """Every program knows its path; the permissions keep other users out."""
        said = self.said("""
            for path in sys.argv[3:]:
                tried = socket.socket(socket.AF_UNIX)
                say(tried.connect_ex(path))
            """, words=(str(self.path("dice")), str(self.path("lamp"))))
        self.assertEqual(said, ["0", "13"])

    def test_the_parent_directory(self):
        """A container of the user's that has all sockets, in a user namespace where it is root: the permissions hold."""
        inside = self.world.directory / "mounted"
        inside.mkdir()
        program = Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups",
            "/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--net", "/bin/sh", "-c", 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$2"',
            "sh", self.world.app_sockets, inside, "/usr/bin/python3", textwrap.dedent("""
                import os, socket, sys
                for app in sorted(os.listdir(sys.argv[1])):
                    print(app, socket.socket(socket.AF_UNIX).connect_ex(f"{sys.argv[1]}/{app}/bus"), flush=True)
                """))
        self.addCleanup(lambda: program.stop(signal.SIGKILL))
        self.assertEqual(program.wait_end(), 0, program.lines)
        self.assertEqual(program.lines, ["com.example.dice 0", "com.example.lamp 13"])

    def test_one_socket_is_one_app(self):
        """Whatever else the holder is: the accessory of its other manifest is not there."""
        lamp = App(self.world, "dice", 0, self.path("lamp")).begin()
        self.assertEqual(lamp.accessories, [])
        self.assertEqual([path for path in lamp.call("/", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", to="org.bluez")], [MANAGERS, ADAPTER])
        self.assertFails("org.freedesktop.DBus.Error.UnknownObject", lamp.call, self.pink, "org.bluez.Device1", "Connect", to="org.bluez")

    def test_root_of_a_container_is_that_app_and_no_more(self):
        program = Program(
            "/usr/bin/unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--net", "/usr/bin/python3", "-c",
            PROGRAM + textwrap.dedent("""
                bus = dbus.bus.BusConnection("unix:path=" + sys.argv[3])
                empty = dbus.Dictionary(signature="sv")
                say(call(bus))
                say(call(bus, ROOT, MANAGER, "RegisterPicker", "a{sv}", empty))
                say(call(bus, ROOT + "/admin", NAME + ".Admin", "GetAudit", "a{sv}", empty))
                """), "bus", "view", self.path("lamp"))
        self.addCleanup(lambda: program.stop(signal.SIGKILL))
        self.assertEqual(program.wait_end(), 0, program.lines)
        session, picker, audit = program.lines
        self.assertIn("/session/", session)
        self.assertIn("AccessDenied", picker)
        self.assertIn("UnknownObject", audit)

    def test_a_socket_that_was_passed_on(self):
        """Possession is identity: the process with the connection is the app, until the socket goes."""
        mine, other = socket.socketpair()
        held = socket.socket(socket.AF_UNIX)
        held.connect(str(self.path("lamp")))
        socket.send_fds(mine, [b"x"], [held.fileno()])
        held.close()
        _, [passed], _, _ = socket.recv_fds(other, 1, 1)
        taken = socket.socket(fileno=passed)
        self.addCleanup(taken.close)
        taken.sendall(b"\0AUTH EXTERNAL\r\nDATA\r\n")
        taken.settimeout(60)
        self.assertTrue(taken.recv(100).startswith(b"DATA"))
        self.world.declare("lamp")
        while taken.recv(4096):
            pass

    def test_what_a_container_puts_in_the_sockets_place(self):
        """Root of the machine in a container, whose directory is writable: nothing that it puts there is followed, or served."""
        store = self.world.state / "grants.sqlite"
        mode = os.stat(store).st_mode
        path = self.path("lamp")
        for put in (lambda: path.symlink_to(store), lambda: os.link(store, path), path.mkdir, lambda: socket.socket(socket.AF_UNIX).bind(str(path))):
            path.unlink()
            put()
            self.restart_daemon()
            self.assertEqual(os.stat(store).st_mode, mode)
            if path.is_dir():
                self.assertIn("no socket for app", "\n".join(self.world.daemon.lines))
                path.rmdir()
                self.restart_daemon()
            self.assertTrue(stat.S_ISSOCK(os.lstat(path).st_mode))
            App(self.world, "lamp", SOMEBODY_ELSE, path).begin().close()

    def test_another_directory_in_the_place_of_an_apps(self):
        """The daemon follows no symbolic link there."""
        (self.world.app_directories[0] / "com.example.lamp.conf").unlink()
        wait(lambda: not self.path("lamp").exists(), 10, "the socket to go", also_every=0.02)
        elsewhere = self.world.directory / "elsewhere"
        elsewhere.mkdir()
        shutil.rmtree(self.path("lamp").parent)
        self.path("lamp").parent.symlink_to(elsewhere)
        self.world.declare("lamp", Socket="yes")
        self.world.daemon.wait_for("no socket for app.*lamp")
        self.assertEqual(list(elsewhere.iterdir()), [])

    def test_an_identifier_that_is_a_path(self):
        for name in ("..", "../other", "a/b", ".new"):
            path = self.world.app_directories[0] / f"evil-{abs(hash(name))}.conf"
            path.write_text(f"[Application]\nId={name}\nName=Evil\nSocket=yes\n[AccessorySetup]\nSupports=Bluetooth;\n")
            self.world.daemon.wait_for("not an identifier")
        self.assertEqual(sorted(each.name for each in self.world.app_sockets.iterdir()), ["com.example.dice", "com.example.lamp"])

    def test_all_places_of_one_socket(self):
        """Its holders have one share, and others are served."""
        held = []
        for _ in range(200):
            each = socket.socket(socket.AF_UNIX)
            self.addCleanup(each.close)
            each.connect(str(self.path("dice")))
            held.append(each)
        self.assertServed()
        lamp = App(self.world, "lamp", SOMEBODY_ELSE, self.path("lamp")).begin()
        self.assertEqual(lamp.state, "active")

    def test_a_thousand_apps(self):
        apps = [f"app{number}" for number in range(1000)]
        for each in apps:
            text = f"[Application]\nId=com.example.{each}\nName=App\nSocket=yes\n[AccessorySetup]\nSupports=Bluetooth;\n"
            (self.world.app_directories[0] / f"com.example.{each}.conf").write_text(text)
        wait(self.path("app999").exists, what="the last socket", also_every=0.1)
        self.restart_daemon()
        for each in (apps[0], apps[-1]):
            with socket.socket(socket.AF_UNIX) as tried:
                self.assertEqual(tried.connect_ex(str(self.path(each))), 0)
        self.assertServed()
