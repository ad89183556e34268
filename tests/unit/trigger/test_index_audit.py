"""Comparing store and log: whatever is spoiled is found, and a system at work looks whole."""

from __future__ import annotations

import random

import pytest

from tests.unit.trigger.test_index_rebuild import SMALL, _populate, _rebuild, _until_rebuilt
from tests.unit.trigger.world import CODEC, World
from tocsin.adapters.memory.index_reader import MemoryIndexReader
from tocsin.adapters.memory.jobs_log import MemoryJobsLog
from tocsin.adapters.memory.shard_log import MemoryTakeover
from tocsin.domain.entries import Entry
from tocsin.ports.schedule_store import JobRow
from tocsin.roles.index_audit import IndexAudit, Verdict


class Meddling(MemoryIndexReader):
    """The world goes on while it is looked at."""

    def __init__(self, world: World, seconds: float) -> None:
        super().__init__(world.tables)
        self.world, self.seconds = world, seconds

    def buckets(self):  # type: ignore[no-untyped-def]
        for place in list(super().buckets()):
            self.world.run(self.seconds, step_s=1)
            yield place

    def jobs(self):  # type: ignore[no-untyped-def]
        self.world.run(self.seconds, step_s=1)
        yield from super().jobs()


def _verify(world: World, meddles_s: float = 0.0, waits_max: int = 20) -> Verdict:
    reader = Meddling(world, meddles_s) if meddles_s else MemoryIndexReader(world.tables)
    audit = IndexAudit(
        MemoryTakeover(world.log), MemoryJobsLog(world.log), reader, CODEC, world.shards, lambda: world.run(2, step_s=1)
    )
    return audit.verify(range(world.shards), waits_max)


def _world(seed: int) -> World:
    world = World(limits=SMALL)
    world.start()
    _populate(world, random.Random(seed))
    return world


def _coming(world: World) -> list[tuple[tuple[int, int], Entry]]:
    far = world.clock.now() + 200_000_000
    return [
        (place, e)
        for place, rows in sorted(world.tables.index.items())
        for e in sorted(rows.values())
        if e.run_at > far
    ]


@pytest.mark.parametrize("seed", range(4))
def test_a_quiet_and_a_busy_system_show_no_difference(seed: int) -> None:
    world = _world(seed)
    quiet = _verify(world)
    assert quiet.differences == () and quiet.jobs > 20 and quiet.rows > 10
    world.store.held = True
    world.order("delete", next(iter(world.tables.jobs)))
    world.run(3)
    assert _verify(world, waits_max=2).differences == (), "what is committed and not written yet is not judged"
    world.store.held = False
    assert _verify(world, meddles_s=0.7).differences == ()


def test_whatever_is_spoiled_is_found_and_nothing_else() -> None:
    world = _world(5)
    coming = _coming(world)
    (gone_at, gone), (bent_at, bent), (copied_at, copied) = coming[0], coming[1], coming[2]
    del world.tables.index[gone_at][gone.key]
    world.tables.index[bent_at][bent.key] = bent._replace(tenant_id="another")
    extra = copied._replace(version=copied.version - 1)
    world.tables.index[copied_at][extra.key] = extra
    known = sorted(job_id for job_id, row in world.tables.jobs.items() if row.snapshot is not None)
    lost, garbled = known[3], known[4]
    del world.tables.jobs[lost]
    row = world.tables.jobs[garbled]
    world.tables.jobs[garbled] = JobRow(garbled, row.version, b"?" + (row.snapshot or b""))
    world.tables.jobs["stray"] = JobRow("stray", 1, b"stray")
    found = {(d.table, d.what, d.job_id) for d in _verify(world).differences}
    assert found >= {
        ("schedule_index", "missing", gone.job_id),
        ("schedule_index", "different", bent.job_id),
        ("schedule_index", "extra", copied.job_id),
        ("jobs", "missing", lost),
        ("jobs", "different", garbled),
        ("jobs", "extra", "stray"),
    }
    others = {job_id for _, _, job_id in found} - {gone.job_id, bent.job_id, copied.job_id, lost, garbled, "stray"}
    assert not others


def test_a_lost_index_is_told_and_a_rebuilt_one_is_whole() -> None:
    world = _world(6)
    world.tables.truncate()
    lost = _verify(world, waits_max=2)
    assert {d.job_id for d in lost.differences} > {""}, "the marks are missing too"
    assert set(lost.stood) <= {0, 1}
    _rebuild(world)
    _until_rebuilt(world)
    world.run(5)
    assert _verify(world).differences == ()


def test_a_shard_without_an_owner_is_told_as_it_stands() -> None:
    world = _world(7)
    coming = _coming(world)
    place, gone = coming[0]
    del world.tables.index[place][gone.key]
    audit = IndexAudit(
        MemoryTakeover(world.log),
        MemoryJobsLog(world.log),
        MemoryIndexReader(world.tables),
        CODEC,
        world.shards,
        lambda: None,
    )
    verdict = audit.verify(range(world.shards), 3)
    assert [d.key for d in verdict.differences] == [gone.key]
