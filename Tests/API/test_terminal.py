# SPDX-License-Identifier: Apache-2.0
"""The terminal picker on a terminal: a pseudo-terminal here, with the keys of a person, and the product image drawn in it."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

from gi.repository import GLib

from harness.images import PRODUCT, SVG, png
from harness.names import BLUE
from harness.programs import BIN
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest


class Terminal:
    """accessoryctl picker on a pseudo-terminal; `text` is everything that it has written."""

    def __init__(self, world, **environment):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.program = subprocess.Popen(
            [BIN / "accessoryctl", "--bus", world.bus.address, "picker"], stdin=theirs, stdout=theirs, stderr=theirs,
            env={"PATH": os.environ["PATH"], "TERM": "xterm-256color", **environment}, start_new_session=True)
        os.close(theirs)
        self.text = ""
        self._bytes = b""
        self._is_open = True
        self._watch = GLib.io_add_watch(self._ours, GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, self._read)
        self.wait_for("Waiting for an app")

    def _read(self, *_):
        try:
            self._bytes += os.read(self._ours, 65536)
        except OSError:
            self._is_open = False
            return False
        self.text = self._bytes.decode(errors="replace")
        return True

    def wait_for(self, text, seconds=10):
        wait(lambda: text in self.text, seconds, lambda: f"{text!r} on the terminal; it shows {self.text[-600:]!r}")

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
