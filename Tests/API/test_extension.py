# SPDX-License-Identifier: Apache-2.0
"""Discovery extensions (`Extension=`): ShowPicker without items, from the socket to the grant, and extensions that are absent, slow,
dead or hostile."""

import contextlib
import os
import socket

from gi.repository import Gio, GLib

from harness.extension import Extension, endpoint
from harness.names import ACCESSORY, ADMIN, ADMIN_PATH, PINK, SOMEBODY, SOMEBODY_ELSE, error
from harness.programs import BIN, TEST_CLOCK, TESTS, Bus, Program
from harness.radio import accessory, scenario
from harness.values import item, sv
from harness.waiting import wait
from harness.world import APITest, World

PINK_ADDRESS, OTHER_ADDRESS = "C0:FF:EE:00:02:01", "C0:FF:EE:00:02:02"


class PassingWorld(World):
    """A second passes for the daemon at the test's command."""

    def start_daemon(self, environment={}):
        super().start_daemon(environment | TEST_CLOCK)


class ExtensionTest(APITest):
    """The app's extension listens at `path`."""

    scenario = scenario(accessory("pink", 1), accessory("stranger", 2, "1234"))
    world_type = PassingWorld
    answers = True

    def setUp(self):
        super().setUp()
        self.path = self.world.directory / "extension"
        self.world.declare("dice", Extension=self.path)
        self.extension = Extension(self.path, self.answers)
        self.addCleanup(self.extension.close)
        self.person = self.picker()
        self.dice = self.app()

    def begin(self, **settings):
        self.dice.show_picker(**settings)
        self.extension.wait_call("StartDiscovery")

    def names(self):
        return [str(each["name"]) for each in self.person.offers]

    def wait_names(self, *names):
        wait(lambda: self.names() == list(names), 10, lambda: f"{names}; offered are {self.names()}")

    def assertEnded(self):
        """The extension was stopped, and its connection closed."""
        self.extension.wait_call("StopDiscovery")
        self.extension.wait_closed()


class Items(ExtensionTest):
    def test_found_changed_lost(self):
        self.begin(discoveryTimeout=60.0)
        self.assertEqual(self.extension.calls[0][1], {"discoveryTimeout": 60.0})
        self.extension.found(identifier="a", name="Printer", endpoint=endpoint())
        self.extension.found(identifier="b", name="Lamp", endpoint=endpoint("192.0.2.7", 80))
        self.wait_names("Printer", "Lamp")
        self.assertEqual([str(each["endpoint"]) for each in self.person.offers], ["printer.local:631", "192.0.2.7:80"])
        self.extension.changed(identifier="a", name="Laser printer", endpoint=endpoint("fe80::1%eth0"))
        self.wait_names("Laser printer", "Lamp")
        self.assertEqual(self.person.offers[0]["endpoint"], "[fe80::1%eth0]:631")
        self.extension.lost("b")
        self.wait_names("Laser printer")
        self.person.cancel()
        self.assertDismissed(self.dice, "UserCancelled")
        self.assertEnded()
        self.assertNothingLeft()

    def test_a_pick_of_an_endpoint(self):
        self.begin()
        self.extension.found(identifier="a", name="Printer", endpoint=endpoint())
        self.wait_names("Printer")
        self.person.pick("")
        self.dice.wait_event("accessoryAdded")
        self.dice.wait_event("pickerDidDismiss")
        self.assertEnded()
        [path] = self.dice.accessories
        properties = self.dice.objects()[path][ACCESSORY]
        self.assertEqual(properties["Endpoint"], {"host": "printer.local", "port": 631})
        self.assertEqual((properties["DisplayName"], properties["BluetoothIdentifier"], properties["Device"]), ("Printer", "", "/"))
        # The same again is the app's, and so after a restart.
        self.world.restart_daemon()
        self.person, self.dice = self.picker(), self.app()
        self.dice.show_picker()
        self.extension.wait_call("StartDiscovery", 2)
        self.extension.found(identifier="a", name="Printer", endpoint=endpoint())
        self.extension.found(identifier="b", name="Lamp", endpoint=endpoint())
        self.wait_names("Lamp")
        self.person.cancel()
        self.dice.wait_event("pickerDidDismiss")
        [path] = self.dice.accessories
        self.assertEqual(self.dice.objects()[path][ACCESSORY]["Endpoint"]["host"], "printer.local")
        self.dice.remove(path)
        self.assertEqual(self.world.grants(), {})

    def test_joined_with_bluetooth(self):
        """One offer and one grant; the radio must hear the device, and the manifest must declare it."""
        self.begin()
        for identifier, address in (("pink", PINK_ADDRESS), ("stranger", OTHER_ADDRESS), ("absent", "C0:FF:EE:00:00:77")):
            self.extension.found(
                identifier=identifier, name=identifier.capitalize(), bluetoothIdentifier=address, endpoint=endpoint(),
                supportedOptions=["bluetoothPairingLE"])
        self.wait_names("Pink")
        self.extension.found(identifier="later", name="Later", endpoint=endpoint())
        self.wait_names("Pink", "Later")
        self.person.pick("pink")
        self.dice.wait_event("pickerSetupPairing")
        self.dice.wait_event("accessoryAdded")
        self.dice.wait_event("pickerDidDismiss")
        self.assertEnded()
        [grant] = self.world.grants().values()
        self.assertEqual(grant["Descriptor"]["bluetoothServiceUUID"].upper(), PINK)
        [path] = self.dice.accessories
        properties = self.dice.objects()[path][ACCESSORY]
        self.assertTrue(properties["BluetoothIdentifier"])
        self.assertEqual(properties["Endpoint"]["port"], 631)
        self.assertEqual(len(self.simulator.bonds), 1)

    def test_explained(self):
        """A device in range that the app could have, and that its extension has not reported."""
        self.begin()
        options = sv({"app": "com.example.dice", "seconds": 1.0})
        devices = self.world.admin.call(ADMIN_PATH, ADMIN, "Explain", "a{sv}", options)
        [pink] = [each for each in devices if each["name"] == "pink"]
        self.assertEqual(list(pink["reasons"]), ["the app's extension has not reported it"])

    def test_in_the_apps_own_directory(self):
        self.extension.close()
        self.world.declare("dice", Extension="extension", Socket="yes")
        directory = self.world.app_sockets / "com.example.dice"
        wait(directory.exists, 10, "the directory", also_every=0.05)
        self.extension = Extension(directory / "extension")
        self.addCleanup(self.extension.close)
        self.begin()

    def test_the_app_ends(self):
        self.begin()
        self.dice.close()
        self.assertEnded()

    def test_the_time_is_over(self):
        self.begin(discoveryTimeout=5.0)
        self.world.pass_until(lambda: "pickerDidDismiss" in self.dice.event_types, 8, "the dismissal")
        self.assertDismissed(self.dice, "DiscoveryTimeout")
        self.assertEnded()

    def test_a_name_from_the_network(self):
        """Cleaned as text from the air is."""
        self.begin()
        self.extension.found(identifier="a", name="Pri\u202enter\n", endpoint=endpoint())
        self.wait_names("Pri\ufffdnter\ufffd")

    def test_items_need_no_extension(self):
        self.add(self.dice, self.person, "pink", item("Pink"))
        self.assertEqual(self.extension.calls, [])


class Programs(ExtensionTest):
    """Extensions that are programs of their own, with a socket as systemd passes it."""

    def begin_program(self, *command, **environment):
        self.extension.close()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.path))
            listening.listen()
            number = listening.fileno()
            self.program = Program(
                "/bin/bash", "-c", f'exec 3<&{number}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "-", *command, environment=environment,
                pass_fds=(number,))
        self.addCleanup(self.program.stop)

    def test_in_swift(self):
        """The module DeviceDiscoveryExtension: found, changed and lost, joined with Bluetooth, started again."""
        self.begin_program(BIN / "played-extension", PLAYED_ADDRESS=PINK_ADDRESS)
        self.dice.show_picker()
        self.program.wait_for("^started")
        wait(lambda: sorted(self.names()) == ["Die", "Printer"], 10, lambda: f"the devices; offered are {self.names()}")
        self.person.cancel()
        self.dice.wait_event("pickerDidDismiss")
        self.program.wait_for("^stopped")
        self.program.lines.clear()
        for _ in range(3):
            self.world.pass_second()
        self.dice.show_picker()
        self.program.wait_for("^started")
        self.person.wait_shown()
        self.person.pick("pink")
        self.dice.wait_event("accessoryAdded")
        self.program.wait_for("^stopped")
        self.assertEqual(len(self.simulator.bonds), 1)

    def test_without_a_socket(self):
        program = Program(BIN / "played-extension")
        self.addCleanup(program.stop)
        self.assertEqual(program.wait_end(), os.EX_USAGE)
        self.assertIn("LISTEN_FDS", program.lines[0])

    def test_printers_through_avahi(self):
        """The example of the documents, on a played Avahi; the lab has the real one."""
        bus = Bus()
        self.addCleanup(bus.stop)
        avahi = Avahi(bus.address)
        self.begin_program(TESTS.parent / "Docs/Examples/printers.py", DBUS_SYSTEM_BUS_ADDRESS=bus.address)
        self.dice.show_picker()
        self.wait_names("Laser")
        self.assertEqual(self.person.offers[0]["endpoint"], "laser.local:631")
        avahi.emit("ItemRemove")
        self.wait_names()


class Avahi:
    """Avahi with one printer."""

    XML = """<node><interface name="org.freedesktop.Avahi.Server">
        <method name="ServiceBrowserNew"><arg type="i" direction="in"/><arg type="i" direction="in"/><arg type="s" direction="in"/>
            <arg type="s" direction="in"/><arg type="u" direction="in"/><arg type="o" direction="out"/></method>
        <method name="ResolveService"><arg type="i" direction="in"/><arg type="i" direction="in"/><arg type="s" direction="in"/>
            <arg type="s" direction="in"/><arg type="s" direction="in"/><arg type="i" direction="in"/><arg type="u" direction="in"/>
            """ + "".join(f'<arg type="{each}" direction="out"/>' for each in ("i", "i", "s", "s", "s", "s", "i", "s", "q", "aay", "u")) + """
        </method></interface></node>"""

    def __init__(self, address):
        flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
        self.bus = Gio.DBusConnection.new_for_address_sync(address, flags, None, None)
        [interface] = Gio.DBusNodeInfo.new_for_xml(self.XML).interfaces
        self.bus.register_object("/", interface, self.call, None, None)
        self.bus.call_sync(
            "org.freedesktop.DBus", "/", "org.freedesktop.DBus", "RequestName", GLib.Variant("(su)", ("org.freedesktop.Avahi", 0)),
            None, Gio.DBusCallFlags.NONE, -1, None)

    def call(self, _bus, _sender, _path, _interface, member, arguments, invocation):
        if member == "ServiceBrowserNew":
            # As Avahi may: before the answer.
            self.emit("ItemNew")
            return invocation.return_value(GLib.Variant("(o)", ("/browser",)))
        interface, protocol, name, kind, domain, *_ = arguments.unpack()
        return invocation.return_value(GLib.Variant(
            "(iissssisqaayu)", (interface, protocol, name, kind, domain, "laser.local", 0, "192.0.2.9", 631, [], 0)))

    def emit(self, member):
        self.bus.emit_signal(
            None, "/browser", "org.freedesktop.Avahi.ServiceBrowser", member,
            GLib.Variant("(iisssu)", (2, 0, "Laser", "_ipp._tcp", "local", 0)))


class RefusedTest(ExtensionTest):
    def refused(self, *says):
        self.assertFails(error("ExtensionNotFound"), self.dice.show_picker, says=says)
        self.assertNothingLeft()

    def manifest_keys(self):
        [app] = [each[f"{app}"] for each in self.world.admin.objects().values() for app in each if app.endswith(".App")]
        return app["Manifest"]


class Absent(RefusedTest):
    def test_no_key(self):
        self.world.declare("dice")
        wait(lambda: "Extension" not in self.manifest_keys(), 10, "the manifest", also_every=0.05)
        self.refused("has no Extension=")

    def test_no_socket(self):
        self.extension.close()
        self.refused("is missing")

    def test_nobody_listens(self):
        self.extension._socket.close()
        GLib.source_remove(self.extension._watch)
        self.extension._watch = None
        self.refused("refused")

    def test_a_socket_of_another_user(self):
        os.chown(self.path, SOMEBODY_ELSE, SOMEBODY_ELSE)
        self.refused(f"belongs to uid {SOMEBODY_ELSE}")
        self.assertEqual(self.extension.open, 0)

    def test_a_socket_of_the_apps_user(self):
        self.world.declare("dice", Extension=self.path, User=SOMEBODY)
        os.chown(self.path, SOMEBODY, SOMEBODY)
        wait(lambda: "Users" in self.manifest_keys(), 10, "the manifest", also_every=0.05)
        self.begin()

    def test_a_symbolic_link(self):
        self.path.rename(self.path.with_name("real"))
        self.path.symlink_to("real")
        self.refused("is not a socket")

    def test_a_directory_that_others_may_write_to(self):
        self.world.directory.chmod(0o777)
        self.refused("other users may write to it")

    def test_a_linked_directory(self):
        link = self.world.directory.with_name(self.world.directory.name + "-link")
        link.symlink_to(self.world.directory)
        self.addCleanup(link.unlink)
        self.world.declare("dice", Extension=link / "extension")
        wait(lambda: "-link" in str(self.manifest_keys().get("Extension")), 10, "the manifest", also_every=0.05)
        self.refused("is not a directory")

    def test_keys_that_are_none(self):
        for keys, says in (({"Extension": "sub/extension"}, "neither an absolute path"), ({"Extension": "extension"}, "needs Socket=yes"),
                           ({"Extension": "/" + "x" * 107}, "neither an absolute path"), ({"Extension": "bus", "Socket": "yes"}, "neither"),
                           ({"Extension": "printers@1.socket"}, "needs Socket=yes"), ({"Wake": "/x/../printers.socket", "Extension": "a/b.socket"}, "neither")):
            with self.subTest(keys):
                self.world.daemon.lines.clear()
                path = self.world.declare("board", **keys)
                wait(lambda: any(says in line for line in self.world.daemon.lines), 10, f"“{says}”")
                path.unlink()

    def test_filtered_results(self):
        self.assertFails(error("InvalidRequest"), self.dice.show_picker, options=["filterDiscoveryResults"], says=["needs items"])


class Units(RefusedTest):
    """Extensions that the manifest names by their socket unit."""

    def setUp(self):
        super().setUp()
        for directory in self.world.socket_units:
            directory.mkdir()
        self.world.declare("dice", Extension="printers.socket")
        wait(lambda: self.manifest_keys()["Extension"] == ["printers.socket"], 10, "the manifest", also_every=0.05)

    def write(self, text, directory=1):
        path = self.world.socket_units[directory] / "printers.socket"
        path.write_text(text)
        return path

    def test_the_path_is_the_units(self):
        self.write(f"# ListenStream=/comment\n[Unit]\nListenStream=/unit\n[Socket]\nExecStartPre=/bin/echo \\\n ListenStream=/echo\n"
                   f" ListenStream = /first\nListenStream=\nListenStream=8080\nListenStream={self.path}\nListenStream=@abstract\n")
        self.begin()
        self.extension.found(identifier="a", name="Printer", endpoint=endpoint())
        self.wait_names("Printer")

    def test_the_first_file_counts_as_it_is_when_it_is_needed(self):
        self.write("[Socket]\nListenStream=/nowhere/extension\n")
        self.refused("printers.socket: /nowhere: is missing")
        self.write(f"[Socket]\nListenStream={self.path}\n", 0)
        self.begin()

    def test_a_socket_of_another_user(self):
        self.write(f"[Socket]\nListenStream={self.path}\n")
        os.chown(self.path, SOMEBODY_ELSE, SOMEBODY_ELSE)
        self.refused(f"printers.socket: {self.path}: belongs to uid {SOMEBODY_ELSE}")
        self.assertEqual(self.extension.open, 0)

    def test_lines_of_other_systems(self):
        self.write(f"\ufeff[Socket]\r\nListenStream={self.path}\r\n")
        self.begin()

    def test_units_without_a_path(self):
        manifest = self.world.app_directories[0] / "com.example.dice.conf"
        self.refused(f"Extension= in {manifest}: printers.socket: no such unit in {self.world.socket_units[0]}, ")
        for text, says in (
                ("[Socket]\nListenDatagram=/run/x\n", "has no ListenStream="), ("[Socket]\nListenStream=/x\nListenStream=\n", "has no ListenStream="),
                ("[Socket]\nListenStream=%t/extension\n", "ListenStream=%t/extension: has a specifier"),
                ("[Socket]\nListenStream=/run/%p\n", "ListenStream=/run/%p: has a specifier"),
                ("[Socket]\nListenStream=@printers\n", "ListenStream=@printers: is an abstract socket"),
                ("[Socket]\nListenStream=631\n", "ListenStream=631: is not an absolute path"), ("", "is masked")):
            with self.subTest(says):
                path = self.write(text)
                self.refused(f"Extension= in {manifest}: printers.socket: {path}: {says}")
        path.unlink()
        path.symlink_to("/dev/null")
        self.refused("is masked")

    def test_with_a_directory_of_the_apps_own_it_is_a_files_name(self):
        self.extension.close()
        self.write(f"[Socket]\nListenStream={self.path}\n")
        self.world.declare("dice", Extension="printers.socket", Socket="yes")
        directory = self.world.app_sockets / "com.example.dice"
        wait(directory.exists, 10, "the directory", also_every=0.05)
        self.extension = Extension(directory / "printers.socket")
        self.addCleanup(self.extension.close)
        self.begin()


class Silent(ExtensionTest):
    answers = False

    def test_no_answer(self):
        """It takes the connection and says nothing."""
        self.dice.show_picker()
        self.person.wait_shown()
        self.world.pass_until(lambda: "pickerDidDismiss" in self.dice.event_types, 12, "the dismissal")
        details = self.assertDismissed(self.dice, "ConnectionFailed")
        self.assertIn("within 10 s", details["message"])
        self.assertNothingLeft()

    def test_a_full_queue(self):
        """The daemon does not wait for it."""
        GLib.source_remove(self.extension._watch)
        self.extension._watch = GLib.timeout_add_seconds(3600, lambda: True)
        self.extension._socket.listen(0)
        self.dice.show_picker()
        self.person.wait_shown()
        self.person.cancel()
        self.dice.wait_event("pickerDidDismiss")
        self.assertFails(error("ExtensionNotFound"), self.later().show_picker, says=["temporarily unavailable"])

    def later(self):
        """The app, once its pause after the cancel is over."""
        for _ in range(3):
            self.world.pass_second()
        return self.dice


class Hostile(ExtensionTest):
    def ends(self, name, *says):
        details = self.assertDismissed(self.dice, name)
        for part in says:
            self.assertIn(part, details["message"])
        self.assertNothingLeft()
        self.extension.wait_closed()
        # The next one finds nothing broken.
        self.extension.calls.clear()
        self.begin()
        self.extension.found(identifier="a", name="Printer", endpoint=endpoint())
        self.wait_names("Printer")

    def test_dead(self):
        self.begin()
        self.extension.found(identifier="a", name="Printer", endpoint=endpoint())
        self.wait_names("Printer")
        self.extension.connections[-1].close_sync(None)
        self.ends("ConnectionFailed", "has closed")

    def test_items_that_are_none(self):
        for count, (keys, says) in enumerate((
                ({"name": "Printer", "endpoint": endpoint()}, "identifier"),
                ({"identifier": "a", "endpoint": endpoint()}, "name"),
                ({"identifier": "a", "name": "  ", "endpoint": endpoint()}, "name"),
                ({"identifier": "a", "name": "x" * 300, "endpoint": endpoint()}, "name"),
                ({"identifier": "a", "name": "Printer"}, "needs bluetoothIdentifier, ssid or endpoint"),
                ({"identifier": "a", "name": "Printer", "endpoint": endpoint("a b")}, "endpoint"),
                ({"identifier": "a", "name": "Printer", "endpoint": endpoint(port=0)}, "endpoint"),
                ({"identifier": "a", "name": "Printer", "endpoint": GLib.Variant("s", "x")}, "endpoint"),
                ({"identifier": "a", "name": "Printer", "bluetoothIdentifier": "x"}, "bluetoothIdentifier"),
                ({"identifier": "a", "name": "Printer", "endpoint": endpoint(), "productImage": b"x"}, "productImage"),
                ({"identifier": "a", "name": "Printer", "endpoint": endpoint(), "more": "x"}, "unknown key"),
                ({"identifier": "a", "name": "Printer", "ssid": b"Dice-1"}, "ssid")), 1):
            with self.subTest(says):
                self.extension.calls.clear()
                self.begin()
                self.extension.found(**keys)
                details = self.dice.wait_event("pickerDidDismiss", count=count)
                self.assertEqual(details["error"], error("InvalidRequest"))
                self.assertIn(says, details["message"])
        self.assertNothingLeft()

    def test_a_flood(self):
        self.begin()
        # Until the daemon closes the connection.
        with contextlib.suppress(GLib.Error):
            for number in range(2000):
                self.extension.found(identifier=f"{number % 3}", name=f"Printer {number}", endpoint=endpoint())
        self.ends("InvalidRequest", "more than 512 reports, and 64 a second")

    def test_a_flood_of_calls(self):
        self.begin()
        for _ in range(2000):
            self.extension.connections[-1].call(None, "/", "org.example", "Call", None, None, 0, 1000, None, None)
        self.ends("InvalidRequest", "more than 512 reports, and 64 a second")

    def test_another_signal(self):
        self.begin()
        self.extension.emit("ItemFound", "s", "x")
        self.ends("InvalidRequest", "not a signal of")

    def test_the_trail(self):
        self.begin()
        self.extension.connections[-1].close_sync(None)
        self.dice.wait_event("pickerDidDismiss")
        self.dice.settle()
        entries = self.world.admin.call("/org/accessorysetup1/admin", "org.accessorysetup1.Admin", "GetAudit", "a{sv}", {})
        self.assertIn("extension: its connection has closed", [str(each["why"]) for each in entries])
