# SPDX-License-Identifier: Apache-2.0
"""Members of the group for pickers see, rename and remove their own set-ups, and nothing of others."""

import shutil

from harness.clients import Client, Identity
from harness.members import GROUP, Member, WithMembers
from harness.mirror import Mirror
from harness.names import (
    ACCESSORY, ADMIN, ADMIN_PATH, BLUE, BUS_ERROR, GRANT, PINK, ROOT, SOMEBODY, SOMEBODY_ELSE, UNKNOWN_OBJECT, error)
from harness.pickers import PickerProgram
from harness.programs import BIN, Program
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest


class PersonTest(WithMembers, APITest):
    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.dice = self.app("dice", SOMEBODY)
        shows = self.shows(SOMEBODY_ELSE)
        self.pink = self.add(self.dice, shows, "Dice 4F")
        shows.close()
        self.person = self.member(SOMEBODY_ELSE)

    def shows(self, uid):
        return PickerProgram(self.world, Member("terminal", uid)).register()

    def member(self, uid):
        return Client(self.world, Member("tool", uid))

    def share(self):
        """Another person sets the same accessory up for another app."""
        board, shows = self.app("board", SOMEBODY_ELSE), self.shows(SOMEBODY)
        self.add(board, shows, "Dice 4F", item("Die"))
        shows.close()
        return board, self.member(SOMEBODY)

    def trail(self, event):
        lines = self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", sv({}))
        return [(str(each["who"]), str(each["why"])) for each in lines if each["event"] == event]


class Persons(PersonTest):
    def test_what_a_person_sees(self):
        [(path, interfaces)] = self.person.objects().items()
        self.assertEqual(path, self.pink)
        self.assertEqual(interfaces[ACCESSORY].keys(), self.world.admin.objects()[path][ACCESSORY].keys())
        self.assertEqual([str(each) for each in interfaces[ACCESSORY]["Apps"]], ["com.example.dice"])
        self.assertEqual([int(each["User"]) for each in self.world.grants().values()], [SOMEBODY_ELSE])
        self.assertFails(BUS_ERROR + "UnknownMethod", self.person.call, path, ACCESSORY, "Unpair")
        self.assertFails(BUS_ERROR + "Failed", self.person.call, path, ACCESSORY, "ImageData", says=["without an image"])
        for hidden in (next(iter(self.world.grants())), ADMIN_PATH, self.dice.session):
            self.assertFails(UNKNOWN_OBJECT, self.person.get_all, hidden, GRANT)

    def test_others_see_nothing(self):
        others = [self.member(SOMEBODY), Client(self.world, Identity("tool", SOMEBODY_ELSE)), Client(self.world, Member("board", SOMEBODY_ELSE))]
        for other in others:
            self.assertEqual(other.objects(), {})
            other.listen_to_everything()
        self.person.call(self.pink, ACCESSORY, "ScheduleRemoval", "u", 60)
        self.person.call(self.pink, ACCESSORY, "Rename", "s", "Lucky Die")
        self.person.call(self.pink, ACCESSORY, "Remove")
        for other in others:
            other.settle()
            self.assertEqual([each for each in other.signals if each.path.startswith(ROOT)], [])

    def test_what_a_rule_approved_is_no_persons(self):
        self.world.policy.mkdir()
        (self.world.policy / "a.conf").write_text(f"[Approve a]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\nMinimumRSSI=-100\n")
        self.dice.remove(self.pink)
        self.world.restart_daemon()
        self.app().show_picker(item())
        wait(self.world.grants, what="the grant", also_every=0.05)
        self.assertEqual([int(each["User"]) for each in self.world.grants().values()], [-1])
        self.assertEqual(self.member(SOMEBODY_ELSE).objects(), {})

    def test_it_is_kept_over_a_restart(self):
        self.world.restart_daemon()
        self.assertEqual(list(self.person.objects()), [self.pink])

    def test_names(self):
        self.person.call(self.pink, ACCESSORY, "Rename", "s", "Lucky Die")
        self.dice.wait_event("accessoryChanged")
        self.assertEqual(str(self.world.admin.get(self.pink, ACCESSORY, "DisplayName")), "Lucky Die")
        [(who, why)] = self.trail("renamed")
        self.assertRegex(who, rf"/tool, uid {SOMEBODY_ELSE}, pid {self.person.pid}, user daemon$")
        self.assertIn("the person who set it up", why)

    def test_removal(self):
        self.person.call(self.pink, ACCESSORY, "Remove")
        self.dice.wait_event("accessoryRemoved")
        self.assertNothingLeft()
        self.assertEqual(self.person.objects(), {})
        [(who, why)] = self.trail("revoked")
        self.assertIn("user daemon", who)
        self.assertEqual(why, "removed by the person who set it up")

    def test_a_removal_with_a_delay(self):
        self.person.call(self.pink, ACCESSORY, "ScheduleRemoval", "u", 60)
        self.person.call(self.pink, ACCESSORY, "CancelRemoval")
        self.person.call(self.pink, ACCESSORY, "ScheduleRemoval", "u", 1)
        self.dice.wait_event("accessoryRemoved")
        self.assertNothingLeft()

    def test_the_signals_of_a_person(self):
        mirror = Mirror(self.person)
        agree = lambda: wait(lambda: not mirror.differences(), what=lambda: f"signals and objects to agree: {mirror.differences()}", also_every=0.1)
        shows = self.shows(SOMEBODY_ELSE)
        blue = self.add(self.dice, shows, "Dice A2", item("Blue Dice", BLUE), answer={"accept": True})
        agree()
        self.assertEqual(sorted(mirror.objects), sorted([self.pink, blue]))
        self.person.call(blue, ACCESSORY, "Rename", "s", "Lucky Die")
        self.person.call(self.pink, ACCESSORY, "ScheduleRemoval", "u", 60)
        board = self.app("board", SOMEBODY_ELSE)
        self.add(board, shows, "Dice 4F", item("Die"))
        agree()
        self.assertEqual([str(each) for each in mirror.objects[self.pink][ACCESSORY]["Apps"]], ["com.example.board", "com.example.dice"])
        self.dice.remove(self.pink)
        agree()
        self.assertEqual([str(each) for each in mirror.objects[self.pink][ACCESSORY]["Apps"]], ["com.example.board"])
        # A manifest that names this program makes it an app.
        manifest = self.world.declare("tool")
        wait(lambda: mirror.follow() == {}, what="the accessories to go", also_every=0.1)
        agree()
        manifest.unlink()
        wait(lambda: set(mirror.follow()) == {self.pink, blue}, what="the accessories to be back", also_every=0.1)
        agree()
        for path in (self.pink, blue):
            self.person.call(path, ACCESSORY, "Remove")
        agree()
        self.assertEqual(mirror.objects, {})


class Shared(PersonTest):
    def setUp(self):
        super().setUp()
        self.board, self.other = self.share()
        self.mirrors = [Mirror(each) for each in (self.person, self.other)]

    def apps_of(self, client):
        return [str(each) for each in client.get(self.pink, ACCESSORY, "Apps")]

    def assertAgree(self):
        for each in self.mirrors:
            wait(lambda: not each.differences(), what=lambda: f"signals and objects to agree: {each.differences()}", also_every=0.1)

    def test_each_sees_their_own_part(self):
        self.assertEqual(self.apps_of(self.person), ["com.example.dice"])
        self.assertEqual(self.apps_of(self.other), ["com.example.board"])
        self.assertEqual(self.apps_of(self.world.admin), ["com.example.board", "com.example.dice"])
        self.world.policy.mkdir()
        (self.world.policy / "a.conf").write_text(f"[Deny a]\nApp=com.example.dice;com.example.board;\nBluetoothServiceUUID={PINK}\n")
        self.world.restart_daemon()
        for client, app in ((self.person, "dice"), (self.other, "board")):
            [problem] = client.get(self.pink, ACCESSORY, "Problems")
            self.assertRegex(problem, rf"denies it to com\.example\.{app}$")

    def test_each_removes_their_own_part(self):
        self.person.call(self.pink, ACCESSORY, "Remove")
        self.dice.wait_event("accessoryRemoved")
        self.assertAgree()
        self.assertEqual((self.person.objects(), list(self.other.objects())), ({}, [self.pink]))
        self.assertEqual(self.board.accessories, [self.pink])
        self.assertEqual(self.simulator.bonds, ["pink-dice"])
        self.other.call(self.pink, ACCESSORY, "Remove")
        self.board.wait_event("accessoryRemoved")
        self.assertAgree()
        self.assertNothingLeft()

    def test_each_has_a_delay_of_their_own(self):
        time = lambda client: int(client.get(self.pink, ACCESSORY, "RemovalTime"))
        self.person.call(self.pink, ACCESSORY, "ScheduleRemoval", "u", 60)
        self.assertEqual([time(each) > 0 for each in (self.person, self.other, self.world.admin)], [True, False, False])
        for client in (self.other, self.world.admin):
            self.assertFails(error("InvalidRequest"), client.call, self.pink, ACCESSORY, "CancelRemoval")
        self.world.admin.call(self.pink, ACCESSORY, "ScheduleRemoval", "u", 60)
        self.assertAgree()
        self.person.call(self.pink, ACCESSORY, "CancelRemoval")
        self.assertEqual([time(each) > 0 for each in (self.person, self.other, self.world.admin)], [False, False, True])
        self.world.admin.call(self.pink, ACCESSORY, "CancelRemoval")
        self.assertAgree()

    def test_an_admin_removes_all(self):
        self.world.admin.call(self.pink, ACCESSORY, "Remove")
        self.assertAgree()
        self.assertNothingLeft()
        self.assertEqual([each.objects() for each in (self.person, self.other)], [{}, {}])


class Tool(PersonTest):
    """accessoryctl as a person."""

    def ctl(self, *words):
        program = self.world.directory / "accessoryctl"
        if not program.exists():
            shutil.copy(BIN / "accessoryctl", program)
        done = Program("/usr/bin/setpriv", f"--reuid={SOMEBODY_ELSE}", f"--regid={SOMEBODY_ELSE}", f"--groups={GROUP}", program, *words,
                       "--bus", self.world.bus.address)
        return done.wait_end(), "\n".join(done.lines)

    def test_a_person_without_polkit(self):
        status, said = self.ctl("list")
        self.assertEqual(status, 0, said)
        self.assertIn("Pink Dice", said)
        self.assertIn("only accessories that you set up", said)
        self.assertEqual(self.ctl("show", "Pink Dice")[0], 0)
        self.assertEqual(self.ctl("rename", "Pink Dice", "Lucky Die"), (0, "renamed: Pink Dice is now Lucky Die"))
        self.assertEqual(self.ctl("unpair", "--yes", "Lucky Die")[0], 1)
        self.assertEqual(self.ctl("grants")[0], 1)
        self.assertEqual(self.ctl("remove", "Lucky Die"), (0, "removed: Lucky Die"))
        self.assertNothingLeft()
        self.assertEqual(self.ctl("list")[0], 1)
