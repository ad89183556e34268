"""``delivery: at_most_once``: what may have run is never made again; nobody can tell how it ended, and that is said."""

from __future__ import annotations

import pytest

from tests.unit.trigger.test_attempts import FIXED, _beats, _events, _job, _latest
from tests.unit.trigger.world import CODEC, World
from tocsin.domain.error_classes import NEVER_REACHED
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.domain.policies import DeliveryPolicy
from tocsin.domain.retries import never_reached
from tocsin.domain.targets import HttpTarget, MessageTarget
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import ALERTS, WORKER_CONTROL

ONCE = {"delivery": "at_most_once", "retry": FIXED}


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    return world


def _ended_unknown(world: World, reason: str) -> None:
    """Check that the one execution ended so, that people were told, and that nothing of it is dispatched again."""
    event = _events(world)[-1]
    assert (event.state, event.attempt_state, event.reason) == ("UNKNOWN", None, reason)
    assert world.dead_letters() == ["execution"]
    alerts = [CODEC.decode_alert(record.value) for record in world.log.all(ALERTS)]
    assert [alert.kind for alert in alerts] == ["unknown"]
    assert reason in alerts[0].message
    count = len(world.executions())
    world.start()
    world.run(400, step_s=2)
    assert len(world.executions()) == count
    assert len(_events(world)) == len([e for e in _events(world) if e.state in ("RUNNING", "UNKNOWN")])


@pytest.mark.parametrize("reason", ["predecessor", "lost", "revoked", "stop", "reaped"])
def test_what_is_given_back_and_may_have_run_ends_unknown(world: World, reason: str) -> None:
    _job(world, **ONCE)
    world.report(_latest(world), "RETURNED", error=None, started="maybe", reason=reason)
    world.run(1)
    _ended_unknown(world, reason)


def test_what_had_not_started_is_dispatched_again(world: World) -> None:
    _job(world, **ONCE)
    world.report(_latest(world), "RETURNED", error=None, started="no", reason="breaker")
    world.run(12, step_s=1)
    assert [(e.head.attempt, e.head.losses, e.delivery) for e in world.executions()] == [
        (1, 0, DeliveryPolicy.AT_MOST_ONCE)
    ] * 2
    world.report(_latest(world))
    world.run(1)
    assert [e.state for e in _events(world)] == ["SUCCEEDED"]


def test_a_silent_holder_leaves_it_unknown(world: World) -> None:
    _job(world, **ONCE)
    world.report(_latest(world), "RUNNING", error=None, timeout_s=1000.0, worker_id="w")
    world.run(1)
    _beats(world, "w", until_s=0)
    world.run(5, step_s=1)
    _ended_unknown(world, "silence")


def test_a_lease_that_expires_leaves_it_unknown(world: World) -> None:
    _job(world, **ONCE)
    world.report(_latest(world), "RUNNING", error=None, timeout_s=1.0)
    world.run(60, step_s=1)
    _ended_unknown(world, "lease_expired")


def test_a_target_that_never_calls_back_leaves_it_unknown(world: World) -> None:
    _job(world, **ONCE)
    world.report(_latest(world), "ACCEPTED", error=None, timeout_s=1.0)
    world.run(60, step_s=1)
    _ended_unknown(world, "no_callback")


def test_what_nobody_took_up_ends_unknown_and_no_worker_may_start_it_any_more() -> None:
    world = World(shards=1, limits=EngineLimits(outlived_after_s=3_600))
    world.start()
    world.recur({"every_s": 1_000_000, "anchor_at": "2027-01-15T08:00:01Z"}, **ONCE)
    world.run(2)
    [first] = world.executions()
    world.run(4_500, step_s=60)
    [cancel] = [CODEC.decode_cancel(record.value) for record in world.log.all(WORKER_CONTROL)]
    assert (cancel.execution_id, cancel.token) == (first.head.execution_id, first.head.token)
    _ended_unknown(world, "outlived_its_lane")


@pytest.mark.parametrize("kind", ["FAILED", "TIMED_OUT"])
def test_a_failure_that_the_target_may_have_seen_is_final(world: World, kind: str) -> None:
    _job(world, **ONCE)
    world.report(_latest(world), kind, error=AttemptError("status", "answered 503", 503))
    world.run(60, step_s=1)
    [event] = _events(world)
    assert (event.state, event.attempt_state, event.reason) == ("DEAD", kind, "at_most_once")
    assert len(world.executions()) == 1


def test_a_failure_that_reached_nobody_is_retried(world: World) -> None:
    _job(world, **ONCE)
    for _ in range(3):
        world.report(_latest(world), "FAILED", error=AttemptError("connection_refused", "nobody listens"))
        world.run(12, step_s=1)
    assert [e.head.attempt for e in world.executions()] == [1, 2, 3]
    assert {e.delivery for e in world.executions()} == {DeliveryPolicy.AT_MOST_ONCE}
    assert [e.state for e in _events(world)] == ["RETRY_SCHEDULED", "RETRY_SCHEDULED", "DEAD"]
    assert _events(world)[-1].reason == "attempts_used_up"


def test_a_deleted_jobs_running_execution_is_still_not_repeated(world: World) -> None:
    """A delete takes the retries of what runs away, and must not take more."""
    _job(world, **ONCE)
    world.delete(_latest(world).head.job_id)
    world.run(1)
    world.report(_latest(world), "RETURNED", error=None, started="maybe", reason="lost")
    world.run(30, step_s=1)
    assert [e.state for e in _events(world)] == ["UNKNOWN"]
    assert len(world.executions()) == 1


@pytest.mark.parametrize(
    ("kind", "error_class", "expected"),
    [
        ("FAILED", "connection_refused", True),
        ("FAILED", "dns", True),
        ("FAILED", "blocked", True),
        ("FAILED", "connection", False),
        ("FAILED", "tls", False),
        ("FAILED", "status", False),
        ("FAILED", "internal", False),
        ("TIMED_OUT", "timeout", False),
        ("TIMED_OUT", "connection_refused", False),
        ("CANCELLED", "cancelled", False),
    ],
)
def test_which_failures_prove_that_the_target_heard_nothing(kind: str, error_class: str, expected: bool) -> None:
    target = HttpTarget("http://a.test/")
    assert never_reached(ReportKind(kind), AttemptError(error_class, ""), target) is expected
    assert never_reached(ReportKind(kind), None, target) is False
    assert (error_class in NEVER_REACHED) or not expected


def test_a_message_that_failed_was_not_written() -> None:
    error = AttemptError("not_authorized", "")
    assert never_reached(ReportKind.FAILED, error, MessageTarget("orders"))
