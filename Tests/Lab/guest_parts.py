# SPDX-License-Identifier: Apache-2.0
"""Tools for making the guest's parts, for every root: commands that report why they failed, folders that are made in
full or not at all, and a Debian kernel's packages unpacked for qemu."""

import gzip
import lzma
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

# bumble plays the accessories; bleak is an app that knows nothing of us, and habluetooth is Home Assistant's way to use
# it.
PYTHON_PACKAGES = ("bumble==0.0.236", "bleak==3.1.0", "habluetooth==7.1.2")


class ImageError(Exception):
    """A part of the guest cannot be made; the text says which and why."""


def say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


def run(*command, **options):
    """Runs a tool; its output is shown only if it fails."""
    outcome = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if outcome.returncode != 0:
        raise ImageError(f"{' '.join(map(str, command))} failed:\n{outcome.stdout}")
    return outcome.stdout


def replace_folder(folder, make):
    """Makes a folder in full or not at all, so that an interrupted run leaves nothing half done under its name."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        make(new)
        shutil.rmtree(folder, ignore_errors=True)
        new.chmod(0o755)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def unpack_kernel(archives, folder):
    """Unpacks a kernel's packages: all in one up to Debian 13, programs and modules apart since."""
    for archive in archives:
        run("dpkg-deb", "-x", archive, folder)
    if not (folder / "lib").exists():
        (folder / "lib").symlink_to("usr/lib")
    (version,) = (path.name for path in (folder / "lib/modules").iterdir())
    run("depmod", "-b", folder, version)
    (compressed,) = [*folder.glob("boot/vmlinuz-*"), *folder.glob("lib/modules/*/vmlinuz")]
    (folder / "vmlinux").write_bytes(elf_of_bzimage(compressed.read_bytes()))


def elf_of_bzimage(image):
    """The ELF kernel inside a bzImage. Booted directly (PVH) it needs no firmware and does not unpack itself: 3 s less."""
    setup_sectors = image[0x1F1]
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length - 4]  # the last four bytes are the unpacked size
    return decompressed(payload)


def decompressed(data):
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(["zstd", "--decompress", "--stdout"], input=data, stdout=subprocess.PIPE, check=True).stdout
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    return data


def uncompressed_module(path):
    """A module's plain name and content: busybox's insmod takes no compressed ones."""
    name = path.name
    for suffix in (".xz", ".zst", ".gz"):
        name = name.removesuffix(suffix)
    return name, decompressed(path.read_bytes())
