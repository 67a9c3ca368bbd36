# SPDX-License-Identifier: Apache-2.0
"""An administrator who is not root, where polkit runs. polkit is simulated: the daemon's questions and actions are tested, not polkit's
decisions."""

import base64
import json
import os
import shutil
import subprocess
import unittest

from harness.authority import Authority
from harness.clients import Client
from harness.names import GRANT, NAME, ROOT, SOMEBODY
from harness.programs import BIN, Program
from harness.waiting import wait
from harness.world import APITest


class PolkitTest(APITest):
    def setUp(self):
        super().setUp()
        self.accessory = self.add(self.app(), self.picker(), "Dice 4F")
        self.grant = next(iter(self.world.grants()))


class Polkit(PolkitTest):

    def start_busctl(self, *words, interactive=True):
        """busctl as a user without rights."""
        return Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", "busctl", f"--address={self.world.bus.address}",
            *([] if interactive else ["--allow-interactive-authorization=no"]), *words)

    def busctl(self, *words, interactive=True):
        """True when it was served."""
        done = self.start_busctl(*words, interactive=interactive)
        return done.wait_end() == 0, done.lines

    def test_who_proves_it_is_an_admin(self):
        authority = Authority(Client(self.world), True)
        served, lines = self.busctl("call", NAME, self.grant, GRANT, "Revoke")
        self.assertTrue(served, lines)
        self.assertEqual(self.world.grants(), {})
        self.assertEqual(len(authority.asked), 1)
        question = authority.asked[0]
        self.assertEqual((question.kind, question.action, question.flags), ("system-bus-name", "org.accessorysetup1.manage", 1))
        self.assertTrue(question.name.startswith(":1."))
        authority.remove_from_connection()

    def test_who_does_not_learns_nothing(self):
        authority = Authority(Client(self.world), False)
        for path in (self.grant, self.grant + "99", ROOT + "/admin", ROOT + "/accessory/none"):
            with self.subTest(path=path):
                served, lines = self.busctl("call", NAME, path, GRANT, "Revoke")
                self.assertFalse(served)
                self.assertIn(f"no such object: {path}", lines[-1])
        self.assertEqual(len(authority.asked), 4)
        self.assertEqual(len(self.world.grants()), 1)
        authority.remove_from_connection()

    def test_who_is_not_prepared_is_not_asked(self):
        authority = Authority(Client(self.world), True)
        served, lines = self.busctl("call", NAME, self.grant, GRANT, "Revoke", interactive=False)
        self.assertFalse(served)
        self.assertEqual(authority.asked, [])
        authority.remove_from_connection()

    def test_without_polkit_it_is_refused(self):
        served, lines = self.busctl("call", NAME, self.grant, GRANT, "Revoke")
        self.assertFalse(served)
        self.assertIn("no such object", lines[-1])

    def test_the_question_of_one_who_has_gone_is_withdrawn(self):
        authority = Authority(Client(self.world), None)
        revoke = ("call", NAME, self.grant, GRANT, "Revoke")
        asking, other = self.start_busctl(*revoke), self.start_busctl(*revoke)
        wait(lambda: len(authority.asked) == 2, what="polkit to be asked about both")
        self.assertEqual(len({each.cancellation for each in authority.asked} - {""}), 2)
        asking.stop()
        wait(lambda: authority.ended, what="its question to be withdrawn")
        (left,) = [each for each in authority.asked if self.world.admin.has_owner(each.name)]
        self.assertEqual(authority.ended, [each.cancellation for each in authority.asked if each is not left])
        # The other's is still there, and counts.
        self.assertEqual(list(authority.open), [left.cancellation])
        self.assertEqual(len(self.world.grants()), 1)
        authority.decide(left, True)
        self.assertEqual(other.wait_end(), 0, other.lines)
        self.assertEqual(self.world.grants(), {})
        authority.remove_from_connection()

    def test_a_question_that_was_answered_is_not(self):
        for answer in (False, True):
            with self.subTest(answer=answer):
                authority = Authority(Client(self.world), answer)
                self.assertEqual(self.busctl("call", NAME, self.grant, GRANT, "Revoke")[0], answer)
                wait(lambda: not self.world.admin.has_owner(authority.asked[0].name), what="its end", also_every=0.02)
                # The daemon has heard of the end, too, and had something to say to polkit.
                authority.client.settle()
                self.assertEqual(authority.ended, [])
                self.assertEqual(len(authority.asked), 1)
                authority.remove_from_connection()
                authority.client.close()


class Agent(PolkitTest):
    """A fleet's agent, which has a user of its own."""

    CONFIGURATION = f"[Fleet]\nName=hall\nGateway=gw-1\nBroker=mqtt://localhost:1\nOperatorKeys={base64.b64encode(bytes(32)).decode()}\n"

    def test_it_is_an_admin_by_a_rule(self):
        authority = Authority(Client(self.world), True)
        # Where every user can read them, and the agent's state where it can write.
        program, configuration, state = (self.world.directory / each for each in ("accessory-fleet", "fleet.conf", "fleet-state"))
        shutil.copy(BIN / "accessory-fleet", program)
        configuration.write_text(self.CONFIGURATION)
        state.mkdir()
        os.chown(state, SOMEBODY, SOMEBODY)
        agent = Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", program, "--bus", self.world.bus.address,
            "--config", configuration, "--state-directory", state)
        self.addCleanup(agent.stop)
        agent.wait_for("no connection to the broker")
        self.world.daemon.wait_for("client is an admin by polkit")
        self.assertEqual([(each.action, each.flags) for each in authority.asked], [("org.accessorysetup1.manage", 1)])
        self.assertNotIn("permission denied", "\n".join(agent.lines))
        authority.remove_from_connection()


# Each command of accessoryctl that asks the daemon, with words that are right; None for those that are not for
# administrators alone.
COMMANDS = {
    "list": (), "show": ("Pink Dice",), "grants": (), "enable": ("1",), "disable": ("1",), "revoke": ("1",), "unpair": ("--yes", "Pink Dice"), "remove": ("Pink Dice",), "rename": ("Pink Dice", "Mine"),
    "limit": ("1", "8h"), "devices": ("1",), "exclude": ("1", "C0:FF:EE:00:02:01"), "include": ("1", "C0:FF:EE:00:02:01"), "claims": (),
    "apps": (), "unmute": ("com.example.dice",), "app socket": ("com.example.dice",), "policy explain": ("com.example.dice", "Pink Dice"),
    "explain": ("com.example.dice", "--seconds", "1"), "audit": (),
    "status": None, "picker": None, "ask": None, "lockdown on": None, "lockdown off": None}


class Tool(PolkitTest):
    """accessoryctl as a user without rights."""

    def setUp(self):
        super().setUp()
        # Where every user can execute it.
        self.program = self.world.directory / "accessoryctl"
        shutil.copy(BIN / "accessoryctl", self.program)

    def ctl(self, *words):
        """Its exit status, its lines, and its standard error."""
        errors = self.world.directory / "errors"
        done = Program(
            "/bin/sh", "-c", 'errors=$1; shift; exec "$@" 2>"$errors"', "sh", errors, "/usr/bin/setpriv", f"--reuid={SOMEBODY}",
            f"--regid={SOMEBODY}", "--clear-groups", self.program, *words, "--bus", self.world.bus.address)
        return done.wait_end(), done.lines, errors.read_text()

    def commands(self):
        """The words of each command that takes --bus, and whether it takes --json."""
        def walk(command, words):
            for each in command.get("subcommands", []):
                yield from walk(each, [*words, each["commandName"]])
            options = {name["name"] for each in command.get("arguments", []) for name in each.get("names", [])}
            if words and not command.get("subcommands") and "bus" in options:
                yield " ".join(words), "json" in options

        done = subprocess.run([BIN / "accessoryctl", "--experimental-dump-help"], check=True, capture_output=True, text=True)
        return dict(walk(json.loads(done.stdout)["command"], []))

    def test_it_asks_too(self):
        authority = Authority(Client(self.world), True)
        status, lines, errors = self.ctl("list")
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("Pink Dice", "\n".join(lines))
        self.assertEqual(len(authority.asked), 1)
        authority.remove_from_connection()

    def test_who_is_refused_gets_no_list(self):
        commands = self.commands()
        self.assertEqual(set(commands), set(COMMANDS))
        authority = Authority(Client(self.world), False)
        for command, words in COMMANDS.items():
            for more in ([], ["--json"]) if commands[command] else ([],):
                if words is None:
                    continue
                with self.subTest(command=command, more=more):
                    status, lines, errors = self.ctl(*command.split(), *words, *more)
                    self.assertEqual(status, 1, lines)
                    self.assertEqual(errors.count("\n"), 1, errors)
                    self.assertIn("accessoryctl: permission denied: ", errors)
                    self.assertEqual(lines, [])
        self.assertEqual(len(self.world.grants()), 1)
        authority.remove_from_connection()

    def test_the_status_has_no_numbers_then(self):
        """Public information is no failure."""
        status, lines, errors = self.ctl("status")
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual([each.split()[0] for each in lines[:4]], ["accessorysetupd", "Bluetooth", "Wi-Fi", "picker"])
        self.assertEqual([each.split(maxsplit=1) for each in lines[4:]], [[each, "for administrators"] for each in ("accessories", "grants", "sessions")])
        status, lines, errors = self.ctl("status", "--json")
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(set(json.loads("\n".join(lines))), {"version", "bluetooth", "wifi", "pickerAvailable"})

    def test_without_polkit_it_is_refused_too(self):
        for words in (("grants", "--json"), ("audit", "--follow")):
            with self.subTest(words=words):
                status, lines, errors = self.ctl(*words)
                self.assertEqual((status, lines), (1, []))
                self.assertIn("accessoryctl: permission denied: ", errors)


if __name__ == "__main__":
    unittest.main()
