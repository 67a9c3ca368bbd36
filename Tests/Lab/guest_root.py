# SPDX-License-Identifier: Apache-2.0
"""The guest's root, where that is not this machine's: that of another release of Debian, made by mmdebstrap into the lab's
cache folder, with that release's kernel beside it and a Python environment of its own inside; or a gateway's. Each is made
once, and again only when its recipe changes. The mirror is that of this machine's own apt. Another release's root gets the checks' dependencies from this
machine (the repository, the build) at the same paths, a gateway in a folder: guest/init."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from guest_parts import PYTHON_PACKAGES, ImageError, replace_folder, run, say, unpack_kernel

RELEASES = ("trixie", "forky")

# The packages that Tests/Lab/deps installs on this machine for the guest, and both buses.
PACKAGES = (
    "avahi-daemon", "bluez", "bubblewrap", "busybox-static", "ca-certificates", "cockpit-bridge", "cockpit-system", "cockpit-ws", "crun", "dbus", "dbus-broker",
    "dbus-user-session", "docker.io", "flatpak", "hostapd", "iproute2", "iw", "iwd", "kmod", "libdbus-1-3", "libglib2.0-bin", "libmosquitto1", "libnss-systemd",
    "libpam-systemd", "libsqlite3-0", "login", "network-manager", "podman", "polkitd", "procps", "python3", "python3-dbus", "python3-gi",
    "python3-venv", "rfkill", "sqlite3", "sudo", "systemd", "systemd-container", "systemd-sysv", "udev",
    "uidmap", "wireless-regdb", "wpasupplicant",
)
# For the programs in --bin: those of the packages need none.
PACKAGES_OF = {"trixie": ("libsodium23",), "forky": ()}
# Inside the root.
PYTHON = "/opt/lab-python"
# A meta package that names the kernel's; since 7.0 that has nothing in it but the names of its parts.
KERNEL = "linux-image-amd64"
IMAGE = re.compile(r"Depends: (linux-image-\S+)")
PARTS = re.compile(r"Depends: (linux-(?:base|binary|modules)-\S+)")
# This machine's configuration for its registries, for apt and pip inside.
NETWORK_FILES = ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf", "/root/.config/pip/pip.conf")
# A release that is not out yet has a list of contents that expires.
APT_OPTIONS = ('Acquire::Check-Valid-Until "false"',)


# A gateway before it gets the packages: the packages of Debian's installer, as far as the commands need them.
GATEWAY_RELEASE = "bookworm"
GATEWAY_PACKAGES = ("bluez", "dbus", "kmod", "man-db", "systemd", "systemd-sysv", "udev", "wpasupplicant")


class OtherRoot:
    """One release, as paths: `folder`, which is the guest's root, and `kernel` are outside, `python` is inside."""

    def __init__(self, cache, release):
        made = cache / "roots" / release
        self.folder = made / "root"
        self.kernel = made / "kernel"
        self.python = Path(PYTHON, "bin/python")
        recipe = hashlib.sha256(repr((PACKAGES, PACKAGES_OF[release], PYTHON_PACKAGES, PYTHON, KERNEL, PARTS)).encode()).hexdigest()
        if not (made / "recipe").exists() or (made / "recipe").read_text() != recipe:
            if os.geteuid() != 0:
                raise ImageError(f"only root can make a root of {release}")
            say(f"making a root of {release}")
            replace_folder(made, lambda new: self._make(new, release, recipe))

    def _make(self, new, release, recipe):
        root = new / "root"
        make_root(root, release, PACKAGES + PACKAGES_OF[release])
        self._add_python(root)
        self._unpack_kernel(root, new / "kernel")
        run("rm", "-rf", root / "var/lib/apt/lists", root / "etc/resolv.conf")
        (new / "recipe").write_text(recipe)

    @staticmethod
    def _add_python(root):
        run("chroot", root, "python3", "-m", "venv", "--system-site-packages", PYTHON)
        run("chroot", root, f"{PYTHON}/bin/python", "-m", "pip", "install", "--quiet", "--no-input", *PYTHON_PACKAGES)

    @staticmethod
    def _unpack_kernel(root, folder):
        def depends(package):
            return run("chroot", root, "apt-cache", "depends", "--important", package)

        (image,) = IMAGE.findall(depends(KERNEL))
        folder.mkdir()
        with tempfile.TemporaryDirectory(dir=root) as downloads:
            inside = f"/{Path(downloads).name}"
            run("chroot", root, "sh", "-c", 'cd "$0" && apt-get download "$@"', inside, image, *PARTS.findall(depends(image)))
            unpack_kernel(Path(downloads).glob("*.deb"), folder)

    def compile(self, lab):
        """Has this release's Python compile the checks, where they are: the guest could do so only for itself, at every boot."""
        # The mount ends with the command.
        run("unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2/mnt" && exec chroot "$2" python3 -m compileall -q -s /mnt -p "$1" /mnt',
            "sh", lab, self.folder)


def gateway_root(cache, debs):
    """The root of a gateway that is about to install these packages. It will have no network: apt's cache has all that they ask for."""
    made = cache / "roots" / "gateway"
    asked = [run("dpkg-deb", "--field", each, "Depends", "Recommends") for each in debs]
    recipe = hashlib.sha256(repr((GATEWAY_RELEASE, GATEWAY_PACKAGES, asked)).encode()).hexdigest()
    if not (made / "recipe").exists() or (made / "recipe").read_text() != recipe:
        if os.geteuid() != 0:
            raise ImageError("only root can make a root of a gateway")
        say("making a root of a gateway")
        replace_folder(made, lambda new: _make_gateway(new, debs, recipe))
    return made / "root"


def _make_gateway(new, debs, recipe):
    root = new / "root"
    make_root(root, GATEWAY_RELEASE, GATEWAY_PACKAGES)
    with tempfile.TemporaryDirectory(dir=root) as folder:
        for each in debs:
            shutil.copy(each, folder)
        inside = [f"/{Path(folder).name}/{each.name}" for each in debs]
        Path(folder).chmod(0o755)
        run("chroot", root, "apt-get", "install", "--download-only", "--yes", *inside)
    run("rm", root / "etc/resolv.conf")
    (new / "recipe").write_text(recipe)


def make_root(root, release, packages):
    """A release with the given packages and their dependencies, which reaches its registries as this machine does."""
    options = [*APT_OPTIONS, *_own_ways()]
    run("mmdebstrap", "--mode=root", "--variant=minbase", "--skip=cleanup/apt/lists", *(f"--aptopt={each}" for each in options),
        f"--include={','.join(packages)}", release, root, _own_mirror())
    for each in NETWORK_FILES:
        if Path(each).exists():
            inside = Path(f"{root}{each}")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(each, inside)


def extract_root(root, release, architecture, packages):
    """The files of packages and their dependencies, for another architecture: no program ran. Returns the folder of
    the packages themselves."""
    options = ('Apt::Install-Recommends "false"', *APT_OPTIONS, *_own_ways())
    run("mmdebstrap", "--mode=root", "--variant=extract", f"--architectures={architecture}", "--skip=essential/unlink,cleanup/apt",
        *(f"--aptopt={each}" for each in options), f"--include={','.join(packages)}", release, root, _own_mirror())
    return root / "var/cache/apt/archives"


def _own_mirror():
    """Where this machine's apt has Debian from."""
    targets = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages")
    for line in targets.splitlines():
        origin, label, address = line.rsplit(maxsplit=2)
        if (origin, label) == ("Debian", "Debian"):
            return address
    raise ImageError("this machine's apt has no mirror of Debian, to make another release's root from")


def _own_ways():
    """How this machine's apt gets there, if its configuration says something about that."""
    said = run("apt-config", "dump", "--format", "%F \"%v\";%n", "Acquire")
    return [line for line in said.splitlines() if re.search(r"::(Proxy|CaInfo|Verify-Peer|Verify-Host)\b", line, re.IGNORECASE)]


def library_folders(programs):
    """Where the libraries of programs are that no package of Debian has: those of the toolchain."""
    found = set()
    for each in programs:
        said = subprocess.run(["ldd", each], stdout=subprocess.PIPE, text=True, check=True).stdout
        found |= {Path(path).parent for path in re.findall(r"=> (/\S+)", said)}
    return {each for each in found if not re.match(r"/(usr/)?lib(64)?\b", str(each))}
