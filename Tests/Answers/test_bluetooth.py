# SPDX-License-Identifier: Apache-2.0
"""bluetoothd answers wrongly: to set-ups of each kind, to removals, and to the daemon's calls at its start."""

import unittest

import dbus

from played import KINDS, LEAVING, Played, cases
# `played` makes the harness importable.
from harness.names import ACCESSORY, NAME, SESSION
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait

CLASSIC = b"\x00\x11\x22\x33\x44\x55"


@cases({"discoveryFilter_silent", "pairing_silent", "pairing_huge", "pairedIdentity_gone", "discoveryStop_lost"})
class SetUp(Played):
    scenario = scenario(accessory("pink"))
    holds_after_lies = True
    calls = dict.fromkeys(("discoveryFilter", "discoveryStart", "discoveryStop", "agentRegistration", "agentEnd", "pairing", "pairedIdentity"), 1)

    def act(self):
        return self.set_up("pink")

    def again(self):
        self.tidy()
        super().again()


@cases()
class Refused(Played):
    """The accessory refuses, once."""

    scenario = scenario(accessory("pink", pairing={"fault": "refuse", "faultCount": 1}))
    calls = {"pairedCheck": 1, "failedRemoval": 1}
    # The calls in question follow a failure.
    expected = "told"

    def act(self):
        return self.set_up("pink")



@cases()
class Asked(Played):
    """A person is asked, and says nothing for as long as a `Pair` may take: its answer comes after that."""

    scenario = scenario(accessory("pink", pairing={"mode": "numericComparison"}))
    calls = {"pairing": 1}
    without = tuple(each for each in KINDS if each != "late")

    def act(self):
        before = len(self.dice.events)
        news = lambda: [kind for kind, _ in self.dice.events[before:]]
        self.dice.show_picker(item())
        self.person.pick("pink")
        self.person.wait_stage("confirming")
        if self.fault:
            # It is the person who is waited for.
            self.told(lambda: "pickerSetupFailed" in news(), lambda: f"the outcome; told was {news()}", limit=self.fault.call["timeout"] + 10)
            self.cancel()
        else:
            self.person.respond(accept=True)
        self.told(lambda: "pickerDidDismiss" in news(), lambda: f"the end of the picker; told was {news()}")
        return "done" if "accessoryAdded" in news() else "told"


@cases({"pairingCancel_silent"})
class Cancelled(Played):
    """The person cancels the pairing; bluetoothd's answer crosses that."""

    scenario = scenario(accessory("pink", pairing={"mode": "numericComparison"}))
    calls = {"pairingCancel": 1, "pairing": 1}
    without = ("twice",)

    def act(self):
        before = len(self.dice.events)
        dismissed = lambda: "pickerDidDismiss" in [kind for kind, _ in self.dice.events[before:]]
        self.dice.show_picker(item())
        self.person.pick("pink")
        if self.fault and self.fault.call["member"] == "Pair":
            if self.fault.kind in ("late", "lost"):
                # It has paired, and not said so.
                self.person.wait_stage("confirming")
                self.person.respond(accept=True)
                wait(lambda: self.simulator.bonds == ["pink"], what="the bond", also_every=0.02)
            else:
                wait(lambda: self.fault.done or self.person.state.get("Stage") == "confirming", what="the pairing")
                if self.fault.kind in ("odd", "huge"):
                    self.person.wait_stage("confirming")
                    self.person.respond(accept=True)
            self.cancel()
        else:
            self.person.wait_stage("confirming")
            self.person.cancel()
        self.told(dismissed, "the end of the picker")
        return "done"

    def again(self):
        self.tidy()
        super().again()


@cases({"trust_odd"})
class Bridged(Played):
    """With the classic side, at the same address."""

    scenario = scenario(accessory("dual", 2, addressType="public", transport="dual"))
    calls = {"trust": 1, "preferredBearer": 1}

    def act(self):
        return self.set_up("dual", item(supportedOptions=["bluetoothPairingLE", "bluetoothTransportBridging"]))

    def again(self):
        self.tidy()
        super().again()


@cases()
class Apart(Played):
    """With the classic side at another address, which the app knows."""

    scenario = scenario(
        accessory("apart", 4), {**accessory("classic", 5, addressType="public", transport="bredr"), "address": "00:11:22:33:44:55"})
    # The first filter, start and stop are those of the search for the accessory itself.
    calls = {"classicFilter": 2, "classicSearch": 2, "classicSearchEnd": 2}

    def act(self):
        before = len(self.dice.events)
        news = lambda: [kind for kind, _ in self.dice.events[before:]]
        self.dice.show_picker(item(setupOptions=["confirmAuthorization"],
                                   supportedOptions=["bluetoothPairingLE", "bluetoothTransportBridging"]))
        self.person.pick("apart")
        wait(lambda: "accessoryAdded" in news(), 40, "the accessory")
        path = next(details for kind, details in self.dice.events[before:] if kind == "accessoryAdded")["accessory"]
        # The search has ended, whose calls are not meant.
        wait(lambda: not self.simulator.discovering, 20, "the end of the search", also_every=0.02)
        refused = self.ask(self.dice, self.dice.session, SESSION, "FinishAuthorization", "oa{sv}", dbus.ObjectPath(path),
                           sv({"bluetoothTransportBridgingIdentifier": CLASSIC}))
        if refused:
            return self.checked(refused)
        self.told(lambda: {"pickerDidDismiss", "pickerSetupFailed"} & set(news()), lambda: f"the outcome; told was {news()}")
        if "pickerDidDismiss" in news():
            return "done"
        self.dice.request("FailAuthorization", "o", dbus.ObjectPath(path))
        self.told(lambda: "pickerDidDismiss" in news(), lambda: f"the end; told was {news()}")
        return "told"

    def again(self):
        self.tidy()
        super().again()


@cases()
class Input(Played):
    scenario = scenario(accessory("keyboard", input=True))
    calls = {"inputConnect": 1}

    def act(self):
        return self.set_up("keyboard", item(supportedOptions=["bluetoothPairingLE", "bluetoothHID"]))

    def again(self):
        self.tidy()
        super().again()


@cases({"bondRemoval_silent"})
class Removed(Played):
    scenario = scenario(accessory("pink"))
    calls = {"bondRemoval": 1}

    def again(self):
        # The device may still have to be removed from BlueZ, or BlueZ to be asked: a new pairing
        # waits for that.
        for _ in range(70):
            self.tick()
        self.tidy()
        super().again()

    def act(self):
        if not self.dice.accessories and self.set_up("pink") != "done":
            return "told"
        refused = self.ask(self.dice, self.dice.session, SESSION, "RemoveAccessory", "o", dbus.ObjectPath(self.dice.accessories[0]))
        return self.checked(refused) if refused else "done"


@cases({"monitorRegistration_late"})
class Monitored(Played):
    """Without a monitor it is searched for."""

    scenario = scenario(accessory("pink"), adapters=[{"monitors": "controller"}])
    calls = {"monitorFeatures": 1, "monitorRegistration": 1}
    holds_after_lies = True

    def again(self):
        super().again()
        self.tidy()

    def act(self):
        if not self.dice.accessories and self.set_up("pink") != "done":
            return "told"
        before = len(self.dice.events)
        for begins in (False, True):
            refused = self.ask(
                self.dice, self.dice.session, SESSION, "ObservePresence", "ob", dbus.ObjectPath(self.dice.accessories[0]), begins)
            if refused:
                return self.checked(refused)
        self.told(lambda: "presenceChanged" in [kind for kind, _ in self.dice.events[before:]], "the presence")
        return "done"


@cases()
class Renamed(Played):
    scenario = scenario(accessory("pink"))
    calls = {"alias": 1}

    def act(self):
        if not self.dice.accessories:
            self.assertEqual(self.set_up("pink"), "done")
        refused = self.ask(self.world.admin, self.dice.accessories[0], ACCESSORY, "Rename", "s", "Kitchen")
        return self.checked(refused) if refused else "done"


@cases({"radioObjects_silent"})
class Started(Played):
    """At the daemon's start; it says that there is Bluetooth as soon as it knows."""

    scenario = scenario(accessory("pink"))
    calls = {"radioObjects": 1}

    def act(self):
        if self.fault is not None:
            self.person.close()
            self.dice.close()
            self.restart()
            ready = lambda: self.world.manager("Bluetooth") == "ready"
            self.told(lambda: self.fault.done, "its question")
            if self.fault.kind not in LEAVING:
                self.told(ready, "Bluetooth")
            self.person, self.dice = self.picker(), self.app()
            return "done"
        return self.set_up("pink")


if __name__ == "__main__":
    unittest.main()
