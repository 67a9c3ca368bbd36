# SPDX-License-Identifier: Apache-2.0
"""The process that has imported bumble once and makes an air for each check in no time."""

import json
import os
import subprocess
from pathlib import Path

AIR = Path(__file__).resolve().parent.parent / "air.py"


class AirStock:
    def __init__(self, log):
        self._process = subprocess.Popen(
            [os.environ["LAB_PYTHON"], str(AIR), "--stock"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("wb"), text=True)

    def wait_until_ready(self):
        if not self._process.stdout.readline():
            raise RuntimeError("the air does not start, see air-stock.log")

    def make(self, scenario, socket, log):
        order = {"scenario": str(scenario), "socket": str(socket), "log": str(log)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())
