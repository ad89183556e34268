"""Pairs of an expression and a transition, judged against the oracle in both directions.

More of them than the suite takes: ``python -m tests.unit.recurrence.pairs 5000 [seed]``.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator

from tests.unit.recurrence.daemon import Daemon, Window, window_around
from tests.unit.recurrence.expressions import Expression, expression
from tests.unit.recurrence.zone_files import ODD_ZONES, transitions
from tocsin.domain.instants import SECOND
from tocsin.domain.recurrence import CronError, CronPlan, DstPolicy, compile_cron

HALF_WINDOW_MINUTES = 36 * 60


def walls_about(window: Window) -> list[int]:
    """Return wall times (seconds) around the jump in the middle of a window: what is skipped or shown twice."""
    middle = len(window.walls) // 2
    edges = window.walls[middle - 1 : middle + 1]
    assert edges[1] - edges[0] != 1
    low, high = min(edges), max(edges)
    spread = (low - 1, low, low + 1, (low + high) // 2, high - 1, high, high + 1)
    return [wall * window.step_s for wall in spread]


def pairs(count: int, seed: int) -> Iterator[tuple[str, int, Expression, Window]]:
    """Yield pairs; transitions are visited so that a window serves several expressions."""
    rng = random.Random(seed)
    per_window = 5
    for _ in range(-(-count // per_window)):
        zone = rng.choice(ODD_ZONES)
        at_s = rng.choice(transitions(zone))
        window = window_around(zone, at_s, HALF_WINDOW_MINUTES)
        walls = walls_about(window)
        for _ in range(per_window):
            yield zone, at_s, expression(rng, walls), window


def forward(plan: CronPlan, window: Window) -> list[int]:
    """Return the seconds at which a plan fires inside a window, asked forward."""
    first, end = window.judged
    found = plan.between(first * SECOND - 1, end * SECOND - 1, 1_000_000)
    return [at // SECOND for at in found]


def backward(plan: CronPlan, window: Window) -> list[int]:
    """Return the same, asked backward."""
    first, end = window.judged
    found = []
    at = plan.previous_before(end * SECOND)
    while at is not None and at >= first * SECOND:
        found.append(at // SECOND)
        at = plan.previous_before(at)
    return found[::-1]


def disagreement(zone: str, job: Expression, window: Window, expected: list[int], dst: DstPolicy) -> str | None:
    """Return what a plan has wrong in a window, or None."""
    try:
        plan = compile_cron(job.text, zone, dst)
    except CronError as error:
        return None if not job.has_dates() else f"{job.text!r} is refused: {error}"
    for direction, found in (("next", forward(plan, window)), ("prev", backward(plan, window))):
        if found != expected:
            wrong = sorted(set(found) ^ set(expected))
            return f"{job.text!r} in {zone} {dst} ({direction}): differs at {wrong[:4]} of {len(expected)}"
    return None


def main(count: int, seed: int) -> None:
    """Judge many pairs and print what came out."""
    tally: Counter[str] = Counter()
    for zone, _, job, window in pairs(count, seed):
        expected = Daemon(job, window).run()
        wrong = disagreement(zone, job, window, expected, DstPolicy())
        tally["pairs"] += 1
        tally["fires"] += len(expected)
        tally["cadence" if job.cadence else "fixed"] += 1
        tally["silent"] += not expected
        low, high = sorted(window.walls[len(window.walls) // 2 - 1 :][:2])
        tally["due within the jump"] += any(Daemon(job, window).matches(wall) for wall in range(low + 1, high + 1))
        if wrong:
            tally["wrong"] += 1
            print(wrong)
    print(dict(tally), f"in {len(ODD_ZONES)} zones")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
