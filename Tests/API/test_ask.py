# SPDX-License-Identifier: Apache-2.0
"""`accessoryctl ask`: a program without a session of its own, such as a shell script, has an accessory set up for its app."""

import json
import signal

from harness.names import PINK, SOMEBODY
from harness.programs import BIN, Program
from harness.radio import accessory, scenario
from harness.world import APITest

ITEM = f"name=Pink\\, a die,bluetoothServiceUUID={PINK},supportedOptions=bluetoothPairingLE"


class Asking(APITest):
    scenario = scenario(accessory("pink"), accessory("other", 2))

    def setUp(self):
        super().setUp()
        self.world.declare("dice", Executable=BIN / "accessoryctl", BluetoothCompanyIdentifiers="FFFF", BluetoothNames="other")
        self.world.restart_daemon()

    def ask(self, *arguments, user=SOMEBODY):
        program = Program("/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", BIN / "accessoryctl", "ask",
                          "--bus", self.world.bus.address, *arguments)
        self.addCleanup(lambda: program.stop(signal.SIGKILL))
        return program

    def granted(self, program):
        self.assertEqual(program.wait_end(), 0, program.lines)
        return json.loads("\n".join(program.lines))

    def assertEnds(self, program, status, says=""):
        self.assertEqual((program.wait_end(), says in "\n".join(program.lines)), (status, True), program.lines)

    def test_a_person_picks_and_the_accessory_is_printed(self):
        picker = self.picker()
        program = self.ask(ITEM)
        picker.pick("pink")
        [found] = self.granted(program)
        self.assertEqual(
            {key: found[key] for key in ("name", "address", "state", "device", "ssid")},
            {"name": "Pink, a die", "address": "C0:FF:EE:00:02:01", "state": "authorized",
             "device": "/org/bluez/hci0/dev_C0_FF_EE_00_02_01", "ssid": ""})
        self.assertEqual(found["descriptor"]["bluetoothServiceUUID"].upper(), PINK)
        # The next start of the service shows no picker.
        self.assertEqual(self.granted(self.ask(ITEM)), [found])
        self.assertEqual(len(self.world.grants()), 1)
        # So it does where another item asks for more of the pairing.
        self.assertEqual(self.granted(self.ask(f"name=Pink,bluetoothServiceUUID={PINK}")), [found])
        # One more, or one of another kind, is asked for.
        more = self.ask("--another", ITEM)
        picker.wait_gone()
        picker.pick("other")
        self.assertEqual(sorted(each["address"] for each in self.granted(more)), ["C0:FF:EE:00:02:01", "C0:FF:EE:00:02:02"])
        self.ask(f"name=Other,bluetoothServiceUUID={PINK},bluetoothNameSubstring=other")
        picker.wait_shown()

    def test_it_asks_for_less_than_full_access(self):
        picker = self.picker()
        wanted = f"name=Pink,bluetoothServiceUUID={PINK},access=listed,characteristics={PINK}/FF3F#2:read+listen;180F/2A19:read"
        program = self.ask(wanted)
        picker.wait_offer("pink")
        self.assertEqual(
            list(picker.offers[0]["characteristics"]), ["Battery Level (180F/2A19:read)", f"{PINK}/FF3F#2:read+listen"])
        picker.pick("pink")
        [found] = self.granted(program)
        self.assertEqual(found["descriptor"]["access"], "listed")
        self.assertEqual([each[2:] for each in found["descriptor"]["characteristics"]], [[0, ["read"]], [2, ["read", "listen"]]])
        # The app has the accessory, whatever it asks for.
        self.assertEqual(self.granted(self.ask(f"name=Pink,bluetoothServiceUUID={PINK}")), [found])

    def test_it_waits_for_a_picker_program(self):
        program = self.ask("--wait", "infinity", ITEM)
        self.world.daemon.wait_for("picker request queued")
        picker = self.picker()
        picker.pick("pink")
        self.assertEqual([each["name"] for each in self.granted(program)], ["Pink, a die"])

    def test_ends_without_an_accessory(self):
        self.assertEnds(self.ask(ITEM), 1, "no picker program is registered")
        self.assertEnds(self.ask("--wait=172800", ITEM), 1, "waitForPicker")
        picker = self.picker()
        program = self.ask(ITEM)
        picker.wait_offer("pink")
        picker.cancel()
        self.assertEnds(program, 2, "cancelled")
        self.assertEnds(self.ask("--timeout", "0.1", f"name=X,bluetoothServiceUUID={PINK},bluetoothNameSubstring=other,bluetoothRange=far"),
                        1, "bluetoothRange")
        self.assertEnds(self.ask("--timeout", "0.5", "name=Nothing,bluetoothCompanyIdentifier=0xFFFF,bluetoothManufacturerDataBlob=0102,"
                                 "bluetoothManufacturerDataMask=FFFF"), 1)
        picker.wait_gone()
        waiting = self.ask(ITEM)
        picker.wait_shown()
        waiting._process.send_signal(signal.SIGTERM)
        self.assertEnds(waiting, 2)
        picker.wait_gone()
        for number in (signal.SIGKILL, signal.SIGTERM):
            picker.wait_gone()
            waiting = self.ask(ITEM)
            picker.wait_shown()
            self.world.daemon.stop(number)
            self.assertEnds(waiting, 3)
            self.world.start_daemon()
            picker = self.picker()

    def test_wrong_arguments(self):
        for arguments, says in (
                ([], "item"), (["name"], "KEY=VALUE"), (["=x"], "KEY=VALUE"), (["name=a,name=b"], "name: given twice"),
                (["colour=pink"], "colour: must be one of access"), (["bluetoothCompanyIdentifier=many"], "many"),
                (["bluetoothServiceDataBlob=0"], "hexadecimal"), (["bluetoothServiceDataBlob=+1"], "hexadecimal"),
                (["characteristics=180F"], "characteristics: 180F: must be SERVICE/CHARACTERISTIC"),
                (["setupOptions=finishInApp"], "finishInApp"), (["name=x,productImage=/nowhere.png"], "/nowhere.png"),
                (["--wait", "soon", ITEM], "wait"), (["--wait=nan", ITEM], "wait"), (["--wait=-1", ITEM], "wait"), (["--wait=-inf", ITEM], "wait")):
            with self.subTest(arguments):
                self.assertEnds(self.ask(*arguments), 64, says)
        # The daemon judges the values.
        self.picker()
        for argument, says in (("name=Pink", "descriptor"), (f"bluetoothServiceUUID={PINK}", "name"),
                               ("name=X,bluetoothServiceUUID=180F", "0000180f"), ("name=X,bluetoothCompanyIdentifier=99999", "99999")):
            with self.subTest(argument):
                self.assertEnds(self.ask(argument), 1, says)

    def test_a_program_that_is_no_app(self):
        self.world.declare("dice")
        self.world.restart_daemon()
        self.assertEnds(self.ask(ITEM), 1, "no manifest matches")
