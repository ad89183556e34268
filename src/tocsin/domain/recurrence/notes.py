"""What the clock of a zone did to an occurrence: why it is not at the time that is named, or comes twice."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta
from typing import Final

from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.recurrence.plan import CronPlan

_SHOWN: Final = 3
"""So many wall times, or changes of the clock, are named one by one."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times have no zone


def notes_on(plan: CronPlan, at: Micros, asked_from: Micros) -> list[str]:
    """Return what is to be said of an occurrence; mostly nothing.

    Args:
        plan: whose occurrence it is.
        at: the occurrence, µs.
        asked_from: the occurrence before it, or the instant from which it was looked for, µs.
    """
    zone, at_s = plan.timeline, at // SECOND
    segment = max(bisect_right(zone.starts, at_s) - 1, 0)
    wall_s = at_s + zone.offsets[segment]
    made_up = not plan.fields.cadence and plan.dst.gap == "shift"
    found = []
    first = max(bisect_right(zone.starts, asked_from // SECOND), 1)
    for change in range(first, min(segment, first + _SHOWN - 1) + 1):
        low, high = zone.starts[change] + zone.offsets[change - 1], zone.starts[change] + zone.offsets[change]
        skipped = _matches(plan, low, high)
        if not skipped:
            continue
        names = " and ".join(_clock(at, wall_s if made_up else None) for at in skipped[:_SHOWN])
        verb = "do" if len(skipped) > 1 else "does"
        if not made_up:
            date = (_EPOCH + timedelta(seconds=skipped[0])).date()
            found.append(f"before it, {names} on {date} {verb} not exist and {verb} not count")
        elif zone.starts[change] == at_s:
            found.append(f"{_clock(wall_s, None)}, because {names} {verb} not exist that day")
    for other in (segment - 1, segment + 1):
        if 0 <= other < len(zone.starts):
            again = wall_s - zone.offsets[other]
            if zone.starts[other] <= again < zone.ends[other]:
                which = "second" if again < at_s else "first"
                found.append(f"the {which} of two times that the clock shows {_clock(wall_s, None)} that day")
    return found


def _matches(plan: CronPlan, low: int, high: int) -> list[int]:
    """Return the first matching wall times in [low, high), one more than are shown."""
    found: list[int] = []
    wall_s = plan.wall.at_or_after(low) if low < high else None
    while wall_s is not None and wall_s < high and len(found) <= _SHOWN:
        found.append(wall_s)
        wall_s = plan.wall.at_or_after(wall_s + 1)
    return found


def _clock(wall_s: int, beside: int | None) -> str:
    """Write a wall time, with its date where it is another one than that of a time beside it."""
    moment = _EPOCH + timedelta(seconds=wall_s)
    text = f"{moment:%H:%M:%S}" if wall_s % 60 else f"{moment:%H:%M}"
    other_day = beside is not None and beside // 86_400 != wall_s // 86_400
    return f"{moment:%Y-%m-%d} {text}" if other_day else text
