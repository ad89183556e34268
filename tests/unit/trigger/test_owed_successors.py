"""What follows a burst of recurring jobs is filed after the burst is out, and is not lost by who dies in between."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.trigger.world import World
from tocsin.domain.instants import MINUTE
from tocsin.engine.shard_engine import EngineLimits, ShardEngine

JOBS = 6


@pytest.fixture
def world() -> World:
    """Return a world with jobs due at each whole minute, just before one; each may run beside itself."""
    world = World(1, EngineLimits(plain_fires_min=2, owed_min=2))
    world.start()
    world.settle()
    for _ in range(JOBS):
        world.recur({"every_s": 60, "anchor_at": "2027-01-15T00:00:00Z"}, concurrency="allow")
    world.run((MINUTE - world.clock.now() % MINUTE) / 1_000_000 - 1)
    world.settle(20)
    assert not world.fired()
    world.clock.advance(1.001)
    return world


def rows_of(world: World) -> int:
    return sum(map(len, world.tables.index.values()))


def engine_of(world: World) -> ShardEngine:
    return world.engines[0]


def times(world: World) -> Counter[int]:
    """Return how many executions were published for each nominal time."""
    return Counter(execution.head.scheduled_for for execution in world.executions())


def test_it_is_filed_by_the_next_turn(world: World) -> None:
    rows = rows_of(world)
    world.loop.turn()
    assert len(world.fired()) == JOBS
    assert rows_of(world) == rows
    assert engine_of(world).state.successors_upto < engine_of(world).state.cursor
    assert engine_of(world).next_wake(world.clock.now()) == world.clock.now(), "it does not wait for anything else"
    world.settle()
    assert rows_of(world) == rows + JOBS
    world.run(130)
    assert list(times(world).values()) == [JOBS] * 3


def test_whoever_takes_over_in_between_derives_it_again(world: World) -> None:
    world.loop.turn()
    assert len(world.fired()) == JOBS
    world.start()
    world.run(130)
    assert list(times(world).values()) == [JOBS] * 3


def test_a_polite_owner_that_goes_in_between_leaves_it_to_the_next(world: World) -> None:
    world.loop.turn()
    world.shard_log.revoke([0])
    world.start(aware=False)
    world.run(130)
    assert list(times(world).values()) == [JOBS] * 3
