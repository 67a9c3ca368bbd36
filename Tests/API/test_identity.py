# SPDX-License-Identifier: Apache-2.0
"""How a program is seen: by the admin's tool, and by the daemon when it runs inside a Flatpak."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

from harness.apps import App
from harness.clients import Client, Identity
from harness.names import BUS_ERROR, MANAGER, NAME, OBJECT_MANAGER, ROOT, SESSION, error
from harness.programs import BIN
from harness.values import sv
from harness.waiting import wait
from harness.world import APITest


def ctl(*words):
    """accessoryctl's exit status and its lines."""
    done = subprocess.run([BIN / "accessoryctl", *map(str, words)], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).splitlines()


class Identities(APITest):
    def test_who_am_i(self):
        directory = self.world.app_directories[0]
        status, lines = ctl("whoami", "--apps", directory, "--pid", os.getpid())
        self.assertEqual(status, 1)
        self.assertIn(f"uid 0, executable {os.path.realpath(sys.executable)}", lines[0])
        self.assertIn("no manifest matches", lines[1])
        self.world.declare("python", Executable=os.path.realpath(sys.executable))
        status, lines = ctl("whoami", "--apps", directory, "--pid", os.getpid())
        self.assertEqual((status, lines[1].split(",")[0]), (0, "identified as com.example.python by its executable"))
        status, lines = ctl("whoami", "--pid", 2**22 + 1)
        self.assertEqual(status, 1)
        self.assertIn("no process", lines[0])

    def test_a_client_that_changes_its_executable(self):
        """Who goes by its executable has to stay it: on the bus and on the view."""
        app = self.app()
        view = Client(self.world, Identity("dice"), self.world.view)
        view.call("/", OBJECT_MANAGER, "GetManagedObjects", to="org.bluez")
        for client in (app, view):
            client.become_another_program()
        for _ in range(3):
            self.assertFails(BUS_ERROR + "AccessDenied", app.call, app.session, SESSION, "Invalidate", says=["dice", "python", "reconnect"])
            self.assertFails(BUS_ERROR + "AccessDenied", view.call, "/", OBJECT_MANAGER, "GetManagedObjects", to="org.bluez",
                             says=["dice", "python", "reconnect"])
        refused = lambda: [each for each in self.world.daemon.lines if "refused" in each and "reconnect" in each and "audit" not in each]
        wait(lambda: len(refused()) == 2, what=lambda: f"one line for each, was {refused()}")

    def test_an_upgrade_of_the_program_changes_nothing_for_who_runs(self):
        app = self.app()
        program = Identity("dice").executable
        new = program.with_suffix(".new")
        shutil.copy(program, new)
        new.rename(program)
        self.assertEqual(app.accessories, [])
        app.request("Invalidate")

    def test_a_client_that_changes_before_it_asks(self):
        app = App(self.world)
        app.call(ROOT, "org.freedesktop.DBus.Properties", "GetAll", "s", MANAGER)
        app.become_another_program()
        self.assertFails(error("ActivationFailed"), app.create_session, says=["reconnect"])

    def test_a_process_that_dies_while_it_is_looked_up(self):
        client = Client(self.world, Identity("dice"))
        pid = client.pid
        self.world.daemon.pause()
        client.call_later(ROOT, MANAGER, "CreateSession", lambda *_: None, "a{sv}", sv({}))
        # The relay passes things on in order, and the bus answers this one itself.
        client.drain()
        client.kill()
        self.world.daemon.resume()
        self.world.daemon.wait_for(f"client refused.*({pid} has ended|has no credentials)")
        self.assertEqual(len([each for each in self.world.daemon.lines if "client refused" in each]), 1)
        self.assertEqual(self.world.admin.paths("session"), [])

    def test_apps_and_manifests(self):
        bad = self.world.declare("bad", BluetoothServices="pink;")
        self.world.restart_daemon()
        status, lines = ctl("apps", "--bus", self.world.bus.address)
        self.assertEqual(status, 0)
        self.assertTrue(any(line.startswith("com.example.dice  ") and " good " in line for line in lines), lines)
        self.assertTrue(any("com.example.bad" in line and " refused " in line for line in lines), lines)
        self.assertIn("BluetoothServices: pink", lines[-1])
        apps = json.loads("\n".join(ctl("apps", "--bus", self.world.bus.address, "--json")[1]))
        self.assertEqual({each["id"]: len(each["problems"]) for each in apps}, {"com.example.dice": 0, "com.example.bad": 1})
        good = self.world.app_directories[0] / "com.example.dice.conf"
        self.assertEqual(ctl("manifest", "check", good), (0, [f"{good}: good: com.example.dice"]))
        status, lines = ctl("manifest", "check", good, bad)
        self.assertEqual((status, len(lines)), (1, 2))
        self.assertRegex(lines[1], rf"^{bad}:\d+: BluetoothServices: pink")

    def test_a_flatpak_is_nothing_but_a_flatpak(self):
        root = self.world.directory / "root"
        root.mkdir()
        # The interpreter's own manifest would fit, were it not in a sandbox.
        self.world.declare("python", Executable=os.path.realpath("/usr/bin/python3"))
        self.world.declare("flatpak", Executable=None, Flatpak="org.example.Dice", User=str(os.getuid()))
        # A process that can make a root can make this file: without a user it identifies no caller.
        self.world.declare("anybody", Executable=None, Flatpak="org.example.Anybody")
        self.world.restart_daemon()
        self.assertIn("/session/", self.world.seen_from(root))
        (root / ".flatpak-info").write_text("[Application]\nname=org.example.Other\n")
        self.assertIn("Flatpak=org.example.Other", self.world.seen_from(root))
        (root / ".flatpak-info").write_text("[Application]\nname=org.example.Dice\n")
        self.assertIn("/session/", self.world.seen_from(root))
        (root / ".flatpak-info").write_text("[Application]\nname=org.example.Anybody\n")
        self.assertIn("without User=", self.world.seen_from(root))
        (root / ".flatpak-info").write_text("nothing that could be read")
        self.assertIn("ActivationFailed", self.world.seen_from(root))
