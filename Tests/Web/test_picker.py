# SPDX-License-Identifier: Apache-2.0
"""The journeys of the terminal picker's tests, in a browser: from an app's request to "go on in the app", on a screen of a phone's size."""

import json

from web import WebTest  # first: it knows where the others are

from harness.images import PRODUCT, SVG
from harness.names import PINK
from harness.programs import TESTS
from harness.radio import Paired, accessory, scenario
from harness.values import item, sv

ASKS = "Dice would like to set up an accessory"


class Discovery(WebTest):
    manifest = {"BluetoothNames": "none like this;"}

    def test_from_nothing_to_ready(self):
        page, app = self.open(), self.app()
        page.sees("When an app asks for an accessory", "No accessories are set up")
        app.show_picker(item("Pink Dice", productImage=PRODUCT))
        page.sheet_says(ASKS, "1 accessory found", "Pink Dice", "Dice 4F", "New")
        page.wait(lambda: page.driver.execute_script("return document.querySelector('.offer img')?.naturalWidth") == 180, "the image")
        self.assertEqual(page.one(".offer .strength").get_attribute("aria-label"), "strong signal")
        page.pick("Pink Dice")
        app.wait_event("accessoryAdded")
        page.sheet_says("Pink Dice is ready to use", "Continue in Dice.")
        page.press("Close", "dialog")
        page.no_sheet()
        page.sees("Pink Dice", "authorized", "C0:FF:EE:00:00:01")
        page.wait(lambda: page.driver.execute_script("return document.querySelector('.card .picture img').naturalWidth") == 180, "the image in the list")
        self.assertQuiet()

    def test_an_svg_is_an_image_and_nothing_more(self):
        page, app = self.open(), self.app()
        hostile = SVG.replace(b"<rect", b"<script>window.top.ran = true; fetch('/x')</script><rect onload='window.top.ran = true'")
        app.show_picker(item("Pink Dice", productImage=hostile))
        page.wait(lambda: page.driver.execute_script("return document.querySelector('.offer img')?.naturalWidth") == 180, "the image")
        self.assertTrue(page.one(".offer img").get_attribute("src").startswith("blob:"))
        self.assertFalse(page.driver.execute_script("return !!window.ran || !!document.querySelector('svg')"))
        self.assertQuiet()

    def test_bytes_that_are_no_image_leave_the_plain_shape(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Pink Dice", productImage=b"\x89PNG\r\n\x1a\nnothing of the kind"))
        page.sheet_says("Pink Dice")
        page.wait(lambda: page.driver.execute_script("return document.querySelector('.offer img').hidden"), "no image")

    def test_cancel(self):
        page, app = self.open(), self.app()
        app.show_picker(item())
        page.sheet_says("Pink Dice")
        page.press("Cancel", "dialog")
        self.assertDismissed(app, "UserCancelled")
        page.no_sheet()
        self.assertNothingLeft()

    def test_escape_cancels(self):
        page, app = self.open(), self.app()
        app.show_picker(item())
        page.sheet_says("Pink Dice")
        page.driver.switch_to.active_element.send_keys("\ue00c")
        self.assertDismissed(app, "UserCancelled")
        page.no_sheet()

    def test_keys_alone(self):
        page, app = self.open(), self.app()
        app.show_picker(item())
        page.sheet_says("Pink Dice")
        keys = lambda text: page.driver.switch_to.active_element.send_keys(text)
        for _ in range(6):
            if "offer" in (page.driver.switch_to.active_element.get_attribute("class") or ""):
                break
            keys("\ue004")
        page.wait(lambda: (keys("\ue007") or True) and page.sheet and "Setting up" in page.sheet or "ready" in page.sheet, "the set-up")
        app.wait_event("accessoryAdded")
        page.sheet_says("ready to use")
        # The focus follows the words; a key before it is another element's.
        page.wait(lambda: page.driver.execute_script("return document.activeElement.matches('dialog button')"), "the focus on a button")
        keys("\ue007")
        page.no_sheet()

    def test_nothing_found_helps_then_ends(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Other Dice", bluetoothNameSubstring="none like this"), discoveryTimeout=3.0)
        page.sheet_says("Looking for accessories", "Turn the accessory on and hold it near this machine.", "left")
        page.sheet_says("Nothing was found", "try again in the app", seconds=20)
        self.assertDismissed(app, "DiscoveryTimeout")

    def test_what_goes_out_of_range_leaves_and_nothing_jumps(self):
        self.start(scenario(accessory("one", 1), accessory("two", 2)))
        page, app = self.open(), self.app()
        app.show_picker(item(), discoveryTimeout=float("inf"))
        page.wait(lambda: len(page.offers()) == 2, "two offers")
        names = lambda: page.driver.execute_script("return [...document.querySelectorAll('.offer .advertised')].map(each => each.textContent)")
        [first, second] = names()
        page.driver.execute_script("document.querySelector('.offers').dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))")
        self.simulator.do("vanish", first)
        self.world.pass_until(lambda: names() == [second], 60, "the first to go")


class Missing(WebTest):
    """Two are offered, and a third is not: the person looks why, while the picker goes on, and comes back."""

    scenario = scenario(accessory("one", 1), accessory("two", 2), accessory("third", 3, "1234"))

    def test_why(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Die"))
        page.wait(lambda: len(page.offers()) == 2, "two offers")
        page.press("Accessory missing? See why", "dialog")
        page.no_sheet()
        page.sees("Dice is waiting for your choice.", "third", "not offered")
        page.press("Back to the picker")
        page.pick("one")
        app.wait_event("accessoryAdded")
        page.sheet_says("Die is ready to use")
        self.assertQuiet()

    def test_the_picker_ends_meanwhile(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Die"))
        page.press("Accessory missing? See why", "dialog")
        page.sees("Dice is waiting for your choice.")
        app.request("CancelPicker")
        page.sheet_says("Nothing was set up")


class Prompts(WebTest):
    scenario = scenario(
        accessory("compares", 1, pairing={"mode": "numericComparison"}),
        accessory("shows", 3, pairing={"mode": "displayPasskey", "passkey": 42}),
        accessory("takes", 4, pairing={"mode": "enterPasskey"}),
        accessory("takes-wrong", 5, pairing={"mode": "enterPasskey", "fault": "wrongKey"}),
        accessory("pin", 6, pairing={"mode": "pin", "pin": "4711"}),
        accessory("later", 7, pairing={"mode": "justWorks", "fault": "refuse", "faultCount": 1}),
        accessory("works", 8),
        accessory("silent", 9, pairing={"mode": "justWorks", "fault": "silent"}),
    )

    def setUp(self):
        super().setUp()
        self.page, self.dice = self.open(), self.app()

    def pick(self, name):
        self.dice.show_picker(item("Gadget"))
        self.page.pick(name)

    def expect_ready(self):
        self.dice.wait_event("accessoryAdded")
        self.page.sheet_says("Gadget is ready to use")
        self.page.press("Close", "dialog")
        self.page.no_sheet()
        self.assertQuiet()

    def test_a_number_to_compare(self):
        self.pick("compares")
        self.page.sheet_says("Does the accessory show this number?")
        self.assertRegex(self.page.one(".code").text.replace("\n", " "), r"(\d ?){6}")
        self.page.press("Yes, it does", "dialog")
        self.expect_ready()

    def test_a_number_that_differs(self):
        self.pick("compares")
        self.page.press("No, a different one", "dialog")
        self.page.sheet_says("Gadget (compares · 02:01) was not set up", "Choose it again to retry")
        self.page.pick("works")
        self.expect_ready()

    def test_a_number_to_enter(self):
        """The number that the page shows, entered at the accessory: here the accessory does that by itself."""
        self.pick("takes")
        self.expect_ready()

    def test_a_number_that_the_accessory_shows(self):
        self.pick("shows")
        self.page.sheet_says("Which number does the accessory show?")
        self.assertEqual(self.page.driver.switch_to.active_element.tag_name, "input")
        self.page.type("dialog form input", "42\n")
        self.expect_ready()

    def test_a_wrong_number(self):
        self.pick("shows")
        self.page.type("dialog form input", "43\n")
        self.page.sheet_says("Gadget (shows · 02:03) was not set up", "Pairing failed")
        self.page.pick("works")
        self.expect_ready()

    def test_a_pin(self):
        self.pick("pin")
        self.page.sheet_says("What is the accessory’s PIN?")
        self.page.type("dialog form input", "4711\n")
        self.expect_ready()

    def test_try_again(self):
        self.pick("later")
        self.page.sheet_says("Gadget (later · 02:07) was not set up", "Try again")
        self.page.pick("later")
        self.expect_ready()

    def test_cancel_while_asked(self):
        self.pick("compares")
        self.page.sheet_says("Does the accessory show this number?")
        self.page.press("Cancel", "dialog")
        self.assertDismissed(self.dice, "UserCancelled")
        self.page.no_sheet()
        self.assertNothingLeft()

    def test_cancel_while_pairing(self):
        self.pick("silent")
        self.page.sheet_says("Setting up Gadget")
        self.page.press("Cancel", "dialog")
        self.assertDismissed(self.dice, "UserCancelled")
        self.page.no_sheet()


class Ends(WebTest):
    def test_a_choice_and_a_renewal(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Pink Dice", end="1h", endChoices=["2h", "18:00", "idle 30d", "none"]))
        page.sheet_says("Pink Dice", "Access ends after 1 hour")
        options = [each.text for each in page.find(".end-choice option")]
        self.assertEqual(options, [
            "as the app asks", "Access ends after 2 hours", "Access ends at 18:00", "Access ends when unused for 30 days",
            "Access does not end"])
        page.driver.execute_script("document.querySelector('.end-choice select').value = '2h'")
        page.pick("Pink Dice")
        path = app.wait_event("accessoryAdded")["accessory"]
        page.press("Close", "dialog")
        [grant] = self.world.grants().values()
        self.assertEqual([str(each) for each in grant["EndRules"]], ["2h"])
        app.request("RenewAccess", "oa{sv}", path, sv({"end": "3h"}))
        page.sheet_says("Dice would like to go on using an accessory", "Access ends after 3 hours")
        self.assertTrue(page.driver.execute_script("return document.querySelector('.end-choice').hidden"))
        page.pick("Pink Dice")
        page.sheet_says("Access renewed")
        [grant] = self.world.grants().values()
        self.assertEqual([str(each) for each in grant["EndRules"]], ["3h"])
        self.assertQuiet()


class Naming(WebTest):
    def _named(self, **more):
        page, app = self.open(), self.app()
        app.show_picker(item("Pink Dice", setupOptions=["rename"], **more))
        page.pick("Pink Dice")
        page.sheet_says("What should Pink Dice be called?")
        return page, app

    def test_a_name(self):
        page, app = self._named()
        page.type("dialog form input", "Lucky\n")
        app.wait_event("accessoryAdded")
        page.sheet_says("ready to use")
        page.press("Close", "dialog")
        page.sees("Lucky")

    def test_what_is_no_name_is_said_beside_the_field(self):
        page, app = self._named()
        page.driver.execute_script("document.querySelector('dialog input').value = 'Lu\\u202ecky'")
        page.press("Save name", "dialog")
        page.sheet_says("change the direction of text")
        page.type("dialog form input", "Lucky\n")
        app.wait_event("accessoryAdded")

    def test_the_name_is_kept(self):
        page, app = self._named()
        page.press("Keep the current name", "dialog")
        app.wait_event("accessoryAdded")
        page.sheet_says("Pink Dice is ready to use")

    def test_an_app_asks_for_another_name(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Pink Dice"))
        page.pick("Pink Dice")
        path = app.wait_event("accessoryAdded")["accessory"]
        page.press("Close", "dialog")
        app.request("RenameAccessory", "oa{sv}", path, sv({}))
        page.sheet_says("Dice would like you to name an accessory", "What should Pink Dice be called?")
        page.type("dialog form input", "Lucky\n")
        app.wait_event("accessoryChanged")
        page.sheet_says("Renamed")

    def test_the_app_confirms_and_the_person_finishes_there(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Pink Dice", setupOptions=["confirmAuthorization", "finishInApp"]))
        page.pick("Pink Dice")
        path = app.wait_event("accessoryAdded")["accessory"]
        page.sheet_says("Waiting for Dice")
        app.request("FinishAuthorization", "oa{sv}", path, sv({}))
        page.sheet_says("Pink Dice is ready to use", "Finish setup in Dice.")


class Migration(WebTest):
    scenario = scenario(accessory("pink"), accessory("blue", 2))
    PINK, BLUE = "C0:FF:EE:00:02:01", "C0:FF:EE:00:02:02"

    def setUp(self):
        super().setUp()
        for address in (self.PINK, self.BLUE):
            with Paired(self.world, "/org/bluez/hci0/dev_" + address.replace(":", "_")):
                pass
        self.page, self.dice = self.open(), self.app()
        self.dice.show_picker(*(item(name) | {"peripheralIdentifier": address} for name, address in
                                (("Pink Dice", self.PINK), ("Blue Dice", self.BLUE))))
        self.page.sheet_says("Dice would like to use accessories that are already set up", "Pink Dice", "Blue Dice")

    def test_consent_takes_a_moment(self):
        """It may come up under a finger: for three seconds it cannot be given."""
        agree = self.page.one("dialog button.primary")
        self.assertRegex(agree.text, "^Agree in [123]$")
        self.assertFalse(agree.is_enabled())
        self.page.press("Agree", "dialog")
        self.dice.wait_event("migrationComplete", count=2)
        self.page.sheet_says("Ready to use")
        self.page.press("Close", "dialog")
        self.page.sees("Pink Dice", "Blue Dice")

    def test_no(self):
        self.page.press("Don’t allow", "dialog")
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.world.grants(), {})


class Networks(WebTest):
    scenario = "wifi.json"
    manifest = {"Supports": "Bluetooth;WiFi;"}

    def test_a_network_and_its_security(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Camera", None, pairs=False, ssidPrefix=b"Dice-"))
        page.wait(lambda: page.offers(), "an offer")
        self.assertRegex(page.sheet, r"Wi-Fi “Dice-\w+” · WPA")


class NamedLater(WebTest):
    """A network that the app names in its confirmation, and that the picker has not shown."""

    manifest = Networks.manifest
    scenario = {
        **{key: value for key, value in json.loads((TESTS / "Scenarios/wifi.json").read_text()).items() if key != "adapters"},
        "accessories": [accessory("pink")]}

    def test_the_person_sees_its_name(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Camera", ssidPrefix=b"Dice-", setupOptions=["confirmAuthorization"]))
        page.pick("Camera")
        path = app.wait_event("accessoryAdded")["accessory"]
        for answer, event in (("Don’t allow", "pickerSetupFailed"), ("Allow", "accessoryChanged")):
            app.request("FinishAuthorization", "oa{sv}", path, sv({"ssid": b"Dice-1234"}))
            page.sheet_says("Allow Dice to join the network Dice-1234?")
            page.press(answer, "dialog")
            app.wait_event(event)


class Bridging(WebTest):
    scenario = scenario(accessory("dual", 2, addressType="public", transport="dual"))

    def test_the_second_side(self):
        page, app = self.open(), self.app()
        page.driver.execute_script("""
            window.said = [];
            new MutationObserver(() => window.said.push(document.querySelector("dialog .status")?.textContent))
                .observe(document.body, {subtree: true, childList: true, characterData: true});
        """)
        app.show_picker(item("Pink Dice", supportedOptions=["bluetoothPairingLE", "bluetoothTransportBridging"]))
        page.pick("Pink Dice")
        app.wait_event("accessoryAdded")
        page.sheet_says("Pink Dice is ready to use")
        said = page.driver.execute_script("return window.said")
        self.assertIn("Setting up Pink Dice", said)
        self.assertIn("Setting up its Bluetooth Classic connection", said)


class LookAlike(WebTest):
    NAME = "Pink Di\u0441e"
    scenario = scenario(accessory("die"), accessory("another", 2, advert={"serviceUUIDs": [PINK], "name": NAME}))

    def test_a_name_that_looks_like_one_in_use(self):
        page, app = self.open(), self.app()
        app.show_picker(item("Pink Dice"))
        page.wait(lambda: len(page.offers()) == 2, "both offers")
        self.assertNotIn("Looks like", page.sheet)
        page.pick("die")
        app.wait_event("accessoryAdded")
        page.press("Close", "dialog")
        app.show_picker(item("Pink Dice"))
        page.sheet_says(self.NAME, "Looks like “Pink Dice”, but is a different accessory")
        self.assertEqual(page.axe(), [])


class Sharing(WebTest):
    apps = ("dice", "board")

    def test_what_another_app_has(self):
        page, app, other = self.open(), self.app(), self.app("board")
        app.show_picker(item("Pink Dice", productImage=PRODUCT))
        page.pick("Pink Dice")
        app.wait_event("accessoryAdded")
        page.press("Close", "dialog")
        other.show_picker(item("Their Die"))
        page.sheet_says("Board would like to set up an accessory", "Pink Dice", "Used by another app")
        page.pick("Pink Dice")
        other.wait_event("accessoryAdded")
        page.press("Close", "dialog")
        page.sees("Board", "Dice")
