# SPDX-License-Identifier: Apache-2.0
"""How fast the guest's clock runs. qemu's emulation gives the guest this processor's time-stamp counter, and the guest's kernel
measures it against another timer while it boots. Where this machine stands still for a moment meanwhile it takes that for the
counter being slow, and its time runs, say, thirty times too fast from then on. So the frequency is given.

A steady clock counts the guest's own instructions instead: this machine's other work takes no time there. While the guest
waits its clock goes as this machine's does."""

import ctypes
import mmap
import platform
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret
CODE = bytes.fromhex("0f31 48c1e220 4809d0 c3")
APART = 0.1
LOOKS = 50

# Each instruction takes 2 to the power of this, in ns. With 8 ns the guest is as fast as on a machine that is busy, and
# emulation costs as much as without. With less it costs more: up to two thirds with 2 ns, where Wi-Fi's timers run.
SHIFT = 3
STEADY = f"shift={SHIFT},sleep=on,align=off"
# qemu's counter counts nanoseconds then.
STEADY_KHZ = 1_000_000


def counter_khz():
    """The frequency of this machine's time-stamp counter; None where it has none that is known here."""
    if platform.machine() != "x86_64":
        return None
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(CODE)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def look():
        """Counter and clock at the same time, as near as can be: of several looks that during which least happened."""
        def once():
            before, clock, after = read(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), read()
            return after - before, (before + after) // 2, clock

        return min(once() for _ in range(LOOKS))[1:]

    first_count, first_clock = look()
    time.sleep(APART)
    count, clock = look()
    return round((count - first_count) * 1_000_000 / (clock - first_clock))
