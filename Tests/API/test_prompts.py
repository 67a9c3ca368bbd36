# SPDX-License-Identifier: Apache-2.0
"""The person's prompts during pairing, and the outcome of right, wrong and badly typed answers. The keys of an answer are the
words of the prompts: accept b, passkey u, pin s."""

import dbus

from harness.names import PICKER, error
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.world import APITest


class Prompts(APITest):
    scenario = scenario(
        accessory("compares", 1, pairing={"mode": "numericComparison"}),
        accessory("disagrees", 2, pairing={"mode": "numericComparison", "confirms": False}),
        accessory("shows", 3, pairing={"mode": "displayPasskey", "passkey": 42}),
        accessory("takes", 4, pairing={"mode": "enterPasskey"}),
        accessory("takes-wrong", 5, pairing={"mode": "enterPasskey", "fault": "wrongKey"}),
        accessory("pin", 6, pairing={"mode": "pin", "pin": "4711"}),
        accessory("silent", 7, pairing={"mode": "justWorks", "fault": "silent"}),
        accessory("works", 8),
    )

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()

    def pick(self, name):
        self.dice.show_picker(item())
        self.person.pick(name)

    def confirm(self, name="compares"):
        self.pick(name)
        self.person.wait_stage("confirming")

    def expect_added(self, name):
        added = self.dice.wait_event("accessoryAdded")
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.dice.accessories, [added["accessory"]])
        self.assertEqual(self.simulator.bonds, [name])
        self.assertNotIn("pickerSetupFailed", self.dice.told())

    def expect_failed(self):
        """The attempt has failed, the picker lives on, and another accessory can be picked in it."""
        failed = self.dice.wait_event("pickerSetupFailed")
        self.assertEqual(failed["picker"], self.person.path)
        self.assertEqual(failed["error"], error("ConnectionFailed"))
        self.assertTrue(failed["message"])
        self.assertNotIn("pickerDidDismiss", self.dice.told())
        self.assertEqual(self.simulator.bonds, [])
        self.assertEqual(self.world.grants(), {})
        self.person.pick("works")
        self.expect_added_after_failure()

    def expect_added_after_failure(self):
        self.dice.wait_event("pickerDidDismiss")
        self.assertEqual(self.dice.told(), [
            "activated", "pickerDidPresent", "pickerSetupPairing", "pickerSetupFailed", "pickerSetupPairing", "accessoryAdded",
            "pickerDidDismiss"])
        self.assertEqual(self.simulator.bonds, ["works"])

    def test_numbers_that_agree(self):
        self.confirm()
        prompt = self.person.wait_prompt("confirm-passkey")
        self.assertIsInstance(prompt["passkey"], dbus.UInt32)
        self.assertLess(prompt["passkey"], 1_000_000)
        self.person.respond(accept=True)
        self.expect_added("compares")

    def test_numbers_that_the_person_refuses(self):
        self.confirm()
        self.person.respond(accept=False)
        self.expect_failed()

    def test_numbers_that_the_accessory_refuses(self):
        self.confirm("disagrees")
        self.person.respond(accept=True)
        self.expect_failed()

    def test_a_passkey_to_enter(self):
        self.confirm("shows")
        self.assertEqual(dict(self.person.wait_prompt("enter-passkey")), {"kind": "enter-passkey"})
        self.person.respond(passkey=dbus.UInt32(42))
        self.expect_added("shows")

    def test_a_wrong_passkey(self):
        self.confirm("shows")
        self.person.respond(passkey=dbus.UInt32(43))
        self.expect_failed()

    def test_a_passkey_to_show(self):
        self.pick("takes")
        prompt = self.person.wait_prompt("display-passkey")
        self.assertIsInstance(prompt["passkey"], dbus.UInt32)
        self.assertIn("entered", prompt)
        # Nothing is asked: there is nothing to answer.
        self.assertFails(error("InvalidRequest"), self.person.respond, accept=True)
        self.expect_added("takes")

    def test_a_shown_passkey_entered_wrongly(self):
        self.pick("takes-wrong")
        self.expect_failed()

    def test_a_pin(self):
        self.confirm("pin")
        self.assertEqual(dict(self.person.wait_prompt("enter-pin")), {"kind": "enter-pin"})
        self.person.respond(pin="4711")
        self.expect_added("pin")

    def test_a_wrong_pin(self):
        self.confirm("pin")
        self.person.respond(pin="4712")
        self.expect_failed()

    def test_rejecting_instead_of_typing(self):
        for name in ("shows", "pin"):
            with self.subTest(name):
                self.start(self.scenario)
                self.person, self.dice = self.picker(), self.app()
                self.confirm(name)
                self.person.respond(accept=False)
                self.expect_failed()

    def test_answers_that_do_not_fit(self):
        """Each is refused, and the question stays."""
        right = {"compares": {"accept": True}, "shows": {"passkey": dbus.UInt32(42)}, "pin": {"pin": "4711"}}
        wrong = {
            "compares": [{"passkey": dbus.UInt32(1)}, {"pin": "1"}, {"accept": "yes"}, {"accept": dbus.UInt32(1)}, {},
                         {"yes": True}, {"accept": True, "pin": "1"}],
            "shows": [{"accept": True}, {"pin": "42"}, {"passkey": "42"}, {"passkey": dbus.UInt32(1_000_000)},
                      {"passkey": dbus.Int32(-1)}, {"passkey": 42.0}, {}, {"passkey": dbus.UInt32(42), "more": True},
                      {"passkey": dbus.UInt32(42), "accept": False}],
            "pin": [{"accept": True}, {"passkey": dbus.UInt32(4711)}, {"pin": ""}, {"pin": "12345678901234567"},
                    {"pin": dbus.ByteArray(b"4711")}],
        }
        for name, answers in wrong.items():
            self.start(self.scenario)
            self.person, self.dice = self.picker(), self.app()
            self.confirm(name)
            before = self.person.get(self.person.path, PICKER, "Prompt")
            for answer in answers:
                with self.subTest(name, answer=answer):
                    self.assertFails(error("InvalidRequest"), self.person.respond, **answer)
                    self.assertEqual(self.person.get(self.person.path, PICKER, "Stage"), "confirming")
                    self.assertEqual(self.person.get(self.person.path, PICKER, "Prompt"), before)
            self.person.respond(**right[name])
            self.expect_added(name)

    def test_an_answer_is_taken_once(self):
        self.confirm()
        self.person.respond(accept=True)
        # Either the question is gone or the picker: there is nothing to take back.
        path = self.person.path
        with self.assertRaises(dbus.DBusException):
            self.person.call(path, PICKER, "Respond", "a{sv}", sv({"accept": False}))
        self.expect_added("compares")

    def test_answers_that_were_never_asked(self):
        self.dice.show_picker(item())
        self.person.wait_offer("silent")
        for answer in ({"accept": True}, {"passkey": dbus.UInt32(1)}, {"pin": "1"}):
            self.assertFails(error("InvalidRequest"), self.person.respond, **answer)
        self.assertEqual(self.person.get(self.person.path, PICKER, "Stage"), "offering")
        self.person.pick("silent")
        self.person.wait_stage("pairing")
        for answer in ({"accept": True}, {"passkey": dbus.UInt32(1)}, {"pin": "1"}):
            self.assertFails(error("InvalidRequest"), self.person.respond, **answer)
        self.assertEqual(self.person.get(self.person.path, PICKER, "Stage"), "pairing")

    def test_picks_that_were_never_offered(self):
        self.dice.show_picker(item())
        self.person.wait_offer("works")
        for offer in ("", "0", "999999", "works", "Pink Dice", "C0:FF:EE:00:02:08"):
            with self.subTest(offer):
                self.assertFails(error("InvalidRequest"), self.person.ask, "Pick", "s", offer, says=[offer])
        self.assertEqual(self.person.get(self.person.path, PICKER, "Stage"), "offering")
        self.assertEqual(self.dice.told(), ["activated", "pickerDidPresent"])
        self.person.pick("silent")
        self.person.wait_stage("pairing")
        self.assertFails(error("InvalidRequest"), self.person.ask, "Pick", "s", self.person.offers[0]["id"])
        self.assertEqual(self.dice.told(), ["activated", "pickerDidPresent", "pickerSetupPairing"])
