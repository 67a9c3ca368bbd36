# SPDX-License-Identifier: Apache-2.0
"""Differences between versions of bluetoothd that the daemon works around: the observed behavior of each. Checks ask here, and hold
bluetoothd to it, so that a version that differs again is noticed."""

import subprocess

from lab import BLUETOOTHD


def version():
    """That of the bluetoothd that is under test, as numbers."""
    said = subprocess.run([BLUETOOTHD, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return tuple(map(int, said.strip().split(".")))


def says_why_links_end():
    """`Disconnected` of a device, with a reason, before `Connected` is false. Seen on 5.87; not on 5.66 and 5.82."""
    return version() >= (5, 83)


def forgets_the_services_of_what_refused():
    """After a pairing that failed it hears the device again, but no longer reports its adverts, until the object is
    removed and found anew. Seen on 5.66; not on 5.82 and 5.87."""
    return version() < (5, 82)


def tells_what_was_only_advertised():
    """Once a device's services are known, the services that it only advertises are among its `UUIDs` still. Seen on 5.82 and
    5.87 (it keeps advertised services since 5.69); not on 5.66."""
    return version() >= (5, 69)


def ends_the_link_of_a_failed_pairing():
    """Where an accessory has asked to be paired, and that fails. Seen on 5.87 (in its sources since 5.83); not on 5.66 and 5.82."""
    return version() >= (5, 83)


def dies_of_a_surrogate_in_a_name():
    """Or of another character that only looks like UTF-8: libdbus ends a program that sends it. Seen on 5.87 (in its sources since 5.84,
    `strnlenutf8`); not on 5.66 and 5.82, which look with GLib."""
    return version() >= (5, 84)
