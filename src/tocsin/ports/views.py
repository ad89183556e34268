"""Port: the views that people read: jobs, their listing, their runs, and dead letters.

The projector fills them but for jobs themselves; the gateway reads them. They may lag the log by a moment. All writes
are idempotent and indifferent to order: the logical timestamp decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tocsin.domain.executions import AttemptHead, ExecutionEvent
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job
from tocsin.domain.letters import LetterId


class DispatchSeen(NamedTuple):
    """An execution was dispatched: what its record in a lane says. Written with the token as timestamp."""

    head: AttemptHead
    published_at: Micros
    """Timestamp of the record, µs."""
    lane: str
    redrives: int = 0
    """How often the execution had been redriven by then."""


class EventSeen(NamedTuple):
    """An event, with the timestamp that orders it among the events of its execution."""

    event: ExecutionEvent
    written_at: int
    """``version_of(epoch, offset)`` of the event's record: one writer, so offsets order."""


class JobSeen(NamedTuple):
    """A snapshot from the log of jobs, as encoded; ``job.version`` is the timestamp."""

    job: Job
    snapshot: bytes


class LetterSeen(NamedTuple):
    """A dead letter, with its id; written once, and never changed."""

    letter: DeadLetter
    letter_id: LetterId
    written_at: int
    """``version_of(epoch, offset)`` of its record."""


class FiledLetter(NamedTuple):
    """A dead letter as the view has it; in a listing without its bytes, of which ``size`` says how many there are."""

    letter_id: LetterId
    letter: DeadLetter
    size: int


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt of an execution as the view has it.

    It is QUEUED where no event is known, and where it was dispatched again (with a higher token) after an event that
    was not its end; then everything but the dispatch is None.

    Attributes:
        retry_at: of RETRY_SCHEDULED, when the next attempt is due.
        skipped_upto: of SKIPPED, the last nominal time of a range that begins at ``scheduled_for``.
        skipped_count: of SKIPPED, how many nominal times the range holds.
        redrives: how often the execution had been redriven by this attempt.
    """

    execution_id: str
    job_id: str
    tenant_id: str | None
    attempt: int
    token: int | None
    state: str
    attempt_state: str | None
    reason: str | None
    job_version: int | None
    scheduled_for: Micros
    due_at: Micros | None
    published_at: Micros | None
    started_at: Micros | None
    finished_at: Micros | None
    decided_at: Micros | None
    worker_id: str | None
    redelivered: bool
    error_class: str | None
    error_message: str | None
    error_status: int | None
    result: str | None
    retry_at: Micros | None
    skipped_upto: Micros | None
    skipped_count: int | None
    lane: str | None
    redrives: int


def redrives_of(attempts: Sequence[Run]) -> int:
    """Return how often an execution was redriven, as its attempts say."""
    return max((run.redrives for run in attempts), default=0)


class RunPlace(NamedTuple):
    """Where a run stands in the list of its job's: the newest nominal time first, then by execution, its latest attempt
    first."""

    scheduled_for: Micros
    execution_id: str
    attempt: int

    def is_before(self, run: Run) -> bool:
        """Tell whether a run stands behind this place."""
        if run.scheduled_for != self.scheduled_for:
            return run.scheduled_for < self.scheduled_for
        return (run.execution_id, -run.attempt) > (self.execution_id, -self.attempt)


class ViewWriter(Protocol):
    """The projector's side. Returns only when everything is acknowledged; raises ``Unavailable`` otherwise."""

    def write(
        self,
        jobs: Sequence[JobSeen],
        dispatches: Sequence[DispatchSeen],
        events: Sequence[EventSeen],
        letters: Sequence[LetterSeen] = (),
    ) -> None: ...

    def close(self) -> None: ...


class JobPage(NamedTuple):
    """A page of a tenant's jobs. ``next_token`` None: there are no more."""

    snapshots: Sequence[bytes]
    next_token: str | None


class ViewReader(Protocol):
    """The gateway's side, asynchronous. Raises ``Unavailable`` when the store does not answer."""

    async def read_job(self, job_id: str) -> bytes | None:
        """Return a job's latest snapshot, encoded, or None."""
        ...

    async def write_job(self, job_id: str, version: int, snapshot: bytes | None) -> None:
        """Write the snapshot that an outcome carried: the same bytes and timestamp as its owner writes."""
        ...

    async def list_jobs(self, tenant_id: str, limit: int, page_token: str | None) -> JobPage:
        """Return up to ``limit`` of a tenant's jobs. Raises ``InvalidInput`` for a token that it did not give."""
        ...

    async def list_runs(
        self, job_id: str, newest: Micros, oldest: Micros, limit: int, after: RunPlace | None = None
    ) -> list[Run]:
        """Return up to ``limit`` attempts of a job with nominal times in the span, newest first.

        Args:
            job_id: whose.
            newest, oldest: the span, both ends in it.
            limit: how many.
            after: only those that stand behind it.
        """
        ...

    async def read_run(self, execution_id: str) -> list[Run]:
        """Return the attempts of one execution, oldest first. Raises ``NotFound`` where the id is none or unknown."""
        ...

    async def list_letters(self, tenant_id: str, before: LetterId, oldest: Micros, limit: int) -> list[FiledLetter]:
        """Return up to ``limit`` of a tenant's dead letters, newest first, without their bytes.

        Args:
            tenant_id: whose.
            before: only those that stand below it in the order of ids.
            oldest: days before that of this instant are not looked at.
            limit: how many.
        """
        ...

    async def read_letter(self, tenant_id: str, letter_id: LetterId) -> FiledLetter:
        """Return one dead letter with its bytes. Raises ``NotFound`` where the tenant has none under this id."""
        ...

    async def ping(self) -> None:
        """Return when the store answers."""
        ...
