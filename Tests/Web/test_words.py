# SPDX-License-Identifier: Apache-2.0
"""The page in another language, by Cockpit's own mechanism; and that every word has its translation, and is used."""

import json
import re
import unittest

from web import PAGE, WebTest  # first: it knows where the others are

from harness.values import item

CALL = re.compile(r'_\("((?:[^"\\]|\\.)*)"\)')
PLURAL = re.compile(r'plural\("([^"]*)", "([^"]*)"')


def said():
    """The words of the page → the form for many, where they have one."""
    text = (PAGE / "text.js").read_text()
    return {**{each: None for each in CALL.findall(text)}, **dict(PLURAL.findall(text))}


def translations():
    """The entries of each translation: the plural form, then its own forms."""
    for path in sorted(PAGE.glob("po.*.js")):
        body = re.search(r"cockpit\.locale\((\{.*\})\);", path.read_text(), re.S)[1]
        yield path, json.loads(re.sub(r'"": \{.*?\},\n', "", body, count=1, flags=re.S))


class Translations(unittest.TestCase):
    def test_every_word_has_one_and_no_other(self):
        found = list(translations())
        self.assertTrue(found)
        for path, entries in found:
            with self.subTest(path.name):
                self.assertEqual(set(entries), set(said()))
                for word, (many, *forms) in entries.items():
                    self.assertEqual(many, said()[word], word)
                    self.assertEqual(len(forms), 1 if many is None else 2, word)
                    for form in forms:
                        self.assertEqual(set(re.findall(r"\$\d", form)), set(re.findall(r"\$\d", word)), word)
                        self.assertTrue(form.strip(), word)

    def test_no_words_elsewhere(self):
        """Texts are in one place: no other file asks for a translation, or writes a sentence into the page."""
        for path in PAGE.glob("*.js"):
            if path.name == "text.js" or path.name.startswith("po."):
                continue
            with self.subTest(path.name):
                code = "\n".join(line for line in path.read_text().split("\n") if not line.strip().startswith(("//", "*", "/*")))
                self.assertNotIn("gettext", code)
                self.assertEqual(re.findall(r'"[A-Z][a-z]+ [a-z]+ [^"]*"', code), [])


class German(WebTest):
    language = "de"

    def test_a_setup(self):
        page, app = self.open(), self.app()
        page.sees("Zubehör", "Fragt eine App nach Zubehör, erscheint es hier.")
        self.assertEqual(page.driver.execute_script("return document.documentElement.lang"), "de")
        app.show_picker(item("Pink Dice"))
        page.sheet_says("Dice möchte ein Zubehör einrichten", "1 Zubehör gefunden", "Neu")
        page.shot("offers-phone-german")
        self.assertEqual(page.axe(), [])
        page.pick("Pink Dice")
        app.wait_event("accessoryAdded")
        page.sheet_says("Pink Dice ist bereit", "Weiter geht es in Dice.")
        page.press("Schließen", "dialog")
        page.go("activity")
        page.sees("Was geschehen ist", "Zugriff gegeben")
        self.assertQuiet()
