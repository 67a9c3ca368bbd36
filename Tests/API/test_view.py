# SPDX-License-Identifier: Apache-2.0
"""The scoped view of org.bluez: an app's objects and rights there, none of which outlives the grant."""

import re
import select
import socket
import time
import unittest

import dbus

from harness.names import (
    BUS_ERROR, GRANT, MANAGER, NAME, OBJECT_MANAGER, PINK, PROPERTIES, ROOT, SESSION, SOMEBODY, SOMEBODY_ELSE, UNKNOWN_OBJECT, error)
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import STANDSTILL, wait
from view import ADAPTER, ADAPTER1, AGENTS, BLUEZ, CHARACTERISTIC1, DEVICE1, DRIVER, MANAGERS, View, ViewTest, path_of


class Sight(ViewTest):
    def test_an_app_sees_its_own_accessory_and_the_adapter(self):
        view = self.view()
        self.world.admin.call(ADAPTER, ADAPTER1, "StartDiscovery", to=BLUEZ)
        wait(lambda: len(self.simulator.devices()) == 2, what="both devices", also_every=0.05)
        self.assertEqual(sorted(view.tree()), [MANAGERS, ADAPTER, self.pink])
        self.assertEqual(view.tree()[self.pink][DEVICE1]["Address"], "C0:FF:EE:00:02:01")
        self.assertEqual(view.read_property(ADAPTER, ADAPTER1, "Powered"), True)
        # Another client searches, which is not the app's search.
        self.assertEqual(view.read_property(ADAPTER, ADAPTER1, "Discovering"), False)
        self.assertEqual(
            re.findall('node name="([^"]*)"', view.bluez(ADAPTER, "org.freedesktop.DBus.Introspectable", "Introspect")),
            ["dev_C0_FF_EE_00_02_01"])
        view.drain()
        self.assertEqual([each for each in view.signals if self.other in str(each)], [])

    def test_other_devices_are_unknown_objects(self):
        view = self.view()
        self.world.admin.call(ADAPTER, ADAPTER1, "StartDiscovery", to=BLUEZ)
        wait(lambda: len(self.simulator.devices()) == 2, what="both devices", also_every=0.05)
        for path in (self.other, path_of(9), self.other + "/service000a/char000c", "/org/bluez/hci1", "/com/example"):
            for interface, member, *arguments in (
                    (DEVICE1, "Connect"), (PROPERTIES, "GetAll", "s", DEVICE1), (CHARACTERISTIC1, "ReadValue", "a{sv}", sv({})),
                    ("org.freedesktop.DBus.Introspectable", "Introspect"), ("com.example.Nothing", "Nothing")):
                with self.subTest(path=path, member=member):
                    self.assertFails(UNKNOWN_OBJECT, view.bluez, path, interface, member, *arguments)
        self.assertEqual(self.linked(), [])

    def test_without_a_grant_the_adapter_has_no_power(self):
        for who, view in (("an app without a grant", self.view("board")), ("no app at all", View(self.world, "stranger"))):
            with self.subTest(who):
                self.assertEqual(list(view.tree()), [MANAGERS, ADAPTER])
                adapter = view.tree()[ADAPTER][ADAPTER1]
                self.assertEqual((adapter["Powered"], adapter["Address"]), (False, "00:00:00:00:00:00"))
                self.assertFails("org.bluez.Error.NotReady", view.bluez, ADAPTER, ADAPTER1, "StartDiscovery")
                self.assertFails(UNKNOWN_OBJECT, view.connect, self.pink)

    def test_the_first_grant_brings_the_adapter_to_life(self):
        view = self.view("board")
        view.tree()
        self.share()
        view.wait_change(ADAPTER, "Powered", True)
        wait(lambda: view.told("InterfacesAdded", self.pink), what="the device to be announced")
        self.assertEqual(sorted(each for each in view.tree() if each.startswith(ADAPTER + "/dev"))[0], self.pink)

    def test_discovery_finds_the_apps_own_accessories_only(self):
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")
        view = self.view()
        view.tree()
        view.bluez(ADAPTER, ADAPTER1, "SetDiscoveryFilter", "a{sv}", sv({"Transport": "le"}))
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        view.wait_change(ADAPTER, "Discovering", True)
        wait(lambda: view.changes(self.pink, "RSSI"), what="the accessory to be heard")
        wait(lambda: len(self.simulator.devices()) == 2, what="the other one to be heard by org.bluez", also_every=0.05)
        view.bluez(ADAPTER, ADAPTER1, "StopDiscovery")
        view.wait_change(ADAPTER, "Discovering", False)
        view.drain()
        self.assertEqual([each for each in view.signals if self.other in str(each)], [])
        self.assertFalse(self.simulator.discovering)

    def test_a_client_that_goes_ends_its_discovery(self):
        view = self.view()
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        self.assertTrue(self.simulator.discovering)
        view.close()
        wait(lambda: not self.simulator.discovering, what="discovery to end", also_every=0.05)

    def test_it_follows_the_radio_service(self):
        view = self.view().connect(self.pink)
        self.simulator.do("serviceStopped")
        wait(lambda: view.told("NameOwnerChanged", BLUEZ) or not view.has_owner(BLUEZ), what="the name to go", also_every=0.05)
        self.assertFails(BUS_ERROR + "ServiceUnknown", view.connect, self.pink)
        self.world.wait_bluetooth("absent")
        self.simulator.do("serviceStarted")
        wait(lambda: view.has_owner(BLUEZ), what="the name to come back", also_every=0.05)
        self.world.wait_bluetooth("ready")
        self.assertEqual(view.read_property(self.pink, DEVICE1, "Connected"), False)
        view.connect(self.pink)
        self.assertEqual(self.linked(), ["pink"])

    def test_an_adapter_that_goes_and_comes_is_told(self):
        view, listener = self.view(), self.view()
        view.tree()
        self.simulator.do("adapterRemoved", "hci0")
        wait(lambda: view.told("InterfacesRemoved", ADAPTER), what="the adapter to go")
        self.assertEqual(list(view.tree()), [MANAGERS])
        self.simulator.do("adapterAdded", "hci0")
        added = wait(lambda: view.told("InterfacesAdded", ADAPTER), what="the adapter to come back")
        self.assertIn(ADAPTER1, added[-1].arguments[1])
        self.world.wait_bluetooth("ready")
        wait(lambda: view.read_property(ADAPTER, ADAPTER1, "Powered"), what="power", also_every=0.05)
        listener.drain()
        self.assertEqual([len(listener.told(member, ADAPTER)) for member in ("InterfacesRemoved", "InterfacesAdded")], [1, 1])

    def test_an_adapter_is_told_that_comes_after_the_service(self):
        view = self.view()
        view.tree()
        self.simulator.do("adapterRemoved", "hci0")
        self.world.wait_bluetooth("absent")
        self.simulator.do("serviceStopped")
        self.simulator.do("serviceStarted")
        wait(lambda: view.has_owner(BLUEZ), what="the name to come back", also_every=0.05)
        self.assertEqual(list(view.tree()), [MANAGERS])
        self.simulator.do("adapterAdded", "hci0")
        wait(lambda: view.told("InterfacesAdded", ADAPTER), what="the adapter")

    def test_what_there_is_after_a_restart_of_the_service_is_told(self):
        """A client that stays, and only listens, finds its accessory again: in either order of the daemon's and the view's signals."""
        view = self.view()
        view.tree()
        for adapter in (True, False):
            with self.subTest("the adapter comes with the service" if adapter else "the adapter comes later"):
                view.signals.clear()
                if not adapter:
                    self.simulator.do("adapterRemoved", "hci0")
                    wait(lambda: view.told("InterfacesRemoved", ADAPTER), what="the adapter to go")
                self.simulator.do("serviceStopped")
                wait(lambda: not view.has_owner(BLUEZ), what="the name to go", also_every=0.05)
                self.world.wait_bluetooth("absent")  # else it is ready below because it has heard nothing yet
                view.signals.clear()
                self.simulator.do("serviceStarted")
                if not adapter:
                    wait(lambda: view.has_owner(BLUEZ), what="the name to come back", also_every=0.05)
                    self.simulator.do("adapterAdded", "hci0")
                wait(lambda: view.told("InterfacesAdded", ADAPTER), what="the adapter")
                wait(lambda: view.told("InterfacesAdded", self.pink), what="the accessory")
                # The adapter's stand-in is for apps without a grant.
                self.assertEqual({bool(each.arguments[1][ADAPTER1]["Powered"]) for each in view.told("InterfacesAdded", ADAPTER)
                                  if ADAPTER1 in each.arguments[1]}, {True})
                self.world.wait_bluetooth("ready")
                view.connect(self.pink)
                view.disconnect(self.pink)

    def test_who_has_read_the_adapter_is_told_how_it_is(self):
        view = self.view()
        self.assertEqual(view.read_property(ADAPTER, ADAPTER1, "Discovering"), False)
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        view.wait_change(ADAPTER, "Discovering", True)

    def test_programs_may_switch_on_what_is_on(self):
        """bluez-async does it before each search, and bluer's examples. A switched-off adapter stays off."""
        view = self.view()
        view.bluez(ADAPTER, PROPERTIES, "Set", "ssv", ADAPTER1, "Powered", True)
        self.simulator.do("adapterPowerOff", "hci0")
        self.world.wait_bluetooth("off")
        self.assertFails("org.bluez.Error.NotPermitted", view.bluez, ADAPTER, PROPERTIES, "Set", "ssv", ADAPTER1, "Powered", True)
        self.assertEqual(view.read_property(ADAPTER, ADAPTER1, "Powered"), False)

    def test_what_is_not_heard_any_more_is_told(self):
        view = self.view()
        view.bluez(ADAPTER, ADAPTER1, "SetDiscoveryFilter", "a{sv}", sv({"Transport": "le", "AutoConnect": False}))
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        wait(lambda: view.changes(self.pink, "RSSI"), what="the accessory to be heard")
        view.bluez(ADAPTER, ADAPTER1, "StopDiscovery")
        wait(lambda: view.invalidated(self.pink, "RSSI"), what="that it is not")

    def test_our_own_name_is_there_too(self):
        names = [str(each) for each in self.view().driver("ListNames") if not each.startswith(":")]
        self.assertEqual(sorted(names), [NAME, BLUEZ, DRIVER])


class Peripherals(ViewTest):
    """Which identifier is which device: for who has a grant, and no session."""

    PATH, INTERFACE = "/org/accessorysetup1/view", "org.accessorysetup1.View"

    def peripherals(self, view):
        found = view.call(self.PATH, PROPERTIES, "Get", "ss", self.INTERFACE, "Peripherals", to=NAME)
        return [tuple(map(str, each)) for each in found]

    def changes(self, view):
        return [[tuple(map(str, each)) for each in change] for change in view.changes(self.PATH, "Peripherals")]

    def test_they_are_the_apps_own(self):
        view = self.view()
        (identifier, device, name), = self.peripherals(view)
        self.assertEqual(device, self.pink)
        self.assertEqual(name, "Pink")
        accessory, = self.dice.paths("accessory")
        self.assertEqual(identifier, self.dice.call(
            accessory, PROPERTIES, "Get", "ss", "org.accessorysetup1.Accessory", "BluetoothIdentifier"))
        self.assertEqual(
            view.call(self.PATH, PROPERTIES, "GetAll", "s", self.INTERFACE, to=NAME)["Peripherals"][0][1], self.pink)
        for who, other in (("an app without a grant", self.view("board")), ("no app at all", View(self.world, "stranger"))):
            with self.subTest(who):
                self.assertEqual(self.peripherals(other), [])

    def test_one_that_bluez_has_forgotten_is_still_there(self):
        before = self.peripherals(self.view())
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")
        self.assertEqual(self.peripherals(self.view()), before)

    def test_what_changes_is_told(self):
        view, other, silent = self.view(), self.view("board"), self.view()
        was = self.peripherals(view)
        self.assertEqual(self.peripherals(other), [])
        self.share()
        wait(lambda: self.changes(other), what="the grant to be told")
        self.assertEqual([each[:2] for each in self.changes(other)[-1]], [each[:2] for each in was])
        self.assertEqual(self.changes(view), [])
        self.revoke()
        wait(lambda: self.changes(view) == [[]], what="the end of the grant to be told")
        self.assertEqual(self.peripherals(view), [])
        # A client that has not read the property receives no signal.
        silent.drain()
        self.assertEqual(self.changes(silent), [])

    def test_nothing_else_is_there(self):
        view = self.view()
        for why, expected, *call in (
                ("another property", "UnknownProperty", PROPERTIES, "Get", "ss", self.INTERFACE, "Other"),
                ("another interface", "UnknownInterface", PROPERTIES, "Get", "ss", "org.bluez.Device1", "Peripherals"),
                ("writing", "PropertyReadOnly", PROPERTIES, "Set", "ssv", self.INTERFACE, "Peripherals", 1),
                ("other arguments", "InvalidArgs", PROPERTIES, "Get", "u", 1),
                ("a method", "UnknownMethod", self.INTERFACE, "Peripherals")):
            with self.subTest(why):
                self.assertFails(BUS_ERROR + expected, view.call, self.PATH, *call, to=NAME)
        # On the bus there is no such object.
        self.assertFails(UNKNOWN_OBJECT, self.dice.call, self.PATH, PROPERTIES, "Get", "ss", self.INTERFACE, "Peripherals")


class Session(ViewTest):
    """The whole session API over the view's socket."""

    def test_a_set_up_and_its_events(self):
        view = View(self.world, "board", SOMEBODY_ELSE)
        session = view.call(ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))
        view.call(session, SESSION, "Activate")
        view.call(session, SESSION, "ShowPicker", "aa{sv}a{sv}", dbus.Array([sv(item("Other"))], signature="a{sv}"), sv({}))
        self.person.wait_stage("offering")
        self.person.pick("other")
        events = lambda: [str(each.arguments[0]) for each in view.signals if each.member == "Event"]
        wait(lambda: "pickerDidDismiss" in events(), what=lambda: f"the end, was {events()}")
        self.assertIn("accessoryAdded", events())
        self.assertEqual(len(view.paths("accessory")), 1)
        self.assertEqual(view.paths("grant"), [])
        self.assertIn(self.other, view.tree())
        # The session ends with the connection.
        view.close()
        wait(lambda: len(self.world.admin.paths("session")) == 2, what="the session to end", also_every=0.05)

    def test_who_is_no_app_is_told_why(self):
        view = View(self.world, "stranger")
        self.assertFails(error("ActivationFailed"), view.call, ROOT, MANAGER, "CreateSession", "a{sv}", sv({}), says=["no manifest matches"])
        self.assertEqual(view.paths("accessory"), [])

    def test_root_is_nobody_over_the_view(self):
        """No picker program and no admin: a client may be root of a container."""
        view = View(self.world, "dice", 0)
        self.assertFails(BUS_ERROR + "AccessDenied", view.call, ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({}), says=["on the system bus"])
        for path in (self.grant(), self.grant().replace("grant", "app"), ROOT + "/admin"):
            self.assertFails(UNKNOWN_OBJECT, view.call, path, PROPERTIES, "GetAll", "s", "")
        self.assertEqual(view.paths("accessory"), [])
        self.assertEqual(view.paths("grant"), [])


class Listening(ViewTest):
    """A client that calls nothing, and only adds match rules, receives the same signals as on the system bus."""

    def test_a_match_rule_is_enough(self):
        for rule in ("type='signal',sender='org.bluez'", "type='signal'", "path_namespace='/org/bluez'",
                     "interface='org.freedesktop.DBus.Properties',member='PropertiesChanged'", "sender=':bluez.1'"):
            with self.subTest(rule):
                listener = View(self.world)
                listener.driver("AddMatch", "s", rule)
                view = self.view().connect(self.pink)
                wait(lambda: True in listener.changes(self.pink, "Connected"), what="the link to be signalled")
                view.disconnect(self.pink)
                wait(lambda: False in listener.changes(self.pink, "Connected"), what="the link's end to be signalled")
                for client in (listener, view):
                    client.close()

    def test_nothing_is_followed_for_other_rules(self):
        ear = self.hear("type=method_call,destination=org.bluez", "type=method_call,member=AddMatch")
        listener = View(self.world)
        for rule in ("type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged'", "sender='org.accessorysetup1'",
                     "interface='org.accessorysetup1.Session'", "type='method_call'", "path='/org/accessorysetup1'"):
            listener.driver("AddMatch", "s", rule)
        self.assertEqual([each for each in ear.lines if each.startswith("method call")], [])

    def test_the_adapter_of_a_listener(self):
        listener = View(self.world)
        listener.driver("AddMatch", "s", "type='signal',sender='org.bluez'")
        self.simulator.do("adapterPowerOff", "hci0")
        listener.wait_change(ADAPTER, "Powered", False)

    def test_a_link_is_kept_for_an_app_that_only_listens(self):
        """As with `gdbus monitor` beside `gdbus call`: each call is a connection of its own."""
        for rule in ("sender='org.bluez'", "sender='org.accessorysetup1'"):
            with self.subTest(rule):
                listener = View(self.world)
                listener.driver("AddMatch", "s", rule)
                caller = self.view().connect(self.pink)
                caller.close()
                wait(lambda: caller.name not in listener.driver("ListNames") and self.settled(), what="the caller to go")
                again = self.view()
                self.assertEqual(again.read_property(self.pink, DEVICE1, "Connected"), True)
                again.disconnect(self.pink)
                for client in (listener, again):
                    client.close()

    def settled(self):
        self.world.manager("Version")
        return True


class Use(ViewTest):
    def test_read_write_and_notify_need_the_link(self):
        view = self.view().connect(self.pink)
        characteristic = view.characteristic(self.pink)
        empty = sv({})
        self.assertEqual(bytes(view.bluez(characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", empty)), b"\x01")
        view.bluez(characteristic, CHARACTERISTIC1, "WriteValue", "aya{sv}", dbus.ByteArray(b"\x2a"), empty)
        self.assertEqual(bytes(view.bluez(characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", empty)), b"\x2a")
        view.bluez(characteristic, CHARACTERISTIC1, "StartNotify")
        wait(lambda: len(view.changes(characteristic, "Value")) >= 3, what="three notifications")
        view.bluez(characteristic, CHARACTERISTIC1, "StopNotify")
        view.disconnect(self.pink)
        view.wait_change(self.pink, "Connected", False)
        self.assertEqual(self.linked(), [])
        self.assertFails("org.bluez.Error.Failed", view.bluez, characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", empty,
                         says=["not connected"])

    def test_a_link_that_is_up_is_the_apps_only_once_it_connects(self):
        self.world.admin.call(self.pink, DEVICE1, "Connect", to=BLUEZ)
        view = self.view()
        self.assertEqual(view.read_property(self.pink, DEVICE1, "Connected"), False)
        characteristic = view.characteristic(self.pink)
        self.assertFails("org.bluez.Error.Failed", view.bluez, characteristic, CHARACTERISTIC1, "StartNotify")
        view.connect(self.pink)
        view.wait_change(self.pink, "ServicesResolved", True)
        self.assertEqual(view.read_property(self.pink, DEVICE1, "Connected"), True)
        self.assertEqual(view.tree()[self.pink][DEVICE1]["Connected"], True)

    def test_what_is_not_an_apps_is_refused(self):
        view = self.view().connect(self.pink)
        empty = sv({})
        for path, interface, member, *arguments in (
                (self.pink, DEVICE1, "CancelPairing"),
                (self.pink, DEVICE1, "ConnectProfile", "s", PINK), (self.pink, DEVICE1, "DisconnectProfile", "s", PINK),
                (self.pink, PROPERTIES, "Set", "ssv", DEVICE1, "Alias", "Mine"),
                (self.pink, PROPERTIES, "Set", "ssv", DEVICE1, "Trusted", True),
                (self.pink, PROPERTIES, "Set", "ssv", DEVICE1, "Blocked", True),
                (ADAPTER, ADAPTER1, "RemoveDevice", "o", self.pink),
                (ADAPTER, PROPERTIES, "Set", "ssv", ADAPTER1, "Powered", False),
                (ADAPTER, PROPERTIES, "Set", "ssv", ADAPTER1, "Discoverable", True),
                (ADAPTER, "org.bluez.LEAdvertisingManager1", "RegisterAdvertisement", "oa{sv}", "/advert", empty),
                (ADAPTER, "org.bluez.GattManager1", "RegisterApplication", "oa{sv}", "/app", empty),
                (ADAPTER, "org.bluez.Media1", "RegisterPlayer", "oa{sv}", "/player", empty),
                (ADAPTER, "org.bluez.AdvertisementMonitorManager1", "RegisterMonitor", "o", "/monitor"),
                (self.pink, PROPERTIES, "Set", "ssv", DEVICE1, "Connected", True),
                (ADAPTER, PROPERTIES, "Set", "ssv", ADAPTER1, "Pairable", not self.read_adapter("Pairable")),
                (ADAPTER, PROPERTIES, "Set", "ssv", ADAPTER1, "Address", self.read_adapter("Address")),
                (MANAGERS, "org.bluez.ProfileManager1", "RegisterProfile", "osa{sv}", "/profile", PINK, empty)):
            with self.subTest(member=member, arguments=arguments[1:]):
                self.assertFails("org.bluez.Error.NotPermitted", view.bluez, path, interface, member, *arguments)
        self.assertFails("org.bluez.Error.AlreadyExists", view.bluez, self.pink, DEVICE1, "Pair")
        self.assertFails(UNKNOWN_OBJECT, view.bluez, self.other, DEVICE1, "Pair")
        self.assertFails(BUS_ERROR + "UnknownMethod", view.bluez, self.pink, DEVICE1, "Explode")
        self.assertFails(BUS_ERROR + "UnknownInterface", view.bluez, self.pink, PROPERTIES, "GetAll", "s", "org.bluez.MediaControl1")
        self.assertEqual(self.simulator.bonds, ["pink"])
        self.assertEqual(self.simulator.bluetooth, "ready")

    def read_adapter(self, name):
        return self.world.admin.call(ADAPTER, PROPERTIES, "Get", "ss", ADAPTER1, name, to=BLUEZ)

    def test_setting_what_is_set_already_is_taken(self):
        """As many programs do when they begin; the call does not reach org.bluez."""
        view = self.view()
        ear = self.hear("type=method_call,interface=org.freedesktop.DBus.Properties,member=Set")
        for path, interface, names in (
                (ADAPTER, ADAPTER1, ("Powered", "Alias", "Discoverable", "Pairable")),
                (self.pink, DEVICE1, ("Trusted", "Blocked", "Alias"))):
            present = view.bluez(path, PROPERTIES, "GetAll", "s", interface)
            for name in names:
                with self.subTest(name):
                    view.bluez(path, PROPERTIES, "Set", "ssv", interface, name, present[name])
                    self.assertEqual(view.read_property(path, interface, name), present[name])
        self.assertFails(UNKNOWN_OBJECT, view.bluez, self.other, PROPERTIES, "Set", "ssv", DEVICE1, "Trusted", True)
        self.assertEqual([each for each in ear.lines if "member=Set" in each], [])

    def test_an_agent_is_registered_and_never_called(self):
        """The answers are bluetoothd's: one agent for each client."""
        view, ear = self.view(), self.hear(f"interface={AGENTS}")
        agents = lambda member, *arguments: view.bluez(MANAGERS, AGENTS, member, *arguments)
        error = "org.bluez.Error."
        self.assertFails(error + "DoesNotExist", agents, "RequestDefaultAgent", "o", "/agent")
        self.assertFails(error + "InvalidArguments", agents, "RegisterAgent", "os", "/agent", "Telepathy")
        self.assertFails(error + "InvalidArguments", agents, "RegisterAgent", "o", "/agent")
        agents("RegisterAgent", "os", "/agent", "NoInputNoOutput")
        self.assertFails(error + "AlreadyExists", agents, "RegisterAgent", "os", "/other", "")
        agents("RequestDefaultAgent", "o", "/agent")
        self.assertFails(error + "DoesNotExist", agents, "UnregisterAgent", "o", "/other")
        self.view("board").bluez(MANAGERS, AGENTS, "RegisterAgent", "os", "/agent", "")
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")
        self.assertFails(error + "DoesNotExist", agents, "UnregisterAgent", "o", "/agent")
        agents("RegisterAgent", "os", "/agent", "KeyboardDisplay")
        agents("UnregisterAgent", "o", "/agent")
        self.assertIn(AGENTS, view.bluez(MANAGERS, "org.freedesktop.DBus.Introspectable", "Introspect"))
        self.assertEqual([each for each in ear.lines if "member=Re" in each and "path=/agent" in each], [])

    def test_the_processes_behind_the_names_that_there_are(self):
        view = self.view()
        daemon, bluez = (self.world.admin.call("/org/freedesktop/DBus", DRIVER, "GetConnectionUnixProcessID", "s", name, to=DRIVER)
                         for name in (NAME, BLUEZ))
        self.assertEqual(daemon, self.world.daemon.pid)
        for name, pid, uid in (
                (BLUEZ, bluez, 0), (view.driver("GetNameOwner", "s", BLUEZ), bluez, 0), (NAME, daemon, 0), (DRIVER, daemon, 0),
                (view.name, view.pid, SOMEBODY)):
            with self.subTest(name):
                self.assertEqual(view.driver("GetConnectionUnixProcessID", "s", name), pid)
                self.assertEqual(view.driver("GetConnectionUnixUser", "s", name), uid)
                self.assertEqual(view.driver("GetConnectionCredentials", "s", name), {"ProcessID": pid, "UnixUserID": uid})
                self.assertFails(BUS_ERROR + "SELinuxSecurityContextUnknown", view.driver, "GetConnectionSELinuxSecurityContext", "s", name)
        self.simulator.do("serviceStopped")
        wait(lambda: not view.driver("NameHasOwner", "s", BLUEZ), what="the service to go", also_every=0.05)
        self.assertFails(BUS_ERROR + "NameHasNoOwner", view.driver, "GetConnectionUnixProcessID", "s", BLUEZ)

    def test_the_first_use_is_noted(self):
        grant = self.grant()
        self.assertEqual(self.world.admin.get(grant, GRANT, "LastUsed"), 0)
        before = int(time.time())
        self.view().connect(self.pink)
        self.assertGreaterEqual(self.world.admin.get(grant, GRANT, "LastUsed"), before)


class Acquiring(ViewTest):
    def acquire(self, view, member):
        characteristic = view.characteristic(self.pink)
        descriptor, mtu = view.bluez(characteristic, CHARACTERISTIC1, member, "a{sv}", sv({}))
        self.assertGreater(mtu, 20)
        return socket.socket(fileno=descriptor.take()), characteristic

    def receive(self, end):
        ready, _, _ = select.select([end], [], [], STANDSTILL * 10)
        self.assertTrue(ready, "nothing came")
        return end.recv(512)


class Descriptors(Acquiring):
    def test_notifications_come_as_packets(self):
        end, characteristic = self.acquire(self.view().connect(self.pink), "AcquireNotify")
        with end:
            self.assertEqual([self.receive(end) for _ in range(4)], [b"\x03", b"\x06", b"\x01", b"\x03"])

    def test_writes_arrive(self):
        view = self.view().connect(self.pink)
        end, characteristic = self.acquire(view, "AcquireWrite")
        with end:
            end.send(b"\x11\x22")
            wait(lambda: bytes(view.bluez(characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}))) == b"\x11\x22",
                 what="the value", also_every=0.02)

    def test_closing_ones_end_gives_it_back(self):
        view = self.view().connect(self.pink)
        end, characteristic = self.acquire(view, "AcquireNotify")
        self.assertFails("org.bluez.Error.NotPermitted", view.bluez, characteristic, CHARACTERISTIC1, "AcquireNotify", "a{sv}", sv({}))
        end.close()
        view.wait_change(characteristic, "NotifyAcquired", False)
        self.acquire(view, "AcquireNotify")[0].close()

    def test_a_reader_that_sleeps_loses_nothing_it_had_room_for(self):
        end, _ = self.acquire(self.view().connect(self.pink), "AcquireNotify")
        with end:
            first = [self.receive(end) for _ in range(20)]
            self.assertEqual(first, ([b"\x03", b"\x06", b"\x01"] * 7)[:20])

    def test_revoking_cuts_them(self):
        view = self.view().connect(self.pink)
        notify, _ = self.acquire(view, "AcquireNotify")
        write, _ = self.acquire(view, "AcquireWrite")
        with notify, write:
            self.receive(notify)
            self.revoke()
            while self.receive(notify):
                pass
            self.assertRaises(BrokenPipeError, write.send, b"\x01")


class FastStreams(Acquiring):
    """A thousand values a second, which are read several at a time."""

    VALUES = [f"{number:02X}" for number in range(256)]
    scenario = scenario(accessory("pink", 1, gatt=[{"uuid": PINK, "characteristics": [
        {"uuid": "FF3F", "flags": ["read", "write", "write-without-response", "notify"], "value": "01",
         "notify": {"interval": 0.001, "values": VALUES}}]}]))

    def assertSuccessive(self, numbers):
        self.assertEqual(numbers, [(numbers[0] + each) % 256 for each in range(len(numbers))])

    def test_packets_come_whole_and_in_order(self):
        end, _ = self.acquire(self.view().connect(self.pink), "AcquireNotify")
        with end:
            self.assertSuccessive([self.receive(end)[0] for _ in range(600)])
            self.revoke()
            rest = []
            while packet := self.receive(end):
                rest.append(packet[0])
        self.assertSuccessive(rest or [0])

    def test_notifications_come_whole_and_in_order(self):
        view = self.view().connect(self.pink)
        characteristic = view.characteristic(self.pink)
        view.bluez(characteristic, CHARACTERISTIC1, "StartNotify")
        for count in range(100, 700, 100):
            wait(lambda: len(view.changes(characteristic, "Value")) >= count, what=f"{count} notifications")
            # A call in the middle, which is no read: org.bluez signals values after reads, too.
            view.read_property(characteristic, CHARACTERISTIC1, "Flags")
        self.assertSuccessive([int(each[0]) for each in view.changes(characteristic, "Value")])
        self.revoke()
        wait(lambda: view.told("InterfacesRemoved", self.pink), what="the device to go")
        seen = len(view.changes(characteristic, "Value"))
        view.drain()
        self.assertEqual(len(view.changes(characteristic, "Value")), seen)


class Revocation(ViewTest):
    def test_it_cuts_at_once(self):
        view = self.view().connect(self.pink)
        characteristic = view.characteristic(self.pink)
        view.bluez(characteristic, CHARACTERISTIC1, "StartNotify")
        wait(lambda: view.changes(characteristic, "Value"), what="a notification")
        self.revoke()
        wait(lambda: view.told("InterfacesRemoved", self.pink), what="the device to go")
        self.assertTrue(view.told("InterfacesRemoved", characteristic))
        self.assertFails(UNKNOWN_OBJECT, view.bluez, characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", sv({}))
        self.assertFails(UNKNOWN_OBJECT, view.connect, self.pink)
        self.assertEqual(list(view.tree()), [MANAGERS, ADAPTER])
        view.wait_change(ADAPTER, "Powered", False)
        wait(lambda: not self.linked(), what="the link to be dropped", also_every=0.02)
        seen = len(view.changes(characteristic, "Value"))
        view.drain()
        self.assertEqual(len(view.changes(characteristic, "Value")), seen)

    def test_a_call_that_waits_is_answered(self):
        self.simulator.do("vanish", "pink")
        view = self.view()
        answers = []
        view.call_later(self.pink, DEVICE1, "Connect", lambda *result: answers.append(result), to=BLUEZ)
        view.drain()
        self.revoke()
        wait(lambda: answers, what="an answer")
        self.assertIsInstance(answers[0][0], dbus.DBusException)

    def test_a_list_of_objects_that_waits_is_answered_without_the_grant(self):
        """A client that gets an error for it does not ask again: the service is there all the time."""
        view = self.view()
        self.assertIn(self.pink, view.tree())
        self.simulator.pause()
        self.addCleanup(self.simulator.resume)
        answers = []
        view.call_later("/", OBJECT_MANAGER, "GetManagedObjects", lambda *result: answers.append(result), to=BLUEZ)
        # The daemon takes a connection's calls in their order: the first one is on its way now.
        view.driver("GetId")
        self.assertEqual(answers, [])
        self.world.admin.call(self.grant(), PROPERTIES, "Set", "ssv", GRANT, "Enabled", False)
        wait(lambda: answers, what="an answer")
        self.assertEqual([list(each) for each in answers[0]], [[MANAGERS, ADAPTER]])

    def test_switching_a_grant_off_and_on(self):
        view = self.view().connect(self.pink)
        self.world.admin.call(self.grant(), PROPERTIES, "Set", "ssv", GRANT, "Enabled", False)
        wait(lambda: view.told("InterfacesRemoved", self.pink), what="the device to go")
        wait(lambda: not self.linked(), what="the link to be dropped", also_every=0.02)
        self.world.admin.call(self.grant(), PROPERTIES, "Set", "ssv", GRANT, "Enabled", True)
        wait(lambda: view.told("InterfacesAdded", self.pink), what="the device to come back")
        view.connect(self.pink)
        self.assertEqual(self.linked(), ["pink"])

    def test_a_manifest_that_goes_takes_the_view_with_it(self):
        view = self.view().connect(self.pink)
        (self.world.app_directories[0] / "com.example.dice.conf").unlink()
        wait(lambda: view.told("InterfacesRemoved", self.pink), what="the device to go")
        self.assertFails(UNKNOWN_OBJECT, view.connect, self.pink)


class Searching(ViewTest):
    """A connected accessory does not advertise: an unused link must not hide an accessory from its app."""

    def search(self):
        view = self.view()
        view.tree()
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        wait(lambda: view.changes(self.pink, "RSSI"), what="the accessory to be heard")
        return view

    def test_the_rest_of_a_pairing_does_not_hide_it(self):
        self.world.admin.call(self.pink, DEVICE1, "Connect", to=BLUEZ)
        self.search().connect(self.pink)

    def test_a_lost_connection_does_not_hide_it(self):
        self.view().connect(self.pink).close()
        self.assertEqual(self.linked(), ["pink"])
        self.search()

    def test_a_link_from_before_a_restart_does_not_hide_it(self):
        self.view().connect(self.pink)
        self.world.restart_daemon()
        self.assertEqual(self.linked(), ["pink"])
        self.search().connect(self.pink)

    def test_a_link_that_is_used_stays(self):
        one = self.view().connect(self.pink)
        two = self.view()
        two.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        self.assertEqual(one.read_property(self.pink, DEVICE1, "Connected"), True)
        self.share()
        three = self.view("board")
        three.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        three.drain()
        self.assertEqual(self.linked(), ["pink"])


class Order(ViewTest):
    """Clients that close their connection when they hear that the link is down must have the answer by then, as from bluetoothd."""

    def disconnected(self, view):
        """The messages to the client of a link after its Disconnect, in order."""
        view.drain()
        heard = []
        view.received = lambda signal: "Connected" in str(signal.arguments) and heard.append("signal")
        view.call_later(self.pink, DEVICE1, "Disconnect", lambda *answer: heard.append(answer), to=BLUEZ)
        wait(lambda: len(heard) == 2, what="the answer and the signal")
        return heard

    def test_the_last_one(self):
        self.assertEqual(self.disconnected(self.view().connect(self.pink)), [(), "signal"])

    def test_one_of_two(self):
        self.share()
        self.view("board").connect(self.pink)
        self.assertEqual(self.disconnected(self.view().connect(self.pink)), [(), "signal"])
        self.assertEqual(self.linked(), ["pink"])


class Shared(ViewTest):
    """Two apps on one accessory."""

    def setUp(self):
        super().setUp()
        self.share()
        self.unlink(self.pink) if self.linked() else None
        self.one, self.two = self.view("dice").connect(self.pink), self.view("board").connect(self.pink)

    def test_one_apps_disconnect_does_not_cut_the_other(self):
        self.one.tree()
        self.one.disconnect(self.pink)
        self.one.wait_change(self.pink, "Connected", False)
        self.assertEqual(self.one.read_property(self.pink, DEVICE1, "Connected"), False)
        self.assertEqual(self.linked(), ["pink"])
        self.assertEqual(self.two.read_property(self.pink, DEVICE1, "Connected"), True)
        self.assertNotIn(False, self.two.changes(self.pink, "Connected"))
        self.assertFails("org.bluez.Error.NotConnected", self.one.disconnect, self.pink)
        self.two.disconnect(self.pink)
        self.assertEqual(self.linked(), [])

    def test_a_connect_while_the_link_is_up_stays_here(self):
        """bluetoothd might look for a classic side of the accessory then, and end the link."""
        self.one.disconnect(self.pink)
        ear = self.hear(f"type='method_call',interface='{DEVICE1}',path='{self.pink}'")
        self.one.connect(self.pink)
        self.assertTrue(self.one.read_property(self.pink, DEVICE1, "Connected"))
        # It holds the link now.
        self.two.disconnect(self.pink)
        self.assertEqual(self.linked(), ["pink"])
        self.one.disconnect(self.pink)
        ear.wait_for("member=Disconnect")
        self.assertFalse(any("member=Connect" in line for line in ear.lines))

    def test_one_apps_end_does_not_cut_the_other(self):
        characteristic = self.two.characteristic(self.pink)
        self.one.bluez(characteristic, CHARACTERISTIC1, "StartNotify")
        self.two.bluez(characteristic, CHARACTERISTIC1, "StartNotify")
        self.revoke("dice")
        wait(lambda: self.one.told("InterfacesRemoved", self.pink), what="the device to go for one")
        self.assertEqual(self.linked(), ["pink"])
        self.two.signals.clear()
        wait(lambda: self.two.changes(characteristic, "Value"), what="a notification for the other")
        self.one.drain()
        self.one.signals.clear()
        self.two.signals.clear()
        wait(lambda: self.two.changes(characteristic, "Value"), what="the next one")
        self.one.drain()
        self.assertEqual(self.one.changes(characteristic, "Value"), [])
        self.assertEqual(self.two.told("InterfacesRemoved", self.pink), [])

    def test_a_disconnected_app_hears_no_values(self):
        characteristic = self.two.characteristic(self.pink)
        self.two.bluez(characteristic, CHARACTERISTIC1, "StartNotify")
        self.one.disconnect(self.pink)
        self.one.drain()
        self.one.signals.clear()
        self.two.signals.clear()
        wait(lambda: len(self.two.changes(characteristic, "Value")) >= 3, what="notifications")
        self.one.drain()
        self.assertEqual(self.one.changes(characteristic, "Value"), [])

    def test_a_lost_link_is_lost_for_both(self):
        self.simulator.do("vanish", "pink")
        for view in (self.one, self.two):
            view.wait_change(self.pink, "Connected", False)


class Lingering(ViewTest):
    def test_links_outlive_the_last_connection_for_a_while(self):
        self.world.config.write_text("[View]\nLinger=0\n")
        self.world.restart_daemon()
        one, two = self.view().connect(self.pink), self.view()
        two.tree()
        one.close()
        two.drain()
        self.assertEqual(two.read_property(self.pink, DEVICE1, "Connected"), True)
        two.close()
        wait(lambda: not self.linked(), what="the link to be dropped", also_every=0.02)

    def test_what_is_another_program_by_now_holds_none(self):
        """It is known when the client says something; one that died with a call on the way looks the same."""
        self.world.config.write_text("[View]\nLinger=0\n")
        self.world.restart_daemon()
        one = self.view().connect(self.pink)
        one.become_another_program()
        self.assertFails(BUS_ERROR + "AccessDenied", one.read_property, self.pink, DEVICE1, "Connected")
        wait(lambda: not self.linked(), what="the link to be dropped", also_every=0.02)

    def test_the_next_connection_finds_them(self):
        self.view().connect(self.pink).close()
        view = self.view()
        self.assertEqual(view.read_property(self.pink, DEVICE1, "Connected"), True)
        self.assertEqual(self.linked(), ["pink"])
        # And hears of their end.
        self.simulator.do("vanish", "pink")
        view.wait_change(self.pink, "Connected", False)

    def test_a_link_that_went_before_anything_was_asked_is_told_anew(self):
        one = self.view().connect(self.pink)
        two = self.view()
        one.disconnect(self.pink)
        two.connect(self.pink).wait_change(self.pink, "Connected", True)


if __name__ == "__main__":
    unittest.main()
