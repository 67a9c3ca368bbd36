# SPDX-License-Identifier: Apache-2.0
"""README.md and the documents that continue it, as the tests read them: their indented blocks, and the commands in their text
that are in no block, each with its section and the place where it runs. A command without a place, and a place whose command
the documents no longer have, is an error; `make lint` lists them (Tests/Support/check-readme)."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# In the order in which their commands are typed: the last installs again after the packages were removed.
DOCUMENTS = tuple(ROOT / each for each in ("README.md", "Docs/Apps.md", "Docs/Installing.md", "Docs/Administration.md", "Docs/OtherDistributions.md"))

# On a fresh build machine (Tests/Lab/fresh); on a gateway with nothing but the packages; nowhere.
FRESH, GATEWAY, SAMPLE = "fresh", "gateway", "sample"
# By section and first line: the place; for the text of a file its path; and for a sample the test that covers it.
BLOCKS = {
    ("Try it", "make demo"): (FRESH,),
    ("An app in Python", "import dbus, dbus.mainloop.glib, gi.repository.GLib"): (SAMPLE, "Tests/API/test_readme.py runs it"),
    ("The same app in Swift", "import AccessorySetupKit"): (SAMPLE, "Tests/API/test_readme.py runs it"),
    ("In Swift", 'dependencies: [.package(url: "https://git.example.org/accessorysetupd", from: "0.1.0")],'):
        (SAMPLE, "Tests/Outside/run builds such a package"),
    ("Without hardware", 'make demo PICK="Pink Dice"'): (FRESH,),
    ("Without hardware", "make build"): (FRESH,),
    ("Building the packages", "make deb"): (FRESH,),
    ("Building the packages", "make deb-arm64"): (FRESH,),
    ("Installing the packages", "apt install ./accessorysetupd_*.deb ./accessoryctl_*.deb"): (GATEWAY,),
    ("Installing the packages", "adduser alice accessory-picker"): (GATEWAY,),
    ("Installing the packages", "apt install ./cockpit-accessories_*.deb"): (GATEWAY,),
    ("Installing the packages", "apt install ./accessory-door_*.deb"): (GATEWAY,),
    ("Installing the packages", "apt install ./accessory-fleet_*.deb"): (GATEWAY,),
    ("Letting an app in", "[Application]"): (GATEWAY, "/etc/accessory-setup/apps/com.example.dice.conf"),
    ("Letting an app in", "Environment=DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/accessory-setup/bus"): (GATEWAY, "/etc/systemd/system/dice.service.d/bus.conf"),
    ("Letting an app in", "accessoryctl lockdown on"): (GATEWAY,),
    ("Letting an app in", "accessoryctl audit --since 1d"): (GATEWAY,),
    ("Every day", "accessoryctl picker"): (GATEWAY,),
    ("Every day", "busctl tree org.accessorysetup1"): (GATEWAY,),
    ("Removing the packages", "apt remove accessorysetupd"): (GATEWAY,),
    ("Installing without packages", "make install PREFIX=/usr DESTDIR=/tmp/stage"): (FRESH,),
    ("Installing without packages", "tar -C / --no-overwrite-dir -xzf accessorysetup.tar.gz"): (GATEWAY,),
}
# By section and command: the place, and the line to type there where the text abridges the command.
INLINE = {
    ("In Swift", "make docc"): (SAMPLE, ".ci/run runs it"),
    ("Without hardware", "make lab"): (SAMPLE, "it runs this file's checks"),
    ("Installing without packages", "make uninstall"): (FRESH, "make uninstall PREFIX=/usr DESTDIR=/tmp/stage"),
    ("Installing without packages", "man accessorysetupd"): (GATEWAY,),
    ("Installing without packages", "man accessoryctl"): (GATEWAY,),
}
# The first word of a command in the text. Alone it is the name of a program.
PROGRAMS = {
    "accessory-sim", "accessoryctl", "accessorysetupd", "adduser", "apt", "busctl", "dbus-run-session", "make", "man", "swift", "systemctl",
}


@dataclass
class Part:
    """An indented block, or a command in the text."""

    section: str
    lines: list
    is_block: bool

    @property
    def key(self):
        return self.section, command(self.lines[0])

    @property
    def place(self):
        """Its row in the tables, or nothing."""
        return (BLOCKS if self.is_block else INLINE).get(self.key, ())


def command(line):
    """A line without the comment behind it."""
    return re.sub(r"\s+# .*", "", line)


def parts():
    """The blocks and commands of the documents, in the order of DOCUMENTS, without commands in the text that begin one in a block."""
    found = [part for each in DOCUMENTS for part in parts_of(each.read_text())]
    commands = [command(line) + " " for each in found if each.is_block for line in each.lines]
    return [each for each in found if each.is_block or not any(line.startswith(each.lines[0] + " ") for line in commands)]


def parts_of(text):
    section, found, in_block = "", [], False
    for chunk in text.strip("\n").split("\n\n"):
        lines = chunk.split("\n")
        if lines[0].startswith("    "):
            lines = [each.removeprefix("    ") for each in lines]
            if in_block:
                found[-1].lines += ["", *lines]
            else:
                found.append(Part(section, lines, True))
            in_block = True
            continue
        in_block = False
        if heading := re.fullmatch(r"#+ (.*)", lines[0]):
            section = heading[1]
            del lines[0]
        for words in re.findall(r"`([^`]+)`", " ".join(lines)):
            if words.split()[0] in PROGRAMS and " " in words:
                found.append(Part(section, [words], False))
    return found


def block(section):
    """The text of a section's only block."""
    [found] = [each for each in parts() if each.is_block and each.section == section]
    return "\n".join(found.lines) + "\n"


def problems():
    """A line for each."""
    found = parts()
    keys = {each.key for each in found}
    for each in found:
        if not each.place:
            yield f"“{each.section}”: Tests/Lab/readme.py has no place for “{each.key[1]}”"
    for section, first in (*BLOCKS, *INLINE):
        if (section, first) not in keys:
            yield f"Tests/Lab/readme.py: no document has “{first}” in “{section}”"
    for each in DOCUMENTS:
        if "\n```" in each.read_text():
            yield f"{each.relative_to(ROOT)}: Tests/Lab/readme.py cannot see a fenced block: indent it"
