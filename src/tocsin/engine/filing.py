"""Filing: how a job's snapshot and its index row get into a step, and where on the time line a row may stand.

Nothing is filed at or before the cursor, which says that all up to it is decided.
"""

from __future__ import annotations

from dataclasses import replace
from sys import intern

from tocsin.domain import ids
from tocsin.domain.entries import Entry, EntryKey, Place
from tocsin.domain.executions import AttemptHead
from tocsin.domain.firing import FiringPlan, plan_text
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.schedules import Delay, Manual, RunAt
from tocsin.domain.shard_records import Void
from tocsin.domain.targets import lane_of
from tocsin.domain.timers import END_CHECK_FIRST, timer_of
from tocsin.engine.effects import Step
from tocsin.engine.held import HeldEntries
from tocsin.engine.outbox import Outbox
from tocsin.engine.shard_state import ShardState
from tocsin.engine.work import Work
from tocsin.engine.zone_rules import SHIFT_MAX, ZoneRules
from tocsin.ports.codec import RecordCodec
from tocsin.ports.schedule_store import JobRow
from tocsin.ports.shard_log import JOBS, NewRecord


class Filing:
    """Files for one shard."""

    def __init__(
        self,
        state: ShardState,
        zones: ZoneRules,
        outbox: Outbox,
        held: HeldEntries,
        work: Work,
        codec: RecordCodec,
    ) -> None:
        self._state = state
        self._zones = zones
        self._held = held
        self._outbox = outbox
        self._work = work
        self._codec = codec

    def plan(self, job: Job) -> FiringPlan:
        """Return how a job recurs."""
        return self._zones.plan(self.text(job))

    def text(self, job: Job) -> str:
        """Return what a job's rows carry of how it recurs."""
        return plan_text(job.definition, job.job_id, job.created_at)

    def late_or_on_time(self, job_id: str, version: int, scheduled_for: Micros) -> EntryKey:
        """Return the key of a one-off or first occurrence: at its time, or just past the cursor if that is decided."""
        cursor = self._state.cursor
        on_time = Place(scheduled_for, job_id, scheduled_for) > cursor
        return EntryKey(scheduled_for if on_time else cursor.run_at + 1, job_id, version, scheduled_for)

    def next_key(self, job: Job, command_at: Micros) -> EntryKey | None:
        """Return the key of a recurring job's first occurrence past the cursor and the command, or None.

        Where the cursor is behind, a late run may have stood for more than it has passed: that is decided as well.
        """
        after = max(command_at, self.decided_upto(job.job_id))
        scheduled_for = self.plan(job).first_past(after, job.job_id, self._state.cursor)
        if scheduled_for is None:
            return None
        return EntryKey(scheduled_for, job.job_id, job.version, scheduled_for)

    def passed_upto(self, job_id: str) -> Micros:
        """Return an instant past which nothing of a job is decided, but perhaps at the instant itself."""
        return max(self._state.cursor.run_at, self.decided_upto(job_id))

    def is_decided(self, job_id: str, scheduled_for: Micros) -> bool:
        """Tell whether a job's time line has passed an instant: by the cursor, or by a late run that stood for it."""
        is_passed = Place(scheduled_for, job_id, scheduled_for) <= self._state.cursor
        return is_passed or scheduled_for <= self.decided_upto(job_id)

    def decided_upto(self, job_id: str) -> Micros:
        """Return up to when a job's occurrences are decided wherever the cursor is: by a late run that stood for them,
        or before the job was paused."""
        void, named = self._state.voids.get(job_id), self._state.named.get(job_id)
        return max(void.decided_upto if void else 0, named.chosen_at if named else 0)

    def entry_of(self, job: Job, key: EntryKey) -> Entry:
        """Return the index row of a job's occurrence, with its execution ready to be sent."""
        execution_id = ids.execution_id(job.job_id, job.created_version, key.scheduled_for)
        head = AttemptHead(1, 0, 0, execution_id, job.job_id, job.tenant_id, key.version, key.scheduled_for, key.run_at)
        target = job.definition.target
        defined = job.definition
        execution = self._codec.encode_execution(
            head, target, defined.retry, delivery=defined.delivery, max_duration_s=defined.max_duration_s,
            alert_on=defined.alert_on,
        )  # fmt: skip
        return Entry(
            key.run_at,
            job.job_id,
            key.scheduled_for,
            key.version,
            execution_id,
            intern(job.tenant_id),
            lane_of(target),
            execution,
            intern(self.text(job)),
        )

    def row_of(self, job: Job, key: EntryKey) -> Entry:
        """Return the index row that a job's snapshot asks for at a key: of its occurrence, or of its timer."""
        return timer_of(job, key) if job.waits_for_timer else self.entry_of(job, key)

    def file(self, step: Step, job: Job, former: Job | None = None) -> bytes:
        """Put a job's new snapshot into a step, with its row, and shadow the rows of the former one.

        Returns:
            The encoded snapshot.
        """
        # All that may fail comes before anything is put into the step.
        snapshot = self._codec.encode_job(job)
        entry = self.row_of(job, job.entry) if job.entry is not None else None
        step.jobs.append(NewRecord(JOBS, self._state.shard, job.job_id, snapshot))
        step.snapshots.append(job)
        step.deletes.extend(job.replaced)
        deleted = job.state is JobState.DELETED
        step.job_rows.append(JobRow(job.job_id, job.version, None if deleted else snapshot))
        if entry is not None:
            step.inserts.append(entry)
        if former is not None:
            self._shadow(step, job, former)
            self._work.job_changed(step, job)
        self._outbox.file(step.number, job)
        return snapshot

    def replaced_by_next(self, former: Job) -> tuple[EntryKey, ...]:
        """Return the rows of a snapshot that the next one replaces and that are not known to be deleted."""
        present = self.present_key(former)
        return former.replaced + ((present,) if present is not None else ())

    def present_key(self, job: Job) -> EntryKey | None:
        """Return the key of a job's one row that is not decided, or None where it has none.

        A recurring job's rows follow from its schedule: the present one is the first past the cursor, the one that was
        named, or one that is held.
        """
        entry, cursor = job.entry, self._state.cursor
        if entry is None or entry.place > cursor:
            return entry
        if job.waits_for_timer:
            return None
        if (held := self.held_key(job)) is not None or isinstance(job.definition.schedule, RunAt | Delay):
            return held
        named = self._state.named.get(job.job_id)
        scheduled_for: Micros | None
        if named is None:
            scheduled_for = self._zones.following(self.text(job), job.job_id, entry.scheduled_for, entry.place)
        elif (scheduled_for := named.scheduled_for) is not None:
            place = Place(scheduled_for, job.job_id, scheduled_for)
            scheduled_for = self._zones.following(self.text(job), job.job_id, scheduled_for, place)
        if scheduled_for is None:
            return None
        return EntryKey(scheduled_for, job.job_id, entry.version, scheduled_for)

    def moved_key(self, job: Job, present: EntryKey | None) -> EntryKey | None:
        """Return where a job's row belongs by the zone data that count now: where it is, unless it was filed by others
        and its new time is still to come."""
        cursor = self._state.cursor
        if present is None or not self._zones.changing or present.place <= cursor or job.waits_for_timer:
            return present
        filed = present == job.entry
        moved = self._zones.moved(self.text(job), job.job_id, present.scheduled_for, present.version, by_version=filed)
        if moved is None or moved.at is None or Place(moved.at, job.job_id, moved.at) <= cursor:
            return present
        return present._replace(run_at=moved.at, scheduled_for=moved.at)

    def held_back(self, job: Job) -> Micros | None:
        """Return the first occurrence that a pause holds back, by the zone data that count now."""
        if job.pending is None or not self._zones.changing:
            return job.pending
        moved = self._zones.moved(self.text(job), job.job_id, job.pending, job.version, by_version=True)
        return job.pending if moved is None else moved.at

    def held_key(self, job: Job) -> EntryKey | None:
        """Return the key of a job's row that was due and is held, because commands of the job were parked; or None."""
        return self._held.key_of(job.job_id, job.entry.version) if job.entry is not None else None

    def present_entries(self, job: Job) -> tuple[Entry, ...]:
        """Return the rows that a job, by its latest snapshot, has past the cursor."""
        key = self.present_key(job)
        return () if key is None or key.place <= self._state.cursor else (self.row_of(job, key),)

    def end_check_of(self, job: Job) -> Entry | None:
        """Return a timer that looks for the end of an active job of which nothing is to come; None of any other.

        Its place is chosen anew each time, for the one that was set may be lost, and a second one harms nobody.
        """
        scheduled = not isinstance(job.definition.schedule, Manual)
        if job.state is not JobState.ACTIVE or not scheduled or self.present_key(job) is not None:
            return None
        at = self._state.cursor.run_at + END_CHECK_FIRST
        return timer_of(replace(job, finished_at=job.updated_at), EntryKey(at, job.job_id, job.version, at))

    def _shadow(self, step: Step, job: Job, former: Job) -> None:
        """Leave a void: rows, wheel entries, re-derived successors and names of an older version do not count."""
        present = self.present_key(former)
        until = present.place if present is not None else self._state.cursor
        # What the former void shadowed must stay shadowed: this one takes its place.
        older = self._state.voids.get(job.job_id)
        until = max([until, *(key.place for key in job.replaced), *([older.until] if older else [])])
        decided_upto = self.decided_upto(job.job_id)
        if former.state is JobState.ACTIVE and job.state is JobState.PAUSED:
            # The cursor passes a paused job without deciding anything of it, so from here on it does not tell.
            passed = self._state.cursor.run_at
            decided_upto = max(decided_upto, passed if job.pending is None else min(passed, job.pending - 1))
        until = max(until, Place.before(decided_upto + 1))
        if self._zones.changing and self._zones.concerns(self.text(former)):
            until = until._replace(run_at=until.run_at + SHIFT_MAX)
        void = Void(job.job_id, job.version, until, decided_upto)
        self._state.voids[job.job_id] = void
        self._state.named.pop(job.job_id, None)
        step.voids.append(void)
