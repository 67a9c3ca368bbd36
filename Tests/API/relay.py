"""Lends its identity to a D-Bus connection: `python3 relay.py LISTENING_FD BUS_SOCKET`, run as some user and some executable.
The bus sees this process as the client; the test that speaks through it stays where it is. Ends with the connection."""

import os
import select
import socket
import sys

CHUNK = 1 << 16
DESCRIPTORS = 16


def send(target, data, descriptors):
    sent = socket.send_fds(target, [data], descriptors) if descriptors else target.send(data)
    target.sendall(data[sent:])
    for descriptor in descriptors:
        os.close(descriptor)


def authenticate(client, bus):
    """The client names the user it runs as; the bus is to hear ours."""
    line = b""
    while not line.endswith(b"\r\n"):
        line += client.recv(1)
    before, _, _ = line.partition(b"AUTH")
    bus.sendall(before + b"AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\n")


listening = socket.socket(fileno=int(sys.argv[1]))
client, _ = listening.accept()
listening.close()
bus = socket.socket(socket.AF_UNIX)
bus.connect(sys.argv[2])
authenticate(client, bus)
while True:
    ready, _, _ = select.select([client, bus], [], [])
    for source in ready:
        data, descriptors, _, _ = socket.recv_fds(source, CHUNK, DESCRIPTORS)
        if not data:
            sys.exit(0)
        send(bus if source is client else client, data, descriptors)
