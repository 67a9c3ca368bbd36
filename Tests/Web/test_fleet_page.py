# SPDX-License-Identifier: Apache-2.0
"""The pickers of other gateways in the page of one: for an operator whose fleet's directory is on this machine."""

import os

from web import WebTest  # first: it knows where the others are

from harness.apps import App
from harness.fleet import Fleet
from harness.names import SOMEBODY
from harness.programs import BIN
from harness.values import item
from harness.waiting import wait
from harness.world import World


class FleetPage(WebTest):
    def setUp(self):
        super().setUp()
        self.fleet = Fleet("gw-1", "gw-2")
        self.addCleanup(self.fleet.close)
        self.elsewhere = World(self.scenario, self.apps)
        self.addCleanup(self.elsewhere.close)
        self.agent = self.fleet.agent(self.elsewhere, "gw-2")
        self.agent.wait_connected()
        changes = {"ACCESSORY_FLEET": str(self.fleet.path), "PATH": f"{BIN}:{os.environ['PATH']}"}
        before = {key: os.environ.get(key) for key in changes}
        os.environ.update(changes)
        self.addCleanup(lambda: [os.environ.pop(key) if value is None else os.environ.update({key: value}) for key, value in before.items()])

    def test_a_picker_of_another_gateway(self):
        page = self.open("fleet")
        page.sees("Fleet", "gw-1", "never seen", "gw-2", "connected")
        page.press("Show the pickers of all gateways")
        wait(lambda: self.elsewhere.manager("PickerAvailable"), 30, "the gateway to show its pickers here", also_every=0.1)
        app = App(self.elsewhere, "dice", SOMEBODY).begin()
        app.show_picker(item("Pink Dice"))
        page.sheet_says("Dice at gw-2 would like to set up an accessory", "Pink Dice")
        page.pick("Pink Dice")
        app.wait_event("accessoryAdded")
        page.sheet_says("Pink Dice is ready to use")
        page.press("Close", "dialog")
        page.no_sheet()
        self.assertEqual(self.world.grants(), {})
        page.press("Stop showing them")
        wait(lambda: not self.elsewhere.manager("PickerAvailable"), 30, "the end of the registration", also_every=0.1)
        self.assertQuiet()

    def test_a_person_cancels(self):
        page = self.open("fleet")
        page.press("Show the pickers of all gateways")
        wait(lambda: self.elsewhere.manager("PickerAvailable"), 30, "the gateway to show its pickers here", also_every=0.1)
        app = App(self.elsewhere, "dice", SOMEBODY).begin()
        app.show_picker(item("Pink Dice"))
        page.sheet_says("Pink Dice")
        page.press("Cancel", "dialog")
        self.assertDismissed(app, "UserCancelled")
        page.no_sheet()
        self.assertQuiet()

    def test_without_a_fleet_there_is_no_section(self):
        del os.environ["ACCESSORY_FLEET"]
        page = self.open()
        page.sees("Policy")
        self.assertNotIn("Fleet", page.text)
        os.environ["ACCESSORY_FLEET"] = "/nonexistent"
