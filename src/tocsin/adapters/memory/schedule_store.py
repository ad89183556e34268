"""The owner's store in memory: the contract of the real one, and knobs to make it slow, silent or lossy on purpose."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from tocsin.domain.entries import Entry, EntryKey
from tocsin.ports.schedule_store import BucketPage, Completion, JobRead, JobRow, StoreWrites, WritesDone


class MemoryTables:
    """What outlives an owner's store: index rows, tombstones and job rows. Several stores may share one."""

    def __init__(self) -> None:
        self.index: defaultdict[tuple[int, int], dict[EntryKey, Entry]] = defaultdict(dict)
        """Index rows by (minute, shard); those that were deleted are not among them."""
        self.jobs: dict[str, JobRow] = {}
        """The winning write of each job; a deleted row has no snapshot."""
        self._deleted: set[tuple[int, EntryKey]] = set()
        self._gone: set[tuple[int, int]] = set()
        """Partitions that were deleted whole, by (minute, shard)."""
        self.marks: set[int] = set()
        """Shards whose mark is there."""

    def apply(self, shard: int, writes: StoreWrites) -> None:
        """Apply writes as their timestamps demand: a delete wins whatever the order, a job's higher version stays."""
        if writes.mark:
            self.marks.add(shard)
        for minute in writes.buckets:
            self._gone.add((minute, shard))
            self.index.pop((minute, shard), None)
        for key in writes.deletes:
            self._deleted.add((shard, key))
            self.index[key.bucket_minute, shard].pop(key, None)
        for entry in writes.inserts:
            place = entry.key.bucket_minute, shard
            if (shard, entry.key) not in self._deleted and place not in self._gone:
                self.index[entry.key.bucket_minute, shard][entry.key] = entry
        for row in writes.jobs:
            self.jobs[row.job_id] = _winner(self.jobs.get(row.job_id), row)

    def bucket(self, shard: int, minute: int) -> list[Entry]:
        """Return the rows of an index partition in the order of its keys."""
        return [entry for _key, entry in sorted(self.index[minute, shard].items())]

    def truncate(self) -> None:
        """Lose everything, tombstones included, as TRUNCATE does."""
        for kept in (self.index, self.jobs, self._deleted, self._gone, self.marks):
            kept.clear()

    def snapshot(self, job_id: str) -> bytes | None:
        """Return a job's latest snapshot."""
        row = self.jobs.get(job_id)
        return row.snapshot if row else None


def _winner(known: JobRow | None, new: JobRow) -> JobRow:
    """Of equal versions a delete wins, as it does in the real store, and else the greater bytes."""
    if known is None or new.version > known.version:
        return new
    if new.version < known.version or known.snapshot is None:
        return known
    return new if new.snapshot is None else max(known, new, key=lambda row: row.snapshot or b"")


class MemoryScheduleStore:
    """Fulfils ``ports.schedule_store.ScheduleStore``.

    Attributes:
        held: while True, what is begun waits, as if the store did not answer; ``release`` lets it happen.
        page_rows_max: rows of a bucket in one page.
        page_bytes_max: bytes of executions in one page; a larger single row is a page of its own.
    """

    def __init__(
        self, tables: MemoryTables | None = None, *, page_rows_max: int = 5_000, page_bytes_max: int = 2_000_000
    ) -> None:
        self.tables = tables or MemoryTables()
        self.page_rows_max = page_rows_max
        self.page_bytes_max = page_bytes_max
        self.held = False
        self.written: list[StoreWrites] = []
        """What was written, in the order in which it arrived."""
        self.closed = False
        self._waiting: deque[tuple[int, int, Callable[[], list[Completion]]]] = deque()
        self._done: deque[Completion] = deque()
        self._generations: defaultdict[int, int] = defaultdict(int)

    def begin_bucket_read(self, shard: int, minute: int) -> None:
        self._begin(shard, lambda: self._pages(shard, minute))

    def begin_job_read(self, shard: int, job_id: str) -> None:
        self._begin(shard, lambda: [JobRead(shard, job_id, self.tables.snapshot(job_id))])

    def begin_job_reads(self, shard: int, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            self.begin_job_read(shard, job_id)

    def begin_writes(self, shard: int, turn: int, writes: StoreWrites) -> None:
        def write() -> list[Completion]:
            self.tables.apply(shard, writes)
            self.written.append(writes)
            return [WritesDone(shard, turn)]

        self._begin(shard, write)

    def completed(self, limit: int) -> list[Completion]:
        if not self.held:
            self.release()
        return [self._done.popleft() for _ in range(min(limit, len(self._done)))]

    def forget(self, shard: int) -> None:
        self._generations[shard] += 1
        self._done = deque(completion for completion in self._done if completion.shard != shard)

    def close(self) -> None:
        self.closed = True
        self._waiting.clear()
        self._done.clear()

    def waiting(self) -> int:
        """Return how many begun requests have not happened."""
        return len(self._waiting)

    def release(self, count: int | None = None, *, newest: bool = False) -> None:
        """Let begun requests happen, oldest or newest first; all of them where no count is given."""
        for _ in range(len(self._waiting) if count is None else min(count, len(self._waiting))):
            shard, generation, act = self._waiting.pop() if newest else self._waiting.popleft()
            if generation == self._generations[shard]:
                self._done.extend(act())

    def lose(self, count: int | None = None) -> None:
        """Drop begun requests unseen, oldest first, as a process that dies does; all where no count is given."""
        for _ in range(len(self._waiting) if count is None else min(count, len(self._waiting))):
            self._waiting.popleft()

    def _begin(self, shard: int, act: Callable[[], list[Completion]]) -> None:
        if not self.closed:
            self._waiting.append((shard, self._generations[shard], act))

    def _pages(self, shard: int, minute: int) -> list[Completion]:
        parts: list[list[Entry]] = [[]]
        size = 0
        for entry in self.tables.bucket(shard, minute):
            size += len(entry.execution)
            if parts[-1] and (len(parts[-1]) >= self.page_rows_max or size > self.page_bytes_max):
                parts.append([])
                size = len(entry.execution)
            parts[-1].append(entry)
        marked = shard in self.tables.marks
        return [BucketPage(shard, minute, part, part is parts[-1], marked) for part in parts]
