# SPDX-License-Identifier: Apache-2.0
"""Manifests and policy files that cannot be read just now: the earlier ones stay in force, all others count, and soon they are read
again. A removed file loses its effect."""

import errno
import os
import shutil
import stat
from pathlib import Path

from shortage import OPENING, READING, ShortageTest

from harness.names import ADMIN, ADMIN_PATH, APP
from harness.waiting import wait

PASSING = (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM)


class FilesTest(ShortageTest):
    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.apps_directory, self.policy = self.world.app_directories[0], self.world.policy
        self.write("10-site.conf", "[Deny one]\nApp=com.example.board\n")
        self.wait_rules("10-site.conf")

    def write(self, name, text):
        self.policy.mkdir(exist_ok=True)
        draft = self.policy / "draft"
        draft.write_text(text)
        draft.rename(self.policy / name)

    def known(self):
        """The apps that count."""
        return sorted(str(each[APP]["Id"]) for each in self.world.admin.objects().values() if APP in each and not each[APP]["Problems"])

    def rules(self):
        """The files whose rules are in force."""
        self.assertEqual(list(self.world.admin.get(ADMIN_PATH, ADMIN, "PolicyProblems")), [])
        return sorted({str(each["source"]).rsplit("/", 1)[1] for each in self.world.admin.get(ADMIN_PATH, ADMIN, "Policy")})

    def wait_known(self, *apps):
        wait(lambda: self.known() == [f"com.example.{each}" for each in apps], 10, lambda: f"{apps} to be known; are {self.known()}", 0.05)

    def wait_rules(self, *files):
        wait(lambda: self.rules() == sorted(files), 10, lambda: f"the rules of {files}; are {self.rules()}", 0.05)

    def said(self, words):
        return sum(words in each for each in self.world.daemon.lines)

    def wait_stale(self, what, change):
        """Makes a change that is noticed, and waits until it was seen that something cannot be read."""
        before = self.said(f"could not read {what};")
        change()
        wait(lambda: self.said(f"could not read {what};") > before, 10, f"{what} that cannot be read", 0.05)

    def test_manifests(self):
        for number in PASSING:
            for kind in (OPENING, READING):
                with self.subTest(errno.errorcode[number], kind=kind):
                    self.shortage.fail(self.apps_directory, number, kind)
                    self.wait_stale("manifests", lambda: self.world.declare("new"))
                    # The new file was seen; its contents were not.
                    self.assertEqual(self.known(), ["com.example.board", "com.example.dice"])
                    self.shortage.end()
                    self.world.pass_time(5)
                    self.wait_known("board", "dice", "new")
                    (self.apps_directory / "com.example.new.conf").unlink()
                    self.wait_known("board", "dice")

    def test_rules(self):
        for number in PASSING:
            for kind in (OPENING, READING):
                with self.subTest(errno.errorcode[number], kind=kind):
                    # The file itself: all others count.
                    self.shortage.fail(self.policy / "10-site.conf", number, kind)
                    self.wait_stale("policy files", lambda: self.write("20-more.conf", "[Deny more]\nApp=com.example.dice\n"))
                    self.wait_rules("10-site.conf", "20-more.conf")
                    self.shortage.end()
                    # The directory.
                    self.shortage.fail(self.policy, number, OPENING)
                    self.wait_stale("policy files", (self.policy / "20-more.conf").unlink)
                    self.assertEqual(self.rules(), ["10-site.conf", "20-more.conf"])
                    self.shortage.end()
                    self.world.pass_time(5)
                    self.wait_rules("10-site.conf")

    def test_what_is_listed_and_not_there(self):
        """Between the end of an old file and the beginning of the new one."""
        manifest, rule = self.apps_directory / "com.example.board.conf", self.policy / "10-site.conf"
        self.shortage.fail(manifest, errno.ENOENT, OPENING)
        self.wait_stale("manifests", manifest.touch)
        self.assertEqual(self.known(), ["com.example.board", "com.example.dice"])
        self.shortage.end()
        self.shortage.fail(rule, errno.ENOENT, OPENING)
        self.wait_stale("policy files", rule.touch)
        self.assertEqual(self.rules(), ["10-site.conf"])
        # It does not come back: then it has gone.
        self.world.pass_time(5)
        wait(lambda: self.world.admin.get(ADMIN_PATH, ADMIN, "PolicyProblems"), 10, "a problem", 0.05)
        self.assertEqual(self.known(), ["com.example.board", "com.example.dice"])

    def test_what_is_no_file(self):
        """The daemon does not wait for a writer of a pipe, reports the mistake, and all other files count."""
        manifest, rule = self.apps_directory / "com.example.strange.conf", self.policy / "20-strange.conf"
        problems = lambda: [each["file"] for each in self.world.admin.get(ADMIN_PATH, ADMIN, "PolicyProblems")]
        for kind, make in (
                ("a pipe", os.mkfifo), ("a directory", Path.mkdir), ("a link to itself", lambda place: place.symlink_to(place.name)),
                ("a device", lambda place: os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(1, 5))),
                ("a socket", lambda place: os.mknod(place, 0o600 | stat.S_IFSOCK))):
            with self.subTest(kind):
                before = self.said(manifest.name)
                make(manifest)
                wait(lambda: self.said(manifest.name) > before, 10, "the manifest's problem", 0.05)
                make(rule)
                wait(lambda: any(str(each).endswith(rule.name) for each in problems()), 10, lambda: f"the rule's; there are {problems()}", 0.05)
                self.assertEqual(self.known(), ["com.example.board", "com.example.dice"])
                for each in (manifest, rule):
                    each.rmdir() if each.is_dir() else each.unlink()
                wait(lambda: not problems(), 10, "no problem", 0.05)
                self.wait_rules("10-site.conf")

    def test_a_directory_that_is_replaced(self):
        for directory, what in ((self.apps_directory, "manifests"), (self.policy, "policy files")):
            aside = directory.with_suffix(".aside")
            self.wait_stale(what, lambda: directory.rename(aside))
            self.assertEqual((self.known(), self.rules()), (["com.example.board", "com.example.dice"], ["10-site.conf"]))
            aside.rename(directory)
        self.world.declare("new")
        self.wait_known("board", "dice", "new")
        # For good.
        for directory, what in ((self.apps_directory, "manifests"), (self.policy, "policy files")):
            self.wait_stale(what, lambda: shutil.rmtree(directory))
        self.world.pass_time(5)
        self.wait_known()
        self.wait_rules()

    def test_a_permission_that_comes_later(self):
        """No file has changed then, and still it is read."""
        self.shortage.fail(self.apps_directory / "com.example.new.conf", errno.EACCES, OPENING)
        manifest = self.world.declare("new")
        wait(lambda: self.said("com.example.new.conf"), 10, "the problem", 0.05)
        self.shortage.end()
        manifest.chmod(0o644)
        self.wait_known("board", "dice", "new")

    def test_at_start(self):
        """There is nothing earlier: no app is known, and no rule to be relied on, until they can be read."""
        self.shortage.fail(self.world.directory / "apps", errno.EMFILE, OPENING)
        self.world.restart_daemon()
        self.assertEqual(self.known(), [])
        self.shortage.end()
        self.world.pass_time(5)
        self.wait_known("board", "dice")
        self.shortage.fail(self.policy, errno.EMFILE, OPENING)
        self.world.restart_daemon()
        self.assertTrue(self.world.admin.get(ADMIN_PATH, ADMIN, "PolicyProblems"))
        self.shortage.end()
        self.world.pass_time(5)
        wait(lambda: not self.world.admin.get(ADMIN_PATH, ADMIN, "PolicyProblems"), 10, "the policy", 0.05)
        self.wait_rules("10-site.conf")
