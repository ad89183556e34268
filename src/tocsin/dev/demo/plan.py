"""What the demonstration asks for. Pure: the clock's reading is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tocsin.domain.instants import SECOND, Micros

SPREAD: Final = 24
"""One-offs due one after another, to be watched."""
SPREAD_FIRST_S: Final = 3.0
SPREAD_STEP_S: Final = 0.5
BURST: Final = 1_000
"""One-offs due in the same second, unless another number is asked for."""
BURST_AFTER_S_MIN: Final = 10.0
BURST_AFTER_S_MAX: Final = 45.0
BURST_MARGIN_S: Final = 4.0
"""Between the last create, as foreseen, and the second that they are due."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A job to be created."""

    name: str
    due_at: Micros
    burst: bool


def spread_jobs(now: Micros) -> list[Wanted]:
    """Return the first jobs: one after another, from a few seconds ahead on."""
    first, step = now + int(SPREAD_FIRST_S * SECOND), int(SPREAD_STEP_S * SECOND)
    return [Wanted(f"spread-{number}", first + number * step, False) for number in range(SPREAD)]


def burst_jobs(now: Micros, creates_per_s: float, count: int = BURST) -> list[Wanted]:
    """Return the jobs due in one second, far enough ahead for all to be created before, at the rate measured."""
    ahead_s = BURST_MARGIN_S + count / max(creates_per_s, 1.0)
    ahead_s = min(BURST_AFTER_S_MAX, max(BURST_AFTER_S_MIN, ahead_s))
    due_at = -(-(now + int(ahead_s * SECOND)) // SECOND) * SECOND
    return [Wanted(f"burst-{number}", due_at, True) for number in range(count)]
