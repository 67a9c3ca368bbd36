# SPDX-License-Identifier: Apache-2.0
"""Grants for a kind: an app hears the adverts of all devices that match, and can do nothing else with them; and pickers
that stay open for several accessories."""

import json
import shutil

import dbus

from harness.clients import Identity
from harness.names import BLUE, GRANT, PINK, PROPERTIES, SOMEBODY, UNKNOWN_OBJECT, error
from harness.programs import TESTS, Program
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from test_policy import PolicyTest, ctl
from view import ADAPTER, ADAPTER1, BLUEZ, CHARACTERISTIC1, DEVICE1, GATT, MANAGERS, View, path_of

NOT_PERMITTED = "org.bluez.Error.NotPermitted"
INTROSPECTABLE = "org.freedesktop.DBus.Introspectable"


def kind(name="Tags", service=PINK, **more):
    """An item that asks for all devices with a service."""
    return item(name, service, pairs=False, access="hear", **more)


class KindTest(PolicyTest):
    apps = ("dice", "board")
    scenario = scenario(
        *(accessory(f"tag-{number}", number, advert={"serviceUUIDs": [PINK], "name": f"tag-{number}", "manufacturerData": {"FFFF": "0102"}},
                    gatt=GATT) for number in (1, 2, 3)),
        accessory("stranger", 9, BLUE))

    def setUp(self):
        super().setUp()
        self.person = self.picker()
        self.dice = self.app()
        self.tags = [path_of(number) for number in (1, 2, 3)]

    def allow(self, *items):
        """The person lets the app hear a kind."""
        self.dice.show_picker(*(items or [kind()]))
        offer = wait(lambda: next((each for each in self.person.offers if "maxDevices" in each), None), what="the kind to be offered")
        self.person.ask("Pick", "s", offer["id"])
        added = self.dice.wait_event("accessoryAdded")
        self.dice.wait_event("pickerDidDismiss")
        self.person.wait_gone()
        return str(added["accessory"])

    def view(self, app="dice"):
        view = View(self.world, app)
        view.listen_to_everything()
        return view

    def searching(self, *paths):
        """A client that searches, and has heard these devices."""
        view = self.view()
        view.tree()
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        for path in paths or self.tags:
            wait(lambda path=path: view.told("InterfacesAdded", path) or path in view.tree(), what=f"{path} to be announced", also_every=0.05)
        return view

    @property
    def grant(self):
        return next(path for path, each in self.world.grants().items() if each["App"] == "com.example.dice")

    def admin(self, member, signature="", *arguments):
        return self.world.admin.call(self.grant, GRANT, member, signature, *arguments)

    def devices(self, view):
        return sorted(path for path in view.tree() if "/dev_" in path)


class Kinds(KindTest):
    def test_the_person_sees_the_kind_and_its_devices_in_range(self):
        self.dice.show_picker(kind("Ruuvi tags", maxDevices=dbus.UInt32(20)))
        offer = wait(
            lambda: next((each for each in self.person.offers if each.get("devicesInRange") == 3), None), what="three devices in range")
        self.assertEqual(
            (offer["name"], offer["maxDevices"], list(offer["namesInRange"])), ("Ruuvi tags", 20, ["tag-1", "tag-2", "tag-3"]))
        self.assertEqual(len(self.person.offers), 1)
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")

    def test_it_is_offered_though_none_is_in_range(self):
        path = self.allow(kind("Locks", bluetoothServiceDataBlob=b"\x09", bluetoothServiceDataMask=b"\xff"))
        self.assertEqual(self.dice.wait_event("accessoryAdded")["properties"]["Descriptor"]["access"], "hear")
        self.assertEqual(self.dice.accessories, [path])

    def test_the_app_hears_the_devices_present_and_future(self):
        self.allow()
        view = self.searching()
        self.assertEqual(self.devices(view), self.tags)
        device = view.tree()[self.tags[0]]
        self.assertEqual(set(device), {DEVICE1, PROPERTIES, INTROSPECTABLE})
        self.assertEqual(
            (device[DEVICE1]["Name"], device[DEVICE1]["Address"], bytes(device[DEVICE1]["ManufacturerData"][0xFFFF])),
            ("tag-1", "C0:FF:EE:00:02:01", b"\x01\x02"))
        wait(lambda: view.changes(self.tags[2], "RSSI"), what="the strength of a tag")
        wait(lambda: self.world.grants()[self.grant]["LastUsed"] > 0, what="the use to be noted", also_every=0.05)
        self.simulator.do("vanish", "tag-2")
        wait(lambda: view.told("InterfacesRemoved", self.tags[1]), seconds=60, what="a tag to go")
        self.simulator.do("return", "tag-2")
        wait(lambda: len(view.told("InterfacesAdded", self.tags[1])) >= 2 or self.tags[1] in view.tree(), what="the tag to return", also_every=0.05)
        view.drain()
        self.assertEqual([each for each in view.signals if path_of(9) in str(each)], [])

    def test_it_can_do_nothing_else_with_them(self):
        self.allow()
        view = self.searching()
        tag = self.tags[0]
        for interface, member, *arguments in (
                (DEVICE1, "Connect"), (DEVICE1, "Disconnect"), (DEVICE1, "Pair"), (DEVICE1, "ConnectProfile", "s", PINK),
                (DEVICE1, "CancelPairing"), (PROPERTIES, "Set", "ssv", DEVICE1, "Trusted", True)):
            with self.subTest(member):
                self.assertFails(NOT_PERMITTED, view.bluez, tag, interface, member, *arguments, says=["hear"])
        self.assertFails(NOT_PERMITTED, view.bluez, ADAPTER, ADAPTER1, "RemoveDevice", "o", tag)
        self.assertFails("org.freedesktop.DBus.Error.UnknownInterface", view.read_property, tag, CHARACTERISTIC1, "Value")
        self.assertFails(UNKNOWN_OBJECT, view.bluez, tag + "/service000a/char000c", CHARACTERISTIC1, "ReadValue", "a{sv}", {})
        self.assertIn("ManufacturerData", view.bluez(tag, INTROSPECTABLE, "Introspect"))
        self.assertEqual(self.simulator.connections, [])

    def test_another_apps_use_leaves_no_trace(self):
        """A tag is the other app's own, connected and renamed: who only hears it sees none of this."""
        board = self.app("board")
        self.add(board, self.person, "tag-1", item("Mine"))
        self.allow()
        view = self.searching()
        other = View(self.world, "board").connect(self.tags[0])
        self.assertTrue(other.read_property(self.tags[0], DEVICE1, "Connected"))
        shown = view.bluez(self.tags[0], PROPERTIES, "GetAll", "s", DEVICE1)
        self.assertEqual(
            (shown["Connected"], shown["Paired"], shown["Trusted"], shown["ServicesResolved"], shown["Alias"]),
            (False, False, False, False, "tag-1"))
        self.assertEqual(view.read_property(self.tags[0], DEVICE1, "Connected"), False)
        view.drain()
        for name in ("Connected", "ServicesResolved", "Paired"):
            self.assertEqual(view.changes(self.tags[0], name), [])
        self.assertEqual([path for path in view.tree() if path.startswith(self.tags[0] + "/")], [])

    def test_ones_own_accessory_stays_ones_own(self):
        """Of a kind, one device was set up besides."""
        self.add(self.dice, self.person, "tag-1", item("Mine"))
        self.allow()
        view = self.searching(*self.tags[1:])
        view.connect(self.tags[0])
        self.assertEqual(view.read_property(self.tags[0], DEVICE1, "Connected"), True)
        self.assertFails(NOT_PERMITTED, view.connect, self.tags[1])

    def test_another_app_hears_nothing(self):
        self.allow()
        self.searching()
        other = self.view("board")
        self.assertEqual(list(other.tree()), [MANAGERS, ADAPTER])
        self.assertFails(UNKNOWN_OBJECT, other.bluez, self.tags[0], PROPERTIES, "GetAll", "s", DEVICE1)
        other.drain()
        self.assertEqual([each for each in other.signals if "/dev_" in str(each)], [])

    def test_without_a_search_nothing_is_heard_and_with_the_clients_end_all_is_over(self):
        self.allow()
        view = self.view()
        self.assertEqual(self.devices(view), [])
        self.assertFalse(self.simulator.discovering)
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        wait(lambda: len(self.devices(view)) == 3, what="the tags", also_every=0.05)
        self.assertEqual([str(each["address"]) for each in self.admin("ListDevices")], [f"C0:FF:EE:00:02:0{n}" for n in (1, 2, 3)])
        view.close()
        wait(lambda: not self.simulator.discovering, what="discovery to end", also_every=0.05)
        wait(lambda: list(self.admin("ListDevices")) == [], what="the list to be empty", also_every=0.05)

    def test_a_client_that_only_listens_hears_all(self):
        self.allow()
        self.world.admin.call(ADAPTER, ADAPTER1, "StartDiscovery", to=BLUEZ)
        first = self.searching()
        only = self.view()
        for tag in self.tags:
            wait(lambda tag=tag: only.changes(tag, "RSSI"), what=f"{tag} to be heard")
        first.close()

    def test_at_most_so_many(self):
        self.allow(kind(maxDevices=dbus.UInt32(2)))
        view = self.view()
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        self.world.daemon.wait_for("as many devices as it may have")
        wait(lambda: len(self.devices(view)) == 2, what="two tags", also_every=0.05)

    def test_one_is_excluded_and_included_again(self):
        self.allow()
        view = self.searching()
        self.admin("Exclude", "s", "C0:FF:EE:00:02:02")
        wait(lambda: view.told("InterfacesRemoved", self.tags[1]), what="the tag to go")
        self.assertFails(UNKNOWN_OBJECT, view.bluez, self.tags[1], PROPERTIES, "GetAll", "s", DEVICE1)
        self.assertEqual(self.devices(view), [self.tags[0], self.tags[2]])
        self.assertEqual(list(self.world.grants()[self.grant]["Excluded"]), ["C0:FF:EE:00:02:02"])
        self.assertIn(("updated", "excluded C0:FF:EE:00:02:02"), [(each["event"], each["why"]) for each in self.audit()])
        self.assertFails(error("InvalidRequest"), self.admin, "Exclude", "s", "C0:FF:EE:00:02:02", says=["already"])
        self.world.restart_daemon()
        self.assertEqual(list(self.world.grants()[self.grant]["Excluded"]), ["C0:FF:EE:00:02:02"])
        again = self.searching(self.tags[0])
        self.admin("Include", "s", "C0:FF:EE:00:02:02")
        wait(lambda: self.tags[1] in self.devices(again), what="the tag to return", also_every=0.05)

    def test_the_tool(self):
        self.allow(kind("Ruuvi tags"))
        self.searching()
        number, bus = self.grant.rsplit("/", 1)[1], ("--bus", self.world.bus.address)
        self.assertEqual(
            [line.split() for line in ctl("devices", number, *bus)[1]],
            [["ADDRESS", "STATE", "NAME"], *(["C0:FF:EE:00:02:0" + n, "heard", "tag-" + n] for n in "123")])
        self.assertEqual(
            ctl("exclude", number, "C0:FF:EE:00:02:01", *bus), (0, ["excluded: com.example.dice no longer hears C0:FF:EE:00:02:01"]))
        excluded = json.loads("\n".join(ctl("devices", number, "--json", *bus)[1]))
        self.assertEqual([each["address"] for each in excluded if each["excluded"]], ["C0:FF:EE:00:02:01"])
        status, lines = ctl("exclude", number, "nonsense", *bus)
        self.assertEqual(status, 1)
        self.assertIn("address: nonsense", "\n".join(lines))
        self.assertEqual(ctl("include", number, "C0:FF:EE:00:02:01", *bus)[0], 0)
        self.assertIn("found by access hear", "\n".join(ctl("show", "Ruuvi tags", *bus)[1]))

    def test_revoking_ends_it_at_once(self):
        self.allow()
        view = self.searching()
        self.admin("Revoke")
        for tag in self.tags:
            wait(lambda tag=tag: view.told("InterfacesRemoved", tag), what="the tags to go")
        self.assertEqual(self.devices(view), [])
        self.dice.wait_event("accessoryRemoved")
        view.wait_change(ADAPTER, "Powered", False)
        self.assertNothingLeft()

    def test_a_rule_keeps_single_devices_away(self):
        self.allow()
        self.write("[Deny tag]\nAddress=C0:FF:EE:00:02:03\n")
        view = self.searching(*self.tags[:2])
        self.world.admin.call(ADAPTER, ADAPTER1, "StartDiscovery", to=BLUEZ)
        wait(lambda: len(self.simulator.devices()) == 4, what="all devices", also_every=0.05)
        self.assertEqual(self.devices(view), self.tags[:2])

    def test_a_rule_keeps_the_kind_away(self):
        self.allow()
        view = self.searching()
        self.write(f"[Deny all]\nBluetoothServiceUUID={PINK}\n")
        wait(lambda: self.devices(view) == [], what="the tags to go", also_every=0.05)

    def test_it_outlives_the_radio_service(self):
        self.allow()
        view = self.searching()
        self.simulator.do("serviceStopped")
        self.world.wait_bluetooth("absent")
        self.simulator.do("serviceStarted")
        self.world.wait_bluetooth("ready")
        wait(lambda: view.has_owner(BLUEZ), what="the name to come back", also_every=0.05)
        view.tree()
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        wait(lambda: self.devices(view) == self.tags, what="the tags", also_every=0.05)

    def test_the_client_of_a_daemon_that_restarts_hears_on(self):
        self.allow()
        view = self.searching()
        self.world.restart_daemon()
        again = self.searching()
        self.assertEqual(self.devices(again), self.tags)
        view.close()


class Explaining(KindTest):
    """`accessoryctl explain` about the app's kinds."""

    def kinds(self, name="tag-1"):
        """All that is said about a device's kinds, without the name and the number of the first grant."""
        number = self.grant.rsplit("/", 1)[1]
        return [each.replace(f"grant {number} (Tags): ", "").replace(f" {number} ", " N ")
                for each in self.explain("com.example.dice", "tag-1", "tag-2", "tag-3", "stranger")[name]["kinds"]]

    def wait_kinds(self, *says, name="tag-1"):
        wait(lambda: self.kinds(name) == list(says), what=lambda: f"{says}; came {self.kinds(name)}", also_every=0.05)

    def test_the_app_hears_it_while_it_listens(self):
        self.assertEqual(self.explain("com.example.dice", "tag-1")["tag-1"]["kinds"], [])
        self.allow()
        self.assertEqual(self.kinds(), ["the app hears it while it uses the view, or observes the presence of the kind"])
        self.searching()
        self.assertEqual((self.kinds(), self.kinds("stranger")), (["the app hears it"], []))
        status, lines = ctl("explain", "com.example.dice", "--seconds", 1, "--bus", self.world.bus.address)
        self.assertEqual((status, lines.count(f"    kind: grant {self.grant.rsplit('/', 1)[1]} (Tags): the app hears it")), (0, 3))

    def test_it_is_excluded(self):
        self.allow()
        self.admin("Exclude", "s", "C0:FF:EE:00:02:01")
        for _ in ("nobody listens", "a client listens"):
            self.assertEqual(self.kinds(), ["it is excluded: accessoryctl include N C0:FF:EE:00:02:01 opens it"])
            self.assertIn("the app hears it", self.kinds("tag-2")[0])
            self.searching(*self.tags[1:])
        self.admin("Include", "s", "C0:FF:EE:00:02:01")
        self.wait_kinds("the app hears it")

    def test_the_kind_is_full(self):
        self.allow(kind(maxDevices=dbus.UInt32(2)))
        view = self.view()
        view.bluez(ADAPTER, ADAPTER1, "StartDiscovery")
        self.world.daemon.wait_for("as many devices as it may have")
        says = sorted(self.kinds(name)[0] for name in ("tag-1", "tag-2", "tag-3"))
        self.assertEqual(
            says,
            ["the app hears it", "the app hears it", "the kind is full (maxDevices 2): it is heard once a device leaves, or after accessoryctl exclude N ADDRESS"])

    def test_a_rule_denies_the_device_or_the_kind(self):
        self.allow()
        self.write("[Deny tag]\nAddress=C0:FF:EE:00:02:01\n")
        path = self.world.policy / "10-site.conf"
        self.assertEqual(self.kinds(), [f"rule tag in {path} denies the device: changing the rule opens it"])
        self.assertIn("the app hears it", self.kinds("tag-2")[0])
        self.write(f"[Deny all]\nBluetoothServiceUUID={PINK}\n")
        self.assertEqual(self.kinds(), [f"rule all in {path} denies the kind: changing the rule opens it"])

    def test_the_grant_is_disabled_or_ended(self):
        self.allow()
        number, bus = self.grant.rsplit("/", 1)[1], ("--bus", self.world.bus.address)
        self.assertEqual(ctl("disable", number, *bus)[0], 0)
        self.assertEqual(self.kinds(), ["the grant is disabled: accessoryctl enable N opens it"])
        self.assertEqual(ctl("enable", number, *bus)[0], 0)
        self.assertEqual(ctl("limit", number, "10s", *bus)[0], 0)
        for _ in range(11):
            self.world.pass_second()
        self.assertEqual(self.kinds(), ["the grant has ended: accessoryctl limit N END opens it for more time"])
        self.assertEqual(ctl("limit", number, "none", *bus)[0], 0)
        self.searching()
        self.assertEqual(self.kinds(), ["the app hears it"])

    def test_the_manifest_does_not_declare_it(self):
        self.allow()
        path = self.world.declare("dice", BluetoothServices=f"{BLUE};")
        self.wait_kinds(
            f"the manifest does not open it: bluetoothServiceUUID: {PINK.lower()}: not among BluetoothServices= in {path}")

    def test_the_older_of_two_grants_decides(self):
        self.allow()
        first, number = self.grant, self.grant.rsplit("/", 1)[1]
        self.dice.show_picker(kind("More tags", maxDevices=dbus.UInt32(9)))
        offer = wait(lambda: next((each for each in self.person.offers if "maxDevices" in each), None), what="the kind to be offered")
        self.person.ask("Pick", "s", offer["id"])
        second = wait(lambda: next(iter(self.world.grants().keys() - {first}), None), what="the second grant").rsplit("/", 1)[1]
        heard = "the app hears it while it uses the view, or observes the presence of the kind"
        says = lambda: list(self.explain("com.example.dice", "tag-1")["tag-1"]["kinds"])
        self.assertEqual(
            says(), [f"grant {number} (Tags): {heard}", f"grant {second} (More tags): grant {number} is older, matches too, and decides"])
        self.world.admin.call(first, PROPERTIES, "Set", "ssv", GRANT, "Enabled", False)
        self.assertEqual(
            says(), [f"grant {number} (Tags): the grant is disabled: accessoryctl enable {number} opens it", f"grant {second} (More tags): {heard}"])

    def test_a_picker_for_the_kind(self):
        self.dice.show_picker(kind("Ruuvi tags"))
        self.person.wait_stage("offering")
        tag = self.explain("com.example.dice", "tag-1")["tag-1"]
        self.assertEqual((tag["item"], tag["reasons"]), ("Ruuvi tags", []))
        self.person.cancel()
        self.dice.wait_event("pickerDidDismiss")
        self.person.wait_gone()
        self.allow()
        self.dice.show_picker(kind())
        wait(lambda: self.world.admin.paths("picker"), what="the picker")
        tag = self.explain("com.example.dice", "tag-1")["tag-1"]
        self.assertEqual(tag["reasons"], [f"com.example.dice already has the kind, by grant {self.grant.rsplit('/', 1)[1]}"])


class Requests(KindTest):
    def test_bad_ones(self):
        for more, says in (
                ({"access": "listen"}, ["access", "listen"]), ({"maxDevices": dbus.UInt32(0)}, ["maxDevices", "1 to 1024"]),
                ({"maxDevices": dbus.UInt32(1025)}, ["maxDevices", "1025"]), ({"ssid": "net"}, ["access", "ssid"]),
                ({"supportedOptions": ["bluetoothPairingLE"]}, ["access", "supportedOptions"]),
                ({"bluetoothRange": "immediate"}, ["access", "bluetoothRange"]),
                ({"setupOptions": ["confirmAuthorization"]}, ["access", "confirmAuthorization"])):
            with self.subTest(more):
                self.assertFails(error("InvalidRequest"), self.dice.show_picker, kind(**more) if "access" not in more else item(pairs=False, **more), says=says)
        self.assertFails(error("InvalidRequest"), self.dice.show_picker, item(maxDevices=dbus.UInt32(3)), says=["maxDevices", "hear"])
        self.assertFails(
            error("InvalidRequest"), self.dice.show_picker, kind(service="ABCD"), says=["bluetoothServiceUUID"])

    def test_the_same_kind_is_not_offered_twice(self):
        self.allow()
        self.dice.show_picker(kind(), discoveryTimeout=0.5)
        self.dice.wait_event("pickerDidDismiss", count=2)

    def test_an_app_that_filters_learns_nothing_of_the_devices_before(self):
        self.dice.show_picker(kind(), options=["filterDiscoveryResults"])
        wait(lambda: any(each.get("devicesInRange") == 3 for each in self.person.offers), what="three devices")
        self.person.cancel()
        self.dice.wait_event("pickerDidDismiss")
        self.assertNotIn("accessoryDiscovered", self.dice.event_types)


class Rules(PolicyTest):
    scenario = KindTest.scenario

    def ask(self, item):
        dice = self.app()
        dice.show_picker(item, discoveryTimeout=3.0)
        return dice

    def test_a_rule_approves_a_kind(self):
        self.write(f"[Approve tags]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\nMaxDevices=10\n")
        dice = self.ask(kind(maxDevices=dbus.UInt32(10)))
        dice.wait_event("accessoryAdded")
        line = next(each for each in self.audit() if each["event"] == "granted")
        self.assertIn("tags", line["who"])

    def test_not_one_of_more_devices(self):
        self.write(f"[Approve tags]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\nMaxDevices=9\n")
        dice = self.ask(kind(maxDevices=dbus.UInt32(10)))
        self.assertEqual(dice.event_types.count("accessoryAdded"), 0)
        self.assertEqual(self.world.grants(), {})

    def test_a_rule_for_single_accessories_approves_none(self):
        self.write(f"[Approve one]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\nMinimumRSSI=-90\n")
        dice = self.ask(kind())
        wait(lambda: self.world.admin.paths("picker"), what="the picker")
        self.assertEqual(dice.event_types.count("accessoryAdded"), 0)
        self.assertEqual(self.world.grants(), {})

    def test_mistakes(self):
        for text in ("MaxDevices=0", "MaxDevices=5\nMinimumRSSI=-60", "MaxDevices=5\nAddress=C0:FF:EE:00:02:01"):
            with self.subTest(text):
                directory = self.world.directory / "checked"
                directory.mkdir(exist_ok=True)
                (directory / "a.conf").write_text(f"[Approve tags]\nApp=com.example.dice\nBluetoothServiceUUID={PINK}\n{text}\n")
                status, lines = ctl("policy", "check", "--policy", directory)
                self.assertNotEqual(status, 0)
                self.assertRegex("\n".join(lines), "MaxDevices|MinimumRSSI")


class Several(KindTest):
    """An item with `pickSeveral`: accessories are set up one after the other in one picker."""

    several = staticmethod(lambda **more: item("Tag", setupOptions=["pickSeveral"], **more))

    def add_next(self, name, count):
        self.person.pick(name)
        self.dice.wait_event("accessoryAdded", count=count)
        wait(lambda: self.person.state.get("Prompt", {}).get("added") == count, what=f"{count} to be added")

    def test_three_in_one_run(self):
        self.dice.show_picker(self.several())
        for count, name in enumerate(("tag-2", "tag-1", "tag-3"), 1):
            self.add_next(name, count)
        self.assertEqual(len(self.world.grants()), 3)
        self.person.cancel()
        self.assertNotIn("error", self.dice.wait_event("pickerDidDismiss"))
        self.assertEqual(self.simulator.bonds, ["tag-1", "tag-2", "tag-3"])
        # No pause follows: nothing was refused.
        self.dice.show_picker(item("Other", BLUE))
        self.person.wait_shown()

    def test_it_ends_by_itself_when_no_more_is_picked(self):
        self.dice.show_picker(self.several(), discoveryTimeout=0.5)
        self.add_next("tag-2", 1)
        self.assertNotIn("error", self.dice.wait_event("pickerDidDismiss"))

    def test_without_a_pick_it_is_cancelled(self):
        self.dice.show_picker(self.several())
        self.person.wait_stage("offering")
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")


class SeveralWithAFailure(KindTest):
    scenario = scenario(accessory("good", 1), accessory("bad", 2, pairing={"mode": "justWorks", "fault": "refuse"}), accessory("better", 3))

    def test_one_failure_does_not_end_the_others(self):
        self.dice.show_picker(Several.several())
        self.person.pick("good")
        self.dice.wait_event("accessoryAdded")
        self.person.pick("bad")
        self.dice.wait_event("pickerSetupFailed")
        self.person.pick("better")
        self.dice.wait_event("accessoryAdded", count=2)
        self.person.cancel()
        self.assertNotIn("error", self.dice.wait_event("pickerDidDismiss"))
        self.assertEqual(self.simulator.bonds, ["better", "good"])


BLEAK = """
import asyncio, sys
from bleak import BleakClient, BleakScanner

async def main():
    heard = {}
    all_heard = asyncio.Event()
    def found(device, advert):
        heard[device.address] = (advert.local_name, {key: value.hex() for key, value in advert.manufacturer_data.items()}, advert.rssi)
        if len(heard) == 3:
            all_heard.set()
    async with BleakScanner(found) as scanner:
        await all_heard.wait()
        device = next(iter(scanner.discovered_devices))
    for address in sorted(heard):
        print(address, *heard[address][:2], flush=True)
    try:
        async with BleakClient(device, timeout=20):
            print("connected")
    except Exception as error:
        print("refused", error, flush=True)

asyncio.run(asyncio.wait_for(main(), 120))
"""


class Bleak(KindTest):
    def test_an_unmodified_scanner(self):
        self.allow()
        shutil.copytree(TESTS.parent / ".build/test-packages", self.world.directory / "packages")
        program = Program(
            "/usr/bin/setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups", Identity("dice").executable, "-c", BLEAK,
            environment={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.world.view}", "HOME": "/", "TERM": "dumb",
                         "PYTHONPATH": str(self.world.directory / "packages")})
        self.assertEqual(program.wait_end(), 0, program.lines)
        self.assertEqual(
            program.lines[:3], [f"C0:FF:EE:00:02:0{number} tag-{number} {{65535: '0102'}}" for number in (1, 2, 3)])
        self.assertRegex(program.lines[3], "^refused .*hear this device")
