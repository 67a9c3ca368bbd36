# SPDX-License-Identifier: Apache-2.0
"""One boot of the lab's guest in qemu, from the command line to its last word. The guest's readable output arrives on
two virtio ports and is copied through here; the kernel's console goes to a file, to be read when the guest dies."""

import os
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from guest_clock import STEADY, STEADY_KHZ, counter_khz

KERNEL_ARGUMENTS = (
    "console=ttyS0 8250.nr_uarts=1 loglevel=4 quiet panic=-1 nokaslr mitigations=off init_on_alloc=0 audit=0 "
    # Without it drbg reports failed self-tests, which software emulation is too slow for.
    "cryptomgr.notests "
    "tsc=reliable no_timer_check random.trust_cpu=on raid=noautodetect"
)

# Features that are slower under emulation than their replacements in programs and the kernel: strings are copied byte
# by byte by `rep movsb`, and looked through in wide registers. Without them, Python takes a third less of the
# processor. Features that guard the kernel from programs slow each system call.
CPU = "max,la57=off,erms=off,fsrm=off,avx=off,avx2=off,bmi1=off,bmi2=off,movbe=off,smap=off,smep=off,umip=off,pku=off"

# With a disk, PID 1 is systemd; its messages during the start go to the console.
DISK_ARGUMENTS = " lab.disk systemd.unit=lab.target systemd.show_status=1 systemd.default_timeout_start_sec=180"


class BootFailed(Exception):
    """The guest did not reach its script in time."""


class Processors(NamedTuple):
    """Those of a guest. Only one can have a steady clock: qemu counts the instructions of one after the other."""

    number: int
    steady: bool

    @property
    def emulation(self):
        if self.steady:
            return ["-accel", "tcg,thread=single,tb-size=512", "-icount", STEADY, "-smp", "1"]
        return ["-accel", "tcg,thread=multi,tb-size=512", "-smp", str(self.number)]

    @property
    def counter_khz(self):
        return STEADY_KHZ if self.steady else counter_khz()


class Machine:
    """A qemu process. It dies with this one, whatever happens: setpriv asks the kernel for that. Several may run at once, in
    a thread each; their output is copied line by line."""

    _lines = threading.Lock()
    _starting = threading.Lock()
    _running = set()
    _over = False

    @classmethod
    def stop_all(cls):
        """Ends those that run, and starts no more."""
        with cls._starting:
            cls._over = True
            for each in list(cls._running):
                each._process.kill()

    def __init__(self, image, logs, environment, command, processors, disk=None):
        self.logs = logs
        self._processors = processors
        self._disk = disk
        for leftover in ("status", "console.log"):  # of the boot before, or of the first try
            if (logs / leftover).exists():
                (logs / leftover).rename(logs / f"{leftover}.before")
        (logs / "guest.env").write_text("".join(f"{k}={shlex.quote(str(v))}\n" for k, v in environment.items()))
        (logs / "command").write_text(command + "\n")
        self._up = threading.Event()
        self._copiers = []
        out = self._copier("output.log", sys.stdout.buffer)
        err = self._copier("errors.log", sys.stderr.buffer)
        with self._starting:
            if self._over:
                raise BootFailed("the lab is at its end")
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._qemu(image, out, err)],
                stdin=subprocess.DEVNULL, stdout=(logs / "qemu.log").open("ab"), stderr=subprocess.STDOUT,
                pass_fds=(out, err), start_new_session=True,
            )
            self._running.add(self)
        os.close(out)
        os.close(err)

    def _qemu(self, image, out, err):
        return [
            *image.qemu,
            # q35: microvm has no PM timer and now and then hangs in the TSC's calibration.
            "-M", "q35", *self._processors.emulation, "-cpu", CPU, "-m", "2G",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none",
            "-kernel", str(image.vmlinux), "-initrd", str(image.initrd), 
            "-append", KERNEL_ARGUMENTS + (DISK_ARGUMENTS if self._disk else "") + self._clock(),
            "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
            "-chardev", f"file,id=console,path={self.logs}/console.log", "-serial", "chardev:console",
            *self._port("lab.out", 1, out), *self._port("lab.err", 2, err),
            "-fsdev", f"local,id=host,path={image.root},security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
            *self._machine(image),
            "-fsdev", f"local,id=lab,path={self.logs},security_model=none",
            "-device", "virtio-9p-pci,fsdev=lab,mount_tag=lab",
            *self._drive(),
        ]

    def _clock(self):
        frequency = self._processors.counter_khz
        return "" if frequency is None else f" tsc_early_khz={frequency}"

    @staticmethod
    def _machine(image):
        """This machine's root besides, if the guest has another."""
        if image.root == Path("/"):
            return []
        return [
            "-fsdev", "local,id=machine,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=machine,mount_tag=machine",
        ]

    def _drive(self):
        if self._disk is None:
            return []
        # unsafe: flushed writes must survive the guest's end, not this machine's.
        return ["-drive", f"file={self._disk},format=raw,if=none,id=disk,cache=unsafe", "-device", "virtio-blk-pci,drive=disk"]

    @staticmethod
    def _port(name, number, descriptor):
        # append=on: without it qemu truncates the file, which fails on a pipe.
        return [
            "-add-fd", f"fd={descriptor},set={number}",
            "-chardev", f"file,id=port{number},path=/dev/fdset/{number},append=on",
            "-device", f"virtserialport,chardev=port{number},name={name}",
        ]

    def _copier(self, log, stream):
        """Starts copying a pipe to a log and to one of our own streams; returns the pipe's other end for qemu."""
        reading, writing = os.pipe()

        def copy():
            with open(reading, "rb") as pipe, (self.logs / log).open("ab", buffering=0) as file:
                for line in pipe:
                    self._up.set()
                    file.write(line)
                    with self._lines:
                        stream.write(line)
                        stream.flush()

        thread = threading.Thread(target=copy, daemon=True)
        thread.start()
        self._copiers.append(thread)
        return writing

    def wait_until_up(self, seconds):
        deadline = time.monotonic() + seconds
        while not self._up.wait(0.2):
            if self._process.poll() is not None:
                raise BootFailed("qemu ended before the guest was up: " + (self.logs / "qemu.log").read_text().strip())
            if time.monotonic() > deadline:
                raise BootFailed(f"the guest did not reach its script in {seconds:.0f} s")

    def wait(self, seconds):
        """Waits for the guest's end and returns the status that it left, or the reason why it left none."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"killed after {seconds:.0f} s"
        for thread in self._copiers:
            thread.join(5)
        status = self.logs / "status"
        return status.read_text().strip() if status.exists() else "the guest died, see console.log"

    def stop(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._running.discard(self)
