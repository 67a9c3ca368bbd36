# SPDX-License-Identifier: Apache-2.0
"""Docs/Security.md names a test for each promise, and each attack for what it tries; it is held against the tests that there are."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("Tests/API", "Tests/Attacks", "Tests/Web")


def tests(path):
    """`Class.test` of a Python file, `Suite.test` of a Swift one."""
    found, kind = set(), None
    for line in path.read_text().splitlines():
        if name := re.match(r"(?:@Suite.* )?(?:public |final )*(?:class|struct) (\w+)", line):
            kind = name[1]
        elif name := re.match(r"    (?:def (test_\w+)\(|.*\bfunc (\w+)\()", line):
            found.add(f"{kind}.{name[1] or name[2]}")
    return found


class Table(unittest.TestCase):
    def setUp(self):
        self.text = (ROOT / "Docs/Security.md").read_text()
        # In the last column: `Class.test`, `Class` for all of its tests.
        rows = [line.rstrip().rstrip("|").rsplit("|", 1)[1] for line in self.text.splitlines() if line.startswith("| ") and "`" in line]
        self.named = {name for row in rows for name in re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", row)}
        self.attacks = set().union(*(tests(path) for path in (ROOT / "Tests/Attacks").glob("test_*.py"))) - tests(Path(__file__))
        self.all = self.attacks.union(*(tests(path) for folder in FOLDERS for path in (ROOT / folder).glob("test_*.py")),
                                      *(tests(path) for path in (ROOT / "Tests").glob("*Tests/*.swift")))
        self.assertGreater(len(self.named), 10)
        self.assertGreater(len(self.attacks), 30)

    def test_every_test_that_is_named_exists(self):
        known = self.all | {each.split(".")[0] for each in self.all}
        self.assertEqual(sorted(self.named - known), [])

    def test_every_attack_is_named(self):
        self.assertEqual(sorted(each for each in self.attacks if each not in self.named and each.split(".")[0] not in self.named), [])
