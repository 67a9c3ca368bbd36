# SPDX-License-Identifier: Apache-2.0
"""Grants that end: by a duration, a time of day or idle days; warnings, renewal, and the rules of the policy about them."""

import time

import dbus

from harness.names import GRANT, NAME, PINK, PROPERTIES, UNKNOWN_OBJECT, error
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from test_policy import PolicyTest, ctl
from view import CHARACTERISTIC1, GATT, View, path_of

DIE = "die"


class EndTest(PolicyTest):
    apps = ("dice", "board")
    scenario = scenario(accessory(DIE, 1, gatt=GATT))

    def setUp(self):
        super().setUp()
        self.person = self.picker()
        self.dice = self.app()

    def allow(self, *items, choice=None, app=None):
        app = app or self.dice
        before = app.event_types.count("accessoryAdded"), app.event_types.count("pickerDidDismiss")
        app.show_picker(*(items or [item(end="10s")]))
        offer = self.person.wait_offer(DIE)
        if choice:
            self.person.ask("PickWith", "sa{sv}", offer["id"], sv({"end": choice}))
        else:
            self.person.ask("Pick", "s", offer["id"])
        added = app.wait_event("accessoryAdded", count=before[0] + 1)
        app.wait_event("pickerDidDismiss", count=before[1] + 1)
        self.person.wait_gone()
        return str(added["accessory"])

    def pass_seconds(self, count):
        for _ in range(count):
            self.world.pass_second()
        self.dice.settle()

    def renew(self, path, app=None, **options):
        return str((app or self.dice).request("RenewAccess", "oa{sv}", dbus.ObjectPath(path), sv(options)))

    @property
    def grant(self):
        [(path, properties)] = [(path, each) for path, each in self.world.grants().items() if each["App"] == "com.example.dice"]
        return path, properties

    def rules(self):
        return [str(each) for each in self.grant[1]["EndRules"]]

    def left(self):
        """Seconds that the grant has left."""
        ends = int(self.grant[1]["Ends"])
        return ends and ends - time.time()

    def read(self):
        view = View(self.world).connect(path_of(1))
        return view.bluez(view.characteristic(path_of(1)), CHARACTERISTIC1, "ReadValue", "a{sv}", {})

    def lines(self):
        return [(each["event"], each["why"]) for each in self.audit()]

    def events(self, kind):
        return [event for event, _ in self.lines()].count(kind)

    def set_end(self, end):
        self.world.admin.call(self.grant[0], GRANT, "SetEnd", "s", end)


class Ending(EndTest):
    def test_the_app_hears_it_before_and_at_the_end(self):
        path = self.allow()
        self.assertEqual((self.rules(), 0 < self.left() <= 11), (["10s"], True))
        self.read()
        self.assertNotIn("accessWillEnd", self.dice.event_types)
        self.pass_seconds(9)
        warning = self.dice.wait_event("accessWillEnd")
        self.assertEqual((warning["accessory"], warning["properties"]["State"]), (path, "authorized"))
        self.assertGreater(warning["properties"]["Ends"], 0)
        self.assertNotIn("accessDidEnd", self.dice.event_types)
        self.pass_seconds(1)
        ended = self.dice.wait_event("accessDidEnd")
        self.assertEqual(
            (ended["accessory"], ended["properties"]["State"], ended["properties"]["Ends"]), (path, "unauthorized", 0))
        self.assertEqual(self.dice.event_types[-2:], ["accessoryChanged", "accessDidEnd"])
        self.assertEqual((self.grant[1]["State"], self.grant[1]["Ends"], self.rules()), ("unauthorized", 0, ["10s"]))
        self.assertIn(("ended", "its time is over: 10s"), self.lines())
        # It stays the app's, out of reach.
        self.assertEqual(self.dice.accessories, [path])
        self.assertTrue(self.simulator.bonds)

    def test_a_link_and_its_requests_are_cut(self):
        self.allow()
        view = View(self.world).connect(path_of(1))
        characteristic = view.characteristic(path_of(1))
        view.bluez(characteristic, CHARACTERISTIC1, "StartNotify")
        self.pass_seconds(10)
        self.assertFails(UNKNOWN_OBJECT, view.bluez, characteristic, CHARACTERISTIC1, "ReadValue", "a{sv}", {})
        self.assertNotIn(path_of(1), view.tree())
        wait(lambda: self.simulator.connections == [], what="the link to end", also_every=0.05)

    def test_it_counts_across_restarts(self):
        self.allow(item(end="1h"))
        first = int(self.grant[1]["Ends"])
        for number in (15, 9):
            self.world.restart_daemon(number)
            self.assertLessEqual(abs(int(self.grant[1]["Ends"]) - first), 2)
        self.person, self.dice = self.picker(), self.app()
        self.set_end("5s")
        self.world.restart_daemon()
        self.dice = self.app()
        self.pass_seconds(6)
        self.assertEqual(self.grant[1]["State"], "unauthorized")
        # An end is for good.
        self.world.restart_daemon()
        self.assertEqual(self.grant[1]["State"], "unauthorized")

    def test_it_comes_while_the_daemon_is_not_there(self):
        self.allow(item(end="1s"))
        self.world.daemon.stop()
        began = time.time()
        wait(lambda: time.time() - began > 1.5, what="a second to pass", also_every=0.1)
        self.world.start_daemon()
        self.assertEqual(self.grant[1]["State"], "unauthorized")

    def test_a_switched_off_grant_ends_in_silence(self):
        self.allow()
        self.world.admin.call(self.grant[0], PROPERTIES, "Set", "ssv", GRANT, "Enabled", False)
        self.dice.wait_event("accessoryRemoved")
        self.pass_seconds(11)
        self.assertEqual(self.grant[1]["State"], "unauthorized")
        self.assertFalse({"accessWillEnd", "accessDidEnd"} & set(self.dice.event_types))

    def test_another_apps_grant_goes_on(self):
        self.allow()
        board = self.app("board")
        self.allow(item(), app=board)
        self.pass_seconds(11)
        view = View(self.world, "board").connect(path_of(1))
        view.bluez(view.characteristic(path_of(1)), CHARACTERISTIC1, "ReadValue", "a{sv}", {})
        self.assertFalse({"accessWillEnd", "accessDidEnd"} & set(board.event_types))

    def test_picked_again_it_begins_anew_without_pairing(self):
        path = self.allow()
        self.pass_seconds(10)
        self.assertEqual(self.allow(item(end="1h")), path)
        self.assertEqual((self.rules(), self.grant[1]["State"]), (["1h"], "authorized"))
        self.assertEqual(self.events("paired"), 1)
        self.read()

    def test_a_time_of_day(self):
        minute = time.localtime(time.time() + 7200)
        self.allow(item(end=time.strftime("%H:%M", minute)))
        self.assertTrue(7100 < self.left() <= 7200, self.left())

    def test_idle_days_begin_anew_with_each_use(self):
        self.allow(item(end="idle 1d"))
        self.pass_seconds(61)
        before = int(self.grant[1]["Ends"])
        self.read()
        self.assertGreaterEqual(int(self.grant[1]["Ends"]) - before, 59)

    def test_bad_ends(self):
        for key, value, says in (
                ("end", "8", "not an end"), ("end", "0s", "not an end"), ("end", "24:00", "not an end"), ("end", "idle 1h", "not an end"),
                ("end", "-1h", "not an end"), ("end", "11w w", "not an end"), ("end", "9999999999d", "not an end"), ("end", 8, "must be"),
                ("endChoices", ["8h", "soon"], "soon"), ("endChoices", ["1h"] * 17, "more than 16")):
            with self.subTest(value):
                self.assertFails(error("InvalidRequest"), self.dice.show_picker, item(**{key: value}), says=[key, says])
        self.assertNothingLeft()


class Renewing(EndTest):
    def test_it_is_a_short_sheet_without_pairing(self):
        path = self.allow()
        self.pass_seconds(10)
        picker = self.renew(path)
        self.person.wait_stage("offering")
        self.assertEqual((self.person.path, self.person.state["Kind"]), (picker, "renewal"))
        [offer] = self.person.offers
        self.assertEqual((offer["name"], list(offer["ends"]), "endChoices" in offer), ("Pink Dice", ["10s"], False))
        self.person.ask("Pick", "s", offer["id"])
        self.person.wait_gone()
        changed = self.dice.wait_event("accessoryChanged", count=2)
        self.assertEqual(changed["properties"]["State"], "authorized")
        self.assertNotIn("error", self.dice.wait_event("pickerDidDismiss", count=2))
        self.assertIn(("authorized", "renewed: 10s"), self.lines())
        self.assertEqual(self.events("paired"), 1)
        self.read()
        self.pass_seconds(10)
        self.dice.wait_event("accessDidEnd", count=2)

    def test_before_the_end(self):
        path = self.allow()
        self.pass_seconds(9)
        self.renew(path, end="1h", endChoices=["2h", "none"])
        self.person.wait_stage("offering")
        [offer] = self.person.offers
        self.assertEqual((list(offer["ends"]), list(offer["endChoices"])), (["1h"], ["2h", "none"]))
        self.person.ask("PickWith", "sa{sv}", offer["id"], sv({"end": "none"}))
        self.person.wait_gone()
        self.pass_seconds(2)
        self.assertEqual((self.rules(), self.grant[1]["Ends"]), ([], 0))
        self.assertIn(("updated", "renewed without an end"), self.lines())
        self.assertNotIn("accessDidEnd", self.dice.event_types)

    def test_the_person_declines(self):
        path = self.allow()
        self.pass_seconds(10)
        self.renew(path)
        self.person.wait_shown()
        self.person.cancel()
        self.assertEqual(self.dice.wait_event("pickerDidDismiss", count=2)["error"], error("UserCancelled"))
        self.assertEqual(self.grant[1]["State"], "unauthorized")

    def test_an_end_while_the_sheet_is_open(self):
        path = self.allow()
        self.renew(path)
        self.person.wait_stage("offering")
        self.pass_seconds(10)
        self.dice.wait_event("accessDidEnd")
        self.person.ask("Pick", "s", self.person.offers[0]["id"])
        self.person.wait_gone()
        self.assertEqual((self.grant[1]["State"], self.rules()), ("authorized", ["10s"]))

    def test_refusals(self):
        board = self.app("board")
        path = self.allow(item())
        refused = error("InvalidRequest")
        self.assertFails(refused, self.renew, path, says=["does not end"])
        self.set_end("1h")
        self.assertFails(refused, self.renew, path, end="soon", says=["options.end", "soon"])
        self.assertFails(refused, self.renew, path, more=1, says=["more", "unknown key"])
        self.assertFails("org.freedesktop.DBus.Error.UnknownObject", self.renew, path, board)
        self.set_end("1s")
        self.pass_seconds(2)
        self.assertFails(
            refused, self.dice.request, "UpdateAuthorization", "oa{sv}", dbus.ObjectPath(path), sv({"bluetoothServiceUUID": PINK}),
            says=["RenewAccess"])
        self.world.admin.call(path, NAME + ".Accessory", "Unpair")
        self.assertFails(refused, self.renew, path, says=["lost its pairing"])

    def test_not_against_a_rule_or_the_switch(self):
        path = self.allow()
        self.pass_seconds(10)
        self.write("[Deny dice]\nBluetoothServiceUUID=" + PINK)
        self.assertFails(error("UserRestricted"), self.renew, path, says=["rule dice"])


class Choosing(EndTest):
    def test_the_person_chooses_among_those_offered(self):
        self.dice.show_picker(item(end="1h", endChoices=["1h", "18:00", "idle 30d", "none"]))
        offer = self.person.wait_offer(DIE)
        self.assertEqual((list(offer["ends"]), list(offer["endChoices"])), (["1h"], ["1h", "18:00", "idle 30d", "none"]))
        for end, says in (("2h", "must be one of 1h, 18:00, idle 30d, none"), ("soon", "soon")):
            self.assertFails(error("InvalidRequest"), self.person.ask, "PickWith", "sa{sv}", offer["id"], sv({"end": end}), says=["end", says])
        self.person.ask("PickWith", "sa{sv}", offer["id"], sv({"end": "idle 30d"}))
        self.dice.wait_event("accessoryAdded")
        self.assertEqual(self.rules(), ["idle 30d"])

    def test_no_choice_is_offered(self):
        self.dice.show_picker(item(end="1h"))
        offer = self.person.wait_offer(DIE)
        self.assertFails(error("InvalidRequest"), self.person.ask, "PickWith", "sa{sv}", offer["id"], sv({"end": "none"}), says=["no choice"])

    def test_a_rule_offers_and_bounds(self):
        self.write("[Limit visitors]\nApp=com.example.dice\nMaxDuration=8h\nEndChoices=1h;9h;none\n")
        self.dice.show_picker(item(end="2d", endChoices=["4h", "3d"]))
        offer = self.person.wait_offer(DIE)
        self.assertEqual((list(offer["ends"]), list(offer["endChoices"])), (["8h"], ["4h", "1h"]))
        self.person.ask("Pick", "s", offer["id"])
        self.dice.wait_event("accessoryAdded")
        self.assertEqual(self.rules(), ["8h"])
        self.set_end("none")
        self.assertEqual(self.rules(), ["8h"])

    def test_a_rule_limits_grants_from_before(self):
        path = self.allow(item())
        self.write(f"[Limit all]\nBluetoothServiceUUID={PINK}\nMaxDuration=10s\n")
        self.assertEqual(self.rules(), ["10s"])
        self.assertIn(("updated", "ends in 10s"), self.lines())
        self.write(f"[Limit all]\nBluetoothServiceUUID={PINK}\nMaxDuration=11s\n")
        self.assertEqual(self.rules(), ["10s"])
        self.pass_seconds(10)
        self.dice.wait_event("accessDidEnd")
        self.assertEqual(self.dice.accessories, [path])

    def test_a_rule_has_the_bond_removed(self):
        self.write("[Limit all]\nAtEnd=remove\n")
        self.allow()
        self.pass_seconds(10)
        self.dice.wait_event("accessoryRemoved")
        self.assertNothingLeft()
        wait(lambda: self.simulator.bonds == [], what="the bond to be removed", also_every=0.05)
        self.assertIn(("revoked", "its time is over: 10s"), self.lines())

    def test_mistakes(self):
        for text, says in (
                ("MaxDuration=soon", "MaxDuration"), ("MaxDuration=18:00", "MaxDuration"), ("EndChoices=8h;x", "x: not an end"),
                ("AtEnd=burn", "must be keep or remove"), ("App=com.example.dice", "limit nothing"),
                ("MaxDuration=1h\nBluetoothNameSubstring=x", "BluetoothNameSubstring")):
            with self.subTest(text):
                self.write(f"[Limit x]\n{text}\n")
                wait(lambda: any(says in each and "refused" in each for each in self.world.daemon.lines), what=says)


class Narrowing(EndTest):
    """Access that a person, a rule or an admin narrows."""

    def write_value(self):
        view = View(self.world).connect(path_of(1))
        view.bluez(view.characteristic(path_of(1)), CHARACTERISTIC1, "WriteValue", "aya{sv}", dbus.ByteArray(b"1"), {})

    def refused(self):
        self.assertFails("org.bluez.Error.NotPermitted", self.write_value)
        self.read()

    def test_a_command_with_a_mistake_changes_nothing(self):
        self.add(self.dice, self.person, DIE, item())
        before = {key: self.grant[1][key] for key in ("Access", "Ends", "EndRules")}
        for words in (("rubbish", "--access", "read"), ("8h", "--access", "much"), ("25:00", "--access", "much")):
            with self.subTest(words):
                status, lines = ctl("limit", "1", *words, "--bus", self.world.bus.address)
                self.assertEqual((status, len(lines)), (1, 1), lines)
                self.assertEqual({key: self.grant[1][key] for key in before}, before)

    def test_by_the_person(self):
        self.dice.show_picker(item())
        offer = self.person.wait_offer(DIE)
        self.assertEqual(list(offer["accessChoices"]), ["read"])
        self.assertFails(
            error("InvalidRequest"), self.person.ask, "PickWith", "sa{sv}", offer["id"], sv({"access": "much"}), says=["choice.access", "much"])
        self.person.ask("PickWith", "sa{sv}", offer["id"], sv({"access": "read"}))
        added = self.dice.wait_event("accessoryAdded")
        self.assertEqual((added["properties"]["Access"], self.grant[1]["Access"]), ("read", "read"))
        self.dice.wait_event("pickerDidDismiss")
        self.refused()
        self.world.restart_daemon()
        self.refused()

    def test_a_rule_that_comes_while_the_person_chooses(self):
        """The person sees it, although nothing has changed on the air."""
        self.dice.show_picker(item())
        offer = lambda: self.person.wait_offer(DIE)
        self.assertNotIn("access", offer())
        self.write(f"[Limit all]\nBluetoothServiceUUID={PINK}\nAccess=read\n")
        wait(lambda: offer().get("access") == "read", 10, lambda: f"the access; shown is {offer()}")
        self.write("")
        wait(lambda: "access" not in offer(), 10, lambda: f"full access; shown is {offer()}")

    def test_by_a_rule(self):
        path = self.allow(item())
        self.write_value()
        self.write(f"[Limit all]\nBluetoothServiceUUID={PINK}\nAccess=read\n")
        self.assertEqual(self.dice.wait_event("accessoryChanged")["properties"]["Access"], "read")
        self.assertIn(("updated", "access at most read"), self.lines())
        self.refused()
        self.world.admin.call(self.grant[0], GRANT, "SetAccess", "s", "full")
        self.refused()
        # Another descriptor takes a person's consent, and the rule bounds that too.
        self.dice.request("UpdateAuthorization", "oa{sv}", dbus.ObjectPath(path), sv({"bluetoothServiceUUID": PINK}))
        self.person.wait_stage("offering")
        self.assertEqual(self.person.offers[0]["access"], "read")
        self.person.ask("Pick", "s", self.person.offers[0]["id"])
        self.person.wait_gone()
        self.refused()

    def test_by_an_admin(self):
        self.allow(item())
        for access in ("read", "180F/2A19:read", "FF00/FF01:read"):
            self.world.admin.call(self.grant[0], GRANT, "SetAccess", "s", access)
            self.assertFails("org.bluez.Error.NotPermitted", self.write_value)
        self.assertEqual(list(self.grant[1]["Characteristics"]), ["FF00/FF01:read"])
        self.world.admin.call(self.grant[0], GRANT, "SetAccess", "s", "full")
        self.write_value()
        self.assertFails(error("InvalidRequest"), self.world.admin.call, self.grant[0], GRANT, "SetAccess", "s", "180F:read", says=["access", "180F"])

    def test_sides_without_a_limit_are_not_narrowed(self):
        self.dice.show_picker(item(supportedOptions=["bluetoothPairingLE", "bluetoothHID"], pairs=False))
        offer = self.person.wait_offer(DIE)
        self.assertNotIn("accessChoices", offer)
        self.assertFails(
            error("InvalidRequest"), self.person.ask, "PickWith", "sa{sv}", offer["id"], sv({"access": "read"}), says=["cannot be narrowed"])


class Setting(EndTest):
    def test_an_admin_sets_and_removes_an_end(self):
        path = self.allow(item())
        self.set_end("1s")
        self.pass_seconds(2)
        self.assertEqual(self.grant[1]["State"], "unauthorized")
        self.set_end("8h")
        self.assertEqual((self.grant[1]["State"], self.rules()), ("authorized", ["8h"]))
        self.read()
        self.set_end("none")
        self.assertEqual((self.rules(), self.grant[1]["Ends"]), ([], 0))
        self.assertFails(error("InvalidRequest"), self.set_end, "often", says=["end", "often"])
        self.assertIn(("updated", "does not end"), self.lines())
        self.assertEqual(self.dice.accessories, [path])
