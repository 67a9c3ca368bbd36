# SPDX-License-Identifier: Apache-2.0
"""A random life by a seed, step by step, and the invariants that hold after each step: apps and pickers come and go, accessories of all kinds
are set up, shared, named, switched off and taken away, rules change; and meanwhile apps, pickers and the daemon are killed, bluetoothd
ends, adapters are unplugged, the disk is full, the date jumps. `soak` has it lived on the simulator, the lab on a real bluetoothd
(Tests/Lab/checks/soak.py)."""

import contextlib
import errno
import os
import random
import signal
import sqlite3
import sys
from collections import Counter
from pathlib import Path

import dbus

sys.path.append(str(Path(__file__).resolve().parent.parent / "Resources"))

from shortage import ShortWorld

from harness.apps import App
from harness.clients import Client, Identity
from harness.names import ACCESSORY, APP, GRANT, OBJECT_MANAGER, PICKER, PINK, PNG, PROPERTIES, SESSION, SOMEBODY, SOMEBODY_ELSE
from harness.pickers import PickerProgram
from harness.radio import Paired, accessory, scenario
from harness.values import item, sv
from harness.waiting import wait

APPS = {"dice": SOMEBODY, "board": SOMEBODY_ELSE, "lamp": SOMEBODY}
# The accessory that rules deny.
DENIED = "asks"
# The daemon may be ended in this part of a life, and is not afterwards: memory is measured over one of its lives.
MORTAL = 0.4
SCENARIO = scenario(
    accessory("just", 1), accessory("asks", 2, pairing={"mode": "numericComparison"}), accessory("plain", 3), accessory("slow", 4, pairing={
        "fault": "slow", "delay": 0.1}), accessory("private", 5, addressType="rpa"), accessory("refuses", 6, pairing={"fault": "refuse"}),
    accessory("theirs", 7))


class Soak:
    """A world, its clients, and their actions. Each step leaves it idle: no picker is shown, every client that ended is there again."""

    def __init__(self, seed, world=None):
        self.chance = random.Random(seed)
        self.world = world or ShortWorld(SCENARIO, tuple(APPS))
        self.simulator, self.admin = self.world.simulator, self.world.admin
        self.world.daemon.stop()
        self.fill_store()
        self.world.start_daemon()
        with Paired(self.world, "/org/bluez/hci0/dev_C0_FF_EE_00_02_07"):
            pass
        self.others = {"theirs"}
        self.apps, self.people = {}, []
        # The app that the rule denies, if there is one.
        self.denied = None
        self.done = Counter()
        # The last step, and the daemon's log, to report when the next step fails.
        self.last = ""
        self.said = []
        # Whether the daemon may be ended; memory is measured over one of its lives.
        self.is_mortal = True
        # The trail so far: its last line, and the grants.
        self.read, self.having = 0, {}
        self.begin()

    def fill_store(self):
        """Each share of the trail is full (Docs/Storage.md): each addition replaces a row, in the store and in SQLite's
        cache."""
        full = [("renamed", "dice", 20_000), ("refused", "dice", 2000)] + [("pickerShown", app, 2000) for app in APPS]
        with contextlib.closing(sqlite3.connect(self.world.state / "grants.sqlite")) as store, store:
            store.executemany("INSERT INTO audit (time, event, app, accessory, who, why) VALUES (1, ?, ?, NULL, ?, 'x')", [
                (event, f"com.example.{app}", "x" * 200) for event, app, count in full for _ in range(count)])

    def begin(self):
        """All clients are there: apps with a session, and a person."""
        for name, uid in APPS.items():
            if name not in self.apps:
                self.apps[name] = App(self.world, name, uid).begin()
        while len(self.people) < 2:
            self.people.append(PickerProgram(self.world, Identity("shower", 0)).register())

    def end(self, client):
        client.close()
        self.world.clients.remove(client)
        self.apps = {name: each for name, each in self.apps.items() if each is not client}
        self.people = [each for each in self.people if each is not client]

    def clear(self):
        # Late events would be taken for the next step's.
        for client in list(self.apps.values()) + self.people:
            client.settle()
        Client.take_in()
        self.said = self.world.daemon.lines[-40:] or self.said
        self.world.daemon.lines.clear()
        self.simulator.lines.clear()
        for client in self.world.clients:
            client.signals.clear()

    # Faults in the middle of a set-up, and its required course then.

    def restart_daemon(self, number=signal.SIGKILL):
        self.world.daemon.stop(number)
        for client in list(self.apps.values()) + self.people:
            self.end(client)
        self.world.start_daemon()
        # SQLite's cache has the whole trail again.
        self.world.trail()

    def troubles(self):
        mortal = {
            "the daemon is killed": self.restart_daemon,
            "the daemon is restarted": lambda: self.restart_daemon(signal.SIGTERM),
        }
        return (mortal if self.is_mortal else {}) | {
            "the app is killed": lambda: self.end(self.app),
            "the picker is killed": lambda: self.end(self.people[0]),
            "bluetoothd ends": lambda: self.lose_bluetooth("absent", "serviceStopped"),
            "the adapter is off": lambda: self.lose_bluetooth("off", "adapterPowerOff", "hci0"),
            "the adapter is unplugged": lambda: self.lose_bluetooth("absent", "adapterRemoved", "hci0"),
            "the accessory vanishes": lambda: self.simulator.do("vanish", self.target),
            "the disk is full": lambda: self.world.shortage.fail(self.world.state, errno.ENOSPC),
            "the date jumps": lambda: self.world.jump(self.chance.choice((-1, 1)) * 86_400 * 10),
            "a minute passes": lambda: self.world.pass_time(60),
            "the person cancels": lambda: self.call(lambda: self.showing.cancel()),
            "the app calls it off": lambda: self.call(lambda: self.app.request("CancelPicker")),
            "another picker": self.show_another,
        }

    def mend(self):
        """Restores the world, and all its clients."""
        self.world.shortage.end()
        if self.simulator.bluetooth == "absent":
            with contextlib.suppress(dbus.DBusException):
                self.simulator.do("serviceStarted")
            with contextlib.suppress(dbus.DBusException):
                self.simulator.do("adapterAdded", "hci0")
        if self.simulator.bluetooth == "off":
            self.simulator.do("adapterPowerOn", "hci0")
        self.world.wait_bluetooth("ready")
        for each in SCENARIO["accessories"]:
            with contextlib.suppress(dbus.DBusException):
                self.simulator.do("return", each["id"])
        self.begin()

    def call(self, function):
        """Whether it was not refused."""
        try:
            function()
            return True
        except dbus.DBusException:
            return False

    def lose_bluetooth(self, state, *action):
        """The daemon has seen it, too: else it would be ready as it was before when all is mended, and only then not ready."""
        self.simulator.do(*action)
        self.world.wait_bluetooth(state)

    def show_another(self):
        """Refused while the app shows one; where that has ended, and no client has received the event yet, there is another one to be ended."""
        if self.call(lambda: self.app.show_picker(item())):
            self.shown += 1

    @property
    def showing(self):
        return next((each for each in self.people if each.path), self.people[0])

    # The steps.

    def a_set_up(self):
        self.target = self.chance.choice([each["id"] for each in SCENARIO["accessories"] if each["id"] != "theirs"])
        name = self.chance.choice(list(APPS))
        self.app = self.apps[name]
        options = self.chance.choice(([], ["confirmAuthorization"], ["rename"], ["confirmAuthorization", "rename"]))
        troubles = self.troubles()
        trouble = self.chance.choice(sorted(troubles)) if self.chance.random() < 0.5 else None
        moment = self.chance.choice(("searching", "offering", "pairing", "confirming", "renaming"))
        self.app.show_picker(item(pairs=self.target != "plain", productImage=PNG, setupOptions=options), discoveryTimeout=30.0)
        self.shown = 1
        done = set()

        def once(what, act):
            if what not in done and self.call(act):
                done.add(what)

        def look():
            nonlocal trouble
            ended = self.app.event_types.count("pickerDidDismiss")
            if self.app not in self.world.clients or ended == self.shown:
                return True
            person = next((each for each in self.people if each.path), None)
            if person is None:
                return False
            stage = str(person.state.get("Stage"))
            if trouble and stage == moment:
                happens, trouble = trouble, None
                done.add(happens)
                troubles[happens]()
                return False
            prompt = str(person.state.get("Prompt", {}).get("kind", ""))
            tries = self.app.event_types.count("pickerSetupFailed")
            is_full = "the disk is full" in done
            if stage in ("offering", "failed", "searching"):
                offer = next((each for each in person.offers if each["advertisedName"] == self.target), None)
                if tries > 1 or ended or is_full or "the accessory vanishes" in done:
                    once(("cancel", ended), person.cancel)
                elif offer:
                    once(("pick", tries), lambda: person.ask("Pick", "s", offer["id"]))
                elif stage == "offering" and self.is_kept_back(name):
                    once(("cancel", ended), person.cancel)
                elif stage == "searching" and self.is_kept_back(name):
                    self.world.pass_time(31)
            elif prompt == "confirm-passkey":
                once(("prompt", tries), lambda: person.respond(accept=True))
            elif stage == "renaming":
                once("name", lambda: person.ask("Rename", "s", f"Name {self.chance.randrange(100)}"))
                # It could not be written, and is asked for again.
                if is_full and "name" in done:
                    once("no name", person.cancel)
            elif "accessoryAdded" in self.app.event_types:
                added = dbus.ObjectPath(self.app.wait_event("accessoryAdded")["accessory"])
                once("finish", lambda: self.app.request("FinishAuthorization", "oa{sv}", added, sv({})))
                # It was refused, and the accessory waits for its app after the picker.
                if is_full and stage == "confirming" and "finish" not in done:
                    once("no finish", person.cancel)
            return False

        wait(look, 60, lambda: f"the end of a set-up of {self.target} for {name}; came {self.app.event_types}, {self.showing.stages}, {done}", 0.05)
        ended = [each for each in done if each in troubles]
        return ended[0] if ended else "undisturbed"

    def is_kept_back(self, name):
        """Whether the target is not offered: the app has it, or a rule denies it."""
        if name == self.denied and self.target == DENIED:
            return True
        grants = self.world.grants().values()
        return any(each["App"] == f"com.example.{name}" and self.names().get(str(each["Accessory"])) == self.target for each in grants)

    def names(self):
        """Accessories → whom the simulator calls so."""
        devices = {each["address"]: each["id"] for each in SCENARIO["accessories"]}
        return {path: devices.get(str(self.admin.get(path, ACCESSORY, "Address"))) for path in self.admin.paths("accessory")}

    def some_grant(self):
        return self.chance.choice(sorted(self.world.grants()) or [None])

    def a_removal(self):
        app = self.apps[self.chance.choice(list(APPS))]
        if not app.accessories:
            return "nothing to remove"
        app.remove(self.chance.choice(app.accessories))

    def a_revocation(self):
        if grant := self.some_grant():
            self.admin.call(grant, GRANT, "Revoke")

    def the_switch(self):
        if grant := self.some_grant():
            self.admin.call(grant, PROPERTIES, "Set", "ssv", GRANT, "Enabled", self.chance.random() < 0.6)

    def a_name(self):
        if paths := self.admin.paths("accessory"):
            self.admin.call(self.chance.choice(paths), ACCESSORY, "Rename", "s", f"Name {self.chance.randrange(100)}")

    def a_rule(self):
        self.world.policy.mkdir(exist_ok=True)
        rule = self.world.policy / "10-site.conf"
        if self.denied:
            rule.unlink()
            self.denied = None
        else:
            self.denied = self.chance.choice(list(APPS))
            rule.write_text(f"[Deny it]\nApp=com.example.{self.denied}\nBluetoothServiceUUID={PINK}\nBluetoothNameSubstring={DENIED}\n")
        self.world.pass_time(1)

    def an_app_that_comes_again(self):
        self.end(self.apps[self.chance.choice(list(APPS))])

    def a_client_of_the_view(self):
        client = Client(self.world, Identity(self.chance.choice(list(APPS))), self.world.view)
        self.call(lambda: client.call("/", OBJECT_MANAGER, "GetManagedObjects", to="org.bluez"))
        self.end(client)

    def a_restart_of_bluetoothd(self):
        self.lose_bluetooth("absent", "serviceStopped")

    def some_hours(self):
        for _ in range(10):
            self.world.pass_time(360)

    STEPS = {"a_set_up": 10, "a_removal": 4, "a_revocation": 2, "the_switch": 3, "a_name": 3, "a_rule": 1, "an_app_that_comes_again": 2,
             "a_client_of_the_view": 2, "a_restart_of_bluetoothd": 1, "some_hours": 1}

    def step(self):
        name = self.chance.choices(list(self.STEPS), self.STEPS.values())[0]
        came = getattr(self, name)()
        self.mend()
        self.check()
        self.clear()
        self.last = name.replace("_", " ") + (f": {came}" if came else "")
        self.done[self.last] += 1

    # The invariants.

    def check(self):
        wait(lambda: not self.admin.paths("picker"), 40, "the pickers to end", also_every=0.05)
        for person in self.people:
            person.wait_gone()
        objects = self.admin.objects()
        grants = {path: each[GRANT] for path, each in objects.items() if GRANT in each}
        accessories = {path: each[ACCESSORY] for path, each in objects.items() if ACCESSORY in each}
        # The tree is the ledger.
        assert {str(each["Accessory"]) for each in grants.values()} == set(accessories), (grants.keys(), accessories.keys())
        for path, each in accessories.items():
            having = sorted(str(grant["App"]) for grant in grants.values() if grant["Accessory"] == path)
            assert sorted(map(str, each["Apps"])) == having, (path, each["Apps"], having)
        assert len([path for path, each in objects.items() if SESSION in each]) == len(APPS)
        assert not [path for path, each in objects.items() if PICKER in each]
        assert len([path for path, each in objects.items() if APP in each]) == len(APPS)
        # Each bond is the ledger's, or another program's.
        names = self.names()
        held = self.others | {names[path] for path, each in accessories.items()
                              if "bluetoothPairingLE" in each["Descriptor"].get("supportedOptions", [])}
        wait(lambda: set(self.simulator.bonds) == held, 40, lambda: f"the bonds {held}; there are {self.simulator.bonds}", also_every=0.05)
        wait(lambda: not self.simulator.discovering, 40, "discovery to end", also_every=0.05)
        # The trail gives the present grants.
        lines = self.world.trail(200)
        if lines and lines[0][0] > self.read + 1:
            lines = self.world.trail()
        having = self.having
        for number, event, app, accessory in lines:
            if number <= self.read:
                continue
            self.read = number
            if event == "granted":
                assert (app, accessory) not in having, (app, accessory)
                having[app, accessory] = True
            elif event in ("enabled", "disabled"):
                assert having[app, accessory] is (event == "disabled"), (app, accessory, event)
                having[app, accessory] = event == "enabled"
            elif event == "revoked":
                del having[app, accessory]
        ledger = {(str(each["App"]), str(each["Accessory"]).rsplit("/", 1)[1].replace("_", "-")): bool(each["Enabled"])
                  for each in grants.values()}
        assert having == ledger, (having, ledger)

    # Resources.

    def held(self):
        """Bytes, descriptors and match rules without clients, accessories and pending timers."""
        for accessory in self.admin.paths("accessory"):
            self.admin.call(accessory, ACCESSORY, "Remove")
        self.check()
        for client in list(self.apps.values()) + self.people:
            self.end(client)
        for _ in range(3):
            self.world.pass_time(70)
        self.clear()
        descriptors = len(os.listdir(f"/proc/{self.world.pid}/fd"))
        rules = self.admin.call("/org/freedesktop/DBus", "org.freedesktop.DBus.Debug.Stats", "GetAllMatchRules", to="org.freedesktop.DBus")
        daemons = {str(self.admin.call("/org/freedesktop/DBus", "org.freedesktop.DBus", "GetNameOwner", "s", name, to="org.freedesktop.DBus"))
                   for name in ("org.accessorysetup1",)}
        bytes_held = self.world.shortage.now.bytes
        self.begin()
        self.clear()
        return bytes_held, descriptors, sum(len(rules[each]) for each in daemons)


def slope(points):
    """Least squares: of the second numbers over the first, with its standard error."""
    n = len(points)
    x, y = (sum(each[i] for each in points) / n for i in (0, 1))
    spread = sum((each[0] - x) ** 2 for each in points)
    rise = sum((each[0] - x) * (each[1] - y) for each in points) / spread
    rest = sum((each[1] - y - rise * (each[0] - x)) ** 2 for each in points)
    return rise, (rest / max(1, n - 2) / spread) ** 0.5
