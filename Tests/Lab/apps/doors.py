# SPDX-License-Identifier: Apache-2.0
"""A program that wants a Bluetooth socket of its own, by each way that the kernel has: the system call of this machine, the same by the
number of a 32-bit program, and a ring of io_uring, which no filter of system calls looks into. It prints a line of JSON: for each way
"open", or the error or signal that ended it."""

import ctypes
import errno
import json
import mmap
import os
import platform
import signal
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
IO_URING_SETUP, IO_URING_ENTER = 425, 426
OPERATION_SOCKET = 45
FAMILY, KIND, PROTOCOL = socket.AF_BLUETOOTH, socket.SOCK_SEQPACKET, socket.BTPROTO_L2CAP


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def native():
    socket.socket(FAMILY, KIND, PROTOCOL).close()


def foreign():
    """socket(2) of i386, by the gate that each 64-bit program of x86 has, too."""
    code = (b"\x53"                                      # push rbx
            b"\xb8" + struct.pack("<I", 359) +           # eax: socket
            b"\xbb" + struct.pack("<I", FAMILY) +        # ebx, ecx, edx: the requested socket
            b"\xb9" + struct.pack("<I", KIND) +
            b"\xba" + struct.pack("<I", PROTOCOL) +
            b"\xcd\x80"                                  # int 0x80
            b"\x5b\xc3")                                 # pop rbx; ret
    memory = mmap.mmap(-1, len(code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    result = call()
    if result < 0:
        raise OSError(-result, "refused")
    os.close(result)


def ring():
    """One entry that asks for a socket, and its answer."""
    parameters = ctypes.create_string_buffer(120)
    descriptor = checked(libc.syscall(IO_URING_SETUP, 1, parameters))
    words = struct.unpack_from("<30I", parameters)
    submission, completion = words[10:20], words[20:30]
    size = max(submission[6] + 4 * words[0], completion[5] + 16 * words[1])
    # Rings in one mapping (IORING_FEAT_SINGLE_MMAP, since Linux 5.4), and the entries.
    rings = mmap.mmap(descriptor, size)
    entries = mmap.mmap(descriptor, 64 * words[0], offset=0x10000000)
    entries[:64] = struct.pack("<BBHiQQII", OPERATION_SOCKET, 0, 0, FAMILY, KIND, 0, PROTOCOL, 0).ljust(64, b"\0")
    struct.pack_into("<I", rings, submission[6], 0)      # the array: entry 0
    struct.pack_into("<I", rings, submission[1], 1)      # the tail
    checked(libc.syscall(IO_URING_ENTER, descriptor, 1, 1, 1, None, 0))
    result, = struct.unpack_from("<i", rings, completion[5] + 8)
    if result < 0:
        raise OSError(-result, "refused")
    os.close(result)


def attempt(way):
    """In a process of its own: a filter may end it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            way()
            said = "open"
        except OSError as error:
            said = errno.errorcode[error.errno]
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    return said or signal.Signals(os.WTERMSIG(status)).name


def ways():
    yield native
    if platform.machine() == "x86_64":
        yield foreign
    yield ring


print(json.dumps({each.__name__: attempt(each) for each in ways()}), flush=True)
