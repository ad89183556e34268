"""What nearly outlived its lane's topic is dispatched again, and the old dispatch is not to be started any more."""

from __future__ import annotations

import pytest

from tests.unit.trigger.poison import poisoned
from tests.unit.trigger.world import CODEC, World
from tocsin.domain.fleet import Cancel
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import SHARD_STATE, WORKER_CONTROL

DAY_S = 86_400.0
SHORT = EngineLimits(outlived_after_s=3_600)


def cancels(world: World) -> list[Cancel]:
    return [CODEC.decode_cancel(record.value) for record in world.log.all(WORKER_CONTROL)]


@pytest.mark.parametrize("takeover", [False, True])
def test_what_nobody_took_up_goes_out_again_under_a_new_token(takeover: bool) -> None:
    world = World(shards=1, limits=SHORT)
    world.start()
    world.create(in_s=1)
    world.run(10)
    [first] = world.executions()
    world.run(3_000, step_s=60)
    assert len(world.executions()) == 1
    if takeover:
        world.start()
    world.run(1_500, step_s=60)
    second = world.executions()[-1]
    assert len(world.executions()) == 2
    assert second.head == first.head._replace(token=second.head.token, losses=1)
    assert second.head.token > first.head.token
    assert [(c.execution_id, c.token) for c in cancels(world)] == [(first.head.execution_id, first.head.token)]
    world.report(first)
    world.settle()
    assert world.states() == {}, "the old one is stale"
    world.report(second)
    world.settle()
    assert set(world.states().values()) == {"SUCCEEDED"}


def test_the_cancel_and_the_new_dispatch_are_one_turn() -> None:
    world = World(shards=1, limits=SHORT)
    world.start()
    world.create(in_s=1)
    world.run(10)
    world.run(4_500, step_s=60)
    [control] = world.log.all(WORKER_CONTROL)
    [_, again] = world.executions()
    deltas = [CODEC.decode_delta(r.value) for r in world.log.all(SHARD_STATE) if (r.key or b"").startswith(b"d")]
    [turn] = [delta for delta in deltas if delta.number == again.head.token]
    assert turn.at == CODEC.decode_cancel(control.value).at


def test_what_is_leased_waits_or_has_ended_is_left_alone() -> None:
    world = World(shards=1, limits=SHORT)
    world.start()
    for _ in range(2):
        world.create(in_s=1)
    world.run(10)
    leased, ended = world.executions()
    world.report(leased, "RUNNING", timeout_s=20_000.0)
    world.report(ended)
    world.run(9_000, step_s=60)
    assert len(world.executions()) == 2
    assert cancels(world) == []


def test_a_report_that_is_in_the_log_by_then_counts() -> None:
    world = World(shards=1, limits=SHORT)
    world.start()
    world.create(in_s=1)
    world.run(10)
    world.shard_log.hide_reports = True
    world.report(world.executions()[0])
    world.run(9_000, step_s=60)
    assert len(world.executions()) == 1
    world.shard_log.hide_reports = False
    world.run(1_000, step_s=60)
    assert (len(world.executions()), cancels(world)) == (1, [])


def test_a_message_that_nobody_took_up_ends_unknown_and_is_kept() -> None:
    """Written twice would be wrong, and whether it was written is known to its topic only."""
    world = World(shards=1, limits=SHORT)
    world.start()
    poisoned(world, target={"type": "message", "topic": "orders", "value": "v"})
    world.run(10)
    world.run(4_500, step_s=60)
    assert list(world.states().values()) == ["UNKNOWN"]
    assert len(cancels(world)) == 1
    assert world.dead_letters() == ["execution"]
    assert world.engines[0].state.active == {}


def test_by_default_a_week_of_retention_leaves_a_day() -> None:
    world = World(shards=1)
    world.start()
    world.create(in_s=1)
    world.run(10)
    world.run(5.9 * DAY_S, step_s=3_600)
    assert len(world.executions()) == 1
    world.run(0.3 * DAY_S, step_s=3_600)
    assert len(world.executions()) == 2
