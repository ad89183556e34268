"""Timers: index rows that are no occurrences, but an owner's notes to itself about one of its jobs.

A timer is a row like any other: immutable, in the order of all rows, fired by the same cursor. It stands in a lane of
its own, which no worker reads, and holds no execution; a reader that does not know it sets it aside without harm.
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from tocsin.domain import ids
from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.errors import Undecodable
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.jobs import Job, JobState

TIMER_LANE: Final = "timer"
END_CHECK_FIRST: Final[Micros] = 10 * SECOND
"""How long after a job's last occurrence it is looked at whether everything of it has ended."""
END_CHECK_MAX: Final[Micros] = 3_600 * SECOND
"""While runs go on it is looked again, each time after twice as long, up to this."""


class TimerKind(StrEnum):
    """What a timer is for."""

    FINISH = "finish"
    """Nothing of the job is to come: once nothing of it runs, it is finished."""
    RESUME = "resume"
    """The job's pause is over."""
    REMOVE = "remove"
    """The job was finished long enough ago."""


class TimerNote(NamedTuple):
    """What a timer's row says beyond its key. ``wait``: of a check for the end, how long it has waited, µs."""

    kind: TimerKind
    wait: Micros = 0


def is_timer(entry: Entry) -> bool:
    """Tell a timer from an occurrence."""
    return entry.lane == TIMER_LANE


@lru_cache(maxsize=100)
def note_of(plan: str) -> TimerNote:
    """Read a timer's note.

    Raises:
        Undecodable: it is none.
    """
    try:
        fields = json.loads(plan)
        return TimerNote(TimerKind(fields["timer"]), int(fields.get("wait", 0)))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Undecodable(f"{plan[:100]!r} is no timer: {error}") from error


def timer_of(job: Job, key: EntryKey) -> Entry:
    """Return the row of the timer that a job's state asks for."""
    if job.state is JobState.PAUSED:
        note = TimerNote(TimerKind.RESUME)
    elif job.state is JobState.FINISHED:
        note = TimerNote(TimerKind.REMOVE)
    else:
        note = TimerNote(TimerKind.FINISH, END_CHECK_FIRST)
    execution_id = ids.execution_id(job.job_id, job.created_version, key.scheduled_for)
    return Entry(
        key.run_at,
        job.job_id,
        key.scheduled_for,
        key.version,
        execution_id,
        job.tenant_id,
        TIMER_LANE,
        b"",
        _text(note),
    )


def end_check(last: Entry, not_before: Micros) -> Entry:
    """Return the timer that follows a job's last occurrence, or a former check.

    Args:
        last: the row of that occurrence or check.
        not_before: an instant at or after which it is to be set, but for its wait, µs.
    """
    if last.lane == TIMER_LANE:
        wait = min(2 * note_of(last.plan).wait, END_CHECK_MAX)
        note = _text(TimerNote(TimerKind.FINISH, wait))
    else:
        wait, note = END_CHECK_FIRST, _FIRST_CHECK
    run_at = max(last.run_at, not_before) + wait
    # Made for each one-off that fires, so field by field: ``_replace`` costs three times as much.
    _, job_id, _, version, execution_id, tenant_id, *_ = last
    return Entry(run_at, job_id, run_at, version, execution_id, tenant_id, TIMER_LANE, b"", note)


def _text(note: TimerNote) -> str:
    fields: dict[str, object] = {"timer": str(note.kind)}
    if note.wait:
        fields["wait"] = note.wait
    return json.dumps(fields, separators=(",", ":"))


_FIRST_CHECK: Final = _text(TimerNote(TimerKind.FINISH, END_CHECK_FIRST))
