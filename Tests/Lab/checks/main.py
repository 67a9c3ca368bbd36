#!/usr/bin/python3
"""Runs the checks inside the guest: `main.py [--list] [--only PATTERN]`. The last line counts them; the exit status is
0 only if at least one ran and none failed."""

import argparse
import importlib
import os
import sys
from pathlib import Path

from air_stock import AirStock

# In the order in which they run; each is a module beside this one.
GROUPS = ("radio", "journeys", "requests")

parser = argparse.ArgumentParser()
parser.add_argument("--only")
parser.add_argument("--list", action="store_true")
options = parser.parse_args()

logs = Path(os.environ.get("LAB_LOGS", "."))
stock = None
if not options.list:
    logs.mkdir(parents=True)
    stock = AirStock(logs / "air-stock.log")  # first of all: it takes as long as all the rest together

framework = importlib.import_module("framework")
for group in GROUPS:
    importlib.import_module(group)
checks = framework.chosen(options.only)
if options.list:
    for each in checks:
        print(each.name)
    sys.exit(0)
sys.exit(framework.run_all(checks, logs, stock))
