"""The owner's store on Cassandra: begun here, completed later, asked again until it succeeds.

The owner's loop never waits for any of it: statements are made, sent and repeated by the pump's thread, and answers
are queued by the driver's.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cassandra.cluster import ResultSet

from tocsin.adapters.cassandra.batches import BatchBounds, Write, by_replica, split, statement
from tocsin.adapters.cassandra.requests import Request, RequestPump
from tocsin.adapters.cassandra.session import Connection
from tocsin.domain.entries import Entry, EntryKey
from tocsin.ports.schedule_store import BucketPage, Completion, JobRead, JobRow, StoreWrites, WritesDone

_ROW_BYTES: Final = 200
"""What a server counts for a row but for its texts and blobs, rounded up."""


@dataclass(frozen=True, slots=True)
class StoreBounds:
    """Bounds of the store of one process.

    Attributes:
        in_flight_max: requests under way at once.
        page_rows_max: rows of a bucket in one page.
    """

    batch: BatchBounds = field(default_factory=BatchBounds)
    in_flight_max: int = 64
    page_rows_max: int = 5_000


class _Turn:
    """The requests of one turn that are not acknowledged yet."""

    __slots__ = ("outstanding",)

    def __init__(self, outstanding: int) -> None:
        self.outstanding = outstanding


class CassandraScheduleStore:
    """Fulfils ``ports.schedule_store.ScheduleStore``. Opens its connection when first asked for something."""

    def __init__(self, connection: Connection, bounds: StoreBounds | None = None) -> None:
        self._connection = connection
        self._bounds = bounds or StoreBounds()
        self._pump = RequestPump(connection, self._bounds.in_flight_max)
        self._done: deque[tuple[int, Completion]] = deque()
        self._generations: defaultdict[int, int] = defaultdict(int)
        """By shard; raised when the shard is forgotten, and what is older does not count."""
        self._lock = threading.Lock()

    def begin_bucket_read(self, shard: int, minute: int) -> None:
        self._read_page(shard, self._generations[shard], minute, None)

    def begin_job_read(self, shard: int, job_id: str) -> None:
        generation = self._generations[shard]

        def succeeded(rows: ResultSet) -> None:
            found = rows.one()
            self._done.append((generation, JobRead(shard, job_id, found[0] if found else None)))

        self._pump.submit(
            Request(
                lambda connection: connection.bound("select_job", (job_id,)),
                succeeded,
                lambda: self._generations[shard] == generation,
                urgent=True,
            )
        )

    def begin_writes(self, shard: int, turn: int, writes: StoreWrites) -> None:
        generation = self._generations[shard]
        batches = list(self._batches(shard, writes))
        if not batches:
            self._done.append((generation, WritesDone(shard, turn)))
            return
        state = _Turn(len(batches))

        def succeeded(_rows: ResultSet) -> None:
            with self._lock:
                state.outstanding -= 1
                last = state.outstanding == 0
            if last:
                self._done.append((generation, WritesDone(shard, turn)))

        def wanted() -> bool:
            return self._generations[shard] == generation

        self._pump.submit_all([Request(_batch_builder(batch), succeeded, wanted) for batch in batches])

    def completed(self, limit: int) -> list[Completion]:
        found: list[Completion] = []
        while len(found) < limit and self._done:
            generation, completion = self._done.popleft()
            if self._generations[completion.shard] == generation:
                found.append(completion)
        return found

    def forget(self, shard: int) -> None:
        self._generations[shard] += 1

    def close(self) -> None:
        self._pump.close()
        self._connection.close()

    def _read_page(self, shard: int, generation: int, minute: int, paging_state: bytes | None) -> None:
        def build(connection: Connection) -> Any:
            bound = connection.bound("select_bucket", (minute, shard))
            bound.fetch_size = self._bounds.page_rows_max
            return bound

        def succeeded(rows: ResultSet) -> None:
            following = rows.paging_state
            entries = [Entry._make(row) for row in rows.current_rows]
            self._done.append((generation, BucketPage(shard, minute, entries, following is None)))
            if following is not None:
                self._read_page(shard, generation, minute, following)

        self._pump.submit(
            Request(
                build,
                succeeded,
                lambda: self._generations[shard] == generation,
                urgent=True,
                paging_state=paging_state,
            )
        )

    def _batches(self, shard: int, writes: StoreWrites) -> Iterator[list[Write]]:
        bounds = self._bounds.batch
        by_minute: defaultdict[int, list[Write]] = defaultdict(list)
        for entry in writes.inserts:
            minute = entry.key.bucket_minute
            by_minute[minute].append(_insert(shard, minute, entry))
        for key in writes.deletes:
            minute = key.bucket_minute
            by_minute[minute].append(_delete(shard, minute, key))
        for rows in by_minute.values():
            yield from split(rows, _size, bounds.rows_max, bounds.bytes_max)
        for jobs in by_replica(self._connection, writes.jobs, lambda row: row.job_id.encode()):
            yield from split(map(_job_write, jobs), _size, bounds.mixed_rows_max, bounds.bytes_max)


def _batch_builder(batch: list[Write]) -> Any:
    return lambda connection: statement(connection, batch)


def _size(write: Write) -> int:
    return write.size


def _insert(shard: int, minute: int, entry: Entry) -> Write:
    run_at, job_id, scheduled_for, version, execution_id, tenant_id, lane, execution, plan = entry
    values = (minute, shard, run_at, job_id, version, scheduled_for, execution_id, tenant_id, lane, execution, plan)
    return Write("insert_entry", values, _ROW_BYTES + len(execution) + 2 * len(execution_id) + len(plan))


def _delete(shard: int, minute: int, key: EntryKey) -> Write:
    values = (minute, shard, key.run_at, key.job_id, key.version, key.scheduled_for)
    return Write("delete_entry", values, _ROW_BYTES + len(key.job_id))


def _job_write(row: JobRow) -> Write:
    if row.snapshot is None:
        return Write("delete_job", (row.version, row.job_id), _ROW_BYTES + len(row.job_id))
    values = (row.job_id, row.version, row.snapshot, row.version)
    return Write("upsert_job", values, _ROW_BYTES + len(row.job_id) + len(row.snapshot))
