# SPDX-License-Identifier: Apache-2.0
"""Who is which app: manifests, their mistakes, and callers that no manifest matches."""

import os
import re
import shutil
import sys

import dbus

from harness.apps import App
from harness.clients import Client, Identity
from harness.files import exchange
from harness.names import APP, MANAGER, ROOT, SESSION, SOMEBODY, SOMEBODY_ELSE, error
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest


class Callers(APITest):
    def test_an_unknown_caller(self):
        stranger = App(self.world, "stranger")
        # The identity that was seen, and the line that would match.
        self.assertFails(error("ActivationFailed"), stranger.create_session,
                         says=[Identity("stranger").executable, SOMEBODY, self.world.app_directories[0]])
        # Not even the admin is an app by itself.
        self.assertFails(error("ActivationFailed"), self.world.admin.call, ROOT, MANAGER, "CreateSession", "a{sv}", sv({}),
                         says=[os.path.realpath(sys.executable)])
        self.assertEqual(self.world.admin.paths("session"), [])

    def test_an_app_under_another_user(self):
        self.world.declare("dice", User="daemon")
        self.world.restart_daemon()
        self.assertFails(error("ActivationFailed"), App(self.world, uid=SOMEBODY).create_session)
        App(self.world, uid=SOMEBODY_ELSE).create_session()

    def test_an_executable_by_another_name(self):
        # The manifest may name a link; the running file counts.
        link = self.world.directory / "link"
        link.symlink_to(Identity("dice").executable)
        self.world.declare("dice", Executable=link)
        self.world.restart_daemon()
        App(self.world).create_session()

    def test_a_list_of_executables(self):
        self.world.declare("dice", Executable=f"/usr/bin/other;{Identity('dice').executable};")
        self.world.restart_daemon()
        App(self.world).create_session()

    def test_two_manifests_for_one_caller(self):
        self.world.declare("board", Executable=Identity("dice").executable)
        self.world.restart_daemon()
        self.assertFails(error("ActivationFailed"), App(self.world).create_session,
                         says=["com.example.dice.conf", "com.example.board.conf"])

    def test_only_pickers_may_register(self):
        stranger = Client(self.world, Identity("stranger"))
        for each in (stranger, App(self.world)):
            with self.assertRaises(dbus.DBusException):
                each.call(ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({}))
        self.assertFalse(self.world.manager("PickerAvailable"))


class Manifests(APITest):
    apps = ("dice", "board")

    def expect_refused(self, path, line, *says):
        """The log names file, line and `says`; that app is off, the others are not."""
        pattern = rf"{re.escape(str(path))}:{line}\b"
        found = self.world.daemon.wait_for(pattern, 5)
        for part in says:
            self.assertIn(part, found)
        self.assertFails(error("ActivationFailed"), App(self.world, "dice").create_session)
        App(self.world, "board").create_session()

    def test_mistakes(self):
        """Each with its line, and the required words of the log."""
        good = self.world.app_directories[0] / "com.example.dice.conf"
        lines = good.read_text().splitlines()
        self.assertEqual(lines[0], "[Application]")
        table = [
            ("unknown key", {"Colour": "pink"}, "Colour"),
            ("no technology", {"Supports": "Zigbee;"}, "Supports"),
            ("no UUID", {"BluetoothServices": "pink;"}, "BluetoothServices"),
            ("no company", {"BluetoothCompanyIdentifiers": "Dice Inc.;"}, "BluetoothCompanyIdentifiers"),
            ("a relative path", {"Executable": "bin/dice"}, "Executable"),
            ("another file's name", {"Id": "com.example.lamp"}, "Id"),
            ("no identifier", {"Id": "dice!"}, "Id"),
            ("an empty name", {"Name": ""}, "Name"),
            ("a user alone", {"Executable": None, "User": "daemon"}, "User"),
        ]
        for what, keys, key in table:
            with self.subTest(what):
                path = self.world.declare("dice", **keys)
                line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if text.startswith(f"{key}="))
                self.world.restart_daemon()
                self.expect_refused(path, line, key)

    def test_what_is_missing(self):
        for key in ("Id", "Name", "Executable", "Supports"):
            with self.subTest(key):
                path = self.world.declare("dice", **{key: None})
                self.world.restart_daemon()
                found = self.world.daemon.wait_for(re.escape(str(path)), 5)
                self.assertRegex(found, "Executable|Unit" if key == "Executable" else key)
                self.assertFails(error("ActivationFailed"), App(self.world, "dice").create_session)
                App(self.world, "board").create_session()

    def test_what_is_no_key_file(self):
        path = self.world.app_directories[0] / "com.example.dice.conf"
        for what, content, line in [
            ("no group", b"Id=com.example.dice\n", 1), ("no pair", b"[Application]\nId\n", 2),
            ("not UTF-8", b"[Application]\nId=\xff\n", 2), ("binary", bytes(range(256)), 1), ("nothing", b"", None),
        ]:
            with self.subTest(what):
                path.write_bytes(content)
                self.world.restart_daemon()
                self.world.daemon.wait_for(re.escape(str(path)) + (rf":{line}\b" if line else ""), 5)
                self.assertFails(error("ActivationFailed"), App(self.world, "dice").create_session)
                App(self.world, "board").create_session()

    def test_the_directory_is_watched(self):
        app = App(self.world, "lamp")
        self.assertFails(error("ActivationFailed"), app.create_session)

        def works():
            try:
                app.session = app.create_session()
                app.request("Invalidate")
                return True
            except dbus.DBusException as refused:
                self.assertEqual(refused.get_dbus_name(), error("ActivationFailed"))
                return False

        path = self.world.declare("lamp")
        wait(works, 5, "the new manifest to count", also_every=0.05)
        self.world.declare("lamp", Colour="pink")
        wait(lambda: not works(), 5, "the broken manifest to count", also_every=0.05)
        self.world.declare("lamp")
        wait(works, 5, "the mended manifest to count", also_every=0.05)
        path.unlink()
        wait(lambda: not works(), 5, "the removed manifest to count", also_every=0.05)

    def test_a_later_directory_overrides(self):
        admins = self.world.directory / "admins"
        admins.mkdir()
        self.world.app_directories.append(admins)
        self.world.declare("dice", admins, Name="The Admin's", Executable=Identity("other").executable)
        self.world.restart_daemon()
        self.assertFails(error("ActivationFailed"), App(self.world, "dice").create_session)
        app = App(self.world, "other").begin()
        self.assertEqual(app.get(app.session, SESSION, "App"), "com.example.dice")
        picker = self.picker()
        app.show_picker(item())
        picker.wait_stage("offering")
        self.assertEqual(picker.state["AppName"], "The Admin's")

    def test_a_broken_override_disables_the_app(self):
        # Better no app than one whose admin said something else.
        admins = self.world.directory / "admins"
        admins.mkdir()
        self.world.app_directories.append(admins)
        path = self.world.declare("dice", admins, Colour="pink")
        self.world.restart_daemon()
        self.world.daemon.wait_for(re.escape(str(path)), 5)
        self.assertFails(error("ActivationFailed"), App(self.world, "dice").create_session)


class Exchanged(APITest):
    """The agent of a fleet replaces its directory as a whole, between the vendor's and the admin's."""

    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.fleet, self.admins = (self.world.directory / each for each in ("fleet-apps", "admins"))
        self.following = self.world.directory / "next"
        for each in (self.fleet, self.admins):
            each.mkdir()
            self.world.app_directories.append(each)
        self.world.declare("board", self.admins, Name="The Admin's")
        self.world.restart_daemon()

    def names(self):
        return {str(each[APP]["Id"]): str(each[APP]["Name"]) for each in self.world.admin.objects().values() if APP in each}

    def put(self, name, *apps):
        """The directory of this generation, in the place of the one before."""
        self.following.mkdir(exist_ok=True)
        for file in self.following.iterdir():
            file.unlink()
        for app in apps:
            self.world.declare(app, self.following, Name=name)
        exchange(self.fleet, self.following)

    def wait_names(self, **names):
        expected = {f"com.example.{app}": name for app, name in names.items()}
        wait(lambda: self.names() == expected, what=lambda: f"{expected}; known was {self.names()}", also_every=0.05)

    def test_again_and_again(self):
        self.wait_names(dice="Dice", board="The Admin's")
        self.put("One", "dice", "board", "lamp")
        self.wait_names(dice="One", board="The Admin's", lamp="One")
        self.put("Two", "dice", "toy")
        self.wait_names(dice="Two", board="The Admin's", toy="Two")
        shutil.rmtree(self.following)
        self.put("Three", "lamp")
        self.wait_names(dice="Dice", board="The Admin's", lamp="Three")
        # A file that is written in place.
        self.world.declare("toy", self.fleet, Name="Later")
        self.wait_names(dice="Dice", board="The Admin's", lamp="Three", toy="Later")

    def test_an_app_may_start_at_once(self):
        for name in ("lamp", "toy", "other"):
            app = App(self.world, name)
            self.put("Fleet", name)
            app.create_session()

    def test_files_of_the_one_before_hold_up_no_app(self):
        self.put("One", "lamp")
        self.wait_names(dice="Dice", board="The Admin's", lamp="One")
        app = App(self.world, "toy")
        with (self.following / "com.example.toy.conf").open("w") as file:
            file.write("[Application]\n")
            file.flush()
            self.assertFails(error("ActivationFailed"), app.create_session)


class Written(APITest):
    """A manifest counts as soon as its file is closed, and not before."""

    apps = ("board",)

    def setUp(self):
        super().setUp()
        whole = self.world.declare("dice")
        self.text = whole.read_text()
        whole.unlink()
        wait(lambda: "com.example.dice" not in self.known(), what="the manifest to be forgotten", also_every=0.05)
        self.path = whole

    def known(self):
        return [str(self.world.admin.get(path, APP, "Id")) for path in self.world.admin.paths("app")]

    def refused(self):
        return [line for line in self.world.daemon.lines if "manifest refused" in line]

    def open_session(self, app):
        answers = []
        app.call_later(ROOT, MANAGER, "CreateSession", lambda *answer: answers.append(answer), "a{sv}", sv({}))
        return answers

    def test_an_app_may_start_at_once(self):
        """The daemon would look a moment later."""
        for name in ("dice", "lamp", "toy"):
            app = App(self.world, name)
            self.world.declare(name)
            app.create_session()

    def test_a_file_that_is_being_written_is_no_fault_and_its_app_waits(self):
        app, board = App(self.world, "dice"), App(self.world, "board")
        with self.path.open("w") as file:
            file.write(self.text[:40])
            file.flush()
            answers = self.open_session(app)
            # A known app does not wait.
            board.create_session()
            # Another file brings another reading.
            self.world.declare("toy")
            wait(lambda: "com.example.toy" in self.known(), what="the other manifest", also_every=0.05)
            self.assertNotIn("com.example.dice", self.known())
            self.assertEqual((answers, self.refused()), ([], []))
            file.write(self.text[40:])
        wait(lambda: answers, what="the answer")
        self.assertRegex(str(answers[0][0]), "/session/")
        self.assertEqual(self.refused(), [])

    def test_a_file_that_is_written_anew_counts_as_it_was(self):
        self.world.declare("dice")
        App(self.world).create_session()
        with self.path.open("w") as file:
            file.write("[Application]")
            file.flush()
            self.world.declare("toy")
            wait(lambda: "com.example.toy" in self.known(), what="the other manifest", also_every=0.05)
            App(self.world).create_session()
            self.assertEqual(self.refused(), [])
        self.world.daemon.wait_for("manifest refused: .*com.example.dice.conf")

    def test_one_that_is_never_closed_is_read_after_five_seconds(self):
        with self.path.open("w") as file:
            file.write("[Application]\nColour=pink\n")
            file.flush()
            answers = self.open_session(App(self.world))
            wait(lambda: self.refused() or self.world.pass_second(), 20, "the fault")
            wait(lambda: answers, what="the answer")
            self.assertEqual(answers[0][0].get_dbus_name(), error("ActivationFailed"))

    def test_a_link_counts_at_once(self):
        elsewhere = self.world.directory / "dice.manifest"
        elsewhere.write_text(self.text)
        for make in (self.path.symlink_to, self.path.hardlink_to):
            app = App(self.world)
            make(elsewhere)
            app.create_session()
            self.path.unlink()
