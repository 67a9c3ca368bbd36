# SPDX-License-Identifier: Apache-2.0
"""Programs that say they are an app that they are not: by a control group, a root directory, a number of a process that has ended, an
executable that they no longer are. Each gets no session, and a program that is the app does."""

import os
import shutil
import signal
import subprocess
import textwrap
from pathlib import Path

from attack import AS_SOMEBODY, AS_SOMEBODY_ELSE, PROGRAM, Attack
from harness.apps import App
from harness.clients import Client, Identity
from harness.names import MANAGER, NAME, ROOT, SOMEBODY, UNKNOWN_OBJECT, error
from harness.programs import Daemon, Program
from harness.values import item, sv
from harness.waiting import wait
from view import ACCESS_DENIED, DRIVER

UNIT = ("user.slice", f"user-{SOMEBODY}.slice", f"user@{SOMEBODY}.service", "app.slice")


class Groups:
    """The unified hierarchy of control groups, or one mounted for the test, with a part that a user may make groups in, as systemd
    delegates it."""

    def __init__(self, test):
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"]
        if not mounted:
            mounted = [str(test.world.directory / "cgroup")]
            os.mkdir(mounted[0])
            subprocess.run(["mount", "-t", "cgroup2", "none", mounted[0]], check=True)
            test.addCleanup(subprocess.run, ["umount", mounted[0]], check=True)
        self.test, self.base = test, Path(mounted[0])
        for part in UNIT:
            self.make(self.base / part)
        for each in (self.base, self.base / "cgroup.procs", self.base / "cgroup.subtree_control"):
            shutil.chown(each, SOMEBODY)

    def make(self, group):
        self.base = group
        if not group.exists():
            group.mkdir()
            self.test.addCleanup(group.rmdir)

    def start(self, name, program, executable):
        """A program of the user's, in a group of this name that the user made."""
        group = self.base / name
        self.test.addCleanup(lambda: group.exists() and wait(lambda: self.gone(group), what="the control group to be empty", also_every=0.05))
        # Its parent is moved to where the user may do as they like; the rest is the user's.
        enter = f"open({str(group)!r} + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
        moved = f"os.mkdir({str(group)!r})\n" + enter
        started = self.test.attack("say('here')\nsys.stdin.readline()\n" + moved + textwrap.dedent(program), executable=executable,
                                   stdin=subprocess.PIPE)
        started.wait_for("^here")
        (self.base / "cgroup.procs").write_text(str(started._process.pid))
        started._process.stdin.write(b"\n")
        started._process.stdin.close()
        return started

    @staticmethod
    def gone(group):
        try:
            group.rmdir()
            return True
        except OSError:
            return False


class ControlGroups(Attack):
    def setUp(self):
        super().setUp()
        self.world.declare("snapped", Executable=None, Snap="dice")
        self.world.declare("unit", Executable=None, Unit="snap.dice.daemon.service")
        self.restart_daemon()
        self.groups = Groups(self)

    def test_a_control_group_that_a_user_made_is_no_snap(self):
        """Not the snap's app, nor the app that has the executable: who says to be a snap is nothing else."""
        for executable in ("stranger", "dice"):
            for name in ("snap.dice.play-1.scope", "snap.dice.daemon.service"):
                with self.subTest(name, executable=executable):
                    started = self.groups.start(name, "say(call(dbus.bus.BusConnection(BUS)), call(dbus.bus.BusConnection(VIEW)))",
                                                Identity(executable).executable)
                    self.assertEqual(started.wait_end(), 0, started.lines)
                    self.assertEqual(started.lines[-1].count(error("ActivationFailed")), 2, started.lines)
                    wait(lambda: Groups.gone(self.groups.base / name), what="the control group to be empty", also_every=0.05)

    def test_a_control_group_of_another_name_takes_nothing_away(self):
        started = self.groups.start("dice.scope", "say(call(dbus.bus.BusConnection(BUS)))", Identity("dice").executable)
        self.assertEqual(started.wait_end(), 0, started.lines)
        self.assertIn("answered /org/accessorysetup1/session/", started.lines[-1])


class Roots(Attack):
    """A user who is root in a namespace of their own may have any root directory, and any file in it."""

    def setUp(self):
        super().setUp()
        self.root = self.world.directory / "root"
        self.root.mkdir()
        (self.root / ".flatpak-info").write_text("[Application]\nname=org.example.Dice\n")

    def session(self, identity, socket):
        # The working directory stays outside of the new root, and with it the way to the sockets.
        return self.said(f"""
            bus = BUS.split("path=")[1].split(",")[0]
            os.chdir({str(self.world.directory)!r})
            relative = {{"bus": "unix:path=" + os.path.relpath(bus), "view": "unix:path=view"}}[{socket!r}]
            mine, group = os.getuid(), os.getgid()
            if libc.unshare(0x10000000):
                raise OSError(ctypes.get_errno(), "no user namespace")
            for name, content in (("setgroups", "deny"), ("uid_map", f"{{mine}} {{mine}} 1"), ("gid_map", f"{{group}} {{group}} 1")):
                with open("/proc/self/" + name, "w") as file:
                    file.write(content)
            if libc.chroot({str(self.root)!r}.encode()):
                raise OSError(ctypes.get_errno(), "no other root")
            assert not os.path.exists("/usr")
            say(call(dbus.bus.BusConnection(relative)))
            """, identity=identity, executable=Identity("dice").executable)[-1]

    def declare(self, **keys):
        self.world.declare("flatpak", Executable=None, Flatpak="org.example.Dice", **keys)
        self.restart_daemon()

    def test_a_root_that_a_user_made_is_no_flatpak(self):
        """Nor is it the app that has the executable."""
        self.declare()
        for identity in (AS_SOMEBODY, AS_SOMEBODY_ELSE):
            for socket in ("bus", "view"):
                with self.subTest(socket, uid=identity["user"]):
                    said = self.session(identity, socket)
                    self.assertIn(error("ActivationFailed"), said)
                    self.assertIn("without User=", said)

    def test_a_flatpak_of_one_user_is_not_anothers(self):
        self.declare(User=str(SOMEBODY))
        for socket in ("bus", "view"):
            self.assertIn("/session/", self.session(AS_SOMEBODY, socket))
            self.assertIn(error("ActivationFailed"), self.session(AS_SOMEBODY_ELSE, socket))


class Processes(Attack):
    """A connection outlives the process that made it, in a child that has it too."""

    FORK = """
        if os.fork():
            os._exit(0)
        select.select([process], [], [])
        say(call(bus))
        say(version(bus))
        say(call(bus, ROOT, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", ""))
        say("end")
        """

    def outlive(self, address, before=""):
        """The answers to the child of a process that was the app and has ended."""
        begin = f"bus = dbus.bus.BusConnection({address})\nprocess = os.pidfd_open(os.getpid())\n{before}\n"
        started = self.attack(begin + textwrap.dedent(self.FORK), executable=Identity("dice").executable)
        started.wait_for("^end")
        return [each for each in started.lines if each != "end"]

    def test_who_connects_and_ends_leaves_nobody(self):
        session, *rest = self.outlive("BUS")
        self.assertIn(error("ActivationFailed"), session)
        for each in rest:
            self.assertIn(ACCESS_DENIED, each)

    def test_who_was_known_and_ends_leaves_nobody(self):
        first, session, *_ = self.outlive("BUS", "say(call(bus))")
        self.assertIn("/session/", first)
        self.assertNotIn("answered", session)

    def test_who_was_known_to_the_view_and_ends_leaves_nobody(self):
        first, session, *_ = self.outlive("VIEW", "say(call(bus))")
        self.assertIn("/session/", first)
        self.assertNotIn("answered", session)

    def test_another_program_on_the_apps_connection(self):
        """The app's requests stay the app's; the program that took its place is refused."""
        view = self.view().connect(self.pink)
        view.become_another_program()
        self.dice.become_another_program()
        self.assertFails(ACCESS_DENIED, view.connect, self.pink, says=["reconnect"])
        self.assertFails(ACCESS_DENIED, self.dice.show_picker, item(), says=["reconnect"])


class Descriptors(Attack):
    def test_a_bus_without_process_descriptors(self):
        """Where the admin demands descriptors, the bus that has none gives no session to any caller; the view does."""
        self.world.config.write_text("[Identity]\nBusIdentity=pidfd-only\n")
        self.dice.close()
        self.board.close()
        self.person.close()
        self.world.daemon.stop()
        self.world.daemon = None
        # No caller has an identity on the bus now, not even root: the daemon's name shows that it runs.
        daemon = Daemon(self.world)
        self.world.daemon = daemon
        credentials = self.world.admin.call("/org/freedesktop/DBus", DRIVER, "GetConnectionCredentials", "s", NAME, to=DRIVER)
        if "ProcessFD" in credentials:
            self.assertIn("/session/", App(self.world).create_session())
        else:
            self.assertFails(error("ActivationFailed"), App(self.world).create_session, says=["ProcessFD", "pidfd-only", "socket of the view"])
            self.assertFails(ACCESS_DENIED, Client(self.world, Identity("dice")).get, ROOT, MANAGER, "Version", says=["socket of the view"])
        self.assertIn("/session/", str(self.view().call(ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))))


class Containers(Attack):
    """Root of a container that was given the bus, or the view's socket alone."""

    ASK = """
        empty = dbus.Dictionary(signature="sv")
        for bus in (dbus.bus.BusConnection(BUS), dbus.bus.BusConnection(VIEW)):
            say(call(bus, ROOT, MANAGER, "RegisterPicker", "a{sv}", empty))
            say(call(bus, ROOT + "/admin", NAME + ".Admin", "GetAudit", "a{sv}", empty))
            say(call(bus, sys.argv[3], NAME + ".Grant", "Revoke", ""))
            say(call(bus, ROOT, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", ""))
        """

    def ask(self, *container):
        program = Program(*container, "/usr/bin/python3", "-c", PROGRAM + textwrap.dedent(self.ASK), self.world.bus.address,
                          f"unix:path={self.world.view}", self.grant())
        self.addCleanup(lambda: program.stop(signal.SIGKILL))
        self.assertEqual(program.wait_end(), 0, program.lines)
        return program.lines

    def assertNobody(self, said):
        register, audit, revoke, objects = said
        self.assertIn(ACCESS_DENIED, register)
        self.assertIn(UNKNOWN_OBJECT, audit)
        self.assertIn(UNKNOWN_OBJECT, revoke)
        for each in ("/grant/", "/accessory/", "/app/", "/admin"):
            self.assertNotIn(ROOT + each, objects)

    def test_root_of_a_container_is_nobody(self):
        unshare = "/usr/bin/unshare"
        for container in ((unshare, "--pid", "--fork"), (unshare, "--mount"), (unshare, "--user", "--map-root-user"),
                          (unshare, "--user", "--map-root-user", "--pid", "--fork", "--mount", "--net")):
            with self.subTest(container):
                said = self.ask(*container)
                self.assertNobody(said[:4])
                self.assertNobody(said[4:])

    def test_root_outside_is_an_admin_on_the_bus_alone(self):
        said = self.ask("/usr/bin/env")
        self.assertIn("answered", said[1])
        self.assertNobody(said[4:])

    def test_who_calls_itself_root_is_whom_the_kernel_says(self):
        """In a container without privileges a program is root by its own account: it gets in, and is its user's app."""
        said = self.attack("""
            mine = os.getuid()
            if libc.unshare(0x10000000):
                raise OSError(ctypes.get_errno(), "no user namespace")
            open("/proc/self/uid_map", "w").write(f"0 {mine} 1")
            assert os.getuid() == 0
            for address in (VIEW,):
                say(call(dbus.bus.BusConnection(address)))
            """, executable=Identity("dice").executable)
        self.assertEqual(said.wait_end(), 0, said.lines)
        self.assertIn("/session/", said.lines[-1])
