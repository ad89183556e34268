"""Passed minutes leave the index whole, and only when nothing can ask for them; a lost index stops the cursor."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.unit.trigger.world import World
from tocsin.domain.entries import Place
from tocsin.domain.instants import MINUTE, SECOND, minute_of
from tocsin.engine.passed_buckets import PassedBuckets, PassedLimits
from tocsin.engine.shard_engine import EngineLimits
from tocsin.engine.shard_state import ShardState

TEN_MINUTES = EngineLimits(passed=PassedLimits(kept_s=600))


def _minutes(world: World) -> set[int]:
    return {minute for (minute, _), rows in world.tables.index.items() if rows}


def test_a_passed_minute_is_deleted_whole_once_its_time_is_over() -> None:
    world = World(shards=1, limits=TEN_MINUTES)
    world.start()
    jobs = [world.create(in_s=60 * n + 5) for n in range(30)]
    world.run(1815, step_s=5)
    assert sorted(world.fired()) == sorted(jobs)
    assert min(_minutes(world)) == minute_of(world.clock.now()) - 10
    deleted = {minute for write in world.store.written for minute in write.buckets}
    assert len(deleted) == 20 and max(deleted) < min(_minutes(world))
    assert not any(write.deletes for write in world.store.written), "never row by row"


def test_a_minute_that_held_nothing_is_not_deleted_and_one_that_was_filled_late_is() -> None:
    world = World(shards=1, limits=TEN_MINUTES)
    world.start()
    world.create(in_s=630)
    world.run(600, step_s=5)
    world.create(in_s=0)  # Its minute was read, and was empty.
    late = minute_of(world.clock.now())
    world.run(1500, step_s=5)
    deleted = {minute for write in world.store.written for minute in write.buckets}
    filled = {minute_of(entry.run_at) for write in world.store.written for entry in write.inserts}
    assert {late, minute_of(world.executions()[-1].head.due_at)} <= deleted <= filled, "timers fill minutes too"


def test_nothing_goes_before_its_successors_are_in_the_store_and_a_backlog_goes_in_bites() -> None:
    state = ShardState(0, 1, 1, Place.before(500 * MINUTE), successors_upto=Place.before(100 * MINUTE), deleted_upto=90)
    passed = PassedBuckets(state, PassedLimits(kept_s=60, per_turn_max=7))
    assert passed.due(500 * MINUTE) == list(range(90, 97))
    assert passed.due(500 * MINUTE) == [97, 98, 99]
    assert passed.due(500 * MINUTE) == []
    state.successors_upto = Place.before(499 * MINUTE + 30 * SECOND)
    assert passed.due(103 * MINUTE) == [100, 101], "and each is kept for its time"


def test_a_successor_owner_goes_on_where_deletions_are_known_to_be_done() -> None:
    world = World(shards=1, limits=TEN_MINUTES)
    world.start()
    for n in range(40):
        world.create(in_s=60 * n + 5)
    world.run(900, step_s=5)
    world.store.held = True
    world.run(60, step_s=5)
    world.start()  # What the former owner had under way is lost with it.
    world.run(1815, step_s=5)
    assert min(_minutes(world)) == minute_of(world.clock.now()) - 10, "no minute was left behind"


@pytest.mark.parametrize("seed", range(15))
def test_deleting_at_once_loses_and_repeats_nothing_whoever_takes_over(seed: int) -> None:
    chance = random.Random(seed)
    limits = EngineLimits(fires_max=3, cursor_persist_s=2.0, ring=32, passed=PassedLimits(kept_s=0, per_turn_max=3))
    world = World(limits=limits)
    world.start()
    world.recur({"every_s": 7}, concurrency="allow")
    world.recur({"cron": "* * * * *", "timezone": "UTC"}, concurrency="allow")
    once = {world.create(in_s=chance.choice([1, 30, 61, 150, 400])) for _ in range(20)}
    for _ in range(120):
        deed = chance.random()
        if deed < 0.2:
            world.start(aware=chance.random() < 0.5)
        elif deed < 0.4:
            world.store.held = not world.store.held
        elif deed < 0.5:
            world.store.release(chance.randrange(4), newest=chance.random() < 0.5)
        else:
            world.clock.advance(chance.choice([0.1, 1, 7, 20]))
        world.settle(chance.randrange(3))
    world.store.held = False
    world.run(600, step_s=1)
    world.settle(60)
    ids = [execution.head.execution_id for execution in world.executions()]
    assert len(ids) == len(set(ids)), "nothing is repeated"
    assert once <= set(world.fired())
    told = {(e.head.job_id, e.head.scheduled_for) for e in world.executions()}
    skipped = world.skipped()
    for job in {job for job, _ in told} - once:
        times = sorted(at for one, at in told if one == job)
        step = min(b - a for a, b in pairwise(times))
        for at in range(times[0], times[-1], step):
            assert (job, at) in told or any(first <= at <= upto for first, upto in skipped), "nothing is left out"


def test_an_index_that_was_lost_stops_the_cursor_and_says_so() -> None:
    world = World(shards=1)
    world.start()
    soon, far = world.create(in_s=70), world.create(in_s=600)
    world.run(5)
    assert world.engines[0].state.marked and not world.engines[0].index_is_lost
    world.tables.truncate()
    world.run(900, step_s=5)
    assert world.fired() == [soon], "what is in memory fires"
    assert world.engines[0].index_is_lost
    assert far not in world.fired()
    cursor = world.engines[0].state.cursor
    world.start()
    world.run(60, step_s=5)
    assert world.engines[0].state.cursor == cursor, "a new owner knows it too"


def test_a_new_shard_takes_its_empty_index_for_what_it_is() -> None:
    world = World(shards=1)
    world.start()
    for _ in range(20):
        world.settle(1)
        assert not world.engines[0].index_is_lost
    assert world.tables.marks == {0}
