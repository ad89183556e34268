"""How jobs end: finished when nothing is to come and nothing runs, removed later; and how an owner suspends one."""

from __future__ import annotations

from dataclasses import replace

from tocsin.domain.entries import EntryKey
from tocsin.domain.instants import LATEST, SECOND, Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.schedules import Manual
from tocsin.domain.timers import END_CHECK_FIRST
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.filing import Filing
from tocsin.engine.own_commands import OwnNote
from tocsin.engine.work import Work


class JobEnds:
    """The ends of one shard's jobs. Each handler of an own command changes nothing of another version of its job."""

    def __init__(self, filing: Filing, dispatches: DispatchDesk, work: Work) -> None:
        self._filing = filing
        self._dispatches = dispatches
        self._work = work

    def settled(self, job: Job, at: Micros, *, busy: bool = False) -> Job:
        """Return a new version of a job as it is to be filed: one of which nothing is to come is at its end.

        Args:
            job: the version; its key is that of its next occurrence, None where there is none.
            at: of the command that makes it.
            busy: something of it is about to run.
        """
        if job.state is not JobState.ACTIVE or job.entry is not None or isinstance(job.definition.schedule, Manual):
            return job
        if busy or self._is_busy(job):
            return replace(job, finished_at=at, entry=self._timer(job, at + END_CHECK_FIRST))
        remove_at = min(at + round(job.definition.finished_ttl_s * SECOND), LATEST)
        return replace(job, state=JobState.FINISHED, finished_at=at, entry=self._timer(job, remove_at))

    def finish(self, step: Step, job: Job, version: int, at: Micros) -> Job | None:
        """A check found that nothing of a job runs; return the version that this makes, None where it makes none."""
        if job.state is not JobState.ACTIVE or isinstance(job.definition.schedule, Manual):
            return None
        if not job.has_ended and self._filing.present_key(job) is not None:
            return None
        return self._file(step, job, self.settled(self._next(job, version, at), at))

    def remove(self, step: Step, job: Job, version: int, at: Micros) -> Job | None:
        """A finished job was kept long enough: its id and key are free again, its runs stay."""
        if job.state is not JobState.FINISHED:
            return None
        return self._file(step, job, replace(self._next(job, version, at), state=JobState.DELETED))

    def suspend(self, step: Step, job: Job, version: int, at: Micros, reason: str, note: OwnNote) -> Job | None:
        """Pause a job that its owner cannot serve; resumed, it goes on as after any pause."""
        if job.state is not JobState.ACTIVE:
            return None
        present = self._filing.moved_key(job, self._filing.present_key(job))
        pending = note.pending
        if pending is None and present is not None and not job.has_ended:
            pending = present.scheduled_for
        paused = replace(self._next(job, version, at), state=JobState.PAUSED, paused_reason=reason, pending=pending)
        return self._file(step, job, paused)

    def _is_busy(self, job: Job) -> bool:
        return self._dispatches.is_running(job) or self._work.has_job(job.job_id)

    def _timer(self, job: Job, at: Micros) -> EntryKey:
        return self._filing.late_or_on_time(job.job_id, job.version, at)

    def _next(self, job: Job, version: int, at: Micros) -> Job:
        replaced = self._filing.replaced_by_next(job)
        return replace(
            job, version=version, updated_at=at, entry=None, replaced=replaced, finished_at=None, paused_until=None
        )

    def _file(self, step: Step, former: Job, job: Job) -> Job:
        self._filing.file(step, job, former)
        return job
