"""The projector's side of the views: batched writes, acknowledged before it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cassandra.concurrent import execute_concurrent

from tocsin.adapters.cassandra.batches import BatchBounds, by_replica, joined, split
from tocsin.adapters.cassandra.driver_errors import translated
from tocsin.adapters.cassandra.letter_rows import letter_writes
from tocsin.adapters.cassandra.run_rows import dispatch_write, event_write, job_write
from tocsin.adapters.cassandra.session import Connection
from tocsin.ports.views import DispatchSeen, EventSeen, JobSeen, LetterSeen


@dataclass(frozen=True, slots=True)
class _Bound:
    statement: Any
    size: int


class CassandraViewWriter:
    """Fulfils ``ports.views.ViewWriter``.

    Args:
        connection: opened on the first write.
        bounds: of batches.
        in_flight_max: batches under way at once.
    """

    def __init__(self, connection: Connection, bounds: BatchBounds | None = None, in_flight_max: int = 32) -> None:
        self._connection = connection
        self._bounds = bounds or BatchBounds()
        self._in_flight_max = in_flight_max

    def write(
        self,
        jobs: Sequence[JobSeen],
        dispatches: Sequence[DispatchSeen],
        events: Sequence[EventSeen],
        letters: Sequence[LetterSeen] = (),
    ) -> None:
        writes = [*map(job_write, jobs), *map(dispatch_write, dispatches), *map(event_write, events)]
        writes += letter_writes(letters)
        bound = [_Bound(self._connection.bound(write.query, write.values), write.size) for write in writes]
        batches: list[tuple[Any, None]] = []
        for group in by_replica(self._connection, bound, lambda one: one.statement.routing_key):
            # Rows of one partition stand together, so that fewer batches touch a partition.
            group.sort(key=lambda one: one.statement.routing_key)
            parts = split(group, lambda one: one.size, self._bounds.mixed_rows_max, self._bounds.bytes_max)
            batches.extend((joined([one.statement for one in part]), None) for part in parts)
        try:
            execute_concurrent(
                self._connection.session, batches, concurrency=self._in_flight_max, raise_on_first_error=True
            )
        except Exception as error:
            raise translated(error) from error

    def close(self) -> None:
        self._connection.close()
