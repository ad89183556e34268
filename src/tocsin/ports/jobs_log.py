"""Port: the jobs log of a shard, read from an offset on beside the turns: the truth from which the index is rebuilt.

Nothing here blocks, and a completion always means success; see ``ports.schedule_store``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class JobsRecord(NamedTuple):
    """A job's snapshot in the log."""

    offset: int
    job_id: str
    snapshot: bytes


class JobsPage(NamedTuple):
    """A stretch of a shard's jobs log."""

    shard: int
    start: int
    records: Sequence[JobsRecord]
    """In log order. Each is the last of its job in the whole log, as it was when the first
    page of this reading was begun or later; tombstones are left out."""
    next: int
    """Where the following page begins."""
    end: int
    """The end of the log, as far as this reading goes: with ``next`` at it there is no further page."""


class JobsLog(Protocol):
    """Reads jobs logs. One instance serves all shards of a process, one reading a shard."""

    def begin_read(self, shard: int, start: int, records_max: int) -> None:
        """Read a page of about ``records_max`` records; completes as a ``JobsPage``.

        At the ``next`` of the page before, the reading goes on; anywhere else another begins, which looks through the
        whole log first, since only that tells which snapshot of a job is the last.
        """
        ...

    def completed(self) -> list[JobsPage]:
        """Return the pages that have come; never waits."""
        ...

    def forget(self, shard: int) -> None:
        """Drop the reading of a shard and what it would still bring."""
        ...

    def close(self) -> None: ...
