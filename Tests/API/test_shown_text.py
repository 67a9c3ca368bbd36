# SPDX-License-Identifier: Apache-2.0
"""Foreign text on its way to people: from the air, from files, from callers. It is marked where it leaves the daemon, and text
for programs is unchanged."""

import json

from harness.apps import App
from harness.names import ACCESSORY, ADMIN, ADMIN_PATH, APP, PINK, error
from harness.programs import BIN, TESTS, Program
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest

# Markup is text; invisible, control and direction-changing characters are not shown.
HOSTILE = "<script>\u202e\u200b\u2066\u0007\nDie"
MARKED = "<script>\ufffd\ufffd\ufffd\ufffd\ufffdDie"


class LookAlikes(APITest):
    """“Pink Dice” is set up. An equal name is not marked; one that looks equal and is not, is."""

    # A Cyrillic letter each; and the name itself.
    ADVERTISED, SHOWN, SAME = "Pink Di\u0441e", "P\u0456nk Dice", "Pink Dice"
    apps = ("dice", "lamp")
    scenario = scenario(*(accessory(f"die-{number}", number, advert={"serviceUUIDs": [PINK], "name": name}) for number, name in (
        (1, "die"), (2, ADVERTISED), (3, SAME))))

    def resembled(self, person, *names):
        return [person.wait_offer(each).get("resembles") for each in names]

    def test_an_advertised_name(self):
        app, person = self.app(), self.picker()
        app.show_picker(item())
        self.assertEqual(self.resembled(person, "die", self.ADVERTISED, self.SAME), [None] * 3)
        person.cancel()
        person.wait_gone()
        path = self.add(app, person, "die", item())
        app.show_picker(item())
        self.assertEqual(self.resembled(person, self.ADVERTISED, self.SAME), ["Pink Dice", None])
        person.cancel()
        person.wait_gone()
        # Names come and go with accessories.
        self.world.admin.call(path, ACCESSORY, "Remove")
        app.show_picker(item())
        self.assertEqual(self.resembled(person, self.ADVERTISED), [None])

    def test_the_apps_own_name_for_it(self):
        """Also one that an app chooses; an accessory that is shared has its own name."""
        app, other, person = self.app(), self.app("lamp"), self.picker()
        self.add(app, person, "die", item())
        other.show_picker(item(self.SHOWN))
        self.assertEqual(self.resembled(person, "die", self.SAME), [None, "Pink Dice"])

    def test_in_the_terminal(self):
        app, person = self.app(), self.picker()
        self.add(app, person, "die", item())
        person.close()
        terminal = Program(BIN / "accessoryctl", "picker", "--bus", self.world.bus.address, "--pick", "nothing of the kind")
        self.addCleanup(terminal.stop)
        terminal.wait_for("waiting")
        app.show_picker(item())
        terminal.wait_for(f"offered: looks like “Pink Dice”: Pink Dice  “{self.ADVERTISED}”")


class HostileText(APITest):
    manifest = {"Supports": "Bluetooth;WiFi;"}
    scenario = scenario(accessory("die", advert={"serviceUUIDs": [PINK], "name": HOSTILE}))

    def explain(self, **more):
        """The devices of Explain, as soon as there are some."""
        options = sv({"app": "com.example.dice", "seconds": 1.0})
        return wait(lambda: self.world.admin.call(ADMIN_PATH, ADMIN, "Explain", "a{sv}", options), what="a device", also_every=0.05)

    def audit(self):
        return self.world.admin.call(ADMIN_PATH, ADMIN, "GetAudit", "a{sv}", sv({}))

    def test_an_advertised_name(self):
        app, person = self.app(), self.picker()
        app.show_picker(item(), options=["filterDiscoveryResults"])
        found = app.wait_event("accessoryDiscovered")
        # A program compares names: it has it as it was sent.
        self.assertEqual(found["advertisement"]["localName"], HOSTILE)
        app.request("UpdatePicker", "aa{sv}", [sv({"name": "Pink Dice", "identifier": found["identifier"]})])
        self.assertEqual(person.wait_offer(MARKED)["name"], "Pink Dice")
        self.assertEqual([str(each["why"]) for each in self.audit() if each["event"] == "offered"], [MARKED])
        [device] = self.explain()
        self.assertEqual(device["name"], MARKED)
        self.assertNotIn("network", device)

    def test_a_networks_name(self):
        wifi = json.loads((TESTS / "Scenarios/wifi.json").read_text())
        wifi["accessPoints"] = [wifi["accessPoints"][0], {"id": "evil", "ssid": HOSTILE, "rssi": -40}]
        self.start(wifi)
        self.world.wait_wifi("ready")
        app, person = self.app(), self.picker()
        app.show_picker({"name": "Dice", "descriptor": {"ssidPrefix": "<script>"}})
        offer = person.wait_offer(MARKED)
        self.assertEqual((str(offer["network"]), bytes(offer["ssid"])), (MARKED, HOSTILE.encode()))
        device = wait(
            lambda: next((each for each in self.explain() if each["name"] == MARKED), None), what="the network", also_every=0.05)
        self.assertEqual((str(device["network"]), bytes(device["ssid"])), (MARKED, HOSTILE.encode()))
        self.assertEqual(device["item"], "Dice")

    def test_a_manifest_with_problems(self):
        hostile = HOSTILE.replace("\n", "\\n")
        good = self.world.declare("dice")
        bad = good.with_name("com.example.e\u202evil.conf")
        bad.write_text(good.read_text().replace("Supports=", f"Supports={hostile};").replace("Name=", f"Name={hostile}"))
        look = lambda: [each[APP] for each in self.world.admin.objects().values() if APP in each and each[APP]["Problems"]]
        [app] = wait(look, what="the manifest", also_every=0.05)
        self.assertEqual(app["Source"], str(bad).replace("\u202e", "\ufffd"))
        problems = "\n".join(app["Problems"])
        self.assertIn(f"Supports: {MARKED}: neither Bluetooth nor WiFi", problems)
        self.assertIn("Name: has characters that are invisible", problems)
        self.assertIn("com.example.e\ufffdvil.conf:", problems)
        self.assertFalse(set("\u202e\u200b\u2066\u0007") & set(problems))

    def test_a_program(self):
        stranger = App(self.world, "<b>\u202e\u200bdice")
        self.assertFails(error("ActivationFailed"), stranger.create_session)
        [refused] = [each for each in self.audit() if each["event"] == "refused"]
        self.assertIn("/<b>\ufffd\ufffddice", refused["who"])
        self.assertIn("/<b>\ufffd\ufffddice", refused["why"])
