"""The output of attempts in its table: written by workers, read by gateways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cassandra.concurrent import execute_concurrent

from tocsin.adapters.cassandra.asking import ask
from tocsin.adapters.cassandra.driver_errors import translated
from tocsin.adapters.cassandra.session import Connection
from tocsin.ports.run_logs import LogChunk, LogPlace

_BEFORE_ALL: Final = (-1, -1)
IN_FLIGHT_MAX: Final = 8
"""Writes of one process under way at once: output is the least urgent of all that is written."""


class CassandraRunLogStore:
    """Fulfils ``ports.run_logs.RunLogStore``.

    Args:
        connection: opened on the first write; belongs to this store.
        kept_s: how long rows live.
    """

    def __init__(self, connection: Connection, kept_s: int) -> None:
        self._connection = connection
        self._kept_s = kept_s

    def write(self, logs: Sequence[tuple[LogPlace, Sequence[LogChunk]]]) -> None:
        # One row each: a row is as large as a batch may be.
        writes = [
            (self._connection.bound("insert_run_log", (*place[:2], *chunk, self._kept_s)), None)
            for place, chunks in logs
            for chunk in chunks
        ]
        try:
            execute_concurrent(self._connection.session, writes, concurrency=IN_FLIGHT_MAX, raise_on_first_error=True)
        except Exception as error:
            raise translated(error) from error

    def close(self) -> None:
        self._connection.close()


class CassandraRunLogReader:
    """Fulfils ``ports.run_logs.RunLogReader``; belongs to no one loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_log(
        self, execution_id: str, attempt: int, after: tuple[int, int] | None, limit: int
    ) -> list[LogChunk]:
        values = (execution_id, attempt, *(after or _BEFORE_ALL), limit)
        return [LogChunk(*row) for row in await ask(self._connection, "select_run_log", values)]
