"""Snapshots on their way to the view: a store that is away costs a request nothing after the first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tocsin.adapters.memory.views import MemoryViews
from tocsin.domain.errors import Refused, TocsinError, Unavailable
from tocsin.roles.gateway import snapshots
from tocsin.roles.gateway.snapshots import INDEX_PENDING, SnapshotDesk


class CountingViews(MemoryViews):
    """Views whose writes are counted and may fail or hang."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.error: TocsinError | None = None
        self.hangs = False

    async def write_job(self, job_id: str, version: int, snapshot: bytes | None) -> None:
        self.asked += 1
        if self.hangs:
            await asyncio.sleep(3_600)
        if self.error:
            raise self.error
        await super().write_job(job_id, version, snapshot)


def play(scene: Callable[[CountingViews], Any]) -> None:
    async def run() -> None:
        await scene(CountingViews())

    asyncio.run(run())


def test_a_snapshot_is_written_with_its_version_and_a_deletion_wins() -> None:
    async def scene(views: CountingViews) -> None:
        desk = SnapshotDesk(views, 5.0)
        assert await desk.write("job_1", 5, b"five") == {}
        assert await views.read_job("job_1") == b"five"
        await desk.write("job_1", 6, None)
        await desk.write("job_1", 5, b"five")
        assert await views.read_job("job_1") is None

    play(scene)


@pytest.mark.parametrize("error", [Unavailable("cassandra", "is away"), Refused("no such keyspace"), None])
def test_after_a_failure_the_store_is_left_alone_for_a_while(error: TocsinError | None) -> None:
    async def scene(views: CountingViews) -> None:
        views.error, views.hangs = error, error is None
        desk = SnapshotDesk(views, 0.01)
        for _ in range(50):
            assert await desk.write("job_1", 1, b"x") == INDEX_PENDING
        assert views.asked < 50

    play(scene)


def test_the_store_is_asked_again_after_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "REST_S", 0.0)

    async def scene(views: CountingViews) -> None:
        views.error = Unavailable("cassandra", "is away")
        desk = SnapshotDesk(views, 5.0)
        assert await desk.write("job_1", 1, b"x") == INDEX_PENDING
        views.error = None
        assert await desk.write("job_1", 1, b"x") == {}
        assert await views.read_job("job_1") == b"x"

    play(scene)
