# SPDX-License-Identifier: Apache-2.0
"""Presses that were meant for something else: the second of a double tap, a key that is held, a second choice before the first is
answered; and removals that are taken back."""

import unittest

from web import BROWSER, WebTest  # first: it knows where the others are

from harness.names import BLUE, PINK
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait

FIND = "[...document.querySelectorAll('dialog[open] button')].find(each => each.textContent === arguments[0])"


class Consent(WebTest):
    scenario = scenario(accessory("die", pairing={"mode": "numericComparison"}))

    def test_a_press_that_comes_with_the_question_is_no_answer(self):
        page, app = self.open(), self.app()
        page.driver.execute_script("""
            window.pressed = 0;
            new MutationObserver(() => {
                for (const each of document.querySelectorAll("dialog[open] .question button")) { window.pressed += 1; each.click(); }
            }).observe(document.body, {subtree: true, childList: true});
        """)
        app.show_picker(item("Pink Dice"))
        page.pick("Pink Dice")
        page.sheet_says("Does the accessory show this number?")
        page.wait(lambda: page.driver.execute_script("return window.pressed") >= 2, "both answers to be pressed")
        # The second press of a double click, however late it is.
        page.wait(lambda: page.driver.execute_script(f"return {FIND}?.getAttribute('aria-disabled') === null", "Yes, it does"), "the button")
        page.driver.execute_script(f"{FIND}.dispatchEvent(new MouseEvent('click', {{bubbles: true, cancelable: true, detail: 2}}))", "Yes, it does")
        page.sheet_says("Does the accessory show this number?")
        self.assertEqual(self.world.grants(), {})
        page.press("Yes, it does", "dialog")
        app.wait_event("accessoryAdded")


class Twins(WebTest):
    looks = {"advert": {"serviceUUIDs": [PINK], "name": "Pink Dice"}, "pairing": {"mode": "numericComparison"}}
    scenario = scenario(accessory("a", 0x1A, **looks), accessory("b", 0x2B, **looks))

    def test_offers_of_one_name_have_the_end_of_the_address(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Pink Dice"))
        page.wait(lambda: len(page.offers()) == 2, "both offers")
        page.sheet_says("02:1A", "02:2B")
        page.wait(lambda: page.driver.execute_script(
            "return [...document.querySelectorAll('.offer')].every(each => each.getAttribute('aria-disabled') === null)"), "the cards")
        page.driver.execute_script("[...document.querySelectorAll('.offer')].find(each => each.textContent.includes('02:2B')).click()")
        page.press("No, a different one", "dialog")
        page.sheet_says("Pink Dice (02:2B) was not set up")


class Choice(WebTest):
    scenario = scenario(accessory("pink"), accessory("blue", 2, BLUE))

    def test_a_second_choice_before_the_first_is_answered(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Pink Dice"), item("Blue Dice", BLUE))
        page.wait(lambda: len(page.offers()) == 2, "both offers")
        page.driver.execute_script("""
            window.said = new Set();
            new MutationObserver(() => window.said.add(document.querySelector("dialog .status")?.textContent))
                .observe(document.body, {subtree: true, childList: true, characterData: true});
        """)
        self.world.daemon.pause()
        self.addCleanup(self.world.daemon.resume)
        for name in ("Pink Dice", "Blue Dice"):
            page.driver.execute_script(
                "[...document.querySelectorAll('.offer')].find(each => each.querySelector('.name').textContent === arguments[0]).click()", name)
        page.sheet_says("Setting up")
        self.world.daemon.resume()
        app.wait_event("accessoryAdded")
        page.sheet_says("Pink Dice is ready to use")
        said = page.driver.execute_script("return [...window.said]")
        self.assertEqual([each for each in said if each and "Blue" in each], [])


class Redraws(WebTest):
    @unittest.skipIf(BROWSER, "Chromium's driver alone counts nodes")
    def test_buttons_that_are_gone_are_forgotten(self):
        page = self.open()
        redraw = lambda: page.driver.execute_async_script("""
            const done = arguments[0];
            (async () => {
                const { guardedButton } = await import(new URL("dom.js", location.href));
                const painted = () => new Promise(next => requestAnimationFrame(() => setTimeout(next)));
                for (let turn = 0; turn < 20; turn += 1) {
                    const made = Array.from({ length: 50 }, () => guardedButton("Allow", () => {}));
                    document.querySelector("main").append(...made);
                    await painted();
                    for (const each of made) each.remove();
                    await painted();
                }
                // Longer than a guard.
                setTimeout(done, 1200);
            })();
        """)

        def nodes():
            page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
            return page.driver.execute_cdp_cmd("Memory.getDOMCounters", {})["nodes"]

        redraw()
        before = nodes()
        redraw()
        self.assertLess(nodes(), before + 200)


class Removals(WebTest):
    def setUp(self):
        super().setUp()
        self.dice, person = self.app(), self.picker()
        self.add(self.dice, person, "Dice 4F")
        person.close()
        self.page = self.open()
        self.page.sees("Pink Dice", "authorized")

    def key(self, kind, **more):
        self.page.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {
            "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r" if kind == "keyDown" else "", **more})

    @unittest.skipIf(BROWSER, "keys are held by Chromium's driver alone")
    def test_a_held_key_removes_nothing(self):
        self.page.driver.execute_script("document.querySelector(\"[aria-label='Remove Pink Dice']\").focus()")
        self.key("keyDown")
        for _ in range(20):
            self.key("keyDown", autoRepeat=True)
        self.page.sheet_says("Remove Pink Dice?")
        self.assertEqual(self.page.driver.switch_to.active_element.text, "Cancel")
        self.key("keyUp")
        self.page.sheet_says("Remove Pink Dice?")
        self.assertEqual(len(self.world.grants()), 1)

    def test_a_removal_is_taken_back(self):
        self.page.press("Remove Pink Dice")
        self.page.press("Remove", "dialog")
        self.page.sees("It will be removed in a few seconds.")
        self.page.press("Undo")
        self.page.wait(lambda: "It will be removed" not in self.page.text, "the notice to go")
        self.assertEqual(len(self.world.grants()), 1)

    def test_a_page_that_is_closed_removes_it_still(self):
        self.page.press("Remove Pink Dice")
        self.page.press("Remove", "dialog")
        self.page.sees("It will be removed in a few seconds.")
        self.page.driver.get("about:blank")
        self.dice.wait_event("accessoryRemoved")
        wait(lambda: self.world.grants() == {}, what="the grant to go", also_every=0.1)
