# SPDX-License-Identifier: Apache-2.0
"""The checks' frame: a decorator that makes a function a check, and the loop that runs them. Each check runs in a
process of its own, in a cgroup of its own, with a fresh bluetoothd, a fresh air and an empty store of bonds; when it
ends, or hangs, its cgroup is killed and no process is left for the next one."""

import fnmatch
import json
import os
import select
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from lab import STANDSTILL, CheckFailed, Lab

CGROUP = Path("/sys/fs/cgroup/check")
STORE = Path("/var/lib/bluetooth")
DIRECTORY = Path(__file__).resolve().parent.parent
NO_ADAPTER_SECONDS = 10 * STANDSTILL
# How much of each log of a failed check is shown.
TAIL_LINES = 25
TAIL_BYTES = 1 << 16

_checks = []


@dataclass(frozen=True)
class Check:
    name: str
    function: Callable
    seconds: float
    scenario: str | dict | None
    start: bool
    service: str | None
    away: tuple


def check(scenario=None, *, seconds=60, start=True, services=(), away=()):
    """Makes `function(lab)` a check of the group that its module is, named after both; after `seconds` (times STANDSTILL) it is killed and
    has failed. Further arguments depend on the group's guest. Plain: `scenario` is a file in Tests/Scenarios or the scenario itself;
    with `start=False` its clock waits for the check to say `lab.air.start()`. Wi-Fi: it is a check under each of the `services`, and named after
    that too; `away` are access points that were never heard. With systemd, nothing: there is one machine for all."""

    def register(function):
        name = f"{function.__module__}.{function.__name__}"
        for service in services or (None,):
            full = name if service is None else f"{name}_with_{service}"
            _checks.append(Check(full, function, seconds, scenario, start, service, tuple(away)))
        return function

    return register


def chosen(patterns):
    """All checks without a pattern, else those that match one."""
    return [each for each in _checks if not patterns or any(fnmatch.fnmatch(each.name, pattern) for pattern in patterns)]


def processor_seconds():
    """The total time of this machine's processors since it started."""
    user, nice, system, _idle, _waiting, *interrupts = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


class Results:
    """The results of the checks: a line for each, for a failed one the ends of its logs, and at the end the totals. A file has
    them besides, a line of JSON each: for the host, and for the boot after a power cut."""

    def __init__(self, logs):
        self._file = logs / "outcomes"
        self._file.touch()
        failures = [json.loads(line)["why"] for line in self._file.read_text().splitlines()]
        self.failed = sum(why is not None for why in failures)
        self.passed = len(failures) - self.failed
        self._worked = processor_seconds()

    def add(self, each, why, seconds, logs):
        """`logs` is the check's folder; in `notes` are its additions to the result."""
        before, self._worked = self._worked, processor_seconds()
        outcome = {"name": each.name, "why": why, "seconds": round(seconds, 1), "worked": round(self._worked - before, 1)}
        with self._file.open("a") as file:
            file.write(json.dumps(outcome) + "\n")
        notes = logs / "notes"
        more = "".join(f"; {line}" for line in notes.read_text().splitlines()) if notes.exists() else ""
        if why is None:
            self.passed += 1
            print(f"ok   {each.name} ({seconds:.1f} s{more})", flush=True)
        else:
            self.failed += 1
            print(f"FAIL {each.name}: {why} ({seconds:.1f} s{more})", flush=True)
            self._show_ends(logs)

    @staticmethod
    def _show_ends(logs):
        for path in sorted(each for each in logs.rglob("*") if each.is_file()):
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
            for line in lines[-TAIL_LINES:]:
                print(f"     {path.relative_to(logs.parent)}: {line}")
        sys.stdout.flush()

    def close(self):
        """Says how many passed; returns the exit status."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        return 0 if self.passed > 0 and self.failed == 0 else 1


def run_all(checks, logs, stock):
    """Runs them in order, one line each, and returns the exit status."""
    results = Results(logs)
    stock.wait_until_ready()
    print(f"air up after {time.clock_gettime(time.CLOCK_BOOTTIME):.2f} s", flush=True)
    for each in checks:
        began = time.monotonic()
        why = _run(each, logs / each.name, stock)
        results.add(each, why, time.monotonic() - began, logs / each.name)
    return results.close()


def _run(each, logs, stock):
    """Returns None, or in a few words why the check failed."""
    logs.mkdir()
    if isinstance(each.scenario, dict):
        scenario = logs / "scenario.json"
        scenario.write_text(json.dumps(each.scenario, indent=2))
    else:
        scenario = DIRECTORY.parent / "Scenarios" / each.scenario
    for old in STORE.iterdir():
        subprocess.run(["rm", "-rf", "--", old], check=True)
    CGROUP.mkdir()
    try:
        lab = Lab(logs, scenario)
        air = stock.make(scenario, lab.air_socket, lab.air_log)
        (CGROUP / "cgroup.procs").write_text(str(air))
        return run_in_child(each, lab, logs, lambda: lab.set_up(each.start))
    finally:
        clear_away()


def run_in_child(each, lab, logs, set_up):
    """Runs a check, after `set_up`, in a process of its own in the cgroup. Returns None, or in a few words why it failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_the_check(each, lab, logs, set_up, writing)
    os.close(writing)
    return _verdict(reading, child, each.seconds)


def judge(take):
    """Takes a check, in its own process; returns "passed", the result of `take` instead, or in a line why it failed."""
    try:
        return take() or "passed"
    except CheckFailed as failure:
        traceback.print_exc()
        return str(failure)
    except BaseException as failure:
        traceback.print_exc()
        return f"{type(failure).__name__}: {failure}".splitlines()[0]


def _be_the_check(each, lab, logs, set_up, verdict):
    """The child: never returns."""
    (CGROUP / "cgroup.procs").write_text(str(os.getpid()))
    log = os.open(logs / "check.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)

    def take():
        set_up()
        each.function(lab)

    why = judge(take)
    sys.stdout.flush()
    os.write(verdict, why.encode())
    os._exit(0)


def _verdict(reading, child, seconds):
    seconds *= STANDSTILL
    with open(reading, "rb", buffering=0) as pipe:
        ready, _, _ = select.select([pipe], [], [], seconds)
        why = pipe.read(4096).decode() if ready else f"killed after {seconds:.0f} s"
    (CGROUP / "cgroup.kill").write_text("1")
    os.waitpid(child, 0)
    if why == "passed":
        return None
    return why or "the check's process died"


def clear_away():
    (CGROUP / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + NO_ADAPTER_SECONDS
    # There is no event to wait for in either case, and both take milliseconds.
    while "populated 1" in (CGROUP / "cgroup.events").read_text() or any(Path("/sys/class/bluetooth").glob("hci*")):
        if time.monotonic() > deadline:
            raise RuntimeError("processes or an adapter are left over from the last check")
        time.sleep(0.01)
    CGROUP.rmdir()
