"""What follows a fired occurrence: the next row of its job, and what was missed in between.

A successor is the first occurrence past the cursor. If the one that fired was late beyond its job's patience, all that
was missed is run by it, and its successor is the first after ``now``; since ``now`` does not come again, that choice
is kept by name until the schedule alone gives the same answer. After a takeover, successors that may be missing are
derived again: from the rows that fired, by the same rules.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tocsin.domain import ids
from tocsin.domain.entries import Entry, Place
from tocsin.domain.firing import FiringPlan, plan_of
from tocsin.domain.instants import Micros
from tocsin.domain.shard_records import NamedSuccessor
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import ExecutionCodec

MISSED_COUNTED_MAX: Final = 10_000
"""Missed occurrences are counted up to so many; the event's range says how far they reach."""
STEPS_MAX: Final = 1_000_000
"""No chain of occurrences between two watermarks is longer; a schedule has at most one a second."""


class Following(NamedTuple):
    """What follows an occurrence.

    Attributes:
        entry: the successor's row; None where the schedule has ended.
        name: the choice that must be kept, where ``now`` made it.
        skipped: the first and last nominal time, and the number, of what is not run; None where nothing is.
    """

    entry: Entry | None
    name: NamedSuccessor | None = None
    skipped: tuple[Micros, Micros, int] | None = None


class Successors:
    """Derives rows for one shard."""

    def __init__(self, state: ShardState, codec: ExecutionCodec) -> None:
        self._state = state
        self._codec = codec

    def follow(self, entry: Entry, now: Micros, cursor: Place) -> Following:
        """Return what follows an occurrence that is decided now.

        Args:
            entry: its row, of a recurring job.
            now: the step's.
            cursor: the one before this turn's fires.
        """
        plan = plan_of(entry.plan)
        if now - entry.scheduled_for > plan.misfire_after:
            scheduled_for = plan.next_after(max(now, cursor.run_at))
            name = NamedSuccessor(entry.job_id, entry.version, entry.scheduled_for, scheduled_for, now)
            skipped = _range(plan, entry.scheduled_for, scheduled_for, now)
            return Following(self._row(entry, scheduled_for), name, skipped)
        scheduled_for = plan.next_after(entry.scheduled_for)
        first = scheduled_for
        while scheduled_for is not None and Place(scheduled_for, entry.job_id, scheduled_for) <= cursor:
            scheduled_for = plan.next_after(max(scheduled_for, cursor.run_at - 1))
        skipped = None
        if first is not None and first != scheduled_for:
            skipped = _range(plan, entry.scheduled_for, scheduled_for, cursor.run_at)
        return Following(self._row(entry, scheduled_for), None, skipped)

    def derive_again(self, entry: Entry) -> Entry | None:
        """Return the present row of a job, given one at or before the cursor; None where it has none."""
        cursor, plan = self._state.cursor, plan_of(entry.plan)
        scheduled_for: Micros | None = entry.scheduled_for
        for _ in range(STEPS_MAX):
            if scheduled_for is None:
                return None
            scheduled_for = self._after(entry, plan, scheduled_for)
            if scheduled_for is not None and Place(scheduled_for, entry.job_id, scheduled_for) > cursor:
                return self._row(entry, scheduled_for)
        raise AssertionError("a schedule has at most one occurrence a second")

    def _after(self, entry: Entry, plan: FiringPlan, scheduled_for: Micros) -> Micros | None:
        name = self._state.named.get(entry.job_id)
        if name is not None and name.version == entry.version and name.after >= scheduled_for:
            return name.scheduled_for
        return plan.next_after(scheduled_for)

    def _row(self, entry: Entry, scheduled_for: Micros | None) -> Entry | None:
        """Return another row of the same job and version: the same execution under another head."""
        if scheduled_for is None:
            return None
        head, _ = self._codec.split_head(entry.execution)
        created_version = ids.parse_execution_id(entry.execution_id).created_version
        execution_id = ids.execution_id(entry.job_id, created_version, scheduled_for)
        head = head._replace(execution_id=execution_id, scheduled_for=scheduled_for, due_at=scheduled_for)
        return entry._replace(
            run_at=scheduled_for,
            scheduled_for=scheduled_for,
            execution_id=execution_id,
            execution=self._codec.rehead(entry.execution, head),
        )


def _range(
    plan: FiringPlan, after: Micros, successor: Micros | None, upto: Micros
) -> tuple[Micros, Micros, int] | None:
    """Return the occurrences after one that ran and before its successor, up to an instant."""
    end = upto if successor is None else min(upto, successor - 1)
    missed = plan.missed(after, end, MISSED_COUNTED_MAX)
    return (missed[0], missed[-1], len(missed)) if missed else None
