# SPDX-License-Identifier: Apache-2.0
"""The emulator that guests run in: this machine's qemu where it is new enough, else that of a later Debian. That one is
unpacked in the lab's cache folder with the libraries it is linked to, and never installed."""

import os
import re
import subprocess
from pathlib import Path

from guest_parts import ImageError, replace_folder, run, say
from guest_root import extract_root

PROGRAM = "qemu-system-x86_64"
PACKAGE = "qemu-system-x86"
# Since then a guest's new processes and its floating point cost a fraction of the time before: the lab's checks take a
# third less of the processor than under 7.2.
ENOUGH = 10
RELEASE = "trixie"


def command(cache):
    """How qemu is called: the words before its options."""
    if _version() >= ENOUGH:
        return [PROGRAM]
    folder = cache / f"qemu-{RELEASE}"
    if not folder.exists():
        if os.geteuid() != 0:
            say(f"this machine's qemu is older than {ENOUGH}, so it is slow; root would get that of {RELEASE}")
            return [PROGRAM]
        say(f"unpacking qemu of {RELEASE}, which is faster than this machine's")
        subprocess.run([Path(__file__).with_name("deps"), "mmdebstrap"], check=True)
        replace_folder(folder, _unpack)
    return _command_in(folder)


def _version():
    said = run(PROGRAM, "--version")
    found = re.search(r"version (\d+)\.", said)
    if found is None:
        raise ImageError(f"{PROGRAM} does not say its version: {said}")
    return int(found[1])


def _unpack(new):
    root = new / "root"
    archives = extract_root(root, RELEASE, "amd64", (PACKAGE,))
    run("rm", "-rf", archives)
    run(*_command_in(new), "--version")


def _command_in(folder):
    """With its own libraries and loader, and its own firmware."""
    usr = folder / "root/usr"
    libraries = usr / "lib/x86_64-linux-gnu"
    return [
        "env", f"QEMU_MODULE_DIR={libraries}/qemu", libraries / "ld-linux-x86-64.so.2",
        "--library-path", f"{libraries}:{libraries}/pulseaudio", usr / "bin" / PROGRAM, "-L", usr / "share/qemu", "-L", usr / "share/seabios",
    ]
