# SPDX-License-Identifier: Apache-2.0
"""The whole product on a machine with systemd: the Debian package installed, its units, real D-Bus activation, apps that are
services with users of their own, a program over bleak that knows nothing of us, the lock-down, a power cut and an upgrade."""

import json
import os
import signal
import sqlite3
from pathlib import Path

from access_points import AccessPoints
from framework import DIRECTORY, check
from lab import DAEMON_NAME, expect
from machine import BLUE_DICE, DAEMON, GRANTS, PINK_DICE, SYSTEM_BUS, VIEW
from wifi_services import OVER_IWD, Supplicant

PINK_PATH = "/org/bluez/hci0/dev_C0_FF_EE_00_00_01"
BLUE_PATH = "/org/bluez/hci0/dev_C0_FF_EE_00_00_02"
REFUSED = "org.accessorysetup1.Error.ActivationFailed"
OWN_UNIT = "user.slice/user-1000.slice/user@1000.service/app.slice/dice.service"
LOCAL_BUS_CONFIGURATION = Path("/etc/dbus-1/system-local.conf")


@check(seconds=180)
def the_package_installs_and_runs(machine):
    machine.install()
    for unit in (DAEMON, "accessorysetupd-bus.socket"):
        expect(machine.systemctl("is-enabled", unit) == "enabled", f"{unit} is not enabled")
        expect(machine.systemctl("is-active", unit) == "active", f"{unit} is not active")
    # Type=notify: when systemd says that it runs, it can be called.
    expect(machine.show(DAEMON, "Type") == "notify", "the unit does not tell when it is ready")
    machine.systemctl("restart", DAEMON)
    expect(machine.bus.name_has_owner(DAEMON_NAME), "it is ready without its name")
    pid = int(machine.show(DAEMON, "MainPID"))
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    for capabilities in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"):
        expect(int(status[capabilities], 16) == 0, f"{capabilities} is {status[capabilities]}")
    expect(status["NoNewPrivs"] == "1", "it may gain privileges")
    expect(machine.run("ps", "-o", "user:30=", "-p", str(pid)) == "accessory-setup", "it runs as another user")
    expect(oct(GRANTS.parent.stat().st_mode & 0o777) == "0o700", "its directory is open to others")
    machine.installed()


@check(seconds=60)
def a_call_on_the_bus_starts_it(machine):
    machine.installed()
    machine.systemctl("stop", DAEMON, "accessorysetupd-bus.socket")
    expect(machine.state(DAEMON) == "inactive", "it does not stop")
    said = machine.run("runuser", "-u", "stranger", "--", "busctl", "get-property", "org.accessorysetup1", "/org/accessorysetup1",
                       "org.accessorysetup1.Manager", "Version")
    expect(said.startswith('s "'), f"the version is {said}")
    for unit in (DAEMON, "accessorysetupd-bus.socket"):
        expect(machine.state(unit) == "active", f"{unit} is {machine.state(unit)}")
    machine.wait_for_bluetooth()


@check(seconds=300)
def the_daemons_user_joins_networks(machine):
    """Which is neither root nor of the group netdev: by the bus policy at wpa_supplicant and iwd, and by polkit's rule at NetworkManager. The
    network has a passphrase, so that iwd has to ask for it at the daemon."""
    machine.installed()
    Path("/run/lab-state").mkdir(exist_ok=True)
    AccessPoints([{"id": "die", "ssid": "Dice-1234", "security": "wpa2", "passphrase": "sixsided1"}], [], machine.logs)
    ask = "join=Dice-1234,sixsided1"
    user = machine.run("id", "--name", "--groups", "accessory-setup")
    expect(user == "accessory-setup", f"the daemon's user is of the groups {user}")

    def used():
        """The service that the daemon has chosen last."""
        lines = [json.loads(each) for each in machine.journal("--unit", DAEMON, "--output=json").splitlines()]
        chosen = [each["ACCESSORY_SERVICE"] for each in lines if "Wi-Fi interface" in each["MESSAGE"] and "ACCESSORY_SERVICE" in each]
        return chosen[-1] if chosen else None

    def joins(service):
        # Of a service that has just started the interface may be off: NetworkManager 1.58 was seen to wait for 17 s
        # before it had its supplicant.
        machine.wait_until(lambda: used() == service and machine.wifi == "ready", 60, f"the daemon to use {service}", every=0.2)
        picker = machine.picker("Dice-1234")
        expect(machine.probe("app", SYSTEM_BUS, ask)() == {ask: "wlan0"}, f"it is not joined over {service}")
        expect(picker.wait_exit(20) == 0, f"the picker ended with an error: {picker.lines[-1:]}")
        for known in (Path("/var/lib/iwd"), Path("/etc/NetworkManager/system-connections"), Path("/run/NetworkManager/system-connections")):
            left = [str(each) for each in known.glob("*Dice-1234*")]
            expect(left == [], f"after {service} there is {left}")

    supplicant = Supplicant(machine)
    supplicant.start()
    joins("wpa_supplicant")
    supplicant.kill()
    machine.systemctl("start", "NetworkManager.service")
    joins("NetworkManager")
    # Connections of its own, and no more.
    manager = "org.freedesktop.NetworkManager"
    rights = json.loads(machine.run(
        "runuser", "-u", "accessory-setup", "--", "busctl", "--json=short", "call", manager, "/org/freedesktop/NetworkManager", manager,
        "GetPermissions"))["data"][0]
    granted = sorted(name.removeprefix(f"{manager}.") for name, answer in rights.items() if answer == "yes")
    expect(granted == ["network-control", "settings.modify.own", "wifi.scan"], f"the daemon's user has the rights {granted}")
    machine.systemctl("stop", "NetworkManager.service", "wpa_supplicant.service")
    machine.systemctl("start", "iwd.service")
    joins("iwd")
    configuration = Path("/run/NetworkManager/conf.d/iwd.conf")
    configuration.parent.mkdir(parents=True, exist_ok=True)
    configuration.write_text(OVER_IWD)
    machine.systemctl("start", "NetworkManager.service")
    joins("NetworkManager")
    machine.systemctl("stop", "NetworkManager.service", "iwd.service")
    configuration.unlink()
    machine.run("modprobe", "--remove", "mac80211_hwsim", fails=None)


@check(seconds=60)
def a_connection_to_the_view_starts_it(machine):
    machine.installed()
    machine.systemctl("stop", DAEMON)
    expect(machine.probe("app", VIEW, "session")()["session"].startswith("/org/accessorysetup1/session/"), "it gets no session")
    expect(machine.state(DAEMON) == "active", "it is not active")
    machine.wait_for_bluetooth()


@check(seconds=90)
def an_app_is_known_by_its_unit(machine):
    machine.installed()
    app = machine.probe("app", SYSTEM_BUS, "session")
    # The same program and user elsewhere; another user; and a unit of that name of a user's own manager.
    others = {
        "other-unit": machine.probe("other-unit", SYSTEM_BUS, "session", user="dice"),
        "other-user": machine.probe("other-user", SYSTEM_BUS, "session", user="stranger"),
        "own-manager": machine.probe("own-manager", SYSTEM_BUS, "session", user="dice", cgroup=OWN_UNIT),
        "root": machine.probe("root", SYSTEM_BUS, "session", user="root"),
    }
    session = app()["session"]
    expect(session.startswith("/org/accessorysetup1/session/"), f"dice.service: {session}")
    for name, other in others.items():
        expect(other()["session"] == REFUSED, f"{name}: {other()['session']}")


@check(seconds=90)
def a_snap_is_known_by_nothing_that_a_user_can_make(machine):
    machine.installed()
    machine.declare("com.example.snap", "[Application]\nId=com.example.snap\nName=Snap\nSnap=play\n[AccessorySetup]\nSupports=Bluetooth;\n")
    own = "user.slice/user-1000.slice/user@1000.service/app.slice"
    # As snapd names them, in a part of the tree that is the user's own; and a unit of the system's, which only root
    # makes.
    answers = {
        "scope": machine.probe("scope", SYSTEM_BUS, "session", user="stranger", cgroup=f"{own}/snap.play.play-1.scope"),
        "service": machine.probe("service", SYSTEM_BUS, "session", user="stranger", cgroup=f"{own}/snap.play.play.service"),
        "system": machine.probe("system", SYSTEM_BUS, "session", user="stranger", cgroup="system.slice/snap.play.play.service"),
    }
    for name in ("scope", "service"):
        expect(answers[name]()["session"] == REFUSED, f"{name}: {answers[name]()['session']}")
    session = answers["system"]()["session"]
    expect(session.startswith("/org/accessorysetup1/session/"), f"the system's own unit: {session}")


@check(seconds=60)
def a_picker_needs_its_group(machine):
    machine.installed()
    refused = machine.picker("Dice 4F", user="stranger")
    expect(refused.wait_exit(30) != 0, "the picker of somebody else ended with success")
    expect(not refused.has("waiting for a picker"), "it waits for a picker")
    machine.picker("Dice 4F").wait_for("waiting for a picker", 30)


@check(seconds=60)
def without_a_grant_the_view_is_empty(machine):
    machine.installed()
    for grant in machine.grants():
        machine.accessoryctl("revoke", grant["id"])
    # BlueZ must have them, so that there is something to hide.
    machine.hear(PINK_DICE, BLUE_DICE)
    asks = ("objects", "powered", f"get={PINK_PATH}", f"connect={PINK_PATH}", f"get={BLUE_PATH}")
    expected = dict(zip(asks, ([], False, "UnknownObject", "UnknownObject", "UnknownObject")))
    app = machine.probe("app", VIEW, *asks)
    other = machine.probe("other", VIEW, *asks, user="stranger")
    expect(app() == expected, f"the app sees {app()}")
    expect(other() == expected, f"somebody else sees {other()}")


@check(seconds=150)
def bleak_finds_and_uses_what_was_picked(machine):
    machine.set_up()
    machine.expect_set_up(PINK_DICE)
    app = machine.bleak()
    found = app.wait_for("found(.*)", 60)[1].split()
    expect(found == [PINK_DICE], f"bleak finds {found}")
    app.wait_for("read 01", 60)
    for value in ("03", "06", "01"):
        app.wait_for(f"rolled {value}", 30)
    expect({PINK_DICE, BLUE_DICE} <= set(machine.bluez_devices()), "there was nothing to hide")
    # And it goes on existing for that app only.
    other = machine.probe("other", VIEW, "objects", f"get={PINK_PATH}", user="stranger")()
    expect(other == {"objects": [], f"get={PINK_PATH}": "UnknownObject"}, f"somebody else sees {other}")
    app.stop()
    machine.wait_until(lambda: not machine.bluez_devices()[PINK_DICE]["Connected"], 60, "the link to go down after the app")


@check(seconds=240)
def a_shell_script_is_an_app_by_its_unit(machine):
    """As Docs/Examples/README.md has it: the start waits for a person, and later ones do not."""
    machine.installed()
    machine.forget_all_but()
    examples, script = DIRECTORY.parent.parent / "Docs/Examples", Path("/usr/local/bin/dice-rolls")
    machine.declare("com.example.dice-rolls", (examples / "com.example.dice-rolls.conf").read_text())
    script.write_bytes((examples / "dice-rolls").read_bytes())
    script.chmod(0o755)
    Path("/run/systemd/system/dice-rolls.service").write_bytes((examples / "dice-rolls.service").read_bytes())
    machine.systemctl("daemon-reload")
    try:
        machine.systemctl("start", "--no-block", "dice-rolls")
        machine.wait_until(lambda: "picker request queued" in machine.journal("--unit", DAEMON), 30, "the request to wait", every=0.2)
        picker = machine.picker("Pink Dice")
        rolls = lambda: machine.journal("--unit", "dice-rolls").count("rolled ")
        machine.wait_until(rolls, 120, "a roll", every=0.5)
        expect(picker.wait_exit(30) == 0, "the picker ended with an error")
        machine.expect_set_up(PINK_DICE)
        before = rolls()
        machine.systemctl("restart", "dice-rolls")
        machine.wait_until(lambda: rolls() > before, 120, "a roll after the restart", every=0.5)
    finally:
        machine.systemctl("stop", "dice-rolls")


@check(seconds=90)
def reads_through_the_view_cost_little(machine):
    # For information: through the view as the app, and past it as root, with the same program.
    machine.set_up()
    reads = f"reads={PINK_DICE}"
    # In this order: the app's link ends some time after the app's end, even if another program uses it past the view.
    direct = machine.probe("direct", SYSTEM_BUS, reads, user="root")()[reads]
    view = machine.probe("view", VIEW, reads)()[reads]
    (machine.logs / "notes").write_text(f"a read takes {view:.1f} ms, past the view {direct:.1f} ms: {view / direct:.2f} times\n")


@check(seconds=120)
def the_lock_down_closes_bluez_to_all_but_root_and_the_daemon(machine):
    machine.set_up()
    machine.hear(BLUE_DICE)
    expect_open(machine)
    machine.accessoryctl("lockdown", "on")
    try:
        expect_closed(machine)
        # The daemon was connected before; a new one must get to BlueZ, too.
        machine.systemctl("restart", DAEMON)
        machine.wait_for_bluetooth()
    finally:
        machine.accessoryctl("lockdown", "off")
    expect_open(machine)


def past_the_view(machine):
    """The results of programs there: without a grant, of the group bluetooth, and even the app that has a grant."""
    outsider = machine.probe("outsider", SYSTEM_BUS, "objects", f"get={BLUE_PATH}", "powered", user="person")
    member = machine.probe("member", SYSTEM_BUS, "objects", f"get={BLUE_PATH}", "powered", user="stranger")
    app = machine.probe("app", SYSTEM_BUS, "objects", f"get={BLUE_PATH}", "powered")
    return [set(map(str, each().values())) for each in (outsider, member, app)]


def expect_open(machine):
    expect(machine.accessoryctl("lockdown", "status", fails=True) == "off", "the lock-down is not off")
    expect(all("AccessDenied" not in each for each in past_the_view(machine)), "BlueZ is closed to somebody")


def expect_closed(machine):
    """To all but root, and the app, which has the way through the view."""
    expect(machine.lockdown()["lockdown"] == "on", "the lock-down is not on")
    expect(past_the_view(machine) == [{"AccessDenied"}] * 3, "BlueZ is open to somebody")
    expect(PINK_DICE in machine.bluez_devices(), "root is locked out")
    through = machine.probe("view", VIEW, "objects", f"connect={PINK_PATH}", f"get={BLUE_PATH}")()
    expect(through == {"objects": [PINK_DICE], f"connect={PINK_PATH}": "connected", f"get={BLUE_PATH}": "UnknownObject"},
           f"through the view the app gets {through}")


@check(seconds=60)
def the_lock_down_takes_itself_back_to_the_byte(machine):
    machine.installed()
    expect(not LOCAL_BUS_CONFIGURATION.exists(), "there is a configuration already")
    machine.accessoryctl("lockdown", "on")
    machine.accessoryctl("lockdown", "off")
    expect(not LOCAL_BUS_CONFIGURATION.exists(), "there was no file before")
    # As odd as an admin's file may be: no newline at the end, two in the middle, a comment that closes it too.
    odd = b'<!-- ours -->\n<busconfig>\n\n  <limit name="reply_timeout">300000</limit><!-- </busconfig> -->\n  </busconfig>  '
    LOCAL_BUS_CONFIGURATION.write_bytes(odd)
    LOCAL_BUS_CONFIGURATION.chmod(0o664)
    try:
        machine.accessoryctl("lockdown", "on")
        expect(LOCAL_BUS_CONFIGURATION.read_bytes() != odd, "nothing was added")
        denied = machine.probe("other", SYSTEM_BUS, "powered", user="stranger")()
        expect(denied == {"powered": "AccessDenied"}, f"somebody gets {denied}")
        machine.accessoryctl("lockdown", "on")
        machine.accessoryctl("lockdown", "off")
        machine.accessoryctl("lockdown", "off")
        expect(LOCAL_BUS_CONFIGURATION.read_bytes() == odd, "the file is another")
        expect(LOCAL_BUS_CONFIGURATION.stat().st_mode & 0o777 == 0o664, "the file's mode is another")
    finally:
        LOCAL_BUS_CONFIGURATION.unlink()


@check(seconds=180)
def an_upgrade_keeps_grants_and_the_socket(machine):
    machine.set_up()
    before, pid = machine.grants(), machine.show(DAEMON, "MainPID")
    socket = Path("/run/accessory-setup/bus").stat().st_ino
    machine.install()
    expect(machine.state(DAEMON) == "active", "it is not active")
    expect(machine.show(DAEMON, "MainPID") != pid, "the old daemon still runs")
    expect(Path("/run/accessory-setup/bus").stat().st_ino == socket, "apps would connect to another socket")
    expect([(each["id"], each["app"]) for each in machine.grants()] == [(each["id"], each["app"]) for each in before],
           f"the grants are {machine.grants()}")
    machine.wait_for_bluetooth()
    app = machine.probe("app", VIEW, "objects")()
    expect(app == {"objects": [PINK_DICE]}, f"the app sees {app}")


@check(seconds=150)
def a_revocation_cuts_bleak_off(machine):
    machine.set_up()
    app = machine.bleak()
    for _ in range(2):
        app.wait_for("rolled", 60)
    expect(machine.bluez_devices()[PINK_DICE]["Connected"], "it is not connected")
    (number,) = (each["id"] for each in machine.grants())
    machine.accessoryctl("revoke", number)
    app.wait_for("disconnected", 10)
    for later in ("read", "notify", "connect"):
        app.wait_for(f"later {later} fails", 40)
    # Without a grant the adapter looks switched off.
    app.wait_for("then finds nothing", 30)
    machine.air.wait_for("pink-dice: disconnected", 30)
    machine.expect_set_up()


@check(seconds=150)
def the_audit_trail_tells_the_story(machine):
    events = lambda: [(each["event"], each["app"]) for each in json.loads(machine.accessoryctl("audit", "--json"))]
    if "revoked" not in dict(events()):
        machine.set_up()
        machine.probe("app", VIEW, "session", f"connect={PINK_PATH}")()
        machine.probe("other", SYSTEM_BUS, "session", user="stranger")()
        (number,) = (each["id"] for each in machine.grants())
        machine.accessoryctl("revoke", number)
    trail = json.loads(machine.accessoryctl("audit", "--json"))
    expect([each["id"] for each in trail] == sorted(each["id"] for each in trail), "it is not in order")
    for entry in trail:
        expect(entry.keys() >= {"id", "time", "event", "app", "accessory", "who", "why"}, f"an entry lacks something: {entry}")
    # In the order of the story: each one after the one before.
    told = iter(trail)
    for event in ("pickerShown", "offered", "picked", "paired", "granted", "used", "revoked"):
        expect(any(each["event"] == event and each["app"] == "com.example.dice" for each in told), f"“{event}” is missing")
    expect(any(each["event"] == "refused" for each in trail), "“refused” is missing")
    journal = [json.loads(line) for line in machine.journal("--unit", DAEMON, "--output=json").splitlines()]
    logged = {line.get("ACCESSORY_EVENT") for line in journal if "audit" in line["MESSAGE"]}
    expect(logged >= {"picked", "granted", "revoked", "refused"}, f"the journal tells of {logged} only")


@check(seconds=150)
def the_kernel_ends_it_for_its_memory_and_nothing_is_left_half(machine):
    """systemd starts it again, with all that was set up."""
    machine.set_up()
    limit, before = machine.show(DAEMON, "MemoryMax"), machine.show(DAEMON, "MainPID")
    expect(limit == str(1 << 30), f"it may have {limit} bytes")
    killed = lambda: "oom-kill" in machine.journal("--unit", DAEMON)
    try:
        machine.systemctl("set-property", "--runtime", DAEMON, "MemoryMax=1M", "MemorySwapMax=0")
        # It asks for memory as soon as it is asked for something.
        machine.run("/usr/bin/accessoryctl", "list", fails=None)
        machine.wait_until(killed, 60, "the kernel to end it", every=0.2)
    finally:
        machine.systemctl("set-property", "--runtime", DAEMON, f"MemoryMax={limit}", "MemorySwapMax=infinity")
        # It may have been ended more often than it is started.
        machine.systemctl("reset-failed", DAEMON)
        machine.systemctl("start", DAEMON)
    machine.wait_for_bluetooth()
    expect(machine.show(DAEMON, "MainPID") != before, "it was not ended")
    machine.expect_set_up(PINK_DICE)
    app = machine.probe("app", VIEW, "objects")()
    expect(app == {"objects": [PINK_DICE]}, f"the app sees {app}")


@check(seconds=150)
def it_needs_no_task_but_its_own(machine):
    machine.set_up()
    expect(machine.show(DAEMON, "TasksMax") == "4", f"it may have {machine.show(DAEMON, 'TasksMax')} tasks")
    try:
        # Two, because systemd 257 forks once itself, before it becomes the daemon.
        machine.systemctl("set-property", "--runtime", DAEMON, "TasksMax=2")
        machine.systemctl("restart", DAEMON)
        machine.systemctl("set-property", "--runtime", DAEMON, "TasksMax=1")
        machine.wait_for_bluetooth()
        expect(machine.show(DAEMON, "TasksCurrent") == "1", f"it has {machine.show(DAEMON, 'TasksCurrent')} tasks")
        app = machine.probe("app", VIEW, "objects")()
        expect(app == {"objects": [PINK_DICE]}, f"the app sees {app}")
        machine.accessoryctl("list")
    finally:
        machine.systemctl("set-property", "--runtime", DAEMON, "TasksMax=4")
        machine.systemctl("restart", DAEMON)
    machine.wait_for_bluetooth()


@check(seconds=90)
def a_store_of_a_newer_daemon_is_left_alone(machine):
    machine.installed()
    machine.systemctl("stop", DAEMON, "accessorysetupd-bus.socket")
    newer = "99 from the future"

    def sql(statement, *values):
        with sqlite3.connect(GRANTS) as store:
            store.execute(statement, values)
        store.close()

    sql("INSERT INTO grdb_migrations VALUES (?)", newer)
    for path in GRANTS.parent.iterdir():
        machine.run("chown", "accessory-setup:accessory-setup", path)
    before = content(GRANTS)
    try:
        machine.systemctl("start", DAEMON, fails=True)
        machine.wait_until(lambda: machine.state(DAEMON) == "failed", 60, "systemd to give up")
        expect("written by a newer accessorysetupd" in machine.journal("--unit", DAEMON), "the journal does not say why")
        expect(content(GRANTS) == before, "the store was changed")
        expect(not list(GRANTS.parent.glob("*.damaged-*")), "the store was put aside")
    finally:
        machine.systemctl("stop", DAEMON)
        sql("DELETE FROM grdb_migrations WHERE identifier = ?", newer)
        machine.systemctl("reset-failed", DAEMON)
        machine.systemctl("start", DAEMON)
    machine.wait_for_bluetooth()


def content(path):
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as store:
        return list(store.iterdump())


@check(seconds=300)
def the_lock_down_holds_over_a_boot(machine):
    if not machine.after_boot:
        machine.set_up()
        machine.accessoryctl("lockdown", "on")
        machine.reboot()
    try:
        # The check does not start the daemon: it is enabled, and reaches BlueZ.
        machine.wait_until(lambda: machine.state(DAEMON) == "active", 60, "the service to be active")
        machine.wait_for_bluetooth()
        machine.expect_set_up(PINK_DICE)
        machine.hear(PINK_DICE, BLUE_DICE)
        expect_closed(machine)
        # With status 0: nothing runs that began without it.
        expect(machine.accessoryctl("lockdown", "status") == "on", "processes are not locked down")
        # It sets up another, too.
        machine.set_up(BLUE_DICE, "Dice A2")
        machine.accessoryctl("remove", machine.listed()[BLUE_DICE]["id"])
    finally:
        machine.accessoryctl("lockdown", "off")
    expect_open(machine)


@check(seconds=240)
def a_power_cut_in_a_setup_leaves_nothing_half_done(machine):
    if not machine.after_boot:
        machine.set_up(PINK_DICE)
        daemon = int(machine.show(DAEMON, "MainPID"))
        machine.begin_setup("Dice A2")
        machine.air.wait_for("blue-dice: pairing started", 60)
        # From here on bluetoothd needs no client: the bond is made, and no daemon is there to grant it. This die
        # answers slowly.
        os.kill(daemon, signal.SIGSTOP)
        machine.wait_until(lambda: BLUE_DICE in machine.bonds(), 60, "the bond to be on the disk", every=0.05)
        machine.cut_power()
    expect(set(machine.found_bonds) == {PINK_DICE, BLUE_DICE}, f"the bonds after the cut were {sorted(machine.found_bonds)}")
    # The check does not start it: it is enabled.
    machine.wait_until(lambda: machine.state(DAEMON) == "active", 60, "the service to be active")
    machine.wait_for_bluetooth()
    machine.expect_set_up(PINK_DICE)
    expect(not machine.bluez_devices().get(BLUE_DICE, {"Paired": False})["Paired"], "BlueZ says that it is paired")
    expect(not list(GRANTS.parent.glob("*.damaged-*")), "the store was damaged")
    app = machine.probe("app", VIEW, "objects")()
    expect(app == {"objects": [PINK_DICE]}, f"the app sees {app}")
    machine.set_up(BLUE_DICE, "Dice A2")
    machine.expect_set_up(PINK_DICE, BLUE_DICE)
