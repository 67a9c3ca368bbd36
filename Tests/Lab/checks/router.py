# SPDX-License-Identifier: Apache-2.0
"""A router of IPv6 on an interface: it advertises itself for everything, a prefix, a route and a name server (RFC 4861, 4191, 8106), again
and again."""

import ipaddress
import select
import socket
import struct
import sys

LIFETIME = 1800
PREFIX = ipaddress.IPv6Address("fd00:a11:acce::")


def advertisement():
    head = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, LIFETIME, 0, 0)
    # On the link, and for addresses.
    prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, LIFETIME, LIFETIME, 0) + PREFIX.packed
    half = struct.pack("!BBBBI", 24, 2, 1, 0, LIFETIME) + bytes(8)
    name_server = struct.pack("!BBHI", 25, 3, 0, LIFETIME) + (PREFIX + 1).packed
    return head + prefix + half + name_server


with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as sender:
    interface = sys.argv[1]
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
    sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
    while True:
        sender.sendto(advertisement(), ("ff02::1", 0, 0, socket.if_nametoindex(interface)))
        select.select([], [], [], 0.5)
