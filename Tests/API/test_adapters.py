# SPDX-License-Identifier: Apache-2.0
"""A machine with two adapters: an accessory is one offer, and is set up, used and removed on one adapter, regardless of the other."""

import dbus

from harness.names import ACCESSORY, ADMIN, ADMIN_PATH, OBJECT_MANAGER, PROPERTIES, SOMEBODY, error
from harness.programs import BIN, Program
from harness.radio import accessory, scenario
from harness.values import item
from harness.waiting import wait
from harness.world import APITest
from view import ADAPTER1, BLUEZ, DEVICE1, GATT, View

FAR, NEAR = "00:AA:01:00:00:42", "00:1A:7D:DA:71:13"
PINK_ADDRESS = "dev_C0_FF_EE_00_02_01"


def path_on(adapter):
    return f"/org/bluez/{adapter}/{PINK_ADDRESS}"


def adapters(far=-20, near=0):
    return [{"name": "hci0", "address": FAR, "gain": far}, {"name": "hci1", "address": NEAR, "gain": near}]


class TwoAdapters(APITest):
    scenario = scenario(accessory("pink", 1, gatt=GATT), adapters=adapters())

    def setUp(self):
        super().setUp()
        self.begin()

    def begin(self):
        self.person, self.dice = self.picker(), self.app()

    def restart(self, scenario):
        self.start(scenario)
        self.begin()

    def bluez(self, path, interface, name):
        return self.world.admin.call(path, PROPERTIES, "Get", "ss", interface, name, to=BLUEZ)

    def is_paired(self, adapter):
        """Whether the adapter has a bond; false without an object."""
        try:
            return bool(self.bluez(path_on(adapter), DEVICE1, "Paired"))
        except dbus.DBusException:
            return False

    def scan(self, adapter):
        """Another program searches."""
        self.world.admin.call(f"/org/bluez/{adapter}", ADAPTER1, "StartDiscovery", to=BLUEZ)

    def objects(self):
        return {str(each) for each in self.world.admin.call("/", OBJECT_MANAGER, "GetManagedObjects", to=BLUEZ)}

    def hear(self, *adapters):
        """Until these hear it, and the nearer one is shown."""
        for adapter in adapters or ("hci0", "hci1"):
            wait(lambda: path_on(adapter) in self.objects(), 10, f"the object on {adapter}", also_every=0.02)
        if not adapters:
            wait(lambda: any(each["rssi"] > -60 for each in self.person.offers), 10, "the nearer one's strength")

    def set_up(self, *heard_by):
        """On the adapter that hears it best."""
        self.dice.signals.clear()
        self.dice.show_picker(item())
        self.hear(*heard_by)
        self.person.pick("pink")
        path = str(self.dice.wait_event("accessoryAdded")["accessory"])
        self.dice.wait_event("pickerDidDismiss")
        self.person.wait_gone()
        return path

    def of(self, path, name):
        return str(self.world.admin.get(path, ACCESSORY, name))

    def view(self):
        view = View(self.world, "dice", SOMEBODY)
        view.listen_to_everything()
        return view

    def unlink(self, adapter):
        self.world.admin.call(path_on(adapter), DEVICE1, "Disconnect", to=BLUEZ)


class Heard(TwoAdapters):
    def test_it_is_one_offer_and_is_paired_where_it_is_nearest(self):
        for gains, used, address in (((-20, 0), "hci1", NEAR), ((0, -20), "hci0", FAR)):
            with self.subTest(used):
                self.restart(scenario(accessory("pink", 1, gatt=GATT), adapters=adapters(*gains)))
                self.dice.show_picker(item())
                self.hear()
                self.assertEqual(len(self.person.offers), 1)
                self.person.pick("pink")
                path = str(self.dice.wait_event("accessoryAdded")["accessory"])
                self.assertEqual([self.is_paired(each) for each in ("hci0", "hci1")], [used == "hci0", used == "hci1"])
                self.assertEqual((self.of(path, "Device"), self.of(path, "Adapter")), (path_on(used), address))
                self.assertEqual(self.dice.get(path, ACCESSORY, "Device"), path_on(used))
                view = self.view()
                self.assertEqual([each for each in view.tree() if "service" not in each], ["/org/bluez", f"/org/bluez/{used}", path_on(used)])
                view.connect(path_on(used))

    def test_the_offer_outlives_one_of_its_adapters(self):
        self.dice.show_picker(item())
        before = self.person.wait_offer("pink")["id"]
        self.hear()
        for action, back in (("adapterRemoved", "adapterAdded"), ("adapterPowerOff", "adapterPowerOn")):
            for adapter, other in (("hci1", "hci0"), ("hci0", "hci1")):
                with self.subTest(action=action, adapter=adapter):
                    self.simulator.do(action, adapter)
                    for _ in range(6):
                        self.world.pass_second()
                    self.person.settle()
                    self.assertEqual([each["id"] for each in self.person.offers], [before])
                    self.assertEqual(self.world.manager("Bluetooth"), "ready")
                    self.simulator.do(back, adapter)
                    wait(lambda: path_on(adapter) in self.objects(), 10, "the object again", also_every=0.05)
        self.person.pick("pink")
        self.dice.wait_event("accessoryAdded")

    def test_only_what_the_configuration_allows(self):
        self.scan("hci1")
        for adapter in ("hci0", FAR.lower(), f"{FAR};hci7"):
            with self.subTest(adapter):
                self.world.daemon.stop()
                self.world.config.write_text(f"[Bluetooth]\nAdapter={adapter}\n")
                self.world.start_daemon()
                self.begin()
                wait(lambda: path_on("hci1") in self.objects(), 10, "the other adapter's object", also_every=0.02)
                path = self.set_up("hci0")
                self.assertEqual(self.of(path, "Device"), path_on("hci0"))
                self.assertFalse(self.is_paired("hci1"))
                self.dice.remove(path)
        listed = {str(each["name"]): bool(each["allowed"]) for each in self.world.admin.get(ADMIN_PATH, ADMIN, "Adapters")}
        self.assertEqual(listed, {"hci0": True, "hci1": False})

    def test_what_is_no_adapter_is_an_error(self):
        self.world.daemon.stop()
        for value in ("wlan0", "hci", "hci0;00:11:22", "-"):
            with self.subTest(value):
                self.world.config.write_text(f"[Bluetooth]\nAdapter={value}\n")
                daemon = Program(BIN / "accessorysetupd", "--bus", self.world.bus.address, "--config", self.world.config)
                self.assertNotEqual(daemon.wait_end(), 0)
                self.assertRegex("\n".join(daemon.lines), r"accessorysetupd.conf:2: .*Adapter: .*neither an adapter's name")
        self.world.config.write_text("")
        self.world.start_daemon()

    def test_what_another_program_paired_is_used_where_it_is_bonded(self):
        """Rule 21, on the adapter that hears it less well."""
        self.scan("hci0")
        wait(lambda: path_on("hci0") in self.objects(), 10, "the object", also_every=0.02)
        self.world.admin.call(path_on("hci0"), DEVICE1, "Pair", to=BLUEZ)
        self.unlink("hci0")
        path = self.set_up("hci0", "hci1")
        self.assertEqual((self.of(path, "Device"), self.of(path, "Adapter")), (path_on("hci0"), FAR))
        self.assertFalse(self.is_paired("hci1"))


class SetUp(TwoAdapters):
    """The accessory is on hci1, and hci0 hears it too."""

    def setUp(self):
        super().setUp()
        self.path = self.set_up()
        self.assertEqual(self.of(self.path, "Device"), path_on("hci1"))
        self.unlink("hci1")

    def wait_device(self, device):
        wait(lambda: self.of(self.path, "Device") == device, 10, lambda: f"{device}; it is {self.of(self.path, 'Device')}", also_every=0.05)

    def test_removed_while_its_adapter_is_unplugged(self):
        self.scan("hci0")
        wait(lambda: path_on("hci0") in self.objects(), 10, "the other object", also_every=0.02)
        self.simulator.do("adapterRemoved", "hci1")
        self.wait_device("/")
        # bluetoothd withdraws the device first, and its adapter after it.
        problems = lambda: self.world.admin.get(self.path, ACCESSORY, "Problems")
        wait(lambda: any(NEAR in each for each in problems()), 10, lambda: f"the adapter among {problems()}", also_every=0.05)
        self.dice.remove(self.path)
        # Another adapter's object is another device's.
        self.assertIn(path_on("hci0"), self.objects())
        self.assertEqual(self.simulator.bonds, ["pink"])
        self.simulator.do("adapterAdded", "hci1")
        wait(lambda: self.simulator.bonds == [], 10, "the bond to go", also_every=0.05)
        self.assertIn(path_on("hci0"), self.objects())

    def test_removed_and_set_up_again_meanwhile(self):
        """The bond that waits for its adapter has nothing to do with the new one."""
        self.simulator.do("adapterRemoved", "hci1")
        self.wait_device("/")
        self.dice.remove(self.path)
        again = self.set_up("hci0")
        self.assertEqual(self.of(again, "Device"), path_on("hci0"))
        self.unlink("hci0")
        self.simulator.do("adapterAdded", "hci1")
        wait(lambda: not self.is_paired("hci1"), 10, "the old bond to go", also_every=0.05)
        self.assertTrue(self.is_paired("hci0"))
        self.assertEqual(self.of(again, "Device"), path_on("hci0"))

    def test_names_that_swap_at_a_restart(self):
        view = self.view()
        view.tree()
        for restart in ("bluetoothd", "both"):
            with self.subTest(restart):
                if restart == "both":
                    self.world.daemon.stop()
                self.simulator.do("serviceStopped")
                self.simulator.do("adaptersSwapped")
                self.simulator.do("serviceStarted")
                if restart == "both":
                    self.world.start_daemon()
                now = "hci0" if restart == "bluetoothd" else "hci1"
                self.wait_device(path_on(now))
                self.assertEqual(self.of(self.path, "Adapter"), NEAR)
                tree = View(self.world, "dice", SOMEBODY).tree()
                self.assertEqual([each for each in tree if "service" not in each], ["/org/bluez", f"/org/bluez/{now}", path_on(now)])
                self.assertEqual(tree[f"/org/bluez/{now}"][ADAPTER1]["Address"], NEAR)
                if restart == "bluetoothd":
                    wait(lambda: view.told("InterfacesAdded", path_on(now)), what="the device in the view that was open")

    def test_an_open_view_when_its_adapter_goes_and_comes(self):
        view = self.view()
        view.tree()
        view.connect(path_on("hci1"))
        self.simulator.do("adapterRemoved", "hci1")
        wait(lambda: view.told("InterfacesRemoved", "/org/bluez/hci1"), what="the end of the adapter")
        self.assertTrue(view.told("InterfacesRemoved", path_on("hci1")))
        wait(lambda: view.told("InterfacesAdded", "/org/bluez/hci0"), what="the adapter that is there")
        self.assertEqual(list(view.tree()), ["/org/bluez", "/org/bluez/hci0"])
        self.assertTrue(view.read_property("/org/bluez/hci0", ADAPTER1, "Powered"))
        view.signals.clear()
        self.simulator.do("adapterAdded", "hci1")
        wait(lambda: view.told("InterfacesAdded", path_on("hci1")), what="the accessory")
        self.assertTrue(view.told("InterfacesAdded", "/org/bluez/hci1"))
        view.connect(path_on("hci1"))
        view.characteristic(path_on("hci1"))

    def test_an_open_view_when_power_goes_and_comes(self):
        view = self.view()
        view.tree()
        self.simulator.do("adapterPowerOff", "hci1")
        view.wait_change("/org/bluez/hci1", "Powered", False)
        self.assertEqual(self.world.manager("Bluetooth"), "ready")
        self.assertFails("org.bluez.Error.NotReady", view.bluez, "/org/bluez/hci1", ADAPTER1, "StartDiscovery")
        self.simulator.do("adapterPowerOn", "hci1")
        view.wait_change("/org/bluez/hci1", "Powered", True)
        view.connect(path_on("hci1"))

    def test_the_other_adapter_is_no_business_of_the_view(self):
        view = self.view()
        view.tree()
        view.connect(path_on("hci1"))
        view.drain()
        view.signals.clear()
        for action in ("adapterPowerOff", "adapterPowerOn", "adapterRemoved", "adapterAdded"):
            self.simulator.do(action, "hci0")
        self.world.admin.settle()
        view.drain()
        self.assertEqual([each for each in view.signals if "Properties" in each.member or "Interfaces" in each.member], [])
        view.disconnect(path_on("hci1"))

    def test_accessories_on_both(self):
        """Each is on its own; the view has both adapters."""
        self.restart(scenario(accessory("pink", 1, gatt=GATT), accessory("two", 2, gatt=GATT), adapters=adapters()))
        self.set_up()
        self.unlink("hci1")
        self.simulator.do("adapterPowerOff", "hci1")
        second = self.add(self.dice, self.person, "two")
        self.simulator.do("adapterPowerOn", "hci1")
        self.assertEqual(self.of(second, "Adapter"), FAR)
        view = self.view()
        two = self.of(second, "Device")
        self.assertEqual([each for each in view.tree() if "service" not in each],
                         ["/org/bluez", "/org/bluez/hci0", two, "/org/bluez/hci1", path_on("hci1")])
        for adapter in ("hci0", "hci1"):
            view.bluez(f"/org/bluez/{adapter}", ADAPTER1, "StartDiscovery")
            view.wait_change(f"/org/bluez/{adapter}", "Discovering", True)
        view.connect(path_on("hci1")).connect(two)
        self.dice.remove(second)
        wait(lambda: view.told("InterfacesRemoved", "/org/bluez/hci0"), what="the end of the other adapter")
        self.assertEqual([each for each in view.tree() if "service" not in each], ["/org/bluez", "/org/bluez/hci1", path_on("hci1")])

    def test_adapters_are_shown_to_admins(self):
        rows = [(str(each["name"]), str(each["address"]), bool(each["powered"])) for each in self.world.admin.get(ADMIN_PATH, ADMIN, "Adapters")]
        self.assertEqual(rows, [("hci0", FAR, True), ("hci1", NEAR, True)])
        self.simulator.do("adapterPowerOff", "hci0")
        wait(lambda: any(each.member == "PropertiesChanged" and "Adapters" in each.arguments[1] for each in self.world.admin.signals), 10, "the signal")
        program = Program(BIN / "accessoryctl", "status", "--bus", self.world.bus.address)
        program.wait_end()
        self.assertEqual([line.split() for line in program.lines if "hci" in line], [["hci0", FAR, "off"], ["hci1", NEAR, "on"]])


class Phases(TwoAdapters):
    """For each event and phase: the session lives, no bond is left that no grant stands for, and the accessory can be set up afterwards."""

    scenario = scenario(accessory("pink", 1, gatt=GATT, pairing={"mode": "numericComparison"}), adapters=adapters())

    EVENTS = (("adapterRemoved", "adapterAdded"), ("adapterPowerOff", "adapterPowerOn"))

    def searching(self):
        self.dice.show_picker(item())

    def offering(self):
        self.dice.show_picker(item())
        self.person.wait_offer("pink")
        self.hear()

    def pairing(self):
        self.offering()
        self.person.pick("pink")
        self.person.wait_prompt("confirm-passkey")

    def idle(self):
        pass

    def test_each_event_in_each_phase(self):
        for phase in (self.idle, self.searching, self.offering, self.pairing):
            for event, back in self.EVENTS:
                for adapter in ("hci0", "hci1"):
                    with self.subTest(phase=phase.__name__, event=event, adapter=adapter):
                        self.restart(self.scenario)
                        phase()
                        self.simulator.do(event, adapter)
                        wait(lambda: {str(each["name"]): bool(each["powered"]) for each in self.world.admin.get(ADMIN_PATH, ADMIN, "Adapters")}
                             .get(adapter, False) is False, 10, "the daemon to know", also_every=0.02)
                        self.assertEqual(self.world.manager("Bluetooth"), "ready")
                        other = "hci1" if adapter == "hci0" else "hci0"
                        if phase == self.idle:
                            self.searching()
                        if phase == self.pairing and adapter == "hci1":
                            # It was paired with this one.
                            failed = self.dice.wait_event("pickerSetupFailed")
                            self.assertEqual(failed["error"], error("ConnectionFailed"))
                            # The picker program has heard so, too: its prompt is no longer the first pairing's.
                            self.person.settle()
                        elif phase == self.pairing:
                            other = "hci1"
                        if phase != self.pairing or adapter == "hci1":
                            self.person.wait_offer("pink")
                            self.person.pick("pink")
                            self.person.wait_prompt("confirm-passkey")
                        self.person.respond(accept=True)
                        path = str(self.dice.wait_event("accessoryAdded")["accessory"])
                        self.assertEqual(self.of(path, "Device"), path_on(other))
                        self.simulator.do(back, adapter)
                        wait(lambda: len(self.world.admin.get(ADMIN_PATH, ADMIN, "Adapters")) == 2, 10, "both", also_every=0.02)
                        wait(lambda: self.is_paired(other) and not self.is_paired(adapter), 10, "one bond", also_every=0.05)
                        self.assertEqual(self.of(path, "Device"), path_on(other))

    def test_both_go_and_come(self):
        self.offering()
        for event, back, state in (("adapterPowerOff", "adapterPowerOn", "off"), ("adapterRemoved", "adapterAdded", "absent")):
            with self.subTest(event):
                for adapter in ("hci0", "hci1"):
                    self.simulator.do(event, adapter)
                self.world.wait_bluetooth(state)
                self.simulator.do(back, "hci0")
                self.world.wait_bluetooth("ready")
                self.simulator.do(back, "hci1")

    def test_a_daemon_that_recovers_without_the_adapter(self):
        """It was killed while it paired, and its adapter is gone: the bond goes when it is back."""
        self.pairing()
        self.world.daemon.stop(9)
        self.simulator.do("adapterRemoved", "hci1")
        self.world.start_daemon()
        self.begin()
        self.offering_one()
        self.simulator.do("adapterAdded", "hci1")
        wait(lambda: not self.is_paired("hci1"), 10, "no bond", also_every=0.05)

    def offering_one(self):
        self.dice.show_picker(item())
        self.person.wait_offer("pink")
        self.person.cancel()
        self.dice.wait_event("pickerDidDismiss")


del TwoAdapters
