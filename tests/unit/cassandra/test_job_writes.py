"""Rows of jobs that are to be written at the same moment, without a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tocsin.adapters.cassandra import job_writes
from tocsin.adapters.cassandra.batches import BatchBounds, Write
from tocsin.adapters.cassandra.job_writes import JobWrites
from tocsin.domain.errors import Unavailable
from tocsin.ports.schedule_store import JobRow


class Node:
    """A store that takes down which jobs each request writes; one that names any of ``refused`` fails."""

    def __init__(self, replica_of: Callable[[bytes], object] = lambda _key: None) -> None:
        self.replica_of = replica_of
        self.requests: list[list[str]] = []
        self.refused: set[str] = set()
        self.answers = asyncio.Event()
        self.answers.set()

    async def file(self, _connection: object, writes: Sequence[Write]) -> None:
        ids = [str(write.values[0 if write.query == "upsert_job" else 1]) for write in writes]
        self.requests.append(ids)
        await self.answers.wait()
        if self.refused & set(ids):
            raise Unavailable("cassandra", "is away")


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node()
    monkeypatch.setattr(job_writes, "file", node.file)
    return node


def _row(number: int, snapshot: bytes | None = b"x") -> JobRow:
    return JobRow(f"job-{number}", 1, snapshot)


def _write(node: Node, rows: Sequence[JobRow], bounds: BatchBounds | None = None) -> list[BaseException | None]:
    async def all_at_once() -> list[BaseException | None]:
        writes = JobWrites(node, bounds)  # type: ignore[arg-type]
        return await asyncio.gather(*map(writes.write, rows), return_exceptions=True)

    return asyncio.run(all_at_once())


def test_what_is_written_at_one_moment_travels_in_one_request(node: Node) -> None:
    assert _write(node, [_row(1), _row(2, None), _row(3)]) == [None, None, None]
    assert node.requests == [["job-1", "job-2", "job-3"]]


def test_what_comes_later_waits_for_nobody(node: Node) -> None:
    async def story() -> None:
        writes = JobWrites(node)  # type: ignore[arg-type]
        node.answers.clear()
        first = asyncio.create_task(writes.write(_row(1)))
        while not node.requests:
            await asyncio.sleep(0)
        node.answers.set()
        await writes.write(_row(2))
        await first

    asyncio.run(story())
    assert node.requests == [["job-1"], ["job-2"]]


def test_rows_and_bytes_of_a_request_are_bounded(node: Node) -> None:
    _write(node, [_row(number) for number in range(7)], BatchBounds(mixed_rows_max=3))
    assert [len(request) for request in node.requests] == [3, 3, 1]
    node.requests.clear()
    _write(node, [_row(1), _row(2, b"x" * 50_000), _row(3), _row(4)])
    assert node.requests == [["job-1"], ["job-2"], ["job-3", "job-4"]]


def test_rows_of_one_node_travel_together(node: Node) -> None:
    node.replica_of = lambda key: key[-1] % 2
    _write(node, [_row(number) for number in range(4)])
    assert sorted(node.requests) == [["job-0", "job-2"], ["job-1", "job-3"]]


def test_a_failure_is_told_to_all_who_wait_for_that_request_and_to_nobody_else(node: Node) -> None:
    node.refused = {"job-1"}
    told = _write(node, [_row(number) for number in range(4)], BatchBounds(mixed_rows_max=2))
    assert [type(one) for one in told] == [Unavailable, Unavailable, type(None), type(None)]


def test_one_who_waits_no_longer_keeps_nothing_from_the_others(node: Node) -> None:
    async def story() -> None:
        writes = JobWrites(node)  # type: ignore[arg-type]
        node.answers.clear()
        gone, stays = (asyncio.create_task(writes.write(_row(number))) for number in (1, 2))
        while not node.requests:
            await asyncio.sleep(0)
        gone.cancel()
        node.answers.set()
        await stays

    asyncio.run(story())
    assert node.requests == [["job-1", "job-2"]]
