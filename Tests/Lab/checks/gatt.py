# SPDX-License-Identifier: Apache-2.0
"""The cases of Tests/Support/gatt_cases.py on the real bluetoothd; Tests/Simulator holds accessory-sim against the same."""

import gatt_cases

import bluez_versions
from bluez import BlueZ
from framework import check
from lab import SystemBus


def check_of(case):
    def run(lab):
        _person = BlueZ(lab)  # whom bluetoothd asks where it pairs by itself
        client = gatt_cases.Client(
            SystemBus, lambda happens, what: lab.wait_until(happens, 30, what), bluez_versions.version(), is_simulator=False)
        case(client)

    run.__name__, run.__module__ = case.__name__, __name__
    return check("gatt.json", seconds=90)(run)


for each in gatt_cases.CASES:
    check_of(each)
