"""What an index row carries of its job's schedule and policies, so that firing and succeeding need no other row.

It is a text, the same for all jobs that share a schedule; decoding it is memoised, so a fleet costs one computation.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from tocsin.domain.alert_on import AT_FIRING, AlertOn, words_of
from tocsin.domain.catch_up import CATCH_UP_DEFAULT, CatchUp, CatchUpPolicy
from tocsin.domain.definitions import JobDefinition
from tocsin.domain.entries import Place
from tocsin.domain.errors import Undecodable
from tocsin.domain.instants import EARLIEST, LATEST, SECOND, Micros
from tocsin.domain.policies import Overlap
from tocsin.domain.recurrence import (
    Calendar,
    DstPolicy,
    EveryPlan,
    Recurrence,
    compile_cron,
    offset_in,
    uses_job_id,
    write_out,
)
from tocsin.domain.recurrence.dialect import EXPRESSION_CHARS_MAX
from tocsin.domain.schedules import Cron, Every, micros_of

PLANS_KEPT: Final = 16_384
"""Texts, and classes of texts, whose plans are kept: as many as compiled expressions."""
_TEXT: Final = re.compile(r"(\{.*\})?(?:\+([0-9]{1,14}))?", re.DOTALL)


class Passed(NamedTuple):
    """A range of occurrences whose time has passed."""

    first: Micros
    last: Micros
    size: int
    """How many there are, ``first`` and ``last`` included."""
    exact: bool
    """False: there are more than ``size``."""


@dataclass(frozen=True, slots=True)
class FiringPlan:
    """A job's schedule and policies as firing needs them.

    Attributes:
        recurrence: None for what fires once.
        overlap: whether it may fire while an execution of the job is active.
        misfire_after: later than this after its nominal time, an occurrence is missed, µs.
        start_at: no occurrence is before it, µs.
        end_at: no occurrence is after it, µs.
        offset: each occurrence is so much later than its recurrence says, µs: where in its window the job is due.
        catch_up: what happens to what was missed.
        grace: with ``skip``, what is not later than this still runs, µs; None: nothing that is past does.
        max_catch_up: with ``fire_all``, so many are run at most.
        max_duration: how long a run may take, µs; None: as long as its attempts do.
        alert_on: of which of the things that firing decides people are alerted.
    """

    recurrence: Recurrence | None = None
    overlap: Overlap = Overlap.SKIP
    misfire_after: Micros = int(CatchUpPolicy().misfire_after_s * SECOND)
    start_at: Micros = EARLIEST
    end_at: Micros = LATEST
    offset: Micros = 0
    catch_up: CatchUp = CatchUp.FIRE_ONCE
    grace: Micros | None = None
    max_catch_up: int = CatchUpPolicy().max_catch_up
    max_duration: Micros | None = None
    alert_on: tuple[AlertOn, ...] = ()

    def is_missed(self, scheduled_for: Micros, now: Micros) -> bool:
        """Tell whether it is too late for an occurrence to be simply run."""
        return now - scheduled_for > (self.misfire_after if self.grace is None else self.grace)

    def next_after(self, instant: Micros) -> Micros | None:
        """Return the first occurrence strictly after an instant, or None where there is none."""
        if self.recurrence is None:
            return None
        if instant < self.start_at:
            instant = self.start_at - 1
        at = self.recurrence.next_after(instant - self.offset)
        if at is None or at + self.offset > self.end_at:
            return None
        return at + self.offset

    def first_past(self, after: Micros, job_id: str, cursor: Place) -> Micros | None:
        """Return the first occurrence of a job after an instant whose row would stand past a cursor, or None."""
        at = self.next_after(max(after, cursor.run_at - 1))
        while at is not None and Place(at, job_id, at) <= cursor:
            at = self.next_after(at)
        return at

    def previous_before(self, instant: Micros) -> Micros | None:
        """Return the last occurrence strictly before an instant, or None where there is none."""
        if self.recurrence is None:
            return None
        at = self.recurrence.previous_before(min(instant, self.end_at + 1) - self.offset)
        return None if at is None or at + self.offset < self.start_at else at + self.offset

    def passed(self, after: Micros, upto: Micros, limit: int) -> Passed | None:
        """Return the range of occurrences after one instant, up to and including another, counted to about ``limit``.

        The range is exact, whatever the count is; None where it is empty.
        """
        first = self.next_after(after)
        if self.recurrence is None or first is None or first > upto:
            return None
        last = self.previous_before(upto + 1)
        last = first if last is None else max(first, last)
        counted = self.recurrence.count_between(first - 1 - self.offset, last - self.offset, limit)
        return Passed(first, last, *counted)


def plan_text(definition: JobDefinition, job_id: str, created_at: Micros) -> str:
    """Return the text that ``plan_of`` reads; empty for a one-off with default policies.

    What jobs share comes first, as JSON: their class. What a job's id decides is in it only as far as it must be: ``H``
    is written out, and an offset within a window follows the class.

    Args:
        definition: the job's.
        job_id: the job's, in full.
        created_at: the anchor of an interval that names none, µs.
    """
    schedule = definition.schedule
    plan: dict[str, Any] = {}
    if isinstance(schedule, Cron):
        plan["cron"], plan["tz"] = schedule.expression, schedule.timezone
        if uses_job_id(schedule.expression):
            plan["cron"] = write_out(schedule.expression, job_id)
            if len(plan["cron"]) > EXPRESSION_CHARS_MAX:
                plan["cron"], plan["by"] = schedule.expression, job_id
        if schedule.dst != DstPolicy():
            plan["dst"] = [schedule.dst.gap, schedule.dst.overlap]
        if schedule.calendar is not None:
            days = schedule.calendar.excluded
            plan["not"] = [days[0], *(day - before for before, day in pairwise(days))]
            if schedule.calendar.on_excluded != "skip":
                plan["instead"] = schedule.calendar.on_excluded
    elif isinstance(schedule, Every):
        plan["every"] = micros_of(schedule.every_s)
        plan["anchor"] = schedule.anchor_at if schedule.anchor_at is not None else created_at
    offset = 0
    if isinstance(schedule, Cron | Every):
        if schedule.start_at is not None:
            plan["start"] = schedule.start_at
        if schedule.end_at is not None:
            plan["end"] = schedule.end_at
        offset = offset_in(micros_of(schedule.spread_s), job_id)
    if definition.overlap is not Overlap.SKIP:
        plan["overlap"] = str(definition.overlap)
    if definition.max_duration_s is not None:
        plan["max_duration"] = micros_of(definition.max_duration_s)
    if wanted := [str(word) for word in definition.alert_on if word in AT_FIRING]:
        plan["alert_on"] = wanted
    plan |= _catch_up_texts(definition.catch_up)
    of_class = json.dumps(plan, separators=(",", ":"), sort_keys=True) if plan else ""
    return f"{of_class}+{offset}" if offset else of_class


def _catch_up_texts(policy: CatchUpPolicy) -> dict[str, Any]:
    """Return what firing must know of catching up, as far as it is not the default."""
    default = CATCH_UP_DEFAULT
    plan: dict[str, Any] = {}
    if policy.misfire_after_s != default.misfire_after_s:
        plan["misfire"] = micros_of(policy.misfire_after_s)
    if policy.mode is not default.mode:
        plan["catch_up"] = str(policy.mode)
    if policy.grace_s is not None:
        plan["grace"] = micros_of(policy.grace_s)
    if policy.max_catch_up != default.max_catch_up:
        plan["max_catch_up"] = policy.max_catch_up
    return plan


@lru_cache(maxsize=PLANS_KEPT)
def plan_of(text: str) -> FiringPlan:
    """Read what ``plan_text`` wrote.

    Raises:
        CronError: the zone data of this process does not know the schedule's zone.
    """
    if not text:
        return FiringPlan()
    match = _TEXT.fullmatch(text)
    if match is None:
        raise Undecodable(f"{text[:120]!r} is not a plan")
    plan = _plan_of_class(match[1] or "{}")
    return replace(plan, offset=int(match[2])) if match[2] else plan


@lru_cache(maxsize=PLANS_KEPT)
def _plan_of_class(text: str) -> FiringPlan:
    plan = json.loads(text)
    recurrence: Recurrence | None = None
    if "cron" in plan:
        dst = DstPolicy(*plan["dst"]) if "dst" in plan else DstPolicy()
        calendar = Calendar(tuple(accumulate(plan["not"])), plan.get("instead", "skip")) if "not" in plan else None
        recurrence = compile_cron(plan["cron"], plan["tz"], dst, plan.get("by"), calendar)
    elif "every" in plan:
        recurrence = EveryPlan(plan["every"], plan["anchor"])
    default = FiringPlan()
    return FiringPlan(
        recurrence,
        Overlap(plan.get("overlap", default.overlap)),
        plan.get("misfire", default.misfire_after),
        plan.get("start", default.start_at),
        plan.get("end", default.end_at),
        catch_up=CatchUp(plan.get("catch_up", default.catch_up)),
        grace=plan.get("grace"),
        max_catch_up=plan.get("max_catch_up", default.max_catch_up),
        max_duration=plan.get("max_duration"),
        alert_on=words_of(plan.get("alert_on", ())),
    )
