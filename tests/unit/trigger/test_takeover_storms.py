"""Crashes at any moment, by seeds: nothing is lost, nothing fires twice, and what a state's log says is what was."""

from __future__ import annotations

import os
import random

import pytest

from tests.unit.trigger.world import CODEC, World
from tocsin.adapters.memory.shard_log import MemoryTakeover
from tocsin.engine.restore import restore
from tocsin.engine.shard_engine import EngineLimits

SEEDS = int(os.environ.get("STORM_SEEDS", "60"))
SMALL = EngineLimits(fires_max=3, commands_max=4, delta_bytes_max=10_000, cursor_persist_s=2.0, ring=16)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_storm(seed: int) -> None:
    chance = random.Random(seed)
    world = World(limits=SMALL)
    world.start()
    created: set[str] = set()
    deleted: dict[str, str] = {}
    reported: set[str] = set()
    for _ in range(150):
        deed = chance.random()
        if deed < 0.35:
            created.add(world.create(in_s=chance.choice([-5, 0, 0.001, 1, 30, 59, 61, 150, 400])))
        elif deed < 0.45 and created - set(deleted):
            job = chance.choice(sorted(created - set(deleted)))
            deleted[job] = world.delete(job)
        elif deed < 0.55:
            world.store.held = chance.random() < 0.5
        elif deed < 0.62:
            world.store.release(chance.randrange(4), newest=chance.random() < 0.5)
        elif deed < 0.72:
            world.be_taken_over(chance, zombie_turns=3)
        elif deed < 0.8:
            for execution in world.executions():
                if execution.head.execution_id not in reported and chance.random() < 0.5:
                    reported.add(execution.head.execution_id)
                    world.report(execution, chance.choice(["SUCCEEDED", "FAILED"]))
        else:
            world.clock.advance(chance.choice([0.0005, 0.1, 1, 7, 45]))
        world.settle(chance.randrange(3))
        _log_says_what_is(world)
    world.store.held = False
    world.run(700, step_s=5)
    world.settle(80)
    _verdict(world, created, deleted)


def _log_says_what_is(world: World) -> None:
    for shard, records in MemoryTakeover(world.log).read_states(range(world.shards)).items():
        state = restore(shard, records, CODEC)
        if state is None:
            continue
        assert state.number == world.engines[shard].state.number or world.starts > 1
        if state.number == world.engines[shard].state.number:
            assert state.active == world.engines[shard].state.active


def _verdict(world: World, created: set[str], deleted: dict[str, str]) -> None:
    outcomes = world.outcomes()
    prevented = {job for job, command in deleted.items() if outcomes[command].detail == "prevented"}
    fired = world.fired()
    assert sorted(fired) == sorted(created - prevented)
    for record, execution in zip(world.log.all("executions.default"), world.executions(), strict=True):
        assert record.timestamp >= execution.head.due_at, "never early"
    assert all(outcome.accepted for outcome in outcomes.values())
