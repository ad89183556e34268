"""Port: the log as the projector reads it: what was committed of jobs, events and executions, partition by partition.

Records may come again after a crash or when partitions move, never out of order within a partition, and those of
different topics interleave in any way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tocsin.domain.instants import Micros


class ProjectedRecord(NamedTuple):
    """A record as it came. ``topic`` is the name without the cluster's prefix."""

    topic: str
    partition: int
    offset: int
    timestamp: Micros
    """Of the record, µs (Kafka keeps milliseconds)."""
    value: bytes | None


class ProjectionLog(Protocol):
    """What the projector does with the log. All of it on one thread."""

    def poll(self, wait_s: float) -> Sequence[ProjectedRecord]:
        """Return what has arrived, waiting at most ``wait_s`` for the first record; nothing while paused.

        A batch is bounded in records and bytes. Polling keeps the process in its group, so it goes on while paused.
        """
        ...

    def commit(self) -> None:
        """Record that everything returned so far is filed; a failure is no loss, the records come again.

        Where there is nothing new to record it costs nothing.
        """
        ...

    def pause(self) -> None:
        """Bring no records until ``resume``, also of partitions that come in between."""
        ...

    def resume(self) -> None: ...

    def lag(self) -> Mapping[str, int]:
        """Return how many records of each topic have not been returned yet, for the partitions held now."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...
