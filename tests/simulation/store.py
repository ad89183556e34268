"""A simulated store: requests are served in any order, in pieces, twice, later, or not while it is down."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from random import Random
from typing import Protocol

from tocsin.adapters.memory.schedule_store import MemoryTables
from tocsin.domain.entries import Entry, EntryKey
from tocsin.ports.schedule_store import BucketPage, Completion, JobRead, StoreWrites, WritesDone

PAGE_ROWS = 3


class Moods(Protocol):
    """How the store is at present."""

    store_mood: str
    chance: Random
    orphans: list[tuple[int, StoreWrites]]


class Request:
    """One request under way; it is asked again until it is served whole."""

    __slots__ = ("after", "kind", "left", "name", "shard")

    def __init__(self, kind: str, shard: int, name: int | str, left: list[StoreWrites]) -> None:
        self.kind = kind
        self.shard = shard
        self.name = name
        self.left = left
        """Of writes: what is not known to be applied, row by row."""
        self.after: EntryKey | None = None
        """Of a bucket's read: the last key that a page has brought."""


def _rows(writes: StoreWrites) -> list[StoreWrites]:
    return [
        *(StoreWrites((entry,)) for entry in writes.inserts),
        *(StoreWrites((), (key,)) for key in writes.deletes),
        *(StoreWrites((), (), (row,)) for row in writes.jobs),
        *(StoreWrites(buckets=(minute,)) for minute in writes.buckets),
        *([StoreWrites(mark=True)] if writes.mark else []),
    ]


class SimStore:
    """Fulfils ``ports.schedule_store.ScheduleStore`` for one process."""

    def __init__(self, world: Moods, tables: MemoryTables) -> None:
        self._world = world
        self._tables = tables
        self._requests: list[Request] = []
        self._done: deque[Completion] = deque()

    @property
    def is_idle(self) -> bool:
        return not self._requests and not self._done

    def begin_bucket_read(self, shard: int, minute: int) -> None:
        self._requests.append(Request("bucket", shard, minute, []))

    def begin_job_read(self, shard: int, job_id: str) -> None:
        self._requests.append(Request("job", shard, job_id, []))

    def begin_job_reads(self, shard: int, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            self.begin_job_read(shard, job_id)

    def begin_writes(self, shard: int, turn: int, writes: StoreWrites) -> None:
        self._requests.append(Request("write", shard, turn, _rows(writes)))

    def completed(self, limit: int) -> list[Completion]:
        if self._requests and self._world.store_mood != "down":
            self._serve(self._world.store_mood == "slow")
        return [self._done.popleft() for _ in range(min(limit, len(self._done)))]

    def forget(self, shard: int) -> None:
        """Drop what would come back; what is under way may still be applied."""
        self._done = deque(completion for completion in self._done if completion.shard != shard)
        chance = self._world.chance
        for request in [r for r in self._requests if r.shard == shard]:
            self._requests.remove(request)
            self._world.orphans += [(shard, row) for row in request.left if chance.random() < 0.5]

    def close(self) -> None:
        self._requests.clear()
        self._done.clear()

    def abandon(self, chance: Random) -> list[tuple[int, StoreWrites]]:
        """The process is dead: return what may still be applied later, row by row."""
        left = [(request.shard, row) for request in self._requests for row in request.left]
        self.close()
        return [one for one in left if chance.random() < 0.5]

    def _serve(self, slow: bool) -> None:
        chance = self._world.chance
        requests = list(self._requests)
        if slow:
            chance.shuffle(requests)
        for request in requests:
            if slow and chance.random() < 0.6:
                continue
            if request.kind == "write":
                self._write(request, slow)
            elif request.kind == "job":
                self._end(request, JobRead(request.shard, str(request.name), self._tables.snapshot(str(request.name))))
            else:
                self._page(request, slow)

    def _end(self, request: Request, completion: Completion) -> None:
        self._requests.remove(request)
        self._done.append(completion)

    def _write(self, request: Request, slow: bool) -> None:
        """Apply rows; a timeout tells nothing, so what was applied may be asked again."""
        chance = self._world.chance
        left = []
        for row in request.left:
            if slow and chance.random() < 0.3:
                left.append(row)
                continue
            self._tables.apply(request.shard, row)
            if slow and chance.random() < 0.2:
                left.append(row)
        request.left = left
        if not left:
            self._end(request, WritesDone(request.shard, int(request.name)))

    def _page(self, request: Request, slow: bool) -> None:
        shard, minute = request.shard, int(request.name)
        while True:
            rows: list[Entry] = self._tables.bucket(shard, minute)
            if request.after is not None:
                rows = [row for row in rows if row.key > request.after]
            page, last = rows[:PAGE_ROWS], len(rows) <= PAGE_ROWS
            if last:
                self._end(request, BucketPage(shard, minute, page, True, shard in self._tables.marks))
                return
            self._done.append(BucketPage(shard, minute, page, False))
            request.after = page[-1].key
            if slow:
                return


def by_shard(tables: MemoryTables) -> dict[int, dict[EntryKey, Entry]]:
    """Return the rows of each shard."""
    found: defaultdict[int, dict[EntryKey, Entry]] = defaultdict(dict)
    for (_minute, shard), rows in tables.index.items():
        found[shard].update(rows)
    return found
