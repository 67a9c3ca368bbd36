# SPDX-License-Identifier: Apache-2.0
"""The group whose members show pickers, and processes in it."""

import ctypes
import functools
import os
import subprocess
import tempfile
from pathlib import Path

from harness.clients import Identity

GROUP = 64_321
CLONE_NEWNS = 0x20000


@functools.cache
def make_group():
    """From now on this process, and every process that it starts, is on a machine that has the group."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "no mount namespace of its own")
    groups = tempfile.NamedTemporaryFile("w", prefix="accessory-group-")
    groups.write(f"{Path('/etc/group').read_text().rstrip()}\naccessory-picker:x:{GROUP}:\n")
    groups.flush()
    os.chmod(groups.name, 0o644)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", groups.name, "/etc/group"], check=True)
    return groups


class WithMembers:
    """Tests on a machine that has the group."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_group()


class Member(Identity):
    """A process in the group."""

    groups = [GROUP]
