"""Port: the owner's store, which holds the schedule index and the latest snapshot of every job.

Nothing here blocks. A request is begun, and its completion is collected later by the owner's loop; a failing store
is asked again, for ever and with growing pauses, so a completion always means success. All writes are idempotent:
each carries the logical timestamp that decides, so repeating or reordering them changes nothing. Only what is
committed to the log may be handed in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tocsin.domain.entries import Entry, EntryKey


class JobRow(NamedTuple):
    """A write to the jobs table with the version as its timestamp. ``snapshot`` None deletes the row."""

    job_id: str
    version: int
    snapshot: bytes | None


@dataclass(frozen=True, slots=True)
class StoreWrites:
    """All that one turn of a shard leaves to write.

    Attributes:
        inserts: index rows, written with timestamp 1.
        deletes: keys of index rows, deleted with timestamp 2: a delete wins whatever the order of arrival.
        jobs: rows of the jobs table.
        buckets: minutes whose index partitions are deleted whole, with timestamp 2.
        mark: write the shard's mark.
    """

    inserts: tuple[Entry, ...] = ()
    deletes: tuple[EntryKey, ...] = ()
    jobs: tuple[JobRow, ...] = ()
    buckets: tuple[int, ...] = ()
    mark: bool = False

    @property
    def size(self) -> int:
        """About how many bytes of values they hold."""
        return sum(len(e.execution) for e in self.inserts) + sum(len(row.snapshot or b"") for row in self.jobs)

    def __bool__(self) -> bool:
        return bool(self.inserts or self.deletes or self.jobs or self.buckets or self.mark)


class BucketPage(NamedTuple):
    """Rows of one index partition; a bucket may come in several pages, in order."""

    shard: int
    minute: int
    entries: Sequence[Entry]
    last: bool
    """The bucket has been read whole."""
    marked: bool = True
    """With the last page: the shard's mark was seen after the rows, so what is not among them was never there."""


class JobRead(NamedTuple):
    """A row of the jobs table; ``snapshot`` None: there is none."""

    shard: int
    job_id: str
    snapshot: bytes | None


class WritesDone(NamedTuple):
    """Every write of that turn is acknowledged at LOCAL_QUORUM."""

    shard: int
    turn: int


Completion = BucketPage | JobRead | WritesDone


class ScheduleStore(Protocol):
    """What an owner does with the store. One instance serves all shards of a process."""

    def begin_bucket_read(self, shard: int, minute: int) -> None:
        """Read the index partition (minute, shard) at LOCAL_QUORUM; completes as ``BucketPage``s."""
        ...

    def begin_job_read(self, shard: int, job_id: str) -> None:
        """Read a job's row at LOCAL_QUORUM; completes as ``JobRead``."""
        ...

    def begin_job_reads(self, shard: int, job_ids: Sequence[str]) -> None:
        """Read the rows of several jobs, in few requests; each completes as a ``JobRead``, in any order."""
        ...

    def begin_writes(self, shard: int, turn: int, writes: StoreWrites) -> None:
        """Write, batched by index partition; completes as ``WritesDone`` with the same turn."""
        ...

    def completed(self, limit: int) -> list[Completion]:
        """Return up to ``limit`` completions in the order in which they happened; never waits."""
        ...

    def forget(self, shard: int) -> None:
        """Drop all completions of a shard, also those of requests under way: its owner has changed."""
        ...

    def close(self) -> None:
        """Stop asking again, and release the connections."""
        ...
