# SPDX-License-Identifier: Apache-2.0
"""Visibility: unprivileged users over the same bus. Whatever a caller may not see is, for it, as if it were not there."""

import dbus

from harness.apps import App
from harness.clients import Client, Identity
from harness.names import (
    ACCESSORY, BLUE, BUS_ERROR, GRANT, NETWORK, PICKER, PROPERTIES, ROOT, SESSION, SOMEBODY, SOMEBODY_ELSE, UNKNOWN_OBJECT)
from harness.values import item
from harness.waiting import wait
from harness.world import APITest


class Visibility(APITest):
    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.person = self.picker()
        self.dice = self.app("dice", SOMEBODY)
        self.board = self.app("board", SOMEBODY_ELSE)
        self.stranger = Client(self.world, Identity("stranger", SOMEBODY_ELSE))
        self.pink = self.add(self.dice, self.person, "Dice 4F")
        self.blue = self.add(self.board, self.person, "Dice A2", item("Blue Dice", BLUE), answer={"accept": True})

    def test_each_app_sees_its_own(self):
        self.dice.show_picker(item("Blue Dice", BLUE))
        self.person.wait_shown()
        self.assertEqual(sorted(self.dice.objects()), sorted([self.dice.session, self.pink]))
        self.assertEqual(sorted(self.board.objects()), sorted([self.board.session, self.blue]))
        self.assertEqual(self.stranger.objects(), {})
        for_admin = self.world.admin.objects()
        for path in (self.dice.session, self.board.session, self.pink, self.blue, self.person.path):
            self.assertIn(path, for_admin)
        self.assertEqual(len([path for path in for_admin if "/grant/" in path]), 2)

    def test_a_second_connection_of_the_app_sees_its_accessories_but_not_the_others_session(self):
        second = self.app("dice")
        self.assertEqual(sorted(second.objects()), sorted([second.session, self.pink]))
        self.assertFails(UNKNOWN_OBJECT, second.call, self.dice.session, SESSION, "Invalidate")
        # Without a session it has no identity yet.
        third = App(self.world, "dice")
        self.assertEqual(third.objects(), {})

    def test_introspection_shows_no_more(self):
        for client in (self.dice, self.board, self.stranger):
            xml = client.introspect(ROOT)
            self.assertNotIn('name="grant"', xml)
            self.assertNotIn('name="picker"', xml)
        self.assertNotIn("<node name=", self.stranger.introspect(ROOT))
        self.assertNotIn(self.blue.rpartition("/")[2], self.dice.introspect(f"{ROOT}/accessory"))
        self.assertFails(UNKNOWN_OBJECT, self.dice.introspect, self.blue)
        self.assertFails(UNKNOWN_OBJECT, self.stranger.introspect, f"{ROOT}/accessory")

    def test_what_may_not_be_seen_is_like_what_does_not_exist(self):
        self.dice.show_picker(item("Blue Dice", BLUE))
        self.person.wait_shown()
        [grant, *_] = self.world.admin.paths("grant")
        calls = {
            "session": (self.dice.session, SESSION, "State", "Invalidate"),
            "accessory": (self.pink, ACCESSORY, "DisplayName", "Remove"),
            "picker": (self.person.path, PICKER, "Stage", "Cancel"),
            "grant": (grant, GRANT, "App", "Revoke"),
        }
        for kind, (path, interface, name, method) in calls.items():
            for client in (self.board, self.stranger) + ((self.dice,) if kind in ("picker", "grant") else ()):
                for call in (
                    lambda path: client.get(path, interface, name),
                    lambda path: client.get(path, interface, "Colour"),
                    lambda path: client.get_all(path, interface),
                    lambda path: client.get_all(path, "org.example.Other"),
                    lambda path: client.call(path, PROPERTIES, "Set", "ssv", interface, name, "x"),
                    lambda path: client.call(path, interface, method),
                    lambda path: client.call(path, interface, "Colour"),
                    lambda path: client.call(path, interface, method, "s", "one argument too many"),
                    lambda path: client.call(path, "org.example.Other", method),
                    lambda path: client.introspect(path),
                ):
                    nowhere = path.rpartition("/")[0] + "/" + "0" * len(path.rpartition("/")[2])
                    with self.subTest(kind, uid=client is self.board):
                        hidden = self.assertFails(UNKNOWN_OBJECT, call, path)
                        missing = self.assertFails(UNKNOWN_OBJECT, call, nowhere)
                        self.assertEqual(
                            hidden.get_dbus_message().replace(path, "…"), missing.get_dbus_message().replace(nowhere, "…"))
        self.assertIn(self.person.get(self.person.path, PICKER, "Stage"), ("searching", "offering"))
        self.assertEqual(self.dice.state, "active")

    def test_requests_on_what_is_another_apps(self):
        hidden = self.assertFails(UNKNOWN_OBJECT, self.dice.remove, self.blue)
        missing = self.assertFails(UNKNOWN_OBJECT, self.dice.remove, self.blue[:-4] + "0000")
        self.assertEqual(hidden.get_dbus_message().replace(self.blue, "…"),
                         missing.get_dbus_message().replace(self.blue[:-4] + "0000", "…"))
        self.assertEqual(self.board.accessories, [self.blue])

    def test_what_is_the_admins_is_hidden_in_ones_own(self):
        self.assertEqual(set(self.dice.get_all(self.pink, ACCESSORY)) & {"Address", "Adapter", "NetworkName", "Apps", "Connected", "Battery", "Problems", "AdvertisedName", "HasImage", "RemovalTime"}, set())
        for name in ("Address", "Adapter", "NetworkName", "Apps", "Connected", "Battery", "Problems", "AdvertisedName", "HasImage", "RemovalTime"):
            hidden = self.assertFails(BUS_ERROR + "UnknownProperty", self.dice.get, self.pink, ACCESSORY, name)
            missing = self.assertFails(BUS_ERROR + "UnknownProperty", self.dice.get, self.pink, ACCESSORY, "Colour")
            self.assertEqual(hidden.get_dbus_message().replace(name, "…"), missing.get_dbus_message().replace("Colour", "…"))
        self.assertFails(BUS_ERROR + "UnknownMethod", self.dice.call, self.pink, ACCESSORY, "Remove")
        self.assertFails(BUS_ERROR + "UnknownMethod", self.dice.call, self.pink, ACCESSORY, "Rename", "s", "Mine")
        self.assertEqual(self.dice.accessories, [self.pink])

    def test_an_admin_may_look_at_a_session_and_not_use_it(self):
        self.assertEqual(self.world.admin.get(self.dice.session, SESSION, "State"), "active")
        for member in ("Activate", "Invalidate"):
            with self.assertRaises(dbus.DBusException):
                self.world.admin.call(self.dice.session, SESSION, member)
        self.assertEqual(self.dice.state, "active")

    def test_signals_reach_only_whom_they_concern(self):
        # Programs that ask the bus for every signal: one that never called the daemon, one that did, and another app.
        unknown = Client(self.world, Identity("stranger", SOMEBODY))
        curious = [unknown, self.stranger, self.board]
        self.stranger.settle()
        for each in curious:
            each.listen_to_everything()
            each.drain()
            each.signals.clear()
        self.dice.remove(self.pink)
        self.dice.show_picker(item())
        self.person.pick("Dice 4F")
        self.dice.wait_event("pickerDidDismiss", count=2)
        self.dice.request("Invalidate")
        self.dice.wait_event("invalidated")
        for each in curious:
            each.drain()
            heard = [(signal.path, signal.member) for signal in each.signals if signal.path.startswith(ROOT)]
            # The board's own accessory is its business.
            self.assertEqual([signal for signal in heard if signal[0] != self.blue or each is not self.board], [])

    def test_events_are_the_sessions_own(self):
        second = self.app("dice")
        self.dice.remove(self.pink)
        for app in (self.dice, second):
            app.wait_event("accessoryRemoved")
            app.settle()
            paths = {each.path for each in app.signals if each.member == "Event"}
            self.assertEqual(paths, {app.session})
        self.assertNotIn("accessoryRemoved", self.board.told())

    def test_an_app_sees_objects_come_and_go(self):
        signals = lambda member, path: [
            each for each in self.dice.signals if each.member == member and each.path == ROOT and each.arguments[0] == path]
        self.assertEqual(len(signals("InterfacesAdded", self.pink)), 1)
        self.assertEqual(set(signals("InterfacesAdded", self.pink)[0].arguments[1]), {ACCESSORY, NETWORK})
        self.assertNotIn("Address", signals("InterfacesAdded", self.pink)[0].arguments[1][ACCESSORY])
        self.assertEqual(len(signals("InterfacesAdded", self.dice.session)), 1)
        self.assertEqual(signals("InterfacesAdded", self.blue), [])
        self.dice.remove(self.pink)
        wait(lambda: signals("InterfacesRemoved", self.pink), 5, "InterfacesRemoved")
        self.assertEqual(len(signals("InterfacesRemoved", self.pink)), 1)

    def test_pickers_are_not_the_apps(self):
        self.dice.show_picker(item("Blue Dice", BLUE))
        self.person.wait_shown()
        self.person.cancel()
        self.person.wait_gone()
        self.dice.settle()
        self.assertEqual([each.member for each in self.dice.signals if "/picker/" in each.path], [])
        added = [str(each.arguments[0]) for each in self.dice.signals if each.member == "InterfacesAdded"]
        self.assertEqual([path for path in added if "/picker/" in path], [])
