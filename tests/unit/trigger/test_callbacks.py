"""Targets that answer 202 and call back: the owner waits for no process, only for the callback or the deadline."""

from __future__ import annotations

import pytest

from tests.unit.trigger.world import CODEC, World
from tocsin.domain.executions import AttemptError, ExecutionEvent
from tocsin.domain.fleet import Heartbeat
from tocsin.domain.instants import SECOND
from tocsin.ports.fleet_log import SeenBeat
from tocsin.ports.shard_log import EVENTS

FIXED = {"max_attempts": 3, "backoff": "fixed", "base_s": 10, "jitter": "none"}


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    world.recur({"every_s": 100_000, "anchor_at": "2027-01-15T08:00:01Z"}, retry=FIXED)
    world.run(2)
    return world


def _events(world: World) -> list[ExecutionEvent]:
    return [CODEC.decode_event(record.value) for record in world.log.all(EVENTS)]


def _states(world: World) -> list[str]:
    return [event.state for event in _events(world)]


def _accepted(world: World, timeout_s: float = 600.0) -> None:
    world.report(world.executions()[-1], "ACCEPTED", error=None, timeout_s=timeout_s, finished_at=2)
    world.run(1)


def test_what_is_accepted_waits_for_its_callback_though_its_worker_is_gone(world: World) -> None:
    _accepted(world)
    world.start()  # a takeover: what was accepted is in the shard's state
    for second in range(0, 41, 5):  # the fleet is heard of, its worker is not
        own = Heartbeat(world.name, "", "trigger", "host", "0", 0, False)
        world.beats.arrived.append(SeenBeat(own, world.clock.now() + second * SECOND))
    world.run(60, step_s=1)
    assert _states(world) == ["RUNNING"]
    assert _events(world)[0].reason == "accepted"
    world.report(world.executions()[-1], worker_id="callback", started_at=None)
    world.run(1)
    assert _states(world) == ["RUNNING", "SUCCEEDED"]
    assert _events(world)[-1].started_at == 1, "when the attempt began is what its worker said"
    assert len(world.executions()) == 1


def test_without_a_callback_the_deadline_ends_the_attempt(world: World) -> None:
    _accepted(world, timeout_s=60.0)
    world.run(85, step_s=1)
    assert _states(world) == ["RUNNING"], "the grace is not over"
    world.run(20, step_s=1)
    last = _events(world)[-1]
    assert (last.state, last.attempt_state) == ("RETRY_SCHEDULED", "TIMED_OUT")
    assert last.error is not None
    assert last.error.error_class == "no_callback"


def test_a_failed_callback_is_retried_by_the_jobs_policy(world: World) -> None:
    _accepted(world)
    world.report(world.executions()[-1], "FAILED", error=AttemptError("callback_failed", "no paper"))
    world.run(12)
    assert [e.head.attempt for e in world.executions()] == [1, 2]


def test_a_callback_that_rules_a_retry_out_is_final(world: World) -> None:
    _accepted(world)
    world.report(world.executions()[-1], "FAILED", error=AttemptError("callback_refused", "no such account"))
    world.run(1)
    assert (_states(world)[-1], _events(world)[-1].reason) == ("DEAD", "not_retryable")


def test_a_callback_that_overtakes_the_acceptance_counts(world: World) -> None:
    """The target may call back before the worker has reported its 202."""
    execution = world.executions()[-1]
    world.report(execution)
    world.report(execution, "ACCEPTED", error=None, timeout_s=600.0)
    world.run(1)
    assert _states(world) == ["SUCCEEDED"]


def test_no_word_of_a_worker_moves_what_waits_for_a_callback(world: World) -> None:
    _accepted(world)
    execution = world.executions()[-1]
    world.report(execution, "RUNNING", error=None, timeout_s=1.0)
    world.report(execution, "RETURNED", error=None, started="maybe", reason="predecessor")
    world.report(execution, "RETURNED", error=None, started="no", reason="stop")
    world.report(execution, "ACCEPTED", error=None, timeout_s=1.0)
    world.run(120, step_s=1)
    assert _states(world) == ["RUNNING"]
    assert len(world.executions()) == 1


def test_an_attempt_under_a_lease_may_be_accepted_in_the_end(world: World) -> None:
    execution = world.executions()[-1]
    world.report(execution, "RUNNING", error=None, timeout_s=30.0)
    world.run(6)
    _accepted(world)
    world.run(120, step_s=1)
    assert _states(world) == ["RUNNING", "RUNNING"]
    world.report(execution)
    world.run(1)
    assert _states(world)[-1] == "SUCCEEDED"


def test_a_callback_for_an_earlier_dispatch_is_stale(world: World) -> None:
    first = world.executions()[-1]
    world.report(first, "RETURNED", error=None, started="maybe", reason="lost")
    world.run(2)
    assert len(world.executions()) == 2
    _accepted(world)
    world.report(first)
    world.run(1)
    assert _states(world) == ["RUNNING"]
