"""Buckets of the index, read page by page: pages bounded in bytes, and none asked for while too many wait.

A read goes on from where it stands, whatever happens: from the server's mark, or, should a server refuse that, from
the last row seen. Every page is asked for again until it comes, so rows may come twice, and none is left out.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cassandra.cluster import ResultSet

from tocsin.adapters.cassandra.page_sizes import PageBounds, PageSize
from tocsin.adapters.cassandra.requests import Request
from tocsin.adapters.cassandra.session import Connection
from tocsin.domain.entries import Entry
from tocsin.domain.errors import TocsinError
from tocsin.ports.schedule_store import BucketPage

ROW_BYTES: Final = 200
"""What a row takes but for its texts and blobs, rounded up."""
BEFORE_ALL: Final = (-(1 << 63), "", 0, 0)
"""Precedes every clustering key (run_at, job_id, version, scheduled_for)."""


@dataclass(slots=True, eq=False)
class _Read:
    shard: int
    minute: int
    generation: int
    size: PageSize
    after: tuple[int, str, int, int] = BEFORE_ALL
    """Where the present query begins; ``paging_state`` is a mark inside that query."""
    seen: tuple[int, str, int, int] = BEFORE_ALL
    paging_state: bytes | None = None


def entries_of(rows: Iterable[Sequence[Any]]) -> list[Entry]:
    """Return entries whose tenants, lanes and plans are one text each, however many rows say the same: they are kept in
    memory, and told from one another in a burst."""
    texts: dict[Any, Any] = {}
    one = texts.setdefault
    return [
        Entry(run_at, job_id, scheduled_for, version, execution_id, one(tenant, tenant), one(lane, lane), execution,
              one(plan, plan))
        for run_at, job_id, scheduled_for, version, execution_id, tenant, lane, execution, plan in rows
    ]  # fmt: skip


class BucketReads:
    """Reads of all shards of a process.

    Args:
        submit: sends a request.
        arrived: takes each page, with the generation of its read and its bytes, in the driver's thread.
        wanted: tells whether a shard's generation still counts.
    """

    def __init__(
        self,
        submit: Callable[[Request], None],
        arrived: Callable[[int, BucketPage, int], None],
        wanted: Callable[[int, int], bool],
        bounds: PageBounds,
    ) -> None:
        self._submit = submit
        self._arrived = arrived
        self._wanted = wanted
        self._bounds = bounds
        self._held: list[tuple[int, int, _Read]] = []
        """Reads whose next page is not asked for yet; the earliest minute first."""
        self._order = itertools.count()
        self._asked: set[_Read] = set()
        self._waiting_bytes = 0
        self._lock = threading.Lock()

    def begin(self, shard: int, generation: int, minute: int) -> None:
        """Read a bucket from its beginning."""
        self._go_on(_Read(shard, minute, generation, PageSize(self._bounds)))

    def collected(self, size: int) -> None:
        """So many bytes of pages were collected, or dropped."""
        with self._lock:
            self._waiting_bytes -= size
        self._ask()

    def forget(self, shard: int) -> None:
        """Give up the reads of a shard whose generation has ended."""
        with self._lock:
            self._held = [one for one in self._held if one[2].shard != shard]
            heapq.heapify(self._held)
            self._asked = {read for read in self._asked if read.shard != shard}
        self._ask()

    def _go_on(self, read: _Read) -> None:
        with self._lock:
            heapq.heappush(self._held, (read.minute, next(self._order), read))
        self._ask()

    def _ask(self) -> None:
        """Ask for as many pages as there is room for; never with the lock held, for the pump has one of its own."""
        ready: list[_Read] = []
        with self._lock:
            while self._held and self._has_room():
                read = heapq.heappop(self._held)[2]
                if self._wanted(read.shard, read.generation):
                    self._asked.add(read)
                    ready.append(read)
        for read in ready:
            self._submit(self._request(read))

    def _has_room(self) -> bool:
        """One page may always be under way, however little room the bounds leave."""
        if not self._asked and not self._waiting_bytes:
            return True
        coming = (len(self._asked) + 1) * self._bounds.bytes_max
        return self._waiting_bytes + coming <= self._bounds.waiting_bytes_max

    def _request(self, read: _Read) -> Request:
        def build(connection: Connection) -> Any:
            bound = connection.bound("select_bucket", (read.minute, read.shard, *read.after))
            bound.fetch_size = read.size.rows
            return bound

        return Request(
            build,
            lambda rows: self._page(read, rows),
            lambda: self._wanted(read.shard, read.generation),
            urgent=True,
            paging_state=read.paging_state,
            failed=read.size.failed,
            refused=lambda error: self._refused(read, error),
            what=lambda: f"the index bucket of minute {read.minute}, shard {read.shard}",
        )

    def _page(self, read: _Read, rows: ResultSet) -> None:
        entries = entries_of(rows.current_rows)
        following = rows.paging_state
        if following is None:
            # The mark is read after the rows: if it is there then, nothing was lost before they were read.
            self._submit(self._mark_request(read, entries))
            return
        sizes = self._hand_over(read, entries, last=False)
        if sizes is None:
            return
        if entries:
            read.size.read(len(entries), sum(sizes), max(sizes))
            last = entries[-1]
            read.seen = (last.run_at, last.job_id, last.version, last.scheduled_for)
        read.paging_state = following
        self._go_on(read)

    def _mark_request(self, read: _Read, entries: list[Entry]) -> Request:
        def succeeded(rows: ResultSet) -> None:
            if self._hand_over(read, entries, last=True, marked=rows.one() is not None) is not None:
                self._ask()

        return Request(
            lambda connection: connection.bound("select_mark", (read.shard,)),
            succeeded,
            lambda: self._wanted(read.shard, read.generation),
            urgent=True,
            what=lambda: f"the mark of shard {read.shard}",
        )

    def _hand_over(self, read: _Read, entries: list[Entry], *, last: bool, marked: bool = True) -> list[int] | None:
        """Let the owner have a page; return the sizes of its entries, or None where it was forgotten meanwhile."""
        sizes = [ROW_BYTES + len(entry.execution) + len(entry.plan or "") for entry in entries]
        size = sum(sizes)
        with self._lock:
            if read not in self._asked:
                return None
            self._asked.discard(read)
            self._waiting_bytes += size
        self._arrived(read.generation, BucketPage(read.shard, read.minute, entries, last, marked), size)
        return sizes

    def _refused(self, read: _Read, _error: TocsinError) -> bool:
        """Servers may not know a mark, or have a bound of their own on pages: try without the one, then with less."""
        if read.paging_state is not None:
            read.after, read.paging_state = read.seen, None
        elif not read.size.refused():
            return False
        self._submit(self._request(read))
        return True
