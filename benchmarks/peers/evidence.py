"""What the handlers left behind, and the figures that follow from it. No process and no clock in here.

A handler appends one record of three little-endian 64-bit integers to a file by one write each, so that a worker
that is killed loses none: the job's number, when it started (ns since the epoch), and whether the handler was told
that its job may have run before.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

RECORD: Final = struct.Struct("<qqq")


class Start(NamedTuple):
    """One call of the handler."""

    number: int
    at_ns: int
    told: bool
    """The handler was told that its job may have run before."""


def started(path: Path) -> int:
    """Return how many starts a file holds, at the cost of one look at its size."""
    try:
        return path.stat().st_size // RECORD.size
    except FileNotFoundError:
        return 0


def read_starts(path: Path) -> list[Start]:
    """Return the starts in the order in which they were written; the end of a write that was cut off is none."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    whole = len(content) - len(content) % RECORD.size
    return [Start(number, at_ns, bool(told)) for number, at_ns, told in RECORD.iter_unpack(content[:whole])]


def lateness_ms(starts: Sequence[Start], due_ms: int) -> list[float]:
    """Return how late each job's first start was, earliest first; below zero: too early."""
    first: dict[int, int] = {}
    for start in starts:
        first[start.number] = min(start.at_ns, first.get(start.number, start.at_ns))
    return sorted(at_ns / 1e6 - due_ms for at_ns in first.values())


def burst_figures(starts: Sequence[Start], n: int, due_ms: int, ended: int, ended_at_s: float) -> dict[str, Any]:
    """Return what one burst showed.

    Args:
        ended: how many executions have a durable end.
        ended_at_s: when the last of these had it, Unix time.
    """
    late = lateness_ms(starts, due_ms)
    if not late:
        return {"started": 0, "completed": ended}
    took_s = ended_at_s - due_ms / 1000
    return {
        "started": len(late),
        "starts_per_s": _rate(len(late), late[-1] / 1000),
        "completed": ended,
        "completed_per_s": _rate(ended, took_s),
        "start_ms_p50": round(late[len(late) // 2], 1),
        "start_ms_p99": round(late[int(len(late) * 0.99)], 1),
        "start_ms_last": round(late[-1], 1),
        "early": sum(ms < 0 for ms in late),
        "repeats": len(starts) - len(late),
        "not_completed": n - ended,
    }


def kill_figures(
    starts: Sequence[Start],
    n: int,
    ended: Collection[int] | None,
    still_open: Collection[int],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Return what a worker that was killed in the middle, and replaced at once, led to.

    Args:
        ended: the jobs whose end is kept; None: nothing is kept of an end, and what was started and is no longer open
            counts as ended.
        still_open: the jobs that the store still holds as not ended.
        seconds: how long things took, and after which the count was made.
    """
    calls = Counter(start.number for start in starts)
    unended = set(still_open)
    over = set(ended) if ended is not None else calls.keys() - unended
    # In the order of the calls: only a job's first call may go without being told.
    seen: set[int] = set()
    unmarked = 0
    for start in sorted(starts, key=lambda start: start.at_ns):
        unmarked += start.number in seen and not start.told
        seen.add(start.number)
    return {
        "completed": len(over),
        "hanging": len(unended - over),
        "hanging_never_started": len(unended - over - calls.keys()),
        "lost": n - len(over | unended),
        "repeated": sum(count - 1 for count in calls.values()),
        "repeated_unmarked": unmarked,
        **{name: round(value, 1) for name, value in seconds.items()},
    }


def cpu_figures(before: Mapping[str, float], after: Mapping[str, float], completed: int) -> dict[str, float]:
    """Return the processor time of each process for each completed execution, µs."""
    if not completed:
        return {}
    return {f"cpu_us_{name}": round((after[name] - before[name]) / completed * 1e6, 1) for name in after}


def _rate(count: int, seconds: float) -> int:
    return round(count / seconds) if seconds > 0 else 0
