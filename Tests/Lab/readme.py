# SPDX-License-Identifier: Apache-2.0
"""README.md as the tests that run its commands read it: its indented blocks, and the commands in its text that are in no
block, each with its section and with the place where it runs. A command without a place, and a place whose command README
no longer has, is an error; `make lint` lists them (Tests/Support/check-readme)."""

import re
from dataclasses import dataclass
from pathlib import Path

README = Path(__file__).resolve().parent.parent.parent / "README.md"

# On a fresh build machine (Tests/Lab/fresh); on a gateway, which has nothing but the packages; nowhere.
FRESH, GATEWAY, SAMPLE = "fresh", "gateway", "sample"
# By section and first line: the place; of a file's text the file; and for a sample what checks it, or why nothing does.
BLOCKS = {
    ("Try it", "make demo"): (FRESH,),
    ("Installing on a real gateway", "make deb"): (FRESH,),
    ("Installing on a real gateway", "apt install ./accessorysetupd_*.deb ./accessoryctl_*.deb"): (GATEWAY,),
    ("Installing on a real gateway", "adduser alice accessory-picker"): (GATEWAY,),
    ("Installing on a real gateway", "apt install ./cockpit-accessories_*.deb"): (GATEWAY,),
    ("Installing on a real gateway", "make deb-arm64"): (FRESH,),
    ("Letting an app in", "[Application]"): (GATEWAY, "/etc/accessory-setup/apps/com.example.dice.conf"),
    ("Letting an app in", "Environment=DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/accessory-setup/bus"): (GATEWAY, "/etc/systemd/system/dice.service.d/bus.conf"),
    ("Letting an app in", "accessoryctl lockdown on"): (GATEWAY,),
    ("Letting an app in", "accessoryctl audit --since 1d"): (GATEWAY,),
    ("Every day", "accessoryctl picker"): (GATEWAY,),
    ("Every day", "busctl tree org.accessorysetup1"): (GATEWAY,),
    ("Removing it", "apt remove accessorysetupd"): (GATEWAY,),
    ("Without packages", "make install PREFIX=/usr DESTDIR=/tmp/stage"): (FRESH,),
    ("Without packages", "tar -C / --no-overwrite-dir -xzf accessorysetup.tar.gz"): (GATEWAY,),
    ("In an app", "let descriptor = ASDiscoveryDescriptor()"): (SAMPLE, "it has a gap; the calls are those of Sources/dice, which is built"),
    ("Without hardware", "make build"): (FRESH,),
}
# By section and command: the place, and the line to type there where the text abridges the command.
INLINE = {
    ("Try it", "make lab"): (SAMPLE, "it runs all that is here"),
    ("Without packages", "make uninstall"): (FRESH, "make uninstall PREFIX=/usr DESTDIR=/tmp/stage"),
    ("Read on", "man accessorysetupd"): (GATEWAY,),
    ("Read on", "man accessoryctl"): (GATEWAY,),
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


def parts(text=None):
    """What README has, in its order."""
    section, found, in_block = "", [], False
    for chunk in (README.read_text() if text is None else text).strip("\n").split("\n\n"):
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
    # Most of the text's commands are the beginning of one in a block.
    commands = [command(line) + " " for each in found if each.is_block for line in each.lines]
    return [each for each in found if each.is_block or not any(line.startswith(each.lines[0] + " ") for line in commands)]


def problems(text=None):
    """A line for each."""
    found = parts(text)
    keys = {each.key for each in found}
    for each in found:
        if not each.place:
            yield f"README.md, “{each.section}”: nothing in Tests/Lab/readme.py says where “{each.key[1]}” runs"
    for section, first in (*BLOCKS, *INLINE):
        if (section, first) not in keys:
            yield f"Tests/Lab/readme.py: README.md has no “{first}” in “{section}”"
    if "\n```" in (README.read_text() if text is None else text):
        yield "README.md: a fenced block, which Tests/Lab/readme.py does not see: indent it"
