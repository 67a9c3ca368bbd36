# SPDX-License-Identifier: Apache-2.0
"""A program that wants past D-Bus, to a device of this address: by a raw HCI socket, and by a link of its own."""

import socket
import sys


def attempts(device):
    yield "HCI", socket.SOCK_RAW, socket.BTPROTO_HCI, lambda opened: opened.bind((0,))
    yield "L2CAP", socket.SOCK_SEQPACKET, socket.BTPROTO_L2CAP, lambda opened: opened.connect((device, 1))


for name, kind, protocol, use in attempts(sys.argv[1]):
    try:
        with socket.socket(socket.AF_BLUETOOTH, kind, protocol) as opened:
            use(opened)
        print(name, "is open")
    except OSError as error:
        print(name, "is refused:", error)
