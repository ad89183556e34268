"""What tests of programs need: a runner whose output stays in memory, and a look at what runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tocsin.adapters.memory.run_logs import MemoryRunLogs
from tocsin.adapters.targets.output import OutputLimits, OutputWriter
from tocsin.domain.executions import AttemptHead, Execution
from tocsin.ports.run_logs import LogChunk
from tocsin.ports.targets import Attempt, AttemptEnd, TargetRunner

ID = "acme@nightly.7.1760130000000000"
HEAD = AttemptHead(2, 41, 0, ID, "acme@nightly", "acme", 7, 1_760_130_000_000_000, 1_760_130_000_000_001)


class WallClock:
    def now(self) -> int:
        return time.time_ns() // 1000


class NoMeter:
    def output(self, kept_bytes: int, lost_bytes: int) -> None:
        """Counts nothing."""


class Bench:
    """A store for output, and its writer."""

    def __init__(self, **limits: int) -> None:
        self.store = MemoryRunLogs()
        self.logs = OutputWriter(self.store, WallClock(), NoMeter(), OutputLimits(**{"linger_s": 0.01, **limits}))  # type: ignore[arg-type]

    def chunks(self, head: AttemptHead = HEAD) -> list[LogChunk]:
        return asyncio.run(self.store.read_log(head.execution_id, head.attempt, None, 100_000))

    def text(self, head: AttemptHead = HEAD) -> str:
        """Return all output of an attempt that has ended."""
        wait_until(lambda: any(chunk.last for chunk in self.chunks(head)), "the output")
        return "".join(chunk.text for chunk in self.chunks(head))


def attempt(target: Any, *, ref: Any = "ref", redelivered: bool = False, head: AttemptHead = HEAD) -> Attempt:
    return Attempt(ref, Execution(head, b"", target), redelivered)


def end_of(runner: TargetRunner, one: Attempt) -> AttemptEnd:
    """Run one attempt to its end."""
    runner.start([one])
    return wait_for_end(runner)


def wait_for_end(runner: TargetRunner) -> AttemptEnd:
    ends: list[AttemptEnd] = []
    wait_until(lambda: bool(ends.extend(runner.ended()) or ends), "an end")
    (end,) = ends
    return end


def wait_until(done: Callable[[], bool], what: str, wait_s: float = 60.0) -> None:
    until = time.monotonic() + wait_s
    while not done():
        assert time.monotonic() < until, f"waited too long for {what}"
        time.sleep(0.005)


def running_with(mark: str) -> list[str]:
    """Return the command lines of processes whose environment holds a mark; zombies have none."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                if mark.encode() in (place / "environ").read_bytes():
                    found.append((place / "cmdline").read_bytes().decode().replace("\0", " "))
            except OSError:
                continue
    return found
