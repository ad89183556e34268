"""Small programs that stand in for roles: they start in milliseconds and fail as they are told."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tocsin.dev.child import ChildSpec
from tocsin.dev.log_lines import ShownLine
from tocsin.devcluster.progress import ProgressReporter, SayOnly

SERVES = """
import json, os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
path = pathlib.Path(os.environ["READY"])
other = path.with_suffix(".new")
other.write_text(json.dumps({"pid": os.getpid(), "seen": os.environ.get("SEEN", "")}))
other.replace(path)
while True:
    time.sleep(0.05)
"""
DIES = "import sys; sys.exit('no such table: jobs')"
STUBBORN = SERVES.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")

WAIT_S = 60.0
"""Generous: it is a bound for a machine that is busy with other things."""


def spec_of(program: str, directory: Path, role: str = "worker") -> ChildSpec:
    """Return a child that runs a program, with its log and ready file in a directory."""
    ready_file = directory / "run" / f"{role}.json"
    environ = {**os.environ, "READY": str(ready_file)}
    return ChildSpec(role, (sys.executable, "-c", program), environ, directory / "logs" / f"{role}.log", ready_file)


class Listener:
    """An audience that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.logs: list[tuple[str, ShownLine]] = []
        self.calls: list[str] = []

    @property
    def progress(self) -> ProgressReporter:
        return SayOnly(self.lines.append)

    def said(self, text: str, *, bad: bool = False) -> None:
        self.lines.append(text)

    def logged(self, role: str, line: ShownLine) -> None:
        self.logs.append((role, line))

    def called(self, text: str) -> None:
        self.calls.append(text)


def until(holds: Callable[[], bool], step: Callable[[], None] = lambda: None) -> None:
    """Wait for a condition, stepping meanwhile."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        step()
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
