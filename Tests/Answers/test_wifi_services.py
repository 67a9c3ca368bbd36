# SPDX-License-Identifier: Apache-2.0
"""NetworkManager, iwd or wpa_supplicant answers wrongly: at the daemon's start, to a search, to a joining and to the way home."""

import json
import unittest

from played import LEAVING, Played, cases
# `played` makes the harness importable.
from harness.names import ACCESSORY, OBJECT_MANAGER
from harness.programs import TESTS
from harness.values import sv
from harness.waiting import wait

PASSPHRASE = "sixsided1"


class WiFi(Played):
    apps = ("dice",)
    manifest = {"Supports": "Bluetooth;WiFi;"}
    kind = None
    thing = ("interfaceRemoved", "interfaceAdded", "wlan0")
    network, passphrase = "Dice-1234", PASSPHRASE

    def setUp(self):
        scenario = json.loads((TESTS / "Scenarios/wifi.json").read_text())
        scenario["wifi"]["services"] = [self.kind]
        self.scenario = self.changed(scenario)
        self.service = ("wifiStopped", "wifiStarted", self.kind)
        super().setUp()

    def changed(self, scenario):
        return scenario

    def prepare(self):
        self.world.wait_wifi("ready")
        self.simulator.wait_joined("Home")
        super().prepare()

    def returned(self):
        self.hold(lambda: self.world.manager("WiFi") == "ready", "Wi-Fi to be ready")
        self.home()

    def home(self):
        self.hold(lambda: self.simulator.joined.get("wlan0") == "Home" and self.simulator.secrets == 0,
                  lambda: f"the way home; joined is {self.simulator.joined}, {self.simulator.secrets} secrets are left")

    def granted(self):
        """The app's accessory, as far as it could be set up."""
        if not self.dice.accessories:
            outcome = self.set_up(self.network, {"name": "Dice", "descriptor": {"ssid": self.network}})
            if outcome != "done":
                return None
        return self.dice.accessories[0]

    def act(self):
        path = self.granted()
        if path is None:
            return "told"
        options = {**({"passphrase": self.passphrase} if self.passphrase else {}), **self.options}
        refused = self.ask(self.dice, path, ACCESSORY, "JoinNetwork", "a{sv}", sv(options))
        if refused:
            return self.checked(refused)
        refused = self.ask(self.dice, path, ACCESSORY, "LeaveNetwork")
        return self.checked(refused) if refused else "done"

    options = {}

    def tidy(self):
        self.home()
        super().tidy()


@cases({"managerJoin_lost", "managerLeave_silent"})
class NetworkManager(WiFi):
    kind = "NetworkManager"
    calls = {"managerScan": 1, "managerPoints": 1, "managerPoint": 1, "managerDevice": 1, "managerActive": 1, "managerJoin": 1,
             "deactivateConnection": 1, "activatePreviousConnection": 1}


@cases({"iwdForget_odd", "iwdJoin_lost"})
class IWD(WiFi):
    kind = "iwd"
    calls = {"iwdScan": 1, "iwdNetworks": 1, "iwdObjects": 1, "iwdAgentRegistration": 1, "iwdAgentEnd": 1, "iwdJoin": 1, "iwdStation": 1,
             "iwdInfo": 1, "iwdForget": 1, "reconnectPreviousNetwork": 2}


@cases({"supplicantAdd_lost", "supplicantRemove_silent"})
class Supplicant(WiFi):
    kind = "wpa_supplicant"
    calls = {"supplicantScan": 1, "supplicantPoints": 1, "supplicantPoint": 1, "supplicantInterface": 1, "supplicantNetwork": 1,
             "supplicantAdd": 1, "supplicantSelect": 1, "supplicantRemove": 1, "supplicantEnable": 1}


@cases()
class Hidden(WiFi):
    """iwd does not list a network that hides its name: the app has it from before."""

    kind = "iwd"
    network, passphrase = "Dice-Hidden", "sixsided4"
    options = {"hidden": True}
    calls = {"iwdJoinHidden": 1}

    def granted(self):
        if not self.dice.accessories:
            before = self.dice.event_types.count("migrationComplete")
            self.dice.show_picker({"name": "Dice", "descriptor": {"ssid": self.network}, "hotspotSSID": self.network.encode()})
            self.person.wait_prompt("consent")
            self.person.respond(accept=True)
            self.dice.wait_event("migrationComplete", count=before + 1)
            self.person.wait_gone()
        return self.dice.accessories[0]


@cases()
class Known(WiFi):
    """A network that iwd knew before: it is left, and stays known."""

    kind = "iwd"
    network, passphrase = "Dice-Open", None
    calls = {"iwdDisconnect": 1}
    # When it starts again, it may go to either of the networks that it knows.
    without = LEAVING

    def prepare(self):
        super().prepare()
        iwd = lambda *call: self.world.admin.call(*call, to="net.connman.iwd")
        find = lambda key, name: next((path for path, each in iwd("/", OBJECT_MANAGER, "GetManagedObjects").items()
                                       if key in each and name in (None, each[key].get("Name"))), None)
        if not find("net.connman.iwd.Network", self.network):
            iwd(find("net.connman.iwd.Station", None), "net.connman.iwd.Station", "Scan")
        known = wait(lambda: find("net.connman.iwd.Network", self.network), 20, "the network", also_every=0.05)
        for each in (known, find("net.connman.iwd.Network", "Home")):
            iwd(each, "net.connman.iwd.Network", "Connect")
        self.simulator.wait_joined("Home")


class Starts(WiFi):
    """The daemon's start."""

    def act(self):
        if self.fault is None:
            return super().act()
        for each in (self.person, self.dice):
            each.close()
        self.restart()
        self.told(lambda: self.fault.done, "its question")
        if self.fault.kind in LEAVING:
            pass
        elif self.fault.error and self.fault.error.endswith("UnknownObject"):
            # It reports that there is none; it would signal a new one.
            for action in self.service[:2]:
                self.simulator.do(action, self.service[2])
        else:
            self.told(lambda: self.world.manager("WiFi") == "ready", "Wi-Fi")
        self.person, self.dice = self.picker(), self.app()
        return "done"


@cases({"managerDevices_silent"})
class NetworkManagerStarts(Starts):
    kind = "NetworkManager"
    calls = {"managerDevices": 1, "managerDevice": 1}


@cases()
class IWDStarts(Starts):
    kind = "iwd"
    calls = {"iwdObjects": 1}


@cases()
class SupplicantStarts(Starts):
    kind = "wpa_supplicant"
    calls = {"supplicantInterfaces": 1, "supplicantInterface": 1, "supplicantAbilities": 1}


@cases()
class Aware(WiFi):
    """Wi-Fi Aware, where wpa_supplicant has it."""

    kind = "wpa_supplicant"
    calls = {"awareSubscribe": 1, "awarePublish": 1, "awareSubscribeEnd": 1, "awarePublishEnd": 1}
    names = {"publisher": "Example Model D6", "subscriber": "Other Reader"}

    def changed(self, scenario):
        scenario["wifi"]["aware"] = True
        scenario["awareServices"] = [
            {"id": "d6", "service": "_dice._tcp", "role": "publisher", "model": "Model D6", "vendor": "Example", "address": "02:00:00:00:0A:01"},
            {"id": "asker", "service": "_dice._tcp", "role": "subscriber", "model": "Reader", "vendor": "Other", "address": "02:00:00:00:0A:03"}]
        return scenario

    def act(self):
        for role, name in self.names.items():
            descriptor = {"wifiAwareServiceName": "_dice._tcp", "wifiAwareServiceRole": role}
            outcome = self.set_up(name, {"name": "Dice", "descriptor": descriptor}, discoveryTimeout=25.0)
            if outcome != "done":
                return outcome
        return "done"

    def again(self):
        for path in self.dice.accessories:
            self.dice.remove(path)
        super().again()


if __name__ == "__main__":
    unittest.main()
