"""The index written anew from the jobs log: after any loss, under firing, through crashes, and nothing that was."""

from __future__ import annotations

import random

import pytest

from tests.unit.trigger.world import CODEC, World, work_of
from tocsin.domain.commands import Command
from tocsin.domain.entries import Entry
from tocsin.domain.instants import SECOND
from tocsin.domain.timers import is_timer
from tocsin.engine.shard_engine import EngineLimits

SMALL = EngineLimits(fires_max=5, commands_max=6, work_portions_max=4, cursor_persist_s=2.0, ring=32)


def _rebuild(world: World) -> list[str]:
    ids = [f"rebuild-{world.starts}-{shard}-{world.clock.now()}" for shard in range(world.shards)]
    for shard, command_id in enumerate(ids):
        world.send(Command("rebuild_index", command_id, reply_partition=0), shard)
    return ids


def _under_way(world: World) -> bool:
    return any(work_of(engine) for engine in world.engines.values())


def _until_rebuilt(world: World) -> None:
    for _ in range(3_000):
        world.settle(1)
        world.clock.advance(0.05)
        if not _under_way(world):
            return
    raise AssertionError("the rebuild never ends")


def _rows(world: World) -> dict[int, set[Entry]]:
    """The occurrences that are still to come, by shard; where a look for a job's end stands is its owner's choice."""
    cursors = {shard: engine.state.cursor for shard, engine in world.engines.items()}
    found: dict[int, set[Entry]] = {shard: set() for shard in cursors}
    for (_, shard), rows in world.tables.index.items():
        found[shard] |= {entry for entry in rows.values() if entry[:3] > cursors[shard] and not is_timer(entry)}
    return found


def _jobs(world: World) -> dict[str, bytes]:
    return {job_id: row.snapshot for job_id, row in world.tables.jobs.items() if row.snapshot is not None}


def _populate(world: World, chance: random.Random) -> None:
    jobs = [world.create(in_s=chance.choice([5, 300, 1_000, 90_000])) for _ in range(20)]
    jobs += [world.recur({"every_s": chance.choice([7, 60, 3_600])}, concurrency="allow") for _ in range(8)]
    jobs += [world.recur({"cron": "*/5 * * * *", "timezone": "Europe/Paris"}) for _ in range(4)]
    jobs += [world.create_manual()]
    world.run(30, step_s=1)
    for job in chance.sample(jobs, 12):
        kind = chance.choice(["delete", "pause", "update"])
        fields = {}
        if kind == "update":
            target = {"type": "http", "url": "https://other.test/"}
            fields = {"definition": {"schedule": {"every_s": 90}, "target": target}}
        world.order(kind, job, **fields)
    world.run(100, step_s=1)


@pytest.mark.parametrize("seed", range(8))
def test_after_a_rebuild_the_store_holds_again_exactly_what_it_held(seed: int) -> None:
    world = World(limits=SMALL)
    world.start()
    _populate(world, random.Random(seed))
    rows, jobs = _rows(world), _jobs(world)
    world.tables.truncate()
    commands = _rebuild(world)
    for _ in range(200):
        world.settle(1)  # The clock stands, so that before and after can be compared.
    assert not _under_way(world)
    assert _rows(world) == rows
    assert _jobs(world) == jobs
    assert all(world.outcomes()[command].detail == "begun" for command in commands)
    assert world.tables.marks == {0, 1}


def test_a_rebuild_of_an_index_that_lost_nothing_changes_nothing() -> None:
    world = World(limits=SMALL)
    world.start()
    _populate(world, random.Random(1))
    rows, jobs = _rows(world), _jobs(world)
    _rebuild(world)
    for _ in range(200):
        world.settle(1)
    assert not _under_way(world) and _rows(world) == rows and _jobs(world) == jobs


@pytest.mark.parametrize("after_s", [0, 30, 1_000, 100_000])
@pytest.mark.parametrize("takeover", [False, True])
def test_nothing_is_lost_however_late_the_rebuild_comes(after_s: int, takeover: bool) -> None:
    world = World(limits=SMALL)
    world.start()
    once = {world.create(in_s=n * 10) for n in range(60)}
    ticking = world.recur({"every_s": 20}, concurrency="allow")
    world.run(3)
    world.tables.truncate()
    world.run(after_s, step_s=max(1.0, after_s / 500))
    if takeover:
        world.start()
        world.settle()
    _rebuild(world)
    _until_rebuilt(world)
    world.run(700, step_s=1)
    world.settle(400)
    ids = [execution.head.execution_id for execution in world.executions()]
    assert len(ids) == len(set(ids))
    assert once <= set(world.fired())
    ticks = sorted(e.head.scheduled_for for e in world.executions() if e.head.job_id == ticking)
    missed = world.skipped()
    for at in range(ticks[0], ticks[-1], 20 * SECOND):
        assert at in ticks or any(first <= at <= upto for first, upto in missed), "run, or said to be missed"


@pytest.mark.parametrize("seed", range(20))
def test_a_rebuild_goes_on_through_takeovers_edits_and_a_silent_store(seed: int) -> None:
    chance = random.Random(seed)
    world = World(limits=SMALL)
    world.start()
    _populate(world, chance)
    known = list(_jobs(world))
    fired_before = len(world.fired())
    world.tables.truncate()
    _rebuild(world)
    for _ in range(60):
        deed = chance.random()
        if deed < 0.15:
            world.start(aware=chance.random() < 0.5)
        elif deed < 0.25:
            world.store.held = not world.store.held
        elif deed < 0.4:
            world.store.release(chance.randrange(4), newest=chance.random() < 0.5)
        elif deed < 0.55:
            world.order(chance.choice(["pause", "resume", "delete"]), chance.choice(known))
        elif deed < 0.6:
            _rebuild(world)
        else:
            world.clock.advance(chance.choice([0.1, 1, 10, 70]))
        world.settle(chance.randrange(4))
    world.store.held = False
    world.run(60, step_s=0.5)
    _until_rebuilt(world)
    world.run(30, step_s=0.5)
    rows, jobs = _rows(world), _jobs(world)
    ids = [execution.head.execution_id for execution in world.executions()]
    assert len(ids) == len(set(ids)) and len(ids) > fired_before
    for shard, engine in world.engines.items():
        assert not engine.index_is_lost and not work_of(engine)
        present = set()
        for snapshot in jobs.values():
            job = CODEC.decode_job(snapshot)
            if any(job.job_id == e.job_id for e in rows[shard]) or job.entry is not None:
                present |= {e for e in engine._filing.present_entries(job) if _shard_of(world, job.job_id) == shard}
        assert rows[shard] == present, "no row is missing, and none came back"


def _shard_of(world: World, job_id: str) -> int:
    from tocsin.domain.sharding import shard_of

    return shard_of(job_id, world.shards)


def test_a_command_about_a_lost_job_waits_for_the_rebuild() -> None:
    world = World(shards=1)
    world.start()
    job = world.create(in_s=3_000)
    world.run(5)
    world.start()
    world.tables.truncate()
    world.run(200, step_s=5)
    command = world.delete(job)
    world.run(20)
    assert command not in world.outcomes(), "that the row is not there says nothing"
    _rebuild(world)
    world.run(20)
    assert world.outcomes()[command].detail == "prevented"


def test_a_damaged_snapshot_is_counted_and_keeps_nobody_from_its_row() -> None:
    world = World(shards=1)
    world.start()
    job = world.create(in_s=60)
    world.run(1)
    world.log.append("jobs", 0, "broken", b"garbage")
    world.tables.truncate()
    _rebuild(world)
    world.run(120)
    assert world.fired() == [job]
