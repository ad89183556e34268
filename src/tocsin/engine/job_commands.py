"""What each command does to a job. Everything that it leads to is put into the step.

Editing a job never fires it: only occurrences after the edit follow the new schedule. Only commands make versions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from tocsin.domain import ids
from tocsin.domain.catch_up import OnResume, SkipReason
from tocsin.domain.commands import Command, CommandKind, OutcomeDetail
from tocsin.domain.definitions import JobDefinition, parse, to_mapping, within_group
from tocsin.domain.entries import EntryKey
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.executions import AttemptHead
from tocsin.domain.fields import shown
from tocsin.domain.instants import Micros, parse_rfc3339
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.policies import Overlap
from tocsin.domain.schedules import RUN_AT_REMEDY, Delay, RunAt, micros_of, one_off_at
from tocsin.domain.targets import Target, lane_of, pool_of
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.filing import Filing
from tocsin.engine.index_rebuild import IndexRebuild
from tocsin.engine.job_ends import JobEnds
from tocsin.engine.overlap import REFUSED, Overlaps, Way, told_of
from tocsin.engine.own_commands import OwnNote
from tocsin.engine.pauses import Pauses
from tocsin.engine.shard_state import ShardState
from tocsin.engine.sweeps import Sweeps
from tocsin.engine.zone_change import ZoneChange
from tocsin.ports.codec import RecordCodec

_sorted_json: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command came to."""

    accepted: bool
    detail: OutcomeDetail
    job: Job | None = None
    snapshot: bytes | None = None
    execution_id: str | None = None
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """A command whose shard, tenant and job id are checked.

    Attributes:
        job_id: in full.
        version: the one that it makes.
        at: timestamp of its record, µs.
        command_id: the sender's, or the one that was derived.
    """

    command: Command
    command_id: str
    tenant_id: str
    job_id: str
    version: int
    at: Micros


class JobCommands:
    """The rules of one shard's jobs."""

    def __init__(
        self,
        state: ShardState,
        filing: Filing,
        dispatches: DispatchDesk,
        overlaps: Overlaps,
        sweeps: Sweeps,
        rebuild: IndexRebuild,
        pauses: Pauses,
        ends: JobEnds,
        zone_change: ZoneChange,
        codec: RecordCodec,
    ) -> None:
        self._ends = ends
        self._zone_change = zone_change
        self._state = state
        self._filing = filing
        self._dispatches = dispatches
        self._overlaps = overlaps
        self._sweeps = sweeps
        self._rebuild = rebuild
        self._pauses = pauses
        self._codec = codec

    def create(self, step: Step, order: Order, former: Job | None) -> Answer:
        """Create a job, or find that it exists. ``former`` is what stands under its id, a deleted one included."""
        definition = parse(order.command.definition or {})
        body_hash = hash_of(definition)
        replaced: tuple[EntryKey, ...] = ()
        if former is not None and former.state is not JobState.DELETED:
            if former.tenant_id == order.tenant_id and former.body_hash == body_hash:
                return Answer(True, OutcomeDetail.EXISTED, former, self._codec.encode_job(former))
            remedy = "use another id or key, or send the same body"
            fault = Fault("job_id", order.job_id, "another job stands under this id or key", remedy)
            return Answer(False, OutcomeDetail.CONFLICT, faults=(fault,))
        self._refuse_unknown_pool(definition.target)
        if former is not None:
            replaced = former.replaced
        # A create's first occurrence may be late, but is not lost.
        once_at = self._one_off_at(definition, order)
        job = Job(
            order.job_id,
            order.tenant_id,
            order.version,
            order.version,
            JobState.ACTIVE,
            order.at,
            order.at,
            definition,
            None if once_at is None else self._filing.late_or_on_time(order.job_id, order.version, once_at),
            replaced,
            body_hash,
        )
        if once_at is None and (first_at := self._filing.plan(job).next_after(order.at)) is not None:
            job = replace(job, entry=self._filing.late_or_on_time(job.job_id, job.version, first_at))
        return self._file(step, job, None, OutcomeDetail.CREATED)

    def update(self, step: Step, order: Order, former: Job) -> Answer:
        """Replace a job's definition; the occurrence at hand stays where the schedule is the same."""
        definition = parse(order.command.definition or {})
        if definition.idempotency_key not in (None, former.definition.idempotency_key):
            remedy = "leave idempotency_key out of updates"
            fault = Fault("definition.idempotency_key", "another key", "cannot be changed", remedy)
            raise InvalidInput([fault])
        definition = within_group(definition, former.definition.concurrency_group)
        definition = replace(definition, idempotency_key=former.definition.idempotency_key)
        if definition == former.definition:
            return self._unchanged(former)
        if pool_of(definition.target) != pool_of(former.definition.target):
            self._refuse_unknown_pool(definition.target)
        job = self._next_version(order, former, definition=definition)
        same_schedule = definition.schedule == former.definition.schedule
        one_off = isinstance(definition.schedule, RunAt | Delay)
        was_one_off = isinstance(former.definition.schedule, RunAt | Delay)
        if one_off and was_one_off and self._has_fired(former) and not same_schedule:
            remedy = "create another job"
            fault = Fault(
                "definition.schedule", "another time", "the job has fired, and cannot be given another time", remedy
            )
            return Answer(False, OutcomeDetail.FINISHED, faults=(fault,))
        if former.state is JobState.PAUSED:
            pending = self._filing.held_back(former)
            if not same_schedule:
                moved_to = self._edited_one_off(job, order) if one_off else None
                decided_upto = self._filing.decided_upto(job.job_id)
                pending = moved_to or self._filing.plan(job).next_after(max(order.at, decided_upto))
                self._pauses.skip(step, former, _upto(order, moved_to))
            job = replace(job, pending=pending, paused_until=former.paused_until)
            return self._file(step, self._timed(job), former, OutcomeDetail.UPDATED)
        held = self._filing.held_key(former) if same_schedule else None
        if held is not None:
            # It was due while this command waited, and both definitions have it.
            entry: EntryKey | None = self._filing.late_or_on_time(job.job_id, job.version, held.scheduled_for)
        elif same_schedule and one_off:
            entry = (
                None if self._has_fired(former) or former.entry is None else former.entry._replace(version=job.version)
            )
        elif one_off:
            moved_to = self._edited_one_off(job, order)
            entry = EntryKey(moved_to, job.job_id, job.version, moved_to)
            self._pauses.overtaken(step, former, _upto(order, moved_to), SkipReason.UPDATED)
        elif same_schedule:
            # What is due and not decided yet stays due: both definitions have it.
            present = self._filing.moved_key(former, self._filing.present_key(former))
            entry = None if present is None else present._replace(version=job.version)
        else:
            entry = self._filing.next_key(job, order.at)
            self._pauses.overtaken(step, former, order.at, SkipReason.UPDATED)
        return self._file(step, replace(job, entry=entry), former, OutcomeDetail.UPDATED)

    def pause(self, step: Step, order: Order, former: Job) -> Answer:
        """Stop a job's occurrences; what runs, and its retries, go on. ``until``: it resumes by itself."""
        reason, until = order.command.reason, _until(order)
        if former.state is JobState.FINISHED:
            fault = Fault("job_id", shown(former.job_id), "is finished: nothing of it is to come", "leave it")
            return Answer(False, OutcomeDetail.FINISHED, faults=(fault,))
        if former.state is JobState.PAUSED and former.paused_until == until:
            return self._unchanged(former)
        if former.state is JobState.PAUSED:
            reason = reason if reason is not None else former.paused_reason
            pending = self._filing.held_back(former)
            job = self._next_version(order, former, paused_reason=reason, paused_until=until, pending=pending)
            return self._file(step, self._timed(job), former, OutcomeDetail.PAUSED)
        present = self._filing.present_key(former) if not self._has_fired(former) else None
        present = self._filing.moved_key(former, present)
        pending = present.scheduled_for if present is not None else None
        job = self._next_version(
            order, former, state=JobState.PAUSED, paused_reason=reason, pending=pending, paused_until=until
        )
        return self._file(step, self._timed(job), former, OutcomeDetail.PAUSED)

    def resume(self, step: Step, order: Order, former: Job) -> Answer:
        """Let a job's occurrences go on: the next one after now. What passed in the pause is as ``on_resume`` says."""
        if former.state is not JobState.PAUSED:
            return self._unchanged(former)
        job = self._next_version(order, former, state=JobState.ACTIVE, paused_reason=None, pending=None)
        if isinstance(job.definition.schedule, RunAt | Delay):
            entry = self._resumed_one_off(job, former, order)
            answer = self._file(step, replace(job, entry=entry), former, OutcomeDetail.RESUMED)
            if entry is None:
                self._pauses.skip(step, former, order.at)
            return answer
        job = replace(job, entry=self._filing.next_key(job, order.at))
        # What was held back may be caught up with from here on.
        answer = self._file(step, job, former, OutcomeDetail.RESUMED, busy=former.pending is not None)
        self._pauses.end(step, former, job, order.at)
        return answer

    def trigger(self, step: Step, order: Order, former: Job) -> Answer:
        """Run a job now, under its overlap policy."""
        execution_id = ids.triggered_execution_id(former.job_id, former.created_version, order.at, order.command_id)
        if self._dispatches.is_active(execution_id):
            # The very command was sent twice.
            return Answer(True, OutcomeDetail.TRIGGERED, former, self._codec.encode_job(former), execution_id)
        head = AttemptHead(1, 0, 0, execution_id, former.job_id, former.tenant_id, former.version, order.at, order.at)
        target = former.definition.target
        defined, max_duration_s = former.definition, former.definition.max_duration_s
        execution = self._codec.encode_execution(
            head, target, defined.retry, delivery=defined.delivery, max_duration_s=max_duration_s,
            alert_on=defined.alert_on,
        )  # fmt: skip
        snapshot = self._codec.encode_job(former)
        way = self._overlaps.admit(step, execution_id, former.definition.overlap)
        if way in REFUSED:
            problem, remedy = told_of(way), "wait until it has ended, or choose another concurrency"
            fault = Fault("concurrency", former.definition.overlap, problem, remedy)
            return Answer(False, OutcomeDetail.RUNNING, faults=(fault,))
        if way is Way.BEHIND:
            self._overlaps.put_behind(step, execution_id, execution)
            return Answer(True, OutcomeDetail.QUEUED, former, snapshot, execution_id)
        stamp, lane = self._codec.stamp(1, step.number, 0), lane_of(target)
        duration = None if max_duration_s is None else micros_of(max_duration_s)
        self._dispatches.fire(step, stamp, former.tenant_id, former.job_id, execution_id, lane, execution, duration)
        return Answer(True, OutcomeDetail.TRIGGERED, former, snapshot, execution_id)

    def delete(self, step: Step, order: Order, former: Job) -> Answer:
        """Take a job back: its coming occurrences do not fire; what runs goes on."""
        finished = isinstance(former.definition.schedule, RunAt | Delay) and self._has_fired(former)
        job = self._next_version(order, former, state=JobState.DELETED, pending=None)
        self._pauses.skip(step, former, order.at)
        self._pauses.overtaken(step, former, order.at, SkipReason.DELETED)
        self._filing.file(step, job, former)
        if not finished:
            detail = OutcomeDetail.PREVENTED
        elif self._sweeps.is_waiting(former):
            detail = OutcomeDetail.RETRY_CANCELLED
        else:
            detail = OutcomeDetail.ALREADY_FIRED
        self._sweeps.delete(step, former)
        return Answer(True, detail, job)

    def rebuild_index(self, step: Step, order: Order) -> Answer:
        """Begin to write the shard's index anew; the state says how far it has come."""
        self._rebuild.begin(step, order.command_id)
        return Answer(True, OutcomeDetail.BEGUN)

    def report_moves(self, step: Step, order: Order) -> Answer:
        """Agree on the zone data; the state will say what their change has come to."""
        self._zone_change.report(step, order.command_id)
        return Answer(True, OutcomeDetail.AGREED)

    def by_owner(self, step: Step, order: Order, former: Job, note: OwnNote | None) -> Answer:
        """Carry out a command that the owner gave to itself."""
        assert note is not None, "others are refused as they are read"
        if former.state is JobState.DELETED or former.version != note.version:
            return Answer(True, OutcomeDetail.UNCHANGED, former)
        if note.kind == CommandKind.FINISH:
            job = self._ends.finish(step, former, order.version, order.at)
        elif note.kind == CommandKind.REMOVE:
            job = self._ends.remove(step, former, order.version, order.at)
        elif note.kind == CommandKind.MOVE:
            job = self._zone_change.move(step, former, order.version, order.at)
        else:
            reason = order.command.reason or "suspended"
            job = self._ends.suspend(step, former, order.version, order.at, reason, note)
        return Answer(True, OutcomeDetail.UPDATED if job else OutcomeDetail.UNCHANGED, job or former)

    def _refuse_unknown_pool(self, target: Target) -> None:
        if (fault := self._dispatches.pool_fault(target)) is not None:
            raise InvalidInput([fault])

    def _timed(self, job: Job) -> Job:
        """Return a paused job with the timer of its resumption, where it has one."""
        if job.paused_until is None:
            return job
        return replace(job, entry=self._filing.late_or_on_time(job.job_id, job.version, job.paused_until))

    def _next_version(self, order: Order, former: Job, **changes: object) -> Job:
        base = replace(
            former,
            version=order.version,
            updated_at=order.at,
            state=JobState.ACTIVE if former.state is JobState.FINISHED else former.state,
            entry=None,
            replaced=self._filing.replaced_by_next(former),
            paused_until=None,
            finished_at=None,
        )
        return replace(base, **changes)  # type: ignore[arg-type]

    def _resumed_one_off(self, job: Job, former: Job, order: Order) -> EntryKey | None:
        """Return where a one-off goes on after a pause; None where it has fired, or is to be skipped for it is late."""
        if former.pending is None:
            return None
        late = former.pending <= order.at
        if late and job.definition.catch_up.on_resume is OnResume.SKIP:
            return None
        return self._filing.late_or_on_time(job.job_id, job.version, former.pending)

    def _has_fired(self, job: Job) -> bool:
        """Tell whether a one-off's time line has passed it; a recurring job's never has."""
        if not isinstance(job.definition.schedule, RunAt | Delay):
            return False
        if job.state is JobState.PAUSED:
            return job.pending is None
        if job.has_ended:
            return True
        return self._filing.present_key(job) is None

    def _edited_one_off(self, job: Job, order: Order) -> Micros:
        """Return the time that an edit gives to what becomes, or stays, a one-off.

        Raises:
            InvalidInput: it is over. Under another schedule the job may have run at it, or have been told not to.
        """
        at = self._one_off_at(job.definition, order)
        assert at is not None, "the edit's schedule names one time"
        if at < order.at or self._filing.is_decided(job.job_id, at):
            remedy = "give a time to come, or trigger the job by hand"
            raise InvalidInput([Fault("schedule", "a time in the past", "is over, and an edit fires nothing", remedy)])
        return at

    def _one_off_at(self, definition: JobDefinition, order: Order) -> Micros | None:
        schedule = definition.schedule
        if not isinstance(schedule, RunAt | Delay):
            return None
        try:
            return one_off_at(schedule, order.at, order.job_id)
        except ValueError as error:
            raise InvalidInput([Fault("schedule.delay_s", "the delay", str(error), "give a shorter delay")]) from None

    def _file(self, step: Step, job: Job, former: Job | None, detail: OutcomeDetail, *, busy: bool = False) -> Answer:
        job = self._ends.settled(job, job.updated_at, busy=busy)
        snapshot = self._filing.file(step, job, former)
        allows = job.definition.overlap is Overlap.ALLOW
        if allows and former is not None and former.definition.overlap is not Overlap.ALLOW:
            self._sweeps.let_go(step, job)
        return Answer(True, detail, job, snapshot)

    def _unchanged(self, job: Job) -> Answer:
        return Answer(True, OutcomeDetail.UNCHANGED, job, self._codec.encode_job(job))


def _upto(order: Order, moved_to: Micros | None) -> Micros:
    """Return up to when an edit tells what of the former schedule does not run: short of the time at which it does."""
    return order.at if moved_to is None else min(order.at, moved_to - 1)


def _until(order: Order) -> Micros | None:
    """Return when a paused job is to resume by itself.

    Raises:
        InvalidInput: that is no time, or over.
    """
    text = order.command.until
    if text is None:
        return None
    try:
        until = parse_rfc3339(text)
    except ValueError as error:
        raise InvalidInput([Fault("until", shown(text[:64]), str(error), RUN_AT_REMEDY)]) from None
    if until <= order.at:
        raise InvalidInput([Fault("until", shown(text), "is over", "give a time to come, or leave it out")])
    return until


def hash_of(definition: JobDefinition) -> str:
    """Return a hash that tells whether two bodies ask for the same job."""
    return blake2b(_sorted_json(to_mapping(definition)).encode(), digest_size=16).hexdigest()
