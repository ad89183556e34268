"""One request for an asyncio loop, on the driver's own thread of callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tocsin.adapters.cassandra.batches import Write, statement
from tocsin.adapters.cassandra.driver_errors import translated
from tocsin.adapters.cassandra.session import Connection


async def ask(connection: Connection, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Run a query whose answer is one page; the first one of its kind waits for its preparation in another thread.

    Raises:
        Unavailable: the store does not answer.
        Refused: it never will.
    """
    if connection.is_prepared(query):
        bound = connection.bound(query, values)
    else:
        bound = await asyncio.to_thread(connection.bound, query, values)
    bound.fetch_size = None  # No paging: each query has a limit, or reads one execution.
    return await _answer(connection, bound)


async def file(connection: Connection, writes: Sequence[Write]) -> None:
    """Write several rows in one request; raises as ``ask`` does."""
    if all(connection.is_prepared(write.query) for write in writes):
        together = statement(connection, writes)
    else:
        together = await asyncio.to_thread(statement, connection, writes)
    await _answer(connection, together)


async def _answer(connection: Connection, bound: Any) -> list[tuple[Any, ...]]:
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[list[tuple[Any, ...]]] = loop.create_future()

    def answered(rows: list[tuple[Any, ...]] | None) -> None:
        with suppress(RuntimeError):  # The loop was closed before the store answered.
            loop.call_soon_threadsafe(_settle, waiter, rows or [], None)

    def failed(error: Exception) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, waiter, [], error)

    try:
        connection.session.execute_async(bound).add_callbacks(answered, failed)
        return await waiter
    except Exception as error:
        raise translated(error) from error


def _settle(waiter: asyncio.Future[Any], rows: list[tuple[Any, ...]], error: Exception | None) -> None:
    if waiter.done():  # Whoever waited was cancelled.
        return
    if error is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(rows)
