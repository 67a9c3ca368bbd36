# SPDX-License-Identifier: Apache-2.0
"""Apps as Flatpaks, by Debian's flatpak on a machine with systemd: bubblewrap's sandbox, a scope of the user's own manager, and
xdg-dbus-proxy between the app and the system bus. The runtime and the apps are made here, from the sample app and its
libraries; there is no network."""

import pwd
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import accounts
from accounts import NEIGHBOUR, PERSON, Terminal
from framework import check
from lab import STANDSTILL, expect
from machine import BLUE_DICE, DAEMON, PINK_DICE, VIEW, copy_programs

APP, OTHER, RUNTIME, BRANCH = "org.example.Dice", "org.example.Other", "org.example.Platform", "1"
# Has a socket of its own, and asks for nothing.
HOLDER = "org.example.Holder"
WORK = Path("/var/lib/lab-flatpak")
# Where an admin has them is /etc; these go with the boot.
DROP_INS = Path("/run/systemd/system/accessorysetupd.service.d")
EXAMPLES = Path("/usr/share/accessory-setup/examples")
EXECUTABLE, SANDBOX = "identify-by-executable.conf", "identify-by-flatpak.conf"

# The permissions of a Flatpak in Docs/Manifest.md.
FINISH = ("--system-talk-name=org.accessorysetup1", "--filesystem=/run/accessory-setup", f"--env=ACCESSORY_SETUP_BUS={VIEW}")

MANIFEST = f"""\
[Application]
Id={APP}
Name=Sandboxed Dice
Flatpak={APP}
User={PERSON}

[AccessorySetup]
Supports=Bluetooth;
BluetoothServices=E56A082E-C49B-47CA-A2AB-389127B8ABE3;0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7;
"""

HOLDERS_MANIFEST = f"""\
[Application]
Id={HOLDER}
Name=Other Dice
Socket=yes
SocketUser={PERSON}

[AccessorySetup]
Supports=Bluetooth;
BluetoothServices=E56A082E-C49B-47CA-A2AB-389127B8ABE3;0B8F5F5D-3B6C-4D29-8B0F-0E3C1B8A52D7;
"""


@check(seconds=300)
def it_is_nobody_while_the_daemon_may_not_look(machine):
    prepare(machine)
    terminal = Terminal(machine, PERSON)
    look_by(machine)
    session = create_session(terminal, APP)
    expect("no manifest matches" in session and "the daemon may not inspect" in session, f"it is told {session}")
    # The sandbox' information is its user's alone to read.
    look_by(machine, EXECUTABLE)
    session = create_session(terminal, APP)
    expect("Flatpak unreadable" in session and SANDBOX in session, f"it is told {session}")


@check(seconds=300)
def it_sets_up_and_uses_an_accessory(machine):
    prepare(machine)
    look_by(machine, EXECUTABLE, SANDBOX)
    machine.forget_all_but()
    terminal = Terminal(machine, PERSON)
    picker = machine.picker("Dice 4F")
    picker.wait_for("waiting for a picker", 30)
    # Its session goes over the proxy, which is another process than the app.
    status, said = terminal.run("flatpak", "run", APP, "add", "--timeout", STANDSTILL * 90, seconds=120)
    expect(status == 0, f"the app ends with {status}: {said}")
    expect(picker.wait_exit(20) == 0, f"the picker ended with an error: {picker.lines[-1:]}")
    (grant,) = machine.grants()
    expect(grant["app"] == APP, f"the grant is {grant}")
    machine.expect_set_up(PINK_DICE)
    # flatpak asks for its scope, and may not wait for it.
    use(machine, terminal, rf"/user@\d+\.service/app\.slice/app-flatpak-{re.escape(APP)}-\d+\.scope$")


@check(seconds=300)
def it_is_known_without_a_scope_of_its_own(machine):
    set_up(machine)
    terminal = Terminal(machine, PERSON)
    # Her manager makes the scopes. A system user has none on a terminal, since systemd 258.
    machine.systemctl("stop", f"user@{pwd.getpwnam(PERSON).pw_uid}.service")
    use(machine, terminal, r"/session-\w+\.scope$")


@check(seconds=300)
def nobody_else_is_taken_for_it(machine):
    set_up(machine)
    machine.hear(PINK_DICE, BLUE_DICE)
    terminal, neighbour = Terminal(machine, PERSON), Terminal(machine, NEIGHBOUR)

    session = create_session(terminal, APP)
    expect("/org/accessorysetup1/session/" in session, f"the app is told {session}")
    sees = seen(terminal, APP)
    expect(sees == {PINK_DICE}, f"the app sees {sees}")
    # Another Flatpak, with the same permissions; the same one, run by a user whom the manifest does not name; the
    # same user and program outside.
    others = {
        "another Flatpak": (terminal, OTHER, f"Flatpak {OTHER}"), "another user": (neighbour, APP, f"Flatpak {APP}"),
        "outside": (terminal, None, "gdbus"),
    }
    for name, (where, app, known) in others.items():
        session = create_session(where, app)
        expect("no manifest matches" in session and known in session, f"{name} is told {session}")
        sees = seen(where, app)
        expect(sees == set(), f"{name} sees {sees}")
    # Later checks have the daemon as it is installed.
    look_by(machine)


@check(seconds=300)
def it_is_its_app_by_a_socket(machine):
    """The daemon may not look into it, and it has the directory of its socket and nothing else of the daemon's."""
    prepare(machine)
    look_by(machine)
    machine.forget_all_but()
    machine.declare(HOLDER, HOLDERS_MANIFEST)
    directory = f"/run/accessory-setup/app/{HOLDER}"
    machine.wait_until(Path(directory, "bus").exists, 30, "the socket", every=0.1)
    terminal = Terminal(machine, PERSON)
    run = ("flatpak", "run", f"--filesystem={directory}:ro", f"--env=DBUS_SYSTEM_BUS_ADDRESS=unix:path={directory}/bus", HOLDER)
    picker = machine.picker("Dice 4F")
    picker.wait_for("waiting for a picker", 30)
    status, said = terminal.run(*run, "add", "--timeout", STANDSTILL * 90, seconds=120)
    expect(status == 0, f"the app ends with {status}: {said}")
    expect(picker.wait_exit(20) == 0, f"the picker ended with an error: {picker.lines[-1:]}")
    expect([each["app"] for each in machine.grants()] == [HOLDER], f"the grants are {machine.grants()}")
    status, said = terminal.run(*run, "rolls", "'Pink Dice'", "--count", 3, seconds=120)
    expect(status == 0 and said.count("Pink Dice rolled") == 3, f"the app ends with {status}: {said}")
    Path(f"/etc/accessory-setup/apps/{HOLDER}.conf").unlink()
    machine.forget_all_but()


def prepare(machine):
    """With people who can log in, the apps installed for all users, and a manifest for one of the two."""
    accounts.prepare(machine)
    machine.installed()
    machine.declare(APP, MANIFEST)
    if WORK.joinpath("made").exists():
        return
    arch = machine.run("flatpak", "--default-arch")
    runtime = f"{RUNTIME}/{arch}/{BRANCH}"
    repository = make_repository()
    copy_programs(WORK / "runtime/usr", "/usr/bin/gdbus", machine.dice)
    WORK.joinpath("runtime/files").mkdir()
    WORK.joinpath("runtime/metadata").write_text(f"[Runtime]\nname={RUNTIME}\nruntime={runtime}\nsdk={runtime}\n")
    export = ("flatpak", "build-export", "--disable-fsync", "--disable-sandbox")
    machine.run(*export, "--runtime", repository, WORK / "runtime", BRANCH, seconds=120)
    for name, permissions in ((APP, FINISH), (OTHER, FINISH), (HOLDER, ())):
        app = WORK / name
        app.joinpath("files/bin").mkdir(parents=True)
        app.joinpath("metadata").write_text(f"[Application]\nname={name}\nruntime={runtime}\nsdk={runtime}\n")
        machine.run("flatpak", "build-finish", "--command=dice", *permissions, app)
        machine.run(*export, repository, app, BRANCH)
    machine.run("flatpak", "remote-add", "--no-gpg-verify", "lab", repository)
    machine.run("flatpak", "install", "--assumeyes", "--noninteractive", "lab", APP, OTHER, HOLDER, seconds=120)
    WORK.joinpath("made").touch()


def set_up(machine):
    """With a daemon that knows the app, and an accessory set up for it and no other."""
    prepare(machine)
    look_by(machine, EXECUTABLE, SANDBOX)
    if [each["app"] for each in machine.grants()] != [APP]:
        it_sets_up_and_uses_an_accessory(machine)


def make_repository():
    """Which keeps files as they are: the usual kind compresses them, and this machine is slow."""
    repository = WORK / "repository"
    for each in ("extensions", "objects", "refs/heads", "refs/mirrors", "refs/remotes", "state", "tmp/cache"):
        repository.joinpath(each).mkdir(parents=True)
    repository.joinpath("config").write_text("[core]\nrepo_version=1\nmode=bare-user-only\n")
    return repository


def look_by(machine, *examples):
    """With these drop-ins for the daemon, and no others."""
    DROP_INS.mkdir(parents=True, exist_ok=True)
    there = {each.name for each in DROP_INS.iterdir()}
    if there == set(examples):
        return
    for each in DROP_INS.iterdir():
        each.unlink()
    for each in examples:
        shutil.copy(EXAMPLES / each, DROP_INS)
    machine.systemctl("daemon-reload")
    machine.systemctl("restart", DAEMON)
    machine.wait_for_bluetooth()


def use(machine, terminal, group):
    """The app uses its accessory, through the view, in a control group that fits the pattern."""
    terminal.begin("flatpak", "run", APP, "rolls", "'Pink Dice'", "--count", 3)
    machine.wait_until(lambda: re.search(group, cgroup_of("dice", PERSON) or ""), 60, f"the app to run in {group}", every=0.1)
    status, said = terminal.finish(90)
    expect(status == 0 and len(re.findall(r"Pink Dice rolled [1-6]\b", said)) == 3, f"the app ends with {status}: {said}")


def create_session(terminal, app):
    """The daemon's answer on the system bus, which in a sandbox is the proxy's."""
    return ask(terminal, app, "", "org.accessorysetup1", "/org/accessorysetup1", "org.accessorysetup1.Manager.CreateSession", "@a{sv} {}")


def seen(terminal, app):
    """The accessories in the view, as a client sees them that takes it for the system bus."""
    said = ask(terminal, app, f"DBUS_SYSTEM_BUS_ADDRESS={VIEW}", "org.bluez", "/", "org.freedesktop.DBus.ObjectManager.GetManagedObjects")
    expect(said.startswith("("), f"in the view there is {said}")
    return set(re.findall(r"'Address': <'(C0:\S+)'>", said))


def ask(terminal, app, environment, name, path, method, *arguments):
    """The answer to a call, in an app's sandbox or outside any, with additions to the environment."""
    asks = f"{environment} gdbus call --system --dest {name} --object-path {path} --method {method} " + shlex.join(arguments)
    where = ("flatpak", "run", "--command=sh", app) if app else ("sh",)
    return terminal.run(*where, "-c", shlex.quote(asks), seconds=90)[1]


def cgroup_of(name, user):
    """The control group of a program that a user runs, or None."""
    found = subprocess.run(["pgrep", "--exact", "--euid", user, name], stdout=subprocess.PIPE, text=True).stdout.split()
    for pid in found:
        try:
            return Path(f"/proc/{pid}/cgroup").read_text().strip()
        except OSError:
            pass  # it has ended meanwhile
    return None
