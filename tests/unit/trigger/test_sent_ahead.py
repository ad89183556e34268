"""What a shard decides in a burst is sent while the other shards are still deciding."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trigger.world import World
from tocsin.engine.arrivals import Arrivals
from tocsin.engine.effects import Step
from tocsin.engine.shard_engine import ShardEngine
from tocsin.roles.trigger.loop import LoopLimits

SHARDS = 4


def world_with(jobs: int, limits: LoopLimits) -> World:
    """Return a world with jobs due in five seconds, and its owner."""
    world = World(SHARDS)
    world.loop_limits = limits
    world.start()
    world.settle()
    for _ in range(jobs):
        world.create(in_s=5)
    world.run(4)
    return world


def deeds_of(world: World, monkeypatch: pytest.MonkeyPatch, step_s: float = 0.0) -> list[tuple[str, int]]:
    """Return what the loop will have done, in order: steps that take so long, what was sent ahead, commits."""
    deeds: list[tuple[str, int]] = []
    step, commit = ShardEngine.step, world.shard_log.commit

    def stepped(engine: ShardEngine, now: int, arrivals: Arrivals) -> Step:
        world.clock.advance(step_s)
        deeds.append(("step", engine.state.shard))
        return step(engine, now, arrivals)

    def committed(turns: Any) -> dict[int, int]:
        deeds.append(("commit", len(turns)))
        return commit(turns)

    monkeypatch.setattr(ShardEngine, "step", stepped)
    monkeypatch.setattr(world.shard_log, "commit", committed)
    monkeypatch.setattr(world.shard_log, "send_ahead", lambda turn: deeds.append(("ahead", turn.shard)))
    return deeds


def test_a_burst_is_sent_shard_by_shard_and_committed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with(60, LoopLimits(ahead_records_min=5))
    deeds = deeds_of(world, monkeypatch)
    world.clock.advance(1.5)
    world.loop.turn()
    assert deeds == [*[(what, shard) for shard in range(SHARDS) for what in ("step", "ahead")], ("commit", SHARDS)]
    assert len(world.fired()) == 60


def test_little_is_left_to_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with(60, LoopLimits(ahead_records_min=1_000))
    deeds = deeds_of(world, monkeypatch)
    world.clock.advance(1.5)
    world.loop.turn()
    assert deeds == [*[("step", shard) for shard in range(SHARDS)], ("commit", SHARDS)]


def test_a_transaction_that_is_open_for_long_waits_for_no_more_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is not counted: until it has been stepped, nothing is open."""
    world = world_with(60, LoopLimits(ahead_records_min=5, ahead_max_s=1.0))
    deeds = deeds_of(world, monkeypatch, step_s=0.6)
    world.clock.advance(1.5)
    world.loop.turn()
    assert [shard for what, shard in deeds if what == "step"] == [0, 1, 2]
    assert deeds[-1] == ("commit", 3)
    world.loop.turn()
    assert [shard for what, shard in deeds if what == "ahead"] == [0, 1, 2, 3], "they take turns"
    assert len(world.fired()) == 60
