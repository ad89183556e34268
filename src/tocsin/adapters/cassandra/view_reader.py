"""The gateway's side of the views: reads for an asyncio loop, on the driver's own thread of callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tocsin.adapters.cassandra.asking import ask
from tocsin.adapters.cassandra.job_writes import JobWrites
from tocsin.adapters.cassandra.letter_pages import Partition, newest
from tocsin.adapters.cassandra.letter_rows import letter_of, part_of
from tocsin.adapters.cassandra.page_tokens import page_token, read_page_token
from tocsin.adapters.cassandra.run_rows import PARTS, run_of
from tocsin.adapters.cassandra.session import Connection
from tocsin.domain.errors import NotFound, Undecodable
from tocsin.domain.ids import parse_execution_id
from tocsin.domain.instants import LATEST, Micros, month_of, months_back
from tocsin.domain.letters import LetterId, day_of
from tocsin.ports.schedule_store import JobRow
from tocsin.ports.views import FiledLetter, JobPage, Run, RunPlace

_AT_ONCE_MAX: Final = 16
"""Partitions read at once where a page may need several."""


class CassandraViewReader:
    """Fulfils ``ports.views.ViewReader``; belongs to no one loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._job_writes = JobWrites(connection)

    async def read_job(self, job_id: str) -> bytes | None:
        rows = await self._ask("select_job", (job_id,))
        return rows[0][0] if rows else None

    async def write_job(self, job_id: str, version: int, snapshot: bytes | None) -> None:
        await self._job_writes.write(JobRow(job_id, version, snapshot))

    async def list_jobs(self, tenant_id: str, limit: int, page_token: str | None) -> JobPage:
        first, after = (0, "") if page_token is None else read_page_token(page_token)
        found: list[tuple[str, bytes]] = []
        for parts in _growing(range(first, PARTS)):
            wanted = limit + 1 - len(found)
            asked = [
                self._ask("select_tenant_jobs", (tenant_id, part, after if part == first else "", wanted))
                for part in parts
            ]
            for rows in await asyncio.gather(*asked):
                found.extend(rows)
            if len(found) > limit:
                break
        return _page(found, limit)

    async def list_runs(
        self, job_id: str, newest: Micros, oldest: Micros, limit: int, after: RunPlace | None = None
    ) -> list[Run]:
        found: list[Run] = []
        if after is not None and after.scheduled_for <= newest:
            newest = after.scheduled_for - 1
            if after.scheduled_for >= oldest:
                found += await self._rest_of_its_time(job_id, after, limit)
        if newest < oldest or len(found) >= limit:
            return found
        for months in _growing(months_back(newest, oldest)):
            wanted = limit - len(found)
            asked = [self._ask("select_runs", (job_id, month, newest, oldest, wanted)) for month in months]
            for rows in await asyncio.gather(*asked):
                found.extend(map(run_of, rows))
            if len(found) >= limit:
                break
        return found[:limit]

    async def _rest_of_its_time(self, job_id: str, after: RunPlace, limit: int) -> list[Run]:
        """Return what stands behind a place at its nominal time: the rest of its execution, then other executions."""
        at = (job_id, month_of(after.scheduled_for), after.scheduled_for, after.execution_id)
        rows = await self._ask("select_runs_of", (*at, after.attempt, limit))
        if len(rows) < limit:
            rows = [*rows, *await self._ask("select_runs_at", (*at, limit - len(rows)))]
        return list(map(run_of, rows))

    async def read_run(self, execution_id: str) -> list[Run]:
        try:
            name = parse_execution_id(execution_id)
        except Undecodable:
            raise NotFound("run", execution_id) from None
        at = name.scheduled_for
        if at > LATEST:
            raise NotFound("run", execution_id)
        rows = await self._ask("select_run", (name.job_id, month_of(at), at, execution_id))
        if not rows:
            raise NotFound("run", execution_id)
        return [run_of(row) for row in reversed(rows)]

    async def list_letters(self, tenant_id: str, before: LetterId, oldest: Micros, limit: int) -> list[FiledLetter]:
        days = (tenant_id, day_of(oldest), day_of(before.at))
        partitions = [(day, part) for day, part in await self._ask("select_dead_letter_parts", days)]

        async def read(partition: Partition, below: LetterId, rows: int) -> list[FiledLetter]:
            values = (tenant_id, *partition, *below, rows)
            return [letter_of(row) for row in await self._ask("select_dead_letters", values)]

        return await newest(partitions, before, limit, read)

    async def read_letter(self, tenant_id: str, letter_id: LetterId) -> FiledLetter:
        place = (tenant_id, day_of(letter_id.at), part_of(letter_id))
        rows = await self._ask("select_dead_letter", (*place, *letter_id))
        if not rows:
            raise NotFound("dead letter", letter_id.text)
        return letter_of(rows[0])

    async def ping(self) -> None:
        await self._ask("select_server", ())

    async def _ask(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return await ask(self._connection, query, values)


def _growing(partitions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the partitions in order, 1, 4, then 16 at once: the first mostly fills a page, and if not, few do."""
    at, count = 0, 1
    while at < len(partitions):
        yield partitions[at : at + count]
        at, count = at + count, min(_AT_ONCE_MAX, count * 4)


def _page(found: list[tuple[str, bytes]], limit: int) -> JobPage:
    """Cut a page; one row too many says that there are more."""
    rows = found[:limit]
    return JobPage([snapshot for _, snapshot in rows], page_token(rows[-1][0]) if len(found) > limit else None)
