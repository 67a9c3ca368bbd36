# SPDX-License-Identifier: Apache-2.0
"""The bus, a picker program, polkit, and bluetoothd for the view answer wrongly. And the table: every call has a journey."""

import importlib
import subprocess
import unittest
from pathlib import Path

from played import CALLS, LEAVING, Played, cases
# `played` makes the harness importable.
from harness.apps import App
from harness.authority import Authority
from harness.clients import Client
from harness.names import GRANT, MANAGER, PINK, ROOT, SESSION, SOMEBODY
from harness.programs import BIN, TESTS, Program
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from view import ADAPTER1, CHARACTERISTIC1, DEVICE1, GATT, View, path_of

# Calls that are not played, and why.
EXEMPT = {
    "bus.hello": "without it there is no connection: the daemon ends, and is started again",
    "bus.match": "nobody waits for its answer on a connection, and the feed for adverts ends without it",
    "bus.matchEnd": "nobody waits for its answer",
    "bus.nameRequest": "without the name the daemon ends, and is started again",
    "extensionStart": "on a connection without a bus: Tests/API/test_extension.py plays it",
    "extensionStop": "the same",
    "viewDiscoveryFilter": "the app's own call, passed on: its answer is the app's",
}


@cases({"credentials_silent"})
class Identified(Played):
    """An app comes."""

    scenario = scenario(accessory("pink"))
    calls = {"credentials": 1, "process": 1}
    without = LEAVING

    def act(self):
        app = App(self.world)
        refused = self.ask(app, ROOT, MANAGER, "CreateSession", "a{sv}", sv({}))
        app.close()
        return "told" if refused else "done"


@cases({"pickerPing_silent"})
class Shown(Played):
    """A picker program reads its offers: it is shown the next ones once it has, or, where it does not say so, all the same."""

    scenario = scenario(accessory("pink"), accessory("second", 2), accessory("third", 3))
    calls = {"pickerPing": 1}
    without = LEAVING

    def act(self):
        for each in ("second", "third"):
            self.simulator.do("vanish", each)
        before = self.dice.event_types.count("pickerDidDismiss")
        self.dice.show_picker(item(), discoveryTimeout=300.0)
        offered = lambda name: self.person.path and any(each["advertisedName"] == name for each in self.person.offers)
        self.told(lambda: offered("pink"), "the first offer")
        for each in ("second", "third"):
            self.simulator.do("return", each)
            self.told(lambda: offered(each), f"{each} to be offered")
        self.cancel()
        self.told(lambda: self.dice.event_types.count("pickerDidDismiss") > before, "the end of the picker")
        return "done"


@cases()
class Owned(Played):
    """The daemon asks the bus who bluetoothd is."""

    scenario = scenario(accessory("pink"))
    calls = {"bus.nameOwner": 1}
    without = LEAVING

    def act(self):
        if self.fault is None:
            return self.set_up("pink")
        self.person.close()
        self.dice.close()
        self.restart()
        self.told(lambda: self.fault.done, "its question")
        self.told(lambda: self.world.manager("Bluetooth") == "ready", "Bluetooth")
        self.prepare()
        return "done"


class Administrator(Played):
    """A user authenticates as an admin, with a simulated polkit."""

    scenario = scenario(accessory("pink"))
    without = LEAVING
    # Whether polkit answers by itself.
    answers = True

    def prepare(self):
        super().prepare()
        self.authority = Authority(Client(self.world), True if self.answers else None)
        self.addCleanup(self.authority.remove_from_connection)

    def begin(self):
        return Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", "busctl", "--timeout=300",
            f"--address={self.world.bus.address}", "call", "org.accessorysetup1", f"{ROOT}/admin", "org.accessorysetup1.Admin",
            "GetAudit", "a{sv}", "0")


@cases({"authorization_lost"})
class Authorized(Administrator):
    """It is answered; a question that is not answered in time is taken back."""

    calls = {"authorization": 1}

    def act(self):
        before = len(self.authority.asked)
        done = self.begin()
        # A person has 180 s for a password.
        self.told(lambda: not done.running, "busctl to end", limit=190)
        done.wait_end()
        self.authority.client.settle()
        # A question that is silenced has not come to polkit; its end has.
        ended = self.fault is not None and self.fault.kind in ("silent", "lost", "late")
        self.assertEqual(len(self.authority.ended), 1 if ended else 0)
        if ended and self.fault.kind != "silent":
            self.assertEqual(self.authority.ended, [each.cancellation for each in self.authority.asked[before:]])
        self.authority.ended.clear()
        return "done"


@cases({"authorizationEnd_silent"})
class Withdrawn(Administrator):
    """Who asked goes before the person has answered."""

    calls = {"authorizationEnd": 1}
    answers = False

    def act(self):
        before = len(self.authority.asked)
        done = self.begin()
        self.told(lambda: len(self.authority.asked) > before, "polkit to be asked")
        done.stop()
        # An answer of the proxy itself does not reach polkit: there the question stays until the person answers.
        comes = self.fault is None or self.fault.kind not in ("error", "silent")
        self.told(lambda: self.authority.ended if comes else self.fault.done, "the question to be withdrawn")
        (question,) = self.authority.asked[before:]
        self.assertEqual(self.authority.ended, [question.cancellation] if comes else [])
        if not comes:
            self.authority.decide(question, True)
        self.authority.ended.clear()
        return "done"


@cases({"viewLink_odd"})
class Viewed(Played):
    """An app uses its accessory through the view."""

    apps = ("dice", "board")
    scenario = scenario(accessory("pink", 1, gatt=GATT), accessory("other", 2, gatt=GATT))
    # The first Disconnect is the app's own; the radio reads all objects for its search, too.
    calls = {"viewObjects": 1, "viewClientObjects": 6, "viewLink": 1, "viewDisconnect": 2, "viewStopNotify": 1}

    def prepare(self):
        super().prepare()
        self.device = path_of(1)
        self.begin()

    def begin(self):
        self.assertEqual(self.set_up("pink"), "done")
        self.world.admin.call(self.device, DEVICE1, "Disconnect", to="org.bluez")

    def act(self):
        client = View(self.world)
        client.listen_to_everything()
        outcome = "done"
        if self.ask(client, "/", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", to="org.bluez"):
            outcome = "told"
        for member in ("Connect", "Disconnect", "Connect"):
            if self.ask(client, self.device, DEVICE1, member, to="org.bluez"):
                outcome = "told"
        # Without an adapter there is nothing in it.
        trees = []
        client._connection.call_async("org.bluez", "/", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", "", (), trees.append,
                                      lambda _: trees.append({}), timeout=200)
        self.told(lambda: trees, "the tree")
        found = next((str(path) for path, each in trees[0].items() if CHARACTERISTIC1 in each), None)
        if found:
            self.ask(client, found, CHARACTERISTIC1, "StartNotify", to="org.bluez")
        # A second accessory comes, then all go.
        if self.set_up("other") != "done":
            outcome = "told"
        for grant in self.world.grants():
            self.world.admin.call(grant, GRANT, "Revoke")
        client.close()
        return outcome

    def again(self):
        self.tidy()
        self.begin()
        super().again()


class Table(unittest.TestCase):
    def test_every_call_has_a_journey(self):
        played = set(EXEMPT)
        for file in Path(__file__).parent.glob("test_*.py"):
            for each in vars(importlib.import_module(file.stem)).values():
                if isinstance(each, type) and issubclass(each, Played):
                    played |= set(each.calls)
        self.assertEqual(sorted(set(CALLS) - played), [], "calls that no journey makes")
        self.assertEqual(sorted(played - set(CALLS)), [], "no calls of the daemon's")

    def test_the_document_is_what_the_list_says(self):
        made = subprocess.run([BIN / "list-calls", "--markdown"], check=True, capture_output=True, text=True).stdout
        self.assertEqual((TESTS.parent / "Docs/Calls.md").read_text(), made, "make calls")


if __name__ == "__main__":
    unittest.main()
