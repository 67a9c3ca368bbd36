# SPDX-License-Identifier: Apache-2.0
"""The terminal picker on a terminal: a pseudo-terminal here, with the keys of a person, and the product image drawn in it."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios

import dbus
import pyte
from gi.repository import GLib

from harness.images import PRODUCT, SVG, png
from harness.names import BLUE, PICKER, PINK
from harness.programs import BIN, Program
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest
from test_narrowed import entry, listed


class Terminal:
    """accessoryctl picker on a pseudo-terminal; `text` is everything that it has written."""

    def __init__(self, world, columns=100, rows=40, **environment):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.program = subprocess.Popen(
            [BIN / "accessoryctl", "--bus", world.bus.address, "picker"], stdin=theirs, stdout=theirs, stderr=theirs,
            env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", "SWIFT_BACKTRACE": "interactive=no", **environment}, start_new_session=True)
        os.close(theirs)
        self.text = ""
        self._bytes = b""
        self._is_open = True
        self._watch = GLib.io_add_watch(self._ours, GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, self._read)
        self.wait_for("Waiting for an app")

    def _read(self, *_):
        try:
            data = os.read(self._ours, 65536)
        except OSError:
            self._is_open = False
            return False
        self._bytes += data
        self._stream.feed(data)
        self.text = self._bytes.decode(errors="replace")
        return True

    def wait_for(self, text, seconds=10):
        wait(lambda: text in self.text, seconds, lambda: f"{text!r} on the terminal; it shows {self.text[-600:]!r}")

    @property
    def marked(self):
        """The lines in reverse video."""
        return [self.screen.display[row].rstrip() for row in range(self.screen.lines)
                if any(self.screen.buffer[row][column].reverse for column in range(self.screen.columns))]

    def resize(self, columns, rows):
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)
        # Of a controlling terminal the kernel would say so; this is none.
        self.program.send_signal(signal.SIGWINCH)

    def type(self, keys):
        os.write(self._ours, keys if isinstance(keys, bytes) else keys.encode())

    def status(self):
        wait(lambda: self.program.poll() is not None, 10, "accessoryctl to end", also_every=0.05)
        return self.program.returncode

    def close(self):
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        if self._is_open:
            GLib.source_remove(self._watch)
        os.close(self._ours)


class OnATerminal(APITest):
    scenario = scenario(accessory("pink"), accessory("blue", 2, service=BLUE))

    def terminal(self, **environment):
        terminal = Terminal(self.world, **environment)
        self.addCleanup(terminal.close)
        return terminal

    def test_half_blocks_with_the_colours_of_the_image(self):
        terminal, dice = self.terminal(COLORTERM="truecolor"), self.app()
        dice.show_picker(item(productImage=PRODUCT))
        terminal.wait_for("\x1b[0;38;2;255;0;128;48;2;255;0;128m▀")
        terminal.type("\r")
        dice.wait_event("accessoryAdded")
        self.assertEqual(terminal.status(), 0)

    def test_an_svg_in_256_colours(self):
        terminal, dice = self.terminal(), self.app()
        dice.show_picker(item(productImage=SVG))
        terminal.wait_for("\x1b[0;38;5;199;48;5;199m▀")

    def test_sixels_where_the_terminal_says_so(self):
        terminal, dice = self.terminal(), self.app()
        terminal.wait_for("\x1b[c")
        terminal.type("\x1b[?62;4;22c")
        dice.show_picker(item(productImage=PRODUCT))
        terminal.wait_for('\x1bP0;1;0q"1;1;180;120')

    def test_kittys_protocol(self):
        terminal, dice = self.terminal(TERM="xterm-kitty"), self.app()
        dice.show_picker(item(productImage=PRODUCT))
        terminal.wait_for("\x1b_Ga=t,f=32,s=360,v=240,i=1,q=2,m=1;")
        terminal.wait_for("\x1b_Ga=p,i=1,p=1,r=8,C=1,q=2\x1b\\")

    def test_images_that_are_none(self):
        # The first claims 100,000 × 100,000 pixels, the second is cut off, the third is not well-formed.
        bomb = PRODUCT[:16] + struct.pack(">II", 100_000, 100_000) + PRODUCT[24:]
        terminal, dice = self.terminal(COLORTERM="truecolor"), self.app()
        for image in (bomb, PRODUCT[:60], b"<svg xmlns='x'"):
            dice.show_picker(item(productImage=image + (b">" if image[:1] == b"<" else b"")))
            terminal.wait_for("pink")
            terminal.type("\x1b")
            dice.wait_event("pickerDidDismiss")
            self.assertEqual(terminal.status(), 2)
            self.assertFalse("▀" in terminal.text, "something was drawn")
            terminal, dice = self.terminal(COLORTERM="truecolor"), self.app()

    def test_the_access_of_the_marked_one(self):
        terminal, dice = self.terminal(), self.app()
        dice.show_picker(item(access="read"), item("Blue Dice", BLUE))
        terminal.wait_for("pink")
        terminal.wait_for("blue")
        words = "the app can read and receive data, not write (an accessory may act when it is read)"
        shown = lambda: words in " ".join(" ".join(terminal.screen.display).split())
        marks = lambda name: any(name in each for each in terminal.marked)
        for name, is_narrowed in (("pink", True), ("blue", False), ("pink", True)):
            if not marks(name):
                terminal.type("\x1b[B" if name == "blue" else "\x1b[A")
            wait(lambda name=name, is_narrowed=is_narrowed: marks(name) and shown() == is_narrowed, what=f"the access of {name}")

    def test_arrows_return_and_a_name(self):
        terminal, dice = self.terminal(), self.app()
        dice.show_picker(item(), item("Blue Dice", BLUE, setupOptions=["rename"]))
        terminal.wait_for("Blue Dice")
        terminal.wait_for("Pink Dice")
        # Whichever is first: the one below, then as far up as it goes.
        terminal.type("\x1b[B\x1b[A\x1b[A")
        first = terminal.text.rfind("\x1b[7m")
        if "Pink" in terminal.text[first:first + 40]:
            terminal.type("\x1b[B")
        wait(lambda: "Blue" in terminal.text[terminal.text.rfind("\x1b[7m"):][:40], 5, "the blue one to be chosen", also_every=0.05)
        terminal.type("\r")
        terminal.wait_for("be called?")
        terminal.type("Wü\x7fürfelx\x7f\r")
        self.assertEqual(dice.wait_event("accessoryAdded")["properties"]["DisplayName"], "Würfel")
        self.assertEqual(terminal.status(), 0)

    def test_a_name_of_whole_letters_alone(self):
        """Keys that are no letters are not typed, and a name that is too long ends with a letter that has room."""
        terminal, dice = self.terminal(), self.app()
        dice.show_picker(item("Blue Dice", BLUE, setupOptions=["rename"]))
        terminal.wait_for("Blue Dice")
        terminal.type("\x1b[6~\x1b[5~\x1b[H\x1b[F\r")
        terminal.wait_for("be called?")
        for keys in ("xy\x1b[3~\x1b[6~\x1b[15~\x1b[1;5C\x1b[A", *["温" * 10] * 9, "\r"):
            terminal.type(keys)
        # A name has 256 bytes at most, and each letter here three.
        self.assertEqual(dice.wait_event("accessoryAdded")["properties"]["DisplayName"], "xy" + "温" * 84)


SIZES = ((40, 12), (40, 24), (41, 13), (60, 15), (80, 12), (80, 24), (81, 25), (132, 43), (200, 12), (40, 60))
# Names of wide characters, combining marks, both.
NAMES = ("plain", "温度センサー", "Würfel", "Wu\u0308rfel", "e\u0301" * 20, "🎲 die", "漢" * 40, "x" * 120, "i")


class Ends(APITest):
    """Grants that end, chosen and renewed on a terminal."""

    scenario = scenario(accessory("pink"))

    def rules(self):
        [grant] = self.world.grants().values()
        return [str(each) for each in grant["EndRules"]]

    def test_a_choice_by_key(self):
        terminal, dice = Terminal(self.world, columns=140), self.app()
        self.addCleanup(terminal.close)
        dice.show_picker(item(end="1h", endChoices=["2h", "none"]))
        terminal.wait_for("ends after 1h")
        terminal.type("e")
        terminal.wait_for("ends after 2h")
        terminal.type("e")
        terminal.wait_for("without an end")
        terminal.type("e")
        wait(lambda: "ends after 1h" in "".join(terminal.marked), what="the app's end")
        terminal.type("e\r")
        path = dice.wait_event("accessoryAdded")["accessory"]
        self.assertEqual((terminal.status(), self.rules()), (0, ["2h"]))
        again = Terminal(self.world, columns=140)
        self.addCleanup(again.close)
        dice.request("RenewAccess", "oa{sv}", path, sv({"end": "3h"}))
        again.wait_for("would like to go on using an accessory")
        again.wait_for("Return allow")
        again.type("\r")
        self.assertEqual((again.status(), self.rules()), (0, ["3h"]))
        again.wait_for("renewed")

    def test_a_choice_by_line(self):
        picker, dice = Program(BIN / "accessoryctl", "--bus", self.world.bus.address, "picker", stdin=subprocess.PIPE), self.app()
        self.addCleanup(picker.stop)
        picker.wait_for("waiting for a picker")
        dice.show_picker(item(endChoices=["18:00", "idle 30d"]))
        picker.wait_for("ends to choose from, after the number: 18:00, idle 30d")
        picker.type("1 2h")
        picker.wait_for("not possible: end: 2h: must be one of 18:00, idle 30d")
        picker.type("1 idle 30d")
        dice.wait_event("accessoryAdded")
        self.assertEqual(self.rules(), ["idle 30d"])


class OfManySizes(APITest):
    """More offers than lines: a terminal emulator shows a person's view."""

    COUNT = 22
    scenario = scenario(*(
        accessory(f"die-{number}", number, rssi=-30 - 2 * number, advert={
            "serviceUUIDs": [PINK], "name": f"{number} {NAMES[number % len(NAMES)]}"}) for number in range(1, COUNT + 1)))

    def offered(self, columns, rows, name="温度 Wu\u0308rfel", LC_ALL="C.UTF-8", **more):
        terminal = Terminal(self.world, columns, rows, LC_ALL=LC_ALL)
        self.addCleanup(terminal.close)
        dice = self.app()
        dice.show_picker(item(name, **more))
        picker = self.world.admin.paths("picker")[0]
        wait(lambda: len(self.world.admin.get(picker, PICKER, "Offers")) == self.COUNT, 60, "all offers", also_every=0.05)
        # The tool receives them later: End and Home reach the last and the first offer once all are there.
        offers = self.world.admin.get(picker, PICKER, "Offers")
        for key, offer in (("\x1b[F", offers[-1]), ("\x1b[H", offers[0])):
            def marked():
                if any(f"{offer['rssi']} dBm" in each.replace("−", "-") for each in terminal.marked):
                    return True
                terminal.type(key)
                return False

            wait(marked, 20, lambda: f"{offer['rssi']} dBm to be marked; marked is {terminal.marked}", also_every=0.2)
        return terminal, dice

    def go_to(self, terminal, number):
        """Down, a key at a time, until this offer is marked."""
        while not any(re.search(rf"“{number}\b", each) for each in terminal.marked):
            before = terminal.marked
            terminal.type("\x1b[B")
            wait(lambda: len(terminal.marked) == 1 and terminal.marked != before, what=f"the offer after {before}")

    def check(self, terminal):
        """One offer is marked, in one line, and nothing has scrolled away or wrapped."""
        def look():
            lines = [each.rstrip() for each in terminal.screen.display]
            headings = [index for index, each in enumerate(lines) if each.startswith("Dice would like")]
            return len(terminal.marked) == len(headings) == 1 and "Esc cancel" in " ".join(" ".join(lines[headings[0]:]).split())

        wait(look, 10, lambda: "a sound screen:\n" + "\n".join(terminal.screen.display) + f"\nmarked {terminal.marked}")
        [marked] = terminal.marked
        self.assertRegex(marked, "^[ ↑↓]> ")
        self.assertRegex(marked, "▮")
        rows = [each for each in terminal.screen.display if "▮" in each]
        for each in rows:
            self.assertRegex(each, r"^[ ↑↓][ >] \S")
        return marked, rows

    def test_what_is_marked_is_in_sight(self):
        for columns, rows in SIZES:
            with self.subTest(columns=columns, rows=rows):
                terminal, dice = self.offered(columns, rows)
                seen = [self.check(terminal)[0]]
                for _ in range(self.COUNT - 1):
                    terminal.type("\x1b[B")
                    wait(lambda: terminal.marked and terminal.marked != seen[-1:], 10, "the next one to be marked")
                    seen.append(self.check(terminal)[0])
                self.assertEqual(len({each[1:] for each in seen}), self.COUNT)
                # Marks show that more offers follow below and above, and the way back is the same.
                self.assertTrue(rows > 40 or any(each.startswith("↑") for each in terminal.screen.display), terminal.screen.display)
                for each in reversed(seen[:-1]):
                    terminal.type("\x1b[A")
                    wait(lambda: [each[1:] for each in terminal.marked] == [each[1:]], 10, lambda: f"{each} to be marked; it is {terminal.marked}")
                self.check(terminal)
                self.assertTrue(rows > 40 or any(each.startswith("↓") for each in terminal.screen.display), terminal.screen.display)
                if (columns, rows) == SIZES[-1]:
                    terminal.type("\x1b")
                    self.assertEqual(terminal.status(), 2)
                # A person's cancel would keep the next picker waiting.
                dice.close()
                wait(lambda: not self.world.admin.paths("picker"), what="the picker to end", also_every=0.05)
                terminal.program.kill()

    def test_names_that_are_wider_than_any_terminal(self):
        """One sequence that is drawn as one sign, and a locale in which signs are replaced before they are measured."""
        for name, locale in (("\u1100" * 60, "C.UTF-8"), ("plain long name " * 10, "C"), ("e\u0301" * 40, "C")):
            with self.subTest(name=name, locale=locale):
                terminal, dice = self.offered(40, 12, name[:80], LC_ALL=locale, setupOptions=["rename"])
                wait(lambda: len(terminal.marked) == 1, what="one line to be marked")
                for _ in range(3):
                    terminal.type("\x1b[B")
                wait(lambda: len(terminal.marked) == 1 and sum("Dice would like" in each for each in terminal.screen.display) == 1, what="one heading")
                terminal.type("\r")
                wait(lambda: "called?" in " ".join(terminal.screen.display), what=lambda: "the question; it shows\n" + "\n".join(terminal.screen.display))
                terminal.type("\r")
                dice.wait_event("accessoryAdded", 20)
                self.assertEqual(terminal.status(), 0)
                dice.remove(dice.accessories[0])
                dice.close()

    def test_keys_that_come_all_at_once(self):
        """A key held down while the machine stands still: no divided arrow counts as Escape."""
        terminal, _ = self.offered(80, 24)
        terminal.program.send_signal(signal.SIGSTOP)
        terminal.type("\x1b[B" * 1300)
        terminal.program.send_signal(signal.SIGCONT)
        last = self.world.admin.get(self.world.admin.paths("picker")[0], PICKER, "Offers")[-1]
        wait(lambda: any(f"{last['rssi']} dBm" in each.replace("−", "-") for each in terminal.marked), 20,
             lambda: f"the last one to be marked; it shows\n" + "\n".join(terminal.screen.display))

    def test_what_is_marked_is_what_is_set_up(self):
        terminal, dice = self.offered(40, 12)
        self.check(terminal)
        self.go_to(terminal, 16)
        self.check(terminal)
        terminal.type("\r")
        dice.wait_event("accessoryAdded", 20)
        self.assertEqual(self.simulator.bonds, ["die-16"])

    def test_another_size_meanwhile(self):
        terminal, _ = self.offered(80, 24)
        self.check(terminal)
        self.go_to(terminal, self.COUNT)
        last = self.check(terminal)[0]
        for columns, rows in SIZES:
            with self.subTest(columns=columns, rows=rows):
                terminal.resize(columns, rows)
                marked = wait(lambda: terminal.marked and len([each for each in terminal.screen.display if "▮" in each]) and self.check(terminal)[0], 10,
                              "it to be drawn anew")
                self.assertEqual(marked[1:8], last[1:8])


class LongLists(APITest):
    """An app that asks for as many characteristics as there may be."""

    scenario = scenario(accessory("pink"), accessory("blue", 2, service=BLUE))
    COUNT = 64
    texts = [f"{PINK}/FF3F#{number}:read" for number in range(1, COUNT + 1)]
    many = item(**listed(*(entry("FF3F", "read", instance=number) for number in range(1, COUNT + 1))))

    def asked(self, columns, rows, *others):
        terminal, dice = Terminal(self.world, columns, rows), self.app()
        self.addCleanup(terminal.close)
        dice.show_picker(self.many, *others)
        wait(lambda: terminal.marked and all(name in self.shown(terminal) for name in ("Pink", *("Blue" for _ in others))),
             what=lambda: f"the offers; it shows {self.shown(terminal)}")
        return terminal, dice

    def shown(self, terminal):
        return " ".join(" ".join(terminal.screen.display).split())

    def wait_shown(self, terminal, text):
        wait(lambda: text in self.shown(terminal), what=lambda: f"{text!r}; it shows\n" + "\n".join(terminal.screen.display))

    def test_the_count_and_the_first_ones(self):
        terminal, _ = self.asked(100, 24)
        self.wait_shown(terminal, f"the app can use only 64 characteristics (c lists all): {', '.join(self.texts[:3])}, …")
        self.assertNotIn("#4:read", self.shown(terminal))
        self.wait_shown(terminal, "c characteristics")
        for columns, rows in SIZES:
            with self.subTest(columns=columns, rows=rows):
                terminal.resize(columns, rows)
                self.wait_shown(terminal, "the app can use only 64 characteristics (c lists all)")
                wait(lambda: len(terminal.marked) == 1, what=lambda: "one marked line; it shows\n" + "\n".join(terminal.screen.display))

    def test_all_can_be_seen(self):
        for columns, rows in ((100, 24), (40, 12), (200, 70)):
            with self.subTest(columns=columns, rows=rows):
                terminal, dice = self.asked(columns, rows)
                terminal.type("c")
                self.wait_shown(terminal, "Esc back")
                seen = set()

                def look():
                    # A long one is divided between rows.
                    text = "".join(each.strip() for each in terminal.screen.display)
                    seen.update(number for number, each in enumerate(self.texts, 1) if f"{number}. {each}" in text or f"{number}.{each}" in text)
                    return len(seen) == self.COUNT

                while not look():
                    before = list(terminal.screen.display)
                    terminal.type("\x1b[B")
                    wait(lambda: terminal.screen.display != before and "Esc back" in self.shown(terminal), what=lambda: f"the next row; seen are {seen}")
                # Return ends the list, and picks nothing.
                terminal.type("\x1b[H\r")
                self.wait_shown(terminal, "choose an accessory")
                self.assertEqual(self.world.grants(), {})
                terminal.type("c\x1b[F")
                self.wait_shown(terminal, "64.")
                terminal.type("\x1b")
                self.wait_shown(terminal, "choose an accessory")
                dice.close()
                wait(lambda: not self.world.admin.paths("picker"), what="the picker to end", also_every=0.05)
                terminal.program.kill()

    def test_of_the_marked_one_alone(self):
        terminal, dice = self.asked(100, 30, item("Blue Dice", BLUE))
        if "blue" not in "".join(terminal.marked):
            terminal.type("\x1b[B")
        wait(lambda: "blue" in "".join(terminal.marked), what="the blue one to be marked")
        wait(lambda: "c characteristics" not in self.shown(terminal), what="the key to go")
        terminal.type("c\r")
        self.assertEqual(dice.wait_event("accessoryAdded")["properties"]["DisplayName"], "Blue Dice")

    def test_a_few_are_shown_whole(self):
        terminal, dice = Terminal(self.world, 100, 24), self.app()
        self.addCleanup(terminal.close)
        dice.show_picker(item(**listed(entry("FF3F", "read"), entry("FF40", "write", "listen"))))
        self.wait_shown(terminal, f"the app can use only: {PINK}/FF3F:read, {PINK}/FF40:write+listen")

    def test_by_line(self):
        picker, dice = Program(BIN / "accessoryctl", "--bus", self.world.bus.address, "picker", stdin=subprocess.PIPE), self.app()
        self.addCleanup(picker.stop)
        picker.wait_for("waiting for a picker")
        dice.show_picker(self.many)
        picker.wait_for(re.escape(f"the app can use only 64 characteristics (list 1 shows all): {', '.join(self.texts[:3])}, …"))
        picker.type("list 1")
        picker.wait_for(f"#{self.COUNT}:read$")
        self.assertEqual([each.strip() for each in picker.lines if each.startswith("   ")], self.texts)
        picker.type("list 2")
        picker.wait_for("enter a number from the list")
        picker.type("1")
        dice.wait_event("accessoryAdded")


class Lines(APITest):
    def test_an_offer_that_returns_is_listed_again(self):
        """Under its number, where it is known still."""
        adverts = [{"interval": 0.1, "rssi": -50, "name": "pink", "serviceUUIDs": [PINK], "serviceData": {PINK: data}, **times}
                   for data, times in (("01", {"until": 4}), ("02", {"from": 4, "until": 20}), ("01", {"from": 20}))]
        self.start(scenario(accessory("pink") | {"adverts": adverts}))
        picker = Program(BIN / "accessoryctl", "picker", "--bus", self.world.bus.address, "--plain", stdin=subprocess.PIPE)
        self.addCleanup(lambda: picker.stop(signal.SIGKILL))
        picker.wait_for("waiting for a picker")
        app = self.app()
        data = {f"bluetoothServiceData{key}": dbus.ByteArray(value) for key, value in (("Blob", b"\1"), ("Mask", b"\xff"))}
        app.show_picker(item(**data), discoveryTimeout=3600.0)
        picker.wait_for(r"^1\) ")
        self.world.pass_until(lambda: "1) is gone" in picker.lines, 30, "the offer to go")
        listed = lambda: [line for line in picker.lines if ") Pink Dice" in line]
        self.world.pass_until(lambda: len(listed()) == 2, 30, "the offer to be listed again")
        self.assertTrue(listed()[1].startswith("1) "), listed())
        picker.type("1")
        app.wait_event("accessoryAdded")
