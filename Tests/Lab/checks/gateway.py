# SPDX-License-Identifier: Apache-2.0
"""The documents' commands for a gateway (readme.py), typed there in their order: a Debian 12 with systemd and the files of its
packages alone, without a repository or a toolchain. The checks, and the sample app, which needs the toolchain's
libraries, run in a folder that shows the lab's machine; the app is a service of the gateway all the same."""

import functools
import os
import shutil
import sys
from pathlib import Path

import framework
import machine
from framework import check
from lab import expect
from machine import App

sys.path.append(str(framework.DIRECTORY))
import readme
import shell
from shell import Step

# The gateway, seen from the checks' folder; the files that the admin copies there; and where.
ROOT = Path("/proc/1/root")
PACKAGES = Path(os.environ.get("LAB_PACKAGES", "/"))
COPIES = "/root/copies"
ENTER = ("chroot", ROOT, "env", "-i", "HOME=/root", "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *shell.ENVIRONMENT)
DICE_UNIT = """\
[Unit]
Description=An app
[Service]
Type=exec
EnvironmentFile=/run/lab-app/dice
StandardOutput=file:/run/lab-app/dice.output
StandardError=inherit
ExecStart=chroot --userspec=+{user}:+{group} {inside} /usr/bin/env $APP
"""
# Of the app: longer than anything here takes.
ENDLESS = ("--rolls", 1000000, "--timeout", 1000000)
# Where Bluetooth is not up yet, as right after an installation, the next line may come too early.
READY = 'until busctl get-property org.accessorysetup1 /org/accessorysetup1 org.accessorysetup1.Manager Bluetooth | grep ready; do sleep 1; done'


def agree(terminal):
    terminal.wait_for(r"Do you want to continue\? \[Y/n\] ")
    terminal.type("\n")


def leave_the_page(terminal):
    terminal.wait_for("--More--")
    terminal.type("q")


class Gateway:
    """The app and the person on the gateway, while the commands run."""

    def __init__(self, machine):
        self._machine = machine
        self._app = None

    def prepare(self):
        """Creates the state that the documents presuppose: alice's account, the copies, and a service that becomes an app."""
        self._machine.run("chroot", ROOT, "useradd", "--create-home", "alice")
        self._machine.run("chroot", ROOT, "useradd", "--system", "dice")
        Path(f"{ROOT}{COPIES}").mkdir()
        for each in PACKAGES.iterdir():
            if each.is_file() and each.name != "disk":
                shutil.copy(each, f"{ROOT}{COPIES}")
        user, group = (self._machine.run("chroot", ROOT, "id", which, "dice") for which in ("--user", "--group"))
        self.write("/etc/systemd/system/dice.service", DICE_UNIT.format(user=user, group=group, inside=os.environ["LAB_INSIDE"]))

    def write(self, file, text):
        path = Path(f"{ROOT}{file}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if "/systemd/" in file:
            self._machine.systemctl("daemon-reload")

    def start_app(self, *words):
        if self._app:
            self._app.stop()
        self._app = App(self._machine, "dice", self._machine.dice, *words)

    def roll(self):
        """With the app at one of its dice: the first, in an order that is not promised."""
        self.start_app("play", *ENDLESS)
        self._app.wait_for("Dice rolled", 120)

    def pick(self, terminal):
        terminal.wait_for("aiting for")
        self.start_app("play", *ENDLESS)
        shell.pick_pink_dice(terminal)
        self._app.wait_for("Pink Dice rolled", 120)

    def let_pick(self, terminal):
        terminal.wait_for("waiting for a picker")
        self.start_app("add", *ENDLESS[2:])
        expect(self._app.wait_exit(240) == 0, f"the app has no second die: {self._app.lines}")
        self.roll()

    def set_up_again(self):
        """For the lines after the one that removed everything."""
        picker = self._machine.start("picker", "chroot", ROOT, "accessoryctl", "picker", "--pick", "Pink Dice")
        picker.wait_for("waiting for a picker", 60)
        self.roll()

    def steps(self):
        grant = 'busctl set-property org.accessorysetup1 "$grant" org.accessorysetup1.Grant Enabled b'
        return {
            "apt install ./accessorysetupd_*.deb ./accessoryctl_*.deb": Step(agree, leaves=(READY,)),
            "systemctl status accessorysetupd": Step(shows=r"active \(running\)"),
            "accessoryctl status": Step(shows="Bluetooth"),
            "adduser alice accessory-picker": Step(leaves=("id -nG alice | grep -w accessory-picker",)),
            "apt install ./cockpit-accessories_*.deb": Step(agree, leaves=("systemctl is-active cockpit.socket", "test -f /usr/share/cockpit/accessories/index.html")),
            "apt install ./accessory-door_*.deb": Step(
                agree, leaves=("! systemctl --quiet is-enabled accessory-door", "! systemctl --quiet is-active accessory-door",
                               "test \"$(stat -c %U:%G:%a /etc/accessory-setup/keys)\" = root:accessory-door:750")),
            "apt install ./accessory-fleet_*.deb": Step(
                agree, leaves=("! systemctl --quiet is-enabled accessory-fleet", "! systemctl --quiet is-active accessory-fleet",
                               "! test -e /var/lib/accessory-fleet")),
            "accessoryctl lockdown on": Step(leaves=("accessoryctl lockdown status | grep on",)),
            "accessoryctl explain com.example.dice": Step(shows="."),
            "accessoryctl picker": Step(self.pick),
            'accessoryctl picker --pick "Blue Dice" --accept-passkey': Step(self.let_pick),
            "accessoryctl apps": Step(shows="com.example.dice"),
            'accessoryctl whoami --pid "$(pidof dice)"': Step(shows="com.example.dice"),
            "accessoryctl list": Step(shows="Blue Dice[^$]*Pink Dice|Pink Dice[^$]*Blue Dice"),
            "accessoryctl grants": Step(shows="com.example.dice"),
            'accessoryctl rename "Pink Dice" "Kitchen"': Step(leaves=("accessoryctl list | grep Kitchen",)),
            "accessoryctl revoke 2": Step(leaves=('test "$(accessoryctl grants | grep -c com.example.dice)" = 1',)),
            'accessoryctl remove "Kitchen"': Step(leaves=("! accessoryctl list | grep -e Kitchen -e Dice",)),
            "busctl tree org.accessorysetup1": Step(shows="/grant/3"),
            f"{grant} false": Step(leaves=("accessoryctl grants --json | grep -i '\"enabled\" *: *false'",)),
            f"{grant} true": Step(leaves=("accessoryctl grants --json | grep -i '\"enabled\" *: *true'",)),
            'busctl get-property org.accessorysetup1 "$accessory" org.accessorysetup1.Accessory DisplayName Address Apps': Step(shows="com.example.dice"),
            'busctl call org.accessorysetup1 "$accessory" org.accessorysetup1.Accessory Rename s Kitchen': Step(leaves=("accessoryctl list | grep Kitchen",)),
            'busctl call org.accessorysetup1 "$grant" org.accessorysetup1.Grant Revoke': Step(leaves=("! accessoryctl list | grep Kitchen",)),
            "apt remove accessorysetupd": Step(agree, leaves=("test -d /var/lib/accessory-setup", "! test -e /usr/bin/accessorysetupd")),
            "apt purge accessorysetupd": Step(agree, leaves=("! test -e /var/lib/accessory-setup", "! test -e /etc/accessory-setup")),
            "systemctl enable --now accessorysetupd-bus.socket accessorysetupd": Step(leaves=(READY, "accessoryctl status")),
            "man accessorysetupd": Step(leave_the_page),
            "man accessoryctl": Step(leave_the_page),
        }

    def before(self, command):
        """Creates the state that a command presupposes."""
        if command == "busctl tree org.accessorysetup1":
            self.set_up_again()


@check(seconds=3600)
def the_documented_commands_work_in_order(machine):
    gateway = Gateway(machine)
    gateway.prepare()
    known = gateway.steps()
    typed = 0
    with shell.Shell(*map(str, ENTER), *shell.BASH) as terminal:
        terminal.run(f"cd {COPIES}")
        for part in readme.parts():
            place, *file = part.place
            if place != readme.GATEWAY:
                continue
            if file:
                gateway.write(file[0], "\n".join(part.lines) + "\n")
                continue
            for line in filter(None, part.lines):
                command = readme.command(line)
                gateway.before(command)
                why = shell.take(terminal, line, known.pop(command, Step()))
                expect(not why, f"{command}: {why}")
                typed += 1
    expect(not known, f"no document has {', '.join(known)}")
    machine.note(f"{typed} commands")


def dice(file):
    shutil.copy(framework.DIRECTORY.parent / "Scenarios/dice.json", file)
    return file


run_all = functools.partial(machine.run_all, scenario=dice)
