"""The contract of the output of attempts in its store, held against the fake and against the real thing."""

from __future__ import annotations

import asyncio
import uuid
from typing import NamedTuple

import pytest

from tocsin.adapters.memory.run_logs import MemoryRunLogs
from tocsin.ports.run_logs import LOST_BY_LIMIT, LOST_BY_STORE, LogChunk, LogPlace, RunLogReader, RunLogStore

NOON = 1_791_633_600_000_000


class Logs(NamedTuple):
    store: RunLogStore
    reader: RunLogReader

    def read(self, place: LogPlace, after: tuple[int, int] | None = None, limit: int = 100) -> list[LogChunk]:
        return asyncio.run(self.reader.read_log(place.execution_id, place.attempt, after, limit))


@pytest.fixture(params=["memory", pytest.param("cassandra", marks=pytest.mark.real)])
def logs(request: pytest.FixtureRequest) -> Logs:
    if request.param == "memory":
        memory = MemoryRunLogs()
        return Logs(memory, memory)
    from tocsin.adapters.cassandra.run_logs import CassandraRunLogReader, CassandraRunLogStore

    connection = request.getfixturevalue("connection")
    return Logs(CassandraRunLogStore(connection, 3_600), CassandraRunLogReader(connection))


def place(token: int = 7, attempt: int = 1, execution_id: str | None = None) -> LogPlace:
    return LogPlace(execution_id or f"acme@{uuid.uuid4().hex}.1.1000000", attempt, token)


def test_output_is_read_as_it_was_written_whatever_it_holds(logs: Logs) -> None:
    one = place()
    chunks = [
        LogChunk(7, 0, NOON, "erste Zeile\nzweite\n"),
        LogChunk(7, 1, NOON + 1, "\x00\x1b[31m \U0001f514 \ufffd" * 500, 12, LOST_BY_STORE),
        LogChunk(7, 2, NOON + 2, "", 2**40, LOST_BY_LIMIT, True),
    ]
    logs.store.write([(one, chunks[:2])])
    logs.store.write([(one, chunks[1:])])
    assert logs.read(one) == chunks


def test_pages_go_on_where_the_one_before_ended_and_dispatches_stand_in_their_order(logs: Logs) -> None:
    first, again = place(9), None
    again = place(2**40, 1, first.execution_id)
    chunks = [LogChunk(token, seq, NOON, f"{token}/{seq}") for token in (9, 2**40) for seq in range(3)]
    logs.store.write([(again, chunks[3:]), (first, chunks[:3])])
    found: list[LogChunk] = []
    after = None
    while page := logs.read(first, after, 2):
        found += page
        after = page[-1].token, page[-1].seq
    assert found == chunks


def test_attempts_and_executions_are_kept_apart(logs: Logs) -> None:
    one = place()
    other, later = place(), place(7, 2, one.execution_id)
    for where, text in ((one, "one"), (other, "other"), (later, "later")):
        logs.store.write([(where, [LogChunk(7, 0, NOON, text)])])
    assert [[chunk.text for chunk in logs.read(where)] for where in (one, other, later)] == [
        ["one"],
        ["other"],
        ["later"],
    ]
    assert logs.read(place()) == []
