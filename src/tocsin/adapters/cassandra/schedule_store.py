"""The owner's store on Cassandra: begun here, completed later, asked again until it succeeds.

The owner's loop never waits for any of it: statements are made, sent and repeated by the pump's thread, and answers
are queued by the driver's. What the server refuses for good holds up nothing else: of a batch, the others are written.
"""

from __future__ import annotations

import re
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

import structlog
from cassandra.cluster import ResultSet

from tocsin.adapters.cassandra.batches import BatchBounds, Write, by_replica, split, statement
from tocsin.adapters.cassandra.bucket_reads import ROW_BYTES, BucketReads
from tocsin.adapters.cassandra.job_writes import job_write
from tocsin.adapters.cassandra.page_sizes import PageBounds
from tocsin.adapters.cassandra.requests import Request, RequestPump
from tocsin.adapters.cassandra.session import Connection
from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.errors import TocsinError
from tocsin.ports.schedule_store import BucketPage, Completion, JobRead, StoreWrites, WritesDone

log = structlog.get_logger()

_IMPOSSIBLE_KEY: Final = re.compile(r"\bkey (length|may)\b|UnicodeEncodeError", re.IGNORECASE)
"""In refusals of keys that no row can have."""
_LOG_EVERY_S: Final = 1.0
JOBS_A_READ: Final = 16
"""So many jobs' rows are read by one request: each may have some hundred kilobytes."""
THIN_ROWS: Final = 10
"""Fewer rows of a minute than this travel with those of other minutes."""
_BUCKET_KEY: Final = struct.Struct(">HqBHiB").pack
"""A minute and a shard as a partition's key: the length of each, its bytes and a zero."""


@dataclass(frozen=True, slots=True)
class StoreBounds:
    """Bounds of the store of one process.

    Attributes:
        in_flight_max: requests under way at once.
    """

    batch: BatchBounds = field(default_factory=BatchBounds)
    in_flight_max: int = 64
    pages: PageBounds = field(default_factory=PageBounds)


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
        self._buckets = BucketReads(self._pump.submit, self._page_arrived, self._counts, self._bounds.pages)
        self._done: deque[tuple[int, Completion, int]] = deque()
        """Each with the generation that it belongs to, and the bytes of a page."""
        self._generations: defaultdict[int, int] = defaultdict(int)
        """By shard; raised when the shard is forgotten, and what is older does not count."""
        self._lock = threading.Lock()
        self._told_at = float("-inf")

    def begin_bucket_read(self, shard: int, minute: int) -> None:
        self._buckets.begin(shard, self._generations[shard], minute)

    def begin_job_read(self, shard: int, job_id: str) -> None:
        generation = self._generations[shard]

        def done(snapshot: bytes | None) -> None:
            self._done.append((generation, JobRead(shard, job_id, snapshot), 0))

        def succeeded(rows: ResultSet) -> None:
            found = rows.one()
            done(found[0] if found else None)

        def refused(error: TocsinError) -> bool:
            if _IMPOSSIBLE_KEY.search(str(error)) is None:
                return False
            self._tell_no_such_job(job_id, error)
            done(None)
            return True

        self._pump.submit(
            Request(
                lambda connection: connection.bound("select_job", (job_id,)),
                succeeded,
                lambda: self._counts(shard, generation),
                urgent=True,
                refused=refused,
                what=lambda: f"the row of job {job_id[:80]!r}",
            )
        )

    def begin_job_reads(self, shard: int, job_ids: Sequence[str]) -> None:
        # A request costs the client and the node as much as five rows do.
        for at in range(0, len(job_ids), JOBS_A_READ):
            part = job_ids[at : at + JOBS_A_READ]
            if len(part) == 1:
                self.begin_job_read(shard, part[0])
            else:
                self._begin_joint_read(shard, part)

    def _begin_joint_read(self, shard: int, job_ids: Sequence[str]) -> None:
        generation = self._generations[shard]

        def succeeded(rows: ResultSet) -> None:
            found = dict(rows.current_rows)
            for job_id in job_ids:
                self._done.append((generation, JobRead(shard, job_id, found.get(job_id)), 0))

        def refused(_error: TocsinError) -> bool:
            """Find the id that the others are refused for."""
            if self._counts(shard, generation):
                for job_id in job_ids:
                    self.begin_job_read(shard, job_id)
            return True

        self._pump.submit(
            Request(
                lambda connection: connection.bound("select_jobs_among", (job_ids,)),
                succeeded,
                lambda: self._counts(shard, generation),
                urgent=True,
                refused=refused,
                what=lambda: f"the rows of {len(job_ids)} jobs, {job_ids[0][:80]!r} among them",
            )
        )

    def begin_writes(self, shard: int, turn: int, writes: StoreWrites) -> None:
        generation = self._generations[shard]
        batches = list(self._batches(shard, writes))
        if not batches:
            self._done.append((generation, WritesDone(shard, turn), 0))
            return
        state = _Turn(len(batches))

        def succeeded(_rows: ResultSet) -> None:
            with self._lock:
                state.outstanding -= 1
                last = state.outstanding == 0
            if last:
                self._done.append((generation, WritesDone(shard, turn), 0))

        def request(batch: list[Write]) -> Request:
            return Request(
                lambda connection: statement(connection, batch),
                succeeded,
                lambda: self._counts(shard, generation),
                refused=lambda _error: halved(batch),
                what=lambda: _described(batch),
            )

        def halved(batch: list[Write]) -> bool:
            """Find the write that the others are refused for; alone, it waits for somebody to act."""
            if len(batch) == 1:
                return False
            with self._lock:
                state.outstanding += 1
            middle = len(batch) // 2
            self._pump.submit_all([request(batch[:middle]), request(batch[middle:])])
            return True

        self._pump.submit_all([request(batch) for batch in batches])

    def completed(self, limit: int) -> list[Completion]:
        found: list[Completion] = []
        freed = 0
        while len(found) < limit and self._done:
            generation, completion, size = self._done.popleft()
            freed += size
            if self._counts(completion.shard, generation):
                found.append(completion)
        if freed:
            self._buckets.collected(freed)
        return found

    def forget(self, shard: int) -> None:
        self._generations[shard] += 1
        self._buckets.forget(shard)

    def close(self) -> None:
        self._pump.close()
        self._connection.close()

    def _counts(self, shard: int, generation: int) -> bool:
        return self._generations[shard] == generation

    def _page_arrived(self, generation: int, page: BucketPage, size: int) -> None:
        self._done.append((generation, page, size))

    def _tell_no_such_job(self, job_id: str, error: TocsinError) -> None:
        now = time.monotonic()
        if now - self._told_at >= _LOG_EVERY_S:
            self._told_at = now
            log.error(
                "no row can have this job id, so there is none",
                action="store.job_read_refused",
                job_id=repr(job_id[:80]),
                length=len(job_id),
                error=str(error),
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
        yield from ([Write("delete_bucket", (minute, shard), ROW_BYTES)] for minute in writes.buckets)
        if writes.mark:
            yield [Write("insert_mark", (shard,), ROW_BYTES)]
        loose: list[tuple[bytes, Write]] = []
        for minute, rows in by_minute.items():
            if len(rows) >= THIN_ROWS:
                yield from split(rows, _size, bounds.rows_max, bounds.bytes_max)
            else:
                place = _BUCKET_KEY(8, minute, 0, 4, shard, 0)
                loose += [(place, row) for row in rows]
        # What is created for all the coming days has a minute of its own each, and so has its job a partition of its
        # own; a request of its own costs as much as ten rows do.
        loose += [(row.job_id.encode(), job_write(row)) for row in writes.jobs]
        for group in by_replica(self._connection, loose, itemgetter(0)):
            yield from split((write for _key, write in group), _size, bounds.mixed_rows_max, bounds.bytes_max)


def _described(batch: list[Write]) -> str:
    """Name the first write by its short values; blobs and what is long would drown the log."""
    shown = [repr(value)[:80] for value in batch[0].values if isinstance(value, str | int)]
    return f"{batch[0].query}({', '.join(shown)})" + (f" and {len(batch) - 1} more" if len(batch) > 1 else "")


def _size(write: Write) -> int:
    return write.size


def _insert(shard: int, minute: int, entry: Entry) -> Write:
    run_at, job_id, scheduled_for, version, execution_id, tenant_id, lane, execution, plan = entry
    values = (minute, shard, run_at, job_id, version, scheduled_for, execution_id, tenant_id, lane, execution, plan)
    return Write("insert_entry", values, ROW_BYTES + len(execution) + 2 * len(execution_id) + len(plan))


def _delete(shard: int, minute: int, key: EntryKey) -> Write:
    values = (minute, shard, key.run_at, key.job_id, key.version, key.scheduled_for)
    return Write("delete_entry", values, ROW_BYTES + len(key.job_id))
