"""Rows of jobs for asyncio loops: what is to be written in one turn of a loop travels in one request.

An owner decides many commands in one transaction, so their outcomes become known at the same moment, and a request of
its own for each row would cost client and node several times what the row does.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from tocsin.adapters.cassandra.asking import file
from tocsin.adapters.cassandra.batches import BatchBounds, Write, by_replica, split
from tocsin.adapters.cassandra.bucket_reads import ROW_BYTES
from tocsin.adapters.cassandra.session import Connection
from tocsin.ports.schedule_store import JobRow


class _Waiting(NamedTuple):
    job_id: str
    write: Write
    done: asyncio.Future[None]


class JobWrites:
    """Writes rows of jobs; belongs to no one loop.

    Args:
        connection: to the store.
        bounds: of what travels together; what waits is bounded by whoever asks.
    """

    def __init__(self, connection: Connection, bounds: BatchBounds | None = None) -> None:
        self._connection = connection
        self._bounds = bounds or BatchBounds()
        self._waiting: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        """By loop, for each touches only its own; gone with the turn in which it came."""
        self._under_way: set[asyncio.Task[None]] = set()

    async def write(self, row: JobRow) -> None:
        """Write a row, or delete it where it has no snapshot; the highest version wins.

        Raises:
            Unavailable: the store does not answer.
            Refused: it never will, to one at least of the rows that travelled together.
        """
        loop = asyncio.get_running_loop()
        waiting = self._waiting.get(loop)
        if waiting is None:
            waiting = self._waiting[loop] = []
            loop.call_soon(self._send, loop)
        one = _Waiting(row.job_id, job_write(row), loop.create_future())
        waiting.append(one)
        await one.done

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        bounds = self._bounds
        for group in by_replica(self._connection, self._waiting.pop(loop), lambda one: one.job_id.encode()):
            for batch in split(group, _size, bounds.mixed_rows_max, bounds.bytes_max):
                task = loop.create_task(self._file(batch))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)

    async def _file(self, batch: list[_Waiting]) -> None:
        try:
            await file(self._connection, [one.write for one in batch])
        except Exception as error:  # noqa: BLE001 - it is for those who wait, whatever it is
            for one in batch:
                if not one.done.done():
                    one.done.set_exception(error)
            return
        for one in batch:
            if not one.done.done():  # Whoever waited was cancelled.
                one.done.set_result(None)


def _size(one: _Waiting) -> int:
    return one.write.size


def job_write(row: JobRow) -> Write:
    """Return what writes a job's row, or deletes it."""
    if row.snapshot is None:
        return Write("delete_job", (row.version, row.job_id), ROW_BYTES + len(row.job_id))
    values = (row.job_id, row.version, row.snapshot, row.version)
    return Write("upsert_job", values, ROW_BYTES + len(row.job_id) + len(row.snapshot))
