# SPDX-License-Identifier: Apache-2.0
"""The ways in which a picker is refused or ends without an accessory: time, the person, the radio, the programs at either end."""

import signal

import dbus

from harness.apps import App
from harness.names import ACCESSORY, MANAGER, NAME, PICKER, ROOT, SESSION, SOMEBODY_ELSE, UNKNOWN_OBJECT, error
from harness.pickers import PickerProgram
from harness.programs import Program
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import happens_within, wait
from harness.world import APITest

NOTHING = scenario()


class Refused(APITest):
    apps = ("dice", "lamp", "toy")

    def test_without_a_picker_program(self):
        app = self.app()
        self.assertFalse(self.world.manager("PickerAvailable"))
        self.assertFails(error("PickerRestricted"), app.show_picker, item(), says=["picker"])
        self.assertEqual(app.told(), ["activated"])
        picker = self.picker()
        self.assertTrue(self.world.manager("PickerAvailable"))
        picker.unregister()
        self.assertFalse(self.world.manager("PickerAvailable"))
        self.assertFails(error("PickerRestricted"), app.show_picker, item())
        # The refused request has left nothing behind.
        picker.register()
        self.add(app, picker, "Dice 4F")

    def test_rule_7_while_another_picker_is_active(self):
        picker, app, other = self.picker(), self.app(), self.app()
        path = app.show_picker(item())
        for each in (app, other):
            self.assertFails(error("PickerAlreadyActive"), each.show_picker, item())
        self.assertEqual(self.world.admin.paths("picker"), [path])
        self.assertEqual(other.told(), ["activated"])
        # Only its dismissal frees the way.
        picker.cancel()
        app.wait_event("pickerDidDismiss")
        app.settle()
        self.assertNotEqual(other.show_picker(item()), path)

    def test_while_another_app_has_a_picker(self):
        self.world.declare("lamp")
        self.world.restart_daemon()
        self.picker()
        app, lamp = self.app(), self.app("lamp")
        app.show_picker(item())
        self.assertFails(error("PickerAlreadyActive"), lamp.show_picker, item())

    def test_a_request_that_waits_for_a_picker_program(self):
        app = self.app()
        answers = self.ask_later(app, waitForPicker=3600)
        self.world.daemon.wait_for("picker request queued")
        # One for each app; wrong items are refused at once.
        for each in (app, self.app()):
            self.assertFails(error("PickerAlreadyActive"), each.show_picker, item(), waitForPicker=1.5)
        self.assertFails(error("InvalidRequest"), self.app("lamp").show_picker, {"name": ""}, waitForPicker=3600)
        self.assertFails(error("PickerRestricted"), app.show_picker, item(), waitForPicker=0)
        self.assertEqual((answers, app.told()), ([], ["activated"]))
        picker = self.picker()
        wait(lambda: answers, what="the answer")
        picker.wait_offer("Dice 4F")
        picker.pick("Dice 4F")
        app.wait_event("accessoryAdded", 20)

    def test_requests_that_wait_are_shown_one_after_the_other(self):
        app, lamp = self.app(), self.app("lamp")
        first = self.ask_later(app, waitForPicker=3600)
        self.world.daemon.wait_for("picker request queued app=com.example.dice")
        second = self.ask_later(lamp, waitForPicker=float("inf"))
        self.world.daemon.wait_for("picker request queued app=com.example.lamp")
        picker = self.picker()
        wait(lambda: first, what="the first picker")
        self.assertEqual(second, [])
        # Another app's picker is waited for as well.
        toy = self.ask_later(self.app("toy"), waitForPicker=3600)
        self.world.daemon.wait_for("picker request queued app=com.example.toy")
        for session, answers in ((app, second), (lamp, toy)):
            shown = picker.path
            picker.cancel()
            session.wait_event("pickerDidDismiss")
            wait(lambda: answers and picker.path not in (None, shown), what="the next picker")

    def test_ends_of_a_request_that_waits(self):
        app = self.app()
        with self.subTest("its time is over"):
            answers = self.ask_later(app, waitForPicker=2)
            self.world.daemon.wait_for("picker request queued")
            wait(lambda: answers or self.world.pass_second(), 20, "the answer")
            self.assertRefused(answers, "PickerRestricted")
        with self.subTest("the app calls it off"):
            answers = self.ask_later(app, waitForPicker=3600)
            app.request("CancelPicker")
            wait(lambda: answers, what="the answer")
            self.assertRefused(answers, "UserCancelled")
            self.assertFails(error("InvalidRequest"), app.request, "CancelPicker")
        with self.subTest("the session ends"):
            answers = self.ask_later(app, waitForPicker=3600)
            app.request("Invalidate")
            wait(lambda: answers, what="the answer")
            self.assertRefused(answers, "Invalidated")
        with self.subTest("the app goes"):
            gone = self.app()
            self.ask_later(gone, waitForPicker=3600)
            gone.settle()
            gone.close()
            wait(lambda: not self.world.admin.paths("session"), what="its session to end", also_every=0.02)
        # Nothing waits any more.
        picker = self.picker()
        self.assertEqual(self.world.admin.paths("picker"), [])
        self.add(self.app(), picker, "Dice 4F")

    def ask_later(self, app, **settings):
        answers = []
        app.call_later(app.session, SESSION, "ShowPicker", lambda *answer: answers.append(answer), "aa{sv}a{sv}",
                       dbus.Array([sv(item())], "a{sv}"), sv(settings))
        return answers

    def assertRefused(self, answers, name):
        self.assertEqual([each.get_dbus_name() for each in answers[0]], [error(name)])

    def test_before_activation(self):
        self.picker()
        app = App(self.world)
        app.session = app.create_session()
        self.assertEqual(app.state, "created")
        self.assertFails(error("InvalidRequest"), app.show_picker, item(), says=["created"])
        self.assertEqual(app.accessories, [])

    def test_without_power(self):
        self.start({**NOTHING, "adapters": [{"powered": False}]})
        self.picker()
        app = self.app()
        self.assertEqual(self.world.manager("Bluetooth"), "off")
        self.assertFails(error("PickerRestricted"), app.show_picker, item(), says=["bluetooth"])
        self.simulator.do("adapterPowerOn", "hci0")
        self.world.wait_bluetooth("ready")
        app.show_picker(item())

    def test_without_an_adapter(self):
        self.start({**NOTHING, "adapters": []})
        self.picker()
        app = self.app()
        self.assertEqual(self.world.manager("Bluetooth"), "absent")
        self.assertFails(error("PickerRestricted"), app.show_picker, item(), says=["bluetooth"])

    def test_without_the_service(self):
        self.picker()
        app = self.app()
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.assertFails(error("PickerRestricted"), app.show_picker, item(), says=["bluetooth"])
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")
        app.show_picker(item())

    def test_not_because_the_daemon_has_just_started(self):
        # The bus may have started it for this very app, and BlueZ may be slow to list its objects. Either the daemon
        # takes its name only once it knows, or it answers only then.
        app, picker = App(self.world), PickerProgram(self.world)
        self.world.daemon.stop()
        self.simulator.pause()
        self.addCleanup(self.simulator.resume)
        self.world.daemon = Program(*self.world.daemon.command)
        if not happens_within(2, lambda: app.has_owner(NAME), also_every=0.01):
            self.simulator.resume()
            wait(lambda: app.has_owner(NAME), 10, "the daemon's name", also_every=0.01)
        picker.register()
        app.begin()
        answers = []
        app.call_later(app.session, SESSION, "ShowPicker", lambda *answer: answers.append(answer), "aa{sv}a{sv}",
                       dbus.Array([sv(item())], "a{sv}"), sv({}))
        app.settle()
        self.simulator.resume()
        wait(lambda: answers, 10, "an answer to ShowPicker")
        self.assertEqual([type(each) for each in answers[0]], [dbus.ObjectPath], answers)

    def test_the_state_of_the_radio_is_told(self):
        # To every client that has called: apps decide by it whether to ask at all.
        app = self.app()
        for action, target, state in [
            ("adapterPowerOff", "hci0", "off"), ("adapterPowerOn", "hci0", "ready"), ("adapterRemoved", "hci0", "absent"),
            ("adapterAdded", "hci0", "ready"), ("serviceStopped", "", "absent"), ("serviceStarted", "", "ready"),
        ]:
            with self.subTest(action):
                app.signals.clear()
                self.simulator.do(action, target)
                wait(lambda: any(
                    each.member == "PropertiesChanged" and each.arguments[0] == MANAGER
                    and each.arguments[1].get("Bluetooth") == state for each in app.signals), 5, f"PropertiesChanged to {state}")
                self.assertEqual(app.get(ROOT, MANAGER, "Bluetooth"), state)


class Ended(APITest):
    apps = ("dice", "board")

    def setUp(self):
        super().setUp()
        self.person, self.dice = self.picker(), self.app()

    def restart(self, scenario):
        self.start(scenario)
        self.person, self.dice = self.picker(), self.app()

    def show(self):
        path = self.dice.show_picker(item())
        self.person.wait_stage("offering")
        return path

    def expect_usable(self):
        """The session lives, and the next picker works."""
        self.assertEqual(self.dice.state, "active")
        self.assertNothingLeft()
        self.dice.show_picker(item())
        self.person.wait_stage("offering")
        self.person.cancel()
        self.dice.wait_event("pickerDidDismiss", count=2)

    def test_rule_8_by_time(self):
        self.restart(scenario(accessory("pink")))
        self.simulator.do("vanish", "pink")
        path = self.dice.show_picker(item(), discoveryTimeout=0.5)
        details = self.assertDismissed(self.dice, "DiscoveryTimeout")
        self.assertEqual(details["picker"], path)
        self.assertEqual(self.dice.told(), ["activated", "pickerDidPresent", "pickerDidDismiss"])
        # The picker says so before it goes.
        self.person.wait_gone()
        self.assertEqual(self.person.stages, ["searching", "failed"])
        self.assertEqual(self.person.state["Prompt"].get("error"), error("DiscoveryTimeout"))
        self.simulator.do("return", "pink")
        self.expect_usable()

    def test_time_does_not_end_what_was_offered(self):
        # Not by the time that is given, which passes twice: the offer of another accessory shows it.
        self.restart(scenario(accessory("first", 1), accessory("later", 2)))
        self.simulator.do("vanish", "later")
        self.dice.show_picker(item(), discoveryTimeout=20.0)
        self.person.wait_offer("first")
        for _ in range(41):
            self.world.pass_second()
        self.simulator.do("return", "later")
        self.person.wait_offer("later")
        self.assertEqual(self.person.state["Stage"], "offering")
        self.person.pick("first")
        self.dice.wait_event("accessoryAdded")

    def test_no_time_ends_an_unbounded_search(self):
        self.restart(scenario(accessory("later", appearsAt=2)))
        self.dice.show_picker(item(), discoveryTimeout=float("inf"))
        self.person.wait_offer("later")

    def test_by_the_person_while_searching(self):
        self.restart(scenario(accessory("pink")))
        self.simulator.do("vanish", "pink")
        self.dice.show_picker(item())
        self.person.wait_stage("searching")
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")
        self.simulator.do("return", "pink")
        self.expect_usable()

    def test_by_the_person_while_choosing(self):
        path = self.show()
        self.person.cancel()
        self.assertEqual(self.assertDismissed(self.dice, "UserCancelled")["picker"], path)
        self.person.wait_gone()
        self.expect_usable()

    def test_by_the_person_while_pairing(self):
        for fault in ("silent", "slow"):
            with self.subTest(fault):
                self.restart(scenario(accessory("pink", pairing={"fault": fault, "faultCount": 1})))
                self.show()
                self.person.pick("pink")
                self.person.wait_stage("pairing")
                self.dice.wait_event("pickerSetupPairing")
                self.person.cancel()
                self.assertDismissed(self.dice, "UserCancelled")
                self.expect_usable()

    def test_by_the_person_while_asked(self):
        self.restart(scenario(accessory("pink", pairing={"mode": "numericComparison"})))
        self.show()
        self.person.pick("pink")
        self.person.wait_stage("confirming")
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")
        self.expect_usable()

    def radio_goes(self, action, back, in_pairing):
        self.restart(scenario(accessory("pink", pairing={"fault": "slow", "delay": 60, "faultCount": 1})))
        self.show()
        if in_pairing:
            self.person.pick("pink")
            self.dice.wait_event("pickerSetupPairing")
        self.simulator.do(*action)
        details = self.dice.wait_event("pickerDidDismiss")
        self.assertIn(details["error"], (error("PickerRestricted"), error("ConnectionFailed")))
        self.assertTrue(details["message"])
        self.assertNotIn("accessoryAdded", self.dice.told())
        self.person.wait_gone()
        self.simulator.do(*back)
        self.world.wait_bluetooth("ready")
        self.expect_usable()

    RADIO = {
        "power": (("adapterPowerOff", "hci0"), ("adapterPowerOn", "hci0")),
        "adapter": (("adapterRemoved", "hci0"), ("adapterAdded", "hci0")),
        "service": (("serviceStopped", ""), ("serviceStarted", "")),
    }

    def test_by_the_radio_while_choosing(self):
        for what, (action, back) in self.RADIO.items():
            with self.subTest(what):
                self.radio_goes(action, back, in_pairing=False)

    def test_by_the_radio_while_pairing(self):
        for what, (action, back) in self.RADIO.items():
            with self.subTest(what):
                self.radio_goes(action, back, in_pairing=True)

    def test_pairing_that_fails_leaves_the_picker(self):
        for pairing in ({"fault": "refuse"}, {"fault": "drop"}, {"fault": "vanish"}, {"fault": "wrongKey"}, {"mode": "none"}):
            with self.subTest(str(pairing)):
                self.restart(scenario(accessory("bad", 1, pairing=pairing), accessory("good", 2)))
                self.show()
                self.person.pick("bad")
                failed = self.dice.wait_event("pickerSetupFailed")
                self.assertEqual(failed["error"], error("ConnectionFailed"))
                self.assertNotIn("pickerDidDismiss", self.dice.told())
                self.assertEqual(self.person.stages[-1], "failed")
                self.assertEqual(self.person.state["Prompt"].get("error"), error("ConnectionFailed"))
                self.person.pick("good")
                self.dice.wait_event("accessoryAdded")
                self.dice.wait_event("pickerDidDismiss")
                self.assertEqual(self.simulator.bonds, ["good"])

    def test_a_pick_right_after_a_failure(self):
        """bluetoothd forgets the first attempt's object meanwhile, and hears the accessory again."""
        for pairing in ({"fault": "refuse"}, {"fault": "drop"}, {"fault": "wrongKey"}):
            with self.subTest(str(pairing)):
                self.restart(scenario(accessory("bad", 1, pairing={**pairing, "faultCount": 3})))
                self.show()
                for count in range(1, 4):
                    self.person.pick("bad")
                    self.dice.wait_event("pickerSetupFailed", count=count)
                self.person.pick("bad")
                self.dice.wait_event("accessoryAdded")
                self.assertEqual(self.simulator.bonds, ["bad"])

    def test_a_pick_while_another_app_removes(self):
        board = self.app("board", SOMEBODY_ELSE)
        removed = self.add(board, self.person, "Dice 4F")
        # A connected accessory does not advertise.
        self.world.admin.call(board.get(removed, ACCESSORY, "Device"), "org.bluez.Device1", "Disconnect", to="org.bluez")
        done = []
        self.dice.show_picker(item())
        self.person.wait_offer("Dice 4F")
        board.call_later(board.session, SESSION, "RemoveAccessory", lambda *result: done.append(result), "o", removed)
        wait(lambda: self.person.offers and not self.person.offers[0]["shared"], 10, "the removal to begin")
        self.person.pick("Dice 4F")
        self.dice.wait_event("accessoryAdded")
        wait(lambda: done, 10, "the answer to the removal")
        self.assertEqual(done, [()])
        self.assertEqual(self.simulator.bonds, ["pink-dice"])

    def test_a_link_that_never_comes_up(self):
        self.restart(scenario(accessory("gone", 1, pairing={"fault": "unreachable", "faultCount": 1})))
        self.show()
        self.person.pick("gone")
        self.dice.wait_event("pickerSetupPairing")
        self.world.pass_until(lambda: "pickerSetupFailed" in self.dice.told(), 25, "the link to be given up")
        failed = self.dice.wait_event("pickerSetupFailed")
        self.assertEqual(failed["error"], error("ConnectionFailed"))
        self.assertIn("20 s", failed["message"])
        self.assertNotIn("pickerDidDismiss", self.dice.told())
        # At once, while bluetoothd may be about to forget it still.
        self.person.pick("gone")
        self.dice.wait_event("accessoryAdded")
        self.assertEqual(self.simulator.bonds, ["gone"])

    def test_cancelling_after_a_failure(self):
        self.restart(scenario(accessory("bad", 1, pairing={"fault": "refuse"})))
        self.show()
        self.person.pick("bad")
        self.dice.wait_event("pickerSetupFailed")
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")
        self.expect_usable()

    def test_an_accessory_that_walks_away_is_no_longer_offered(self):
        # bluetoothd forgets it after as long as a search lasts usually.
        self.dice.show_picker(item(), discoveryTimeout=float("inf"))
        self.person.wait_offer("Dice 4F")
        self.simulator.do("vanish", "pink-dice")
        self.world.pass_until(lambda: not self.person.offers, 45, "the offer to go")
        self.assertEqual(self.person.state["Stage"], "searching")
        self.simulator.do("return", "pink-dice")
        self.person.wait_offer("Dice 4F")

    def test_by_a_picker_program_that_falls_silent(self):
        """Its connection is open, and it no longer renews its registration: a page on a laptop that sleeps."""
        self.person.call(ROOT, MANAGER, "RegisterPicker", "a{sv}", sv({"lease": dbus.UInt32(5)}))
        self.show()
        self.person.wait_offer("Dice 4F")
        self.world.pass_until(lambda: "pickerDidDismiss" in self.dice.told(), 10, "the picker to be called off")
        self.assertDismissed(self.dice, "UserCancelled")
        self.assertFalse(self.world.manager("PickerAvailable"))

    def test_by_the_end_of_the_picker_program(self):
        for stage in ("offering", "pairing", "confirming"):
            with self.subTest(stage):
                pairing = {"mode": "numericComparison"} if stage == "confirming" else {"fault": "slow"}
                self.restart(scenario(accessory("pink", pairing={**pairing})))
                self.show()
                if stage != "offering":
                    self.person.pick("pink")
                    self.person.wait_stage(stage)
                self.person.close()
                self.assertDismissed(self.dice, "UserCancelled")
                self.assertNothingLeft()
                self.assertFails(error("PickerRestricted"), self.dice.show_picker, item())
                self.person = self.picker()
                self.expect_usable()

    def test_by_unregistering_the_picker_program(self):
        self.show()
        self.person.unregister()
        self.assertDismissed(self.dice, "UserCancelled")
        self.assertNothingLeft()

    def test_another_picker_program_takes_over(self):
        for how in ("close", "unregister"):
            with self.subTest(how):
                self.restart("dice.json")
                second = self.picker()
                path = self.show()
                second.wait_stage("offering")
                # Until then it may not answer for the person.
                with self.assertRaises(dbus.DBusException):
                    second.pick("Dice 4F")
                getattr(self.person, how)()
                wait(lambda: "taken over" in "\n".join(self.world.daemon.lines), 5, "the picker to be taken over")
                second.pick("Dice 4F")
                details = self.dice.wait_event("accessoryAdded")
                self.assertEqual(details["picker"], path)
                self.dice.wait_event("pickerDidDismiss")

    def test_another_picker_program_takes_over_a_question(self):
        self.restart(scenario(accessory("pink", pairing={"mode": "numericComparison"})))
        second = self.picker()
        self.show()
        self.person.pick("pink")
        number = self.person.wait_prompt("confirm-passkey")["passkey"]
        self.person.close()
        self.assertEqual(second.wait_prompt("confirm-passkey")["passkey"], number)
        wait(lambda: "taken over" in "\n".join(self.world.daemon.lines), 5, "the picker to be taken over")
        second.respond(accept=True)
        self.dice.wait_event("accessoryAdded")

    def test_registering_twice_is_registering_once(self):
        self.person.register()
        self.person.unregister()
        self.assertFalse(self.world.manager("PickerAvailable"))

    def test_an_admin_who_did_not_register_may_not_answer(self):
        path = self.show()
        for member, signature, arguments in [
            ("Pick", "s", [self.person.offers[0]["id"]]), ("Cancel", "", []), ("Respond", "a{sv}", [sv({"accept": True})]),
        ]:
            with self.subTest(member), self.assertRaises(dbus.DBusException):
                self.world.admin.call(path, PICKER, member, signature, *arguments)
        self.assertEqual(self.person.get(path, PICKER, "Stage"), "offering")

    def test_rule_17_by_the_end_of_the_app(self):
        for stage in ("offering", "pairing", "confirming"):
            with self.subTest(stage):
                pairing = {"mode": "numericComparison"} if stage == "confirming" else {"fault": "slow"}
                self.restart(scenario(accessory("pink", pairing=pairing)))
                self.show()
                if stage != "offering":
                    self.person.pick("pink")
                    self.person.wait_stage(stage)
                session = self.dice.session
                self.dice.close()
                self.person.wait_gone()
                wait(lambda: self.world.admin.paths("session") == [], 5, "the session to go", also_every=0.1)
                self.assertFails(UNKNOWN_OBJECT, self.world.admin.get, session, SESSION, "State")
                self.assertNothingLeft()
                self.dice = self.app()
                self.dice.show_picker(item())

    def test_by_invalidation_while_pairing(self):
        for pairing in ({"fault": "slow", "faultCount": 1}, {"mode": "numericComparison"}):
            with self.subTest(str(pairing)):
                self.restart(scenario(accessory("pink", pairing=pairing)))
                self.show()
                self.person.pick("pink")
                self.dice.wait_event("pickerSetupPairing")
                self.dice.request("Invalidate")
                self.dice.wait_event("invalidated")
                self.person.wait_gone()
                self.assertNothingLeft()

    def test_by_invalidation(self):
        self.show()
        session = self.dice.session
        self.dice.request("Invalidate")
        self.person.wait_gone()
        self.dice.wait_event("invalidated")
        self.assertNothingLeft()
        # The app hears of both, in this order.
        self.assertEqual(self.dice.told()[-2:], ["pickerDidDismiss", "invalidated"])
        self.assertEqual(self.world.admin.paths("session"), [])
        self.assertFails(UNKNOWN_OBJECT, self.world.admin.get, session, SESSION, "State")


class CalledOff(APITest):
    def test_the_app_calls_its_own_picker_off(self):
        picker, app, other = self.picker(), self.app(), self.app()
        self.assertFails(error("InvalidRequest"), app.request, "CancelPicker", says=["CancelPicker"])
        app.show_picker(item())
        picker.wait_offer("Dice 4F")
        # It is not the other session's, though that is the same app's.
        self.assertFails(error("InvalidRequest"), other.request, "CancelPicker")
        app.request("CancelPicker")
        picker.wait_gone()
        self.assertIn("the app", self.assertDismissed(app, "UserCancelled")["message"])
        self.assertFails(error("InvalidRequest"), app.request, "CancelPicker")
        self.assertNothingLeft()
        # The way is free for the next one.
        self.add(other, picker, "Dice 4F")


class Invalidated(APITest):
    def test_rule_18_every_call_is_invalidated(self):
        app, other = self.app(), self.app()
        app.request("Invalidate")
        app.wait_event("invalidated")
        accessory = dbus.ObjectPath(f"{ROOT}/accessory/none")
        for member, signature, arguments in [
            ("Activate", "", []), ("Invalidate", "", []),
            ("ShowPicker", "aa{sv}a{sv}", [dbus.Array([sv(item())], "a{sv}"), sv({})]),
            ("RemoveAccessory", "o", [accessory]), ("UpdatePicker", "aa{sv}", [dbus.Array([], "a{sv}")]),
            ("FinishPickerDiscovery", "", []), ("CancelPicker", "", []), ("RenameAccessory", "oa{sv}", [accessory, sv({})]),
            ("RenewAccess", "oa{sv}", [accessory, sv({})]),
            ("FinishAuthorization", "oa{sv}", [accessory, sv({})]), ("FailAuthorization", "o", [accessory]),
            ("UpdateAuthorization", "oa{sv}", [accessory, sv({})]), ("ObservePresence", "ob", [accessory, True]),
        ]:
            with self.subTest(member):
                self.assertFails(error("Invalidated"), app.request, member, signature, *arguments)
        # For others it is gone.
        for each in (other, self.world.admin):
            self.assertNotIn(app.session, each.objects())
            self.assertFails(UNKNOWN_OBJECT, each.call, app.session, SESSION, "Activate")
            self.assertFails(UNKNOWN_OBJECT, each.get, app.session, SESSION, "State")
        self.assertNotIn(app.session, app.objects())

    def test_the_app_may_begin_again(self):
        app = self.app()
        first = app.session
        app.request("Invalidate")
        app.begin()
        self.assertNotEqual(app.session, first)
        self.assertEqual(app.state, "active")

    def test_the_app_is_told_that_the_daemon_ends(self):
        app = self.app()
        self.assertEqual(self.world.daemon.stop(signal.SIGTERM), 0)
        app.wait_event("invalidated")
        self.world.start_daemon()

    def test_activating_twice(self):
        app = self.app()
        self.assertFails(error("InvalidRequest"), app.request, "Activate")
        self.assertEqual(app.state, "active")
        self.assertEqual(app.told(), ["activated"])
