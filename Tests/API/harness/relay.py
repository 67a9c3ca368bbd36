# SPDX-License-Identifier: Apache-2.0
"""Lends its identity to a D-Bus connection: `python3 relay.py LISTENING_FD BUS_SOCKET`, run as some user and some executable.
The bus sees this process as the client; the test that speaks through it stays where it is. Ends with the connection.

On SIGUSR1 it becomes another program, `python3 relay.py CLIENT_FD BUS_FD -`, with the connection it has."""

import os
import select
import signal
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


def become_another(*_):
    """Executes the interpreter that this executable is a copy of."""
    for each in (client, bus):
        each.set_inheritable(True)
    python = os.path.realpath("/usr/bin/python3")
    os.execv(python, [python, "-I", "-S", "-c", sys.orig_argv[sys.orig_argv.index("-c") + 1], str(client.fileno()), str(bus.fileno()), "-"])


if len(sys.argv) > 3:
    client, bus = (socket.socket(fileno=int(each)) for each in sys.argv[1:3])
else:
    listening = socket.socket(fileno=int(sys.argv[1]))
    client, _ = listening.accept()
    listening.close()
    bus = socket.socket(socket.AF_UNIX)
    bus.connect(sys.argv[2])
    authenticate(client, bus)
    signal.signal(signal.SIGUSR1, become_another)
while True:
    ready, _, _ = select.select([client, bus], [], [])
    for source in ready:
        data, descriptors, _, _ = socket.recv_fds(source, CHUNK, DESCRIPTORS)
        if not data:
            sys.exit(0)
        send(bus if source is client else client, data, descriptors)
