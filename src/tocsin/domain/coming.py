"""When a job will run next, worked out from its schedule and an instant. Whether it then does is its owner's word."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from tocsin.domain.definitions import JobDefinition
from tocsin.domain.firing import plan_of, plan_text
from tocsin.domain.instants import SECOND, Micros, format_rfc3339
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.recurrence import CronError, uses_job_id
from tocsin.domain.recurrence.zones import zone_timeline
from tocsin.domain.schedules import Cron, Manual

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def coming(definition: JobDefinition, job_id: str, created_at: Micros, after: Micros, limit: int) -> list[Micros]:
    """Return up to ``limit`` occurrences of a recurring job strictly after an instant; none of any other job.

    Args:
        definition: the job's.
        job_id: hashed into schedules that ask for it.
        created_at: the anchor of an interval that names none, µs.
        after: µs.
        limit: how many at most.

    Raises:
        CronError: the zone data of this process does not know the schedule's zone.
    """
    plan = plan_of(plan_text(definition, job_id, created_at))
    found: list[Micros] = []
    at = plan.next_after(after)
    while at is not None and len(found) < limit:
        found.append(at)
        at = plan.next_after(at)
    return found


def next_run_at(job: Job, now: Micros) -> Micros | None:
    """Return the nominal time of a job's next occurrence; None where none is to come, or it cannot be told.

    A snapshot names the occurrence that was next when it was made; for a recurring job the plan knows those after it.
    """
    if job.state is not JobState.ACTIVE or job.has_ended:
        return None
    filed = job.next_run_at(now)
    if filed is not None:
        return filed
    try:
        return next(iter(coming(job.definition, job.job_id, job.created_at, now, 1)), None)
    except CronError:
        return None


def needs_job_id(definition: JobDefinition) -> bool:
    """Tell whether a job's id decides when it is due: by ``H``, or by its place in a window."""
    schedule = definition.schedule
    if isinstance(schedule, Manual):
        return False
    return schedule.spread_s > 0 or (isinstance(schedule, Cron) and uses_job_id(schedule.expression))


def zone_of(definition: JobDefinition) -> str | None:
    """Return the name of the zone in whose wall clock a job is defined, None where it has none."""
    return definition.schedule.timezone if isinstance(definition.schedule, Cron) else None


def format_in_zone(instant: Micros, zone: str | None) -> str:
    """Write an instant by a zone's wall clock: ``2026-10-11T02:00:00+05:30``.

    It is in UTC where there is no zone or none known, and where the offset is not one of whole minutes: RFC 3339 cannot
    write that.
    """
    if zone is None:
        return format_rfc3339(instant)
    try:
        timeline = zone_timeline(zone)
    except CronError:
        return format_rfc3339(instant)
    offset_s = timeline.offsets[max(bisect_right(timeline.starts, instant // SECOND) - 1, 0)]
    if offset_s == 0 or offset_s % 60:
        return format_rfc3339(instant)
    moment = _EPOCH + timedelta(microseconds=instant)
    return moment.astimezone(timezone(timedelta(seconds=offset_s))).isoformat()
