# SPDX-License-Identifier: Apache-2.0
"""accessoryctl as a person and a script meet it: mistyped commands, output that cannot be written, other locales, grants switched off and
on, and pickers without a person that do not wait for ever."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios

from harness.programs import BIN, TESTS, Program
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest


class Tool(APITest):
    scenario = scenario(accessory("pink"))

    def ctl(self, *words, **environment):
        """Its exit status, and its lines on both outputs."""
        bus = ("--bus", self.world.bus.address)
        program = Program(BIN / "accessoryctl", *words, *bus, environment=environment)
        return program.wait_end(), program.lines

    def test_mistyped_commands(self):
        for word, hint in (("lst", "list"), ("pikcer", "picker"), ("grnats", "grants"), ("disabel", "disable"), ("au", "audit"),
                           ("policy chekc", "check"), ("lockdown stauts", "status"), ("app xyzzy", None),
                           ("xyzzy", None), ("liszt\x1b[2J", None)):
            with self.subTest(word):
                status, lines = self.ctl(*word.split())
                self.assertEqual((status, len(lines)), (64, 1), lines)
                self.assertIn(f"did you mean “{hint}”?" if hint else "--help", lines[0])
                self.assertNotIn("\x1b", lines[0])
        # These are none.
        self.assertEqual(self.ctl("list")[0], 0)
        self.assertEqual(self.ctl()[0], 0)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for words in (("list",), ("status", "--json"), ("apps",), ("audit",)):
            with self.subTest(words):
                status = Program("/bin/sh", "-c", f"{BIN}/accessoryctl {' '.join(words)} --bus '{self.world.bus.address}' >/dev/full").wait_end()
                self.assertEqual(status, 1)
        status, lines = Program("/bin/sh", "-c", f"{BIN}/accessoryctl apps --bus '{self.world.bus.address}' | true; echo end"), None
        self.assertEqual(status.wait_end(), 0)
        self.assertEqual(status.lines, ["end"])

    def test_ascii_where_the_locale_has_no_more(self):
        self.add(self.app(), self.picker(), "pink", item("Wü温 “die”"))
        for environment, is_ascii in (({"LC_ALL": "C"}, True), ({"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, True), ({"LC_ALL": "", "LC_CTYPE": "C"}, True),
                                      ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False), ({"LC_ALL": "", "LC_CTYPE": "", "LANG": ""}, False)):
            with self.subTest(environment):
                text = "\n".join(self.ctl("list", **environment)[1])
                self.assertIn('W?? "die"' if is_ascii else "Wü温 “die”", text)
                self.assertEqual(text.isascii(), is_ascii)
                # A program reads UTF-8.
                self.assertEqual(json.loads("\n".join(self.ctl("list", "--json", **environment)[1]))[0]["name"], "Wü温 “die”")

    def test_columns_of_wide_names_stand_below_each_other(self):
        self.add(self.app(), self.picker(), "pink", item("温度センサー"))
        header, row = self.ctl("list", LC_ALL="C.UTF-8")[1]
        self.assertEqual(header.index("ADDRESS"), 2 + 12)
        self.assertEqual(row.index("C0:FF"), 2 + 6)

    def on_a_terminal(self, *words, keys="", **environment):
        """The terminal's contents once it has ended."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        os.set_blocking(ours, False)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        program = subprocess.Popen(
            [BIN / "accessoryctl", *words, "--bus", self.world.bus.address], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={"PATH": os.environ["PATH"], "TERM": "xterm", "LANG": "C.UTF-8", **environment},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)
        self.addCleanup(program.kill)
        text = b""

        def ended():
            nonlocal text
            while True:
                try:
                    read = os.read(ours, 65536)
                except BlockingIOError:
                    return False
                except OSError:
                    return True
                text += read
                # Typed at less' prompt.
                if keys and text.endswith(b"\x1b[K"):
                    os.write(ours, keys.encode())

        wait(ended, 20, lambda: f"its end; on the terminal is {text!r}", also_every=0.02)
        self.assertEqual(program.wait(), 0, text)
        return text.decode().replace("\r\n", "\n")

    def test_a_pager_where_there_is_a_person(self):
        self.add(self.app(), self.picker(), "pink", item("Dice"))
        direct = self.ctl("list")[1]
        self.assertNotIn("through", "\n".join(self.ctl("list", PAGER="sed s/^/through/")[1]))
        for words in (("list",), ("grants",), ("apps",), ("audit",)):
            with self.subTest(words):
                lines = self.on_a_terminal(*words, PAGER="sed s/^/through/").splitlines()
                self.assertGreater(len(lines), 1)
                self.assertEqual([line for line in lines if not line.startswith("through")], [])
        self.assertNotIn("through", self.on_a_terminal("list", "--no-pager", PAGER="sed s/^/through/"))
        self.assertNotIn("through", self.on_a_terminal("list", "--json", PAGER="sed s/^/through/"))
        for pager in ("", "cat", "/no/such", "no-such-pager -R"):
            with self.subTest(pager):
                self.assertEqual(self.on_a_terminal("list", PAGER=pager).splitlines(), direct)
        # One that reads nothing, or not all of more than a pipe holds, is one that the person has closed.
        self.world.daemon.stop()
        self.world.fill_trail(500)
        self.world.start_daemon()
        for pager in ("true", "head -c 1"):
            with self.subTest(pager):
                self.on_a_terminal("audit", PAGER=pager)

    def test_less_chops_long_lines_and_ends_where_all_fits(self):
        self.add(self.app(), self.picker(), "pink", item("Dice"))
        self.assertRegex(self.on_a_terminal("list", keys="q"), r"NAME +ADDRESS[^\n]*>")
        self.assertIn("Dice", self.on_a_terminal("list", "--columns", "name,state"))
        for number in range(30):
            self.world.declare(f"app{number}")
        wait(lambda: len(self.ctl("apps")[1]) > 31, 10, "the apps", also_every=0.1)
        self.assertIn("com.example.app1", self.on_a_terminal("apps", keys="q"))

    def test_columns_of_choice(self):
        self.add(self.app(), self.picker(), "pink", item("Dice"))
        lines = self.ctl("list", "--columns", "state,NAME")[1]
        self.assertEqual([line.split() for line in lines], [["STATE", "NAME"], ["authorized", "Dice"]])
        self.assertEqual(self.ctl("audit", "--columns", "EVENT", "--limit", "1")[1][0], "EVENT")
        for columns, named in (("NAME,Colour", "“Colour”"), ("NAME,", "“”"), ("\x1b[2J", "“")):
            with self.subTest(columns):
                status, lines = self.ctl("list", f"--columns={columns}")
                self.assertEqual(status, 64, lines)
                self.assertIn(named, lines[0])
                self.assertIn("NAME,ADDRESS,NETWORK,STATE,APPS,ID", lines[0])
                self.assertNotIn("\x1b", "\n".join(lines))
        self.assertEqual(self.ctl("list", "--columns", "NAME", "--json")[0], 64)

    def test_grants_are_switched_off_and_on(self):
        dice = self.app()
        self.add(dice, self.picker(), "pink")
        [path] = self.world.grants()
        number = path.rpartition("/")[2]
        for command, enabled in (("disable", False), ("enable", True)):
            status, lines = self.ctl(command, number)
            self.assertEqual((status, lines), (0, [f"{command}d: com.example.dice may {'' if enabled else 'no longer '}use Pink Dice"]))
            self.assertEqual([bool(each["Enabled"]) for each in self.world.grants().values()], [enabled])
            self.assertEqual(len(dice.accessories), int(enabled))
        self.assertEqual(self.ctl("disable", "77"), (1, ["accessoryctl: no grant 77"]))

    def test_a_picker_without_a_person_does_not_wait_for_ever(self):
        self.assertEqual(self.ctl("picker", "--timeout", "1")[0], 64)
        self.assertEqual(self.ctl("picker", "--pick", "pink", "--timeout", "0")[0], 64)
        status, lines = self.ctl("picker", "--pick", "pink", "--timeout", "0.2")
        self.assertEqual(status, 1)
        self.assertIn("nothing was set up within 0.2 s", lines[-1])
        wait(lambda: not self.world.manager("PickerAvailable"), what="it to be gone", also_every=0.05)

    def test_the_trail_says_who_picked(self):
        dice = self.app()
        script = Program(BIN / "accessoryctl", "picker", "--bus", self.world.bus.address, "--pick", "pink")
        script.wait_for("waiting for a picker")
        dice.show_picker(item())
        dice.wait_event("pickerDidDismiss")
        self.assertEqual(script.wait_end(), 0, script.lines)
        dice.remove(dice.accessories[0])
        self.add(dice, self.picker(), "pink")
        picked = [each for each in json.loads("\n".join(self.ctl("audit", "--json")[1])) if each["event"] == "picked"]
        self.assertEqual([each["why"] for each in picked], ["picked by a script", "picked by the person"])
        for each, program in zip(picked, ("accessoryctl", "python3")):
            self.assertRegex(each["who"], f"{program}.*, user root$")

    def test_a_shell_completes_accessories_apps_and_grants(self):
        self.add(self.app(), self.picker(), "pink")
        [grant] = self.world.grants()
        for words, choice in ((("show",), "C0:FF:EE:00:02:01"), (("remove",), "C0:FF:EE:00:02:01"), (("revoke",), grant.rpartition("/")[2]),
                              (("explain",), "com.example.dice"), (("app", "socket"), "com.example.dice"), (("gr",), "grants")):
            with self.subTest(words):
                typed = [*words] if words == ("gr",) else [*words, ""]
                shell = Program(
                    "/bin/bash", "-c", """
                    source <(accessoryctl --generate-completion-script bash)
                    COMP_WORDS=(accessoryctl "$@") COMP_CWORD=$# COMP_LINE="accessoryctl $*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
                    _accessoryctl accessoryctl "${COMP_WORDS[$COMP_CWORD]}" "${COMP_WORDS[$((COMP_CWORD - 1))]}"
                    printf '%s\\n' "${COMPREPLY[@]}" """, "bash", *typed,
                    environment={"PATH": f"{BIN}:{os.environ['PATH']}", "DBUS_SYSTEM_BUS_ADDRESS": self.world.bus.address})
                self.assertEqual(shell.wait_end(), 0, shell.lines)
                self.assertIn(choice, shell.lines)

    def test_since_yesterday(self):
        self.add(self.app(), self.picker(), "pink")
        for word, days in (("today", 0), ("yesterday", 1)):
            self.assertGreater(len(json.loads("\n".join(self.ctl("audit", "--json", "--since", word)[1]))), 2)
        self.assertEqual(self.ctl("audit", "--since", "tomorrow")[0], 64)

    def test_explain_says_that_it_listens(self):
        status, lines = self.ctl("explain", "com.example.dice", "--seconds", "1", LC_ALL="C.UTF-8")
        self.assertEqual((status, lines[0]), (0, "listening for 1 s…"))

    def test_the_trail_has_both_names_of_what_is_renamed(self):
        self.add(self.app(), self.picker(), "pink")
        self.assertEqual(self.ctl("rename", "Pink Dice", "Mine")[0], 0)
        lines = json.loads("\n".join(self.ctl("audit", "--json")[1]))
        self.assertEqual([each["why"] for each in lines if each["event"] == "renamed"], ["renamed by an admin: “Pink Dice” is “Mine” now"])

    def test_json_of_what_is_only_looked_at(self):
        """The shapes are those of accessoryctl(1), and an accessory's identifier names it everywhere."""
        self.add(self.app(), self.picker(), "pink")
        page = (TESTS.parent / "Docs/Man/accessoryctl.md").read_text()
        shapes = dict(re.findall(r"^\| `([a-z ]+)` \| (.*) \|$", page.partition("## JSON")[2].partition("## Exit")[0], re.M))
        manifest = self.world.app_directories[0] / "com.example.dice.conf"
        [accessory] = json.loads("\n".join(self.ctl("list", "--json")[1]))
        files = {"whoami": ("--apps", self.world.app_directories[0], "--pid", os.getpid()), "manifest check": (manifest,), "policy check": (),
                 "lockdown status": ("--file", "/nowhere", "--units", "/nowhere")}
        for command, words in {
                "status": (), "list": (), "show": (accessory["id"],), "grants": (), "apps": (), "audit": (),
                "policy explain": ("com.example.dice", accessory["id"]), **files}.items():
            with self.subTest(command):
                program = Program(BIN / "accessoryctl", *command.split(), "--json", *words, *([] if command in files else ["--bus", self.world.bus.address]))
                self.assertEqual(program.wait_end(), int(command in ("whoami", "lockdown status")))
                told = json.loads("\n".join(program.lines))
                for each in told if isinstance(told, list) else [told]:
                    documented = shapes["list" if command == "show" else command]
                    self.assertEqual([key for key in each if f"`{key}`" not in documented and (command, key) != ("show", "grants")], [])
        self.assertTrue(json.loads("\n".join(self.ctl("policy", "explain", "--json", "com.example.dice", accessory["id"])[1]))["mayUse"])

    def test_a_backup_of_the_file_is_restored(self):
        """As Docs/Storage.md has it: the file alone, copied while the daemon runs."""
        dice = self.app()
        self.add(dice, self.picker(), "pink")
        before = {str(each["App"]) for each in self.world.grants().values()}
        backup = (self.world.state / "grants.sqlite").read_bytes()
        self.assertEqual(self.ctl("disable", "1")[0], 0)
        self.world.daemon.stop()
        for each in self.world.state.iterdir():
            each.unlink()
        (self.world.state / "grants.sqlite").write_bytes(backup)
        self.world.start_daemon()
        self.assertEqual({str(each["App"]) for each in self.world.grants().values() if each["Enabled"]}, before)
        self.assertEqual(self.simulator.bonds, ["pink"])
        # Without its bond it is listed, and paired again under the same grant.
        self.assertEqual(len(self.ctl("list")[1]), 2)
        self.world.admin.call("/org/bluez/hci0", "org.bluez.Adapter1", "RemoveDevice", "o", "/org/bluez/hci0/dev_C0_FF_EE_00_02_01", to="org.bluez")
        lines = self.ctl("list")[1]
        self.assertEqual(lines[2:], ["Pink Dice: Bluetooth does not currently list its bond"])
        self.assertIn("authorized, see below", lines[1])
        self.world.pass_until(lambda: "unauthorized, see below" in self.ctl("list")[1][1], 10, "the loss of the bond to be noticed")
        self.assertEqual(self.ctl("list")[1][2:], ["Pink Dice: it is no longer paired: pair it again in a picker of com.example.dice"])
        self.add(self.app(), self.picker(), "pink")
        self.assertEqual(len(self.ctl("list")[1]), 2)
        self.world.policy.mkdir(exist_ok=True)
        (self.world.policy / "90.conf").write_text("[Deny toys]\nApp=com.example.dice;\nAddress=C0:FF:EE:00:02:01\n")
        wait(lambda: any("rule toys" in line for line in self.ctl("list")[1]), what="the rule to be listed", also_every=0.1)
        self.assertEqual(self.ctl("remove", "Pink Dice")[0], 0)
        self.assertEqual(self.world.grants(), {})
