# SPDX-License-Identifier: Apache-2.0
"""Foreign names: an accessory's, an app's, a manifest's. None is ever HTML, and characters that would hide or reverse text are marked."""

from web import WebTest  # first: it knows where the others are

from harness.names import PINK
from harness.radio import accessory, scenario
from harness.values import item

SCRIPT = "<script>ran=1</script>"
IMAGE = "<img src=x onerror=ran=1>"
TURNED = "abc\u202ecba"
HIDDEN = "Pi\u200bnk\u2066"
MARK = "\ufffd"


def named(name, number):
    return accessory(f"stranger-{number}", number, advert={"serviceUUIDs": [PINK], "name": name})


class Names(WebTest):
    scenario = scenario(*(named(name, number) for number, name in enumerate((SCRIPT, IMAGE, TURNED, HIDDEN, "{{7*7}} $0 %s"), 1)))

    def nothing_ran(self):
        self.assertFalse(self.browser.driver.execute_script("return 'ran' in window || !!document.querySelector('main script, dialog script, li > img')"))
        self.assertQuiet()

    def test_in_the_picker_and_after_it(self):
        page, app = self.open(), self.app()
        app.show_picker(item(SCRIPT[:20]))
        page.wait(lambda: len(page.offers()) == 5, "the offers")
        shown = page.driver.execute_script("return [...document.querySelectorAll('.offer .advertised')].map(each => each.textContent)")
        self.assertEqual(sorted(shown), sorted([SCRIPT, IMAGE, f"abc{MARK}cba", f"Pi{MARK}nk{MARK}", "{{7*7}} $0 %s"]))
        self.assertEqual(set(page.offers()), {SCRIPT[:20]})
        page.pick(IMAGE)
        app.wait_event("accessoryAdded")
        page.sheet_says(f"{SCRIPT[:20]} is ready to use")
        page.press("Close", "dialog")
        page.sees(SCRIPT[:20])
        page.go("activity")
        page.sees(IMAGE)
        self.nothing_ran()

    def test_in_why_it_is_not_offered(self):
        page = self.open("apps/com.example.dice")
        page.sees(SCRIPT, IMAGE, f"abc{MARK}cba")
        self.nothing_ran()

    def test_in_a_manifest(self):
        (self.world.app_directories[0] / "com.example.bad.conf").write_text(f"[Application]\nId={IMAGE}\nName={TURNED}\n{SCRIPT}=1\n")
        page = self.open("apps")
        page.sees("problem", IMAGE)
        self.assertNotIn("\u202e", page.text)
        self.nothing_ran()

    def test_the_pages_policy(self):
        """The restrictions on scripts in the page: none inline, nothing from elsewhere, no frame."""
        import urllib.request
        page = self.open()
        with urllib.request.urlopen(self.cockpits[0].address) as answer:
            policy = answer.headers["Content-Security-Policy"]
        self.assertIn("default-src 'self'", policy)
        self.assertNotIn("unsafe", policy)
        page.driver.execute_script("const made = document.createElement('script'); made.textContent = 'window.ran = 1'; document.head.append(made)")
        self.assertFalse(page.driver.execute_script("return 'ran' in window"))
        self.assertEqual(len([each for each in page.complaints() if "Content Security Policy" in each]), 1)
