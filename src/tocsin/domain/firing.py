"""What an index row carries of its job's schedule and policies, so that firing and succeeding need no other row.

It is a text, the same for all jobs that share a schedule; decoding it is memoised, so a fleet costs one computation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

from tocsin.domain.definitions import JobDefinition
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.policies import MISFIRE_AFTER_S_DEFAULT, Overlap
from tocsin.domain.recurrence import DstPolicy, EveryPlan, compile_cron
from tocsin.domain.schedules import Cron, Every, micros_of

PLANS_KEPT: Final = 100_000


class Recurrence(Protocol):
    """Times without end, or until the year 2199."""

    def next_after(self, instant: Micros) -> Micros | None:
        """Return the first time strictly after an instant."""
        ...

    def between(self, after: Micros, upto: Micros, limit: int) -> list[Micros]:
        """Return up to ``limit`` times after one instant, up to and including another."""
        ...


@dataclass(frozen=True, slots=True)
class FiringPlan:
    """A job's schedule and policies as firing needs them.

    Attributes:
        recurrence: None for what fires once.
        overlap: whether it may fire while an execution of the job is active.
        misfire_after: later than this after its nominal time, an occurrence is missed, µs.
        start_at: no occurrence is before it, µs.
    """

    recurrence: Recurrence | None = None
    overlap: Overlap = Overlap.SKIP
    misfire_after: Micros = int(MISFIRE_AFTER_S_DEFAULT * SECOND)
    start_at: Micros = 0

    def next_after(self, instant: Micros) -> Micros | None:
        """Return the first occurrence strictly after an instant, or None where there is none."""
        if self.recurrence is None:
            return None
        return self.recurrence.next_after(max(instant, self.start_at - 1))

    def missed(self, after: Micros, upto: Micros, limit: int) -> list[Micros]:
        """Return up to ``limit`` occurrences after one instant, up to and including another."""
        if self.recurrence is None:
            return []
        return self.recurrence.between(max(after, self.start_at - 1), upto, limit)


def plan_text(definition: JobDefinition, created_at: Micros) -> str:
    """Return the text that ``plan_of`` reads; empty for a one-off with default policies.

    Args:
        definition: the job's.
        created_at: the anchor of an interval that names none, µs.
    """
    schedule = definition.schedule
    plan: dict[str, Any] = {}
    if isinstance(schedule, Cron):
        plan["cron"], plan["tz"] = schedule.expression, schedule.timezone
        if schedule.dst != DstPolicy():
            plan["dst"] = [schedule.dst.gap, schedule.dst.overlap]
        if schedule.start_at is not None:
            plan["start"] = schedule.start_at
    elif isinstance(schedule, Every):
        plan["every"] = micros_of(schedule.every_s)
        plan["anchor"] = schedule.anchor_at if schedule.anchor_at is not None else created_at
    if definition.overlap is not Overlap.SKIP:
        plan["overlap"] = str(definition.overlap)
    if definition.misfire_after_s != MISFIRE_AFTER_S_DEFAULT:
        plan["misfire"] = micros_of(definition.misfire_after_s)
    return json.dumps(plan, separators=(",", ":"), sort_keys=True) if plan else ""


@lru_cache(maxsize=PLANS_KEPT)
def plan_of(text: str) -> FiringPlan:
    """Read what ``plan_text`` wrote.

    Raises:
        CronError: the zone data of this process does not know the schedule's zone.
    """
    if not text:
        return FiringPlan()
    plan = json.loads(text)
    recurrence: Recurrence | None = None
    if "cron" in plan:
        dst = DstPolicy(*plan["dst"]) if "dst" in plan else DstPolicy()
        recurrence = compile_cron(plan["cron"], plan["tz"], dst)
    elif "every" in plan:
        recurrence = EveryPlan(plan["every"], plan["anchor"])
    default = FiringPlan()
    return FiringPlan(
        recurrence,
        Overlap(plan.get("overlap", default.overlap)),
        plan.get("misfire", default.misfire_after),
        plan.get("start", 0),
    )
