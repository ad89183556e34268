"""What becomes of occurrences that a command keeps from running: told in one event, or caught up with.

Their time passed while their job was paused, or before an edit or a delete that was decided before they were.

A paused job's snapshot names the first occurrence that the pause holds back; what follows it is the schedule's.
"""

from __future__ import annotations

from tocsin.domain.catch_up import CatchUp, OnResume, SkipReason
from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.firing import Passed
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.engine.catch_up import CatchUps, Missed
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.filing import Filing
from tocsin.engine.successors import Successors, with_first


class Pauses:
    """The ends of pauses of one shard."""

    def __init__(self, filing: Filing, dispatches: DispatchDesk, successors: Successors, catch_ups: CatchUps) -> None:
        self._filing = filing
        self._dispatches = dispatches
        self._successors = successors
        self._catch_ups = catch_ups

    def skip(self, step: Step, former: Job, upto: Micros, reason: SkipReason = SkipReason.PAUSED) -> None:
        """Publish what a paused job held back up to an instant, if it did; nothing of a job that is not paused."""
        first = self._filing.held_back(former)
        if former.state is JobState.PAUSED and first is not None and first <= upto:
            passed = self._passed(step, former, first, upto)
            self._dispatches.skip_range(
                step, self._row(former, first).execution, passed, reason, former.definition.alert_on
            )

    def overtaken(self, step: Step, former: Job, at: Micros, reason: SkipReason) -> None:
        """Publish what of an active recurring job was due, and not decided, when a command took it back; called before
        the new version is filed."""
        recurs = self._filing.plan(former).recurrence is not None
        present = self._filing.present_key(former) if recurs and former.state is JobState.ACTIVE else None
        upto = min(at, step.now)  # what our own clock has not come to was still to come
        if present is not None and present.scheduled_for <= upto:
            passed = self._passed(step, former, present.scheduled_for, upto)
            self._dispatches.skip_range(
                step, self._row(former, present.scheduled_for).execution, passed, reason, former.definition.alert_on
            )

    def end(self, step: Step, former: Job, job: Job, at: Micros) -> None:
        """Settle what a recurring job held back, now that it goes on; called once its new version is filed.

        Args:
            step: the one that resumes it.
            former: as it was paused.
            job: as it goes on.
            at: of the command.
        """
        first = self._filing.held_back(former)
        upto = max(at, step.now, self._filing.passed_upto(job.job_id))
        if job.entry is not None:
            upto = min(upto, job.entry.scheduled_for - 1)
        if first is None or first > upto:
            return
        policy, plan = job.definition.catch_up, self._filing.plan(job)
        if policy.on_resume is not OnResume.CATCH_UP:
            self.skip(step, former, upto)
            return
        most, rest = 1, SkipReason.MISSED
        if policy.mode is CatchUp.FIRE_ALL:
            most, rest = plan.max_catch_up, SkipReason.MAX_CATCH_UP
        elif policy.mode is CatchUp.SKIP:
            oldest = upto if plan.grace is None else max(step.now - plan.grace, first) - 1
            self.skip(step, former, min(oldest, upto), SkipReason.LATE)
            in_grace = plan.next_after(oldest)
            if in_grace is None or in_grace > upto:
                return
            first, most, rest = in_grace, plan.max_catch_up, SkipReason.MAX_CATCH_UP
        self._catch_ups.begin(step, Missed(self._row(job, first), upto, most, rest))

    def _passed(self, step: Step, job: Job, first: Micros, upto: Micros) -> Passed:
        """Return the range of what passed from one occurrence on; of a one-off, that alone."""
        return with_first(first, self._successors.passed(self._filing.plan(job), first, upto, step.now))

    def _row(self, job: Job, scheduled_for: Micros) -> Entry:
        return self._filing.entry_of(job, EntryKey(scheduled_for, job.job_id, job.version, scheduled_for))
