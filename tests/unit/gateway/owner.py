"""An owner of all jobs, in a few lines: enough of its rules for a gateway to be told everything that it can be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tocsin.adapters.avro import AvroCodec
from tocsin.domain import ids
from tocsin.domain.coming import coming
from tocsin.domain.commands import Command, CommandOutcome, OutcomeDetail
from tocsin.domain.definitions import JobDefinition, parse
from tocsin.domain.entries import EntryKey
from tocsin.domain.errors import Fault
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.schedules import Delay, RunAt, one_off_at

CODEC = AvroCodec()


class Owner:
    """Decides each command at once.

    Attributes:
        rejecting: faults with which it rejects every create.
        running: ids of jobs with an active execution.
        jobs: those that stand.
        redriven: redrives that it accepted.
        paused_retries: tenants and shards' keys where retries are paused.
        cancels: cancels that it was sent; ``cancelled``: what it says of executions, by id, others have ended.
    """

    def __init__(self, now: Callable[[], Micros]) -> None:
        self._now = now
        self._decided = 0
        self.rejecting: tuple[Fault, ...] = ()
        self.running: set[str] = set()
        self.jobs: dict[str, Job] = {}
        self.redriven: list[Command] = []
        self.paused_retries: set[tuple[str, str]] = set()
        self.cancels: list[Command] = []
        self.cancelled: dict[str, OutcomeDetail] = {}

    def outcome_of(self, command: Command) -> CommandOutcome:
        """Decide a command."""
        assert command.command_id and command.job_id and command.tenant_id
        self._decided += 1
        version = ids.version_of(1, self._decided - 1)
        blank = CommandOutcome(
            command.command_id, command.kind, command.job_id, command.tenant_id, False, "", self._now()
        )
        if command.kind == "create":
            return self._create(command, blank, version)
        if command.kind == "resume_retries":
            place = (command.tenant_id, command.job_id)
            detail = OutcomeDetail.RESUMED if place in self.paused_retries else OutcomeDetail.UNCHANGED
            self.paused_retries.discard(place)
            return replace(blank, accepted=True, detail=detail)
        if command.kind == "cancel":
            self.cancels.append(command)
            detail = self.cancelled.get(command.execution_id or "", OutcomeDetail.ENDED)
            return replace(blank, accepted=detail is not OutcomeDetail.ENDED, detail=detail)
        job = self.jobs.get(command.job_id)
        if job is None or job.tenant_id != command.tenant_id:
            return replace(blank, detail=OutcomeDetail.NOT_FOUND)
        if command.if_version not in (None, job.version):
            return replace(blank, detail=OutcomeDetail.STALE_VERSION)
        decide = {
            "delete": self._delete,
            "update": self._update,
            "pause": self._pause,
            "resume": self._resume,
            "trigger": self._trigger,
            "redrive": self._redrive,
        }[command.kind]
        return decide(command, blank, version, job)

    def _create(self, command: Command, blank: CommandOutcome, version: int) -> CommandOutcome:
        if self.rejecting:
            return replace(blank, detail=OutcomeDetail.INVALID, faults=self.rejecting)
        assert command.job_id and command.tenant_id
        definition, now = parse(command.definition), self._now()
        standing = self.jobs.get(command.job_id)
        if standing is not None:
            same = standing.definition == definition
            detail = OutcomeDetail.EXISTED if same else OutcomeDetail.CONFLICT
            return self._accepted(blank, detail, standing) if same else replace(blank, detail=detail)
        job = Job(command.job_id, command.tenant_id, version, version, JobState.ACTIVE, now, now, definition, None)
        return self._accepted(blank, OutcomeDetail.CREATED, replace(job, entry=self._entry(job, version)))

    def _delete(self, command: Command, blank: CommandOutcome, version: int, job: Job) -> CommandOutcome:
        del self.jobs[job.job_id]
        fired = job.next_run_at(self._now()) is None
        detail = OutcomeDetail.ALREADY_FIRED if fired else OutcomeDetail.PREVENTED
        deleted = replace(job, state=JobState.DELETED, version=version)
        return replace(blank, accepted=True, detail=detail, version=version, job=CODEC.encode_job(deleted))

    def _update(self, command: Command, blank: CommandOutcome, version: int, job: Job) -> CommandOutcome:
        definition = parse(command.definition)
        once = isinstance(definition.schedule, RunAt | Delay)
        if once and job.next_run_at(self._now()) is None and isinstance(job.definition.schedule, RunAt | Delay):
            return replace(blank, detail=OutcomeDetail.FINISHED)
        changed = replace(job, definition=definition, version=version, updated_at=self._now())
        return self._accepted(blank, OutcomeDetail.UPDATED, replace(changed, entry=self._entry(changed, version)))

    def _pause(self, command: Command, blank: CommandOutcome, version: int, job: Job) -> CommandOutcome:
        if job.state is JobState.PAUSED:
            return self._accepted(blank, OutcomeDetail.UNCHANGED, job)
        paused = replace(job, state=JobState.PAUSED, paused_reason=command.reason, version=version, entry=None)
        return self._accepted(blank, OutcomeDetail.PAUSED, paused)

    def _resume(self, command: Command, blank: CommandOutcome, version: int, job: Job) -> CommandOutcome:
        if job.state is JobState.ACTIVE:
            return self._accepted(blank, OutcomeDetail.UNCHANGED, job)
        active = replace(job, state=JobState.ACTIVE, paused_reason=None, version=version)
        return self._accepted(blank, OutcomeDetail.RESUMED, replace(active, entry=self._entry(active, version)))

    def _trigger(self, command: Command, blank: CommandOutcome, version: int, job: Job) -> CommandOutcome:
        if job.job_id in self.running:
            return replace(blank, detail=OutcomeDetail.RUNNING)
        assert command.command_id
        name = ids.triggered_execution_id(job.job_id, job.created_version, self._now(), command.command_id)
        return replace(blank, accepted=True, detail=OutcomeDetail.TRIGGERED, version=job.version, execution_id=name)

    def _redrive(self, command: Command, blank: CommandOutcome, version: int, job: Job) -> CommandOutcome:
        if job.job_id in self.running:
            return replace(blank, detail=OutcomeDetail.RUNNING, faults=(Fault("execution_id", "x", "active", "wait"),))
        self.redriven.append(command)
        return replace(self._accepted(blank, OutcomeDetail.REDRIVEN, job), execution_id=command.execution_id)

    def _accepted(self, blank: CommandOutcome, detail: OutcomeDetail, job: Job) -> CommandOutcome:
        self.jobs[job.job_id] = job
        return replace(blank, accepted=True, detail=detail, version=job.version, job=CODEC.encode_job(job))

    def _entry(self, job: Job, version: int) -> EntryKey | None:
        at = first_occurrence(job.definition, job, self._now())
        return None if at is None else EntryKey(at, job.job_id, version, at)


def first_occurrence(definition: JobDefinition, job: Job, now: Micros) -> Micros | None:
    """Return the first nominal time of a definition that is in force from now on."""
    if isinstance(definition.schedule, RunAt | Delay):
        return one_off_at(definition.schedule, now, job.job_id)
    return next(iter(coming(definition, job.job_id, job.created_at, now, 1)), None)
