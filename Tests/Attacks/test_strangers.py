# SPDX-License-Identifier: Apache-2.0
"""Another user's process, and an app without a grant: they see nothing of others, learn nothing by guessing, and cannot answer for others."""

import contextlib
import os

import dbus

from attack import AS_SOMEBODY_ELSE, INVALID, Attack
from harness.clients import Client, Identity
from harness.members import Member, WithMembers
from harness.names import (
    ACCESSORY, GRANT, MANAGER, NAME, OBJECT_MANAGER, PICKER, PINK, PROPERTIES, ROOT, SESSION, SOMEBODY, SOMEBODY_ELSE, UNKNOWN_OBJECT,
    error)
from harness.pickers import PickerProgram
from harness.values import item, sv
from harness.waiting import wait
from view import ACCESS_DENIED, DEVICE1, View, path_of


class Strangers(Attack):
    def setUp(self):
        super().setUp()
        self.stranger = Client(self.world, Identity("stranger", SOMEBODY_ELSE))
        self.in_the_view = View(self.world, "stranger", SOMEBODY_ELSE)
        self.same_user = Client(self.world, Identity("stranger", SOMEBODY))
        self.attackers = (self.stranger, self.in_the_view, self.same_user, self.board)

    def show(self):
        self.dice.show_picker(item("Other"))
        self.person.wait_stage("offering")

    def test_nothing_of_others_is_seen(self):
        self.show()
        for attacker in self.attackers:
            attacker.signals.clear()
            attacker.listen_to_everything()
        self.simulator.do("vanish", "other")
        self.simulator.do("return", "other")
        self.switch(False)
        self.switch(True)
        for attacker in self.attackers:
            with self.subTest(attacker.name):
                own = {self.board.session} if attacker is self.board else set()
                self.assertEqual(set(attacker.objects()), own)
                xml = attacker.introspect(ROOT)
                for kind in ("accessory", "grant", "picker", "app", "admin"):
                    self.assertNotIn(f'"{kind}"', xml)
                attacker.settle()
                ours = [each for each in attacker.signals if each.interface.startswith(NAME) or str(each.path).startswith(ROOT)]
                self.assertEqual(ours, [])
        self.assertTrue(self.dice.wait_event("accessoryRemoved"))

    def test_nobody_but_bluetoothd_tells_what_is_in_range(self):
        """Signals can be sent directly to any client, past all match rules: to each connection of the daemon, as BlueZ sends them."""
        self.show()
        self.person.wait_offer("other")
        said = self.said("""
            from dbus.lowlevel import SignalMessage
            bus = dbus.bus.BusConnection(BUS)
            names = [name for name in bus.list_names() if name.startswith(":") and bus.get_unix_user(name) == int(sys.argv[3])]
            say(len(names))
            PROPERTIES = "org.freedesktop.DBus.Properties"
            def device(address, **more):
                return dbus.Dictionary(dict(Address=address, AddressType="random", Name="Evil", RSSI=dbus.Int16(-30), UUIDs=[sys.argv[4]],
                                            **more), signature="sv")
            def send(path, interface, member, signature, *arguments):
                for name in names:
                    message = SignalMessage(path, interface, member)
                    message.set_destination(name)
                    message.append(*arguments, signature=signature)
                    bus.send_message(message)
            path = "/org/bluez/hci0/dev_C0_00_00_00_00_02"
            send("/", "org.freedesktop.DBus.ObjectManager", "InterfacesAdded", "oa{sa{sv}}", "/org/bluez/hci0/dev_EE_00_00_00_00_01",
                 {"org.bluez.Device1": device("EE:00:00:00:00:01")})
            send(path, PROPERTIES, "PropertiesChanged", "sa{sv}as", "org.bluez.Device1", device("C0:00:00:00:00:02"), [])
            send(path, PROPERTIES, "PropertiesChanged", "s", "org.bluez.Device1")
            send("/", "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved", "oas", path, ["org.bluez.Device1"])
            bus.flush()
            bus.get_name_owner(NAME)
        """, words=(str(os.getuid()), PINK), identity=AS_SOMEBODY_ELSE)
        self.assertGreater(int(said[0]), 2)
        # A signal of bluetoothd arrives after it, and no other did.
        self.simulator.do("vanish", "pink")
        self.simulator.do("return", "pink")
        self.switch(False)
        self.assertEqual([str(each["advertisedName"]) for each in self.person.offers], ["other"])
        self.assertFalse([line for line in self.world.daemon.lines if "libdbus" in line])

    def test_a_guess_tells_nothing(self):
        """Another caller's object is refused in the same words as an absent one."""
        self.show()
        [app, *_] = self.world.admin.paths("app")
        # Path, interface, a method without arguments, a property.
        things = {
            self.accessory: (ACCESSORY, "Remove", "DisplayName"), self.grant(): (GRANT, "Revoke", "App"),
            self.dice.session: (SESSION, "Invalidate", "State"), self.person.path: (PICKER, "Cancel", "Stage"),
            app: (f"{NAME}.App", "Delete", "Source"), f"{ROOT}/admin": (f"{NAME}.Admin", "GetAudit", "x")}
        for path, (interface, member, name) in things.items():
            nowhere = path[:-1] + ("0" if path[-1] != "0" else "1")
            for attacker in self.attackers:
                for call in (
                    lambda at: attacker.call(at, interface, member), lambda at: attacker.get(at, interface, name),
                    lambda at: attacker.get_all(at, interface), lambda at: attacker.introspect(at),
                    lambda at: attacker.call(at, OBJECT_MANAGER, "GetManagedObjects"),
                    lambda at: attacker.call(at, PROPERTIES, "Set", "ssv", interface, name, True),
                ):
                    with self.subTest(path=path, attacker=attacker.name):
                        there = self.assertFails(UNKNOWN_OBJECT, call, path)
                        absent = self.assertFails(UNKNOWN_OBJECT, call, nowhere)
                        self.assertEqual(there.get_dbus_message().replace(path, "it"), absent.get_dbus_message().replace(nowhere, "it"))
        self.assertEqual(self.dice.accessories, [self.accessory])
        self.assertEqual(self.person.get(self.person.path, PICKER, "Stage"), "offering")

    def test_a_guess_in_the_view_tells_nothing(self):
        view = self.view("board")
        for call in (lambda at: view.bluez(at, DEVICE1, "Connect"), lambda at: view.read_property(at, DEVICE1, "Address"),
                     lambda at: view.bluez(at, "org.freedesktop.DBus.Introspectable", "Introspect"),
                     lambda at: view.bluez(at, PROPERTIES, "GetAll", "s", DEVICE1)):
            there = self.assertFails(UNKNOWN_OBJECT, call, self.pink)
            absent = self.assertFails(UNKNOWN_OBJECT, call, path_of(0x77))
            self.assertEqual(there.get_dbus_message().replace(self.pink, "it"), absent.get_dbus_message().replace(path_of(0x77), "it"))
        self.assertEqual(self.linked(), [])

    def test_nobody_else_answers_a_picker(self):
        self.show()
        offer = self.person.wait_offer("other")["id"]
        for attacker in (*self.attackers, self.dice):
            for member, signature, *arguments in (
                    ("Pick", "s", offer), ("PickWith", "sa{sv}", offer, sv({})), ("Cancel", ""), ("Respond", "a{sv}", sv({"accept": True})), ("Rename", "s", "Mine"),
                    ("GetImage", "s", offer), ("ImageData", "s", offer)):
                self.assertFails(UNKNOWN_OBJECT, attacker.call, self.person.path, PICKER, member, signature, *arguments)
        self.assertEqual(self.person.stages, ["searching", "offering"])
        self.assertEqual(len(self.world.grants()), 1)

    def test_who_is_not_in_the_group_shows_no_pickers(self):
        for attacker in (*self.attackers, self.dice):
            self.assertFails(ACCESS_DENIED, attacker.call, ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({}), says=["accessory-picker"])
        # Nor does one that unregisters displace another.
        with contextlib.suppress(dbus.DBusException):
            self.stranger.call(ROOT, MANAGER, "UnregisterPicker")
        self.assertTrue(self.world.manager("PickerAvailable"))
        self.show()

    def test_an_app_does_not_use_what_is_another_apps(self):
        """By its path, its session, its identifier, or as something to take over."""
        path = dbus.ObjectPath(self.accessory)
        for member, signature, *arguments in (
                ("RemoveAccessory", "o", path), ("RenameAccessory", "oa{sv}", path, sv({})), ("RenewAccess", "oa{sv}", path, sv({})), ("FailAuthorization", "o", path),
                ("FinishAuthorization", "oa{sv}", path, sv({})), ("UpdateAuthorization", "oa{sv}", path, sv({"bluetoothServiceUUID": PINK})),
                ("ObservePresence", "ob", path, True)):
            with self.subTest(member):
                self.assertFails(UNKNOWN_OBJECT, self.board.request, member, signature, *arguments)
        self.assertFails(UNKNOWN_OBJECT, self.board.call, self.accessory, ACCESSORY, "JoinNetwork", "a{sv}", sv({}))
        self.assertFails(UNKNOWN_OBJECT, self.board.call, self.dice.session, SESSION, "Invalidate")
        self.assertEqual(self.board.accessories, [])
        self.assertEqual(self.dice.accessories, [self.accessory])
        self.assertEqual(self.simulator.bonds, ["pink"])


class Members(WithMembers, Attack):
    def setUp(self):
        super().setUp()
        self.dices = self.grant()
        self.person.close()

    def test_a_picker_program_is_no_admin(self):
        """A member of the group shows pickers and answers them, and sees and changes nothing else."""
        member = PickerProgram(self.world, Member("shower", SOMEBODY_ELSE)).register()
        self.dice.show_picker(item("Other"))
        member.wait_offer("other")
        self.assertEqual(set(member.objects()), {member.path})
        for path, interface, method in ((self.dices, GRANT, "Revoke"), (self.accessory, ACCESSORY, "Remove"),
                                        (self.dice.session, SESSION, "Invalidate")):
            self.assertFails(UNKNOWN_OBJECT, member.call, path, interface, method)
        self.assertFails(UNKNOWN_OBJECT, member.call, f"{ROOT}/admin", f"{NAME}.Admin", "GetAudit", "a{sv}", sv({}))
        self.assertFails(error("ActivationFailed"), member.call, ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))
        self.assertFails(INVALID, member.ask, "Pick", "s", "00000000-0000-0000-0000-000000000000")
        member.pick("other")
        self.dice.wait_event("accessoryAdded")

    def test_an_app_is_not_its_user(self):
        """A person manages their accessory as a member of the group. An app that runs as the same user does not, even in the group."""
        member = PickerProgram(self.world, Member("shower", SOMEBODY_ELSE)).register()
        self.dice.show_picker(item("Other"))
        member.pick("other")
        other = str(self.dice.wait_event("accessoryAdded", count=2)["accessory"])
        self.assertEqual([each for each in member.objects() if "/accessory/" in each], [other])
        app = Client(self.world, Member("board", SOMEBODY_ELSE))
        outside = Client(self.world, Identity("shower", SOMEBODY_ELSE))
        for attacker in (app, self.board, outside, PickerProgram(self.world, Member("shower", SOMEBODY)).register()):
            with self.subTest(attacker.name):
                attacker.listen_to_everything()
                self.assertNotIn(other, attacker.objects())
                for call in (("Rename", "s", "Mine"), ("Remove",), ("ScheduleRemoval", "u", 1), ("ImageData",)):
                    self.assertFails(UNKNOWN_OBJECT, attacker.call, other, ACCESSORY, *call)
                member.call(other, ACCESSORY, "Rename", "s", f"Theirs {attacker.name[3:]}")
                attacker.settle()
                self.assertEqual([each for each in attacker.signals if each.path == other], [])
        # A manifest that names the program of a person afterwards makes it an app, and a session does for good.
        self.world.declare("shower")
        wait(lambda: other not in member.objects(), what="the app to see nothing", also_every=0.1)
        member.call(ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))
        (self.world.app_directories[0] / "com.example.shower.conf").unlink()
        self.assertFails(error("ActivationFailed"), outside.call, ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))
        self.assertNotIn(other, member.objects())

    def test_a_second_picker_program_does_not_answer_for_the_first(self):
        first = PickerProgram(self.world, Member("shower", SOMEBODY_ELSE)).register()
        self.dice.show_picker(item("Other"))
        offer = first.wait_offer("other")["id"]
        second = PickerProgram(self.world, Member("shower", SOMEBODY)).register()
        self.assertFails(UNKNOWN_OBJECT, second.call, first.path, PICKER, "Pick", "s", offer)
        self.assertFails(UNKNOWN_OBJECT, second.call, first.path, PICKER, "Cancel")
        self.assertEqual(first.state["Stage"], "offering")
