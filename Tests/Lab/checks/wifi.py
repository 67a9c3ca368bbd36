# SPDX-License-Identifier: Apache-2.0
"""Accessories with Wi-Fi on a real kernel, under the real wpa_supplicant, NetworkManager and iwd: finding and joining networks, and that
the machine is back on its own network afterwards, whatever went wrong meanwhile."""

import signal
import time
from pathlib import Path

from framework import DIRECTORY, check
from lab import expect
from wifi_clients import App, Picker, add, network
from wifi_lab import DIE_ID
from wifi_services import HOME, IWD, SERVICES, start_networkd

PASSPHRASE = "sixsided1"
QUIET_SECONDS = 6


def begin(lab):
    return App(lab), Picker(lab)


def add_die(lab):
    """With a grant for the die and its network joined; returns app, picker and the accessory's path."""
    app, picker = begin(lab)
    path = add(app, picker, "Dice-1234")
    app.join(path, passphrase=PASSPHRASE)
    lab.wait_joined("Dice-1234", 5)
    return app, picker, path


# Discovery

@check(services=SERVICES, seconds=120)
def discovers(lab):
    app, picker = begin(lab)
    expected = {
        "Dice-Open": ("open", "2.4 GHz", -67), "Dice-1234": ("wpa2", "2.4 GHz", -52), "Dice-SAE": ("wpa3", "2.4 GHz", -67),
        "Dice-Pair": ("wpa2", "5 GHz", -50),
    }
    is_iwd = lab.service.name in ("iwd", "NetworkManager_over_iwd")
    # A whole name is asked for in every scan.
    app.show(network(ssidPrefix=b"Dice-"), network(ssid=b"Dice-Nobody"))
    for name, (security, band, rssi) in expected.items():
        offer = picker.wait_offer(name)
        expect(bytes(offer["ssid"]) == name.encode(), f"{name} is {offer['ssid']}")
        wanted = "psk" if is_iwd and security != "open" else security
        expect(offer["security"] == wanted, f"{name} is offered as {offer['security']}")
        # Two access points make one offer, for which the nearer speaks once it was heard. NetworkManager says percent.
        lab.wait_until(
            lambda: abs(int(picker.offers[name]["networkRssi"]) - rssi) <= 2, 20,
            lambda: f"{name} to be offered with {rssi} dBm; it has {int(picker.offers[name]['networkRssi'])}")
        said = picker.offers[name].get("band")
        expect(said == (None if is_iwd else band), f"{name} is offered on {said}")
    expect(HOME not in picker.offers, "the machine's own network is offered")
    picker.cancel()


@check(services=["wpa_supplicant", "NetworkManager"], seconds=120)
def discovers_and_joins_hidden_and_oddly_named_networks(lab):
    app, picker = begin(lab)
    app.show(network(ssid=b"Dice-Hidden"), network(ssid=b"Dice\xff"))
    began, scans = time.monotonic(), lab.scans
    offer = picker.wait_offer("Dice\ufffd")
    expect(bytes(offer["ssid"]) == b"Dice\xff", f"the odd name is {offer['ssid']}")
    picker.wait_offer("Dice-Hidden", 60)
    lab.note(f"hidden: {lab.scans - scans} scans, {time.monotonic() - began:.1f} s")
    for count, (name, shown, options) in enumerate((
        ("Dice-Hidden", "Dice-Hidden", {"passphrase": "sixsided4", "hidden": True}), ("Dice\ufffd", r"Dice\xff", {}),
    )):
        if count:
            app.show(network(ssid=b"Dice\xff"))
            picker.wait_stage("offering", 60)
        picker.pick(name)
        path = str(app.wait_event("accessoryAdded", count=count + 1)["accessory"])
        app.wait_event("pickerDidDismiss", count=count + 1)
        app.join(path, **options)
        expect(lab.joined == shown, f"wlan0 is on {lab.joined}, not on {shown}")
        app.leave(path)
        lab.expect_home("sixsided4")


@check(services=SERVICES, seconds=120, away=[DIE_ID])
def offers_a_network_that_appears(lab):
    app, picker = begin(lab)
    app.show(network(ssidPrefix=b"Dice-"))
    picker.wait_offer("Dice-Open")
    expect("Dice-1234" not in picker.offers, "the die is offered, which is not there")
    began, before = time.monotonic(), lab.ended_scans
    lab.air.bring_back(DIE_ID)
    # The radio may miss it, so the time at which the kernel has it counts. It must be offered before one more scan of
    # the service's has ended.
    heard = lab.wait_heard("Dice-1234")
    picker.wait_offer("Dice-1234")
    more = lab.ended_scans - heard
    lab.note(f"heard in scan {heard - before}, offered {max(0, more)} later, {time.monotonic() - began:.1f} s")
    expect(more < lab.service.kernel_scans, f"it was offered {more} scans after it was heard")
    picker.cancel()


@check(services=["wpa_supplicant"], seconds=120)
def scans_only_for_a_picker(lab):
    app, picker = begin(lab)
    app.show(network(ssidPrefix=b"Dice-"))
    picker.wait_offer("Dice-Open")
    picker.cancel()
    # A running scan may end.
    lab.wait_until(lambda: not lab.is_scanning, 30, "the last scan to end")
    before = lab.scans
    expect(before > 0, "the kernel tells of no scan")
    lab.wait_quiet(QUIET_SECONDS, QUIET_SECONDS + 10)
    expect(lab.scans == before, f"{lab.scans - before} scans without a picker")


# Joining

@check(services=SERVICES, seconds=180)
def joins_and_leaves(lab):
    app, picker = begin(lab)
    for name, options in (("Dice-Open", {}), ("Dice-1234", {"passphrase": PASSPHRASE}), ("Dice-SAE", {"passphrase": "sixsided3"})):
        path = add(app, picker, name)
        began = time.monotonic()
        app.join(path, **options)
        seconds = time.monotonic() - began
        expect(lab.joined == name, f"wlan0 is on {lab.joined}, not on {name}")
        expect(app.network_interface(path) == "wlan0", f"the interface is “{app.network_interface(path)}”")
        if lab.service.name == "NetworkManager":
            lab.wait_until(lambda: (lab.address or "").startswith(lab.air.network_of(name)), 20, "an address", every=0.2)
        began = time.monotonic()
        app.leave(path)
        expect(app.network_interface(path) == "", "an interface is named still")
        lab.expect_home(*options.values())
        lab.note(f"{name} joined in {seconds:.1f} s, {HOME} back in {time.monotonic() - began:.1f} s")


@check(services=SERVICES, seconds=240)
def joins_the_network_of_the_right_protection(lab):
    app, picker = begin(lab)
    path = add(app, picker, "Plug-1", network(ssidPrefix=b"Plug-"))
    for identifier, options in (("plug", {"passphrase": "sixsided9"}), ("plug-open", {})) * 2:
        began = time.monotonic()
        app.join(path, **options)
        lab.note(f"{identifier} joined in {time.monotonic() - began:.1f} s")
        expect(lab.bssid == lab.air.bssid_of(identifier), f"wlan0 is on {lab.bssid}, not on {identifier}")
        app.leave(path)
        lab.expect_home(*options.values())


@check(services=SERVICES, seconds=120)
def refuses_what_the_scan_rules_out(lab):
    app, picker = begin(lab)
    for name, options, reason in (("Dice-Open", {"passphrase": PASSPHRASE}, "is open"), ("Dice-1234", {}, "requires a passphrase")):
        path = add(app, picker, name)
        said = app.expect_join_fails(path, reason, **options)
        lab.note(f"{name}: “{said}”")
        lab.expect_home()


@check(services=SERVICES, seconds=120)
def joins_what_was_not_heard_for_long(lab):
    app, picker = begin(lab)
    for name, passphrase in (("Dice-1234", PASSPHRASE), ("Dice-SAE", "sixsided3")):
        path = add(app, picker, name)
        lab.forget(name)
        began = time.monotonic()
        app.join(path, passphrase=passphrase)
        lab.note(f"{name} joined in {time.monotonic() - began:.1f} s")
        lab.wait_joined(name, 5)
        app.leave(path)
        lab.expect_home(passphrase)


@check(services=SERVICES, seconds=180)
def says_that_a_passphrase_is_wrong(lab):
    app, picker = begin(lab)
    for name in ("Dice-1234", "Dice-SAE"):
        path = add(app, picker, name)
        began = time.monotonic()
        said = app.expect_join_fails(path, "passphrase", passphrase="not the one")
        lab.note(f"{name}: “{said}” after {time.monotonic() - began:.1f} s")
        lab.expect_home("not the one")


@check(services=SERVICES, seconds=180)
def joins_after_a_handshake_that_came_to_nothing(lab):
    app, picker = begin(lab)
    path = add(app, picker, "Dice-1234")
    before = lab.refused_handshakes
    lab.air.open_with(DIE_ID, "another one")
    try:
        began = time.monotonic()
        answer = app.begin_join(path, passphrase=PASSPHRASE)
        lab.wait_until(lambda: lab.refused_handshakes > before, 30, "the access point to give the handshake up")
    finally:
        lab.air.open_with(DIE_ID, PASSPHRASE)
    answer()
    lab.note(f"joined in {time.monotonic() - began:.1f} s")
    lab.wait_joined("Dice-1234", 5)
    app.leave(path)
    lab.expect_home(PASSPHRASE)


@check(services=["NetworkManager"], seconds=120)
def joins_with_a_service_that_comes_to_no_end(lab):
    app, picker = begin(lab)
    path = add(app, picker, "Dice-1234")
    # It is away until the service below looks for it no longer.
    lab.air.vanish(DIE_ID)
    answer = app.begin_join(path, passphrase=PASSPHRASE)
    lab.service.below.wait_for(" wlan0: State: COMPLETED -> DISCONNECTED", 20)
    lab.service.below.wait_for(" wlan0: State: .* -> SCANNING", 20)
    lab.service.rest_below()
    lab.air.bring_back(DIE_ID)
    answer()
    lab.wait_joined("Dice-1234", 5)
    app.leave(path)
    lab.expect_home(PASSPHRASE)


@check(services=["wpa_supplicant", "iwd"], seconds=120)
def says_that_a_network_is_not_there(lab):
    app, picker = begin(lab)
    path = add(app, picker, "Dice-1234")
    lab.air.vanish(DIE_ID)
    began = time.monotonic()
    said = app.expect_join_fails(path, "", passphrase=PASSPHRASE)
    lab.note(f"“{said}” after {time.monotonic() - began:.1f} s")
    lab.expect_home(PASSPHRASE)


# The settings that are taken and kept

def expect_nothing_but_an_address(lab, name):
    """Of a network that wlan0 is on, whose access point and whose router offer more."""
    network = lab.air.network_of(name)
    lab.wait_until(lambda: (lab.address or "").startswith(network), 40, "an address", every=0.2)
    lab.hear_the_router(name)
    expect(lab.routes == [f"{network}0/24", "fe80::/64"], f"on {name} wlan0 has routes to {lab.routes}")
    taken = [each for each in lab.name_servers if each.startswith((network, "fd00:")) or each == "accessory.example"]
    expect(taken == [], f"on {name} there are the name servers {lab.name_servers}")
    said = lab.tell("busybox", "ping", "-c", "1", "-W", "10", f"{network}1")
    expect("1 packets received" in said, f"the accessory does not answer: {said}")


@check(services=SERVICES, seconds=300)
def takes_an_address_and_nothing_else(lab):
    if lab.service.name in ("wpa_supplicant", "iwd"):
        start_networkd(lab)
    # Linux (6.1, 6.12) does not report the network's name to networkd under wpa_supplicant: then home counts as an
    # accessory's.
    if "ssid" in lab.tell("iw", "dev", "wlan0", "info") or lab.service.name.startswith("NetworkManager"):
        # The same is offered there, and taken: so it would be seen.
        at_home = lab.air.network_of(HOME) + "1"
        lab.hear_the_router(HOME)
        lab.wait_until(
            lambda: lab.routes.count("default") == 2 and at_home in lab.name_servers, 60,
            lambda: f"what {HOME} offers; there is {lab.routes} and {lab.name_servers}", every=0.2)
    else:
        expect_nothing_but_an_address(lab, HOME)
        lab.note("networkd does not know the network's name")
    app, picker = begin(lab)
    for name, options in (("Dice-1234", {"passphrase": PASSPHRASE}), ("Dice-SAE", {"passphrase": "sixsided3"})):
        path = add(app, picker, name)
        app.join(path, **options)
        expect_nothing_but_an_address(lab, name)
        app.leave(path)
        lab.expect_home(*options.values())


@check(services=["wpa_supplicant"], seconds=120)
def without_a_program_for_addresses_the_kernel_takes_routes_of_ipv6(lab):
    """Unless it is set not to."""
    app, picker = begin(lab)
    path = add(app, picker, "Dice-1234")
    app.join(path, passphrase=PASSPHRASE)
    lab.hear_the_router("Dice-1234")
    expect("default" in lab.routes, f"wlan0 has routes to {lab.routes}")
    app.leave(path)
    lab.expect_home(PASSPHRASE)
    Path("/proc/sys/net/ipv6/conf/wlan0/accept_ra").write_text("0")
    # With it all that was taken before goes.
    for value in "10":
        Path("/proc/sys/net/ipv6/conf/wlan0/disable_ipv6").write_text(value)
    app.join(path, passphrase=PASSPHRASE)
    lab.hear_the_router("Dice-1234")
    expect(lab.routes == ["fe80::/64"], f"wlan0 has routes to {lab.routes}")


@check(services=["iwd", "NetworkManager_over_iwd"], seconds=120)
def joins_nothing_by_an_iwd_that_takes_routes_and_name_servers(lab):
    app, picker = begin(lab)
    path = add(app, picker, "Dice-1234")
    for each in (lab.service.process, lab.service.below):
        if each is not None:
            each.kill()
    lab.wait_wifi("absent")
    IWD.configuration.parent.mkdir(exist_ok=True)
    IWD.configuration.write_text("[General]\nEnableNetworkConfiguration=true\n")
    try:
        lab.service.start()
        lab.wait_joined(HOME, 60)
        lab.wait_wifi("ready", 60)
        app.expect_join_fails(path, "routes and name servers", passphrase=PASSPHRASE)
        expect(lab.joined == HOME, f"wlan0 is on {lab.joined}")
    finally:
        IWD.configuration.unlink()


@check(services=SERVICES, seconds=120)
def has_the_passphrase_where_the_documents_say(lab):
    expected = {
        "wpa_supplicant": [], "NetworkManager": ["/run/NetworkManager/system-connections/accessory Dice-1234.nmconnection"],
        "iwd": ["/var/lib/iwd/Dice-1234.psk"],
    }
    expected["NetworkManager_over_iwd"] = sorted(expected["NetworkManager"] + expected["iwd"])
    app, _, path = add_die(lab)
    found = lab.written_with(PASSPHRASE)
    expect(found == expected[lab.service.name], f"the passphrase is in {found}")
    for each in found:
        mode, user = Path(each).stat().st_mode, Path(each).owner()
        expect((mode & 0o777, user) == (0o600, "root"), f"{each} has the mode {mode:o}, and is {user}'s")
    lab.note(f"in {len(found)} files")
    app.leave(path)
    lab.expect_home(PASSPHRASE)
    found = lab.written_with(PASSPHRASE)
    expect(found == [], f"after the leave the passphrase is in {found}")


# Faults while it is joined

@check(services=SERVICES, seconds=120)
def notices_that_the_network_has_gone(lab):
    app, _, path = add_die(lab)
    began = time.monotonic()
    lab.air.vanish(DIE_ID)
    lab.wait_until(lambda: app.network_interface(path) == "", 60, "the interface to be given back")
    lab.note(f"noticed after {time.monotonic() - began:.1f} s")
    lab.expect_home(PASSPHRASE)


@check(services=SERVICES, seconds=180)
def goes_home_whoever_ends(lab):
    # The daemon.
    app, picker, path = add_die(lab)
    lab.daemon.kill(signal.SIGKILL)
    app.close()
    picker.close()
    lab.start_wifi_daemon()
    lab.expect_home(PASSPHRASE)

    # The app.
    hotspot = lab.start("hotspot", "/usr/bin/python3", "-B", DIRECTORY / "apps/hotspot.py", path, PASSPHRASE)
    hotspot.wait_for("joined", 40)
    lab.wait_joined("Dice-1234", 5)
    hotspot.kill(signal.SIGKILL)
    lab.expect_home(PASSPHRASE)

    # The grant.
    app = App(lab)
    expect(app.network_interface(path) == "", "an interface is named still")
    app.join(path, passphrase=PASSPHRASE)
    lab.wait_joined("Dice-1234", 5)
    revoke = lab.start("accessoryctl", lab.accessoryctl, "revoke", "1")
    expect(revoke.wait_exit(30) == 0, f"accessoryctl revoke ended with an error: {revoke.lines[-1:]}")
    lab.expect_home(PASSPHRASE)


# The service goes

def end_while_joined(lab):
    """The service is killed while the die's network is joined; the service below continues at home."""
    app, _, path = add_die(lab)
    lab.service.kill()
    lab.wait_until(lambda: app.network_interface(path) == "", 30, "the interface to be given back")
    if lab.service.goes_home_below:
        lab.wait_joined(HOME)


@check(services=SERVICES, seconds=120)
def survives_the_end_of_the_service_in_a_scan(lab):
    app, picker = begin(lab)
    scans = lab.scans
    app.show(network(ssidPrefix=b"Nobody-"))
    lab.wait_until(lambda: lab.scans > scans, 30, "a scan")
    lab.service.kill()
    if lab.service.below is not None:
        # The service below still serves the interface: the picker continues there.
        lab.daemon.wait_for(f"Wi-Fi interface .*{lab.service.below.name}", 30)
        scans = lab.scans
        lab.wait_until(lambda: lab.scans > scans, 30, "the search to go on")
        expect(app.count("pickerDidDismiss") == 0, "the picker was dismissed, and the interface is served")
        lab.service.below.kill()
    app.wait_dismissed("PickerRestricted")
    picker.wait_gone()
    lab.wait_wifi("absent")
    lab.service.start()
    if lab.service.below is not None:
        # The service below was there first, and served it; then it is switched off while the other one starts.
        lab.daemon.wait_for("Wi-Fi interface .*service=NetworkManager", 60)
    lab.wait_wifi("ready", 60)
    app.show(network(ssidPrefix=b"Dice-"))
    picker.wait_offer("Dice-1234", 60)


@check(services=SERVICES, seconds=120)
def survives_the_end_of_the_service_while_joined(lab):
    end_while_joined(lab)
    lab.service.start()
    lab.wait_wifi("ready", 60)
    lab.expect_home(PASSPHRASE)


@check(services=["NetworkManager_over_iwd"], seconds=120)
def goes_home_with_a_service_that_does_not_by_itself(lab):
    end_while_joined(lab)
    # The state after a failed attempt of NetworkManager's: both wait for a command.
    lab.service.disconnect_below()
    lab.service.start()
    lab.expect_home(PASSPHRASE, seconds=90)
