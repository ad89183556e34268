"""When a job is due: the schedules a definition may have, and the first occurrence of each.

Recurring schedules get rooms of their own; this one knows only one-offs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tocsin.domain.fields import FieldReader
from tocsin.domain.instants import LATEST, SECOND, Micros, format_rfc3339, parse_rfc3339

DELAY_S_MAX: Final = 3_200_000_000
"""A hundred years and a little."""
RUN_AT_REMEDY: Final = "give an RFC 3339 time with an offset between 1970 and 2199, such as 2026-10-11T02:00:00+05:30"
ONE_OFF_REMEDY: Final = "give exactly one of run_at (an RFC 3339 time with an offset) and delay_s (seconds)"

LATER: Final = {
    "cron": "recurring schedules",
    "timezone": "recurring schedules",
    "dst": "recurring schedules",
    "start_at": "recurring schedules",
    "end_at": "recurring schedules",
    "calendar": "calendars that exclude dates",
    "every_s": "recurring schedules",
    "anchor_at": "recurring schedules",
    "spread_s": "spreading a job inside a window",
}
"""Schedule fields of the contract that are refused by name until they work."""


@dataclass(frozen=True, slots=True)
class RunAt:
    """Fires once, at an instant."""

    at: Micros


@dataclass(frozen=True, slots=True)
class Delay:
    """Fires once, some time after the command that created the job was logged."""

    delay_s: int | float


Schedule = RunAt | Delay


def parse_schedule(job: FieldReader) -> Schedule | None:
    """Read the schedule of a job: under ``schedule``, or ``run_at`` / ``delay_s`` at the top level.

    Returns:
        The schedule, or None where faults were recorded.
    """
    inner = job.child("schedule", remedy=f"give an object; {ONE_OFF_REMEDY}")
    if inner is not None:
        inner.finish(("run_at", "delay_s"), LATER)
    given = [
        (reader, name)
        for reader in (job, inner)
        if reader
        for name in ("run_at", "delay_s")
        if reader.get(name) is not None
    ]
    if not given and not any(fault.field.startswith("schedule") for fault in job.faults):
        job.fault("schedule", job.get("schedule"), "names no time", ONE_OFF_REMEDY)
    if len(given) > 1:
        names = " and ".join(reader.path(name) for reader, name in given)
        job.fault("schedule", names, "is given more than once", ONE_OFF_REMEDY)
    if len(given) != 1:
        return None
    reader, name = given[0]
    return _parse_run_at(reader) if name == "run_at" else _parse_delay(reader)


def _parse_run_at(reader: FieldReader) -> RunAt | None:
    value = reader.get("run_at")
    if not isinstance(value, str):
        reader.fault("run_at", value, "is not an RFC 3339 time (bare numbers are not taken for times)", RUN_AT_REMEDY)
        return None
    try:
        return RunAt(parse_rfc3339(value))
    except ValueError as error:
        reader.fault("run_at", value, str(error), RUN_AT_REMEDY)
        return None


def _parse_delay(reader: FieldReader) -> Delay | None:
    delay = reader.number("delay_s", low=0, high=DELAY_S_MAX, unit="seconds")
    if delay is None:
        return None
    return Delay(int(delay) if delay == int(delay) else delay)


def first_occurrence(schedule: Schedule, command_at: Micros) -> Micros:
    """Return the nominal time of a schedule's first occurrence.

    Args:
        schedule: the schedule.
        command_at: the timestamp of the command's log record; delays count from it.

    Returns:
        Microseconds since the epoch. A delay counts as it is written in decimals (1.1 is 1,100,000 µs, though no
        double is exactly that), and what is finer than a microsecond is rounded up: never early.

    Raises:
        ValueError: the occurrence would lie after the year 2199.
    """
    if isinstance(schedule, RunAt):
        return schedule.at
    at = command_at + math.ceil(Decimal(str(schedule.delay_s)) * SECOND)
    if at > LATEST:
        raise ValueError(f"would fall after {format_rfc3339(LATEST)}")
    return at
