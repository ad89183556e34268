"""The door of cron: text, zone and policy in, a plan out. Plans are shared by all who mean the same."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tocsin.domain.recurrence.calendars import Calendar
from tocsin.domain.recurrence.dialect import EXPRESSION_CHARS_MAX
from tocsin.domain.recurrence.errors import CronError
from tocsin.domain.recurrence.fields import CronFields
from tocsin.domain.recurrence.hashing import picked_by
from tocsin.domain.recurrence.parsing import check_text, parse_cron, uses_job_id
from tocsin.domain.recurrence.plan import DEFAULT_DST, CronPlan, DstPolicy
from tocsin.domain.recurrence.zones import NAME_CHARS_MAX, require_zone, zone_timeline

PLANS_MAX: Final = 16_384
"""Plans, and texts with their plans, that are kept: 5 KB each at most."""
CALENDAR_PLANS_MAX: Final = 4_096
"""Plans with calendars that are kept: 25 KB each at most."""
_GAPS: Final = ("shift", "skip")
_OVERLAPS: Final = ("first", "second", "both")


def compile_cron(
    expression: str,
    timezone: str,
    dst: DstPolicy = DEFAULT_DST,
    job_id: str | None = None,
    calendar: Calendar | None = None,
) -> CronPlan:
    """Compile a cron expression. Compiling the same again costs a look-up.

    Args:
        expression: five fields, six with seconds first, or a macro; see docs/cron.md.
        timezone: a name of the IANA zone database.
        dst: what a fixed-time job does where the clock changes.
        job_id: picks the numbers for ``H``; may be None where there is no ``H``.
        calendar: dates that are left out.

    Returns:
        The plan; one object for all expressions that mean the same in that zone.

    Raises:
        CronError: the expression, the zone or the policy is wrong.
    """
    _check_sizes(expression, timezone)
    plan = _compile(expression, timezone, dst, job_id if job_id is not None and uses_job_id(expression) else None)
    return plan if calendar is None else _with_calendar(plan, calendar)


def _check_sizes(expression: object, timezone: object) -> None:
    """Refuse what a cache must not even hash: other types than texts, and texts without bound."""
    if not isinstance(expression, str) or len(expression) > EXPRESSION_CHARS_MAX:
        check_text(expression)
    if not isinstance(timezone, str) or len(timezone) > NAME_CHARS_MAX:
        require_zone(timezone)


@lru_cache(maxsize=PLANS_MAX)
def _compile(expression: str, timezone: str, dst: DstPolicy, job_id: str | None) -> CronPlan:
    if dst.gap not in _GAPS:
        raise CronError("is not a policy for skipped times", f"give one of {', '.join(_GAPS)}", None, "dst", dst.gap)
    if dst.overlap not in _OVERLAPS:
        remedy = f"give one of {', '.join(_OVERLAPS)}"
        raise CronError("is not a policy for repeated times", remedy, None, "dst", dst.overlap)
    pick = None if job_id is None else picked_by(job_id)
    return _plan(parse_cron(expression, pick), require_zone(timezone), dst)


@lru_cache(maxsize=PLANS_MAX)
def _plan(fields: CronFields, timezone: str, dst: DstPolicy) -> CronPlan:
    return CronPlan(fields, timezone, zone_timeline(timezone), dst)


@lru_cache(maxsize=CALENDAR_PLANS_MAX)
def _with_calendar(plan: CronPlan, calendar: Calendar) -> CronPlan:
    return CronPlan(plan.fields, plan.timezone, zone_timeline(plan.timezone), plan.dst, calendar)
