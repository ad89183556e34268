"""When a job is due: the schedules that a definition may have, and their validation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, cast

from tocsin.domain.exclusions import parse_calendar
from tocsin.domain.fields import FieldReader
from tocsin.domain.instants import LATEST, SECOND, Micros, format_rfc3339, parse_rfc3339
from tocsin.domain.recurrence import (
    Calendar,
    CronError,
    DstPolicy,
    check_for_all,
    compile_cron,
    offset_in,
    require_zone,
    uses_job_id,
)

DELAY_S_MAX: Final = 3_200_000_000
"""A hundred years and a little."""
EVERY_S_MAX: Final = DELAY_S_MAX
SPREAD_S_MAX: Final = 86_400
"""A day: beyond it a job would be due on another date than its schedule says."""
RUN_AT_REMEDY: Final = "give an RFC 3339 time with an offset between 1970 and 2199, such as 2026-10-11T02:00:00+05:30"
ONE_REMEDY: Final = "give exactly one of cron (with timezone), every_s, run_at and delay_s"

KINDS: Final = ("cron", "every_s", "run_at", "delay_s")
"""The fields of which exactly one says what kind of schedule it is."""
COMPANIONS: Final = {
    "cron": ("timezone", "dst", "start_at", "end_at", "calendar", "spread_s"),
    "every_s": ("anchor_at", "start_at", "end_at", "spread_s"),
    "run_at": ("spread_s",),
    "delay_s": ("spread_s",),
}
"""The fields that go with each of them."""
_ALL_COMPANIONS: Final = sorted({name for companions in COMPANIONS.values() for name in companions})


@dataclass(frozen=True, slots=True)
class RunAt:
    """Fires once, at an instant.

    Attributes:
        spread_s: the job is due up to so much later, as its id decides.
    """

    at: Micros
    spread_s: int | float = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Fires once, some time after the command that created the job was logged; ``spread_s`` as for ``RunAt``."""

    delay_s: int | float
    spread_s: int | float = 0


@dataclass(frozen=True, slots=True)
class Cron:
    """Fires whenever the wall clock of a zone matches.

    Attributes:
        dst: what happens at wall times that do not exist, or exist twice.
        start_at: nothing before it.
        end_at: nothing after it.
        calendar: dates that are left out.
        spread_s: each occurrence is so much later, as the job's id decides; the bounds hold for the later times.
    """

    expression: str
    timezone: str
    dst: DstPolicy = DstPolicy()
    start_at: Micros | None = None
    end_at: Micros | None = None
    calendar: Calendar | None = None
    spread_s: int | float = 0


@dataclass(frozen=True, slots=True)
class Every:
    """Fires at the anchor and every so often after it.

    Attributes:
        anchor_at: None: when the job was created.
        start_at, end_at, spread_s: as for ``Cron``.
    """

    every_s: int | float
    anchor_at: Micros | None = None
    start_at: Micros | None = None
    end_at: Micros | None = None
    spread_s: int | float = 0


@dataclass(frozen=True, slots=True)
class Manual:
    """Fires only when it is triggered by hand."""


Schedule = RunAt | Delay | Cron | Every | Manual
OneOff = RunAt | Delay


def parse_schedule(job: FieldReader) -> Schedule | None:
    """Read the schedule of a job: under ``schedule``, or ``run_at`` / ``delay_s`` at the top level.

    Returns:
        The schedule, ``Manual`` where none is given, or None where faults were recorded.
    """
    before = len(job.faults)
    inner = job.child("schedule", remedy=f"give an object; {ONE_REMEDY}")
    given = [(job, name) for name in ("run_at", "delay_s") if job.get(name) is not None]
    if inner is not None:
        given += [(inner, name) for name in KINDS if inner.get(name) is not None]
        inner.finish([*KINDS, *_ALL_COMPANIONS], {})
    if len(given) > 1:
        names = " and ".join(reader.path(name) for reader, name in given)
        job.fault("schedule", names, "is given more than once", ONE_REMEDY)
    if inner is not None and not given and len(job.faults) == before:
        job.fault("schedule", job.get("schedule"), "names no time", f"{ONE_REMEDY}, or leave schedule out")
    if len(job.faults) > before:
        return None
    if not given:
        return Manual()
    reader, name = given[0]
    if inner is not None:
        _refuse_companions_of_others(inner, name)
    if reader is not job and job.get("spread_s") is not None:
        job.fault("spread_s", job.get("spread_s"), "stands beside schedule", "give it inside schedule")
    parse = {"cron": _parse_cron, "every_s": _parse_every, "run_at": _parse_run_at, "delay_s": _parse_delay}[name]
    schedule = parse(reader)
    return schedule if len(job.faults) == before else None


def _refuse_companions_of_others(inner: FieldReader, kind: str) -> None:
    for name in _ALL_COMPANIONS:
        if name not in COMPANIONS[kind] and inner.get(name) is not None:
            owners = " and ".join(owner for owner, companions in COMPANIONS.items() if name in companions)
            inner.fault(name, inner.get(name), f"goes with {owners}, not with {kind}", "leave the field out")


def _parse_instant(reader: FieldReader, name: str) -> Micros | None:
    value = reader.get(name)
    if not isinstance(value, str):
        reader.fault(name, value, "is not an RFC 3339 time (bare numbers are not taken for times)", RUN_AT_REMEDY)
        return None
    try:
        return parse_rfc3339(value)
    except ValueError as error:
        reader.fault(name, value, str(error), RUN_AT_REMEDY)
        return None


def _parse_run_at(reader: FieldReader) -> RunAt | None:
    at = _parse_instant(reader, "run_at")
    spread = _parse_spread(reader)
    return None if at is None else RunAt(at, spread)


def _parse_delay(reader: FieldReader) -> Delay | None:
    delay = reader.number("delay_s", low=0, high=DELAY_S_MAX, unit="seconds")
    spread = _parse_spread(reader)
    return None if delay is None else Delay(_plain(delay), spread)


def _parse_every(reader: FieldReader) -> Every | None:
    every = reader.number("every_s", low=1, high=EVERY_S_MAX, unit="seconds")
    anchor = _parse_instant(reader, "anchor_at") if reader.get("anchor_at") is not None else None
    start_at, end_at = _parse_bounds(reader)
    spread = _parse_spread(reader)
    return None if every is None else Every(_plain(every), anchor, start_at, end_at, spread)


def _parse_spread(reader: FieldReader) -> int | float:
    spread = reader.number("spread_s", low=0, high=SPREAD_S_MAX, unit="seconds")
    return 0 if spread is None else _plain(spread)


def _parse_bounds(reader: FieldReader) -> tuple[Micros | None, Micros | None]:
    """Read the instants between which a schedule holds, both included."""
    start_at = _parse_instant(reader, "start_at") if reader.get("start_at") is not None else None
    end_at = _parse_instant(reader, "end_at") if reader.get("end_at") is not None else None
    if start_at is not None and end_at is not None and end_at < start_at:
        reader.fault("end_at", reader.get("end_at"), "is before start_at", "give a time at or after start_at")
    return start_at, end_at


def _parse_cron(reader: FieldReader) -> Cron | None:
    expression = reader.text("cron", chars_max=256)
    timezone = reader.text("timezone", chars_max=64, required=True, remedy='give an IANA zone such as "Asia/Kolkata"')
    start_at, end_at = _parse_bounds(reader)
    calendar = parse_calendar(reader)
    spread = _parse_spread(reader)
    dst = _parse_dst(reader)
    if expression is None or timezone is None or dst is None:
        return None
    try:
        if uses_job_id(expression):
            # The job may have no id yet: what is said here must hold for any.
            require_zone(timezone)
            check_for_all(expression)
        else:
            compile_cron(expression, timezone, dst)
    except CronError as error:
        where = "" if error.position is None else f" (at character {error.position + 1})"
        reader.fault(error.field, reader.get(error.field), f"{error.problem}{where}", error.remedy)
        return None
    return Cron(expression, timezone, dst, start_at, end_at, calendar, spread)


def _parse_dst(reader: FieldReader) -> DstPolicy | None:
    inner = reader.child("dst", remedy='give an object such as {"gap": "shift", "overlap": "first"}')
    if inner is None:
        return DstPolicy()
    inner.finish(("gap", "overlap"), {})
    gap = inner.choice("gap", ("shift", "skip"), default="shift")
    overlap = inner.choice("overlap", ("first", "second", "both"), default="first")
    if gap is None or overlap is None:
        return None
    return DstPolicy(cast(Literal["shift", "skip"], gap), cast(Literal["first", "second", "both"], overlap))


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number


def micros_of(seconds: float) -> Micros:
    """Return seconds as microseconds, counted as they are written in decimals: 1.1 is 1,100,000 µs.

    No double is exactly that; what is finer than a microsecond is rounded up: never early.
    """
    return math.ceil(Decimal(str(seconds)) * SECOND)


def one_off_at(schedule: OneOff, command_at: Micros, job_id: str) -> Micros:
    """Return the nominal time of a one-off.

    Args:
        schedule: the schedule.
        command_at: the timestamp of the command's log record; delays count from it.
        job_id: the job's, in full; it decides where in ``spread_s`` the job is due.

    Raises:
        ValueError: it would lie after the year 2199.
    """
    at = schedule.at if isinstance(schedule, RunAt) else command_at + micros_of(schedule.delay_s)
    at += offset_in(micros_of(schedule.spread_s), job_id)
    if at > LATEST:
        raise ValueError(f"would fall after {format_rfc3339(LATEST)}")
    return at
