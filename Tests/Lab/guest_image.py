# SPDX-License-Identifier: Apache-2.0
"""The parts of the lab's guest, kept in the lab's cache folder: a Debian kernel (downloaded, unpacked, never
installed), an initrd with busybox and the few modules that reach the host's file system, and a Python environment with
bumble for the air and bleak for an app. Each part is built once and again only when its sources have changed."""

import copy
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import guest_qemu
from guest_parts import PYTHON_PACKAGES, ImageError, replace_folder, run, say, uncompressed_module, unpack_kernel
from guest_root import OtherRoot, gateway_root

# In order of preference. Not 6.1.0-56 (6.1.192-2): a list corruption in its hci_chan_del kills bluetoothd when a link
# drops while pairing.
KERNEL_PACKAGES = (
    "linux-image-6.1.0-50-amd64",
    "linux-image-6.1.0-47-amd64",
    "linux-image-6.12-amd64",
)

# Modules that are needed before the root file system; the guest loads everything else with modprobe.
INITRD_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console", "virtio-rng")
# Further modules for a guest with a disk.
DISK_MODULES = ("virtio_blk", "ext4")
DISK_BYTES = 4 << 30  # sparse

DAEMON_PACKAGE = "accessorysetupd"
# Newer than any that there will be.
OTHER_VERSIONS = ("99", "99.1")

# Debian's Python: other builds may lack AF_BLUETOOTH, and python3-dbus and python3-gi are built for this one.
PYTHON = "/usr/bin/python3"


class Image:
    """The parts, as paths: `vmlinux`, `initrd`, `modules` (a folder for /lib/modules), `python`, and the `root` that the
    guest has: this machine's own, or that of another `release` of Debian; and how `qemu` is called."""

    def __init__(self, cache, lab, release=None):
        self.cache = cache
        self.lab = lab
        self.cache.mkdir(parents=True, exist_ok=True)
        if release is None:
            self.root = Path("/")
            self.kernel = self._kernel()
            self.python = self._python()
        else:
            other = OtherRoot(cache, release)
            self.root, self.kernel, self.python = other.folder, other.kernel, other.python
            other.compile(lab)
        self.vmlinux = self.kernel / "vmlinux"
        self.modules = next((self.kernel / "lib/modules").iterdir())
        self.initrd = self._initrd()
        self.qemu = guest_qemu.command(cache)

    def of_gateway(self, debs):
        """The same with a root that has nothing of this machine's."""
        gateway = copy.copy(self)
        gateway.root = gateway_root(self.cache, debs)
        return gateway

    def _kernel(self):
        for name in KERNEL_PACKAGES:
            folder = self.cache / "kernel" / name
            if (folder / "vmlinux").exists():
                return folder
        for name in KERNEL_PACKAGES:
            package = self._concrete_package(name)
            if package is None:
                continue
            say(f"downloading {package}")
            folder = self.cache / "kernel" / name
            replace_folder(folder, lambda new: self._download_kernel(package, new))
            return folder
        raise ImageError(f"apt offers none of {', '.join(KERNEL_PACKAGES)}: old lists (apt-get update)?")

    @staticmethod
    def _concrete_package(name):
        """The package with the kernel in it (a meta package names it in its dependencies), or None without one."""
        shown = subprocess.run(
            ["apt-cache", "show", "--no-all-versions", name], capture_output=True, text=True
        ).stdout
        if not shown:
            return None
        for line in shown.splitlines():
            if line.startswith("Depends: "):
                for dependency in line.removeprefix("Depends: ").split(", "):
                    if dependency.startswith("linux-image-"):
                        return dependency.split()[0]
        return name

    @staticmethod
    def _download_kernel(package, folder):
        with tempfile.TemporaryDirectory(dir=folder.parent) as downloads:
            # apt's sandbox user may not be able to write here; as root, apt then warns and goes on.
            run("apt-get", "download", package, cwd=downloads)
            unpack_kernel(Path(downloads).glob("*.deb"), folder)

    def _initrd(self):
        init = self.lab / "guest/init"
        kernel = self.modules.name
        made_from = hashlib.sha256(init.read_bytes() + repr((INITRD_MODULES, DISK_MODULES)).encode()).hexdigest()
        initrd = self.cache / f"initrd-{kernel}-{made_from[:12]}"
        if not initrd.exists():
            for old in self.cache.glob(f"initrd-{kernel}-*"):
                old.unlink()
            with tempfile.TemporaryDirectory(dir=self.cache) as work:
                root, archive = Path(work, "root"), Path(work, "initrd")
                self._fill_initrd(root, init)
                with archive.open("wb") as output:
                    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
                    subprocess.run(
                        ["cpio", "--create", "--format=newc", "--quiet"],
                        input=names.encode(), stdout=output, cwd=root, check=True,
                    )
                archive.rename(initrd)
        return initrd

    def _fill_initrd(self, root, init):
        for folder in ("bin", "dev", "host", "machine", "memory", "modules", "proc", "root", "sys"):
            (root / folder).mkdir(parents=True)
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        for applet in ("sh", "mount", "mkdir", "insmod", "cat", "echo", "switch_root"):
            (root / "bin" / applet).symlink_to("busybox")
        shutil.copy(init, root / "init")
        (root / "init").chmod(0o755)
        there = set()
        for order, modules in (("order", INITRD_MODULES), ("order-disk", DISK_MODULES)):
            (root / "modules" / order).write_text("".join(f"{name}\n" for name in self._copy_modules(root, modules, there)))

    def _copy_modules(self, root, modules, there):
        """Copies modules and their dependencies; returns those that were not there yet, in the order of loading."""
        order = []
        for module in modules:
            listed = run("modprobe", "-d", self.kernel, "-S", self.modules.name, "--show-depends", module)
            for line in listed.splitlines():
                kind, _, path = line.strip().partition(" ")
                if kind != "insmod":
                    continue  # built in
                name, content = uncompressed_module(Path(path.split()[0]))
                if name not in there:
                    there.add(name)
                    order.append(name)
                    (root / "modules" / name).write_bytes(content)
        return order

    def _python(self):
        folder = self.cache / "venv"
        marker = folder / "made-from"
        made_from = " ".join(PYTHON_PACKAGES)
        if not marker.exists() or marker.read_text() != made_from:
            say(f"installing {made_from}")
            shutil.rmtree(folder, ignore_errors=True)  # a venv knows its own path: it cannot be moved into place
            run(PYTHON, "-m", "venv", "--system-site-packages", folder)
            # pip compiles the installed modules: the guest could do so only for itself, at every boot.
            run(folder / "bin/python", "-m", "pip", "install", "--quiet", "--no-input", *PYTHON_PACKAGES)
            marker.write_text(made_from)
        run(PYTHON, "-m", "compileall", "-q", self.lab)
        return folder / "bin/python"

    def new_disk(self, file):
        """An empty disk for one guest: where it writes, in place of memory, so that it can lose its power."""
        with file.open("wb") as disk:
            disk.truncate(DISK_BYTES)
        # Without lazy initialization the guest would have nothing to do in the background.
        run("/sbin/mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard", file)
        return file


def pack(package, target, version=None):
    """Packs a Debian package anew, as another version if one is said, and not compressed: to unpack that takes half a minute
    in the guest."""
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        folder = Path(work, "package")
        run("dpkg-deb", "--raw-extract", package, folder)
        if version is not None:
            control = folder / "DEBIAN/control"
            lines = control.read_text().splitlines()
            control.write_text("".join(f"Version: {version}\n" if line.startswith("Version:") else f"{line}\n" for line in lines))
        run("dpkg-deb", "--build", "-Znone", "--root-owner-group", folder, target)
    return target


def pack_for_guest(packages, folder):
    """The packages as a guest with systemd installs them, and the daemon's in other versions besides, `checks/upgrades.py`."""
    packed = [pack(each, folder / f"{number}.deb") for number, each in enumerate(packages)]
    (daemon,) = (each for each in packages if run("dpkg-deb", "--field", each, "Package").strip() == DAEMON_PACKAGE)
    for version in OTHER_VERSIONS:
        pack(daemon, folder / f"{DAEMON_PACKAGE}_{version}.deb", version)
    return packed
