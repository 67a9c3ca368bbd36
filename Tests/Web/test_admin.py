# SPDX-License-Identifier: Apache-2.0
"""An admin on the page: looks, switches, renames, revokes, removes, asks why, reads the trail; the page follows each change."""

from web import WebTest  # first: it knows where the others are

from harness.members import GROUP, WithMembers
from harness.names import ACCESSORY, BLUE, GRANT, MANAGER, PROPERTIES, ROOT, SOMEBODY_ELSE, error
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait


class TwoAdapters(WebTest):
    scenario = scenario(accessory("pink"), adapters=[
        {"name": "hci0", "address": "00:AA:01:00:00:42"}, {"name": "hci1", "address": "00:1A:7D:DA:71:13", "gain": -20, "powered": False}])

    def test_the_adapter_of_an_accessory(self):
        person = self.picker()
        self.add(self.app(), person, "pink")
        person.close()
        page = self.open()
        page.sees("Bluetooth adapter", "hci0")
        self.simulator.do("adapterPowerOff", "hci0")
        page.sees("hci0, switched off")
        self.simulator.do("adapterRemoved", "hci0")
        page.sees("00:AA:01:00:00:42, not present")
        self.simulator.do("adapterRemoved", "hci1")
        self.simulator.do("adapterAdded", "hci0")
        self.simulator.do("adapterPowerOn", "hci0")
        page.wait(lambda: "Bluetooth adapter" not in page.text, "one adapter, which is no question")


class WithAccessory(WebTest):
    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.dice, person = self.app(), self.picker()
        self.path = self.add(self.dice, person, "Dice 4F")
        person.close()
        self.page = self.open()
        self.page.sees("Pink Dice", "authorized")

    def grant(self):
        [(path, grant)] = self.world.grants().items()
        return grant

    def test_switch(self):
        switch = self.page.one("input[role=switch]")
        self.assertEqual(switch.accessible_name, "Dice may use Pink Dice")
        switch.click()
        self.dice.wait_event("accessoryRemoved")
        self.page.sees("switched off")
        self.assertFalse(self.grant()["Enabled"])
        self.page.one("input[role=switch]").click()
        self.dice.wait_event("accessoryAdded", count=2)
        self.page.wait(lambda: "switched off" not in self.page.text, "it to be on")

    def test_the_presence_of_an_observed_accessory(self):
        """Its label follows each change; without an observation, and while it is switched off, there is none."""
        labels = lambda: [each.text for each in self.page.find(".badges .badge")]
        shows = lambda *last: self.page.wait(lambda: labels()[2:] == [*last], lambda: f"{last} among the labels; they are {labels()}")
        shows()
        self.dice.request("ObservePresence", "ob", self.path, True)
        self.world.pass_until(lambda: self.grant()["Present"], 10, "it to be present")
        shows("in range")
        self.simulator.do("vanish", "pink-dice")
        self.world.pass_until(lambda: not self.grant()["Present"], 300, "it to be absent")
        shows("not in range")
        self.page.one("input[role=switch]").click()
        shows()
        self.assertQuiet()

    def test_switched_by_somebody_else(self):
        [path] = self.world.grants()
        self.world.admin.call(path, PROPERTIES, "Set", "ssv", GRANT, "Enabled", False)
        self.page.sees("switched off")
        self.assertFalse(self.page.one("input[role=switch]").is_selected())

    def test_rename(self):
        self.page.press("Rename Pink Dice")
        self.page.type("dialog form input", "Lucky\u200bDie\n")
        self.page.sheet_says("invisible")
        self.page.type("dialog form input", "Lucky Die\n")
        self.page.no_sheet()
        self.page.sees("Lucky Die")
        self.dice.wait_event("accessoryChanged")

    def test_revoke(self):
        self.page.press("Revoke Dice’s access to Pink Dice")
        self.page.sheet_says("Revoke Dice’s access to Pink Dice?", "its pairing is removed too")
        self.page.press("Revoke", "dialog")
        self.dice.wait_event("accessoryRemoved")
        self.page.sees("No accessories are set up")
        self.assertNothingLeft()

    def test_revoke_for_one_of_two(self):
        board, person = self.app("board"), self.page
        board.show_picker(item("Die"))
        self.page.sheet_says("Used by another app")
        self.page.pick("Pink Dice")
        board.wait_event("accessoryAdded")
        self.page.press("Close", "dialog")
        self.page.press("Revoke Board’s access to Pink Dice")
        self.page.sheet_says("The accessory stays paired for: Dice")
        self.page.press("Revoke", "dialog")
        board.wait_event("accessoryRemoved")
        self.assertEqual(self.dice.accessories, [self.path])

    def test_remove(self):
        self.page.press("Remove Pink Dice")
        self.page.sheet_says("Remove Pink Dice?", "removes its pairing", "These apps lose access: Dice")
        self.page.press("Cancel", "dialog")
        self.page.no_sheet()
        self.assertEqual(len(self.world.grants()), 1)
        self.page.press("Remove Pink Dice")
        self.page.press("Remove", "dialog")
        self.dice.wait_event("accessoryRemoved")
        self.assertNothingLeft()

    def test_the_daemon_comes_back(self):
        self.world.daemon.stop()
        self.page.sees("The accessorysetupd service is not running")
        self.world.start_daemon()
        self.page.sees("Pink Dice", "authorized", "When an app asks for an accessory")
        app = self.app("board")
        app.show_picker(item("Blue Dice", BLUE))
        self.page.sheet_says("Blue Dice")


class Looking(WebTest):
    scenario = scenario(accessory("near", 1), accessory("other", 2, "1234"))

    def test_why_it_is_not_offered(self):
        page = self.open("apps")
        page.press("Why is it not offered? Dice")
        page.sees("Accessories offered to Dice now", "near", "offered", "other", "not offered")
        cards = {each.text.split("\n")[0]: each.text for each in page.find(".explain .card")}
        self.assertIn("Matches: service", cards["near"])
        self.assertNotIn("not offered", cards["near"])
        self.assertIn("not offered", cards["other"])
        self.assertRegex(cards["other"].lower(), "service")
        page.press("Stop")
        page.sees("Stopped.")
        wait(lambda: not self.simulator.discovering, 20, "the search to end", also_every=0.1)

    def test_leaving_ends_the_search(self):
        page = self.open("apps/com.example.dice")
        page.sees("near")
        page.go("policy")
        wait(lambda: not self.simulator.discovering, 20, "the search to end", also_every=0.1)

    def test_a_manifest_is_mended(self):
        path = self.world.declare("board", Supports=None)
        page = self.open("apps")
        page.sees("com.example.board", "1 problem", "Supports")
        self.world.declare("board")
        page.wait(lambda: "1 problem" not in page.text and "Board" in page.text, "the app to be good")
        path.unlink()
        page.wait(lambda: "Board" not in page.text, "the app to go")

    def test_the_trail_is_live_and_searched(self):
        page = self.open("activity")
        page.sees("No app has a session.", "this page")
        app = self.app()
        page.sees("Session of Dice", "active")
        app.show_picker(item("Near"))
        page.pick("Near")
        app.wait_event("accessoryAdded")
        page.press("Close", "dialog")
        page.sees("granted", "picker shown")
        lines = lambda: [each.text for each in page.find(".trail .what")]
        page.type("input[type=search]", "granted")
        page.wait(lambda: len(lines()) == 1 and "Dice → Near" in lines()[0], lambda: f"one line; there are {lines()}")
        page.type("input[type=search]", "\ue003" * 10, clear=False)
        page.wait(lambda: len(lines()) > 1, "all lines")
        page.driver.execute_script("const box = [...document.querySelectorAll('select')].at(-1); box.value = 'changes';"
                                   "box.dispatchEvent(new Event('input', {bubbles: true}))")
        page.wait(lambda: lines() and all("granted" in each for each in lines()), lambda: f"changes alone; there are {lines()}")
        app.close()
        page.sees("No app has a session.")

    def test_rules_and_mistakes_are_live(self):
        page = self.open("policy")
        page.sees("There are no rules", "in force")
        self.world.policy.mkdir(exist_ok=True)
        self.world.restart_daemon()
        rules = self.world.policy / "rules.conf"
        rules.write_text("[Deny all of it]\nApp=com.example.dice\n")
        page.sees("all of it", "Denied to Dice: every accessory")
        rules.write_text("[Deny all of it]\nApp=com.example.dice\nColour=red\n")
        page.sees("invalid", "rules.conf, line 3", "Colour", "unknown key")

    def test_claim_lists_and_their_mistakes_are_live(self):
        page = self.open("policy")
        lists = self.world.policy.parent / "claims.d"
        lists.mkdir()
        header = "[Claims]\nId={}\nApp=com.example.dice\nFrom=2020-01-01T00:00:00Z\nUntil=2100-01-01T00:00:00Z\nSerialInName=*\n"
        (lists / "a.conf").write_text(header.format("spring") + "[Entries]\nserial\npink\nblue\n")
        page.sees("Claim lists", "spring", "0 of 2 accessories set up for Dice", "a.conf")
        (lists / "b.conf").write_text(header.format("autumn") + "[Entries]\nserial\npink\npink\n")
        page.sees("b.conf, line 10", "serial", "pink: is in line 9 already", "0 of 2 accessories set up for Dice")


class Member(WithMembers, WebTest):
    """A member of the group: shows pickers, and manages the accessories that they set up."""

    scenario = scenario(accessory("pink"), accessory("blue", 2, BLUE))
    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.dice, person = self.app(), self.picker()
        self.others = self.add(self.dice, person, "blue", item("Blue Dice", BLUE))
        person.close()
        self.page = self.open(uid=SOMEBODY_ELSE, groups=[GROUP])

    def set_up(self):
        self.dice.show_picker(item("Pink Dice"))
        self.page.sheet_says("Pink Dice")
        self.assertNotIn("See why", self.page.sheet)
        self.page.pick("Pink Dice")
        added = self.dice.wait_event("accessoryAdded", count=2)
        self.page.sheet_says("Pink Dice is ready to use")
        self.page.press("Close", "dialog")
        self.page.sees("You see the accessories that you set up.", "authorized", "com.example.dice")
        return str(added["accessory"])

    def test_sees_their_own_alone(self):
        self.page.sees("When an app asks for an accessory", "You have not set up any accessories")
        self.set_up()
        self.assertNotIn("Blue Dice", self.page.text)
        self.assertEqual(len(self.page.find(".card")), 1)
        for absent in ("nav", "input[role=switch]"):
            self.assertFalse(any(each.is_displayed() for each in self.page.find(absent)), absent)
        for absent in ("Revoke", "Last used", "not present"):
            self.assertNotIn(absent, self.page.text)
        self.assertQuiet()

    def test_renames(self):
        path = self.set_up()
        self.page.press("Rename Pink Dice")
        self.page.type("dialog form input", "Lucky Die\n")
        self.page.no_sheet()
        self.page.sees("Lucky Die")
        self.assertEqual(str(self.world.admin.get(path, ACCESSORY, "DisplayName")), "Lucky Die")

    def test_removes_with_undo(self):
        self.set_up()
        def remove():
            self.page.press("Remove Pink Dice")
            self.page.sheet_says("Remove Pink Dice?", "If no other app uses it", "These apps lose access: com.example.dice")
            self.page.press("Remove", "dialog")
            self.page.sees("It will be removed in a few seconds.")

        remove()
        self.page.press("Undo")
        self.page.wait(lambda: "It will be removed" not in self.page.text, "the notice to go")
        remove()
        self.page.sees("You have not set up any accessories")
        self.assertEqual(self.dice.accessories, [self.others])


class Muting(WithMembers, WebTest):
    """“Don’t ask again”, and “Allow again”."""

    def muted(self):
        return [str(each["app"]) for each in self.world.admin.get(ROOT, MANAGER, "MutedApps")]

    def mute_and_allow(self, page, name):
        app = self.app()
        app.show_picker(item("Pink Dice"))
        page.sheet_says("Pink Dice")
        page.press("Don’t ask again", "dialog")
        app.wait_event("pickerDidDismiss")
        page.no_sheet()
        page.sees("Apps that may not ask", name)
        self.assertEqual(self.muted(), ["com.example.dice"])
        self.assertFails(error("UserRestricted"), app.show_picker, item("Pink Dice"))
        page.press(f"Allow {name} to ask again")
        page.wait(lambda: "Apps that may not ask" not in page.text, "the list to go")
        self.assertEqual(self.muted(), [])
        self.assertQuiet()

    def test_an_admin(self):
        self.mute_and_allow(self.open(), "Dice")

    def test_a_member(self):
        self.mute_and_allow(self.open(uid=SOMEBODY_ELSE, groups=[GROUP]), "Dice")

    def test_a_press_that_comes_with_the_sheet_mutes_no_app(self):
        page, app = self.open(), self.app()
        page.driver.execute_script("""
            window.pressed = 0;
            new MutationObserver(() => {
                const found = [...document.querySelectorAll("dialog[open] .actions button")].find(each => each.textContent.includes("ask again"));
                if (found && !found.hidden && window.pressed < 5) { window.pressed += 1; found.click(); }
            }).observe(document.body, {subtree: true, childList: true, attributes: true});
        """)
        app.show_picker(item("Pink Dice"))
        page.sheet_says("Pink Dice")
        page.wait(lambda: page.driver.execute_script("return window.pressed") > 0, "the press")
        self.assertEqual(self.muted(), [])
        page.press("Cancel", "dialog")
        app.wait_event("pickerDidDismiss")
        self.assertEqual(self.muted(), [])


class Limited(WebTest):
    """A user who is neither admin nor may show pickers."""

    def test_sees_what_they_may(self):
        page = self.open(uid=65534)
        page.sees("You may not set up accessories", "accessory-picker", "Limited access", "administrative access")
        self.assertFalse(page.one("header").find_element("css selector", "nav").is_displayed())
        self.assertQuiet()
