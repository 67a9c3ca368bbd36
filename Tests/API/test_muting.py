# SPDX-License-Identifier: Apache-2.0
"""Apps that ask too often: the pause after a person's cancel, and apps that a person does not want to be asked by."""

import shutil
import time

import dbus

from harness.clients import Client, Identity
from harness.members import GROUP, Member, WithMembers
from harness.names import (
    ADMIN, ADMIN_PATH, BUS_ERROR, INVALID_ARGS, MANAGER, PINK, ROOT, SESSION, SOMEBODY, SOMEBODY_ELSE, error)
from harness.pickers import PickerProgram
from harness.programs import BIN, Program
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest

MUTED = error("UserRestricted")


class Pauses(APITest):
    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()

    def cancel(self):
        self.dice.show_picker(item())
        self.person.wait_shown()
        self.person.cancel()
        self.person.wait_gone()

    def ask_later(self, *request):
        """Asks without waiting; the answers so far."""
        answers = []
        show = ("ShowPicker", "aa{sv}a{sv}", dbus.Array([sv(item())], "a{sv}"), sv({}))
        member, signature, *arguments = request or show
        self.dice.call_later(self.dice.session, SESSION, member, answers.append, signature, *arguments)
        self.dice.settle()
        return answers

    def test_a_request_waits_and_is_answered(self):
        began = time.monotonic()
        self.cancel()
        answers = self.ask_later()
        self.assertEqual(answers, [])
        wait(lambda: answers, what="the picker")
        self.person.wait_shown()
        self.assertEqual(str(answers[0]), self.person.path)
        self.assertGreaterEqual(time.monotonic() - began, 2)

    def test_the_app_calls_it_off(self):
        self.cancel()
        answers = self.ask_later()
        self.assertFails(error("PickerAlreadyActive"), self.dice.show_picker, item(), says=["already waiting"])
        self.dice.request("CancelPicker")
        wait(lambda: answers, what="the answer")
        self.assertEqual(answers[0].get_dbus_name(), error("UserCancelled"))

    def test_an_app_that_goes_asks_no_one(self):
        self.cancel()
        self.ask_later()
        self.dice.close()
        for _ in range(3):
            self.world.pass_second()
        self.assertIsNone(self.person.path)

    def test_a_name_waits_too(self):
        path = self.add(self.dice, self.person, "Dice 4F")
        self.cancel()
        answers = self.ask_later("RenameAccessory", "oa{sv}", dbus.ObjectPath(path), sv({}))
        self.assertEqual(answers, [])
        self.world.pass_until(lambda: answers, 3, "the picker")
        self.assertIn("/picker/", str(answers[0]))

    def test_an_app_that_cancels_itself_does_not_wait(self):
        self.dice.show_picker(item())
        self.dice.request("CancelPicker")
        self.dice.wait_event("pickerDidDismiss")
        self.dice.show_picker(item())

    def test_another_app_does_not_wait(self):
        self.cancel()
        answers = self.ask_later()
        board = self.app("board")
        board.show_picker(item())
        self.person.wait_shown()
        self.world.pass_until(lambda: answers, 3, "the refusal")
        self.assertEqual(answers[0].get_dbus_name(), error("PickerAlreadyActive"))


class Muting(WithMembers, APITest):
    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.dice = self.app("dice", SOMEBODY)
        self.shows = PickerProgram(self.world, Member("terminal", SOMEBODY_ELSE)).register()
        self.person = Client(self.world, Member("tool", SOMEBODY_ELSE))

    def mute(self):
        self.dice.show_picker(item())
        self.shows.wait_shown()
        self.shows.ask("Mute")
        self.shows.wait_gone()

    def muted(self, client=None):
        return [str(each["app"]) for each in (client or self.world.admin).get(ROOT, MANAGER, "MutedApps")]

    def unmute(self, client, app="com.example.dice"):
        client.call(ROOT, MANAGER, "UnmuteApp", "s", app)

    def test_a_muted_app_does_not_ask(self):
        path = self.add(self.dice, self.shows, "Dice 4F")
        self.mute()
        self.assertEqual(self.dice.wait_event("pickerDidDismiss", count=2)["error"], error("UserCancelled"))
        for ask in (lambda: self.dice.show_picker(item()), lambda: self.dice.show_picker(item(), waitForPicker=float("inf")),
                    lambda: self.dice.request("RenameAccessory", "oa{sv}", dbus.ObjectPath(path), sv({})),
                    lambda: self.dice.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(path), sv({"bluetoothServiceUUID": PINK}))):
            self.assertFails(MUTED, ask, says=["a person chose not to be asked by com.example.dice"])
        self.assertEqual(self.dice.accessories, [path])
        self.app("board").show_picker(item("Die"))

    def test_it_is_seen_and_taken_back(self):
        self.mute()
        self.dice.wait_event("pickerDidDismiss")
        [entry] = self.person.get(ROOT, MANAGER, "MutedApps")
        self.assertEqual((str(entry["app"]), str(entry["name"])), ("com.example.dice", "Dice"))
        self.assertRegex(entry["who"], rf"/terminal, uid {SOMEBODY_ELSE}, pid {self.shows.pid}, user daemon$")
        self.assertAlmostEqual(int(entry["since"]), time.time(), delta=60)
        self.world.restart_daemon()
        self.assertEqual(self.muted(), ["com.example.dice"])
        again = self.app()
        self.assertFails(MUTED, again.show_picker, item())
        self.unmute(self.person)
        self.assertEqual(self.muted(self.person), [])
        self.assertFails(error("InvalidRequest"), self.unmute, self.person, says=["is not muted"])
        self.assertFails(INVALID_ARGS, self.unmute, self.person, "no app")
        self.picker()
        again.show_picker(item())
        lines = self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", sv({}))
        told = [(str(each["event"]), str(each["app"]), str(each["who"])) for each in lines if "muted" in each["event"]]
        self.assertEqual([each[:2] for each in told], [("muted", "com.example.dice"), ("unmuted", "com.example.dice")])
        for _, _, who in told:
            self.assertIn("user daemon", who)

    def test_requests_that_wait_end(self):
        other, answers = self.app("dice", SOMEBODY_ELSE), []
        self.dice.show_picker(item())
        other.call_later(other.session, SESSION, "ShowPicker", answers.append, "aa{sv}a{sv}",
                         dbus.Array([sv(item())], "a{sv}"), sv({"waitForPicker": float("inf")}))
        other.settle()
        self.shows.ask("Mute")
        wait(lambda: answers, what="the answer")
        self.assertEqual(answers[0].get_dbus_name(), MUTED)

    def test_only_persons_see_it_and_take_it_back(self):
        self.mute()
        for client in (self.dice, Client(self.world, Identity("tool", SOMEBODY_ELSE)), Client(self.world, Member("dice", SOMEBODY_ELSE))):
            client.get(ROOT, MANAGER, "Version")
            client.listen_to_everything()
            self.assertFails(BUS_ERROR + "UnknownProperty", client.get, ROOT, MANAGER, "MutedApps")
            self.assertFails(BUS_ERROR + "UnknownMethod", self.unmute, client)
            self.unmute(self.world.admin)
            self.mute_again()
            client.settle()
            changes = [each.arguments[1] for each in client.signals if each.member == "PropertiesChanged" and each.path == ROOT]
            self.assertEqual([each for each in changes if "MutedApps" in each], [])
        told = [each.arguments[1]["MutedApps"] for each in self.world.admin.signals
                if each.member == "PropertiesChanged" and each.path == ROOT and "MutedApps" in each.arguments[1]]
        self.assertEqual([len(each) for each in told[:2]], [1, 0])

    def mute_again(self):
        path = []
        self.dice.call_later(self.dice.session, SESSION, "ShowPicker", path.append, "aa{sv}a{sv}", dbus.Array([sv(item())], "a{sv}"), sv({}))
        self.world.pass_until(lambda: path, 30, "the picker")
        self.shows.wait_shown()
        self.shows.ask("Mute")
        self.shows.wait_gone()

    def test_only_its_presenter_mutes(self):
        self.dice.show_picker(item())
        self.shows.wait_shown()
        self.assertFails(BUS_ERROR + "AccessDenied", self.world.admin.call, self.shows.path, "org.accessorysetup1.Picker", "Mute")
        self.assertEqual(self.muted(), [])

    def test_a_rule_that_asks_no_person_holds(self):
        self.mute()
        self.world.policy.mkdir()
        (self.world.policy / "a.conf").write_text(f"[Approve a]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\nMinimumRSSI=-100\n")
        self.world.restart_daemon()
        self.picker()
        self.app().show_picker(item())
        wait(self.world.grants, what="the grant", also_every=0.05)

    def test_the_tool(self):
        self.mute()
        program = self.world.directory / "accessoryctl"
        shutil.copy(BIN / "accessoryctl", program)

        def ctl(*words, uid=SOMEBODY_ELSE, group=GROUP):
            done = Program("/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", f"--groups={group}", program, *words,
                           "--bus", self.world.bus.address)
            return done.wait_end(), "\n".join(done.lines)

        self.assertIn("muted        com.example.dice", ctl("status")[1])
        self.assertRegex(ctl("apps", uid=0, group=0)[1], "com.example.dice: muted since .* by .*user daemon")
        self.assertEqual(ctl("unmute", "com.example.dice", group=SOMEBODY)[0], 1)
        self.assertEqual(ctl("unmute", "com.example.dice"), (0, "unmuted: com.example.dice may ask again"))
        self.assertEqual(ctl("unmute", "com.example.dice"), (1, "accessoryctl: app: com.example.dice: is not muted"))
        self.assertNotIn("muted", ctl("status")[1])
