"""Port: looking through the whole store, for whoever compares it with the log. Every call may block.

Raises ``Unavailable`` or ``Refused`` where the store does not answer, or not to us.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tocsin.domain.entries import Entry
from tocsin.ports.schedule_store import JobRow


class IndexReader(Protocol):
    """Reads at LOCAL_QUORUM, page by page; what is written meanwhile may be seen or not."""

    def buckets(self) -> Iterator[tuple[int, int]]:
        """Yield the (minute, shard) of every index partition that holds rows, in no order."""
        ...

    def rows(self, shard: int, minute: int) -> Iterator[Entry]:
        """Yield the rows of an index partition in the order of their keys."""
        ...

    def jobs(self) -> Iterator[JobRow]:
        """Yield every row of the jobs table, in no order."""
        ...

    def job(self, job_id: str) -> bytes | None:
        """Return a job's snapshot."""
        ...

    def has_mark(self, shard: int) -> bool:
        """Tell whether a shard's mark is there."""
        ...
