"""A job's snapshot: what the log of jobs and the jobs table hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tocsin.domain.definitions import JobDefinition
from tocsin.domain.entries import EntryKey
from tocsin.domain.instants import Micros


class JobState(StrEnum):
    """What a job is, as a whole."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Job:
    """One version of a job. A later version replaces it whole.

    Attributes:
        job_id: the id under which everything about the job is kept.
        tenant_id: whose job it is.
        version: made of epoch and log offset by the command that made this snapshot; only grows.
        created_version: the version of the command that created the job; part of its execution ids.
        state: see ``JobState``.
        created_at: timestamp of the creating command's record, µs.
        updated_at: timestamp of the record that made this version, µs.
        definition: what the caller defined.
        entry: key of its one index row, as it was filed; None where it has none.
        body_hash: of the definition that created the job; tells a repeated create from another one.
        paused_reason: why it is paused, where a reason was given.
        pending: of a paused job, the nominal time of the first occurrence that it holds back, µs.
        paused_until: of a paused job that resumes by itself, when, µs.
        finished_at: of a job that has nothing to come, since when, µs. While it is active, runs of it go on, and its
            key is that of a timer.
        replaced: keys of index rows that this version replaces and whose deletion is not acknowledged yet.
    """

    job_id: str
    tenant_id: str
    version: int
    created_version: int
    state: JobState
    created_at: Micros
    updated_at: Micros
    definition: JobDefinition
    entry: EntryKey | None
    replaced: tuple[EntryKey, ...] = ()
    body_hash: str | None = None
    paused_reason: str | None = None
    pending: Micros | None = None
    paused_until: Micros | None = None
    finished_at: Micros | None = None

    @property
    def has_ended(self) -> bool:
        """Nothing of it is to come."""
        return self.finished_at is not None

    @property
    def waits_for_timer(self) -> bool:
        """Its key is that of a timer, not of an occurrence."""
        return self.state in (JobState.PAUSED, JobState.FINISHED) or self.has_ended

    def next_run_at(self, now: Micros) -> Micros | None:
        """Return the nominal time of the next occurrence, or None when there is none to come."""
        if self.state is not JobState.ACTIVE or self.has_ended or self.entry is None or self.entry.run_at <= now:
            return None
        return self.entry.scheduled_for
