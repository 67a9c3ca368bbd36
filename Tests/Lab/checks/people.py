# SPDX-License-Identifier: Apache-2.0
"""People who are not root, on a machine with systemd: they log in on a terminal, and polkit, as Debian ships it, asks them
through its own agent to authenticate as administrators."""

import json
import os
import pwd
import re
import signal

import accounts
from accounts import ADMINISTRATOR, NEIGHBOUR, PASSWORD, PERSON, Terminal
from framework import check
from lab import expect
from machine import APPS, PINK_DICE, VIEW

WITH_AGENT, WITH_SILENT_AGENT = APPS / "with-agent", APPS / "with-silent-agent"
ACTION = "org.accessorysetup1.manage"
MESSAGE = "Authentication is required to manage which apps may use which accessories"
# It waits for an answer as long as the daemon does: between question and answer a check does much else.
BUSCTL = "busctl", "--timeout=180"
POLKIT, HELPER = "polkit.service", "polkit-agent-helper.socket"


@check(seconds=180)
def an_administrator_proves_it_to_polkit(machine):
    number = prepare(machine)
    terminal = Terminal(machine, ADMINISTRATOR)
    terminal.begin(WITH_AGENT, "accessoryctl", "revoke", number)
    expect_asked(terminal, machine)
    terminal.type(PASSWORD)
    terminal.wait_for("AUTHENTICATION COMPLETE", 60)
    status, said = terminal.finish()
    expect(status == 0, f"accessoryctl ends with {status}: {said}")
    machine.expect_set_up()
    revoked = [each for each in json.loads(machine.accessoryctl("audit", "--json")) if each["event"] == "revoked"][-1]
    expect(f"uid {pwd.getpwnam(ADMINISTRATOR).pw_uid}," in revoked["who"], f"the trail says {revoked}")


@check(seconds=180)
def a_person_needs_an_administrators_password(machine):
    number = prepare(machine)
    terminal = Terminal(machine, PERSON)
    # Her own is none; an administrator's is.
    accounts.set_password(PERSON, "her own")
    try:
        terminal.begin(WITH_AGENT, "accessoryctl", "grants", "--json")
        expect_asked(terminal, machine)
        terminal.type("her own")
        terminal.wait_for("AUTHENTICATION FAILED", 60)
        status, said = terminal.finish()
        expect(status == 1 and "accessoryctl: permission denied: " in said, f"accessoryctl ends with {status}: {said}")
        expect(f'"id":{number}' not in "".join(said.split()), f"she is shown {said}")
    finally:
        accounts.set_password(PERSON, PASSWORD)
    terminal.begin(WITH_AGENT, *enable(number, "false"))
    expect_asked(terminal, machine)
    prove(terminal)
    (grant,) = machine.grants()
    expect(not grant["enabled"], f"the grant is {grant}")
    machine.run(*enable(number, "true"))


@check(seconds=240)
def who_does_not_prove_it_changes_nothing(machine):
    number = prepare(machine)
    terminal = Terminal(machine, ADMINISTRATOR)

    def expect_refused(status, said):
        expect(status != 0 and f"no such object: {path(number)}" in said, f"busctl ends with {status}: {said}")
        expect_unchanged(machine, number)

    # No agent to ask. Twice, because the first call starts polkit.
    for _ in range(2):
        status, said = terminal.run(*revoke(number))
        expect_refused(status, said)
        expect("assword" not in said, f"somebody was asked: {said}")

    terminal.begin(WITH_AGENT, *revoke(number))
    expect_asked(terminal, machine)
    terminal.type("a guess")
    terminal.wait_for("AUTHENTICATION FAILED", 60)
    expect_refused(*terminal.finish())

    # Closing the agent, by the end of its input, is a refusal.
    terminal.begin(WITH_AGENT, *revoke(number))
    expect_asked(terminal, machine)
    terminal.press("D")
    expect_refused(*terminal.finish())

    # Both, program and agent, are given up.
    terminal.begin(WITH_AGENT, *revoke(number))
    expect_asked(terminal, machine)
    terminal.interrupt()
    expect_unchanged(machine, number)

    # Nothing of all this is left.
    terminal.begin(WITH_AGENT, *revoke(number))
    expect_asked(terminal, machine)
    prove(terminal)
    machine.expect_set_up()


@check(seconds=180)
def whoever_has_gone_is_not_asked_for_any_more(machine):
    number = prepare(machine)
    terminal = Terminal(machine, ADMINISTRATOR)
    terminal.begin(WITH_SILENT_AGENT, *revoke(number))
    asker = terminal.wait_for(rf"asked {re.escape(ACTION)} of (\d+)\n", 60)[1]
    os.kill(int(asker), signal.SIGKILL)
    # Long before the daemon's time for an answer is over (180 s), when it withdraws it, too.
    terminal.wait_for("withdrawn\n", 20)
    status, said = terminal.finish()
    expect(status == 0, f"the agent ends with {status}: {said}")
    expect_unchanged(machine, number)
    terminal.begin(WITH_AGENT, *revoke(number))
    expect_asked(terminal, machine)
    prove(terminal)
    machine.expect_set_up()


@check(seconds=180)
def nobody_waits_for_a_password_of_somebody_elses(machine):
    number = prepare(machine)
    terminal, other = Terminal(machine, ADMINISTRATOR), Terminal(machine, NEIGHBOUR)
    terminal.begin(WITH_AGENT, *revoke(number))
    expect_asked(terminal, machine)
    # Meanwhile: root, the app, and a user without an agent.
    expect_unchanged(machine, number)
    expect(machine.probe("app", VIEW, "objects")() == {"objects": [PINK_DICE]}, "the app does not see its die")
    status, said = other.run(*revoke(number))
    expect(status != 0 and f"no such object: {path(number)}" in said, f"busctl ends with {status}: {said}")
    prove(terminal)
    machine.expect_set_up()


@check(seconds=180)
def without_polkit_only_root_is_an_administrator(machine):
    number = prepare(machine)
    terminal = Terminal(machine, ADMINISTRATOR)
    machine.systemctl("mask", "--runtime", "--now", POLKIT)
    try:
        status, said = terminal.run(*revoke(number))
        expect(status != 0 and f"no such object: {path(number)}" in said, f"busctl ends with {status}: {said}")
        expect_unchanged(machine, number)
    finally:
        machine.systemctl("unmask", "--runtime", POLKIT)
    machine.accessoryctl("revoke", number)
    machine.expect_set_up()


def prepare(machine):
    """With accounts that can log in, and an accessory set up; returns the number of its grant."""
    accounts.prepare(machine)
    # Restores a unit that the guest's preparation masks, where polkit's agent starts its helper through systemd.
    if machine.show(HELPER, "LoadState") == "loaded":
        machine.systemctl("start", HELPER)
    machine.set_up()
    machine.forget_all_but(PINK_DICE)
    (grant,) = machine.grants()
    return grant["id"]


def prove(terminal):
    """Types the requested password; the daemon then performs the request."""
    terminal.type(PASSWORD)
    status, said = terminal.finish()
    expect(status == 0, f"busctl ends with {status}: {said}")


def expect_asked(terminal, machine):
    """polkit's agent asks for an administrator's password, for our action and in our words."""
    asked = terminal.wait_for(r"AUTHENTICATING FOR (\S+)|status \d+", 60)[1]
    expect(asked == ACTION, f"polkit asks for {asked or 'nothing'}")
    terminal.wait_for(MESSAGE, 30)
    terminal.wait_for(f"Authenticating as: .*{ADMINISTRATOR}", 30)
    terminal.wait_for_password_prompt()


def expect_unchanged(machine, number):
    (grant,) = machine.grants()
    expect(grant["id"] == number and grant["enabled"], f"the grant is {grant}")
    machine.expect_set_up(PINK_DICE)


def path(number):
    return f"/org/accessorysetup1/grant/{number}"


def revoke(number):
    return *BUSCTL, "call", "org.accessorysetup1", path(number), "org.accessorysetup1.Grant", "Revoke"


def enable(number, word):
    # As a call: busctl does not allow interactive authorization with its other commands.
    return (*BUSCTL, "call", "org.accessorysetup1", path(number), "org.freedesktop.DBus.Properties", "Set",
            "ssv", "org.accessorysetup1.Grant", "Enabled", "b", word)
