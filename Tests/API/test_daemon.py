# SPDX-License-Identifier: Apache-2.0
"""The program itself: how it ends, with which status, and its log about accessories."""

import re
import signal

from harness.names import NAME
from harness.programs import BIN, Program
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest


class Ending(APITest):
    def run_daemon(self, *more, state=None):
        return Program(BIN / "accessorysetupd", "--bus", self.world.bus.address, "--state-directory",
                       state or self.world.directory / "other", "--apps", self.world.app_directories[0], *more)

    def ended(self, program, seconds=10):
        wait(lambda: not program.running, seconds, "the program to end", also_every=0.05)
        return program.stop()

    def test_by_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                self.assertEqual(self.world.daemon.stop(number), 0)
                self.world.start_daemon()

    def test_by_a_signal_in_a_pairing(self):
        self.start(scenario(accessory("pink", 1, pairing={"fault": "slow", "delay": 60})))
        app, person = self.app(), self.picker()
        app.show_picker(item())
        person.pick("pink")
        wait(lambda: self.simulator.connections == ["pink"], 10, "the link", also_every=0.05)
        self.assertEqual(self.world.daemon.stop(), 0)
        self.world.start_daemon()
        app.wait_event("invalidated")
        self.assertNothingLeft()

    def test_by_the_end_of_the_bus(self):
        program = self.run_daemon("--help")
        self.assertEqual(self.ended(program), 0)
        daemon = self.world.daemon
        self.world.bus.stop()
        self.assertEqual(self.ended(daemon), 1)
        self.start(self.scenario)

    def test_when_the_name_is_taken(self):
        app, person = self.app(), self.picker()
        second = self.run_daemon(state=self.world.state)
        self.assertEqual(self.ended(second), 1)
        self.assertIn(NAME, "\n".join(second.lines))
        # The first one is as it was.
        self.add(app, person, "Dice 4F")

    def test_when_the_store_cannot_be_used(self):
        self.world.daemon.stop()
        place = self.world.directory / "place"
        place.write_text("a file, not a directory")
        program = self.run_daemon(state=place)
        self.assertEqual(self.ended(program), 1)
        self.assertIn(str(place), "\n".join(program.lines))
        self.world.start_daemon()

    def test_when_the_bus_cannot_be_reached(self):
        program = Program(
            BIN / "accessorysetupd", "--bus", "unix:path=/nowhere", "--state-directory", self.world.directory / "other")
        self.assertEqual(self.ended(program), 1)

    def test_with_wrong_arguments(self):
        for arguments in (["--colour", "pink"], ["--log-level", "loud"], ["more"]):
            with self.subTest(arguments):
                self.assertEqual(self.ended(self.run_daemon(*arguments)), 64)

    def test_with_a_wrong_configuration(self):
        configuration = self.world.directory / "accessorysetupd.conf"
        for content, line, key in [
            ("[Bluetooth]\nImmediateRSSI=near\n", 2, "ImmediateRSSI"), ("[Bluetooth]\nImmediateRSSI=20\n", 2, "ImmediateRSSI"),
            ("[Bluetooth]\n\nColour=pink\n", 3, "Colour"), ("[Colours]\nColour=pink\n", 1, "Colours"),
        ]:
            with self.subTest(content):
                configuration.write_text(content)
                program = self.run_daemon("--config", configuration)
                # 78: a restart cannot fix it, and systemd attempts none.
                self.assertEqual(self.ended(program), 78)
                self.assertRegex("\n".join(program.lines), rf"{re.escape(str(configuration))}:{line}\b.*{key}")
        program = self.run_daemon("--config", self.world.directory / "nowhere.conf")
        self.assertEqual(self.ended(program), 78)


class Log(APITest):
    def test_addresses_appear_at_debug_only(self):
        self.start(scenario(
            accessory("pink", 1), accessory("private", 2, addressType="rpa"), accessory("bad", 3, pairing={"fault": "refuse"}),
            accessory("slow", 4, pairing={"fault": "slow", "delay": 60, "faultCount": 1})))
        command = [each if each != "debug" else "info" for each in self.world.daemon.command]
        self.world.daemon.stop()
        self.world.daemon = Program(*command)
        self.world.daemon.wait_for(": ready ")
        self.world.wait_bluetooth("ready")
        app, person = self.app(), self.picker()
        pink = self.add(app, person, "pink")
        self.add(app, person, "private")
        app.show_picker(item())
        person.pick("bad")
        app.wait_event("pickerSetupFailed")
        person.pick("slow")
        wait(lambda: "slow" in self.simulator.connections, 10, "the link", also_every=0.05)
        person.cancel()
        app.wait_event("pickerDidDismiss", count=3)
        app.remove(pink)
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        app.remove(app.accessories[0])
        first = self.world.daemon
        first.stop()
        self.world.daemon = Program(*command)
        self.world.daemon.wait_for(": ready ")
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")
        self.assertNothingLeft()
        found = [line for line in first.lines + self.world.daemon.lines if re.search("C0[:_]FF[:_]EE|([0-9A-F]{2}[:_]){5}", line)]
        self.assertEqual(found, [])
