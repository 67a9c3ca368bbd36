# SPDX-License-Identifier: Apache-2.0
"""A program without any privilege that wants a value of a bonded accessory past D-Bus: over the kernel's own channel for attributes, with
the keys of the bond, which are in the kernel. It reads the value, writes another and reads again; it prints JSON: the values that it read, and
the error that ended it.

    attribute.py ADDRESS UUID VALUE
"""

import ctypes
import errno
import json
import os
import socket
import struct
import sys

WAIT = 60
ATTRIBUTES = 4  # the fixed channel (CID) of ATT
LE_PUBLIC, LE_RANDOM = 1, 2
SOL_BLUETOOTH, BT_SECURITY, MEDIUM = 274, 4, 2
READ_BY_TYPE, READ_BY_TYPE_ANSWER, WRITE, WRITE_ANSWER = 0x08, 0x09, 0x12, 0x13

libc = ctypes.CDLL(None, use_errno=True)


def address(bytes_, kind):
    """struct sockaddr_l2, which Python has without channel and kind."""
    return struct.pack("<HH6sHBx", socket.AF_BLUETOOTH, 0, bytes_, ATTRIBUTES, kind)


def call(function, opened, name):
    if function(opened.fileno(), name, len(name)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def ask(opened, request, expected):
    opened.send(request)
    # Notifications may come between.
    while (answer := opened.recv(512))[0] not in (expected, 1):
        pass
    if answer[0] == 1:
        raise OSError(errno.EPROTO, f"ATT error {answer[4]:#x}")
    return answer


def value(opened, uuid):
    """The handle and the value of the only characteristic of this type."""
    answer = ask(opened, struct.pack("<BHHH", READ_BY_TYPE, 1, 0xFFFF, uuid), READ_BY_TYPE_ANSWER)
    return answer[2:4], answer[4 : 2 + answer[1]]


def main(device, uuid, new):
    said = {"read": [], "error": None}
    try:
        with socket.socket(socket.AF_BLUETOOTH, socket.SOCK_SEQPACKET, socket.BTPROTO_L2CAP) as opened:
            call(libc.bind, opened, address(bytes(6), LE_PUBLIC))
            opened.setsockopt(SOL_BLUETOOTH, BT_SECURITY, struct.pack("BB", MEDIUM, 0))
            call(libc.connect, opened, address(bytes.fromhex(device.replace(":", ""))[::-1], LE_RANDOM))
            # Debian 12's kernel (6.1.176) has a receiver that waits hold the socket, so that nothing arrives: Python
            # polls instead.
            opened.settimeout(WAIT)
            handle, before = value(opened, int(uuid, 16))
            said["read"].append(before.hex())
            ask(opened, bytes([WRITE]) + handle + bytes.fromhex(new), WRITE_ANSWER)
            said["read"].append(value(opened, int(uuid, 16))[1].hex())
    except OSError as error:
        said["error"] = errno.errorcode.get(error.errno, str(error))
        print(error, file=sys.stderr)
    print(json.dumps(said), flush=True)


main(*sys.argv[1:])
