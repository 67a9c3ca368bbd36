# SPDX-License-Identifier: Apache-2.0
"""The daemon on stores with random damage. It starts, or logs the file that prevents it; no app gains access; bonds of other programs stay; an
unreadable store is kept aside byte for byte; the next set-up works. SEEDS=500 tries more, FIRST=77 SEEDS=1 repeats one."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "API"))

from damage import strike

from harness.apps import App
from harness.names import ACCESSORY, ADMIN, ADMIN_PATH, GRANT
from harness.pickers import PickerProgram
from harness.programs import Daemon
from harness.radio import Paired, accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest

FIRST, SEEDS = int(os.environ.get("FIRST", "1")), int(os.environ.get("SEEDS", "24"))


class _Damage(APITest):
    apps = ("dice", "lamp")
    scenario = scenario(accessory("pink"), accessory("other", 2), accessory("theirs", 3))

    def setUp(self):
        super().setUp()
        self.others = len(self.world.clients)
        with Paired(self.world, "/org/bluez/hci0/dev_C0_FF_EE_00_02_03"):
            pass
        self.file = self.world.state / "grants.sqlite"
        self.add(self.app(), self.picker(), "pink")
        self.leave()
        self.granted = self.read_grants()
        self.assertEqual(len(self.granted), 1)
        # After a kill, with its log, and after an ordinary end.
        self.sound = []
        for number in (signal.SIGKILL, signal.SIGTERM):
            self.world.daemon.stop(number)
            kept = self.world.directory / f"sound-{number}"
            shutil.copytree(self.world.state, kept)
            self.sound.append(kept)
            self.world.start_daemon()

    def leave(self):
        """Disconnects apps and pickers."""
        for client in self.world.clients[self.others:]:
            client.close()
        del self.world.clients[self.others:]

    def read_grants(self):
        """Enabled grants: app and accessory."""
        return {(str(each["App"]), str(each["Accessory"])) for each in self.world.grants().values() if each["Enabled"]}

    def lay(self, kept):
        """Stops the daemon and restores a sound store."""
        if self.world.daemon.running:
            self.world.daemon.stop()
        shutil.rmtree(self.world.state)
        shutil.copytree(kept, self.world.state)

    def files(self):
        return {each.name: each.read_bytes() for each in self.world.state.iterdir() if each.is_file() and not each.is_symlink()}

    def starts(self):
        """Whether the daemon starts; else it must log the file."""
        try:
            Daemon(self.world)
        except AssertionError:
            self.assertFalse(self.world.daemon.running, "it neither starts nor ends")
            self.assertGreater(self.world.daemon.stop(), 0, "it was ended by a signal")
            self.assertTrue(any("grants.sqlite" in line for line in self.world.daemon.lines), self.world.daemon.lines[-5:])
            return False
        self.world.wait_bluetooth("ready")
        return True

    def look(self, before):
        """Checks a daemon on a damaged store, given the files that it found."""
        apps = {f"com.example.{each}" for each in self.apps}
        more = {each for each in self.read_grants() if each[0] in apps} - self.granted
        self.assertEqual(more, set(), "an app has access without a grant")
        aside = [each for each in self.world.state.iterdir() if ".damaged-" in each.name]
        for each in aside:
            name = "grants.sqlite" + next((suffix for suffix in ("-wal", "-journal", "-shm") if each.name.endswith(suffix)), "")
            if name in before and not name.endswith("-shm"):
                self.assertEqual(each.read_bytes(), before[name], f"{each.name} is not as it was")
        if aside:
            # Its output may be read later than its name is seen on the bus.
            self.world.daemon.wait_for("critical|set aside")
        events = [str(each["event"]) for each in self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", sv({}))]
        self.assertEqual(events[:1] == ["storeReplaced"], bool(aside), f"the trail begins with {events[:1]}")
        # The next one, and its end.
        path = self.add(App(self.world).begin(), PickerProgram(self.world).register(), "other")
        self.world.admin.call(path, ACCESSORY, "Remove")
        self.leave()
        wait(lambda: "other" not in self.simulator.bonds, 10, "the bond to go", also_every=0.05)
        self.assertIn("theirs", self.simulator.bonds, "a bond of another program is gone")


class ByChance(_Damage):
    def test_stores_that_were_damaged(self):
        begun = aside = 0
        for seed in range(FIRST, FIRST + SEEDS):
            chance = random.Random(seed)
            self.lay(chance.choice(self.sound))
            names = strike(chance, self.file)
            before = self.files()
            with self.subTest(seed=seed, ways=names):
                try:
                    if self.starts():
                        begun += 1
                        aside += any(".damaged-" in each.name for each in self.world.state.iterdir())
                        self.look(before)
                    else:
                        # A refused store is unchanged.
                        self.assertEqual({name: data for name, data in self.files().items() if not name.endswith("-shm")},
                                         {name: data for name, data in before.items() if not name.endswith("-shm")})
                except BaseException:
                    print(f"seed {seed}: {names}\n", "\n".join(self.world.daemon.lines[-12:]), file=sys.stderr)
                    raise
                finally:
                    self.leave()
        if SEEDS > 10:
            self.assertGreater(begun, SEEDS // 2)
            self.assertGreater(aside, 0)
        self.recover()

    def recover(self):
        self.lay(self.sound[1])
        self.world.start_daemon()


class InItsPlace(_Damage):
    """Something other than a file is in the store's place."""

    def check_refused(self, make):
        self.lay(self.sound[1])
        self.file.unlink()
        make(self.file)
        self.assertFalse(self.starts())
        self.assertTrue(self.file.exists() or self.file.is_symlink(), "it was removed")
        self.assertIn("theirs", self.simulator.bonds)
        self.lay(self.sound[1])
        self.world.start_daemon()
        self.assertEqual(self.read_grants(), self.granted)

    def test_a_directory(self):
        self.check_refused(Path.mkdir)

    def test_a_full_directory(self):
        def make(place):
            place.mkdir()
            (place / "more").touch()

        self.check_refused(make)

    def test_a_pipe(self):
        self.check_refused(os.mkfifo)

    def test_a_device(self):
        self.check_refused(lambda place: os.mknod(place, 0o600 | 0o020000, os.makedev(1, 3)))

    def test_a_link_to_itself(self):
        self.check_refused(lambda place: place.symlink_to(place.name))

    def test_a_link_to_nothing(self):
        self.check_refused(lambda place: place.symlink_to("nowhere"))

    def test_a_disk_that_is_not_there(self):
        """The store is on a disk that is mounted later: no new store takes its place."""
        self.lay(self.sound[1])
        disk = self.world.directory / "disk"
        disk.mkdir()
        self.file.rename(disk / "grants.sqlite")
        self.file.symlink_to(disk / "grants.sqlite")
        disk.rename(disk.with_suffix(".away"))
        self.assertFalse(self.starts())
        disk.with_suffix(".away").rename(disk)
        self.assertTrue(self.starts())
        self.assertEqual(self.read_grants(), self.granted)
        self.look({})
        self.leave()
        self.lay(self.sound[1])
        self.world.start_daemon()

    def test_a_locked_store(self):
        """The daemon fails at once and logs it, or works once the lock is free."""
        self.lay(self.sound[0])
        with contextlib.closing(sqlite3.connect(self.file, isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            began = self.starts()
        if began:
            self.look({})
        self.leave()
        self.lay(self.sound[1])
        self.world.start_daemon()
        self.assertEqual(self.read_grants(), self.granted)
