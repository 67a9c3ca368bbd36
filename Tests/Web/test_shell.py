# SPDX-License-Identifier: Apache-2.0
"""The page in Cockpit's shell, on a desktop and on a phone: behind another page of Cockpit's it leaves pickers to other browsers."""

from web import DESKTOP, PHONE, Browser, WebTest  # first: it knows where the others are

from harness.radio import accessory, scenario
from harness.values import item

ASKS = "Dice would like to set up an accessory"


class Shell(WebTest):
    size = DESKTOP

    def test_a_page_out_of_view_lets_another_browser_show_it(self):
        page = self.browser.open_shell(self.cockpit())
        page.sees("When an app asks for an accessory, the picker appears here")
        other = Browser(PHONE)
        self.addCleanup(other.close)
        other.open(self.cockpit()).sees("is showing pickers")
        page.show("system")
        other.sees("When an app asks for an accessory, the picker appears here")
        app = self.app()
        app.show_picker(item("Pink Dice"))
        other.sheet_says(ASKS)
        other.pick("Pink Dice")
        app.wait_event("accessoryAdded")

    def test_a_run_moves_to_where_a_person_can_see_it(self):
        page = self.browser.open_shell(self.cockpit())
        page.sees("When an app asks for an accessory, the picker appears here")
        app = self.app()
        app.show_picker(item("Pink Dice"), discoveryTimeout=float("inf"))
        page.sheet_says(ASKS)
        page.show("system")
        other = Browser(PHONE)
        self.addCleanup(other.close)
        other.open(self.cockpit())
        other.sheet_says(ASKS)
        page.enter().no_sheet()

    def test_alone_it_keeps_what_is_asked_until_it_is_in_view(self):
        page = self.browser.open_shell(self.cockpit())
        page.sees("When an app asks for an accessory, the picker appears here")
        page.show("system")
        app = self.app()
        app.show_picker(item("Pink Dice"))
        page.driver.switch_to.default_content()
        # Cockpit's menu has a sign at the page's entry.
        page.wait(lambda: page.find("#accessories-info"), "the sign in the menu", text=False)
        page.show("accessories")
        page.enter().sheet_says(ASKS)
        page.pick("Pink Dice")
        app.wait_event("accessoryAdded")


class RightToLeft(WebTest):
    """Hebrew: Cockpit has it, the page has no translation, and the shell turns the page around."""

    size = PHONE
    scenario = scenario(accessory("die", pairing={"mode": "numericComparison"}))

    def test_a_number_reads_from_left_to_right(self):
        page = self.browser.open_shell(self.cockpit(), "he-il")
        page.sees("When an app asks")
        app = self.app()
        app.show_picker(item("Pink Dice"))
        page.pick("Pink Dice")
        page.sheet_says("Does the accessory show this number?")
        [path] = self.world.admin.paths("picker")
        passkey = int(self.world.admin.get(path, "org.accessorysetup1.Picker", "Prompt")["passkey"])
        for direction in ("rtl", "ltr"):
            page.driver.execute_script("document.documentElement.dir = arguments[0]", direction)
            shown = page.driver.execute_script(
                "return [...document.querySelectorAll('.code b')].sort((a, b) => a.getBoundingClientRect().x - b.getBoundingClientRect().x)"
                ".map(each => each.textContent).join('')")
            self.assertEqual(shown, f"{passkey:06}")
