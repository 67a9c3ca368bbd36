# SPDX-License-Identifier: Apache-2.0
"""People with accounts on a machine with systemd, and the terminals at which they log in: by PAM and with a password, each in
a session of logind's."""

import codecs
import os
import pty
import re
import signal
import subprocess
import termios
import threading
import time
from pathlib import Path

from gi.repository import GLib

from lab import expect

# A member of the group, which the guest already has; a user without rights, and one with sudo, created at the first
# need.
PERSON, NEIGHBOUR, ADMINISTRATOR = "person", "neighbour", "administrator"
GROUPS = {NEIGHBOUR: "", ADMINISTRATOR: "sudo"}
PASSWORD = "open sesame 2"
LOGIN_DEFINITIONS = Path("/etc/login.defs")


def prepare(machine):
    """With accounts that can log in. The lab's guest has none: until users may log in, PAM admits only root."""
    machine.systemctl("unmask", "systemd-user-sessions.service", "systemd-logind.service")
    machine.systemctl("start", "systemd-user-sessions.service")
    if not Path("/home", ADMINISTRATOR).exists():
        for name, groups in GROUPS.items():
            machine.run("useradd", "--create-home", "--shell", "/bin/bash", "--groups", groups, name)
        for each in (PERSON, *GROUPS):
            set_password(each, PASSWORD)
        # Debian gives a login one minute, with all that PAM does in it. Emulated beside other guests it takes longer.
        lines = LOGIN_DEFINITIONS.read_text().splitlines(keepends=True)
        LOGIN_DEFINITIONS.write_text("".join(each for each in lines if not each.startswith("LOGIN_TIMEOUT")) + "LOGIN_TIMEOUT 600\n")


def set_password(user, password):
    subprocess.run(["chpasswd"], input=f"{user}:{password}\n", text=True, check=True)


class Terminal:
    """A terminal on which a user has logged in and types. Its output is kept in <name>.log and can be waited for, also
    where no line has ended yet."""

    def __init__(self, machine, user):
        self.user = user
        self._machine = machine
        self._shown = ""
        self._searched = 0
        self._ended = False
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (50, 1000))  # so that no line is broken
        # Which ends with the terminal: the kernel hangs up.
        self._login = subprocess.Popen(["setsid", "--ctty", "--wait", "login", user], stdin=slave, stdout=slave, stderr=slave,
                                       env={"PATH": os.environ["PATH"], "TERM": "dumb"})
        os.close(slave)
        threading.Thread(target=self._read, args=(machine.logs / f"terminal-{user}.log",), daemon=True).start()
        self.wait_for_password_prompt()
        self.type(PASSWORD)
        # A prompt of our own, so that it is known by its end.
        self.wait_for(r"\$ $", 90)
        self.type("PS1='ready> '; unset PROMPT_COMMAND")
        self.wait_for(r"\nready> $", 30)

    def _read(self, path):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with path.open("a") as log:
            while True:
                try:
                    data = os.read(self._master, 4096)
                except OSError:  # the error of a terminal without a process
                    if self._login.poll() is not None:
                        break
                    # Debian 13's login hangs it up and opens it anew, and there is no event for that.
                    time.sleep(0.02)
                    continue
                text = decoder.decode(data).replace("\r", "")
                log.write(text)
                log.flush()
                self._shown += text
                GLib.MainContext.default().wakeup()
        self._ended = True
        GLib.MainContext.default().wakeup()

    @property
    def shown(self):
        """All that it has shown."""
        return self._shown

    def wait_for(self, pattern, seconds=30):
        """Waits for output after the last match; returns the match."""
        found = None

        def look():
            nonlocal found
            found = re.search(pattern, self._shown[self._searched :])
            return found or self._ended

        self._machine.wait_until(look, seconds, f"the terminal of {self.user} to show “{pattern}”")
        expect(found, f"the terminal of {self.user} ended without “{pattern}”, after {self._shown[-300:]!r}")
        self._searched += found.end()
        return found

    def wait_for_password_prompt(self):
        """And until the terminal does not echo any more: earlier input is discarded then."""
        self.wait_for("Password: $", 60)
        self._machine.wait_until(lambda: not termios.tcgetattr(self._master)[3] & termios.ECHO, 30, "the terminal to be silent", every=0.05)

    def type(self, text, end="\n"):
        os.write(self._master, (text + end).encode())

    def press(self, letter):
        """A letter, with the key Ctrl."""
        self.type(chr(ord(letter) & 0x1F), "")

    def begin(self, *words):
        """Has the shell run something; `finish` waits for its end."""
        self.type(" ".join(map(str, words)) + "; echo status $?")
        self.wait_for(r"status \$\?\n")  # as it was typed

    def finish(self, seconds=60):
        """Waits for its end; returns the exit status and the output since."""
        found = self.wait_for(r"(?s)(.*?)status (\d+)\nready> ", seconds)
        return int(found[2]), found[1]

    def interrupt(self):
        """By the key Ctrl-C. The shell then skips the following commands."""
        self.press("C")
        self.wait_for(r"\nready> ", 30)

    def run(self, *words, seconds=60):
        self.begin(*words)
        return self.finish(seconds)

    def close(self):
        """The user leaves without logging out."""
        self._login.send_signal(signal.SIGKILL)
        self._login.wait()
