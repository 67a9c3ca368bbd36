# SPDX-License-Identifier: Apache-2.0
"""The admin's policy files: allowing, approving and denying; and their mistakes."""

import json
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import dbus.bus

from harness.apps import App
from harness.clients import Identity
from harness.files import exchange
from harness.names import ADMIN, ADMIN_PATH, BLUE, GRANT, NAME, PINK, PROPERTIES, ROOT, SOMEBODY, SOMEBODY_ELSE, UNKNOWN_OBJECT, error
from harness.pickers import PickerProgram
from harness.programs import BIN, TESTS, Program
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest
from view import ACCESS_DENIED, GATT, View, path_of

def ctl(*words):
    """accessoryctl's exit status and its lines."""
    done = subprocess.run([BIN / "accessoryctl", *map(str, words)], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).splitlines()


class PolicyTest(APITest):
    apps = ("dice", "board")
    scenario = scenario(accessory("near", 1, rssi=-40, gatt=GATT), accessory("far", 2, rssi=-80), accessory("blue", 3, service=BLUE))

    def write(self, text, name="10-site.conf", directory=None):
        """Writes a policy file and waits until the daemon has read it."""
        read = lambda: sum("policy read" in each for each in self.world.daemon.lines)
        before = read()
        directory = directory or self.world.policy
        directory.mkdir(exist_ok=True)
        draft = directory / "draft"
        draft.write_text(text)
        draft.rename(directory / name)
        wait(lambda: read() > before, what="the policy to be read")

    def audit(self, *words):
        status, lines = ctl("audit", "--bus", self.world.bus.address, "--json", *words)
        self.assertEqual(status, 0, lines)
        return json.loads("\n".join(lines))

    def explain(self, app, *names):
        """The output of `accessoryctl explain`, by an accessory's name, once it has heard `names`, however late."""
        def look():
            status, lines = ctl("explain", app, "--seconds", 1, "--json", "--bus", self.world.bus.address)
            self.assertEqual(status, 0, lines)
            found = {each["name"]: each for each in json.loads("\n".join(lines))}
            return found.keys() >= set(names) and found

        return wait(look, what=f"{names} to be heard", also_every=0.05)


class WhoMayAsk(PolicyTest):
    def test_without_a_file_every_app_may_and_nothing_is_approved(self):
        self.assertFails(error("PickerRestricted"), self.app().show_picker, item(), says=["no picker program"])

    def test_only_some_apps(self):
        person = self.picker()
        self.write("[Picker]\nAllow=com.example.board;\n")
        self.assertFails(error("UserRestricted"), self.app().show_picker, item(), says=["policy"])
        self.app("board", SOMEBODY_ELSE).show_picker(item())
        person.wait_stage("offering")

    def test_all_but_some_apps(self):
        self.picker()
        self.write("[Picker]\nDeny=com.example.dice;\n")
        dice = self.app()
        self.assertFails(error("UserRestricted"), dice.show_picker, item(), says=["com.example.dice"])
        self.write("[Picker]\n")
        dice.show_picker(item())


class Approval(PolicyTest):
    RULE = f"[Approve the die]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\nMinimumRSSI=-60\n"

    def test_the_nearest_that_a_rule_approves_is_picked(self):
        self.write(self.RULE)
        app = self.app()
        app.show_picker(item("Die"))
        app.wait_event("pickerDidDismiss")
        self.assertEqual(app.told(), ["activated", "pickerDidPresent", "pickerSetupPairing", "accessoryAdded", "pickerDidDismiss"])
        self.assertEqual(self.simulator.bonds, ["near"])
        picked = next(each for each in self.audit() if each["event"] == "picked")
        self.assertIn("rule the die", picked["who"])

    def test_what_is_far_is_left_alone(self):
        self.simulator.do("vanish", "near")
        self.write(self.RULE)
        app = self.app()
        app.show_picker(item("Die"), discoveryTimeout=60.0)
        # "far" is never offered, and the time does not run out: the app ends it.
        wait(lambda: any("offered" in each and "event=offered" in each for each in self.world.daemon.lines), what="the offer")
        app.request("Invalidate")
        self.assertEqual(self.world.grants(), {})
        self.assertEqual(self.simulator.bonds, [])

    def test_it_is_for_the_named_app_only(self):
        self.write(self.RULE)
        self.assertFails(error("PickerRestricted"), self.app("board", SOMEBODY_ELSE).show_picker, item())

    def test_where_there_is_a_person_the_person_decides(self):
        self.write(self.RULE)
        person = self.picker()
        app = self.app()
        app.show_picker(item("Die"))
        person.wait_offer("near")
        person.cancel()
        self.assertDismissed(app, "UserCancelled")

    def test_a_question_for_a_person_ends_it(self):
        self.start(scenario(accessory("near", 1, pairing={"mode": "numericComparison"}, rssi=-40)))
        self.write(self.RULE)
        app = self.app()
        app.show_picker(item("Die"))
        self.assertDismissed(app, "UserCancelled")
        self.assertEqual(self.simulator.bonds, [])


class Denial(PolicyTest):
    def test_what_is_denied_is_not_offered(self):
        self.write("[Deny near]\nAddress=C0:FF:EE:00:02:01\n")
        person, app = self.picker(), self.app()
        app.show_picker(item())
        person.wait_offer("far")
        self.assertEqual([each["advertisedName"] for each in person.offers], ["far"])

    def test_what_is_denied_later_is_cut_off(self):
        person, app = self.picker(), self.app()
        self.add(app, person, "near")
        view = View(self.world)
        view.listen_to_everything()
        view.connect(path_of(1))
        self.write("[Deny near]\nApp=com.example.dice\nAddress=C0:FF:EE:00:02:01\n")
        wait(lambda: view.told("InterfacesRemoved", path_of(1)), what="the device to go")
        self.assertFails(UNKNOWN_OBJECT, view.connect, path_of(1))
        wait(lambda: not self.simulator.connections, what="the link to go", also_every=0.05)
        self.assertEqual(len(self.world.grants()), 1)
        self.write("")
        view.connect(path_of(1))

    def test_by_service_and_for_everybody(self):
        self.write(f"[Deny blue]\nBluetoothServiceUUID={BLUE}\n")
        person, app = self.picker(), self.app()
        app.show_picker(item("Any", PINK), item("Blue", BLUE))
        person.wait_offer("near")
        self.assertNotIn("blue", [each["advertisedName"] for each in person.offers])
        explain = lambda: "\n".join(ctl("explain", "com.example.dice", "--seconds", 1, "--bus", self.world.bus.address)[1])
        wait(lambda: "    not offered: rule blue in" in explain(), what="the rule to be named", also_every=0.05)


class Mistakes(PolicyTest):
    TABLE = {
        "[Pikcer]\nAllow=a.b\n": (1, "unknown section"),
        "[Picker]\nAlow=a.b\n": (2, "unknown key"),
        "[Picker]\nAllow=\n": (2, "names no app"),
        "[Picker]\nDeny=/x;\n": (2, "not an app's identifier"),
        "[Approve]\nApp=a.b\n": (1, "unknown section"),
        "[Approve x]\nApp=a.b\n": (0, "approve every accessory"),
        "[Approve x]\nAddress=C0:FF:EE:00:02:01\n": (0, "App: is missing"),
        "[Approve x]\nApp=a.b;c.d\nAddress=C0:FF:EE:00:02:01\n": (2, "one app"),
        "[Approve x]\nApp=a.b\nAddress=C0:FF\n": (3, "not an address"),
        "[Approve x]\nApp=a.b\nBluetoothServiceUUID=pink\n": (3, "not a UUID"),
        "[Approve x]\nApp=a.b\nBluetoothCompanyIdentifier=x\n": (3, "four hexadecimal digits"),
        "[Approve x]\nApp=a.b\nBluetoothServiceUUID=180F\nMinimumRSSI=near\n": (4, "not a whole number"),
        "[Approve x]\nApp=a.b\nBluetoothServiceUUID=180F\nMinimumRSSI=99\n": (4, "−127 to 20"),
        "[Deny x]\nBluetoothNameSubstring=Dice\n": (2, "needs bluetoothServiceUUID"),
        f"[Deny x]\nSSID={33 * 'x'}\n": (2, "32 bytes"),
        "[Deny x]\nSSID=a\nSSIDPrefix=b\n": (3, "cannot be combined"),
        "[Deny x]\nMinimumRSSI=-5\n": (2, "unknown key"),
        "nonsense\n": (1, ""),
    }

    def test_each_names_file_line_and_key(self):
        self.world.policy.mkdir()
        path = self.world.policy / "50.conf"
        for text, (line, says) in self.TABLE.items():
            with self.subTest(text=text):
                path.write_text(text)
                status, lines = ctl("policy", "check", "--policy", self.world.policy)
                self.assertEqual(status, 1)
                self.assertIn(f"{path}:{line}" if line else str(path), lines[0])
                self.assertIn(says, "\n".join(lines))

    def test_until_it_is_mended_nothing_new_is_set_up(self):
        person, app = self.picker(), self.app()
        self.add(app, person, "near")
        self.write(Approval.RULE, "10.conf")
        self.write("[Picker]\nAlow=com.example.dice\n", "20.conf")
        self.world.daemon.wait_for("policy refused: .*20.conf:2: Alow: unknown key")
        self.assertFails(error("UserRestricted"), app.show_picker, item(), says=["20.conf:2", "Alow"])
        # The grant keeps working.
        View(self.world).connect(path_of(1))
        self.write("[Picker]\nAllow=com.example.dice\n", "20.conf")
        app.show_picker(item())
        person.wait_offer("far")

    def test_a_directory_that_cannot_be_read_is_no_permission(self):
        self.picker()
        self.world.policy.write_text("a file")
        self.world.restart_daemon()
        self.picker()
        self.assertFails(error("UserRestricted"), self.app().show_picker, item())


class Directories(PolicyTest):
    """A second directory, of a fleet's agent, before the admin's."""

    CLAIMS = "[Claims]\nId=spring\nApp=com.example.dice\nFrom=2020-01-01T00:00:00Z\nUntil=2100-01-01T00:00:00Z\nSerialInName=*\n\n[Entries]\nserial\nSN-1\n"

    def setUp(self):
        super().setUp()
        self.fleet = self.world.directory / "fleet" / "policy.d"
        self.fleet.parent.mkdir()
        self.world.policy_directories.insert(0, self.fleet)
        self.world.restart_daemon()

    def rules(self):
        """The names of the rules in force, with their files, in order."""
        return [(str(each["name"]), str(each["source"])) for each in self.world.admin.get(ADMIN_PATH, ADMIN, "Policy") if each["name"]]

    def wait_rules(self, expected):
        wait(lambda: self.rules() == expected, what=lambda: f"{expected}; in force was {self.rules()}", also_every=0.05)

    def check(self, *words):
        return ctl("policy", "check", *(each for path in self.world.policy_directories for each in ("--policy", path)), *words)

    def deny(self, name):
        return f"[Deny {name}]\nAddress=C0:FF:EE:00:00:07\n"

    def test_all_add_up_in_their_order(self):
        # Neither is there yet.
        self.assertEqual((self.rules(), self.check()[0]), ([], 0))
        self.write(self.deny("own"), "10.conf")
        self.write(self.deny("last"), "20.conf", self.fleet)
        self.write(self.deny("first"), "10.conf", self.fleet)
        expected = [("first", str(self.fleet / "10.conf")), ("last", str(self.fleet / "20.conf")), ("own", str(self.world.policy / "10.conf"))]
        self.assertEqual(self.rules(), expected)
        status, lines = self.check("--json")
        self.assertEqual((status, [(each["name"], each["source"]) for each in json.loads("\n".join(lines))["denials"]]), (0, expected))
        # One directory alone, as before.
        status, lines = ctl("policy", "check", "--policy", self.fleet, "--json")
        self.assertEqual((status, [each["name"] for each in json.loads("\n".join(lines))["denials"]]), (0, ["first", "last"]))
        self.picker()
        self.write("[Picker]\nAllow=com.example.dice\n", "30.conf", self.fleet)
        self.write("[Picker]\nDeny=com.example.dice\n", "30.conf")
        self.assertFails(error("UserRestricted"), self.app().show_picker, item())

    def test_a_mistake_in_either_stops_all(self):
        person, app = self.picker(), self.app()
        for directory in self.world.policy_directories:
            with self.subTest(directory):
                self.write("[Picker]\nAlow=com.example.dice\n", "10.conf", directory)
                self.assertFails(error("UserRestricted"), app.show_picker, item(), says=[directory / "10.conf:2", "Alow"])
                status, lines = self.check()
                self.assertEqual(status, 1)
                self.assertIn(f"{directory}/10.conf:2", lines[0])
                self.write(self.deny("mended"), "10.conf", directory)
        app.show_picker(item())
        person.wait_offer("far")

    def test_one_that_cannot_be_read_is_no_permission(self):
        self.fleet.write_text("a file")
        self.world.restart_daemon()
        self.picker()
        self.assertFails(error("UserRestricted"), self.app().show_picker, item(), says=[self.fleet])

    def test_claim_lists_are_beside_the_last(self):
        lists = lambda: [str(each["source"]) for each in self.world.admin.get(ADMIN_PATH, ADMIN, "ClaimLists")]
        for place in (self.fleet.parent, self.world.policy.parent):
            (place / "claims.d").mkdir()
            (place / "claims.d" / "spring.conf").write_text(self.CLAIMS)
        expected = [str(self.world.policy.parent / "claims.d" / "spring.conf")]
        wait(lambda: lists() == expected, what=lambda: f"one list; there was {lists()}", also_every=0.05)
        status, lines = self.check("--json")
        self.assertEqual((status, [each["source"] for each in json.loads("\n".join(lines))["lists"]]), (0, expected))

    def test_one_that_is_exchanged(self):
        self.write(self.deny("own"))
        own = ("own", str(self.world.policy / "10-site.conf"))
        following = self.fleet.parent / "next"
        self.fleet.mkdir()
        for number in range(6):
            following.mkdir(exist_ok=True)
            # In the directory that was in force before, or in a new one.
            for file in following.iterdir():
                file.unlink()
            for part in "ab":
                (following / f"{number}-{part}.conf").write_text(self.deny(f"{number}{part}"))
            exchange(self.fleet, following)
            expected = [(f"{number}{part}", str(self.fleet / f"{number}-{part}.conf")) for part in "ab"] + [own]
            self.wait_rules(expected)
            if number % 2:
                shutil.rmtree(following)
        # Files that are written in place, afterwards.
        self.write(self.deny("later"), "9.conf", self.fleet)
        self.wait_rules(expected[:2] + [("later", str(self.fleet / "9.conf")), own])
        # The admin's own directory, too.
        (self.world.directory / "next.d").mkdir()
        exchange(self.world.policy, self.world.directory / "next.d")
        wait(lambda: own not in self.rules(), what="the admin's rule to go", also_every=0.05)


class Explaining(PolicyTest):
    def test_policy_check_and_explain(self):
        self.write(Approval.RULE + "[Deny far]\nApp=com.example.dice;\nAddress=C0:FF:EE:00:02:02\n[Picker]\nDeny=com.example.toy\n")
        status, lines = ctl("policy", "check", "--policy", self.world.policy)
        self.assertEqual(status, 0, lines)
        self.assertIn("the die: com.example.dice, service e56a082e", "\n".join(lines).lower())
        self.assertIn("but not com.example.toy", "\n".join(lines))
        person, app = self.picker(), self.app()
        self.add(app, person, "near", item("Die"))
        explain = lambda app: ctl("policy", "explain", app, "Die", "--bus", self.world.bus.address)
        status, lines = explain("com.example.dice")
        self.assertEqual((status, lines[-1]), (0, "result      com.example.dice may use Die"))
        status, lines = explain("com.example.board")
        self.assertEqual((status, lines[-1]), (1, "result      com.example.board may not use Die"))
        self.write("[Deny all]\n")
        wait(lambda: explain("com.example.dice")[0] == 1, what="the rule", also_every=0.1)
        self.assertIn("by rule all", "\n".join(explain("com.example.dice")[1]))

    def test_explain_knows_all_that_the_daemon_knows(self):
        """An accessory of two services, set up by one, and denied by the other."""
        self.start(scenario(accessory("two", advert={"serviceUUIDs": [PINK, "1809"], "name": "two"})))
        person, app = self.picker(), self.app()
        self.add(app, person, "two", item("Two"))
        explain = lambda: ctl("policy", "explain", "com.example.dice", "Two", "--bus", self.world.bus.address)
        self.assertEqual(explain()[0], 0)
        self.write("[Deny thermometers]\nBluetoothServiceUUID=1809\n")
        wait(lambda: explain()[0] == 1, what="the rule", also_every=0.1)
        self.assertIn("denied      by rule thermometers", "\n".join(explain()[1]))

    def test_explain_names_the_rule_that_excludes(self):
        self.world.declare("picky", BluetoothServices=f"{BLUE};", BluetoothCompanyIdentifiers="FFFE;")
        wait(lambda: "com.example.picky" in str(self.world.admin.objects()), what="the manifest", also_every=0.1)
        devices = self.explain("com.example.picky", "near", "blue")
        self.assertEqual(devices["blue"]["reasons"], [])
        self.assertIn("0b8f5f5d", devices["blue"]["item"].lower())
        self.assertEqual(len(devices["near"]["reasons"]), 2)
        self.assertIn("is not advertised", devices["near"]["reasons"][0])
        wait(lambda: not self.simulator.discovering, what="discovery to end", also_every=0.05)
        # A running picker's own items, with everything that they ask for.
        self.picker()
        app = self.app()
        app.show_picker(item("Near", PINK, bluetoothRange="immediate"))
        devices = self.explain("com.example.dice", "near", "far")
        self.assertEqual((devices["near"]["item"], devices["near"]["reasons"]), ("Near", []))
        self.assertEqual(devices["far"]["reasons"], ["item 1 (Near): bluetoothRange immediate: -80 dBm is below -55 dBm"])
        app.request("Invalidate")
        for words in (("com.example.nobody",), ("com.example.picky", "--seconds", 0)):
            status, lines = ctl("explain", *words, "--bus", self.world.bus.address)
            self.assertEqual(status, 1)
        self.assertFails(UNKNOWN_OBJECT, self.app().call, ROOT + "/admin", NAME + ".Admin", "Explain", "a{sv}", sv({}))


class Trail(PolicyTest):
    def test_it_tells_the_whole_story(self):
        person, app = self.picker(), self.app()
        accessory = self.add(app, person, "near", item("Die"))
        View(self.world).connect(path_of(1))
        grant = next(iter(self.world.grants()))
        self.world.admin.call(grant, PROPERTIES, "Set", "ssv", GRANT, "Enabled", False)
        self.world.admin.call(grant, PROPERTIES, "Set", "ssv", GRANT, "Enabled", True)
        self.world.admin.call(grant, GRANT, "Revoke")
        self.assertFails(error("ActivationFailed"), App(self.world, "stranger").create_session)
        self.assertFails(ACCESS_DENIED, PickerProgram(self.world, Identity("dice")).register)
        trail = self.audit()
        events = [each["event"] for each in trail if each["event"] != "offered"]
        self.assertEqual(events, ["pickerShown", "picked", "paired", "granted", "used", "disabled", "enabled", "revoked", "refused", "refused"])
        by_event = {each["event"]: each for each in trail}
        identifier = accessory.rsplit("/", 1)[1].replace("_", "-")
        for event in ("picked", "paired", "granted", "used", "revoked"):
            self.assertEqual((by_event[event]["app"], by_event[event]["accessory"]), ("com.example.dice", identifier), event)
        self.assertIn("dice, uid", by_event["used"]["who"])
        self.assertIn("uid 0", by_event["picked"]["who"])
        self.assertIn("by an admin", by_event["revoked"]["why"])
        self.assertTrue(by_event["refused"]["why"])
        # The same in the log, and after a restart.
        self.assertTrue(any("audit" in each and "event=granted" in each for each in self.world.daemon.lines))
        self.world.restart_daemon()
        self.assertEqual(self.audit()[:len(trail)], trail)
        self.assertEqual(len(self.audit("--limit", 2)), 2)
        self.assertEqual({each["app"] for each in self.audit("--app", "com.example.dice")}, {"com.example.dice"})
        self.assertEqual(self.audit("--since", int(time.time()) + 100), [])
        self.assertEqual(len(self.audit("--since", "1h")), len(self.audit()))
        self.assertEqual(ctl("audit", "--since", "tomorrow", "--bus", self.world.bus.address)[0], 64)
        self.assertFails(UNKNOWN_OBJECT, self.app().call, ROOT + "/admin", NAME + ".Admin", "GetAudit", "a{sv}", sv({}))

    def test_refusals_do_not_push_out_what_was_done(self):
        person, app = self.picker(), self.app()
        self.add(app, person, "near")
        stranger = App(self.world, "stranger")
        for _ in range(100):
            self.assertFails(error("ActivationFailed"), stranger.create_session)
        trail = self.audit()
        self.assertLessEqual(sum(each["event"] == "refused" for each in trail), 120)
        self.assertIn("granted", [each["event"] for each in trail])


# The first process of a machine of its own: starts one without a filter of system calls and one with, and prints the
# output of accessoryctl.
MACHINE = """
import ctypes, os, struct, subprocess, sys

def allow_all():
    code = ctypes.create_string_buffer(struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000))
    program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 1, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, program, 0, 0) == 0

for each in (None, allow_all):
    subprocess.Popen(["sleep", "infinity"], preexec_fn=each, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""


class Lockdown(unittest.TestCase):
    """The admin's files; that they lock is the lab's to see, with a systemd that reads them, but for the bus."""

    def setUp(self):
        self.directory = Path(tempfile.mkdtemp(prefix="accessory-api-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.file = self.directory / "system-local.conf"
        self.policy = TESTS.parent / "dbus-policy/org.bluez.lockdown.conf"
        self.units = self.directory / "units"
        self.since = self.directory / "since"
        # A bus that reads the file, and whose resulting policy can be queried.
        config = self.directory / "bus.conf"
        config.write_text((TESTS / "Support/private-bus.conf").read_text().replace(
            "</busconfig>", f'<include ignore_missing="yes">{self.file}</include></busconfig>'))
        self.bus = Program("dbus-daemon", f"--config-file={config}", "--nofork", "--print-address=1")
        self.addCleanup(self.bus.stop)
        self.address = self.bus.wait_for("^unix:")
        bluez = Program(BIN / "accessory-sim", "--bus", self.address, TESTS / "Scenarios/dice.json")
        self.addCleanup(bluez.stop)
        bluez.wait_for("^ready")

    def ctl(self, command, *more):
        files = ["--file", self.file, "--policy", self.policy, "--units", self.units, "--since", self.since]
        if command == "status":
            # Of a machine on which nothing else runs.
            return self.run_alone(BIN / "accessoryctl", "lockdown", command, *files, *more)
        return ctl("lockdown", command, *files, "--bus", self.address, *more)

    @staticmethod
    def run_alone(*words):
        done = subprocess.run(["unshare", "--fork", "--pid", "--mount-proc", *map(str, words)], capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).splitlines()

    def drops(self):
        return {each.parent.name: each.read_text() for each in self.units.rglob("*") if each.is_file()}

    def left(self):
        """The state of the lock-down, and of the directory of units."""
        return sorted(each.name for each in self.directory.iterdir()), self.drops()

    def may_call_bluez(self, uid, name="org.bluez"):
        """Whether the bus lets this user send to BlueZ."""
        done = subprocess.run(
            ["busctl", f"--address={self.address}", "call", name, "/", "org.freedesktop.DBus.Peer", "Ping"], user=uid, group=uid,
            extra_groups=[], capture_output=True, text=True)
        self.assertEqual(done.returncode != 0, "denied" in done.stderr.lower(), done.stderr)
        return done.returncode == 0

    def test_on_and_off_to_the_byte(self):
        for text in (None, "<!-- mine -->\n<busconfig>\n  <limit name='max_names_per_connection'>9</limit>\n</busconfig>\n\n"):
            with self.subTest(text=text):
                if text is not None:
                    self.file.write_text(text)
                self.assertEqual(self.ctl("status"), (1, ["off"]))
                self.assertEqual(self.ctl("on")[0], 0)
                self.assertEqual(self.ctl("status"), (0, ["on"]))
                self.assertEqual(self.ctl("on"), (0, ["the lock-down is already on"]))
                self.assertEqual(self.ctl("off")[0], 0)
                self.assertEqual(self.file.read_text() if self.file.exists() else None, text)
                self.assertEqual(self.ctl("off"), (0, ["the lock-down is already off"]))

    def test_the_bus_obeys(self):
        self.assertTrue(self.may_call_bluez(SOMEBODY))
        self.assertEqual(self.ctl("on")[0], 0)
        self.assertFalse(self.may_call_bluez(SOMEBODY))
        self.assertTrue(self.may_call_bluez(0))
        # BlueZ' daemon for mesh networks: a name without an owner; the refusal does not depend on one.
        mesh = dbus.bus.BusConnection(self.address)
        self.addCleanup(mesh.close)
        mesh.request_name("org.bluez.mesh")
        self.assertFalse(self.may_call_bluez(SOMEBODY, "org.bluez.mesh"))
        self.assertEqual(self.ctl("off")[0], 0)
        self.assertTrue(self.may_call_bluez(SOMEBODY))

    def test_drop_ins_for_all_services_but_the_exceptions(self):
        (self.units / "own.service.d").mkdir(parents=True)
        (self.units / "own.service.d/10-own.conf").write_text("[Service]\nNice=1\n")
        (self.units / "none.service").write_text("[Service]\nRestrictAddressFamilies=AF_UNIX\nRestrictAddressFamilies = none\n")
        (self.units / "some.service").write_text("[Service]\nRestrictAddressFamilies=none\nRestrictAddressFamilies=AF_UNIX\n")
        before = self.left()
        self.assertEqual(self.ctl("on", "--except", "own", "--except", "radio@.service")[0], 0)
        drops = self.drops()
        for each in ("bluetooth.service.d", "own.service.d", "radio@.service.d"):
            [drop] = (self.units / each).glob("zz-*.conf")
            # Nothing is set: a file of this name takes the place of the other.
            self.assertEqual([line for line in drop.read_text().splitlines() if not line.startswith("#")], [], each)
            [one] = (self.units / "service.d").iterdir()
            self.assertEqual(drop.name, one.name)
        self.assertIn("RestrictAddressFamilies=~AF_BLUETOOTH\n", drops["service.d"])
        # Which has no family that could be opened again.
        self.assertNotIn("RestrictAddressFamilies=~", drops["none.service.d"])
        self.assertIn("SystemCallArchitectures=native\n", drops["none.service.d"])
        self.assertNotIn("some.service.d", drops)
        told = lambda: json.loads("\n".join(self.ctl("status", "--json")[1]))
        self.assertEqual(told(), {"lockdown": "on", "exceptions": ["bluetooth.service", "own.service", "radio@.service"], "processes": []})
        # Again, and with other exceptions.
        self.assertEqual(self.ctl("on"), (0, ["the lock-down is already on"]))
        self.assertEqual(self.drops(), drops)
        self.assertEqual(self.ctl("on", "--except", "other.service")[0], 0)
        self.assertEqual(told()["exceptions"], ["bluetooth.service", "other.service"])
        self.assertEqual(self.ctl("off")[0], 0)
        self.assertEqual(self.left(), before)

    def test_exceptions_are_services(self):
        for name in ("a/b", "../x", "user.slice", "session-1.scope", "", ".service", "x" * 300, "a b"):
            with self.subTest(name):
                status, lines = self.ctl("on", "--except", name)
                self.assertEqual((status, len(lines)), (1, 1))
                self.assertIn("not the name of a service", lines[0])
                self.assertEqual(self.drops(), {})
        self.assertEqual(self.ctl("status"), (1, ["off"]))

    def test_a_drop_in_that_somebody_has_changed_stays(self):
        self.assertEqual(self.ctl("on")[0], 0)
        [drop] = (self.units / "service.d").iterdir()
        drop.write_text("[Service]\n")
        for command in ("status", "on", "off", "status", "on"):
            with self.subTest(command):
                status, lines = self.ctl(command)
                self.assertEqual(status, 1)
                self.assertIn("modified", lines[-1])
                self.assertIn(str(drop), lines[-1])
                self.assertEqual(drop.read_text(), "[Service]\n")
        self.assertFalse(self.file.exists())
        drop.unlink()
        self.assertEqual(self.ctl("off"), (0, ["the lock-down is already off"]))
        self.assertEqual(self.ctl("on")[0], 0)

    def test_half_of_it_is_said(self):
        self.assertEqual(self.ctl("on")[0], 0)
        file = self.file.read_text()
        self.file.unlink()
        self.assertEqual(self.ctl("status"), (1, ["accessoryctl: only sockets are closed: run accessoryctl lockdown on or off"]))
        self.assertEqual(self.ctl("off")[0], 0)
        self.assertEqual(self.drops(), {})
        self.file.write_text(file)
        self.assertEqual(self.ctl("status"), (1, ["accessoryctl: only D-Bus is closed: run accessoryctl lockdown on or off"]))
        self.assertEqual(self.ctl("on")[0], 0)
        self.assertEqual(self.ctl("status"), (0, ["on"]))

    def test_processes_that_it_does_not_hold_are_listed(self):
        self.assertEqual(self.ctl("on")[0], 0)
        words = ("/usr/bin/python3", "-c", MACHINE, BIN / "accessoryctl", "lockdown", "status", "--file", self.file, "--policy", self.policy,
                 "--units", self.units, "--since", self.since)

        def filters(since):
            if since is None:
                self.since.unlink(missing_ok=True)
            else:
                self.since.write_text(since)
            status, lines = self.run_alone(*words, "--json")
            self.assertEqual(status, 4)
            told = json.loads("\n".join(lines))["processes"]
            self.assertEqual({(each["program"], each["uid"]) for each in told}, {("sleep", 0)})
            return [each["filter"] for each in told]

        # Since the machine began; since they did; and where systemd has not read it, as here.
        self.assertEqual(filters(None), ["none"])
        self.assertEqual(filters("99999999999999\n"), ["none", "earlier"])
        self.assertEqual(filters("\n"), ["none", "earlier"])
        status, lines = self.run_alone(*words)
        self.assertEqual((status, lines[0]), (4, "on"))
        self.assertRegex(lines[-1], r"root +sleep +\S+ +earlier")

    def test_what_is_no_configuration_is_left_alone(self):
        self.file.write_text("nonsense")
        status, lines = self.ctl("on")
        self.assertEqual(status, 1)
        self.assertIn("no </busconfig>", lines[0])
        self.assertEqual(self.file.read_text(), "nonsense")

    def test_a_policy_that_is_gone_is_said(self):
        self.assertEqual(self.ctl("on")[0], 0)
        self.policy = self.directory / "gone"
        status, lines = self.ctl("status")
        self.assertEqual(status, 1)
        self.assertIn("D-Bus is open", lines[0])

    def test_a_bus_that_does_not_take_it_is_said(self):
        self.file.write_text("<busconfig>\n</busconfig>\n")
        address, self.address = self.address, "unix:path=/nonexistent"
        status, lines = self.ctl("on")
        self.assertEqual(status, 1)
        self.assertIn("was reverted", lines[0])
        self.assertEqual(self.file.read_text(), "<busconfig>\n</busconfig>\n")
        self.assertEqual(self.drops(), {})
        self.assertFalse(self.since.exists())
        self.assertEqual(self.ctl("status"), (1, ["off"]))
        self.address = address

    def test_a_bus_starts_without_the_policy(self):
        """The package may be gone, and its line still there: a machine without a bus would be dead."""
        gone = self.directory / "gone.conf"
        shutil.copy(self.policy, gone)
        self.policy = gone
        self.assertEqual(self.ctl("on")[0], 0)
        gone.unlink()
        bus = Program("dbus-daemon", f"--config-file={self.directory / 'bus.conf'}", "--nofork", "--print-address=1")
        bus.wait_for("^unix:")
        bus.stop()


if __name__ == "__main__":
    unittest.main()
