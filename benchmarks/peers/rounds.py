"""One round of a contestant: a burst that is worked to its end, or one whose worker is killed in the middle."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

from rich.console import Console

from benchmarks.peers.evidence import burst_figures, cpu_figures, kill_figures, lateness_ms, read_starts, started
from benchmarks.peers.programs import PeerFailed, tree_cpu_s
from benchmarks.peers.stage import Stage

START_S: Final = 30.0
"""A worker has so long between the insertion and the due time at least: to start, and to warm up."""
SPARE: Final = 1.5
INSERT_S: Final = 120.0
"""For the jobs that warm up."""
CALM_S: Final = 1.0
"""So long before the due time nothing else may go on, or the round says nothing."""
DRAIN_S: Final = 60.0
DRAIN_PER_S: Final = 100.0
"""The slowest is waited for: so long, and a second for so many jobs."""
LOOK_S: Final = 0.02
TAIL_LOOK_S: Final = 0.02
"""How exactly the time of the last end is known."""
AFTER_S: Final = 10.0
"""What is put off until the last end costs as well: so long is watched what else is done."""
SETTLE_S: Final = 60.0
"""After a kill all may take so long to go on; then is counted."""

console = Console()


class Contestant(Protocol):
    """Whatever is measured."""

    @property
    def name(self) -> str: ...

    @property
    def set_up(self) -> str:
        """How it is configured."""

    @property
    def worker_first(self) -> bool:
        """Tell whether its worker runs before jobs are inserted."""

    def stage(self, directory: Path) -> AbstractContextManager[Stage]:
        """Start it with empty servers in a directory."""


def burst(contestant: Contestant, n: int, warm: int) -> tuple[dict[str, Any], list[float]]:
    """Let one burst be worked to its end; return its figures, and how late each start was, ms."""
    with tempfile.TemporaryDirectory(prefix="peers-") as name, contestant.stage(Path(name)) as stage:
        due_ms, inserted_per_s = _prepare(contestant, stage, n, warm)
        before = _cpu_s(stage)
        until_s = due_ms / 1000 + DRAIN_S + n / DRAIN_PER_S
        _wait(lambda: started(stage.starts) >= warm + n, until_s, LOOK_S)
        left = n

        def all_ended() -> bool:
            nonlocal left
            left = stage.open_count(n)
            return left <= 0

        _wait(all_ended, until_s, TAIL_LOOK_S)
        ended_at_s = time.time()
        after = _cpu_s(stage)
        ended = stage.ended_numbers(n)
        completed = n - max(0, left) if ended is None else len(ended)
        starts = [start for start in read_starts(stage.starts) if start.number >= 0]
        figures = {
            **burst_figures(starts, n, due_ms, completed, ended_at_s),
            "inserts_per_s": round(inserted_per_s),
            **stage.further(n, due_ms),
            **cpu_figures(before, after, completed),
        }
        time.sleep(AFTER_S)
        afterwards = _cpu_s(stage)
        for what, used_us in cpu_figures(after, afterwards, completed).items():
            figures[f"{what}_in_ten_seconds_after"] = used_us
        return figures, lateness_ms(starts, due_ms)


def killed(contestant: Contestant, n: int, warm: int) -> dict[str, Any]:
    """Kill the worker in the middle of a burst, start another at once, and count after a while."""
    with tempfile.TemporaryDirectory(prefix="peers-") as name, contestant.stage(Path(name)) as stage:
        due_ms, _ = _prepare(contestant, stage, n, warm)
        until_s = due_ms / 1000 + DRAIN_S + n / DRAIN_PER_S
        _wait(lambda: started(stage.starts) >= warm + n // 2, until_s, 0.0)
        killed_at_s = time.time()
        at_kill = started(stage.starts) - warm
        stage.kill_worker()
        stage.start_worker()
        seen, last_s = 0, killed_at_s

        def all_ended() -> bool:
            nonlocal seen, last_s
            if (now := started(stage.starts)) != seen:
                seen, last_s = now, time.time()
            return stage.open_count(n) <= 0

        # What goes on is let go on: the time counts from the last start.
        while not all_ended() and time.time() < last_s + SETTLE_S and time.time() < until_s + SETTLE_S:
            time.sleep(0.25)
        counted_s = time.time() - killed_at_s
        starts = [start for start in read_starts(stage.starts) if start.number >= 0]
        seconds = {"last_start_s_after_kill": last_s - killed_at_s, "counted_s_after_kill": counted_s}
        counts = kill_figures(starts, n, stage.ended_numbers(n), stage.open_numbers(n), seconds)
        return {"started_at_kill": at_kill, **counts}


def _prepare(contestant: Contestant, stage: Stage, n: int, warm: int) -> tuple[int, float]:
    """Insert the jobs and start the worker; return when they are due, once that is near, and how many went in a second.

    The jobs that warm up go in first and tell how long the others will take.
    """
    if contestant.worker_first:
        stage.start_worker()
    began_s = time.time()
    stage.insert(0, warm, 0, INSERT_S)
    if contestant.worker_first:
        _wait(lambda: started(stage.starts) >= warm, began_s + INSERT_S, LOOK_S)
    per_job_s = (time.time() - began_s) / warm
    began_s = time.time()
    due_s = int(began_s + START_S + n * per_job_s * SPARE) + 1
    stage.insert(n, 0, due_s * 1000, due_s - began_s)
    took_s = time.time() - began_s
    console.print(f"{contestant.name}: {n:,} jobs inserted in {took_s:.1f} s, due in {due_s - time.time():.1f} s")
    if not contestant.worker_first:
        stage.start_worker()
    _wait(lambda: started(stage.starts) >= warm, due_s - CALM_S, LOOK_S)
    if started(stage.starts) < warm or time.time() > due_s - CALM_S:
        raise PeerFailed(f"{contestant.name} was not ready in time: {started(stage.starts)} of {warm} warmed up")
    _wait(lambda: False, due_s - CALM_S, LOOK_S)
    return due_s * 1000, n / took_s


def _cpu_s(stage: Stage) -> dict[str, float]:
    """Return the processor time that each of a contestant's processes has taken so far, with its children."""
    return {root: tree_cpu_s(pid) for root, pid in stage.processes().items()}


def _wait(holds: Callable[[], bool], until_s: float, look_s: float) -> None:
    """Wait for a condition, until a Unix time at the latest."""
    while not holds() and time.time() < until_s:
        time.sleep(look_s)
