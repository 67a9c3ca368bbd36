# SPDX-License-Identifier: Apache-2.0
"""Adverts byte by byte, for adverts that a scenario cannot express. (Core Specification Supplement, part A)"""

FLAGS, SERVICES_16, SERVICES_128, NAME, MANUFACTURER = 0x01, 0x03, 0x07, 0x09, 0xFF


def structure(kind, content):
    return bytes([len(content) + 1, kind]) + content


def raw(*structures):
    return {"raw": b"".join(structure(*each) for each in structures).hex()}


def service(uuid):
    """A service as the air has it: the last byte first."""
    return bytes.fromhex(uuid.replace("-", ""))[::-1]
