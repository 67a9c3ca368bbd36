# SPDX-License-Identifier: Apache-2.0
"""A user who asks for everything, over as many connections as there may be: limits are for users, and users are served in
turn. These tests check the order; another user's waiting time is measured by `Tests/Bench/run --floods`."""

import dbus

from attack import Attack
from harness.apps import App
from harness.names import OBJECT_MANAGER, PROPERTIES, SESSION, SOMEBODY, SOMEBODY_ELSE, error
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest
from view import ADAPTER, ADAPTER1, BLUEZ, CHARACTERISTIC1, DEVICE1, LIMITS_EXCEEDED, View

INVALID = error("InvalidRequest")
ACTIVE = error("PickerAlreadyActive")


class SharesOfTheView(Attack):
    """Dice and board have the accessory, as two users."""

    def setUp(self):
        super().setUp()
        self.share()
        self.other = self.view("board").connect(self.pink)
        self.crowd = [self.view().connect(self.pink) for _ in range(4)]
        self.characteristic = self.other.characteristic(self.pink)

    def ask(self, view, *call):
        """A call that is not waited for, and the answers to come."""
        answers = []
        view.call_later(*call[:3], lambda *answer: answers.append(answer), *call[3:], to=BLUEZ)
        return answers

    def read(self, view):
        return self.ask(view, self.characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}))

    def stop_bluetoothd(self):
        self.simulator.pause()
        self.addCleanup(self.simulator.resume)

    def assertRefused(self, answers, count):
        names = [each[0].get_dbus_name() for each in answers if each and isinstance(each[0], dbus.DBusException)]
        self.assertEqual(names, [LIMITS_EXCEEDED] * count)

    def test_match_rules(self):
        rules = 0
        # Each client of the crowd has one, by which it hears of everything.
        for number in range(1024 - len(self.crowd)):
            self.crowd[number % 4].driver("AddMatch", "s", f"type='signal',arg0='{number}'")
            rules += 1
        for each in self.crowd:
            self.assertFails(LIMITS_EXCEEDED, each.driver, "AddMatch", "s", "type='signal'", says=[str(SOMEBODY), "1024"])
        self.other.driver("AddMatch", "s", "type='signal'")
        self.crowd.pop().close()
        wait(lambda: self.takes_rule(), what="room for a rule", also_every=0.02)

    def test_listeners(self):
        """Each listener costs CPU for every value."""
        crowd = [View(self.world) for _ in range(13)]
        for each in crowd[:12]:
            each.driver("AddMatch", "s", "type='signal',sender='org.bluez'")
        self.assertFails(LIMITS_EXCEEDED, crowd[12].driver, "AddMatch", "s", "type='signal',sender='org.bluez'", says=["16 connections"])
        # A rule for another sender does not count, and a listener may add more.
        crowd[12].driver("AddMatch", "s", "type='signal',sender='org.freedesktop.DBus'")
        crowd[0].driver("AddMatch", "s", "type='signal',path='/'")
        self.view("board")
        self.assertEqual(bytes(self.read_now()), b"\x01")
        crowd.pop(0).close()
        wait(lambda: self.takes_rule(crowd[-1]), what="room for a listener", also_every=0.02)

    def takes_rule(self, view=None):
        try:
            (view or self.crowd[0]).driver("AddMatch", "s", "type='signal'")
            return True
        except dbus.DBusException:
            return False

    def test_calls(self):
        self.stop_bluetoothd()
        answers = [self.read(self.crowd[number % 4]) for number in range(520)]
        for each in self.crowd:
            each.driver("GetId")
        wait(lambda: sum(map(len, answers)) == 8, what="refusals")
        self.assertRefused([answer for each in answers for answer in each], 8)
        others = self.read(self.other)
        self.other.driver("GetId")
        self.assertEqual(others, [])
        self.simulator.resume()
        wait(lambda: others and all(answers), what="all answers")
        self.assertEqual([bytes(each) for each in others[0]], [b"\x01"])

    def test_descriptors(self):
        """A share that is given back can be taken again."""
        for _ in range(3):
            taken = []
            for _ in range(40):
                descriptor, _ = self.crowd[0].bluez(self.characteristic, CHARACTERISTIC1, "AcquireWrite", "a{sv}", sv({}))
                taken.append(descriptor)
                self.crowd[0].disconnect(self.pink)
                self.crowd[0].connect(self.pink)

    def assertSecond(self, ask, ask_other, mine, others):
        """Of calls that wait for bluetoothd, the other user's comes after those that are under way, and one."""
        self.stop_bluetoothd()
        ear = self.hear("type='method_call',destination='org.bluez'")
        answers = [ask(self.crowd[number % 4]) for number in range(100)]
        for each in self.crowd:
            each.driver("GetId")
        answers.append(ask_other(self.other))
        self.other.driver("GetId")
        self.simulator.resume()
        wait(lambda: all(answers), what="all answers")
        for each in self.crowd:
            each.driver("GetId")
        ear.wait_for(others + "$")
        order = [line for line in ear.lines if line.endswith((mine, others))]
        self.assertLessEqual(next(index for index, line in enumerate(order) if line.endswith(others)), 4, order)

    def test_turns_on_a_link(self):
        self.assertSecond(self.read, lambda view: self.ask(view, self.characteristic, CHARACTERISTIC1, "StartNotify"),
                          "member=ReadValue", "member=StartNotify")

    def test_turns_at_bluetoothd(self):
        self.assertSecond(lambda view: self.ask(view, self.pink, PROPERTIES, "GetAll", "s", DEVICE1),
                          lambda view: self.ask(view, self.characteristic, PROPERTIES, "Get", "ss", CHARACTERISTIC1, "Flags"),
                          "member=GetAll", "member=Get")

    def test_long_answers_stand_in_nobodys_way(self):
        self.assertSecond(lambda view: self.ask(view, "/", OBJECT_MANAGER, "GetManagedObjects"), self.read,
                          "member=GetManagedObjects", "member=ReadValue")

    def test_a_write_before_a_disconnect(self):
        """An app's earlier calls about a link are not overtaken by its `Disconnect`."""
        self.stop_bluetoothd()
        view, answers = self.crowd[0], []
        for number in range(10):
            answers.append(self.ask(view, self.characteristic, CHARACTERISTIC1, "WriteValue", "aya{sv}", dbus.ByteArray([number]),
                                    sv({"type": "command"})))
        gone = self.ask(view, self.pink, DEVICE1, "Disconnect")
        self.simulator.resume()
        wait(lambda: gone and all(answers), what="all answers")
        self.assertEqual([each for each in answers if each != [()]], [])
        self.assertEqual(bytes(self.read_now()), b"\x09")

    def read_now(self):
        return self.other.bluez(self.characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}))

    def test_turns_at_the_door(self):
        """A user who sends a thousand calls at once delays another user's by a few. The log has the order in which they are refused."""
        self.world.daemon.pause()
        self.addCleanup(self.world.daemon.resume)
        answers = [self.ask(self.crowd[number % 4], self.pink, DEVICE1, "CancelPairing") for number in range(1000)]
        for each in self.crowd:
            each.deliver()
        answers.append(self.ask(self.other, ADAPTER, ADAPTER1, "RemoveDevice", "o", dbus.ObjectPath(self.pink)))
        self.other.deliver()
        self.world.daemon.resume()
        wait(lambda: all(answers), 60, what="all answers")
        order = [line for line in self.world.daemon.lines if "call refused" in line and ("CancelPairing" in line or "RemoveDevice" in line)]
        self.assertEqual(len(order), 1001)
        self.assertLess(next(index for index, line in enumerate(order) if "RemoveDevice" in line), 16)


class SharesOfSessions(APITest):
    apps = ("dice",)

    def test_an_app_that_two_users_run(self):
        """Each has as many sessions."""
        mine, others = App(self.world, "dice", SOMEBODY), App(self.world, "dice", SOMEBODY_ELSE)
        for _ in range(8):
            mine.create_session()
        for each in (mine, App(self.world, "dice", SOMEBODY)):
            self.assertFails(INVALID, each.create_session, says=["8 sessions", f"user {SOMEBODY}"])
        others.begin()
        self.assertEqual(others.state, "active")


class TurnsOfPickers(APITest):
    """Dice and lamp are one user's, board is another's."""

    apps = ("dice", "lamp", "board", *(f"app{number}" for number in range(9)))

    def setUp(self):
        super().setUp()
        self.dice, self.lamp, self.board = self.app(), self.app("lamp"), self.app("board", SOMEBODY_ELSE)

    def ask(self, app, **settings):
        answers = []
        app.call_later(app.session, SESSION, "ShowPicker", lambda *answer: answers.append(answer), "aa{sv}a{sv}",
                       dbus.Array([sv(item())], "a{sv}"), sv({"waitForPicker": 3600.0} | settings))
        app.settle()
        return answers

    def end(self, app, count=1):
        app.request("CancelPicker")
        app.wait_event("pickerDidDismiss", count=count)

    def test_who_asks_again_at_once(self):
        """It comes after an app that was refused meanwhile, whether that app waits or asks again."""
        self.picker()
        for count in range(1, 4):
            with self.subTest(count):
                self.dice.show_picker(item())
                self.assertFails(ACTIVE, self.board.show_picker, item())
                self.end(self.dice, count)
                for _ in range(5):
                    self.assertFails(ACTIVE, self.dice.show_picker, item(), says=["turn"])
                self.board.show_picker(item())
                self.assertFails(ACTIVE, self.dice.show_picker, item())
                self.end(self.board, count)

    def test_who_asks_again_at_once_while_another_waits(self):
        self.picker()
        self.dice.show_picker(item())
        answers = self.ask(self.board)
        # In one go: the daemon hears both together.
        self.dice.call_later(self.dice.session, SESSION, "CancelPicker", lambda *_: None)
        again = self.ask(self.dice, waitForPicker=0.0)
        wait(lambda: answers and again, what="answers")
        self.assertIn("/picker/", str(answers[0][0]))
        self.assertEqual(again[0][0].get_dbus_name(), ACTIVE)

    def test_users_have_their_turns(self):
        """However many apps of one user wait, and since when."""
        waiting = {app: self.ask(app) for app in (self.dice, self.lamp, self.board)}
        self.picker()
        order = []
        for _ in range(3):
            wait(lambda: any(waiting.values()), what="a picker")
            shown = next(app for app, answers in waiting.items() if answers)
            order.append(shown)
            del waiting[shown]
            shown.request("CancelPicker")
        self.assertEqual(order, [self.dice, self.board, self.lamp])

    def test_apps_of_a_user_have_their_turns(self):
        self.picker()
        self.dice.show_picker(item())
        self.assertFails(ACTIVE, self.lamp.show_picker, item())
        self.end(self.dice)
        self.assertFails(ACTIVE, self.dice.show_picker, item(), says=["turn"])
        self.lamp.show_picker(item())

    def test_a_turn_that_is_not_taken(self):
        """It is kept for a few seconds."""
        self.picker()
        self.dice.show_picker(item())
        self.assertFails(ACTIVE, self.board.show_picker, item())
        self.end(self.dice)
        answers = self.ask(self.dice)
        self.assertEqual(answers, [])
        wait(lambda: answers or self.world.pass_second(), 20, "the answer")
        self.assertIn("/picker/", str(answers[0][0]))

    def test_one_user_does_not_have_all_places_to_wait(self):
        apps = [self.app(f"app{number}") for number in range(9)]
        answers = [self.ask(app) for app in apps]
        wait(lambda: answers[8], what="a refusal")
        self.assertEqual([str(each[0][0].get_dbus_name()) for each in answers if each], [error("PickerRestricted")])
        self.assertEqual(self.ask(self.board), [])
