# SPDX-License-Identifier: Apache-2.0
"""The admin's properties and signals: the rules in force and their mistakes, the lock-down, manifests, programs and links, and the trail as it is written."""

import json
import signal

import dbus

from harness.clients import Client, Identity
from harness.images import PRODUCT
from harness.names import (
    ACCESSORY, ADMIN, ADMIN_PATH, APP, BLUE, BUS_ERROR, INVALID_ARGS, MANAGER, PICKER, PINK, ROOT, SESSION, SOMEBODY, SOMEBODY_ELSE,
    UNKNOWN_OBJECT, error)
from harness.pickers import PickerProgram
from harness.programs import BIN, Program
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest


class AdminTest(APITest):
    apps = ("dice", "board")

    def audit(self, client=None, **filter):
        return (client or self.world.admin).call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", sv(filter))

    def told(self, client, name):
        """The signalled values of a property, from the first change on."""
        return [plain(each.arguments[1][name]) for each in client.signals
                if each.member == "PropertiesChanged" and each.path == ADMIN_PATH and name in each.arguments[1]]


def plain(value):
    """Without the types of D-Bus."""
    if isinstance(value, dbus.Dictionary):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (dbus.Array, list)):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, str) else int(value)


class Rules(AdminTest):
    def write(self, name, text):
        self.world.policy.mkdir(exist_ok=True)
        draft = self.world.policy / "draft"
        draft.write_text(text)
        draft.rename(self.world.policy / name)

    def get(self, name):
        return plain(self.world.admin.get(ADMIN_PATH, ADMIN, name))

    def wait_policy(self, *rules):
        """Waits until these rules were signalled to the admin, and are the current ones."""
        wait(lambda: self.told(self.world.admin, "Policy")[-1:] == [list(rules)],
             what=lambda: f"{rules}; told was {self.told(self.world.admin, 'Policy')}")
        self.assertEqual(self.get("Policy"), list(rules))

    def test_the_rules_in_force(self):
        self.assertEqual((self.get("Policy"), self.get("PolicyProblems")), ([], []))
        first, second = (str(self.world.policy / each) for each in ("10-a.conf", "20-b.conf"))
        self.write("10-a.conf", "[Picker]\nAllow=com.example.dice;com.example.board;\nDeny=com.example.toy;\n")
        allowed = {"kind": "allow-picker", "name": "", "apps": ["com.example.board", "com.example.dice"], "target": "", "source": first}
        denied = {"kind": "deny-picker", "name": "", "apps": ["com.example.toy"], "target": "", "source": first}
        self.wait_policy(allowed, denied)
        self.write("20-b.conf", f"""[Picker]
Allow=com.example.lamp;
[Approve near dice]
App=com.example.dice
BluetoothServiceUUID={PINK}
MinimumRSSI=-60
[Deny the kitchen]
Address=C0:FF:EE:00:00:07
[Deny all]
App=com.example.toy;com.example.board;
""")
        allowed |= {"apps": ["com.example.board", "com.example.dice", "com.example.lamp"], "source": ""}
        approve = {"kind": "approve", "name": "near dice", "apps": ["com.example.dice"], "target": f"service {PINK.lower()}", "minimumRssi": -60,
                   "source": second}
        kitchen = {"kind": "deny", "name": "the kitchen", "apps": [], "target": "address C0:FF:EE:00:00:07", "source": second}
        everything = {"kind": "deny", "name": "all", "apps": ["com.example.board", "com.example.toy"], "target": "every accessory",
                      "source": second}
        self.wait_policy(allowed, denied, approve, kitchen, everything)
        strengths = [each["minimumRssi"] for each in self.world.admin.get(ADMIN_PATH, ADMIN, "Policy") if "minimumRssi" in each]
        self.assertEqual([type(each) for each in strengths], [dbus.Int16])
        self.write("20-b.conf", "")
        self.write("10-a.conf", f"[Deny x\u202ey]\nBluetoothServiceUUID={PINK}\nBluetoothNameSubstring=a\u200bb\n")
        self.wait_policy({"kind": "deny", "name": "x\ufffdy", "apps": [], "target": f"service {PINK.lower()}, name with “a\ufffdb”",
                          "source": first})

    def test_mistakes(self):
        problems = lambda: self.told(self.world.admin, "PolicyProblems")
        self.world.admin.get(ADMIN_PATH, ADMIN, "PolicyProblems")
        bad, other = (str(self.world.policy / each) for each in ("10-a.conf", "20-b.conf"))
        self.write("10-a.conf", "[Picker]\nAlow=a.b\n[Pikcer\u202e]\n")
        section = {"file": bad, "line": 3, "key": "[Pikcer\ufffd]", "reason": "unknown section"}
        key = {"file": bad, "line": 2, "key": "Alow", "reason": "unknown key"}
        for each in (section, key):
            each["text"] = f"{each['file']}:{each['line']}: {each['key']}: {each['reason']}"
        wait(problems, what="the problems")
        self.assertCountEqual(problems()[-1], [section, key])
        self.assertIn("line", self.world.admin.get(ADMIN_PATH, ADMIN, "PolicyProblems")[0])
        # One more has no effect on the rules in force: it is signalled all the same.
        before = len(problems())
        self.write("20-b.conf", "Allow\n")
        wait(lambda: len(problems()) > before, what="one problem more")
        [more] = [each for each in problems()[-1] if each["file"] == other]
        self.assertEqual((more["line"], more["key"]), (1, ""))
        self.assertEqual(problems()[-1], self.get("PolicyProblems"))
        self.write("20-b.conf", "")
        self.write("10-a.conf", "")
        wait(lambda: problems()[-1] == [], what="no problem")
        self.assertEqual(self.get("PolicyProblems"), [])

    def test_a_directory_that_is_none(self):
        self.world.policy.write_text("no directory")
        self.world.restart_daemon()
        [problem] = self.get("PolicyProblems")
        self.assertEqual((problem["file"], problem["line"], problem["key"]), (str(self.world.policy), 0, ""))
        self.assertIn(problem["reason"], problem["text"])

    def test_they_are_the_admins(self):
        app, stranger = self.app(), Client(self.world, Identity("stranger", SOMEBODY_ELSE))
        stranger.get(ROOT, MANAGER, "Version")
        for client in (app, stranger):
            client.listen_to_everything()
            for name in ("Policy", "PolicyProblems", "Lockdown"):
                self.assertFails(UNKNOWN_OBJECT, client.get, ADMIN_PATH, ADMIN, name)
        self.write("10-a.conf", "[Picker]\nAllow=com.example.dice;\n")
        wait(lambda: self.told(self.world.admin, "Policy"), what="the policy")
        for client in (app, stranger):
            client.settle()
            self.assertEqual([each for each in client.signals if each.path == ADMIN_PATH], [])


class LockdownTold(AdminTest):
    def test_as_the_files_say(self):
        told = lambda: str(self.world.admin.get(ADMIN_PATH, ADMIN, "Lockdown"))
        file, policy, units = self.world.lockdown_file, self.world.lockdown_policy, self.world.lockdown_units

        def ctl(command):
            words = ["lockdown", command, "--file", file, "--policy", policy, "--units", units, "--since", self.world.lockdown_since]
            program = Program(BIN / "accessoryctl", *words, *(["--bus", self.world.bus.address] if command != "status" else []))
            status = program.wait_end()
            return status, program.lines[0]

        self.assertEqual(told(), "off")
        policy.write_text("<busconfig/>")
        self.assertEqual(ctl("on")[0], 0)
        # This machine's processes are not locked down.
        self.assertEqual((told(), ctl("status")), ("on", (4, "on")))
        self.assertEqual(str(self.world.admin.objects()[ADMIN_PATH][ADMIN]["Lockdown"]), "on")
        policy.unlink()
        self.assertEqual((told(), ctl("status")[0]), ("broken", 1))
        text = file.read_bytes()
        file.write_bytes(text + b"\xff")
        self.assertEqual((told(), ctl("status")[0]), ("unknown", 1))
        file.unlink()
        file.mkdir()
        self.assertEqual((told(), ctl("status")[0]), ("unknown", 1))
        file.rmdir()
        file.write_bytes(text)
        policy.write_text("<busconfig/>")
        self.assertEqual(told(), "on")
        drop = next((units / "service.d").iterdir())
        kept = drop.read_text()
        for other in (None, kept + "# mine\n"):
            drop.unlink(missing_ok=True)
            if other:
                drop.write_text(other)
            self.assertEqual((told(), ctl("status")[0]), ("broken", 1))
        drop.write_text(kept)
        self.assertEqual(told(), "on")
        self.assertEqual(ctl("off")[0], 0)
        self.assertEqual((told(), ctl("status")), ("off", (1, "off")))


class Manifests(AdminTest):
    def says(self, app):
        [found] = [each[APP] for each in self.world.admin.objects().values() if APP in each and each[APP]["Id"] == f"com.example.{app}"]
        return plain(found["Manifest"])

    def test_what_a_manifest_says(self):
        dice = str(Identity("dice").executable)
        self.assertEqual(self.says("dice"), {
            "Executable": [dice], "Supports": ["Bluetooth"], "BluetoothServices": sorted([PINK.lower(), BLUE.lower()])})
        path = str(ROOT) + "/app/com_2eexample_2edice"
        told = lambda: [plain(each.arguments[1]["Manifest"]) for each in self.world.admin.signals
                        if each.member == "PropertiesChanged" and each.path == path]
        # A change of the identities alone is signalled: an admin looks for it.
        self.world.declare("dice", Unit="dice.service;die.service;", User="daemon;1000;", Flatpak="com.example.Dice", Snap="dice",
                           SecurityLabel="dice\u202e", Supports="Bluetooth;WiFi;", BluetoothServices=None, BluetoothNames="Die;Dice;",
                           BluetoothCompanyIdentifiers="FFFF;004C;")
        wait(told, what="the manifest")
        self.assertEqual(told()[-1], {
            "Executable": [dice], "Unit": ["dice.service", "die.service"], "Users": ["1000", "daemon"], "Flatpak": ["com.example.Dice"],
            "Snap": ["dice"], "SecurityLabel": ["dice\ufffd"], "Supports": ["Bluetooth", "WiFi"], "BluetoothNames": ["Dice", "Die"],
            "BluetoothCompanyIdentifiers": ["004C", "FFFF"]})
        self.assertEqual(self.says("dice"), told()[-1])
        self.world.declare("dice", Colour="pink")
        wait(lambda: told()[-1] == {}, what="the mistake")
        self.assertEqual(self.says("dice"), {})


class Programs(AdminTest):
    def test_whose_session_it_is(self):
        app = self.app()
        program = str(self.world.admin.get(app.session, SESSION, "Program"))
        self.assertRegex(program, rf"^{Identity('dice').executable}, uid {SOMEBODY}, pid {app.pid}$")
        self.assertNotIn("Program", app.get_all(app.session, SESSION))
        self.assertFails(BUS_ERROR + "UnknownProperty", app.get, app.session, SESSION, "Program")

    def test_who_shows_a_picker(self):
        page, terminal = (PickerProgram(self.world, Identity(each, 0)).register() for each in ("page", "terminal"))
        app = self.app()
        app.show_picker(item())
        page.wait_stage("offering")
        self.assertRegex(page.state["Program"], rf"/page, uid 0, pid {page.pid}$")
        self.assertEqual(self.world.admin.get(page.path, PICKER, "Program"), page.state["Program"])
        path = page.path
        page.close()
        told = lambda: [str(each.arguments[1]["Program"]) for each in self.world.admin.signals
                        if each.path == path and each.member == "PropertiesChanged" and "Program" in each.arguments[1]]
        wait(told, what="the other program")
        [program] = told()
        self.assertRegex(program, rf"/terminal, uid 0, pid {terminal.pid}$")
        wait(lambda: terminal.state.get("Program") == program, what="that it is told, too")

    def test_nobody_shows_what_the_policy_answers(self):
        self.world.policy.mkdir()
        (self.world.policy / "a.conf").write_text(f"[Approve a]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\nMinimumRSSI=20\n")
        self.world.restart_daemon()
        app = self.app()
        app.show_picker(item())
        [path] = wait(lambda: self.world.admin.paths("picker"), what="the run", also_every=0.05)
        self.assertEqual(str(self.world.admin.get(path, PICKER, "Program")), "")
        self.assertEqual(list(self.world.admin.get(ROOT, MANAGER, "Pickers")), [])


class Looks(AdminTest):
    """Picture and advertised name of an accessory that was set up."""

    scenario = scenario(accessory("die"), accessory("plain", 2, BLUE))

    def test_picture_and_name(self):
        app, person = self.app(), self.picker()
        die = self.add(app, person, "die", item("Pink Dice", productImage=PRODUCT))
        plain = self.add(app, person, "plain", item("Blue Dice", BLUE))
        admin = self.world.admin
        self.assertEqual([bool(admin.get(each, ACCESSORY, "HasImage")) for each in (die, plain)], [True, False])
        self.assertEqual(bytes(admin.call(die, ACCESSORY, "ImageData")), PRODUCT)
        self.assertFails(BUS_ERROR + "Failed", admin.call, plain, ACCESSORY, "ImageData", says=["without an image"])
        self.assertEqual(str(admin.get(die, ACCESSORY, "AdvertisedName")), "die")
        self.world.restart_daemon()
        self.assertEqual(bytes(admin.call(die, ACCESSORY, "ImageData")), PRODUCT)


class DelayedRemovals(AdminTest):
    """A removal that a person can still take back, whichever program shows it."""

    def setUp(self):
        super().setUp()
        self.dice = self.app()
        self.die = self.add(self.dice, self.picker(), "Dice 4F")

    def time(self):
        return int(self.world.admin.get(self.die, ACCESSORY, "RemovalTime"))

    def test_another_admin_sees_it_and_takes_it_back(self):
        asks, other = self.world.admin, Client(self.world)
        other.objects()
        asks.call(self.die, ACCESSORY, "ScheduleRemoval", "u", 60)
        self.assertGreater(self.time(), 0)
        wait(lambda: [self.time()] == [int(each.arguments[1]["RemovalTime"]) for each in other.signals
                                       if each.path == self.die and "RemovalTime" in each.arguments[1]], what="the signal")
        self.assertFails(BUS_ERROR + "UnknownMethod", self.dice.call, self.die, ACCESSORY, "CancelRemoval")
        other.call(self.die, ACCESSORY, "CancelRemoval")
        self.assertEqual(self.time(), 0)
        self.assertFails(error("InvalidRequest"), other.call, self.die, ACCESSORY, "CancelRemoval", says=["is not to be removed"])
        self.assertEqual(len(self.world.grants()), 1)

    def test_whoever_asked_may_go(self):
        asks = Client(self.world)
        asks.call(self.die, ACCESSORY, "ScheduleRemoval", "u", 1)
        asks.close()
        self.dice.wait_event("accessoryRemoved")
        self.assertEqual(self.world.grants(), {})

    def test_a_daemon_that_ends_removes_first(self):
        self.world.admin.call(self.die, ACCESSORY, "ScheduleRemoval", "u", 60)
        self.world.restart_daemon()
        self.assertEqual(self.world.grants(), {})

    def test_delays_are_bounded(self):
        for seconds in (0, 61, 2**32 - 1):
            self.assertFails(error("InvalidRequest"), self.world.admin.call, self.die, ACCESSORY, "ScheduleRemoval", "u", seconds,
                             says=["seconds", str(seconds)])
        self.assertEqual(self.time(), 0)


class Links(AdminTest):
    scenario = scenario(accessory("die", battery=77), accessory("mute", 2, BLUE))

    def look(self, path):
        """After a look of the radio's: whether there is a link, and the battery."""
        self.world.admin.call(ADMIN_PATH, ADMIN, "Refresh")
        values = self.world.admin.get_all(path, ACCESSORY)
        self.assertIsInstance(values["Battery"], dbus.Int16)
        return bool(values["Connected"]), int(values["Battery"])

    def test_connected_and_battery(self):
        app, person = self.app(), self.picker()
        die, mute = self.add(app, person, "die"), self.add(app, person, "mute", item("Blue Dice", BLUE))
        other = Client(self.world)
        bluez = lambda path, member: other.call(
            str(self.world.admin.get(path, ACCESSORY, "Device")), "org.bluez.Device1", member, to="org.bluez")
        for path in (die, mute):
            if self.look(path)[0]:
                bluez(path, "Disconnect")
        wait(lambda: self.simulator.connections == [], what="no links", also_every=0.05)
        wait(lambda: [self.look(each) for each in (die, mute)] == [(False, -1), (False, -1)], what="that it is known", also_every=0.05)
        bluez(die, "Connect")
        bluez(mute, "Connect")
        self.assertEqual([self.look(each) for each in (die, mute)], [(True, 77), (True, -1)])
        self.assertEqual(self.world.admin.objects()[die][ACCESSORY]["Battery"], 77)
        bluez(die, "Disconnect")
        wait(lambda: self.look(die) == (False, -1), what="the end of the link", also_every=0.05)
        self.assertEqual(self.look(mute), (True, -1))
        # Who may use an accessory has its own ways to know.
        self.assertEqual(set(app.get_all(die, ACCESSORY)) & {"Connected", "Battery"}, set())
        self.assertFails(BUS_ERROR + "UnknownProperty", app.get, die, ACCESSORY, "Battery")
        self.assertFails(UNKNOWN_OBJECT, app.call, ADMIN_PATH, ADMIN, "Refresh")
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.assertEqual([self.look(each) for each in (die, mute)], [(False, -1), (False, -1)])


class Follower(Client):
    """An admin who listens to the trail, and keeps each signalled line."""

    @property
    def heard(self):
        return [plain(line) for each in self.signals if each.member == "Audited" and each.path == ADMIN_PATH for line in each.arguments[0]]


class TrailTold(AdminTest):
    def test_nothing_is_missing_and_nothing_told_twice(self):
        app, person = self.app(), self.picker()
        follower = Follower(self.world)
        app.show_picker(item())
        person.wait_stage("offering")
        # Lines that wait for the disk are in the list, and signalled.
        listed = [plain(each) for each in self.audit(follower)]
        self.assertIn("offered", [each["event"] for each in listed])
        person.pick("Dice 4F")
        added = str(app.wait_event("accessoryAdded")["accessory"])
        app.remove(added)
        wait(lambda: "revoked" in [each["event"] for each in follower.heard], what=lambda: f"the end; heard was {follower.heard}")
        numbers = {each["id"] for each in listed}
        whole = listed + [each for each in follower.heard if each["id"] not in numbers]
        now = [plain(each) for each in self.audit()]
        self.assertEqual(whole, now[:len(whole)])
        self.assertEqual([each["id"] for each in follower.heard], sorted({each["id"] for each in follower.heard}))
        self.assertEqual(now[0].keys(), {"id", "time", "event", "app", "accessory", "who", "why"})
        for event in ("pickerShown", "offered", "picked", "paired", "granted", "revoked"):
            self.assertEqual([each["event"] for each in whole].count(event), 1, event)

    def test_read_forward_as_a_queue(self):
        person = self.picker()
        self.add(self.app(), person, "Dice 4F")
        self.add(self.app("board", SOMEBODY_ELSE), person, "Dice A2", item("Blue Dice", BLUE), answer={"accept": True})
        number = dbus.UInt64
        lines = [plain(each) for each in self.audit()]
        self.assertGreater(len(lines), 8)
        read, following = [], 0
        while page := [plain(each) for each in self.audit(**{"from": number(following)}, limit=dbus.UInt32(3))]:
            self.assertLessEqual(len(page), 3)
            read += page
            following = page[-1]["id"] + 1
        # Uses may follow meanwhile.
        self.assertEqual(read[:len(lines)], lines)
        middle = lines[4]["id"]
        self.assertEqual(plain(self.audit(**{"from": number(middle)}))[:len(lines) - 4], lines[4:])
        board = [each for each in lines[4:] if each["app"] == "com.example.board"]
        self.assertEqual(plain(self.audit(**{"from": number(middle)}, app="com.example.board"))[:len(board)], board)
        self.assertEqual(self.audit(**{"from": number(0)}, since=number(lines[0]["time"] + 10 ** 6)), [])
        # Beyond all numbers, and beyond those of the store.
        for large in (following + 10 ** 6, 2 ** 63 - 1, 2 ** 63, 2 ** 64 - 1):
            self.assertEqual(self.audit(**{"from": number(large)}), [], large)
        for wrong in ("1", dbus.Int64(1), dbus.UInt32(1), -1, True):
            self.assertFails(INVALID_ARGS, self.audit, **{"from": wrong}, says=["from"])

    def test_only_admins_hear_it(self):
        app, stranger, follower = self.app(), Client(self.world, Identity("stranger", SOMEBODY_ELSE)), Follower(self.world)
        for client in (app, stranger, follower):
            client.get(ROOT, MANAGER, "Version")
            client.listen_to_everything()
        self.assertFails(error("ActivationFailed"), stranger.call, ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))
        wait(lambda: follower.heard, what="the refusal")
        [refused] = follower.heard
        self.assertEqual((refused["event"], refused["app"]), ("refused", ""))
        for client in (app, stranger):
            client.settle()
            self.assertEqual([each for each in client.signals if each.member == "Audited"], [])

    def test_in_the_terminal(self):
        app, person = self.app(), self.picker()
        self.add(app, person, "Dice 4F")
        ctl = lambda *words: Program(BIN / "accessoryctl", "audit", "--bus", self.world.bus.address, *words)
        table, lines = ctl("--follow"), ctl("-f", "--json", "--app", "com.example.board")
        table.wait_for("granted")
        # Nothing is listed of the other app.
        lines.wait_for(r"^\[\]|^\[$")
        board = self.app("board", SOMEBODY_ELSE)
        self.add(board, person, "Dice A2", item("Blue Dice", BLUE), answer={"accept": True})
        app.remove(app.accessories[0])
        table.wait_for("revoked +com.example.dice")
        table.wait_for("granted +com.example.board")
        lines.wait_for('"granted"')
        told = [json.loads(each) for each in lines.lines if each.startswith("{")]
        self.assertEqual([each["event"] for each in told], ["pickerShown", "offered", "picked", "paired", "granted"])
        self.assertEqual({each["app"] for each in told}, {"com.example.board"})
        shown = [each for each in table.lines if " com.example.board " in each]
        self.assertEqual(len(shown), len(told))
        # It goes on until it is ended: by a person, or because the daemon goes.
        self.assertTrue(table.running)
        self.assertEqual(table.stop(signal.SIGINT), -signal.SIGINT)
        self.world.restart_daemon()
        self.assertEqual(lines.wait_end(), 3)

    def test_who_reads_no_more_ends_it(self):
        both = Program("/bin/sh", "-c", f"{BIN}/accessoryctl audit -f --bus '{self.world.bus.address}' | head -1")
        both.wait_for("TIME")
        # `head` has its line and ends; the next line has no reader.
        wait(lambda: not both.running or self.write_a_line(), what="the end", also_every=0.1)
        self.assertEqual(both.wait_end(), 0)

    def write_a_line(self):
        stranger = Client(self.world, Identity("stranger", SOMEBODY_ELSE))
        self.assertFails(error("ActivationFailed"), stranger.call, ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))
        stranger.close()
