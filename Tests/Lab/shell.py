# SPDX-License-Identifier: Apache-2.0
"""A shell on a pseudo-terminal, for tests that type the documents' commands as a person does: a line at a time, and the keys
that a program in front waits for. The terminal's output is printed here, too, line by line."""

import codecs
import os
import pty
import re
import select
import subprocess
import sys
import termios
from dataclasses import dataclass
from typing import Callable

# The shell, wherever it runs: the command's last words, and its environment. Each prompt begins with the
# exit status of the command before, also in a shell that is started there.
BASH = ("setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i")
ENVIRONMENT = ("TERM=xterm-256color", r"PROMPT_COMMAND=printf '\036%s\036' $?", "PS1=$ ", "HISTFILE=/dev/null")
PROMPT = "\x1e(\\d+)\x1e"
CONTROL_C, CONTROL_D, CONTROL_Z = "\x03", "\x04", "\x1a"
# Only a hang shows nothing for so long.
SILENCE_SECONDS = 7200
# No pattern is longer.
OVERLAP = 4096
# The text of a line before it was drawn anew; and the sequences that move, colour and clear.
DRAWN_OVER = re.compile(r".*(?:\r|\x1b\[2K)(?=.)|\x1b\[[0-9;?]*[A-Za-z]|\r|\x1e\d*")


class Unexpected(Exception):
    """A command did not behave as documented."""


@dataclass
class Step:
    """The expected effects of a command, besides its exit status."""

    # A person's actions meanwhile, the expected output, and conditions afterwards, as commands in the same shell.
    play: Callable = None
    shows: str = ""
    leaves: tuple = ()


def take(terminal, line, step):
    """Returns why a line failed, or nothing."""
    try:
        status, shown = terminal.run(line, step.play)
        if status != 0:
            return f"it ended with status {status}"
        if not re.search(step.shows, shown):
            return f"it showed no “{step.shows}”"
        for each in step.leaves:
            if terminal.run(each)[0] != 0:
                return f"not so afterwards: {each}"
    except (Unexpected, subprocess.CalledProcessError) as failure:
        return str(failure)
    return None


def pick_pink_dice(terminal):
    """In the terminal's picker: the die that pairs without a question."""
    while "Pink Dice" not in terminal.wait_for(r"\x1b\[7m > [^\x1b\r\n]*Dice"):
        terminal.type("\x1b[B")
    terminal.type("\r")


class Shell:
    def __init__(self, *command):
        self._terminal, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (40, 120))
        self._process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._shown, self._seen, self._unprinted = "", 0, ""
        self._wait(PROMPT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # The kernel hangs up, which ends the shell.
        os.close(self._terminal)
        self._process.wait()

    def type(self, keys):
        os.write(self._terminal, keys.encode())

    def run(self, line, play=None):
        """Types a line; `play(shell)` is a person while it runs. Returns the exit status, and all that was shown."""
        self._shown, self._seen = "", 0
        self.type(line + "\n")
        if play:
            play(self)
        end = self._wait(PROMPT)
        return int(end[1]), self._shown[: end.start()]

    def wait_for(self, pattern):
        """Waits until the program in front shows new output; returns it."""
        found = self._wait(f"{PROMPT}|{pattern}")
        if found[1]:
            raise Unexpected(f"it ended with status {found[1]} and had not shown “{pattern}”")
        return found[0]

    def _wait(self, pattern):
        pattern = re.compile(pattern)
        start = self._seen
        while not (found := pattern.search(self._shown, start)):
            start = max(start, len(self._shown) - OVERLAP)
            self._read(pattern)
        self._seen = found.end()
        return found

    def _read(self, pattern):
        if not select.select([self._terminal], [], [], SILENCE_SECONDS)[0]:
            raise Unexpected(f"it showed nothing for {SILENCE_SECONDS} s; “{pattern.pattern}” was to come")
        try:
            read = self._decoder.decode(os.read(self._terminal, 65536))
        except OSError:  # the error of a terminal that no program has open
            raise Unexpected(f"the shell has ended; “{pattern.pattern}” was to come") from None
        self._shown += read
        *lines, self._unprinted = (self._unprinted + read).split("\n")
        for each in lines:
            print(DRAWN_OVER.sub("", each.rstrip("\r")), flush=True)
