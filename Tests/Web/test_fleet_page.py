# SPDX-License-Identifier: Apache-2.0
"""The pickers of other gateways in the page of one: for an operator whose fleet's directory is on this machine."""

import os

from web import WebTest  # first: it knows where the others are

from harness.apps import App
from harness.fleet import Fleet, air, bond
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

    def test_an_accessory_that_two_gateways_hear(self):
        """Both are bonded with it: it is shown once, and the gateway that hears it best sets it up."""
        worlds = [World(air(strength), self.apps) for strength in (-70, -50)]
        for world, gateway in zip(worlds, ("gw-3", "gw-4")):
            self.addCleanup(world.close)
            bond(world)
            self.fleet.add(gateway)
        self.fleet.restart_broker()
        for world, gateway in zip(worlds, ("gw-3", "gw-4")):
            self.fleet.agent(world, gateway).wait_connected()
        page = self.open("fleet")
        page.press("Show the pickers of all gateways")
        apps = []
        for world in worlds:
            wait(lambda: world.manager("PickerAvailable"), 30, "the gateway to show its pickers here", also_every=0.1)
            apps.append(App(world, "dice", SOMEBODY).begin())
            apps[-1].show_picker(item("Die"))
        page.sheet_says("Dice at gw-3 would like to set up an accessory", "pink", "Already paired by another program · Also at: gw-4", "other")
        page.pick("pink")
        apps[1].wait_event("accessoryAdded")
        page.sheet_says("Die is ready to use")
        page.press("Close", "dialog")
        self.assertEqual(worlds[0].grants(), {})
        # The other gateway's app still waits.
        page.sheet_says("Dice at gw-3 would like to set up an accessory")
        page.press("Cancel", "dialog")
        apps[0].wait_event("pickerDidDismiss")
        self.assertQuiet()

    def test_without_a_fleet_there_is_no_section(self):
        del os.environ["ACCESSORY_FLEET"]
        page = self.open()
        page.sees("Policy")
        self.assertNotIn("Fleet", page.text)
        os.environ["ACCESSORY_FLEET"] = "/nonexistent"
