"""Looking through the tables in memory."""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.adapters.memory.schedule_store import MemoryTables
from tocsin.domain.entries import Entry
from tocsin.ports.schedule_store import JobRow


class MemoryIndexReader:
    """Fulfils ``ports.index_reader.IndexReader``."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def buckets(self) -> Iterator[tuple[int, int]]:
        yield from [place for place, rows in self._tables.index.items() if rows]

    def rows(self, shard: int, minute: int) -> Iterator[Entry]:
        yield from self._tables.bucket(shard, minute)

    def jobs(self) -> Iterator[JobRow]:
        yield from [row for row in self._tables.jobs.values() if row.snapshot is not None]

    def job(self, job_id: str) -> bytes | None:
        return self._tables.snapshot(job_id)

    def has_mark(self, shard: int) -> bool:
        return shard in self._tables.marks
