# SPDX-License-Identifier: Apache-2.0
"""Checks of the lab itself against the real bluetoothd, without our daemon: its discovery, the outcome of each way of pairing
and of each fault, and adapter, bonds and addresses afterwards. Differences in a journey are then the daemon's."""

import json
import signal
import sys
from pathlib import Path

import dbus

import bluez_versions
from bluez import BlueZ
from framework import check
from lab import expect

DICE_SERVICE = "e56a082e-c49b-47ca-a2ab-389127b8abe3"
DICE_VALUE = "0000ff3f-0000-1000-8000-00805f9b34fb"
ADDRESS = "C0:FF:EE:00:00:21"


def one(pairing=None, **accessory):
    """A scenario with a single accessory, “thing”."""
    return {
        "accessories": [{
            "id": "thing", "address": ADDRESS, "pairing": pairing or {},
            "adverts": [{"name": "Thing", "serviceUUIDs": ["1815"]}], **accessory,
        }]
    }


# Scanning

@check("dice.json")
def finds_accessories(lab):
    bluez = BlueZ(lab)
    bluez.discover()
    pink = bluez.find("C0:FF:EE:00:00:01", Name="Dice 4F", RSSI=-48)
    expect(DICE_SERVICE in pink["UUIDs"], f"pink-dice has the services {list(pink['UUIDs'])}")
    expect(pink["AddressType"] == "random", "pink-dice's address is not random")
    blue = bluez.find("C0:FF:EE:00:00:02", Name="Dice A2", RSSI=-61)
    expect("0b8f5f5d-3b6c-4d29-8b0f-0e3c1b8a52d7" in blue["UUIDs"], f"blue-dice has {list(blue['UUIDs'])}")
    lamp = bluez.find("C0:FF:EE:00:00:03", Name="Lamp", RSSI=-70)
    expect("00001812-0000-1000-8000-00805f9b34fb" in lamp["UUIDs"], f"neighbours-lamp has {list(lamp['UUIDs'])}")
    thermometer = bluez.find("00:1A:7D:00:00:04", AddressType="public", RSSI=-80)
    expect(bytes(thermometer["ManufacturerData"][0x59]) == b"\x01\x02\xab", "thermometer's data differ")
    bluez.find("C0:FF:EE:00:00:05", Name="Pink Dice", RSSI=-66)
    lab.air.wait_for("passing-phone: vanishes")


@check(one())
def hears_a_change_of_strength(lab):
    bluez = BlueZ(lab)
    bluez.discover()
    bluez.find(ADDRESS, RSSI=-50)
    lab.air.set_rssi("thing", -85)
    bluez.find(ADDRESS, RSSI=-85)


@check(one(count=29, adverts=[{"interval": 0.5, "name": "Thing %d"}]))
def finds_many(lab):
    bluez = BlueZ(lab)
    bluez.discover()
    lab.wait_until(lambda: len(lab.bluez_devices()) == 29, 20, "29 devices")
    names = {str(device["Name"]) for device in lab.bluez_devices().values()}
    expect(names == {f"Thing {number}" for number in range(29)}, f"their names are {sorted(names)}")


@check(one(adverts=[{"until": 2, "name": "Before"}, {"from": 2, "name": "After"}]))
def follows_the_timeline(lab):
    bluez = BlueZ(lab)
    bluez.discover()
    bluez.find(ADDRESS, Name="Before")
    bluez.find(ADDRESS, Name="After")


@check(one(), start=False)
def rejects_what_it_cannot_play(lab):
    sys.path.insert(0, str(Path(__file__).parent.parent))
    import air_scenario

    def expect_error(scenario, part):
        path = lab.state / "wrong.json"
        path.write_text(json.dumps(scenario))
        try:
            air_scenario.load(path)
        except air_scenario.ScenarioError as error:
            expect(part in str(error), f"the error is “{error}”, without “{part}”")
        else:
            expect(False, f"no error that says “{part}”")

    expect_error(one(colour="pink"), "unknown key “colour”")
    expect_error(one({"mode": "justWorks", "fualt": "drop"}), "unknown key “fualt”")
    expect_error(one({"mode": "pin"}), "simulator only")
    expect_error(one(adverts=[{"name": "far too long a name for one part"}]), "a radio has 31")
    expect_error(one(gatt=[{"uuid": "1815", "includes": ["180F"]}]), "“180F”, which is no service of the accessory")
    for part, descriptor in {
        "unknown key “text”": {"uuid": "2901", "text": ""}, "bring with them": {"uuid": "2902"},
    }.items():
        expect_error(
            one(gatt=[{"uuid": "1815", "characteristics": [{"uuid": "2A56", "descriptors": [descriptor]}]}]), part)
    expect_error({"events": [{"at": 1, "do": "serviceStopped"}]}, "simulator only")
    expect_error({"adapters": [{}, {"name": "hci2"}]}, "simulator only")


# Pairing that works

@check("dice.json")
def pairs_with_just_works(lab):
    bluez = BlueZ(lab)
    bluez.expect_paired("C0:FF:EE:00:00:01", authenticated=False)
    expect(bluez.agent.asked == [], f"the agent was asked {bluez.agent.asked}")
    lab.air.wait_for("pink-dice: paired, secure connections")
    expect(lab.air.bonds("pink-dice") == [{"address": "00:AA:01:00:00:42", "authenticated": False}],
           f"pink-dice has the bonds {lab.air.bonds('pink-dice')}")


@check(one({"mode": "displayPasskey", "passkey": 7}))
def pairs_with_a_passkey_shown_by_the_accessory(lab):
    bluez = BlueZ(lab, passkey=lambda: lab.air.shown_passkey("thing"))
    bluez.expect_paired(ADDRESS, authenticated=True)
    expect(bluez.agent.asked == [("RequestPasskey", None)], f"the agent was asked {bluez.agent.asked}")
    expect(lab.air.shown_passkey("thing") == 7, "the accessory showed another passkey")


@check(one({"mode": "displayPasskey", "passkey": 0}))
def pairs_with_passkey_zero(lab):
    BlueZ(lab, passkey=lambda: 0).expect_paired(ADDRESS, authenticated=True)


@check(one({"mode": "enterPasskey"}))
def pairs_with_a_passkey_entered_at_the_accessory(lab):
    bluez = BlueZ(lab, on_display=lambda passkey: lab.air.enter_passkey("thing", passkey))
    bluez.expect_paired(ADDRESS, authenticated=True)
    expect(bluez.agent.asked[0][0] == "DisplayPasskey", f"the agent was asked {bluez.agent.asked}")


@check("dice.json")
def pairs_with_numeric_comparison(lab):
    bluez = BlueZ(lab)
    bluez.expect_paired("C0:FF:EE:00:00:02", authenticated=True)
    shown = lab.air.shown_passkey("blue-dice")
    expect(bluez.agent.asked == [("RequestConfirmation", shown)], f"asked {bluez.agent.asked}, shown {shown}")


@check(one({"legacy": True}))
def pairs_with_legacy_just_works(lab):
    BlueZ(lab).expect_paired(ADDRESS, authenticated=False)
    lab.air.wait_for("thing: paired, legacy")


@check(one({"legacy": True, "mode": "displayPasskey"}))
def pairs_with_a_legacy_passkey(lab):
    BlueZ(lab, passkey=lambda: 123456).expect_paired(ADDRESS, authenticated=True)
    lab.air.wait_for("thing: paired, legacy")


@check(one(addressType="public", address="00:1A:7D:00:00:21"))
def pairs_with_a_public_address(lab):
    BlueZ(lab).expect_paired("00:1A:7D:00:00:21")


@check(one({"fault": "slow", "delay": 3}))
def pairs_with_a_slow_accessory(lab):
    BlueZ(lab).expect_paired(ADDRESS)


@check(one({"fault": "refuse", "faultCount": 1}))
def pairs_at_the_second_try(lab):
    bluez = BlueZ(lab)
    bluez.expect_pair_error(ADDRESS, "AuthenticationFailed")
    bluez.find(ADDRESS, Connected=False)
    bluez.expect_paired(ADDRESS)


@check(one(addressType="rpa"))
def pairs_with_a_private_address(lab):
    bluez = BlueZ(lab)
    bluez.discover()
    private = lab.air.wait_for(r"thing: is on the air as (\S+)")[1]
    found = bluez.find(private)
    call = bluez.device_call(private, "Pair").wait()
    expect(call.error is None, f"Pair answered {call.error}")
    bonded = bluez.find(ADDRESS, Paired=True)
    expect(bonded["path"] == found["path"], "the object moved")
    expect("IdentityResolvingKey" in bluez.expect_bond(ADDRESS), "the bond has no identity resolving key")

    # Found again under another private address, by its identity.
    bluez.device_call(ADDRESS, "Disconnect").wait()
    bluez.find(ADDRESS, Connected=False)
    lab.air.rotate("thing")
    call = bluez.device_call(ADDRESS, "Connect").wait()
    expect(call.error is None, f"Connect answered {call.error}")
    lab.air.wait_for("thing: link encrypted")


# Pairing that does not

@check(one({"fault": "refuse"}))
def fails_when_refused(lab):
    BlueZ(lab).expect_pair_error(ADDRESS, "AuthenticationFailed")
    expect(lab.bonds() == {} and lab.air.bonds("thing") == [], "there is a bond")


@check(one({"fault": "refuse"}))
def forgets_the_services_of_what_refused(lab):
    bluez = BlueZ(lab)
    bluez.discover()
    found = bluez.find(ADDRESS, RSSI=-50)
    expect(found["UUIDs"], "it has no services at the start")
    error = bluez.device_call(ADDRESS, "Pair").wait().error
    expect(error == "org.bluez.Error.AuthenticationFailed", f"Pair answered {error}")
    bluez.find(ADDRESS, Connected=False)
    lab.air.set_rssi("thing", -60)
    again = bluez.find(ADDRESS, RSSI=-60)
    forgets = bluez_versions.forgets_the_services_of_what_refused()
    expect(bool(again["UUIDs"]) != forgets, f"this bluetoothd differs: it knows the services {list(again['UUIDs'])}")
    # The daemon's cure, which does no harm where there is nothing to be cured.
    bluez.adapter.RemoveDevice(dbus.ObjectPath(found["path"]))
    expect(bluez.find(ADDRESS, RSSI=-60)["UUIDs"], "it was found anew without services")


@check(one({"mode": "none"}))
def fails_without_pairing(lab):
    BlueZ(lab).expect_pair_error(ADDRESS, "AuthenticationFailed")


@check(one({"mode": "displayPasskey", "fault": "wrongKey"}))
def fails_with_the_wrong_passkey(lab):
    BlueZ(lab, passkey=lambda: lab.air.shown_passkey("thing")).expect_pair_error(ADDRESS, "AuthenticationFailed")


@check(one({"mode": "enterPasskey", "fault": "wrongKey"}))
def fails_with_the_wrong_passkey_entered(lab):
    bluez = BlueZ(lab, on_display=lambda passkey: lab.air.enter_passkey("thing", passkey))
    bluez.expect_pair_error(ADDRESS, "AuthenticationFailed")


@check(one({"mode": "numericComparison", "confirms": False}))
def fails_when_the_accessory_says_no(lab):
    BlueZ(lab).expect_pair_error(ADDRESS, "AuthenticationFailed")


@check(one({"mode": "numericComparison"}))
def fails_when_the_person_says_no(lab):
    BlueZ(lab, confirm=False).expect_pair_error(ADDRESS, "AuthenticationFailed")
    lab.air.wait_for("thing: pairing failed")


@check(one({"fault": "drop"}))
def fails_when_the_link_drops(lab):
    bluez = BlueZ(lab)
    bluez.expect_pair_error(ADDRESS, "AuthenticationCanceled")
    bluez.find(ADDRESS, RSSI=-50)


@check(one({"fault": "vanish"}))
def fails_when_the_accessory_vanishes(lab):
    BlueZ(lab).expect_pair_error(ADDRESS, "AuthenticationCanceled")
    lab.air.wait_for("thing: vanishes")


@check({**one({"fault": "slow"}), "events": [
    {"on": "pairingStarted", "do": "vanish", "accessory": "thing", "after": 0.5},
    {"on": "pairingStarted", "do": "return", "accessory": "thing", "after": 1.5},
]})
def fails_when_an_event_takes_it_away(lab):
    bluez = BlueZ(lab)
    bluez.expect_pair_error(ADDRESS, "AuthenticationCanceled")
    lab.air.wait_for("thing: appears")
    lab.air.wait_for("thing: appears")
    bluez.expect_paired(ADDRESS)


@check(one({"fault": "silent"}))
def fails_when_nobody_answers(lab):
    # The security manager's own limit: 30 s without an answer.
    BlueZ(lab).expect_pair_error(ADDRESS, "AuthenticationCanceled", seconds=45)


# GATT

@check("dice.json")
def notifies_the_dice(lab):
    bluez = BlueZ(lab)
    bluez.expect_paired("C0:FF:EE:00:00:01")
    value = bluez.characteristic("C0:FF:EE:00:00:01", DICE_VALUE)
    expect(bluez.read(value) == b"\x01", "the value read is another")
    values = bluez.notified_values(value)
    lab.wait_until(lambda: len(values) >= 4, 10, "four values")
    expect(values[:4] == [b"\x03", b"\x06", b"\x01", b"\x05"], f"notified {values[:4]}")


@check(one(gatt=[{"uuid": "1815", "characteristics": [
    {"uuid": "2A56", "flags": ["encrypt-read", "encrypt-write"], "value": "0A"}]}]))
def reads_and_writes_over_an_encrypted_link(lab):
    bluez = BlueZ(lab)
    bluez.expect_paired(ADDRESS)
    value = bluez.characteristic(ADDRESS, "00002a56-0000-1000-8000-00805f9b34fb")
    expect(bluez.read(value) == b"\x0a", "the value read is another")
    bluez.write(value, b"\x0b\x0c")
    lab.air.wait_for("2A56 written: 0b0c")
    expect(bluez.read(value) == b"\x0b\x0c", "what was written is not the value")


# Adapter, service and bonds

@check(one())
def unplugs_and_plugs_the_adapter(lab):
    bluez = BlueZ(lab)
    bluez.discover()
    bluez.find(ADDRESS)
    lab.air.unplug()
    lab.wait_for_adapter(present=False)
    lab.air.plug()
    lab.wait_for_adapter()
    lab.set_powered(True)
    bluez.discover()
    bluez.find(ADDRESS)


@check({"adapters": []})
def does_without_an_adapter(lab):
    lab.wait_for_adapter(present=False)


@check(one())
def keeps_bonds_when_bluetoothd_dies(lab):
    bluez = BlueZ(lab)
    bluez.expect_paired(ADDRESS)
    lab.bluetoothd.kill(signal.SIGKILL)
    lab.start_bluetoothd()
    bluez.register_agent()
    bluez.find(ADDRESS, Paired=True)
    lab.set_powered(True)
    error = bluez.device_call(ADDRESS, "Connect").wait().error
    expect(error is None, f"Connect answered {error}")
    lab.air.wait_for("thing: link encrypted")


@check(one())
def loses_a_bond_that_the_accessory_forgot(lab):
    bluez = BlueZ(lab)
    bluez.expect_paired(ADDRESS)
    bluez.device_call(ADDRESS, "Disconnect").wait()
    bluez.find(ADDRESS, Connected=False)
    lab.air.forget("thing")
    connect = bluez.device_call(ADDRESS, "Connect")
    lab.air.wait_for("thing: connected")
    lab.air.wait_for("thing: disconnected, pin or key missing|thing: disconnected, authentication failure")
    lab.note(f"Connect answered {connect.wait().error}; then it has {bluez.find(ADDRESS, Connected=False)}")
