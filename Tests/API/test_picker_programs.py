# SPDX-License-Identifier: Apache-2.0
"""Which programs show pickers: their list, which only they see."""

import os
import time

from harness.clients import Client, Identity
from harness.names import BUS_ERROR, MANAGER, PROPERTIES, ROOT, SOMEBODY_ELSE, error
from harness.pickers import PickerProgram
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest


class Watcher(PickerProgram):
    """Keeps the last signalled list of programs."""

    told = None

    def received(self, signal):
        super().received(signal)
        if signal.member == "PropertiesChanged" and signal.path == ROOT and "Pickers" in signal.arguments[1]:
            self.told = signal.arguments[1]["Pickers"]

    @property
    def programs(self):
        return self.get(ROOT, MANAGER, "Pickers")

    def label(self, text):
        self.call(ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({"label": text}))
        return self


class PickerPrograms(APITest):
    def setUp(self):
        super().setUp()
        self.watcher = Watcher(self.world)
        self.assertEqual(self.watcher.programs, [])

    def wait_told(self, labels, shows=None):
        """Waits until the watcher received these programs, and the one that shows the picker; the property agrees."""
        look = lambda: [str(each["label"]) for each in self.watcher.told or []] == labels and [
            str(each["label"]) for each in self.watcher.told if each["shows"]] == ([] if shows is None else [shows])
        wait(look, what=lambda: f"{labels}, {shows} shows; told was {self.watcher.told}")
        self.assertEqual(self.watcher.told, self.watcher.programs)

    def test_who_is_registered(self):
        before = int(time.time())
        page = Watcher(self.world).label("Page")
        self.wait_told(["Page"])
        terminal = Watcher(self.world).register()
        self.wait_told(["Page", ""])
        [first, second] = self.watcher.programs
        self.assertEqual(first.keys(), {"label", "user", "program", "since", "isYours", "shows"})
        self.assertEqual(str(first["user"]), "root")
        self.assertIn(os.path.realpath("/proc/self/exe"), first["program"])
        self.assertTrue(before <= int(first["since"]) <= int(second["since"]) <= time.time())
        mine = lambda client: [bool(each["isYours"]) for each in client.programs]
        self.assertEqual([mine(page), mine(terminal), mine(self.watcher)], [[True, False], [False, True], [False, False]])
        self.assertEqual([bool(each["isYours"]) for each in page.told], [True, False])

    def test_a_label_that_changes(self):
        page = Watcher(self.world).register()
        self.wait_told([""])
        since = self.watcher.programs[0]["since"]
        page.label("Page")
        self.wait_told(["Page"])
        page.label("Page of root")
        self.wait_told(["Page of root"])
        self.watcher.told = None
        page.label("Page of root")
        page.register()
        self.watcher.settle()
        self.assertIsNone(self.watcher.told)
        self.assertEqual(self.watcher.programs[0]["since"], since)

    def stand_by(self, program, is_standby=True):
        program.call(ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({"standby": is_standby}))

    def test_programs_that_can_be_seen_come_first(self):
        page, terminal = Watcher(self.world).label("Page"), Watcher(self.world).label("Terminal")
        self.stand_by(page)
        self.wait_told(["Terminal", "Page"])
        # A renewal that does not say keeps it.
        page.label("Page")
        self.wait_told(["Terminal", "Page"])
        self.stand_by(terminal)
        self.wait_told(["Page", "Terminal"])
        self.stand_by(terminal, False)
        self.stand_by(page, False)
        self.wait_told(["Page", "Terminal"])
        self.assertFails(error("InvalidRequest"), self.stand_by, page, "yes", says=["standby"])

    def test_a_picker_moves_to_a_program_that_can_be_seen(self):
        page = Watcher(self.world).label("Page")
        app = self.app()
        app.show_picker(item(), discoveryTimeout=float("inf"))
        wait(lambda: page.path, what="the picker")
        # The only program keeps it.
        self.stand_by(page)
        self.wait_told(["Page"], "Page")
        terminal = Watcher(self.world).label("Terminal")
        self.wait_told(["Terminal", "Page"], "Terminal")
        # It does not move between programs that can be seen.
        self.stand_by(page, False)
        self.wait_told(["Page", "Terminal"], "Terminal")
        self.stand_by(terminal)
        self.wait_told(["Page", "Terminal"], "Page")
        page.unregister()
        self.wait_told(["Terminal"], "Terminal")
        terminal.unregister()
        self.assertDismissed(app, "UserCancelled")

    def test_who_shows_a_picker(self):
        page, terminal = Watcher(self.world).label("Page"), Watcher(self.world).label("Terminal")
        app = self.app()
        app.show_picker(item())
        self.wait_told(["Page", "Terminal"], "Page")
        page.wait_stage("offering")
        page.cancel()
        self.wait_told(["Page", "Terminal"])
        app.wait_event("pickerDidDismiss")
        app.show_picker(item())
        self.wait_told(["Page", "Terminal"], "Page")
        page.unregister()
        self.wait_told(["Terminal"], "Terminal")
        page.label("Page")
        self.wait_told(["Terminal", "Page"], "Terminal")
        terminal.close()
        self.wait_told(["Page"], "Page")
        page.close()
        self.wait_told([])

    def test_for_others_there_is_no_such_property(self):
        stranger, app = Client(self.world, Identity("stranger", SOMEBODY_ELSE)), self.app()
        for client in (stranger, app):
            # Now the daemon knows it.
            client.get(ROOT, MANAGER, "Version")
            client.listen_to_everything()
        Watcher(self.world).label("Page")
        app.show_picker(item())
        self.wait_told(["Page"], "Page")
        for client in (stranger, app):
            self.assertNotIn("Pickers", client.get_all(ROOT, MANAGER))
            self.assertNotIn("Pickers", client.introspect(ROOT))
            for call in (lambda name: client.get(ROOT, MANAGER, name),
                         lambda name: client.call(ROOT, PROPERTIES, "Set", "ssv", MANAGER, name, "x")):
                hidden = self.assertFails(BUS_ERROR + "UnknownProperty", call, "Pickers")
                missing = self.assertFails(BUS_ERROR + "UnknownProperty", call, "Colours")
                self.assertEqual(hidden.get_dbus_message().replace("Pickers", "…"), missing.get_dbus_message().replace("Colours", "…"))
            client.settle()
            told = [each.arguments for each in client.signals if each.member == "PropertiesChanged" and each.path == ROOT]
            # Every client learns that there is a program now.
            self.assertEqual([set(changed) | set(gone) for _, changed, gone in told], [{"PickerAvailable"}])
