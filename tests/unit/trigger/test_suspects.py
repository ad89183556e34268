"""Executions whose workers die: after two losses they run alone, and deaths there make them dead letters."""

from __future__ import annotations

import pytest

from tests.unit.trigger.test_attempts import FIXED, _events, _job, _latest
from tests.unit.trigger.world import World
from tocsin.domain.executions import REAPED, AttemptError
from tocsin.engine.shard_engine import EngineLimits


def _give_back(world: World, reason: str) -> None:
    count = len(world.executions())
    error = AttemptError(reason, "signal SIGKILL")
    world.report(_latest(world), "RETURNED", error=error, started="maybe", reason=reason)
    world.run(62, step_s=1)
    assert len(world.executions()) <= count + 1


def started(max_reaps: int = 3) -> World:
    world = World(limits=EngineLimits(max_reaps=max_reaps))
    world.start()
    return world


@pytest.mark.parametrize("takeover", [False, True])
def test_so_many_deaths_alone_make_a_dead_letter(takeover: bool) -> None:
    world = started()
    _job(world)
    for reason in ("lost", "predecessor", REAPED, REAPED):
        _give_back(world, reason)
        if takeover:
            world.start()
            world.run(1)
    assert [e.head.losses for e in world.executions()] == [0, 1, 2, 3, 4]
    assert _events(world) == []
    _give_back(world, REAPED)
    [event] = _events(world)
    assert (event.state, event.reason, event.attempt_state) == ("DEAD", "poison", "FAILED")
    assert event.error is not None
    assert "3 processes" in event.error.message and "SIGKILL" in event.error.message
    assert world.dead_letters() == ["execution"]
    assert len(world.executions()) == 5


def test_losses_of_whole_workers_never_count_as_its_own_doing() -> None:
    world = started(max_reaps=1)
    _job(world)
    for _ in range(8):
        _give_back(world, "predecessor")
    assert len(world.executions()) == 9
    assert _events(world) == []
    world.report(_latest(world))
    world.run(1)
    assert [e.state for e in _events(world)] == ["SUCCEEDED"]


def test_deaths_count_over_returns_leases_and_retries() -> None:
    world = started(max_reaps=2)
    _job(world, retry=FIXED)
    _give_back(world, REAPED)
    world.report(_latest(world), "RETURNED", error=None, started="no", reason="stop")
    world.run(1)
    world.report(_latest(world), "RUNNING", error=None, timeout_s=100.0, worker_id="w")
    world.report(_latest(world), "FAILED", worker_id="w")
    world.run(12, step_s=1)
    assert (_latest(world).head.attempt, _latest(world).head.losses) == (2, 0)
    _give_back(world, REAPED)
    assert [e.state for e in _events(world)] == ["RUNNING", "RETRY_SCHEDULED", "DEAD"]
    assert _events(world)[-1].reason == "poison"
