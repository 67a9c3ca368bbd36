# SPDX-License-Identifier: Apache-2.0
"""Accessories with Wi-Fi: found, picked, granted and joined like those with Bluetooth, alone or as the other half of one, whichever
service manages the interface."""

import contextlib
import json
import signal
import sqlite3
import unittest

import dbus

from harness.names import ACCESSORY, APP, BLUE, BUS_ERROR, GRANT, NAME, NETWORK, PINK, PROPERTIES, ROOT, UNKNOWN_OBJECT, error
from harness.programs import BIN, TESTS, Program
from harness.radio import Paired, accessory
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest

SERVICES = ("wpa_supplicant", "NetworkManager", "iwd")


def network(name="Dice", setupOptions=None, renameOptions=None, **descriptor):
    """An item with Wi-Fi; text is a network's name."""
    own = {key: value for key, value in (("setupOptions", setupOptions), ("renameOptions", renameOptions)) if value}
    return {"name": name, "descriptor": descriptor, **own}


class WiFiTest(APITest):
    apps = ("dice", "lamp")
    manifest = {"Supports": "Bluetooth;WiFi;"}

    def scenario_of(self, *services, accessPoints=None, more=(), **wifi):
        scenario = json.loads((TESTS / "Scenarios/wifi.json").read_text())
        scenario["wifi"]["services"] = list(services)
        scenario["wifi"].update(wifi)
        if accessPoints is not None:
            scenario["accessPoints"] = [scenario["accessPoints"][0], *accessPoints]
        scenario["accessPoints"] += list(more)
        return scenario

    def serve(self, *services, **more):
        self.start(self.scenario_of(*services, **more))
        self.world.wait_wifi("ready")
        self.simulator.wait_joined("Home")
        return self.app(), self.picker()

    def serve_both(self, service="wpa_supplicant", name="die-bluetooth"):
        """With an adapter and an accessory with Bluetooth besides."""
        scenario = self.scenario_of(service)
        del scenario["adapters"]
        scenario["accessories"] = [accessory(name)]
        self.start(scenario)
        self.world.wait_wifi("ready")
        self.simulator.wait_joined("Home")
        return self.app(), self.picker()

    def setUp(self):
        self.world = None
        self.addCleanup(self._end)

    def grant(self, app, picker, name, *items):
        """The way to a grant, by the name of a network."""
        path = self.add(app, picker, name, *(items or [network(ssidPrefix="Dice-")]))
        picker.wait_gone()
        return path

    def join(self, app, accessory, **options):
        app.call(accessory, ACCESSORY, "JoinNetwork", "a{sv}", sv(options), seconds=30)

    def join_in_time(self, app, accessory, **options):
        """The same where that takes its time, which passes at once."""
        answers = []
        app.call_later(accessory, ACCESSORY, "JoinNetwork", lambda *answer: answers.append(answer), "a{sv}", sv(options))
        self.world.pass_until(lambda: answers, 40, "an answer to JoinNetwork")
        if answers[0] and isinstance(answers[0][0], Exception):
            raise answers[0][0]

    def leave(self, app, accessory):
        app.call(accessory, ACCESSORY, "LeaveNetwork", seconds=30)

    def join_and_leave(self, app, accessory, **options):
        self.join(app, accessory, **options)
        self.leave(app, accessory)
        self.assertRestored()

    def migrate(self, app, picker, item):
        """The way to a grant for a network that is known already."""
        app.show_picker(item)
        picker.wait_prompt("consent")
        picker.respond(accept=True)
        return str(app.wait_event("migrationComplete", 15)["accessory"])

    def assertRestored(self, known=("Home",)):
        self.simulator.wait_joined("Home")
        wait(lambda: set(self.simulator.known_networks) <= set(known), 10, lambda: f"profiles to go: {self.simulator.known_networks}",
             also_every=0.05)
        self.assertEqual(self.simulator.secrets, 0)


class Discovery(WiFiTest):
    def test_every_service_finds_networks(self):
        expected = {"Dice-Open": "open", "Dice-1234": "wpa2", "Dice-SAE": "wpa3", "Dice-Pair": "wpa2"}
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service)
                before = self.simulator.scans
                app.show_picker(network(ssidPrefix="Dice-"))
                for name, security in expected.items():
                    offer = picker.wait_offer(name)
                    self.assertEqual(bytes(offer["ssid"]), name.encode())
                    self.assertEqual(offer["security"], "psk" if service == "iwd" and security != "open" else security)
                # Two access points of one name are one offer, and the nearer one speaks for it.
                pairs = [each for each in picker.offers if each["advertisedName"] == "Dice-Pair"]
                self.assertEqual(len(pairs), 1)
                # NetworkManager says percent.
                self.assertIn(int(pairs[0]["rssi"]), (-50, -49))
                self.assertEqual(pairs[0].get("band"), None if service == "iwd" else "5 GHz")
                self.assertNotIn("Home", [each["advertisedName"] for each in picker.offers])
                self.assertGreater(self.simulator.scans, before)
                picker.cancel()
                self.assertDismissed(app, "UserCancelled")

    def test_no_scan_without_a_picker(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve_both(service)
                before = self.simulator.scans
                app.show_picker(network(ssidPrefix="Nobody-"))
                self.world.pass_until(lambda: self.simulator.scans > before + 1, 15, "scans")
                picker.cancel()
                picker.wait_gone()
                # One may have begun.
                after = self.simulator.scans
                app.show_picker(item())
                picker.wait_shown()
                picker.cancel()
                picker.wait_gone()
                self.assertLessEqual(self.simulator.scans, after + 1)

    def test_the_grant_has_the_bytes(self):
        for service in ("wpa_supplicant", "NetworkManager"):
            with self.subTest(service):
                app, picker = self.serve(service)
                odd = b"Dice\xff"
                app.show_picker(network(ssid=odd))
                offer = picker.wait_offer("Dice\ufffd")
                self.assertEqual(bytes(offer["ssid"]), odd)
                picker.ask("Pick", "s", offer["id"])
                details = app.wait_event("accessoryAdded")
                self.assertEqual(bytes(details["properties"]["Ssid"]), odd)
                path = str(details["accessory"])
                self.assertEqual(bytes(app.get(path, ACCESSORY, "Ssid")), odd)
                self.assertEqual(app.get(path, ACCESSORY, "BluetoothIdentifier"), "")
                self.assertEqual(app.get(path, ACCESSORY, "Device"), "/")
                self.join(app, path)
                self.simulator.wait_joined("Dice\ufffd")
                self.leave(app, path)
                self.assertRestored()

    def test_a_name_that_ends_in_a_zero_byte(self):
        """Firmware that counts the end of a C string: the daemon takes every name that it shows."""
        for service in ("wpa_supplicant", "NetworkManager"):
            with self.subTest(service):
                app, picker = self.serve(service, more=[{"id": "zero", "ssidHex": b"Plug\0".hex()}])
                path = self.grant(app, picker, "Plug\ufffd", network(ssidPrefix="Plug"))
                own = bytes(app.get(path, ACCESSORY, "Ssid"))
                self.assertEqual(own, b"Plug\0")
                self.join_and_leave(app, path, ssid=own)

    def test_a_hidden_network_is_asked_for(self):
        for service in ("wpa_supplicant", "NetworkManager"):
            with self.subTest(service):
                app, picker = self.serve(service)
                self.grant(app, picker, "Dice-Hidden", network(ssid="Dice-Hidden"))

    def test_six_hidden_networks_have_their_turns(self):
        points = [{"id": f"h-{number}", "ssid": f"Hidden-{number}", "hidden": True} for number in range(6)]
        app, picker = self.serve("wpa_supplicant", accessPoints=points)
        app.show_picker(*[network(ssid=f"Hidden-{number}") for number in range(6)])
        for number in range(6):
            picker.wait_offer(f"Hidden-{number}", 20)

    def test_access_points_come_and_go(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service)
                self.simulator.do("vanish", "die")
                app.show_picker(network(ssid="Dice-1234"), discoveryTimeout=float("inf"))
                self.world.pass_until(lambda: self.simulator.scans >= 2, 15, "a scan")
                self.simulator.do("return", "die")
                picker.wait_offer("Dice-1234")
                self.simulator.do("vanish", "die")
                if service == "iwd":
                    # It lists networks of the last half minute, so the offer outlives this test.
                    continue
                self.world.pass_until(lambda: not picker.offers, 30, "the offer to go")
                self.simulator.do("return", "die")
                picker.wait_offer("Dice-1234")

    def test_a_limit_on_scans_is_respected(self):
        app, picker = self.serve("NetworkManager", rateLimit=3)
        app.show_picker(network(ssidPrefix="Dice-"))
        picker.wait_offer("Dice-1234")
        self.simulator.do("vanish", "die")
        wait(lambda: "Dice-1234" not in [each["advertisedName"] for each in picker.offers], 40, "the offer to go")

    def test_a_manager_over_iwd_that_scans_no_more(self):
        """It passes no scan on while it takes iwd for busy, and it may be wrong about that: iwd is asked."""
        app, picker = self.serve("iwd", "NetworkManager", rateLimit=3600)
        self.world.daemon.wait_for("Wi-Fi interface .*NetworkManager")
        self.simulator.do("vanish", "die")
        app.show_picker(network(ssidPrefix="Dice-"))
        picker.wait_offer("Dice-Open")
        self.simulator.do("return", "die")
        picker.wait_offer("Dice-1234")

    def test_both_sides_in_one_offer(self):
        app, picker = self.serve_both()
        app.show_picker(item(ssid="Dice-1234"))
        offer = picker.wait_offer("die-bluetooth")
        self.assertEqual((bytes(offer["ssid"]), offer["security"]), (b"Dice-1234", "wpa2"))
        self.assertEqual(len(picker.offers), 1)
        picker.ask("Pick", "s", offer["id"])
        path = str(app.wait_event("accessoryAdded")["accessory"])
        properties = app.get_all(path, ACCESSORY)
        self.assertEqual(bytes(properties["Ssid"]), b"Dice-1234")
        self.assertTrue(properties["BluetoothIdentifier"])
        self.assertEqual(len(self.world.grants()), 1)
        self.join(app, path, passphrase="sixsided1")
        self.simulator.wait_joined("Dice-1234")
        self.leave(app, path)

    def test_both_sides_must_be_there(self):
        app, picker = self.serve_both()
        app.show_picker(item(ssid="Somewhere else"), discoveryTimeout=3.0)
        self.assertDismissed(app, "DiscoveryTimeout")
        self.assertEqual(picker.stages[0], "searching")
        self.assertNotIn("offering", picker.stages)

    def test_a_prefix_is_completed_by_the_app(self):
        app, picker = self.serve_both()
        app.show_picker(item(ssidPrefix="Dice-", setupOptions=["confirmAuthorization"]))
        picker.pick("die-bluetooth")
        path = str(app.wait_event("accessoryAdded")["accessory"])
        self.assertEqual(bytes(app.get(path, ACCESSORY, "Ssid")), b"")
        self.assertFails(
            error("InvalidRequest"), self.join, app, path, says=["awaitingAuthorization"])
        for wrong in (b"Home", b"", b"x" * 33, b"\0"):
            self.assertFails(
                error("InvalidRequest"), app.request, "FinishAuthorization", "oa{sv}", dbus.ObjectPath(path), sv({"ssid": wrong}),
                says=["ssid"])
        finish = ("FinishAuthorization", "oa{sv}", dbus.ObjectPath(path), sv({"ssid": b"Dice-1234"}))
        app.request(*finish)
        # Several networks begin like that, and the person has seen none.
        prompt = picker.wait_prompt("consent")
        self.assertEqual((str(prompt["network"]), bytes(prompt["ssid"])), ("Dice-1234", b"Dice-1234"))
        self.assertEqual(app.get(path, ACCESSORY, "State"), "awaitingAuthorization")
        self.assertFails(error("InvalidRequest"), app.request, *finish, says=["being asked"])
        picker.respond(accept=False)
        self.assertEqual(app.wait_event("pickerSetupFailed")["error"], error("UserCancelled"))
        self.assertEqual(bytes(app.get(path, ACCESSORY, "Ssid")), b"")
        app.request(*finish)
        picker.wait_prompt("consent")
        picker.respond(accept=True)
        app.wait_event("accessoryChanged")
        self.assertEqual(bytes(app.get(path, ACCESSORY, "Ssid")), b"Dice-1234")
        self.assertEqual(app.get(path, ACCESSORY, "State"), "authorized")

    def test_an_app_filters_networks(self):
        app, picker = self.serve("wpa_supplicant")
        app.show_picker(network(ssidPrefix="Dice-12"), options=["filterDiscoveryResults"])
        found = app.wait_event("accessoryDiscovered")
        self.assertEqual(bytes(found["ssid"]), b"Dice-1234")
        self.assertEqual((found["security"], found["band"]), ("wpa2", "2.4 GHz"))
        self.assertNotIn("advertisement", found)
        self.assertEqual(picker.offers, [])
        app.request("UpdatePicker", "aa{sv}", dbus.Array([sv({"name": "Red die", "identifier": found["identifier"]})], "a{sv}"))
        self.assertEqual(picker.wait_offer("Dice-1234")["name"], "Red die")


class InTheTerminal(WiFiTest):
    def test_the_picker_and_the_admin_see_the_network(self):
        app, _ = self.serve("wpa_supplicant")
        bus = ("--bus", self.world.bus.address)
        picker = Program(BIN / "accessoryctl", "picker", *bus, "--pick", "Dice-Pair")
        self.addCleanup(picker.stop)
        self.world.clients[-1].unregister()
        picker.wait_for("waiting")
        app.show_picker(network("Two bands", ssidPrefix="Dice-P"))
        picker.wait_for("Two bands  “Dice-Pair”  ▮▮▮▮ -50 dBm  Wi-Fi WPA2 5 GHz  new")
        path = str(app.wait_event("accessoryAdded")["accessory"])
        self.join(app, path, passphrase="sixsided5")
        for command, expected in (
            (("list",), "Two bands .*Dice-Pair"), (("show", "Two bands"), "^network  Dice-Pair"), (("show", "Two bands"), "^joined   by wlan0"),
            (("status",), "Wi-Fi +ready"), (("list", "--json"), '"ssid" *: *"Dice-Pair"'),
        ):
            program = Program(BIN / "accessoryctl", *command, *bus)
            self.addCleanup(program.stop)
            program.wait_for(expected)


class Ownership(WiFiTest):
    def test_the_service_above_owns_the_interface(self):
        self.serve("wpa_supplicant", "iwd", "NetworkManager")
        self.world.daemon.wait_for("Wi-Fi interface .*NetworkManager")

    def test_an_interface_that_changes_hands_is_followed(self):
        app, picker = self.serve("wpa_supplicant", "NetworkManager")
        self.simulator.do("wifiStopped", "NetworkManager")
        self.world.daemon.wait_for("Wi-Fi interface .*wpa_supplicant")
        app.show_picker(network(ssid="Dice-1234"))
        picker.wait_offer("Dice-1234")
        self.simulator.do("wifiStarted", "NetworkManager")
        self.simulator.do("vanish", "die")
        wait(lambda: not picker.offers, 30, "the offer to go")
        self.simulator.do("return", "die")
        picker.wait_offer("Dice-1234")
        found = [line for line in self.world.daemon.lines if "Wi-Fi interface" in line]
        self.assertIn("NetworkManager", found[-1])

    def test_states(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service)
                app.signals.clear()
                for action, target, state in (
                    ("wifiOff", "", "off"), ("wifiOn", "", "ready"), ("interfaceRemoved", "wlan0", "absent"),
                    ("interfaceAdded", "wlan0", "ready"), ("wifiStopped", service, "absent"), ("wifiStarted", service, "ready"),
                ):
                    self.simulator.do(action, target)
                    self.world.wait_wifi(state)
                    if state != "ready":
                        self.assertFails(
                            error("PickerRestricted"), app.show_picker, network(ssidPrefix="Dice-"), says=["Wi-Fi"])
                app.settle()
                told = [str(each.arguments[1]["WiFi"]) for each in app.signals
                        if each.member == "PropertiesChanged" and "WiFi" in each.arguments[1]]
                self.assertEqual(told, ["off", "ready", "absent", "ready", "absent", "ready"])

    def test_a_service_that_stops_in_mid_scan(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service, scanTime=1)
                app.show_picker(network(ssidPrefix="Dice-"))
                picker.wait_stage("searching")
                self.simulator.do("wifiStopped", service)
                self.assertDismissed(app, "PickerRestricted")
                self.simulator.do("wifiStarted", service)
                self.world.wait_wifi("ready")
                app.show_picker(network(ssidPrefix="Dice-"))
                picker.wait_offer("Dice-1234")

    def test_which_interface(self):
        two = [{"name": "wlan0", "uplink": "Home"}, {"name": "wlan1"}]
        for way, expected in (("nothing known", "wlan0"), ("route", "wlan1"), ("configuration", "wlan1")):
            with self.subTest(way):
                self.start(self.scenario_of("wpa_supplicant", interfaces=two))
                if way == "route":
                    (self.world.routes / "route").write_text(
                        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
                        "wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
                        "wlan1\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n")
                if way == "configuration":
                    self.world.config.write_text("[WiFi]\nInterface=wlan1\n")
                    self.world.restart_daemon()
                self.world.wait_wifi("ready")
                app, picker = self.app(), self.picker()
                path = self.grant(app, picker, "Dice-Open")
                self.join(app, path)
                self.assertEqual(app.get(path, NETWORK, "Interface"), expected)
                self.simulator.wait_joined("Dice-Open", expected)

    def test_the_configured_interface_is_not_there(self):
        self.start(self.scenario_of("wpa_supplicant"))
        self.world.config.write_text("[WiFi]\nInterface=wlan7\n")
        self.world.restart_daemon()
        self.world.daemon.wait_for("ready")
        self.assertEqual(self.world.manager("WiFi"), "absent")


class Joining(WiFiTest):
    def test_every_service_joins_and_leaves(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service)
                for name, passphrase in (("Dice-1234", "sixsided1"), ("Dice-Open", None), ("Dice-SAE", "sixsided3")):
                    path = self.grant(app, picker, name)
                    self.join(app, path, **({"passphrase": passphrase} if passphrase else {}))
                    self.simulator.wait_joined(name)
                    self.assertEqual(app.get(path, NETWORK, "Interface"), "wlan0")
                    # Once more: it is there already.
                    self.join(app, path, ssid=name.encode(), **({"passphrase": passphrase} if passphrase else {}))
                    self.leave(app, path)
                    self.assertEqual(app.get(path, NETWORK, "Interface"), "")
                    self.assertRestored()
                    # Nothing is joined: nothing happens.
                    self.leave(app, path)

    def test_a_hidden_network_is_joined(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service)
                # iwd does not list hidden networks: there the grant comes from Bluetooth, or from before.
                item = {**network(ssid="Dice-Hidden"), "hotspotSSID": b"Dice-Hidden"}
                path = self.migrate(app, picker, item)
                self.join(app, path, passphrase="sixsided4", hidden=True)
                self.simulator.wait_joined("Dice-Hidden")
                self.leave(app, path)
                self.assertRestored()

    def test_what_cannot_be_joined(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service)
                path = self.grant(app, picker, "Dice-1234")
                self.assertFails(error("ConnectionFailed"), self.join_in_time, app, path, passphrase="not the one", says=["passphrase"])
                self.assertRestored()
                protected = self.grant(app, picker, "Dice-SAE")
                self.assertFails(error("ConnectionFailed"), self.join_in_time, app, protected, passphrase="not the one", says=["passphrase"])
                self.assertRestored()
                full = self.grant(app, picker, "Dice-Full")
                self.assertFails(error("ConnectionFailed"), self.join_in_time, app, full)
                self.assertRestored()
                self.simulator.do("vanish", "die")
                self.assertFails(error("ConnectionFailed"), self.join_in_time, app, path, passphrase="sixsided1")
                self.assertRestored()
                self.simulator.do("return", "die")
                self.join(app, path, passphrase="sixsided1")
                self.assertNotIn("sixsided1", "\n".join(self.world.daemon.lines))
                self.assertNotIn("not the one", "\n".join(self.world.daemon.lines))
                for file in self.world.state.rglob("*"):
                    if file.is_file():
                        self.assertNotIn(b"sixsided1", file.read_bytes())

    def test_what_lost_frames_may_have_spoilt_is_tried_once_more(self):
        for service in SERVICES:
            with self.subTest(service):
                lossy = {"id": "lossy", "ssid": "Dice-Lossy", "security": "wpa2", "passphrase": "sixsided6", "fault": "handshake"}
                app, picker = self.serve(service, more=[lossy | {"faultCount": 1}])
                path = self.grant(app, picker, "Dice-Lossy")
                self.join(app, path, passphrase="sixsided6")
                self.simulator.wait_joined("Dice-Lossy")
                self.leave(app, path)
                self.assertRestored()
                # Not a third time: it is said then.
                app, picker = self.serve(service, more=[lossy | {"faultCount": 2}])
                path = self.grant(app, picker, "Dice-Lossy")
                self.assertFails(error("ConnectionFailed"), self.join, app, path, passphrase="sixsided6", says=["passphrase"])
                self.assertRestored()
                self.join(app, path, passphrase="sixsided6")

    def test_iwd_is_not_waited_for_for_ever(self):
        """It may forget its connection attempt, once, or over and over."""
        deaf = {"id": "deaf", "ssid": "Dice-Deaf", "security": "wpa3", "passphrase": "sixsided8", "fault": "silent", "delay": 60}
        for services in (("iwd",), ("iwd", "NetworkManager")):
            with self.subTest(services=services):
                app, picker = self.serve(*services, more=[deaf | {"faultCount": 1}])
                self.world.daemon.wait_for(f"Wi-Fi interface .*{services[-1]}")
                path = self.grant(app, picker, "Dice-Deaf")
                self.join_in_time(app, path, passphrase="sixsided8")
                self.simulator.wait_joined("Dice-Deaf")
                self.leave(app, path)
                self.assertRestored()
                app, picker = self.serve(*services, more=[deaf])
                path = self.grant(app, picker, "Dice-Deaf")
                self.assertFails(error("ConnectionFailed"), self.join_in_time, app, path, passphrase="sixsided8", says=["timed out joining the network"])
                self.assertRestored()

    def test_an_attempt_that_is_displaced_is_made_again(self):
        """iwd reconnects by itself, and NetworkManager follows. Without iwd a user has asked for the other connection."""
        displaced = {"id": "displaced", "ssid": "Dice-Late", "security": "wpa2", "passphrase": "sixsided7", "fault": "displaced"}
        for services, count, says in (
            (("iwd", "NetworkManager"), 1, None), (("iwd", "NetworkManager"), 2, "preferred another connection"),
            (("NetworkManager",), 1, "another connection"),
        ):
            with self.subTest(services=services, count=count):
                app, picker = self.serve(*services, more=[displaced | {"faultCount": count}])
                self.world.daemon.wait_for("Wi-Fi interface .*NetworkManager")
                path = self.grant(app, picker, "Dice-Late")
                if says:
                    self.assertFails(error("ConnectionFailed"), self.join, app, path, passphrase="sixsided7", says=[says])
                    self.assertRestored()
                self.join(app, path, passphrase="sixsided7")
                self.simulator.wait_joined("Dice-Late")
                self.leave(app, path)
                self.assertRestored()

    def test_what_is_known_to_be_in_vain(self):
        points = [{"id": "old", "ssid": "Dice-Old", "security": "wep"}, {"id": "firm", "ssid": "Dice-Firm", "security": "enterprise"}]
        app, picker = self.serve("wpa_supplicant", more=points)
        for name, options, says in (
            ("Dice-1234", {}, "passphrase"), ("Dice-Open", {"passphrase": "sixsided1"}, "open"),
            ("Dice-Old", {"passphrase": "sixsided1"}, "WEP"), ("Dice-Firm", {"passphrase": "sixsided1"}, "enterprise"),
        ):
            path = self.grant(app, picker, name)
            self.assertFails(error("ConnectionFailed"), self.join, app, path, says=[says], **options)
            self.assertEqual(self.simulator.joined, {"wlan0": "Home"})

    def test_a_strangers_network_of_the_same_name(self):
        """A network is a name and a kind of protection. The stranger's is nearer, and refuses: a join that succeeds has joined ours."""
        protected, open_ = {"security": "wpa2", "passphrase": "sixsided9"}, {}
        for services in (*((service,) for service in SERVICES), ("iwd", "NetworkManager")):
            for ours, strangers in ((protected, open_), (open_, protected)):
                with self.subTest(services=services, ours=ours):
                    app, picker = self.serve(*services, more=[
                        {"id": "ours", "ssid": "Plug-1", "rssi": -70, **ours},
                        {"id": "strangers", "ssid": "Plug-1", "rssi": -30, "fault": "refuse", **strangers}])
                    self.world.daemon.wait_for(f"Wi-Fi interface .*{services[-1]}")
                    path = self.grant(app, picker, "Plug-1", network(ssid="Plug-1"))
                    options = {key: value for key, value in ours.items() if key == "passphrase"}
                    for _ in range(3):
                        self.join(app, path, **options)
                        self.simulator.wait_joined("Plug-1")
                        self.leave(app, path)
                        self.assertRestored()
                    # Ours is out of range: the stranger's is no substitute.
                    self.simulator.do("vanish", "ours")
                    self.assertFails(error("ConnectionFailed"), self.join_in_time, app, path, **options)
                    self.assertRestored()
                    # The failure is not remembered against ours.
                    self.simulator.do("return", "ours")
                    self.join_and_leave(app, path, **options)

    def test_a_network_that_changes_its_protection(self):
        """Open until it has a passphrase, and open again after a reset."""
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service, more=[
                    {"id": "new", "ssid": "Plug-1"}, {"id": "set-up", "ssid": "Plug-1", "security": "wpa2", "passphrase": "sixsided9"}])
                self.simulator.do("vanish", "set-up")
                path = self.grant(app, picker, "Plug-1", network(ssid="Plug-1"))
                for there, options, others, says in (
                    ("new", {}, {"passphrase": "sixsided9"}, "Plug-1 is open, and a passphrase was given"),
                    ("set-up", {"passphrase": "sixsided9"}, {}, "Plug-1 requires a passphrase"), ("new", {}, {"passphrase": "sixsided9"}, "is open"),
                ):
                    self.simulator.do("vanish", "set-up" if there == "new" else "new")
                    self.simulator.do("return", there)
                    # The scan from before the change is believed for so long.
                    for _ in range(10):
                        self.world.pass_second()
                    # The other two list for a while the network that has gone, and may try it.
                    says = ["in the scan 0 s ago", says] if service == "wpa_supplicant" else []
                    self.assertFails(error("ConnectionFailed"), self.join_in_time, app, path, says=says, **others)
                    self.assertRestored()
                    self.join_and_leave(app, path, **options)

    def test_a_strangers_hidden_network(self):
        """iwd joins whichever hidden network of the name answers."""
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service, more=[{"id": "strangers", "ssid": "Plug-1", "hidden": True}])
                path = self.migrate(app, picker, {**network(ssid="Plug-1"), "hotspotSSID": b"Plug-1"})
                self.assertFails(error("ConnectionFailed"), self.join_in_time, app, path, passphrase="sixsided9", hidden=True)
                self.assertRestored()

    def test_an_iwd_that_would_take_routes_and_name_servers(self):
        for services in (("iwd",), ("iwd", "NetworkManager")):
            with self.subTest(services):
                app, picker = self.serve(*services, iwdConfigures=True)
                self.world.daemon.wait_for(f"Wi-Fi interface .*{services[-1]}")
                path = self.grant(app, picker, "Dice-1234")
                self.assertFails(error("ConnectionFailed"), self.join, app, path, says=["routes and name servers"], passphrase="sixsided1")
                self.assertEqual(self.simulator.joined, {"wlan0": "Home"})
                self.assertRestored()

    def test_no_address(self):
        app, picker = self.serve("NetworkManager")
        path = self.grant(app, picker, "Dice-Mute")
        self.assertFails(error("ConnectionFailed"), self.join, app, path, says=["address"])
        self.assertRestored()

    def test_whoever_loses_the_right_loses_the_network(self):
        ways = ("revoke", "disable", "remove", "invalidate", "connection", "manifest", "policy", "stop")
        for service, way in [(SERVICES[index % 3], way) for index, way in enumerate(ways)] + [(each, "kill") for each in SERVICES]:
            with self.subTest(way, service=service):
                app, picker = self.serve(service)
                path = self.grant(app, picker, "Dice-1234")
                self.join(app, path, passphrase="sixsided1")
                self.simulator.wait_joined("Dice-1234")
                grant, = self.world.grants()
                if way == "revoke":
                    self.world.admin.call(grant, GRANT, "Revoke")
                elif way == "disable":
                    self.world.admin.call(grant, PROPERTIES, "Set", "ssv", GRANT, "Enabled", False)
                elif way == "remove":
                    app.remove(path)
                elif way == "invalidate":
                    app.request("Invalidate")
                elif way == "connection":
                    app.close()
                elif way == "manifest":
                    (self.world.app_directories[0] / "com.example.dice.conf").unlink()
                elif way == "policy":
                    self.world.policy.mkdir()
                    (self.world.policy / "no.conf").write_text("[Deny no-hotspots]\nSSIDPrefix=Dice-\n")
                    self.world.restart_daemon()
                elif way == "stop":
                    self.world.restart_daemon()
                else:
                    self.world.restart_daemon(signal.SIGKILL)
                self.assertRestored()

    def test_the_network_goes_while_it_is_joined(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service)
                path = self.grant(app, picker, "Dice-1234")
                self.join(app, path, passphrase="sixsided1")
                self.simulator.do("vanish", "die")
                self.world.pass_until(lambda: app.get(path, NETWORK, "Interface") == "", 20, "the daemon to notice")
                self.assertRestored()
                self.simulator.do("return", "die")
                self.join(app, path, passphrase="sixsided1")
                self.simulator.wait_joined("Dice-1234")

    def test_the_service_goes_while_it_is_joined(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service)
                path = self.grant(app, picker, "Dice-1234")
                self.join(app, path, passphrase="sixsided1")
                self.simulator.do("wifiStopped", service)
                self.world.wait_wifi("absent")
                self.assertEqual(app.get(path, NETWORK, "Interface"), "")
                self.simulator.do("wifiStarted", service)
                self.world.wait_wifi("ready")
                self.assertRestored()
                self.join(app, path, passphrase="sixsided1")
                self.simulator.wait_joined("Dice-1234")

    def test_a_manager_that_gives_its_own_way_home_up_is_helped(self):
        """It was killed while an accessory's network was joined; iwd or wpa_supplicant below continued that, and spoils its first attempt."""
        scenario = self.scenario_of("NetworkManager")
        home = scenario["accessPoints"][0]
        home.update(fault="handshake", faultCount=1)
        self.start(scenario)
        self.world.wait_wifi("ready")
        self.simulator.wait_joined("Home")
        app, picker = self.app(), self.picker()
        path = self.grant(app, picker, "Dice-1234")
        self.join(app, path, passphrase="sixsided1")
        self.simulator.do("vanish", home["id"])
        self.simulator.do("wifiStopped", "NetworkManager")
        self.world.wait_wifi("absent")
        self.simulator.do("wifiStarted", "NetworkManager")
        self.world.wait_wifi("ready")
        self.simulator.do("return", home["id"])
        self.assertRestored()

    def test_a_managers_own_way_home_is_followed(self):
        """From a network that could not be joined it goes home by itself, and gives that up when it comes to nothing."""
        scenario = self.scenario_of("NetworkManager")
        scenario["accessPoints"][0].update(fault="handshake", faultCount=1)
        self.start(scenario)
        self.world.wait_wifi("ready")
        self.simulator.wait_joined("Home")
        app, picker = self.app(), self.picker()
        path = self.grant(app, picker, "Dice-1234")
        self.assertFails(error("ConnectionFailed"), self.join, app, path, passphrase="not the one", says=["passphrase"])
        self.assertRestored()

    def test_what_another_boot_had_joined_is_nothing_of_this_ones(self):
        """Names on the bus and paths of objects are given anew: those in the record refer to other objects now."""
        app, picker = self.serve("NetworkManager")
        self.join(app, self.grant(app, picker, "Dice-1234"), passphrase="sixsided1")
        self.world.daemon.stop(signal.SIGKILL)
        self.assertRestored()
        home = self.active_connection()
        with contextlib.closing(sqlite3.connect(self.world.state / "grants.sqlite")) as store, store:
            (content,), = store.execute("SELECT content FROM joinRecord")
            record = json.loads(content)
            self.assertRegex(record["bus"], "^[0-9a-f]{32}$")
            store.execute("UPDATE joinRecord SET content = ?", (json.dumps(record | {"bus": "0" * 32, "joined": home}),))
        self.world.start_daemon()
        self.world.wait_wifi("ready")
        app = self.app()
        path, = app.accessories
        self.assertEqual(self.active_connection(), home)
        self.join(app, path, passphrase="sixsided1")
        self.leave(app, path)
        self.assertRestored()

    def active_connection(self):
        manager = "org.freedesktop.NetworkManager"
        device, = self.world.admin.call("/org/freedesktop/NetworkManager", manager, "GetDevices", to=manager)
        return str(self.world.admin.call(device, PROPERTIES, "Get", "ss", f"{manager}.Device", "ActiveConnection", to=manager))

    def test_two_apps_share_a_network(self):
        app, picker = self.serve("wpa_supplicant")
        path = self.grant(app, picker, "Dice-1234")
        other = self.app("lamp")
        self.assertEqual(self.grant(other, picker, "Dice-1234"), path)
        self.join(app, path, passphrase="sixsided1")
        self.join(other, path)
        app.close()
        other.settle()
        self.assertEqual(other.get(path, NETWORK, "Interface"), "wlan0")
        other.close()
        self.assertRestored()

    def test_one_interface_is_on_one_network(self):
        app, picker = self.serve("wpa_supplicant")
        first, second = self.grant(app, picker, "Dice-1234"), self.grant(app, picker, "Dice-Open")
        other = self.app("lamp")
        self.grant(other, picker, "Dice-Open")
        self.join(app, first, passphrase="sixsided1")
        failure = self.assertFails(error("ConnectionFailed"), self.join, other, second, says=["in use"])
        self.assertNotIn("1234", failure.get_dbus_message())
        # One's own is changed over.
        self.join(app, second)
        self.simulator.wait_joined("Dice-Open")
        self.join(other, second)

    def test_the_trail_tells(self):
        app, picker = self.serve("wpa_supplicant")
        path = self.grant(app, picker, "Dice-1234")
        self.join(app, path, passphrase="sixsided1")
        self.leave(app, path)
        entries = self.world.admin.call(f"{ROOT}/admin", f"{NAME}.Admin", "GetAudit", "a{sv}", sv({}))
        events = [str(each["event"]) for each in entries]
        self.assertEqual(
            [each for each in events if each in ("granted", "joined", "used", "left")], ["granted", "joined", "used", "left"])

    def test_the_trail_has_what_the_app_was_told(self):
        """Even if the daemon is killed the moment after."""
        app, picker = self.serve("wpa_supplicant")
        path = self.grant(app, picker, "Dice-1234")

        def lines():
            with contextlib.closing(sqlite3.connect(self.world.state / "grants.sqlite")) as store:
                return [event for event, in store.execute("SELECT event FROM audit WHERE event IN ('joined', 'left') ORDER BY id")]

        self.join(app, path, passphrase="sixsided1")
        self.assertEqual(lines(), ["joined"])
        self.leave(app, path)
        self.assertEqual(lines(), ["joined", "left"])


class Terms(WiFiTest):
    """One app's declarations about an accessory do not affect another app that shares it."""

    def share(self, manifest=None, **descriptor):
        """An accessory with Bluetooth that both apps have: the first one with its network."""
        app, picker = self.serve_both(name="pink")
        if manifest:
            self.world.declare("lamp", **{**self.manifest, **manifest})
        path = self.add(app, picker, "pink", item(ssid="Dice-1234"))
        other = self.app("lamp")
        self.assertEqual(self.add(other, picker, "pink", item(**descriptor)), path)
        return app, other, picker, path

    def seen(self, app, path):
        return {name: value for name, value in app.get_all(path, ACCESSORY).items() if name != "DisplayName"}

    def test_another_apps_new_name_of_the_network(self):
        app, other, picker, path = self.share(ssid="Dice-1234")
        before = self.seen(app, path)
        other.request("RenameAccessory", "oa{sv}", dbus.ObjectPath(path), sv({"renameOptions": ["ssid"]}))
        picker.wait_stage("renaming")
        picker.ask("Rename", "s", "Dice-Open")
        other.wait_event("accessoryChanged")
        self.assertEqual(bytes(other.get(path, ACCESSORY, "Ssid")), b"Dice-Open")
        app.wait_event("accessoryChanged")
        self.assertEqual(self.seen(app, path), before)
        self.join(app, path, passphrase="sixsided1")
        self.simulator.wait_joined("Dice-1234")
        # The interface of a network that it does not have is nothing that it sees.
        self.assertEqual(other.get(path, NETWORK, "Interface"), "")
        self.assertEqual(app.get(path, NETWORK, "Interface"), "wlan0")

    def test_another_apps_new_descriptor(self):
        app, other, picker, path = self.share(ssid="Dice-1234")
        before, told = self.seen(app, path), app.told()
        other.request(
            "UpdateAuthorization", "oa{sv}", dbus.ObjectPath(path), sv(item(ssid="Dice-Open")["descriptor"]))
        picker.pick("pink")
        other.wait_event("accessoryChanged")
        self.assertEqual(bytes(other.get(path, ACCESSORY, "Ssid")), b"Dice-Open")
        self.assertEqual((self.seen(app, path), app.told()), (before, told))

    def test_an_app_without_wifi_gets_no_network_by_another(self):
        app, other, picker, path = self.share(manifest={"Supports": "Bluetooth;"})
        self.assertEqual(bytes(other.get(path, ACCESSORY, "Ssid")), b"")
        self.assertFails(error("InvalidRequest"), self.join, other, path, says=["no network"])
        app.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(path), sv(item(ssid="Dice-Open")["descriptor"]))
        picker.pick("pink")
        app.wait_event("accessoryChanged")
        self.assertEqual(bytes(other.get(path, ACCESSORY, "Ssid")), b"")
        self.assertNotIn("accessoryChanged", other.told())

    def test_another_apps_device_is_not_offered_under_ones_own_name(self):
        app, picker = self.serve_both(name="pink")
        door = self.add(app, picker, "pink", item("Front Door"))
        other = self.app("lamp")
        toy = self.grant(other, picker, "Dice-1234", network("Toy Dice", ssid="Dice-1234"))
        other.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(toy), sv(item()["descriptor"]))
        self.world.pass_until(lambda: other.told().count("pickerDidDismiss") == 2, 40, "the end of the time")
        self.assertEqual(other.wait_event("pickerDidDismiss", count=2)["error"], error("DiscoveryTimeout"))
        self.assertEqual(picker.offers, [])
        self.assertEqual(other.get(toy, ACCESSORY, "BluetoothIdentifier"), "")
        self.assertEqual(app.get(door, ACCESSORY, "DisplayName"), "Front Door")

    def test_a_bluetooth_side_that_another_app_adds(self):
        app, picker = self.serve_both(name="pink")
        path = self.grant(app, picker, "Dice-1234", network(ssid="Dice-1234"))
        other = self.app("lamp")
        self.assertEqual(self.grant(other, picker, "Dice-1234", network(ssid="Dice-1234")), path)
        before, told = self.seen(app, path), app.told()
        other.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(path), sv(item()["descriptor"]))
        picker.pick("pink")
        other.wait_event("accessoryChanged")
        self.assertTrue(other.get(path, ACCESSORY, "BluetoothIdentifier"))
        self.assertEqual((self.seen(app, path), app.told()), (before, told))

    def test_a_descriptor_alone_is_no_bluetooth(self):
        """An app that has the network, by a descriptor with Bluetooth, gets nothing of a device that another app adds."""
        app, picker = self.serve_both(name="pink")
        other = self.app("lamp")
        other.show_picker({**item(service=BLUE), "hotspotSSID": b"Dice-1234"})
        picker.wait_prompt("consent")
        picker.respond(accept=True)
        path = str(other.wait_event("migrationComplete")["accessory"])
        picker.wait_gone()
        self.assertEqual(self.grant(app, picker, "Dice-1234", network(ssid="Dice-1234")), path)
        before, told = self.seen(other, path), other.told()
        app.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(path), sv(item()["descriptor"]))
        picker.pick("pink")
        app.wait_event("accessoryChanged")
        self.assertTrue(app.get(path, ACCESSORY, "BluetoothIdentifier"))
        self.assertEqual((self.seen(other, path), other.told()), (before, told))
        # With the last app that has the device, the device goes, and its bond.
        app.remove(path)
        wait(lambda: self.simulator.bonds == [], 10, "the end of the bond", also_every=0.05)
        self.assertEqual(self.world.admin.get(path, ACCESSORY, "Address"), "")

    def test_a_network_that_rides_along_is_named(self):
        app, picker = self.serve("wpa_supplicant")
        app.show_picker(network("Toy", ssid="Dice-Open"), {**network("Old toy", ssidPrefix="Hom"), "hotspotSSID": b"Home"})
        picker.wait_offer("Dice-Open")
        self.assertEqual([str(each) for each in picker.state["Prompt"]["migrations"]], ["Old toy (“Home”)"])

    def test_a_pick_means_the_network_that_was_shown(self):
        points = [{"id": f"point-{name}", "ssid": f"Dice-{name}", "rssi": -40} for name in "ab"]
        scenario = self.scenario_of("wpa_supplicant", accessPoints=points)
        del scenario["adapters"]
        scenario["accessories"] = [accessory("pink")]
        self.start(scenario)
        self.world.wait_wifi("ready")
        app, picker = self.app(), self.picker()
        self.simulator.do("vanish", "point-b")
        app.show_picker(item(ssidPrefix="Dice-"), discoveryTimeout=float("inf"))

        def shown(name):
            return next((each for each in picker.offers if bytes(each.get("ssid", b"")) == name), None)

        first = wait(lambda: shown(b"Dice-a"), what="the network A")
        self.simulator.do("vanish", "point-a")
        self.simulator.do("return", "point-b")
        self.world.pass_until(lambda: shown(b"Dice-b"), 60, "the network B")
        self.assertFails(error("InvalidRequest"), picker.ask, "Pick", "s", first["id"], says=["not offered"])

    def test_a_rule_approves_the_network_that_it_names(self):
        scenario = self.scenario_of("wpa_supplicant")
        del scenario["adapters"]
        scenario["accessories"] = [accessory("pink")]
        self.start(scenario)
        self.world.wait_wifi("ready")
        rule = f"[Approve dice]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\nMinimumRSSI=-100\n"
        app = self.app()
        for more in ("", "SSID=Dice-1234\n"):
            with self.subTest(more):
                self.world.policy.mkdir(exist_ok=True)
                draft = self.world.policy / "draft"
                draft.write_text(rule + more)
                draft.rename(self.world.policy / "dice.conf")
                wait(lambda: [each for each in self.world.admin.get(f"{ROOT}/admin", f"{NAME}.Admin", "Policy")
                              if ("network" in str(each["target"])) == bool(more)], 10, "the rule", also_every=0.05)
                app.show_picker(item(ssid="Dice-1234"))
                if more:
                    app.wait_event("accessoryAdded")
                else:
                    self.world.daemon.wait_for("event=offered")
                    app.request("CancelPicker")
                    app.wait_event("pickerDidDismiss")
                    self.assertNotIn("accessoryAdded", app.told())

    def declared(self):
        return self.world.admin.get(f"{ROOT}/app/com_2eexample_2edice", APP, "Manifest")

    def test_each_use_is_held_against_the_manifest(self):
        app, picker = self.serve_both(name="pink")
        path = self.add(app, picker, "pink", item(ssid="Dice-1234"))
        before = self.declared()
        for keys, says in (
            ({"Supports": "Bluetooth;"}, ["WiFi", "Supports="]),
            ({"Supports": "Bluetooth;WiFi;", "Networks": "Door;Toy-*;"}, ["Dice-1234", "Networks="]),
        ):
            with self.subTest(keys):
                self.join(app, path, passphrase="sixsided1")
                self.simulator.wait_joined("Dice-1234")
                self.world.declare("dice", **keys)
                # A network that is no longer declared is left.
                self.simulator.wait_joined("Home")
                self.assertFails(error("InvalidRequest"), self.join, app, path, says=says)
                self.world.declare("dice", **self.manifest)
                wait(lambda: self.declared() == before, 10, "the manifest", also_every=0.05)

    def test_admins_see_the_terms_of_each_grant(self):
        app, other, picker, path = self.share()
        grants = {each["App"]: each for each in self.world.grants().values()}
        self.assertEqual(str(grants["com.example.dice"]["NetworkName"]), "Dice-1234")
        self.assertEqual(bytes(grants["com.example.dice"]["Ssid"]), b"Dice-1234")
        self.assertEqual(bytes(grants["com.example.dice"]["Descriptor"]["ssid"]), b"Dice-1234")
        self.assertEqual(str(grants["com.example.lamp"]["NetworkName"]), "")
        self.assertNotIn("ssid", grants["com.example.lamp"]["Descriptor"])


class Declared(WiFiTest):
    """`Networks=`: the networks that an app may look for and receive."""

    manifest = {"Supports": "Bluetooth;WiFi;", "Networks": "Dice-1234;Dice-P*;"}

    def test_other_networks_are_refused(self):
        app, picker = self.serve("wpa_supplicant")
        for descriptor, says in (
            ({"ssid": "Home"}, ["ssid", "Home", "Networks="]), ({"ssid": "Dice-12345"}, ["ssid", "Networks="]),
            ({"ssidPrefix": "Dice-"}, ["ssidPrefix", "Dice-", "Networks="]), ({"ssidPrefix": "H"}, ["ssidPrefix", "Networks="]),
            ({"ssidPrefix": "Dice-1234"}, ["ssidPrefix", "Networks="]),
        ):
            with self.subTest(descriptor):
                self.assertFails(error("InvalidRequest"), app.show_picker, network(**descriptor), says=says)
        app.show_picker(
            network(ssid="Dice-1234"), network(ssidPrefix="Dice-Pa"), options=["filterDiscoveryResults"])
        found = {bytes(app.wait_event("accessoryDiscovered", count=number)["ssid"]) for number in (1, 2)}
        self.assertEqual(found, {b"Dice-1234", b"Dice-Pair"})

    def test_a_migration_of_another_network_is_refused(self):
        app, picker = self.serve_both(name="pink")
        with Paired(self.world, "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"):
            pass
        migration = {**item(), "peripheralIdentifier": "C0:FF:EE:00:02:01"}
        self.assertFails(
            error("InvalidRequest"), app.show_picker, {**migration, "hotspotSSID": b"Home"}, says=["hotspotSSID", "Home", "Networks="])
        app.show_picker({**migration, "hotspotSSID": b"Dice-1234"})
        picker.wait_prompt("consent")

    def test_without_the_key_a_prefix_has_three_bytes(self):
        self.manifest = WiFiTest.manifest
        app, picker = self.serve("wpa_supplicant")
        letters = [network(ssidPrefix=chr(each)) for each in range(ord("A"), ord("A") + 20)]
        self.assertFails(
            error("InvalidRequest"), app.show_picker, *letters, options=["filterDiscoveryResults"], says=["ssidPrefix", "3 bytes"])
        self.assertFails(error("InvalidRequest"), app.show_picker, network(ssidPrefix="Di"), says=["ssidPrefix", "3 bytes"])
        app.show_picker(network(ssidPrefix="Dic"))
        picker.wait_offer("Dice-1234")


class Migrating(WiFiTest):
    def test_by_the_networks_name(self):
        app, picker = self.serve("wpa_supplicant")
        before = self.simulator.scans
        app.show_picker({**network(ssidPrefix="Dice-"), "hotspotSSID": b"Dice-1234"})
        picker.wait_prompt("consent")
        self.assertEqual([bytes(each["ssid"]) for each in picker.offers], [b"Dice-1234"])
        picker.respond(accept=True)
        details = app.wait_event("migrationComplete")
        self.assertEqual(bytes(details["properties"]["Ssid"]), b"Dice-1234")
        self.assertEqual(self.simulator.scans, before)
        self.join(app, str(details["accessory"]), passphrase="sixsided1")
        self.simulator.wait_joined("Dice-1234")

    def test_refused_by_the_person(self):
        app, picker = self.serve("wpa_supplicant")
        app.show_picker({**network(ssidPrefix="Dice-"), "hotspotSSID": b"Dice-1234"})
        picker.wait_prompt("consent")
        picker.respond(accept=False)
        self.assertDismissed(app, "UserCancelled")

    def test_both_sides_and_along_with_a_new_one(self):
        app, picker = self.serve_both(name="pink")
        with Paired(self.world, "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"):
            pass
        app.show_picker(
            {**item(ssid="Dice-1234"), "peripheralIdentifier": "C0:FF:EE:00:02:01", "hotspotSSID": b"Dice-1234"},
            network("Open die", ssid="Dice-Open"))
        picker.pick("Dice-Open")
        details = app.wait_event("migrationComplete")
        self.assertEqual(bytes(details["properties"]["Ssid"]), b"Dice-1234")
        self.assertTrue(details["properties"]["BluetoothIdentifier"])
        self.assertEqual(len(self.world.grants()), 2)


class Explaining(WiFiTest):
    def test_networks_in_range(self):
        app, picker = self.serve("wpa_supplicant")
        mine = self.grant(app, picker, "Dice-1234")
        self.assertTrue(mine)
        self.world.policy.mkdir()
        (self.world.policy / "no.conf").write_text("[Deny open-ones]\nSSID=Dice-Open\n")
        self.world.restart_daemon()
        self.world.wait_wifi("ready")
        app, picker = self.app(), self.picker()
        app.show_picker(network(ssidPrefix="Dice-"))
        picker.wait_offer("Dice-SAE")
        self.assertNotIn("Dice-Open", [each["advertisedName"] for each in picker.offers])
        def explain():
            found = self.world.admin.call(
                f"{ROOT}/admin", f"{NAME}.Admin", "Explain", "a{sv}", sv({"app": "com.example.dice", "seconds": 4.0}))
            reasons = {str(each["name"]): " ".join(each["reasons"]) for each in found}
            return reasons.keys() >= {"Dice-1234", "Dice-Open", "Home", "Dice-SAE"} and reasons

        reasons = wait(explain, 20, "all of them to be heard", also_every=0.05)
        self.assertIn("already has it", reasons["Dice-1234"])
        self.assertIn("open-ones", reasons["Dice-Open"])
        self.assertIn("does not match", reasons["Home"])
        self.assertEqual(reasons["Dice-SAE"], "")


    def test_an_app_with_wifi_alone_and_no_picker(self):
        """Its manifest names no service, no company and no network."""
        self.manifest = {"Supports": "WiFi;", "BluetoothServices": None}
        app, picker = self.serve("wpa_supplicant")
        self.grant(app, picker, "Dice-1234")
        found = self.world.admin.call(
            f"{ROOT}/admin", f"{NAME}.Admin", "Explain", "a{sv}", sv({"app": "com.example.dice", "seconds": 1.0}))
        reasons = {str(each["name"]): " ".join(each["reasons"]) for each in found}
        self.assertIn("no picker is shown", reasons["Dice-SAE"])
        self.assertIn("already has it", reasons["Dice-1234"])
        # Without Wi-Fi nothing can be said.
        self.simulator.do("wifiOff")
        self.world.wait_wifi("off")
        self.assertFails(error("PickerRestricted"), self.world.admin.call, f"{ROOT}/admin", f"{NAME}.Admin", "Explain", "a{sv}",
                         sv({"app": "com.example.dice"}), says=["Wi-Fi is off"])


class Unattended(WiFiTest):
    def test_a_rule_approves_a_network(self):
        self.start(self.scenario_of("wpa_supplicant"))
        self.world.policy.mkdir()
        (self.world.policy / "yes.conf").write_text("[Approve dice]\nApp=com.example.dice\nSSIDPrefix=Dice-1\nMinimumRSSI=-60\n")
        self.world.restart_daemon()
        self.world.wait_wifi("ready")
        app = self.app()
        app.show_picker(network(ssidPrefix="Dice-"))
        added = app.wait_event("accessoryAdded")
        self.assertEqual(bytes(added["properties"]["Ssid"]), b"Dice-1234")


class BadInput(WiFiTest):
    def test_descriptors(self):
        app, _ = self.serve("wpa_supplicant")
        before = self.simulator.scans
        for descriptor, says in (
            ({"ssid": b""}, ["ssid"]), ({"ssid": b"x" * 33}, ["ssid", "32"]), ({"ssidPrefix": b""}, ["ssidPrefix"]),
            ({"ssidPrefix": b"x" * 33}, ["ssidPrefix", "32"]), ({"ssid": b"Dice", "ssidPrefix": b"Di"}, ["ssid", "ssidPrefix"]),
            ({"ssid": b"Dice\0"}, ["ssid", "NUL"]), ({"ssidPrefix": b"\0"}, ["ssidPrefix", "NUL"]), ({"ssid": ""}, ["ssid"]),
            ({"ssid": dbus.UInt32(7)}, ["ssid", "type"]), ({"ssid": b"D", "bluetoothRange": "near"}, ["bluetoothRange", "near"]),
            ({"ssid": b"D", "bluetoothNameSubstring": "Dice"}, ["bluetoothNameSubstring"]),
            ({"ssid": b"D", "ssidSuffix": b"x"}, ["ssidSuffix"]),
        ):
            with self.subTest(descriptor):
                self.assertFails(error("InvalidRequest"), app.show_picker, {"name": "Dice", "descriptor": descriptor}, says=says)
        for item, says in (
            ({**network(ssidPrefix="Dice-"), "hotspotSSID": b""}, ["hotspotSSID"]),
            ({**network(ssidPrefix="Dice-"), "hotspotSSID": b"x" * 33}, ["hotspotSSID"]),
            ({**network(ssidPrefix="Dice-"), "hotspotSSID": b"\0\0"}, ["hotspotSSID", "NUL"]),
            ({**network(ssidPrefix="Dice-"), "hotspotSSID": b"Home"}, ["hotspotSSID", "Home"]),
            ({**item_without_network(), "renameOptions": ["ssid"]}, ["renameOptions", "ssid"]),
        ):
            with self.subTest(item):
                self.assertFails(error("InvalidRequest"), app.show_picker, item, says=says)
        self.assertEqual(self.world.admin.paths("picker"), [])
        self.assertEqual(self.simulator.scans, before)

    def test_the_manifest_must_name_wifi(self):
        app, _ = self.serve("wpa_supplicant")
        self.world.declare("plain", Supports="Bluetooth;")
        wait(lambda: len(self.world.admin.paths("app")) == 3, 10, "the manifest", also_every=0.05)
        plain = self.app("plain")
        for item in (network(ssid="Dice-1234"), network(ssidPrefix="Dice-"),
                     {**item_without_network(), "hotspotSSID": b"Dice-1234"}):
            self.assertFails(error("InvalidRequest"), plain.show_picker, item, says=["WiFi", "Supports"])

    def test_joining(self):
        app, picker = self.serve("wpa_supplicant")
        path = self.grant(app, picker, "Dice-1234")
        for options, says in (
            ({"passphrase": "short12"}, ["passphrase", "7 bytes"]), ({"passphrase": "x" * 64}, ["passphrase", "64 bytes"]),
            ({"passphrase": ""}, ["passphrase"]), ({"passphrase": b"sixsided1"}, ["passphrase", "type"]),
            ({"passphrase": "line\nfeed"}, ["passphrase"]), ({"hidden": "yes"}, ["hidden"]), ({"ssid": b"Home"}, ["ssid", "Home"]),
            ({"ssid": b""}, ["ssid"]), ({"ssid": b"x" * 33}, ["ssid"]), ({"ssid": b"\0\0"}, ["ssid", "NUL"]),
            ({"ssid": b"Dice-1234\0"}, ["ssid", "not the granted network"]), ({"password": "sixsided1"}, ["password"]),
        ):
            with self.subTest(options):
                failure = self.assertFails(error("InvalidRequest"), self.join, app, path, says=says, **options)
                if len(str(options.get("passphrase", ""))) > 3:
                    self.assertNotIn(str(options["passphrase"]), failure.get_dbus_message())
        # Absent for other apps; an admin has no grant.
        other = self.app("lamp")
        self.assertFails(UNKNOWN_OBJECT, self.join, other, path)
        self.assertFails(UNKNOWN_OBJECT, self.leave, other, path)
        self.assertFails(BUS_ERROR + "AccessDenied", self.join, self.world.admin, path)
        self.assertEqual(self.simulator.joined, {"wlan0": "Home"})
        self.assertEqual(self.simulator.known_networks, ["Home"])

    def test_an_accessory_without_a_network(self):
        app, picker = self.serve_both()
        path = self.add(app, picker, "die-bluetooth")
        self.assertFails(error("InvalidRequest"), self.join, app, path, says=["no network"])
        self.assertFails(
            error("InvalidRequest"), app.request, "RenameAccessory", "oa{sv}", dbus.ObjectPath(path),
            sv({"renameOptions": ["ssid"]}), says=["ssid"])


class Renaming(WiFiTest):
    def test_the_network_gets_the_name_too(self):
        app, picker = self.serve("wpa_supplicant")
        path = self.grant(app, picker, "Dice-1234")
        app.request("RenameAccessory", "oa{sv}", dbus.ObjectPath(path), sv({"renameOptions": ["ssid"]}))
        picker.wait_stage("renaming")
        self.assertFails(error("InvalidRequest"), picker.ask, "Rename", "s", "x" * 33, says=["name", "32 bytes"])
        self.assertEqual(bytes(app.get(path, ACCESSORY, "Ssid")), b"Dice-1234")
        picker.ask("Rename", "s", "Kitchen die")
        changed = app.wait_event("accessoryChanged")
        self.assertEqual(bytes(changed["properties"]["Ssid"]), b"Kitchen die")
        self.assertEqual(changed["properties"]["DisplayName"], "Kitchen die")
        picker.wait_gone()
        # The hotspot that kept its name can be found again.
        app.show_picker(network(ssid="Dice-1234"))
        picker.wait_offer("Dice-1234")

    def test_only_the_display_name(self):
        app, picker = self.serve("wpa_supplicant")
        path = self.grant(app, picker, "Dice-1234")
        app.request("RenameAccessory", "oa{sv}", dbus.ObjectPath(path), sv({}))
        picker.ask("Rename", "s", "Kitchen")
        self.assertEqual(bytes(app.wait_event("accessoryChanged")["properties"]["Ssid"]), b"Dice-1234")


class Aware(WiFiTest):
    """Wi-Fi Aware, where wpa_supplicant has it."""

    services = [
        {"id": "d6", "service": "_dice._tcp", "role": "publisher", "model": "Model D6", "vendor": "Example", "address": "02:00:00:00:0A:01"},
        {"id": "d20", "service": "_dice._tcp", "role": "publisher", "model": "Model D20", "vendor": "Example", "address": "02:00:00:00:0A:02"},
        {"id": "asker", "service": "_dice._tcp", "role": "subscriber", "model": "Reader", "vendor": "Other", "address": "02:00:00:00:0A:03"},
    ]

    def serve(self, aware=True):
        scenario = self.scenario_of("wpa_supplicant", aware=aware)
        if aware:
            scenario["awareServices"] = self.services
        self.start(scenario)
        self.world.wait_wifi("ready")
        return self.app(), self.picker()

    @staticmethod
    def item(role="publisher", **more):
        return {"name": "Dice", "descriptor": {"wifiAwareServiceName": "_dice._tcp", "wifiAwareServiceRole": role, **more}}

    @staticmethod
    def match(text, *options):
        return dbus.Struct((text, dbus.Array(options, signature="s")), signature="sas")

    def test_where_it_is_missing(self):
        app, _ = self.serve(aware=False)
        self.assertFails(error("InvalidRequest"), app.show_picker, self.item(), says=["wifiAwareServiceName", "NANSubscribe"])
        self.assertEqual(app.told(), ["activated"])

    def test_found_by_name_role_model_and_vendor(self):
        app, picker = self.serve()
        for descriptor, expected in (
            (self.item(), {"Example Model D6", "Example Model D20"}),
            (self.item("subscriber"), {"Other Reader"}),
            (self.item(wifiAwareModelNameMatch=self.match("d6", "caseInsensitive")), {"Example Model D6"}),
            (self.item(wifiAwareModelNameMatch=self.match("Model"), wifiAwareVendorNameMatch=self.match("Example")),
             {"Example Model D6", "Example Model D20"}),
        ):
            app.show_picker(descriptor)
            for name in expected:
                picker.wait_offer(name)
            self.assertEqual({str(each["advertisedName"]) for each in picker.offers}, expected)
            picker.cancel()
            picker.wait_gone()
        app.show_picker(self.item(wifiAwareVendorNameMatch=self.match("Nobody")), discoveryTimeout=2.0)
        self.assertEqual(app.wait_event("pickerDidDismiss", count=5)["error"], error("DiscoveryTimeout"))

    def test_a_number_for_the_paired_device(self):
        app, picker = self.serve()
        path = self.add(app, picker, "Example Model D6", self.item())
        number = app.get(path, ACCESSORY, "WiFiAwarePairedDeviceID")
        self.assertGreater(number, 0)
        self.assertEqual(app.get(path, ACCESSORY, "Descriptor")["wifiAwareServiceName"], "_dice._tcp")
        self.world.restart_daemon()
        self.world.wait_wifi("ready")
        app = self.app()
        self.assertEqual(app.get(path, ACCESSORY, "WiFiAwarePairedDeviceID"), number)
        # Another app takes it over by that number only.
        other = self.app("lamp")
        person = self.picker()
        self.assertFails(
            error("InvalidRequest"), other.show_picker, {**self.item(), "wifiAwarePairedDeviceID": dbus.UInt64(number + 1)},
            says=["wifiAwarePairedDeviceID"])
        # Integers of any width.
        other.show_picker({**self.item(), "wifiAwarePairedDeviceID": dbus.Int32(number)})
        person.wait_prompt("consent")
        person.respond(accept=True)
        self.assertEqual(str(other.wait_event("migrationComplete", 15)["accessory"]), path)

    def test_from_a_network_to_aware(self):
        app, picker = self.serve()
        path = self.grant(app, picker, "Dice-1234")
        self.assertEqual(app.get(path, ACCESSORY, "WiFiAwarePairedDeviceID"), 0)
        app.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(path),
                    sv(self.item(wifiAwareModelNameMatch=self.match("D6"))["descriptor"]))
        picker.pick("Example Model D6")
        changed = app.wait_event("accessoryChanged")
        self.assertGreater(changed["properties"]["WiFiAwarePairedDeviceID"], 0)
        self.assertEqual(bytes(changed["properties"]["Ssid"]), b"Dice-1234")

    def test_bad_input(self):
        app, _ = self.serve()
        for descriptor, says in (
            ({"wifiAwareServiceName": ""}, ["wifiAwareServiceName"]), ({"wifiAwareServiceName": "x" * 256}, ["wifiAwareServiceName"]),
            ({"wifiAwareServiceRole": "publisher"}, ["wifiAwareServiceName"]),
            ({"wifiAwareServiceName": "_d._tcp", "wifiAwareServiceRole": "both"}, ["wifiAwareServiceRole", "both"]),
            ({"wifiAwareServiceName": "_d._tcp", "wifiAwareModelNameMatch": "D6"}, ["wifiAwareModelNameMatch"]),
            ({"wifiAwareServiceName": "_d._tcp", "wifiAwareModelNameMatch": self.match("")}, ["wifiAwareModelNameMatch"]),
            ({"wifiAwareServiceName": "_d._tcp", "wifiAwareVendorNameMatch": self.match("(", "regularExpression")},
             ["wifiAwareVendorNameMatch"]),
            ({"wifiAwareServiceName": "_d._tcp", "ssidPrefix": b"D"}, ["wifiAwareServiceName", "ssidPrefix"]),
        ):
            with self.subTest(descriptor):
                self.assertFails(error("InvalidRequest"), app.show_picker, {"name": "Dice", "descriptor": descriptor}, says=says)


def item_without_network():
    return {"name": "Dice", "descriptor": {"bluetoothServiceUUID": PINK}}


if __name__ == "__main__":
    unittest.main()
