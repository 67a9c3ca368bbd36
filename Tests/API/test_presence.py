# SPDX-License-Identifier: Apache-2.0
"""The presence of observed accessories: events for the app, the cost of searching, and apps that are started when one appears."""

import os
import socket

import dbus

from harness.names import ADMIN, ADMIN_PATH, GRANT, PINK, SESSION, UNKNOWN_OBJECT, error
from harness.programs import BIN, Program
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from test_kinds import KindTest, kind
from test_policy import PolicyTest, ctl
from test_wifi import SERVICES, WiFiTest, network
from view import GATT, ViewTest, path_of


def news(app):
    """The events about presence so far: (present, reason), of a kind with the device."""
    return [(bool(each["present"]), str(each["reason"]), *([str(each["device"])] if "device" in each else []))
            for kind, each in app.events if kind == "presenceChanged"]


DBUS = "org.freedesktop.DBus"


class Observing:
    """Steps of a test whose app has an accessory."""

    def observe(self, app=None, accessory=None, begin=True):
        (app or self.dice).request("ObservePresence", "ob", dbus.ObjectPath(accessory or self.accessory), begin)

    def wait_news(self, *last, app=None, passing=0):
        """The last events about presence are these."""
        app = app or self.dice
        happens = lambda: news(app)[-len(last):] == list(last)
        if passing:
            self.world.pass_until(happens, passing, what=lambda: f"{last}; came {news(app)}")
        wait(happens, 10, lambda: f"{last}; came {news(app)}")

    def pass_time(self, seconds):
        for _ in range(seconds):
            self.world.pass_second()

    @property
    def properties(self):
        return self.world.grants()[self.grant()]

    def searches(self):
        return sum("presence: a window begins" in line for line in self.world.daemon.lines)

    def audit(self):
        lines = self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", sv({}))
        return [(str(each["event"]), str(each["why"])) for each in lines]


class Presence(Observing, ViewTest):
    def test_an_accessory_comes_and_goes(self):
        self.observe()
        # In the first answer it was not heard yet; the first window is at once.
        self.wait_news((False, "lost"), (True, "advert"), passing=5)
        [*_, (_, last)] = [each for each in self.dice.events if each[0] == "presenceChanged"]
        self.assertEqual((str(last["accessory"]), int(last["rssi"]), last["properties"]["DisplayName"]), (self.accessory, -50, "Pink"))
        self.assertEqual((self.properties["Observed"], self.properties["Present"]), (True, True))
        self.simulator.do("vanish", "pink")
        # One window that misses it is not enough.
        self.wait_news((True, "advert"), (False, "advert"), passing=300)
        self.assertGreaterEqual(self.searches(), 3)
        self.assertFalse(self.properties["Present"])
        self.simulator.do("return", "pink")
        self.wait_news((False, "advert"), (True, "advert"), passing=150)

    def test_it_ends(self):
        self.observe()
        self.wait_news((True, "advert"), passing=5)
        self.observe(begin=False)
        self.simulator.do("vanish", "pink")
        before = self.searches()
        self.pass_time(80)
        self.assertEqual((news(self.dice)[-1], self.searches()), ((True, "advert"), before))
        self.assertEqual((self.properties["Observed"], self.properties["Present"]), (False, False))
        self.assertEqual(
            [each for each in self.audit() if "presence" in each[1]],
            [("updated", "its presence is observed"), ("updated", "its presence is no longer observed")])

    def test_the_tables_of_the_tool(self):
        """Presence stands in place of “authorized”, for observed accessories alone, and the tables keep their columns."""
        def tables():
            lists = [ctl(words, "--no-pager", "--bus", self.world.bus.address)[1] for words in ("list", "grants")]
            for lines in lists:
                self.assertEqual(len(lines), 2, lines)
            return [(header.split(), row[header.index("STATE"):].split("  ")[0]) for header, row in lists]

        headers = [["NAME", "ADDRESS", "NETWORK", "STATE", "APPS", "ID"], ["GRANT", "APP", "ACCESSORY", "STATE", "ACCESS", "CREATED", "ENDS"]]
        shows = lambda state: self.assertEqual(tables(), [(header, state) for header in headers])
        shows("authorized")
        self.observe()
        self.wait_news((True, "advert"), passing=5)
        shows("in range")
        self.simulator.do("vanish", "pink")
        self.wait_news((False, "advert"), passing=300)
        shows("not in range")
        number = self.grant().rpartition("/")[2]
        self.assertIn("  not in range", "\n".join(ctl("show", "Pink", "--bus", self.world.bus.address)[1]))
        self.assertEqual(ctl("disable", number, "--bus", self.world.bus.address)[0], 0)
        self.assertEqual([state for _, state in tables()], ["authorized", "disabled"])
        self.assertNotIn("in range", "\n".join(ctl("show", "Pink", "--bus", self.world.bus.address)[1]))

    def test_a_link_of_any_program_counts_and_costs_nothing(self):
        self.share()
        self.unlink(self.pink)
        self.view("board").connect(self.pink)
        self.observe()
        self.wait_news((True, "link"))
        self.pass_time(80)
        self.assertEqual((news(self.dice), self.searches()), ([(True, "link")], 0))
        self.assertEqual(news(self.board), [])

    def test_a_link_that_comes_and_ends(self):
        self.simulator.do("vanish", "pink")
        self.observe()
        self.wait_news((False, "lost"))
        self.pass_time(5)
        self.simulator.do("return", "pink")
        self.view().connect(self.pink)
        self.wait_news((False, "lost"), (True, "link"))
        self.simulator.do("vanish", "pink")
        # Within the grace nothing has changed.
        self.pass_time(8)
        self.dice.settle()
        self.assertEqual(news(self.dice)[-1], (True, "link"))
        self.wait_news((True, "link"), (False, "link"), passing=6)

    def test_an_advert_within_the_grace(self):
        self.view().connect(self.pink)
        self.observe()
        self.wait_news((True, "link"))
        self.unlink(self.pink)
        self.pass_time(30)
        self.dice.settle()
        self.assertEqual(news(self.dice), [(True, "link")])
        self.assertTrue(self.properties["Present"])

    def test_adverts_that_come_anyway(self):
        """Another program searches: that costs no search of ours."""
        self.world.config.write_text("[Presence]\nDuty=0\n")
        self.world.restart_daemon()
        self.dice = self.app()
        self.observe()
        self.wait_news((False, "lost"))
        self.pass_time(70)
        self.world.admin.call("/org/bluez/hci0", "org.bluez.Adapter1", "StartDiscovery", to="org.bluez")
        self.wait_news((False, "lost"), (True, "advert"), passing=5)
        self.simulator.do("vanish", "pink")
        self.wait_news((True, "advert"), (False, "advert"), passing=70)
        self.assertEqual(self.searches(), 0)

    def test_it_survives_the_daemon(self):
        self.observe()
        self.wait_news((True, "advert"), passing=5)
        self.world.restart_daemon()
        dice = self.app()
        self.wait_news((True, "advert"), app=dice, passing=5)
        # A session gets the present state as soon as it is active.
        again = self.app()
        self.wait_news((True, "advert"), app=again)
        self.assertEqual(news(again), [(True, "advert")])

    def test_bluetooth_goes_and_comes_back(self):
        self.observe()
        self.wait_news((True, "advert"), passing=5)
        self.simulator.do("adapterPowerOff", "hci0")
        self.wait_news((True, "advert"), (False, "lost"), passing=15)
        self.simulator.do("adapterPowerOn", "hci0")
        self.wait_news((False, "lost"), (True, "advert"), passing=150)

    def test_only_with_a_grant_that_opens_it(self):
        self.assertFails(UNKNOWN_OBJECT, self.observe, self.board)
        self.assertFails(UNKNOWN_OBJECT, self.observe, self.dice, "/org/accessorysetup1/accessory/none")
        stranger = self.dice.create_session()
        self.assertFails(
            error("InvalidRequest"), self.dice.call, stranger, SESSION, "ObservePresence", "ob", self.accessory, True, says=["created"])
        self.world.admin.call(self.grant(), GRANT, "Revoke")
        self.assertFails(UNKNOWN_OBJECT, self.observe)

    def test_switched_off_it_observes_nothing(self):
        self.observe()
        self.wait_news((True, "advert"), passing=5)
        self.world.admin.call(self.grant(), "org.freedesktop.DBus.Properties", "Set", "ssv", GRANT, "Enabled", False)
        before = self.searches()
        self.assertFails(UNKNOWN_OBJECT, self.observe)
        self.simulator.do("vanish", "pink")
        self.pass_time(80)
        self.assertEqual((news(self.dice)[-1], self.searches(), self.properties["Present"]), ((True, "advert"), before, False))
        self.simulator.do("return", "pink")
        self.world.admin.call(self.grant(), "org.freedesktop.DBus.Properties", "Set", "ssv", GRANT, "Enabled", True)
        self.wait_news((True, "advert"), (False, "lost"), (True, "advert"), passing=150)

    def test_what_has_left_while_it_was_switched_off(self):
        self.observe()
        self.wait_news((True, "advert"), passing=5)
        enable = lambda on: self.world.admin.call(self.grant(), "org.freedesktop.DBus.Properties", "Set", "ssv", GRANT, "Enabled", on)
        enable(False)
        self.simulator.do("vanish", "pink")
        enable(True)
        self.wait_news((True, "advert"), (False, "lost"))

    def test_all_sessions_of_the_app_get_the_state(self):
        other = self.app()
        self.view().connect(self.pink)
        self.observe()
        for app in (self.dice, other):
            self.wait_news((True, "link"), app=app)

    def test_not_again_and_again(self):
        for number in range(20):
            self.observe(begin=number % 2 == 0)
        self.assertFails(error("InvalidRequest"), self.observe, says=["ObservePresence", "20"])
        # One without a change does not count.
        self.observe(begin=False)

    def test_settings_that_are_none(self):
        self.world.daemon.stop()
        for key, value in (("Duty", "101"), ("Duty", "-1"), ("Duty", "much"), ("Monitors", "yes")):
            with self.subTest(value):
                self.world.config.write_text(f"[Presence]\n{key}={value}\n")
                daemon = Program(BIN / "accessorysetupd", "--bus", self.world.bus.address, "--state-directory", self.world.state, "--config", self.world.config)
                self.assertEqual(daemon.wait_end(), 78)
                self.assertIn(f"accessorysetupd.conf:2: {key}", " ".join(daemon.lines))
        self.world.config.write_text("[Presence]\nDuty=100\n")
        self.world.start_daemon()


class Denied(Observing, PolicyTest):
    def test_a_rule_ends_it(self):
        self.dice = self.app()
        self.accessory = self.add(self.dice, self.picker(), "near", item("Pink"))
        self.world.admin.call(path_of(1), "org.bluez.Device1", "Disconnect", to="org.bluez")
        self.observe()
        self.wait_news((True, "advert"), passing=5)
        self.write(f"[Deny rule]\nBluetoothServiceUUID={PINK}\n")
        self.assertFails(error("UserRestricted"), self.observe, says=["rule"])
        before = self.searches()
        self.pass_time(80)
        self.assertEqual((news(self.dice)[-1], self.searches()), ((True, "advert"), before))
        # It can be ended all the same.
        self.observe(begin=False)


class PresenceOfKinds(Observing, KindTest):
    def test_each_device_has_an_event(self):
        self.simulator.do("vanish", "tag-3")
        self.observe(accessory=self.allow())
        addresses = [f"C0:FF:EE:00:02:{number:02X}" for number in (1, 2, 3)]
        self.world.pass_until(lambda: len(news(self.dice)) >= 3, 10, what="two devices")
        self.assertEqual(sorted(news(self.dice)), [(False, "lost"), *((True, "advert", each) for each in addresses[:2])])
        # To observe it is no use: idle days go on.
        self.assertEqual(self.world.grants()[self.grant]["LastUsed"], 0)
        self.simulator.do("vanish", "tag-1")
        self.wait_news((False, "advert", addresses[0]), passing=300)
        self.assertTrue(self.world.grants()[self.grant]["Present"])
        self.admin("Exclude", "s", addresses[1])
        self.wait_news((False, "advert", addresses[1]))
        self.assertFalse(self.world.grants()[self.grant]["Present"])


class PresenceByNetwork(Observing, WiFiTest):
    def test_while_this_machine_has_joined_it(self):
        for service in SERVICES:
            with self.subTest(service):
                app, picker = self.serve(service)
                accessory = self.grant(app, picker, "Dice-1234", network(ssid="Dice-1234"))
                self.observe(app, accessory)
                self.wait_news((False, "lost"), app=app)
                self.join(app, accessory, passphrase="sixsided1")
                self.wait_news((False, "lost"), (True, "network"), app=app)
                self.pass_time(80)
                self.leave(app, accessory)
                app.settle()
                self.assertEqual(news(app)[-1], (True, "network"))
                self.wait_news((True, "network"), (False, "network"), app=app, passing=11)
                self.assertEqual(self.searches(), 0)


class Monitors(Observing, ViewTest):
    """A controller that compares adverts by itself."""

    scenario = scenario(accessory("pink", 1, gatt=GATT), accessory("other", 2, gatt=GATT), adapters=[{"monitors": "controller"}])

    def setUp(self):
        super().setUp()
        self.observe()
        self.wait_news((False, "lost"), (True, "advert"), passing=5)
        wait(lambda: any("controllers monitor adverts" in line for line in self.world.daemon.lines), what="the monitor")

    def spent(self):
        """Seconds for which the radio has searched."""
        return self.simulator.search_time

    def test_nothing_is_searched_for(self):
        self.pass_time(2)
        before = (self.searches(), self.spent())
        self.pass_time(200)
        self.dice.settle()
        self.assertEqual((news(self.dice)[-1], self.searches(), self.spent()), ((True, "advert"), *before))
        self.simulator.do("vanish", "pink")
        self.wait_news((True, "advert"), (False, "advert"), passing=25)
        self.pass_time(200)
        self.simulator.do("return", "pink")
        self.wait_news((False, "advert"), (True, "advert"), passing=3)
        self.assertEqual((self.searches(), self.spent()), before)

    def test_a_link_is_no_end(self):
        self.view().connect(self.pink)
        self.pass_time(8)
        self.unlink(self.pink)
        self.pass_time(40)
        self.dice.settle()
        self.assertEqual(news(self.dice), [(False, "lost"), (True, "advert")])
        self.simulator.do("vanish", "pink")
        self.wait_news((True, "advert"), (False, "advert"), passing=25)

    def test_a_monitor_that_disappears(self):
        self.pass_time(70)
        before = self.searches()
        self.simulator.do("monitorsReleased", "hci0")
        wait(lambda: any("released the advertisement monitor" in line for line in self.world.daemon.lines), what="the release")
        self.simulator.do("vanish", "pink")
        self.wait_news((True, "advert"), (False, "advert"), passing=300)
        self.assertGreater(self.searches(), before)

    def test_reports_of_other_programs_do_not_count(self):
        # The connection of a window ends with it.
        self.pass_time(3)
        wait(lambda: not self.simulator.discovering, what="the window to end", also_every=0.05)
        self.dice.settle()
        admin, monitor = self.world.admin, "/org/accessorysetup1/monitors/1"
        owner = lambda name: int(admin.call("/", DBUS, "GetConnectionUnixProcessID", "s", name, to=DBUS))
        names = [each for each in admin.call("/", DBUS, "ListNames", to=DBUS)
                 if each.startswith(":") and owner(each) == self.world.daemon._process.pid]
        self.assertGreater(len(names), 1)
        for name in names:
            with self.assertRaisesRegex(dbus.DBusException, "Error.Unknown(Object|Method)|recipient disconnected"):
                admin.call(monitor, "org.bluez.AdvertisementMonitor1", "DeviceLost", "o", self.pink, to=name)
        self.pass_time(5)
        self.assertEqual(news(self.dice)[-1], (True, "advert"))

    def test_bluetooth_goes_and_comes_back(self):
        for gone, back, *target in (
            ("adapterPowerOff", "adapterPowerOn", "hci0"), ("adapterRemoved", "adapterAdded", "hci0"), ("serviceStopped", "serviceStarted"),
        ):
            with self.subTest(gone):
                self.simulator.do(gone, *target)
                self.wait_news((True, "advert"), (False, "lost"), passing=15)
                self.simulator.do(back, *target)
                self.wait_news((False, "lost"), (True, "advert"), passing=150)
                # It is monitored again.
                self.simulator.do("vanish", "pink")
                self.wait_news((True, "advert"), (False, "advert"), passing=25)
                before = self.searches()
                self.simulator.do("return", "pink")
                self.wait_news((False, "advert"), (True, "advert"), passing=3)
                self.assertEqual(self.searches(), before)

    def test_only_where_an_administrator_wants_it(self):
        for kind, use, searches in (("controller", "never", True), ("bluetoothd", "offloaded", True), ("bluetoothd", "always", False)):
            with self.subTest(f"{kind}, {use}"):
                self.start(scenario(accessory("pink", 1, gatt=GATT), adapters=[{"monitors": kind}]))
                self.world.config.write_text(f"[Presence]\nMonitors={use}\n")
                self.world.restart_daemon()
                self.dice = self.app()
                self.accessory = self.add(self.dice, self.picker(), "pink", item("Pink"))
                self.unlink(self.pink)
                self.observe()
                self.wait_news((False, "lost"), (True, "advert"), passing=5)
                self.pass_time(5)
                before = self.searches()
                self.pass_time(140)
                self.assertEqual(self.searches() > before, searches)

    def test_it_ends_with_the_last_observation(self):
        self.observe(begin=False)
        self.simulator.do("vanish", "pink")
        self.pass_time(30)
        self.assertFalse(self.properties["Present"])
        self.observe()
        self.pass_time(5)
        self.simulator.do("return", "pink")
        self.wait_news((True, "advert"), passing=5)


class TwoAdapters(Observing, ViewTest):
    """One of two controllers compares adverts by itself."""

    scenario = scenario(
        accessory("pink", 1, gatt=GATT), accessory("other", 2, gatt=GATT),
        adapters=[{"name": "hci0"}, {"name": "hci1", "address": "00:AA:01:00:00:43", "gain": -20, "monitors": "controller"}])

    def test_one_hears_enough(self):
        # The link of the pairing, which either adapter may have.
        for action in ("vanish", "return"):
            self.simulator.do(action, "pink")
        self.observe()
        self.wait_news((False, "lost"), (True, "advert"), passing=5)
        self.pass_time(5)
        before = self.searches()
        self.simulator.do("vanish", "pink")
        self.wait_news((True, "advert"), (False, "advert"), passing=25)
        self.pass_time(100)
        self.assertEqual(self.searches(), before)
        self.simulator.do("adapterRemoved", "hci1")
        self.simulator.do("return", "pink")
        self.wait_news((False, "advert"), (True, "advert"), passing=150)
        self.assertGreater(self.searches(), before)

    def test_the_one_that_monitors_loses_its_power(self):
        for action in ("vanish", "return"):
            self.simulator.do(action, "pink")
        self.observe()
        self.wait_news((False, "lost"), (True, "advert"), passing=5)
        self.pass_time(80)
        self.simulator.do("adapterPowerOff", "hci1")
        before = self.searches()
        self.pass_time(140)
        self.dice.settle()
        self.assertEqual(news(self.dice), [(False, "lost"), (True, "advert")])
        self.assertGreater(self.searches(), before)
        self.simulator.do("adapterPowerOn", "hci1")
        self.simulator.do("vanish", "pink")
        self.wait_news((True, "advert"), (False, "advert"), passing=150)


class MonitorsOfKinds(Observing, KindTest):
    scenario = {**KindTest.scenario, "adapters": [{"monitors": "controller"}]}

    def declare(self, key, *values):
        app = "/org/accessorysetup1/app/com_2eexample_2edice"
        self.world.declare("dice", **{key: "".join(f"{each};" for each in values)})
        wait(lambda: len(self.world.admin.objects()[app]["org.accessorysetup1.App"]["Manifest"].get(key, [])) == len(values),
             what="the manifest", also_every=0.05)

    def test_a_company_is_monitored_completely(self):
        self.simulator.do("vanish", "tag-3")
        self.declare("BluetoothCompanyIdentifiers", "FFFF")
        self.observe(accessory=self.allow(kind(service=None, bluetoothCompanyIdentifier=dbus.UInt16(0xFFFF))))
        addresses = [f"C0:FF:EE:00:02:{number:02X}" for number in (1, 2, 3)]
        self.world.pass_until(lambda: len(news(self.dice)) >= 3, 10, what="two devices")
        self.pass_time(5)
        before = self.searches()
        self.pass_time(100)
        self.simulator.do("vanish", "tag-1")
        self.wait_news((False, "advert", addresses[0]), passing=25)
        # A device that was never heard.
        self.simulator.do("return", "tag-3")
        self.wait_news((True, "advert", addresses[2]), passing=5)
        self.assertEqual(self.searches(), before)

    def test_a_full_kind_takes_another_device_in(self):
        self.declare("BluetoothCompanyIdentifiers", "FFFF")
        self.observe(accessory=self.allow(kind(service=None, bluetoothCompanyIdentifier=dbus.UInt16(0xFFFF), maxDevices=dbus.UInt32(1))))
        self.world.pass_until(lambda: len(news(self.dice)) >= 2, 10, what="a device")
        first = news(self.dice)[-1][2]
        self.pass_time(5)
        self.simulator.do("vanish", f"tag-{int(first[-2:], 16)}")
        self.world.pass_until(lambda: len(news(self.dice)) >= 4, 60, what=lambda: f"another; came {news(self.dice)}")
        gone, come = news(self.dice)[-2:]
        self.assertEqual((gone, come[0]), ((False, "advert", first), True))
        self.assertNotEqual(come[2], first)

    def test_a_service_may_be_missed(self):
        self.observe(accessory=self.allow())
        self.world.pass_until(lambda: len(news(self.dice)) >= 4, 10, what="three devices")
        before = self.searches()
        self.pass_time(140)
        self.assertGreaterEqual(self.searches(), before + 2)

    def test_more_patterns_than_a_monitor_can_have(self):
        """Three for each service."""
        services = [f"{number:08X}-C49B-47CA-A2AB-389127B8ABE3" for number in range(6)]
        self.declare("BluetoothServices", *services)
        for number, service in enumerate(services):
            self.allow(kind(f"Kind {number}", service))
            added = wait(lambda: [each for name, each in self.dice.events if name == "accessoryAdded"][number:], what="the grant")
            self.observe(accessory=str(added[0]["accessory"]))
            self.world.daemon.wait_for("controllers monitor no adverts" if number == 5 else f"controllers monitor adverts.*patterns={3 * number + 3}")
        self.pass_time(10)
        self.assertIn("monitor no adverts", [line for line in self.world.daemon.lines if "controllers monitor" in line][-1])


class Wakes(Observing, ViewTest):
    """An app that is started by its socket."""

    def setUp(self):
        super().setUp()
        self.path = self.world.directory / "wake"
        self.world.declare("dice", Wake=self.path)
        # For shorter pauses.
        self.world.config.write_text("[Presence]\nDuty=50\n")
        self.world.restart_daemon()
        self.dice = self.app()
        self.listening = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listening.close)
        self.listening.bind(str(self.path))
        self.listening.listen()
        self.listening.setblocking(False)
        wait(lambda: self.world.admin.objects()["/org/accessorysetup1/app/com_2eexample_2edice"]["org.accessorysetup1.App"]["Manifest"].get("Wake"),
             what="the manifest", also_every=0.05)
        self.observe()
        self.wait_news((True, "advert"), passing=5)

    def woken(self):
        """Whether the daemon has connected since the last time, and has said nothing."""
        try:
            peer, _ = self.listening.accept()
        except BlockingIOError:
            return False
        with peer:
            peer.setblocking(True)
            self.assertEqual(peer.recv(1), b"")
        return True

    def leave(self):
        self.simulator.do("vanish", "pink")
        self.world.pass_until(lambda: not self.properties["Present"], 300, what="it to leave")

    def enter(self):
        self.simulator.do("return", "pink")
        self.world.pass_until(lambda: self.properties["Present"], 200, what="it to return")

    def test_an_app_is_started_when_it_appears(self):
        self.leave()
        self.enter()
        # The app has a session.
        self.assertFalse(self.woken())
        self.leave()
        self.dice.close()
        self.enter()
        wait(self.woken, what="the connection", also_every=0.05)
        dice = self.app()
        self.wait_news((True, "advert"), app=dice)

    def test_an_app_that_does_not_come_is_woken_less_and_less(self):
        self.dice.close()
        self.leave()
        self.enter()
        wait(self.woken, what="the connection", also_every=0.05)
        # Less than a minute later, it waits for the minute to end.
        self.leave()
        self.enter()
        self.assertFalse(self.woken())
        self.pass_time(60)
        self.assertTrue(self.woken())
        self.leave()
        self.enter()
        self.pass_time(30)
        self.assertFalse(self.woken())

    def test_by_the_name_of_a_socket_unit(self):
        self.world.declare("dice", Wake="sensor.socket")
        unit = self.world.socket_units[1] / "sensor.socket"
        unit.parent.mkdir()
        unit.write_text("[Socket]\nListenStream=%t/wake\n")
        self.leave()
        self.dice.close()
        self.enter()
        self.world.daemon.wait_for("an app cannot be woken.*Wake= in .*sensor.socket: .*ListenStream=%t/wake: has a specifier")
        unit.write_text(f"[Socket]\nListenStream={self.path}\n")
        self.leave()
        # The next attempt may be made a minute later.
        self.pass_time(60)
        self.enter()
        wait(self.woken, what="the connection", also_every=0.05)

    def test_an_accessory_that_is_there_when_the_daemon_starts(self):
        self.dice.close()
        self.world.admin.call(self.pink, "org.bluez.Device1", "Connect", to="org.bluez")
        self.world.restart_daemon()
        wait(self.woken, what="the connection", also_every=0.05)

    def test_a_socket_that_is_there_later(self):
        self.leave()
        self.dice.close()
        self.path.rename(self.path.with_suffix(".away"))
        self.enter()
        self.world.daemon.wait_for("an app cannot be woken")
        self.path.with_suffix(".away").rename(self.path)
        self.pass_time(61)
        self.assertTrue(self.woken())

    def test_a_place_that_another_user_could_have_made(self):
        os.chown(self.path, 12345, 12345)
        self.leave()
        self.dice.close()
        self.enter()
        self.world.daemon.wait_for("an app cannot be woken.*belongs to uid 12345")
        self.assertFalse(self.woken())
