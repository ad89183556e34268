"""The views in memory: writer and reader over the same dictionaries; logical timestamps choose what stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tocsin.adapters.memory.schedule_store import MemoryTables
from tocsin.domain.errors import Fault, InvalidInput, NotFound, Unavailable, Undecodable
from tocsin.domain.executions import ENDS, ExecutionState
from tocsin.domain.ids import parse_execution_id
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import JobState
from tocsin.domain.letters import LetterId, day_of, tenant_of
from tocsin.ports.schedule_store import JobRow, StoreWrites
from tocsin.ports.views import DispatchSeen, EventSeen, FiledLetter, JobPage, JobSeen, LetterSeen, Run, RunPlace

_TOKEN_MARK = "after:"


@dataclass(slots=True)
class _Seen:
    """What is known of one attempt."""

    dispatch: DispatchSeen | None = None
    event: EventSeen | None = None


class MemoryViews:
    """Fulfils ``ports.views.ViewWriter`` and ``ViewReader``.

    Attributes:
        failing: while True, every call raises ``Unavailable``; a write may have happened in part by then.
        writes: how many writes succeeded.
    """

    def __init__(self, tables: MemoryTables | None = None) -> None:
        self.tables = tables or MemoryTables()
        self.failing = False
        self.writes = 0
        self._listed: dict[tuple[str, str], JobSeen] = {}
        """Latest snapshot by (tenant, job); deleted jobs stay, as the tombstones that they are."""
        self._runs: dict[tuple[str, int, str, int], _Seen] = {}
        """By (job, nominal time, execution, attempt)."""
        self._letters: dict[tuple[str, LetterId], FiledLetter] = {}

    def write(
        self,
        jobs: Sequence[JobSeen],
        dispatches: Sequence[DispatchSeen],
        events: Sequence[EventSeen],
        letters: Sequence[LetterSeen] = (),
    ) -> None:
        for seen in jobs:
            place = (seen.job.tenant_id, seen.job.job_id)
            known = self._listed.get(place)
            if known is None or _job_rank(seen) > _job_rank(known):
                self._listed[place] = seen
        for dispatch in dispatches:
            row = self._row(dispatch.head.job_id, dispatch)
            if row.dispatch is None or dispatch.head.token >= row.dispatch.head.token:
                row.dispatch = dispatch
        self._check()  # In the midst, so that a repeated write is tried on what the failed one left.
        for event in events:
            row = self._row(event.event.head.job_id, event)
            if row.event is None or event.written_at >= row.event.written_at:
                row.event = event
        for letter, letter_id, _ in letters:
            tenant_id = tenant_of(letter)
            filed = FiledLetter(letter_id, replace(letter, tenant_id=tenant_id), len(letter.value))
            self._letters[tenant_id, letter_id] = filed
        self.writes += 1

    def close(self) -> None:
        """Nothing is open."""

    async def read_job(self, job_id: str) -> bytes | None:
        self._check()
        return self.tables.snapshot(job_id)

    async def write_job(self, job_id: str, version: int, snapshot: bytes | None) -> None:
        self._check()
        self.tables.apply(0, StoreWrites(jobs=(JobRow(job_id, version, snapshot),)))

    async def list_jobs(self, tenant_id: str, limit: int, page_token: str | None) -> JobPage:
        self._check()
        after = ""
        if page_token is not None:
            after = page_token.removeprefix(_TOKEN_MARK)
            if not after or _TOKEN_MARK + after != page_token:
                remedy = "give the next_page_token of the page before, or none for the first page"
                raise InvalidInput([Fault("page_token", page_token[:120], "is not a token of this listing", remedy)])
        found = sorted(
            (job_id, seen.snapshot)
            for (tenant, job_id), seen in self._listed.items()
            if tenant == tenant_id and job_id > after and seen.job.state != JobState.DELETED
        )
        rows = found[:limit]
        return JobPage([snapshot for _, snapshot in rows], _TOKEN_MARK + rows[-1][0] if len(found) > limit else None)

    async def list_runs(
        self, job_id: str, newest: Micros, oldest: Micros, limit: int, after: RunPlace | None = None
    ) -> list[Run]:
        self._check()
        found = [
            _run(place, seen)
            for place, seen in self._runs.items()
            if place[0] == job_id and oldest <= place[1] <= newest
        ]
        if after is not None:
            found = [run for run in found if after.is_before(run)]
        return sorted(found, key=lambda run: (-run.scheduled_for, run.execution_id, -run.attempt))[:limit]

    async def read_run(self, execution_id: str) -> list[Run]:
        self._check()
        try:
            name = parse_execution_id(execution_id)
        except Undecodable:
            raise NotFound("run", execution_id) from None
        found = [_run(place, seen) for place, seen in sorted(self._runs.items()) if place[2] == execution_id]
        if not found or found[0].job_id != name.job_id:
            raise NotFound("run", execution_id)
        return found

    async def list_letters(self, tenant_id: str, before: LetterId, oldest: Micros, limit: int) -> list[FiledLetter]:
        self._check()
        found = [
            filed._replace(letter=replace(filed.letter, value=b""))
            for (tenant, letter_id), filed in self._letters.items()
            if tenant == tenant_id and letter_id < before and day_of(letter_id.at) >= day_of(oldest)
        ]
        return sorted(found, key=lambda filed: filed.letter_id, reverse=True)[:limit]

    async def read_letter(self, tenant_id: str, letter_id: LetterId) -> FiledLetter:
        self._check()
        if (tenant_id, letter_id) not in self._letters:
            raise NotFound("dead letter", letter_id.text)
        return self._letters[tenant_id, letter_id]

    async def ping(self) -> None:
        self._check()

    def _check(self) -> None:
        if self.failing:
            raise Unavailable("memory", "was told to fail")

    def _row(self, job_id: str, seen: DispatchSeen | EventSeen) -> _Seen:
        head = seen.head if isinstance(seen, DispatchSeen) else seen.event.head
        return self._runs.setdefault((job_id, head.scheduled_for, head.execution_id, head.attempt), _Seen())


def _job_rank(seen: JobSeen) -> tuple[int, bool, bytes]:
    """Of equal versions a deletion wins, as it does in the real store."""
    return (seen.job.version, seen.job.state == JobState.DELETED, seen.snapshot)


def _is_overtaken(seen: EventSeen, dispatch: DispatchSeen) -> bool:
    return seen.event.state not in ENDS and dispatch.head.token > seen.event.head.token


def _run(place: tuple[str, int, str, int], seen: _Seen) -> Run:
    job_id, scheduled_for, execution_id, attempt = place
    lane = seen.dispatch.lane if seen.dispatch else None
    redrives = max(seen.dispatch.redrives if seen.dispatch else 0, seen.event.event.redrives if seen.event else 0)
    if seen.event is None or (seen.dispatch is not None and _is_overtaken(seen.event, seen.dispatch)):
        assert seen.dispatch is not None
        head = seen.dispatch.head
        return Run(
            execution_id=execution_id,
            job_id=job_id,
            tenant_id=head.tenant_id,
            attempt=attempt,
            token=head.token,
            state=ExecutionState.QUEUED.value,
            attempt_state=None,
            reason=None,
            job_version=head.job_version,
            scheduled_for=scheduled_for,
            due_at=head.due_at,
            published_at=seen.dispatch.published_at,
            started_at=None,
            finished_at=None,
            decided_at=None,
            worker_id=None,
            redelivered=head.losses > 0,
            error_class=None,
            error_message=None,
            error_status=None,
            result=None,
            retry_at=None,
            skipped_upto=None,
            skipped_count=None,
            lane=lane,
            redrives=redrives,
        )
    event = seen.event.event
    error = event.error
    return Run(
        execution_id=execution_id,
        job_id=job_id,
        tenant_id=event.head.tenant_id,
        attempt=attempt,
        token=event.head.token,
        state=event.state,
        attempt_state=event.attempt_state,
        reason=event.reason,
        job_version=event.head.job_version,
        scheduled_for=scheduled_for,
        due_at=event.head.due_at,
        published_at=event.published_at,
        started_at=event.started_at,
        finished_at=event.finished_at,
        decided_at=event.decided_at,
        worker_id=event.worker_id,
        redelivered=event.redelivered,
        error_class=error.error_class if error else None,
        error_message=error.message if error else None,
        error_status=error.status if error else None,
        result=event.result,
        retry_at=event.retry_at,
        skipped_upto=event.skipped_upto,
        skipped_count=event.skipped_count,
        lane=lane,
        redrives=redrives,
    )
