# SPDX-License-Identifier: Apache-2.0
"""Who goes while a picker is shown: the browser, the bridge, the daemon, the app; and two browsers, of which one takes over."""

import os
import signal
import subprocess

from web import Browser, WebTest  # first: it knows where the others are

from harness.names import MANAGER, ROOT
from harness.programs import BIN, Program
from harness.values import item
from harness.waiting import wait


class Going(WebTest):
    def available(self):
        return bool(self.world.admin.get(ROOT, MANAGER, "PickerAvailable"))

    def asked(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Pink Dice"))
        page.sheet_says("Pink Dice")
        return page, app

    def test_the_page_is_left(self):
        """Cockpit's session goes on; the picker does not."""
        page, app = self.asked()
        page.driver.get("about:blank")
        self.assertDismissed(app, "UserCancelled")
        self.assertFalse(self.available())
        self.assertNothingLeft()

    def test_the_page_is_left_while_nothing_is_asked(self):
        page = self.open()
        self.assertTrue(self.available())
        page.driver.get("about:blank")
        wait(lambda: not self.available(), 10, "no picker program", also_every=0.05)

    def test_the_bridge_is_killed(self):
        page, app = self.asked()
        os.kill(self.cockpits[0].bridge, signal.SIGKILL)
        self.assertDismissed(app, "UserCancelled")
        page.sees("The connection was lost")
        page.no_sheet()

    def test_the_web_server_is_killed(self):
        page, app = self.asked()
        self.cockpits[0].program.stop(signal.SIGKILL)
        page.sees("The connection was lost")
        page.no_sheet()
        self.assertDismissed(app, "UserCancelled")

    def test_the_daemon_is_killed_and_comes_back(self):
        page, app = self.asked()
        self.world.daemon.stop(signal.SIGKILL)
        page.sees("The accessorysetupd service is not running")
        page.no_sheet()
        self.world.start_daemon()
        page.sees("When an app asks for an accessory")
        again = self.app()
        again.show_picker(item("Pink Dice"))
        page.pick("Pink Dice")
        again.wait_event("accessoryAdded")

    def test_the_app_is_killed(self):
        page, app = self.asked()
        app.close()
        page.sheet_says("Nothing was set up")
        page.press("Close", "dialog")
        page.no_sheet()

    def test_reloaded_while_asked(self):
        """The picker goes with the old page, or goes on in the new one where that registers first."""
        page, app = self.asked()
        page.driver.refresh()
        page.wait(lambda: "pickerDidDismiss" in app.told() or "Pink Dice" in page.sheet, "the end of the picker, or the picker")
        if "pickerDidDismiss" not in app.told():
            page.press("Cancel", "dialog")
        self.assertDismissed(app, "UserCancelled")
        page.sees("When an app asks for an accessory")
        app.show_picker(item("Pink Dice"))
        page.sheet_says("Pink Dice")


class Elsewhere(WebTest):
    def test_a_page_in_the_background_says_that_an_app_asks(self):
        page, app = self.open(), self.app()
        self.assertEqual(page.driver.title, "Accessories")
        page.driver.switch_to.new_window("tab")
        app.show_picker(item("Pink Dice"))
        [first, second] = page.driver.window_handles
        title = lambda: next(each["title"] for each in page.driver.execute_cdp_cmd("Target.getTargets", {})["targetInfos"] if each["targetId"] == first)
        wait(lambda: title() == "Dice would like to set up an accessory", 10, lambda: f"the tab's title; it is {title()}", also_every=0.1)
        page.driver.close()
        page.driver.switch_to.window(first)
        page.sheet_says("Pink Dice")
        page.press("Cancel", "dialog")
        page.no_sheet()
        page.wait(lambda: page.driver.title == "Accessories", "the old title")
        self.assertQuiet()

    def test_a_laptop_falls_asleep_and_wakes_up(self):
        """Its connections stay open; after 90 silent seconds its picker is over."""
        browser = Browser()
        self.addCleanup(browser.close)
        page, app = self.open(browser=browser), self.app()
        app.show_picker(item("Pink Dice"))
        page.sheet_says("Pink Dice")
        processes = browser.processes()
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        try:
            for _ in range(90):
                self.world.pass_second()
            self.assertDismissed(app, "UserCancelled")
            self.assertFalse(self.world.admin.get(ROOT, MANAGER, "PickerAvailable"))
        finally:
            for each in processes:
                os.kill(each, signal.SIGCONT)
        wait(lambda: self.world.admin.get(ROOT, MANAGER, "PickerAvailable"), 60, "the page to be back", also_every=0.1)
        app.show_picker(item("Pink Dice"))
        page.sheet_says("Dice would like to set up an accessory", "Pink Dice")


class WithATerminal(WebTest):
    def test_the_terminal_has_it(self):
        terminal = Program(BIN / "accessoryctl", "--bus", self.world.bus.address, "picker", stdin=subprocess.PIPE)
        self.addCleanup(lambda: terminal.stop(signal.SIGKILL))
        terminal.wait_for("waiting")
        page = self.open()
        page.sees("accessoryctl picker is showing pickers")
        terminal.stop(signal.SIGTERM)
        page.sees("When an app asks for an accessory")


class TwoBrowsers(WebTest):
    def test_the_second_is_told_and_takes_over(self):
        first, second = Browser(), self.browser
        self.addCleanup(first.close)
        self.open(browser=first)
        self.open()
        second.sees("root in Chrome, Linux is showing pickers", "takes over when that one closes")
        app = self.app()
        app.show_picker(item("Pink Dice"))
        first.sheet_says("Pink Dice")
        second.sees("Dice is asking for an accessory. Shown by: root in Chrome, Linux")
        self.assertEqual(second.sheet, "")
        # The laptop is closed.
        first.close()
        second.sheet_says("Dice would like to set up an accessory", "Pink Dice")
        second.pick("Pink Dice")
        app.wait_event("accessoryAdded")
        second.sheet_says("Pink Dice is ready to use")
        self.assertQuiet()
