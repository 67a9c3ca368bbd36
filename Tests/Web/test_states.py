# SPDX-License-Identifier: Apache-2.0
"""Every state that the page can show, in light and dark, on a phone and on a desktop: axe-core finds nothing wrong with it, and nothing
sticks out at the side. With SHOTS=FOLDER a picture of each is kept."""

from web import DESKTOP, PHONE, WebTest  # first: it knows where the others are

import dbus

from harness.images import png
from harness.names import BLUE, PINK, SOMEBODY
from harness.radio import Paired, accessory, scenario
from harness.values import item


def dice(red, green, blue):
    """A die with five points."""
    def pixel(x, y):
        inside = 20 <= x < 160 and 20 <= y < 160
        point = any((x - a) ** 2 + (y - b) ** 2 < 200 for a, b in ((55, 55), (125, 55), (90, 90), (55, 125), (125, 125)))
        return (255, 255, 255, 255) if inside and point else (red, green, blue, 255) if inside else (0, 0, 0, 0)

    return png(180, 180, pixel)


PINK_IMAGE, BLUE_IMAGE = dice(224, 55, 140), dice(40, 90, 200)


def named(name, number, service=PINK, **more):
    """An accessory with a name that is no identifier."""
    return accessory(name.lower().replace(" ", "-"), number, advert={"serviceUUIDs": [service], "name": name}, **more)


class States(WebTest):
    manifest = {"Supports": "Bluetooth;WiFi;"}
    # From right to left as the shell does it, for a language of Cockpit's that the page has no translation of.
    variants = [(size, dark, "ltr") for size in (PHONE, DESKTOP) for dark in (False, True)] + [(PHONE, False, "rtl")]

    def check(self, name, page=None):
        """The state that is shown now, in every form."""
        page = page or self.browser
        for size, dark, direction in self.variants:
            page.driver.execute_script("document.documentElement.dir = arguments[0]", direction)
            page.resize(size)
            page.prefer(dark)
            form = f"{name}-{'phone' if size == PHONE else 'desktop'}{'-dark' if dark else ''}{'-rtl' if direction == 'rtl' else ''}"
            with self.subTest(form):
                page.shot(form)
                self.assertEqual(page.axe(), [])
                self.assertLessEqual(*page.driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]"))
        page.driver.execute_script("document.documentElement.dir = 'ltr'")
        page.resize(PHONE)
        page.prefer(False)

    def asks(self, *items, **settings):
        app = self.app()
        app.show_picker(*(items or (item("Pink Dice", productImage=PINK_IMAGE),)), **settings)
        return app


class Pages(States):
    def test_idle(self):
        self.open().sees("No accessories are set up")
        self.check("idle")

    def test_not_allowed(self):
        self.open(uid=SOMEBODY).sees("You may not set up accessories", "Limited access")
        self.check("refused")

    def test_no_daemon(self):
        page = self.open()
        self.world.daemon.stop()
        page.sees("The accessorysetupd service is not running")
        self.check("absent")
        self.world.start_daemon()
        page.sees("When an app asks for an accessory")

    def test_no_connection(self):
        page = self.open()
        self.cockpits[0].stop()
        page.sees("The connection was lost")
        self.check("lost")

    def test_no_radio(self):
        page = self.open()
        self.simulator.do("adapterPowerOff", "hci0")
        page.sees("Bluetooth is switched off")
        self.check("radio-off")

    def test_somebody_else_has_the_picker(self):
        self.picker()
        page = self.open()
        page.sees("Another program is showing pickers")
        self.asks()
        page.sees("Dice is asking for an accessory. Shown by: Another program")
        self.check("elsewhere")

    def test_accessories_and_what_is_asked_of_them(self):
        page = self.open()
        app = self.asks()
        page.pick("Pink Dice")
        app.wait_event("accessoryAdded")
        page.press("Close", "dialog")
        page.sees("Pink Dice", "authorized")
        self.check("accessories")
        for name, title in (("Rename Pink Dice", "New name"), ("Revoke Dice’s access to Pink Dice", "Revoke Dice’s access to Pink Dice?"),
                            ("Remove Pink Dice", "Remove Pink Dice?")):
            page.press(name)
            page.sheet_says(title)
            self.check(name.split()[0].strip(":").lower())
            page.press("Cancel", "dialog")
            page.no_sheet()

    def test_apps_and_why_something_is_not_offered(self):
        bad = self.world.app_directories[0] / "com.example.bad.conf"
        bad.write_text("[Application]\nId=com.example.other\nName=<b>Bad</b>\nExcutable=/usr/bin/bad\n")
        page = self.open("apps")
        page.sees("Dice", "com.example.bad", "problem")
        self.check("apps")
        page.press("Why is it not offered? Dice")
        page.sees("Accessories offered to Dice now", "not offered", "C0:FF:EE:00:00:01")
        self.check("explain")

    def test_activity(self):
        page = self.open()
        app = self.asks()
        page.pick("Pink Dice")
        app.wait_event("accessoryAdded")
        page.press("Close", "dialog")
        page.go("activity")
        page.sees("Session of Dice", "this page", "granted", "Audit trail")
        self.check("activity")

    def test_policy(self):
        page = self.open("policy")
        page.sees("There are no rules")
        self.check("policy-none")
        self.world.policy.mkdir(exist_ok=True)
        rules = self.world.policy / "gateway.conf"
        rules.write_text("[Picker]\nAllow=com.example.dice;\n\n[Approve near dice]\nApp=com.example.dice\n"
                         f"BluetoothServiceUUID={BLUE}\n\n[Deny the kitchen]\nAddress=C0:FF:EE:00:00:07\n")
        self.world.restart_daemon()
        page.sees("in force", "near dice", "the kitchen", "C0:FF:EE:00:00:07")
        self.check("policy")
        rules.write_text("[Picker]\nAllow=com.example.dice;\nAlow=x\n")
        page.sees("invalid", "gateway.conf, line 3", "Until this is fixed")
        self.check("policy-bad")


class Runs(States):
    scenario = scenario(
        named("Dice 4F", 1), named("Dice A2", 2, BLUE, pairing={"mode": "numericComparison"}, rssi=-70),
        named("Shows", 3, pairing={"mode": "displayPasskey", "passkey": 42913}),
        named("Takes", 4, pairing={"mode": "enterPasskey", "typing": 20}),
        named("Legacy", 5, pairing={"mode": "pin", "pin": "4711"}), named("Refuses", 6, pairing={"fault": "refuse"}),
        named("Silent", 7, pairing={"fault": "silent"}, rssi=-85),
        wifi={"services": ["wpa_supplicant"], "interfaces": [{"name": "wlan0", "uplink": "Home"}], "scanTime": 0.1})

    def picks(self, name, *items, **settings):
        page = self.open()
        app = self.asks(*items, **settings)
        page.pick(name)
        return page, app

    def test_searching(self):
        page = self.open()
        self.asks(item("Network", None, pairs=False, ssid=b"not here"))
        page.sheet_says("Looking for accessories", "Turn the accessory on")
        self.check("searching")

    def test_offers(self):
        page = self.open()
        self.asks(item("Pink Dice", productImage=PINK_IMAGE), item("Blue Dice", BLUE, productImage=BLUE_IMAGE))
        page.wait(lambda: len(page.offers()) == 7, "the offers")
        page.wait(lambda: page.driver.execute_script("return [...document.images].filter(each => each.naturalWidth).length") >= 7, "images")
        self.check("offers")
        page.press("Accessory missing? See why", "dialog")
        page.sees("Dice is waiting for your choice.", "Silent")
        self.check("aside")

    def test_a_kind(self):
        page = self.open()
        app = self.asks(item("All dice", pairs=False, access="hear", maxDevices=dbus.UInt32(20)))
        page.sheet_says("All dice", "Hears all such devices, now and later, up to 20 at a time", "in range: ")
        self.check("kind")
        page.pick("All dice")
        app.wait_event("accessoryAdded")
        page.press("Close", "dialog")
        page.sees("hears all such devices, and cannot use them")

    def test_narrowed_access(self):
        page = self.open()
        app = self.asks(item("Pink Dice", access="read"))
        page.sheet_says("The app can read and receive data, not write. An accessory may still act when it is read.")
        self.check("narrowed")
        page.pick("Dice 4F")
        app.wait_event("accessoryAdded")
        page.press("Close", "dialog")
        page.sees("can read and receive data, not write, until you revoke access")

    def test_several_in_one_picker(self):
        page = self.open()
        app = self.asks(item("Pink Dice", setupOptions=["pickSeveral"]))
        page.pick("Dice 4F")
        app.wait_event("accessoryAdded")
        page.press("Done", "dialog")
        self.assertNotIn("error", app.wait_event("pickerDidDismiss"))

    def test_a_number_to_compare(self):
        page, _ = self.picks("Dice A2", item("Blue Dice", BLUE, productImage=BLUE_IMAGE))
        page.sheet_says("Does the accessory show this number?")
        page.wait(lambda: page.find("dialog button.primary:not([data-guarded])"), "the end of its guard")
        self.check("compare")

    def test_a_number_to_enter_here(self):
        page, _ = self.picks("Shows")
        page.sheet_says("Which number does the accessory show?")
        self.check("enter-passkey")

    def test_a_number_to_enter_there(self):
        page, _ = self.picks("Takes")
        page.sheet_says("Enter this number on the accessory")
        self.check("display-passkey")

    def test_a_pin(self):
        page, _ = self.picks("Legacy")
        page.sheet_says("What is the accessory’s PIN?")
        self.check("enter-pin")

    def test_pairing(self):
        page, _ = self.picks("Silent")
        page.sheet_says("Setting up Pink Dice")
        self.check("pairing")

    def test_failed(self):
        page, _ = self.picks("Refuses")
        page.sheet_says("Pink Dice (Refuses · 02:06) was not set up", "Choose it again to retry")
        self.check("failed")

    def test_naming_and_ready(self):
        page, _ = self.picks("Dice 4F", item("Pink Dice", productImage=PINK_IMAGE, setupOptions=["rename"]))
        page.sheet_says("What should Pink Dice be called?")
        self.check("renaming")
        page.press("Keep the current name", "dialog")
        page.sheet_says("Pink Dice is ready to use")
        self.check("done")

    def test_not_found(self):
        page = self.open()
        self.asks(item("Network", None, pairs=False, ssid=b"not here"), discoveryTimeout=1.0)
        page.sheet_says("Nothing was found")
        self.check("not-found")

    def test_a_migration(self):
        with Paired(self.world, "/org/bluez/hci0/dev_C0_FF_EE_00_02_01"):
            pass
        page = self.open()
        self.asks(item("Pink Dice", productImage=PINK_IMAGE) | {"peripheralIdentifier": "C0:FF:EE:00:02:01"})
        page.sheet_says("Agree in")
        self.check("migration-early")
        page.wait(lambda: page.one("dialog button.primary").is_enabled(), "the button")
        self.check("migration")
