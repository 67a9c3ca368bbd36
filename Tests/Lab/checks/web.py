# SPDX-License-Identifier: Apache-2.0
"""The page for Cockpit, installed from its package on a machine with systemd, as three people find it: real logins by
PAM through Cockpit's own server, real sessions of their own, sudo for the administrator. The page's drawing is tested in
Tests/Web; here `cockpit.py` sends the page's messages."""

import gzip
import json
import os
import pwd
import signal
import socket
from pathlib import Path

import accounts
from accounts import ADMINISTRATOR, NEIGHBOUR, PASSWORD, PERSON
from cockpit import CERTIFICATES, ORIGIN, PORT, CallFailed, Cockpit
from framework import check
from lab import DAEMON_NAME, STANDSTILL, expect
from machine import PINK_DICE, App

import dbus

PAGE = Path("/usr/share/cockpit/accessories")
CONFIGURATION = Path("/etc/cockpit/cockpit.conf")
ROOT = "/org/accessorysetup1"
MANAGER, PICKER, ADMIN = (f"org.accessorysetup1.{each}" for each in ("Manager", "Picker", "Admin"))
OBJECT_MANAGER = "org.freedesktop.DBus.ObjectManager"


@check(seconds=150)
def a_wrong_password_is_refused(machine):
    prepare(machine)
    status, reason = Cockpit(machine).login(PERSON, PASSWORD + "!")
    expect((status, reason) == (401, "Authentication failed"), f"the login says {status} {reason}")
    status, _, content = Cockpit(machine).file("main.js")
    expect(status == 401, f"without a login the page's file is answered with {status}")
    expect(installed("main.js") not in content, "the page is shown to whoever asks")


@check(seconds=150)
def a_person_picks_in_a_page(machine):
    prepare(machine)
    machine.forget_all_but()
    cockpit = log_in(machine, PERSON)
    expect_page(cockpit)
    line = cockpit.open()
    daemon = line.daemon(1)
    daemon.call(ROOT, MANAGER, "RegisterPicker", {"label": {"t": "s", "v": "a lab's page"}})
    (program,) = daemon.get(ROOT, MANAGER, "Pickers")
    expect((program["label"], program["user"], program["isYours"]) == ("a lab's page", PERSON, True), f"it is known as {program}")
    app = App(machine, "dice", machine.dice, "add", "--timeout", STANDSTILL * 90)
    path, offer = offered(machine, daemon, "Dice 4F")
    daemon.call(path, PICKER, "Pick", offer)
    expect(app.wait_exit(90) == 0, f"dice ended with an error: {app.lines[-1:]}")
    expect(PINK_DICE in machine.listed(), f"accessoryctl lists {sorted(machine.listed())}")
    (grant,) = machine.grants()
    expect(grant["app"] == "com.example.dice", f"the grant is {grant}")
    # The page is closed, and the session goes on: Cockpit keeps it for a while.
    line.close()
    machine.wait_until(lambda: not available(machine), 30, "the closed page to be no picker any more")
    expect(bridges(PERSON), "the session has ended with the page, so this says nothing")


@check(seconds=120)
def who_is_in_no_group_is_told_so(machine):
    prepare(machine)
    cockpit = log_in(machine, NEIGHBOUR)
    expect_page(cockpit)
    daemon = cockpit.open().daemon(1)
    expect(daemon.get(ROOT, MANAGER, "Version"), "the daemon tells no version")
    expect(refusal(lambda: daemon.call(ROOT, MANAGER, "RegisterPicker", {"label": {"t": "s", "v": "mine"}})) == "AccessDenied",
           "a picker of somebody in no group is let in")
    expect(refusal(lambda: daemon.get(ROOT, MANAGER, "Pickers")) == "UnknownProperty", "the picker programs are told")
    expect_no_admin(daemon)
    (objects,) = daemon.call(ROOT, OBJECT_MANAGER, "GetManagedObjects")
    expect(objects == {}, f"there are objects: {sorted(objects)}")
    expect(not available(machine), "a picker program is registered")


@check(seconds=150)
def an_administrator_becomes_one_by_sudo(machine):
    prepare(machine)
    line = log_in(machine, ADMINISTRATOR).open()
    daemon = line.daemon(1)
    expect_no_admin(daemon)
    expect(refusal(lambda: daemon.call(ROOT, MANAGER, "RegisterPicker", {})) == "AccessDenied", "without sudo its picker is let in")
    # The effect of Cockpit's button for administrative access.
    superuser = line.bus(2, bus="internal")
    superuser.subscribe(path="/superuser", interface="cockpit.Superuser", member="Prompt")
    start = superuser.begin("/superuser", "cockpit.Superuser", "Start", "sudo")
    machine.wait_until(lambda: superuser.signals, 60, "sudo to ask for the password")
    superuser.call("/superuser", "cockpit.Superuser", "Answer", PASSWORD)
    start(60)
    expect(superuser.get("/superuser", "cockpit.Superuser", "Current") == "sudo", "the session has no administrative access")
    daemon = line.daemon(3)
    (entries,) = daemon.call(f"{ROOT}/admin", ADMIN, "GetAudit", {})
    last = [each for each in entries if each["event"] == "refused"][-1:]
    expect(last and f"uid {pwd.getpwnam(ADMINISTRATOR).pw_uid}," in last[0]["who"], f"the trail ends with {entries[-1:]}")
    daemon.call(ROOT, MANAGER, "RegisterPicker", {})
    (program,) = daemon.get(ROOT, MANAGER, "Pickers")
    expect(program["user"] == "root", f"with sudo the page is {program}")


@check(seconds=150)
def a_killed_session_hands_its_picker_on(machine):
    prepare(machine)
    machine.forget_all_but()
    line = log_in(machine, PERSON).open()
    daemon = line.daemon(1)
    daemon.call(ROOT, MANAGER, "RegisterPicker", {})
    # It picks as soon as it gets the picker, so it must be the second.
    other = machine.picker("Dice 4F")
    other.wait_for("waiting for a picker", 30)
    app = App(machine, "dice", machine.dice, "add", "--timeout", STANDSTILL * 90)
    offered(machine, daemon, "Dice 4F")
    expect(not machine.listed(), "the second program had the picker already")
    for each in bridges(PERSON):
        os.kill(each, signal.SIGKILL)
    expect(other.wait_exit(60) == 0, f"the other picker ended with an error: {other.lines[-1:]}")
    expect(app.wait_exit(60) == 0, f"dice ended with an error: {app.lines[-1:]}")
    expect(PINK_DICE in machine.listed(), f"accessoryctl lists {sorted(machine.listed())}")
    machine.wait_until(lambda: line.closed or daemon.problem, 30, "the page to be told that its session has gone")


def prepare(machine):
    """With the packages there, Cockpit as Debian ships it, and accounts that can log in."""
    machine.installed()
    expect(PAGE.joinpath("manifest.json").exists(), "the packages bring no page: is cockpit-accessories among them?")
    accounts.prepare(machine)
    machine.systemctl("start", "cockpit.socket")
    # To start a session takes it half a minute here, which is when it would give up.
    CONFIGURATION.write_text("[basic]\ntimeout = 300\nresponse-timeout = 300\n")
    # The first connection starts it, and has it make its certificate.
    socket.create_connection(("localhost", PORT), 60 * STANDSTILL).close()
    machine.wait_until(lambda: machine.state("cockpit.service") == "active", 90, "cockpit.service to be active")
    expect(any(CERTIFICATES.iterdir()), "Cockpit has no certificate")
    machine.wait_until(Cockpit(machine).answers, 90, "Cockpit to answer")
    machine.wait_until(lambda: not available(machine), 30, "the pages of the check before to be gone")


def log_in(machine, user):
    cockpit = Cockpit(machine)
    status, reason = cockpit.login(user, PASSWORD)
    expect(status == 200, f"the login says {status} {reason}")
    return cockpit


def installed(name):
    """The package has scripts and style compressed, and Cockpit's bridge unpacks them for a browser that asks for them plain."""
    return gzip.decompress(PAGE.joinpath(f"{name}.gz").read_bytes())


def expect_page(cockpit):
    """The page as it was installed, under the rules that its manifest makes."""
    status, headers, content = cockpit.file("index.html")
    expect(status == 200 and b'src="main.js"' in content, f"instead of the page there is {status} {content[:80]}")
    # Cockpit adds rules of its own, and its own address wherever its page is allowed.
    rules = lambda text: {words[0]: set(words[1:]) for each in text.split(";") if (words := each.split())}
    given = rules(headers["Content-Security-Policy"] or "")
    for kind, sources in rules(json.loads(PAGE.joinpath("manifest.json").read_text())["content-security-policy"]).items():
        expect(kind in given and given[kind] - {ORIGIN} == sources, f"the policy has {kind} {given.get(kind)}, not {sources}")
    expect("unsafe" not in str(given), f"the policy is {given}")
    for name in ("main.js", "bus.js", "style.css"):
        status, _, content = cockpit.file(name)
        expect(status == 200 and content == installed(name), f"{name} is another: {status}")


def expect_no_admin(daemon):
    for ask in (lambda: daemon.call(f"{ROOT}/admin", ADMIN, "GetAudit", {}, type="a{sv}"),
                lambda: daemon.get(f"{ROOT}/admin", ADMIN, "Lockdown")):
        why = refusal(ask)
        expect(why == "UnknownObject", f"the Admin object answers with {why or 'success'}")


def refusal(ask):
    try:
        ask()
    except CallFailed as failure:
        return failure.name
    return None


def offered(machine, daemon, advertised):
    """Waits until a picker is this page's and offers an accessory; returns its path and the offer."""
    def look():
        (objects,) = daemon.call(ROOT, OBJECT_MANAGER, "GetManagedObjects")
        for path, interfaces in objects.items():
            for offer in interfaces.get(PICKER, {}).get("Offers", ()):
                if offer["advertisedName"] == advertised:
                    return path, offer["id"]
        return None

    return machine.wait_until(look, 60, f"{advertised} to be offered")


def available(machine):
    root = machine.bus.get_object(DAEMON_NAME, ROOT, introspect=False)
    return bool(root.Get(MANAGER, "PickerAvailable", dbus_interface=dbus.PROPERTIES_IFACE))


def bridges(user):
    """The processes of a user's sessions."""
    number = pwd.getpwnam(user).pw_uid
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if each.stat().st_uid == number and each.joinpath("comm").read_text().strip() == "cockpit-bridge":
                found.append(int(each.name))
        except OSError:
            pass  # it has ended meanwhile
    return found
