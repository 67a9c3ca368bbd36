# SPDX-License-Identifier: Apache-2.0
"""The rows of the table as steps, for the simulator and for the lab: the commands to a client's program, and the required result. A row that
succeeds is "yes"; otherwise it raises `Differs` with the client's actual behavior."""

ROLLS = "0000ff3f-0000-1000-8000-00805f9b34fb"
WRITTEN = "0000ff40-0000-1000-8000-00805f9b34fb"
ENDS = ("disconnected", "bluez gone", "bus gone")


class Differs(Exception):
    """It did this instead."""


class Rows:
    """`world` is where the client is:
    `lines` of its program and whether that is `silent` (has ended), `type(line)`, `wait(happens, what)`;
    the accessory: `address`, `service`, `values` that it may have, `is_linked()`;
    `switch(enabled)` the grant, `restart_daemon()`, `stop_bluetoothd()`, `start_bluetoothd()`."""

    def __init__(self, world, expected):
        """`expected` gives the expected result of each row."""
        self.world = world
        self.expected = expected

    def observe(self, row):
        """The result of a row."""
        self.well = self.expected(row) == "yes"
        try:
            getattr(self, row.replace(" ", "_"))()
        except Differs as differs:
            return str(differs)
        return "yes"

    # Speaking with the program

    @property
    def count(self):
        return len(self.world.lines)

    def hear(self, *lines, since=0):
        """Waits for any of the lines."""
        self.world.wait(lambda: self.world.silent or any(each in lines for each in self.world.lines[since:]), " or ".join(lines))
        if not any(each in lines for each in self.world.lines[since:]):
            raise Differs("ended: " + " ".join(self.world.lines[-1:]))

    def ask(self, *words):
        seen = self.count
        self.world.type(" ".join(words))

        def answered():
            found = next((line for line in self.world.lines[seen:] if line.split()[:2] in (["ok", words[0]], ["failed", words[0]])), None)
            return found or self.world.silent and "ended: " + " ".join(self.world.lines[-1:])

        return self.world.wait(answered, f"the answer to {words[0]}")

    def does(self, *words):
        """Must be answered well; the rest of the answer."""
        answer = self.ask(*words)
        if not answer.startswith("ok "):
            raise Differs(answer)
        return answer.split()[2:]

    def works(self, good, *words):
        """As programs do, again and again until it does; one that cannot has one try."""
        def tried():
            answer = self.ask(*words)
            return answer if good(answer) or answer.startswith("failed ") and not self.well else None

        answer = self.world.wait(tried, f"{words[0]} to work")
        if not good(answer):
            raise Differs(answer)

    # Common to rows

    def begin(self):
        self.does("connect", self.world.address)

    def begin_again(self):
        """When the client lists the accessory again."""
        self.works(lambda answer: answer.startswith("ok ") and self.world.address in answer, "list")
        self.works(lambda answer: answer == "ok connect", "connect", self.world.address)

    def reads(self):
        """A value that there may be: the notifications change it."""
        answer = self.does("read", ROLLS)
        if len(answer) != 1 or answer[0] not in self.world.values:
            raise Differs(f"read {' '.join(answer)}")

    def rolls(self):
        """Three values arrive from here on."""
        since = self.count
        self.world.wait(
            lambda: self.world.silent or sum(line.startswith("value ") for line in self.world.lines[since:]) >= 3, "values")

    def notifies(self):
        self.does("notify", ROLLS)
        self.rolls()

    def notifies_if_it_can(self):
        """A client that cannot has its own row in the results."""
        if self.expected("notify") == "yes":
            self.notifies()
            return True
        return False

    def cut_off(self):
        """The grant is switched off: the client says that the link has ended, if it ever does, and reads no more. Returns the answer to
        that. (A read that is on its way at that moment is another matter: SimpleBLE may never come back from it.)"""
        since = self.count
        self.world.switch(False)
        if self.expected("grant off") == "yes":
            self.hear("disconnected", since=since)
        while (answer := self.ask("read", ROLLS)).startswith("ok "):
            pass
        if "disconnected" not in self.world.lines[since:]:
            return f"says nothing; {answer}"
        return "yes"

    # The rows

    def list(self):
        found = self.does("list")
        if found != [self.world.address]:
            raise Differs(f"list {' '.join(found)}")

    def connect(self):
        self.begin()
        if not self.world.is_linked():
            raise Differs("no link")

    def services(self):
        self.begin()
        found = self.does("services")
        if self.world.service not in found:
            raise Differs(f"services {' '.join(found)}")

    def read(self):
        self.begin()
        self.reads()

    def write(self):
        self.begin()
        for value in ("2a2b", "2c"):
            self.does("write", WRITTEN, value)
            if (answer := self.does("read", WRITTEN)) != [value]:
                raise Differs(f"read {' '.join(answer)}")

    def notify(self):
        self.begin()
        self.notifies()

    def disconnect(self):
        self.begin()
        self.does("disconnect")
        self.world.wait(lambda: not self.world.is_linked(), "the link to end")

    def grant_off(self):
        self.begin()
        self.notifies_if_it_can()
        if (found := self.cut_off()) != "yes":
            raise Differs(found)

    def grant_on(self):
        self.begin()
        notifies = self.notifies_if_it_can()
        self.cut_off()
        self.world.switch(True)
        self.begin_again()
        self.reads()
        if notifies:
            self.notifies()

    def daemon_restart(self):
        self.begin()
        notifies = self.notifies_if_it_can()
        since = self.count
        self.world.restart_daemon()
        self.reads()
        if notifies:
            self.rolls()
        if said := [each for each in self.world.lines[since:] if each in ENDS]:
            raise Differs(f"says {', '.join(said)}")

    def bluetoothd_restart(self):
        self.begin()
        notifies = self.notifies_if_it_can()
        self.world.stop_bluetoothd()
        self.world.start_bluetoothd()
        self.begin_again()
        self.reads()
        if notifies:
            self.notifies()
