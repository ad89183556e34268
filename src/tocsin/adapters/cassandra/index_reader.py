"""Looking through the whole of index and jobs table, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tocsin.adapters.cassandra.bucket_reads import BEFORE_ALL
from tocsin.adapters.cassandra.driver_errors import translated
from tocsin.adapters.cassandra.session import Connection
from tocsin.domain.entries import Entry
from tocsin.domain.errors import TocsinError
from tocsin.ports.schedule_store import JobRow

PAGE_ROWS: Final = 1_000


class CassandraIndexReader:
    """Fulfils ``ports.index_reader.IndexReader``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def buckets(self) -> Iterator[tuple[int, int]]:
        for minute, shard in self._rows("select_buckets"):
            if minute >= 0:
                yield minute, shard

    def rows(self, shard: int, minute: int) -> Iterator[Entry]:
        for row in self._rows("select_bucket", (minute, shard, *BEFORE_ALL)):
            yield Entry._make(row)

    def jobs(self) -> Iterator[JobRow]:
        for row in self._rows("select_jobs"):
            yield JobRow._make(row)

    def job(self, job_id: str) -> bytes | None:
        found = next(self._rows("select_job", (job_id,)), None)
        return None if found is None else found[0]

    def has_mark(self, shard: int) -> bool:
        return next(self._rows("select_mark", (shard,)), None) is not None

    def _rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            bound = self._connection.bound(query, values)
            bound.fetch_size = PAGE_ROWS
            yield from self._connection.session.execute(bound)
        except (TocsinError, GeneratorExit):
            raise
        except Exception as error:
            raise translated(error) from error
