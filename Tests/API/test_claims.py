# SPDX-License-Identifier: Apache-2.0
"""Claim lists: accessories that an app gets without a person, each entry once; and the reports about them."""

import json
import signal
import subprocess
import time

import dbus

from harness.names import ADMIN, ADMIN_PATH, NAME, PINK, SESSION, error
from harness.programs import TESTS
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from test_policy import PolicyTest, ctl

def when(seconds):
    """A time of a list, so many seconds from now."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def listed(rows, columns="serial", keys=None, **more):
    """A claim list for the app dice, open from yesterday until tomorrow."""
    header = {"Id": "spring", "App": "com.example.dice", "From": when(-86400), "Until": when(86400)}
    header |= {"SerialInName": "*"} if keys is None and columns.startswith("serial") else keys or {}
    header |= more
    lines = ["[Claims]", *(f"{key}={value}" for key, value in header.items()), "", "[Entries]", columns, *rows, ""]
    return "\n".join(lines)


class ClaimsTest(PolicyTest):
    apps = ("dice",)

    def setUp(self):
        self.scenario = self.air()
        super().setUp()

    def air(self):
        return scenario(self.device("stranger", 1, rssi=-30), self.device("SN-1", 2, rssi=-80), self.device("SN-2", 3, rssi=-85))

    @staticmethod
    def device(name, number, **more):
        return accessory(name.lower().replace(" ", "-"), number, advert={"serviceUUIDs": [PINK], "name": name}, **more)

    def put(self, text, name="spring.conf"):
        """Writes a claim list and waits until the daemon has read it."""
        read = lambda: sum("policy read" in each or "claim list refused" in each for each in self.world.daemon.lines)
        before = read()
        directory = self.world.policy.parent / "claims.d"
        directory.mkdir(exist_ok=True)
        draft = directory / "draft"
        draft.write_text(text)
        draft.rename(directory / name)
        wait(lambda: read() > before, what="the claim list to be read")

    def set_up(self, app=None, **settings):
        """A whole picker of the app's."""
        app = app or self.app()
        count = app.event_types.count("pickerDidDismiss") + 1
        app.show_picker(item("Die"), **settings)
        app.wait_event("pickerDidDismiss", count=count)
        return app

    def report(self, name="spring"):
        status, lines = ctl("claims", name, "--json", "--bus", self.world.bus.address)
        self.assertEqual(status, 0, lines)
        return json.loads("\n".join(lines))

    def left(self, name="spring"):
        return [each["entry"] for each in self.report(name)["entries"] if each["used"] is None]


class Taking(ClaimsTest):
    def test_the_listed_are_taken_and_the_nearer_stranger_is_not(self):
        self.put(listed(["SN-1,Kitchen", "SN-2,"], "serial,name"))
        self.simulator.do("vanish", "sn-2")
        app = self.app()
        self.set_up(app)
        self.assertEqual(self.simulator.bonds, ["sn-1"])
        self.assertEqual(self.left(), ["SN-2"])
        self.simulator.do("return", "sn-2")
        self.set_up(app)
        self.assertEqual(self.simulator.bonds, ["sn-1", "sn-2"])
        self.assertEqual(self.left(), [])
        # Nothing is left for the stranger.
        self.assertFails(error("PickerRestricted"), app.show_picker, item("Die"), says=["has no entry left"])
        [first, second] = self.report()["entries"]
        self.assertEqual((first["entry"], first["name"], first["unauthenticated"]), ("SN-1", "Kitchen", True))
        status, lines = ctl("list", "--json", "--bus", self.world.bus.address)
        self.assertEqual({each["name"] for each in json.loads("\n".join(lines))}, {"Kitchen", "Die"})
        granted = [each for each in self.audit() if each["event"] == "granted"]
        self.assertIn("entry SN-1 of claim list spring, unauthenticated", granted[0]["why"])
        self.assertIn("claims.d/spring.conf", granted[0]["who"])
        status, lines = ctl("policy", "explain", "com.example.dice", "Kitchen", "--bus", self.world.bus.address)
        self.assertIn("claim       entry SN-1 of claim list spring, unauthenticated", lines)

    def test_all_the_listed_in_one_picker(self):
        self.put(listed(["SN-1,Kitchen", "SN-2,"], "serial,name"))
        app = self.app()
        app.show_picker(item("Die", setupOptions=["pickSeveral"]), discoveryTimeout=2.0)
        app.wait_event("accessoryAdded", count=2)
        self.assertNotIn("error", app.wait_event("pickerDidDismiss"))
        self.assertEqual((self.simulator.bonds, self.left()), (["sn-1", "sn-2"], []))

    def test_a_list_decides_before_a_rule(self):
        self.write(f"[Approve all]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\nMinimumRSSI=-127\n")
        self.put(listed(["SN-2"]))
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["sn-2"])
        # The list is used up, and the rule is in force as before.
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["sn-2", "stranger"])

    def test_a_denial_decides_before_a_list(self):
        self.write("[Deny one]\nAddress=C0:FF:EE:00:02:02\n")
        self.put(listed(["SN-1", "SN-2"]))
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["sn-2"])
        self.assertEqual(self.left(), ["SN-1"])

    def test_by_address(self):
        self.put(listed(["C0:FF:EE:00:02:03;Hall"], "address;name", {}))
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["sn-2"])

    def test_where_there_is_a_person_the_person_decides(self):
        self.put(listed(["SN-1"]))
        person, app = self.picker(), self.app()
        app.show_picker(item("Die"))
        person.wait_offer("stranger")
        person.cancel()
        self.assertDismissed(app, "UserCancelled")
        self.assertEqual(self.left(), ["SN-1"])

    def test_consumed_once_across_restarts_and_other_files(self):
        self.simulator.do("vanish", "sn-2")
        self.put(listed(["SN-1", "SN-2"]))
        self.set_up()
        self.simulator.do("return", "sn-2")
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.world.restart_daemon(number)
            self.assertEqual(self.left(), ["SN-2"])
        for grant in self.world.grants():
            self.world.admin.call(grant, NAME + ".Grant", "Revoke")
        (self.world.policy.parent / "claims.d" / "spring.conf").unlink()
        self.put(listed(["SN-2", "SN-1"]), "another.conf")
        self.assertEqual(self.left(), ["SN-2"])
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["sn-2"])

    def test_killed_in_the_middle_the_entry_is_left(self):
        """Neither without the other: the grant and the use of the entry."""
        self.start(scenario(self.device("SN-1", 2, pairing={"fault": "silent"})))
        self.put(listed(["SN-1"]))
        app = self.app()
        app.show_picker(item("Die"))
        app.wait_event("pickerSetupPairing")
        self.world.restart_daemon(signal.SIGKILL)
        self.assertEqual((self.left(), self.world.grants()), (["SN-1"], {}))

    def test_a_crowd_of_nearer_strangers(self):
        """More than a picker shows, and all nearer."""
        self.start(scenario(self.device("stranger", 0x10, rssi=-30, count=100), self.device("SN-1", 2, rssi=-90)))
        self.put(listed(["SN-9"]))
        app = self.app()
        app.show_picker(item("Die"), discoveryTimeout=600.0)
        wait(lambda: sum("event=offered" in each for each in self.world.daemon.lines) >= 64, what="the crowd", also_every=0.05)
        self.put(listed(["SN-1"], Id="autumn"), "autumn.conf")
        app.wait_event("pickerDidDismiss")
        self.assertEqual(self.simulator.bonds, ["sn-1"])

    def test_one_that_fails_does_not_stand_in_the_way(self):
        self.start(scenario(self.device("SN-1", 2, pairing={"mode": "none"}), self.device("SN-2", 3)))
        self.put(listed(["SN-1", "SN-2"]))
        app = self.app()
        for _ in range(2):
            self.set_up(app)
        self.assertEqual(self.left(), ["SN-1"])


class Limits(ClaimsTest):
    def test_a_request_waits_for_the_window(self):
        self.put(listed(["SN-1"], From=when(4)))
        app, ends = self.app(), time.time() + 4
        shown = []
        app.call_later(
            app.session, SESSION, "ShowPicker", lambda *result: shown.append(result), "aa{sv}a{sv}",
            dbus.Array([sv(item("Die"))], "a{sv}"), sv({"waitForPicker": 3600.0}))
        app.settle()
        self.assertEqual(shown, [])
        app.wait_event("pickerDidDismiss")
        self.assertGreater(time.time(), ends - 1)
        self.assertEqual(self.left(), [])

    def refused(self, says):
        self.assertFails(error("PickerRestricted"), self.app().show_picker, item("Die"), says=["claim list spring", says])

    def test_before_the_window(self):
        self.put(listed(["SN-1"], From=when(3600)))
        self.refused("opens at")
        self.assertIn("the clock says", self.report()["closed"])

    def test_after_the_window(self):
        self.put(listed(["SN-1"], Until=when(-3600)))
        self.refused("closed at")

    def test_a_count(self):
        self.put(listed(["SN-1", "SN-2"], Count=1))
        self.set_up()
        self.refused("Count=1")
        self.assertEqual(len(self.world.grants()), 1)

    def test_another_app_has_no_list(self):
        self.put(listed(["SN-1"], App="com.example.board"))
        self.assertFails(error("PickerRestricted"), self.app().show_picker, item("Die"))


class Passkeys(ClaimsTest):
    def air(self):
        return scenario(
            self.device("SN-1", 2, pairing={"mode": "displayPasskey", "passkey": 42913}), self.device("SN-2", 3))

    def test_an_entrys_passkey_is_the_answer(self):
        self.put(listed(["SN-1,042913"], "serial,passkey"))
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["sn-1"])
        self.assertFalse(self.report()["entries"][0]["unauthenticated"])
        granted = [each for each in self.audit() if each["event"] == "granted"]
        self.assertIn("authenticated by its passkey", granted[0]["why"])
        # The passkey is nowhere to be seen.
        self.assertNotIn("42913", json.dumps(self.audit()) + json.dumps(self.report()) + "\n".join(self.world.daemon.lines))

    def test_a_wrong_one_uses_nothing(self):
        self.put(listed(["SN-1,111111"], "serial,passkey"))
        self.assertDismissed(self.set_up(), "UserCancelled")
        self.assertEqual((self.left(), self.simulator.bonds), (["SN-1"], []))

    def test_an_accessory_that_does_not_ask_for_it_is_refused(self):
        """An impostor with the serial number, which pairs without a question."""
        self.put(listed(["SN-2,042913"], "serial,passkey"))
        self.assertDismissed(self.set_up(), "UserRestricted")
        self.assertEqual((self.left(), self.world.grants()), (["SN-2"], {}))
        wait(lambda: not self.simulator.bonds, what="the bond to go", also_every=0.05)

    def test_numbers_to_compare_are_for_persons(self):
        self.start(scenario(self.device("SN-1", 2, pairing={"mode": "numericComparison"})))
        self.put(listed(["SN-1,123456"], "serial,passkey"))
        self.assertDismissed(self.set_up(), "UserCancelled")
        self.assertEqual((self.left(), self.simulator.bonds), (["SN-1"], []))

    def test_a_number_to_enter_at_the_accessory_is_for_persons(self):
        self.start(scenario(self.device("SN-1", 2, pairing={"mode": "enterPasskey", "typing": 30})))
        self.put(listed(["SN-1,123456"], "serial,passkey"))
        self.assertDismissed(self.set_up(), "UserCancelled")
        self.assertEqual(self.left(), ["SN-1"])

    def test_a_pin(self):
        self.start(scenario(self.device("SN-1", 2, pairing={"mode": "pin", "pin": "9876"})))
        self.put(listed(["SN-1,9876"], "serial,pin"))
        self.set_up()
        self.assertEqual((self.left(), self.simulator.bonds), ([], ["sn-1"]))


class Doubles(ClaimsTest):
    def air(self):
        data = lambda text: {"FFFE": "0102" + text.encode().hex()}
        return scenario(
            self.device("Die A", 1), self.device("Die A", 2) | {"id": "twin"},
            accessory("data", 3, advert={"serviceUUIDs": [PINK], "manufacturerData": data("SN-7")}),
            accessory("other", 4, rssi=-20, advert={"serviceUUIDs": [PINK], "manufacturerData": data("SN-8")}))

    def test_two_that_fit_one_entry(self):
        # Open, and no one's: the run waits until both are in range.
        self.put(listed(["SN-9"]))
        app = self.app()
        app.show_picker(item("Die"), discoveryTimeout=600.0)
        offered = lambda: {each["accessory"] for each in self.audit() if each["event"] == "offered"}
        wait(lambda: len(offered()) == 4, what="all to be in range", also_every=0.05)
        self.put(listed(["A"], Id="twins", SerialInName="Die *"), "twins.conf")
        reasons = lambda: [each["why"] for each in self.audit() if each["event"] == "refused"]
        wait(lambda: reasons() == ["entry A of claim list twins fits 2 accessories in range"], what="the reason", also_every=0.05)
        devices = self.explain("com.example.dice", "Die A")
        self.assertEqual(devices["Die A"]["unattended"], "not approved: entry A of claim list twins fits 2 accessories in range")
        self.assertEqual(self.world.grants(), {})
        # One goes, and the other is the listed one.
        self.simulator.do("vanish", "twin")
        self.world.pass_until(lambda: self.left("twins") == [], 60, "the other to be taken")
        self.assertEqual(self.simulator.bonds, ["die-a"])

    def test_bytes_in_the_advert(self):
        self.put(listed(["SN-7"], keys={"SerialInManufacturerData": "FFFE;2"}))
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["data"])
        self.put(listed(["534e2d38"], "hex", {"Id": "hex", "SerialInManufacturerData": "FFFE;2"}), "hex.conf")
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["data", "other"])


class Mistakes(ClaimsTest):
    def table(self):
        rows = lambda *rows, columns="serial": listed(rows, columns)
        return {
            rows("SN-1", "SN-2", "SN-1"): (12, "serial", "in line 10 already"),
            rows("SN-1,x", columns="serial,passkey"): (10, "passkey", "not 0 to 999999"),
            rows("SN-1,1234567", columns="serial,passkey"): (10, "passkey", "not 0 to 999999"),
            rows("SN-1,", columns="serial,oob"): (9, "oob", "takes no out-of-band data"),
            rows("SN-1,", columns="serial,colour"): (9, "colour", "unknown column"),
            rows("SN-1", columns="name"): (8, "[Entries]", "needs one of the columns"),
            rows("SN-1", columns="serial,name"): (10, "[Entries]", "1 cells, but 2 columns"),
            rows(): (0, "[Entries]", "is empty"),
            listed(["C0:FF"], "address", {}): (9, "address", "not an address"),
            listed(["SN-1"], keys={}): (0, "SerialInName", "is missing"),
            listed(["SN-1"], SerialInName="Die"): (6, "SerialInName", "must have one *"),
            listed(["a1", "a1b2"], "hex", {"SerialInServiceData": f"{PINK};0"}): (11, "hex", "another length"),
            listed(["a1"], "hex", {"SerialInServiceData": "pink;0"}): (6, "SerialInServiceData", "not a UUID"),
            listed(["SN-1"], From="2026-12-01"): (4, "From", "not a time"),
            listed(["SN-1"], From="2026-12-01T08:00:00"): (4, "From", "not a time"),
            listed(["SN-1"], Until=when(-172800)): (5, "Until", "is not after From="),
            listed(["SN-1"], Count=0): (7, "Count", "must be 1 to 1000"),
            listed(["SN-1"], App="/x"): (3, "App", "not an app's identifier"),
            listed(["SN-1"], Id="a list"): (2, "Id", "not 1 to 64 letters"),
            listed(["SN-1"], Cuont=3): (7, "Cuont", "unknown key"),
            "[Claims]\nId=x\n": (0, "[Entries]", "is missing"),
        }

    def test_each_names_file_line_and_key(self):
        directory = self.world.directory / "offline"
        (directory / "claims.d").mkdir(parents=True)
        path = directory / "claims.d" / "spring.conf"
        for text, (line, key, says) in self.table().items():
            with self.subTest(text=text):
                path.write_text(text)
                status, lines = ctl("policy", "check", "--policy", directory / "policy.d")
                self.assertEqual(status, 1)
                self.assertIn(f"{path}:{line}: {key}" if line else f"{path}: {key}", lines[0])
                self.assertIn(says, "\n".join(lines))

    def test_a_broken_list_is_left_out_alone(self):
        self.put(listed(["SN-1"], Id="bad", Cuont=3), "bad.conf")
        self.put(listed(["SN-2"]))
        [problem] = self.world.admin.get(ADMIN_PATH, ADMIN, "ClaimProblems")
        self.assertEqual((problem["key"], problem["reason"]), ("Cuont", "unknown key"))
        self.assertEqual(list(self.world.admin.get(ADMIN_PATH, ADMIN, "PolicyProblems")), [])
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["sn-2"])
        status, lines = ctl("claims", "--bus", self.world.bus.address)
        self.assertEqual(status, 1)
        self.assertIn("bad.conf", "\n".join(lines))

    def test_one_identifier_is_one_list(self):
        self.put(listed(["SN-1"]), "a.conf")
        self.put(listed(["SN-2"]), "b.conf")
        [problem] = self.world.admin.get(ADMIN_PATH, ADMIN, "ClaimProblems")
        self.assertIn("a.conf already", problem["reason"])
        self.assertEqual(self.left(), ["SN-1"])


class Reports(ClaimsTest):
    def test_busctl(self):
        self.put(listed(["SN-1,Kitchen", "SN-2,"], "serial,name", Count=1))
        self.set_up()
        busctl = lambda *words: subprocess.run(
            ["busctl", f"--address={self.world.bus.address}", *words], capture_output=True, text=True, check=True).stdout
        lists = busctl("get-property", NAME, ADMIN_PATH, ADMIN, "ClaimLists")
        self.assertIn('"id" s "spring"', lists)
        self.assertIn('"used" u 1', lists)
        report = busctl("call", NAME, ADMIN_PATH, ADMIN, "GetClaims", "s", "spring")
        self.assertIn('"closed" s "has set up its Count=1', report)
        self.assertIn('"unauthenticated" b true', report)

    def test_changes_are_signalled(self):
        self.put(listed(["SN-1", "SN-2"]))
        told = lambda: [each.arguments[1]["ClaimLists"][0]["used"] for each in self.world.admin.signals
                        if each.member == "PropertiesChanged" and "ClaimLists" in each.arguments[1]]
        self.world.admin.get(ADMIN_PATH, ADMIN, "ClaimLists")
        self.set_up()
        wait(lambda: told()[-1:] == [1], what="the signal")

    def test_a_table_for_people(self):
        self.put(listed(["SN-1,Kitchen", "SN-2,"], "serial,name"))
        self.simulator.do("vanish", "sn-2")
        self.set_up()
        status, lines = ctl("claims", "spring", "--bus", self.world.bus.address)
        self.assertEqual(status, 0)
        self.assertRegex(lines[1], r"^SN-1 +Kitchen +unauthenticated +\d{4}-\d\d-\d\d \d\d:\d\d +[0-9A-F-]{36}$")
        self.assertRegex(lines[2], r"^SN-2 +left")
        status, lines = ctl("claims", "nothing", "--bus", self.world.bus.address)
        self.assertEqual(status, 1)
        self.assertIn("there is no such claim list", lines[0])

    def test_json(self):
        """The shapes are those of accessoryctl(1)."""
        self.put(listed(["SN-1"]))
        self.set_up()
        page = (TESTS.parent / "Docs/Man/accessoryctl.md").read_text().partition("## JSON")[2]
        [shape] = [each for each in page.split("\n") if each.startswith("| `claims` |")]
        status, lines = ctl("claims", "--json", "--bus", self.world.bus.address)
        lists = json.loads("\n".join(lines))
        report = self.report()
        for each in (lists, lists["lists"][0], report, report["entries"][0]):
            self.assertEqual([key for key in each if f"`{key}`" not in shape], [])

    def test_explain(self):
        self.put(listed(["SN-1"]))
        devices = self.explain("com.example.dice", "SN-1", "stranger")
        self.assertTrue(devices["SN-1"]["unattended"].startswith("approved by entry SN-1 of claim list spring"))
        self.assertEqual(devices["stranger"]["unattended"], "not approved: no entry of claim list spring fits it")


class Rehearsal(ClaimsTest):
    def rehearse(self, *words, air=None):
        path = self.world.directory / "air.json"
        if air is not None:
            path.write_text(air)
        status, lines = ctl("policy", "test", "--policy", self.world.policy, "--apps", self.world.app_directories[0], "--json", *words,
                            "com.example.dice", path)
        return status, {each["name"]: (each["picker"], each["verdict"]) for each in json.loads("\n".join(lines))}

    def record(self):
        """The air as the daemon hears it."""
        self.explain("com.example.dice", "SN-1", "SN-2", "stranger")
        status, lines = ctl("explain", "com.example.dice", "--seconds", 2, "--air", "--bus", self.world.bus.address)
        self.assertEqual(status, 0, lines)
        return "\n".join(lines)

    def test_a_recorded_air(self):
        self.put(listed(["SN-2", "SN-1"], Count=1))
        status, played = self.rehearse(air=self.record())
        self.assertEqual(status, 0)
        self.assertEqual(played["SN-2"][0], 1)
        self.assertIn("entry SN-2 of claim list spring", played["SN-2"][1])
        self.assertEqual(played["SN-1"], (None, "not approved: claim list spring has set up its Count=1"))
        self.assertIsNone(played["stranger"][0])
        # As the daemon decides.
        self.simulator.do("vanish", "sn-1")
        self.set_up()
        self.assertEqual(self.simulator.bonds, ["sn-2"])
        # At another time nothing is approved.
        status, played = self.rehearse("--at", int(time.time()) + 200000)
        self.assertEqual((status, played["SN-2"][0]), (1, None))
        self.assertIn("closed at", played["SN-2"][1])
