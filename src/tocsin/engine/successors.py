"""What follows a fired occurrence: the next row of its job, and what becomes of what was missed in between.

A successor is the first occurrence past the cursor. If the one at hand is late beyond its job's patience, its policy of
catching up decides about it and all that was missed since, and its successor is the first after ``now`` (or after the
grace before it); since ``now`` does not come again, that choice is kept by name until the schedule alone gives the same
answer. After a takeover, successors that may be missing are derived again: from the rows that fired, by the same rules.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tocsin.domain.catch_up import CatchUp, SkipReason
from tocsin.domain.entries import Entry, Place
from tocsin.domain.firing import FiringPlan, Passed
from tocsin.domain.instants import Micros
from tocsin.domain.recurrence import EveryPlan, Recurrence
from tocsin.domain.shard_records import NamedSuccessor
from tocsin.engine.shard_state import ShardState
from tocsin.engine.zone_rules import ZoneRules
from tocsin.ports.codec import ExecutionCodec

COUNTED_MAX: Final = 10_000
"""Where counting what was missed means walking, it ends there; the range is exact all the same."""
COUNTED_IN_A_STEP_MAX: Final = 50_000
"""Of all jobs together, in one step; jobs that share a schedule share the count."""
COUNTED_WHEN_USED_UP: Final = 10


class Skipped(NamedTuple):
    """A range that is not run, and why."""

    passed: Passed
    reason: SkipReason


class Following(NamedTuple):
    """What becomes of an occurrence, and what follows it.

    Attributes:
        entry: the successor's row; None where the schedule has ended.
        name: the choice that must be kept, where ``now`` made it.
        skipped: what is not run; it may begin with the occurrence at hand.
        runs: the occurrence at hand is to run now.
        backlog_upto: it does not run now, but it and all that was missed up to here are caught up with.
        overdue: what the occurrence at hand stands for that was due before it, by zone data that came too late.
        instead: the row of the time at which the occurrence at hand belongs, where the cursor has passed that: it is
            decided in its place, in this very turn, and what follows, follows that one.
    """

    entry: Entry | None
    name: NamedSuccessor | None = None
    skipped: Skipped | None = None
    runs: bool = True
    backlog_upto: Micros | None = None
    overdue: Passed | None = None
    instead: Entry | None = None


class Successors:
    """Derives rows for one shard."""

    def __init__(self, state: ShardState, zones: ZoneRules, codec: ExecutionCodec) -> None:
        self._state = state
        self._zones = zones
        self._codec = codec
        self._counted_at: Micros = 0
        self._counts: dict[tuple[Recurrence | None, Micros, Micros, Micros, Micros], Passed | None] = {}
        self._counting_left = COUNTED_IN_A_STEP_MAX

    def plan(self, text: str) -> FiringPlan:
        """Return what the plan of a row means."""
        return self._zones.plan(text)

    def follow(self, entry: Entry, now: Micros, cursor: Place) -> Following:
        """Return what becomes of an occurrence that is decided now, and what follows it.

        Args:
            entry: its row, with a plan.
            now: the step's.
            cursor: the one before this turn's fires.
        """
        plan = self._zones.plan(entry.plan)
        # A row that was filed late stands past times of its own job; what follows stands past the row, as it does for
        # whoever derives it again.
        cursor = max(cursor, Place(*entry[:3]))
        if (overdue := self._zones.overdue(entry)) is not None:
            passed = self.passed(plan, overdue[0] - 1, overdue[1], now)
            return self._follow(entry, plan, now, cursor)._replace(overdue=passed)
        if self._zones.is_too_early(entry):
            # Of former zone data, and not moved yet: it gives way to its new time.
            later = plan.next_after(entry.scheduled_for)
            moved = Skipped(with_first(entry.scheduled_for, None), SkipReason.MOVED)
            if later is not None and Place(later, entry.job_id, later) <= cursor:
                # It was held until that time had passed as well: nobody would come by a row there any more.
                return Following(None, skipped=moved, runs=False, instead=self.row(entry, later))
            return Following(self._row(entry, later), skipped=moved, runs=False)
        return self._follow(entry, plan, now, cursor)

    def _follow(self, entry: Entry, plan: FiringPlan, now: Micros, cursor: Place) -> Following:
        if plan.is_missed(entry.scheduled_for, now):
            return self._after_a_miss(entry, plan, now, cursor)
        first = following = plan.next_after(entry.scheduled_for)
        if first is not None and Place(first, entry.job_id, first) <= cursor:
            following = plan.first_past(first, entry.job_id, cursor)
        skipped = None
        if first != following:
            passed = self.passed(plan, entry.scheduled_for, _end(following, cursor.run_at), now)
            skipped = None if passed is None else Skipped(passed, SkipReason.MISSED)
        return Following(self._row(entry, following), None, skipped)

    def passed(self, plan: FiringPlan, after: Micros, upto: Micros, now: Micros) -> Passed | None:
        """Return the range of occurrences after one instant and up to another, counted within this step's bound."""
        if self._counted_at != now:
            self._counted_at, self._counting_left = now, COUNTED_IN_A_STEP_MAX
            self._counts.clear()
        after = max(after, plan.start_at - 1)
        key = (plan.recurrence, plan.offset, plan.end_at, after, upto)
        if key not in self._counts:
            limit = COUNTED_MAX if self._counting_left > 0 else COUNTED_WHEN_USED_UP
            self._counts[key] = passed = plan.passed(after, upto, limit)
            walked = passed is not None and not isinstance(plan.recurrence, EveryPlan)
            self._counting_left -= passed.size if passed is not None and walked else 1
        return self._counts[key]

    def derive_again(self, entry: Entry) -> Entry | None:
        """Return the present row of a job, given one at or before the cursor; None where it has none."""
        after, place = entry.scheduled_for, Place(*entry[:3])
        name = self._state.named.get(entry.job_id)
        if name is not None and name.version == entry.version and name.after >= after:
            if name.scheduled_for is None:
                return None
            after = name.scheduled_for
            place = Place(after, entry.job_id, after)
        # All that is between is decided: whoever fired it went through it, so the way need not be walked again.
        return self._row(entry, self._zones.following(entry.plan, entry.job_id, after, place))

    def _after_a_miss(self, entry: Entry, plan: FiringPlan, now: Micros, cursor: Place) -> Following:
        """Let the policy of catching up decide about a missed occurrence, and all of the past behind it."""
        runs = plan.catch_up is not CatchUp.SKIP
        if plan.recurrence is None:
            one = None if runs else Skipped(with_first(entry.scheduled_for, None), SkipReason.LATE)
            return Following(None, skipped=one, runs=runs)
        oldest = now if plan.grace is None else now - plan.grace - 1
        following = plan.first_past(max(oldest, entry.scheduled_for), entry.job_id, cursor)
        name = NamedSuccessor(entry.job_id, entry.version, entry.scheduled_for, following, now)
        row, end = self._row(entry, following), _end(following, max(now, cursor.run_at))
        if plan.catch_up is CatchUp.FIRE_ALL:
            return Following(row, name, runs=False, backlog_upto=end)
        reason = SkipReason.MISSED if runs else SkipReason.LATE
        passed = self.passed(plan, entry.scheduled_for, end, now)
        if not runs:
            passed = with_first(entry.scheduled_for, passed)
        return Following(row, name, None if passed is None else Skipped(passed, reason), runs)

    def plain_next(self, text: str, scheduled_for: Micros, now: Micros) -> Micros | None:
        """Return what ``follow`` would say that follows an occurrence, where that is all that it would say and the plan
        asks for nothing else at firing; None otherwise.

        Args:
            text: the plan's.
            scheduled_for: the nominal time of a row that stands there, so past the cursor, and what follows is too.
            now: the step's.
        """
        if self._zones.changing:
            return None
        plan = self._zones.plan(text)
        if plan.max_duration is not None or plan.alert_on or plan.is_missed(scheduled_for, now):
            return None
        return plan.next_after(scheduled_for)

    def _row(self, entry: Entry, scheduled_for: Micros | None) -> Entry | None:
        return None if scheduled_for is None else self.row(entry, scheduled_for)

    def row(self, entry: Entry, scheduled_for: Micros) -> Entry:
        """Return another row of the same job and version: the same execution under another head."""
        # Made for each occurrence of a recurring job that fires, so nothing is decoded for it.
        _, job_id, _, version, former_id, tenant_id, lane, execution, plan = entry
        _, created_version, _ = former_id.split(".", 2)
        execution_id = f"{job_id}.{created_version}.{scheduled_for}"
        execution = self._codec.at_another_time(execution, execution_id, scheduled_for)
        return Entry(scheduled_for, job_id, scheduled_for, version, execution_id, tenant_id, lane, execution, plan)


def with_first(first: Micros, passed: Passed | None) -> Passed:
    """Return a range that begins with one occurrence, and goes on with the range behind it, if there is one."""
    if passed is None:
        return Passed(first, first, 1, True)
    return passed._replace(first=first, size=passed.size + 1)


def _end(following: Micros | None, upto: Micros) -> Micros:
    """Return the end of what has passed before a successor."""
    return upto if following is None else min(upto, following - 1)
