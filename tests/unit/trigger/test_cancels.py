"""Cancelling executions, and ending those that take too long: at once what has not started, else when it is over."""

from __future__ import annotations

import pytest

from tests.unit.trigger.overlap_world import OverlapWorld
from tests.unit.trigger.world import CODEC, TARGET
from tocsin.domain.commands import Command
from tocsin.domain.executions import AttemptError
from tocsin.domain.fleet import Heartbeat
from tocsin.domain.instants import SECOND
from tocsin.engine.dispatch_desk import LANE_MISSING_PAUSE
from tocsin.ports.fleet_log import SeenBeat
from tocsin.ports.shard_log import DEAD_LETTERS, executions

FIXED = {"max_attempts": 3, "backoff": "fixed", "base_s": 60, "jitter": "none"}


@pytest.fixture
def world() -> OverlapWorld:
    return OverlapWorld()


# Cancel


def test_what_waits_for_a_retry_is_cancelled_at_once(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue", retry=FIXED))
    world.end(run, "FAILED")
    assert world.cancel(run) == (True, "cancelled")
    assert world.story(run)[-1] == ("CANCELLED", "cancelled")
    world.run(90, step_s=1)
    assert world.started() == [run]
    assert world.cancel(run) == (False, "ended")


def test_what_stands_in_the_queue_is_cancelled_at_once_and_the_next_moves_up(world: OverlapWorld) -> None:
    job = world.manual("queue")
    names = [world.trigger(job) for _ in range(3)]
    assert world.cancel(names[1]) == (True, "cancelled")
    world.end(names[0])
    assert world.started() == [names[0], names[2]]
    assert world.cancels() == []


def test_what_waits_for_a_missing_lane_is_cancelled_at_once(world: OverlapWorld) -> None:
    job = world.manual("queue")
    world.log.missing.add(executions("default"))
    world.order("trigger", job)
    world.run(5)
    [run] = world.active()
    assert world.cancel(run) == (True, "cancelled")
    world.log.missing.clear()
    world.run(2 * LANE_MISSING_PAUSE / SECOND, step_s=5)
    assert world.started() == []


@pytest.mark.parametrize(
    ("kind", "changes", "attempt_state"),
    [
        ("SUCCEEDED", {}, "SUCCEEDED"),
        ("FAILED", {}, "FAILED"),
        ("CANCELLED", {"error": None}, "CANCELLED"),
        ("RETURNED", {"error": None, "started": "no", "reason": "cancelled"}, None),
        ("RETURNED", {"error": None, "started": "maybe", "reason": "predecessor"}, None),
    ],
)
def test_whatever_is_heard_of_a_cancelled_dispatch_ends_it(
    world: OverlapWorld, kind: str, changes: dict[str, object], attempt_state: str | None
) -> None:
    run = world.trigger(world.manual("queue", retry=FIXED))
    assert world.cancel(run) == (True, "cancelling")
    assert world.events(run) == []
    world.end(run, kind, **changes)
    [event] = world.events(run)
    assert (event.state, event.reason, event.attempt_state) == ("CANCELLED", "cancelled", attempt_state)
    world.end(run)
    assert len(world.events(run)) == 1, "what comes later is stale"
    world.run(90, step_s=1)
    assert world.started() == [run]


def test_cancelling_twice_says_the_same_and_tells_workers_once(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue"))
    assert world.cancel(run) == world.cancel(run) == (True, "cancelling")
    assert len(world.cancels()) == 1


def test_a_lease_goes_on_and_the_silence_of_its_holder_ends_it(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue"))
    world.report(world.dispatch_of(run), "RUNNING", error=None, timeout_s=1000.0, worker_id="w")
    world.settle()
    world.cancel(run)
    for second in range(0, 41, 5):
        names = [world.name] if second else [world.name, "w"]
        at = world.clock.now() + second * SECOND
        world.beats.arrived += [SeenBeat(Heartbeat(name, name, "worker", "h", "1", 0), at) for name in names]
    world.run(2)
    assert world.story(run)[-1] == ("CANCELLED", "cancelled")


def test_a_cancelled_run_that_nobody_tells_of_ends_at_its_deadline_and_not_before(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue", target={**TARGET, "timeout_s": 20}))
    world.run(30, step_s=1)
    world.cancel(run)
    world.start(aware=False)
    world.run(48, step_s=1)
    assert world.events(run) == []
    world.run(4, step_s=1)
    assert world.story(run) == [("CANCELLED", "cancelled")]
    world.end(run)
    assert world.story(run) == [("CANCELLED", "cancelled")], "its token is stale"


def test_an_end_that_is_in_the_log_by_the_deadline_counts(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue", target={**TARGET, "timeout_s": 1}))
    world.cancel(run)
    world.shard_log.hide_reports = True
    world.report(world.dispatch_of(run))
    world.run(60, step_s=1)
    assert world.events(run) == [], "no verdict while reports are unread"
    world.shard_log.hide_reports = False
    world.run(1)
    assert [event.attempt_state for event in world.events(run)] == ["SUCCEEDED"]


def test_a_lease_that_is_asked_for_after_the_cancel_does_not_put_the_end_off(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue", target={**TARGET, "timeout_s": 20}))
    world.cancel(run)
    world.report(world.dispatch_of(run), "RUNNING", error=None, timeout_s=3_000.0)
    world.run(52, step_s=1)
    assert world.story(run)[-1] == ("CANCELLED", "cancelled")


def test_who_may_cancel_what(world: OverlapWorld) -> None:
    job, other = world.manual("queue"), world.manual("queue")
    run = world.trigger(job)
    assert world.cancel(run, tenant_id="another") == (False, "ended")
    assert world.cancel(f"{job}.1.99") == (False, "ended")
    for command in (
        Command("cancel", "x1", other, None, 0, execution_id=run),
        Command("cancel", "x2", job, None, 0, execution_id="nonsense"),
        Command("cancel", "x3", job, None, 0),
        Command("cancel", "x4", job, None, 0, execution_id=run, if_version=3),
        Command("cancel", "x5", job, None, 0, execution_id=run, attempts_before=3),
    ):
        world.send(command)
        world.settle()
        assert world.outcomes()[command.command_id or ""].detail == "invalid"
    assert world.active()[run].ending is None


def test_what_runs_on_of_a_deleted_job_can_be_cancelled_while_the_store_is_away(world: OverlapWorld) -> None:
    job = world.manual("queue")
    run = world.trigger(job)
    world.delete(job)
    world.settle()
    world.start()
    world.store.held = True
    assert world.cancel(run) == (True, "cancelling")


# Too long


def test_a_run_that_is_too_long_is_stopped_over_all_its_attempts(world: OverlapWorld) -> None:
    retry = {"max_attempts": 9, "backoff": "fixed", "base_s": 10, "jitter": "none"}
    run = world.trigger(world.manual("queue", retry=retry, max_duration_s=25))
    for _ in range(2):
        world.end(run, "FAILED")
        world.run(11, step_s=1)
    assert [e.head.attempt for e in world.executions()] == [1, 2, 3]
    world.start()
    world.run(5, step_s=1)
    [cancel] = world.cancels()
    assert cancel.token == world.dispatch_of(run).head.token
    world.end(run, "CANCELLED", error=None)
    assert world.story(run)[-1] == ("DEAD", "max_duration")
    assert world.dead_letters() == ["execution"]
    letter = CODEC.decode_dead_letter(world.log.all(DEAD_LETTERS)[0].value)
    assert "max_duration_s" in letter.reason


def test_what_waits_for_a_retry_when_its_time_is_over_ends_then(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue", retry=FIXED, max_duration_s=20))
    world.end(run, "FAILED")
    world.run(22, step_s=1)
    assert world.story(run)[-1] == ("DEAD", "max_duration")
    world.run(60, step_s=1)
    assert world.started() == [run]


def test_what_is_due_again_after_its_time_is_over_is_not_attempted_though_nobody_was_there(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue", retry={**FIXED, "base_s": 3}, max_duration_s=5))
    world.end(run, "FAILED")
    world.clock.advance(60)
    world.start()
    world.run(2)
    assert world.story(run)[-1] == ("DEAD", "max_duration")
    assert world.started() == [run]


def test_a_success_that_comes_before_it_could_be_stopped_counts(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue", max_duration_s=5))
    world.run(7, step_s=1)
    assert len(world.cancels()) == 1
    world.end(run)
    assert world.story(run) == [("SUCCEEDED", None)]


def test_a_timeout_of_what_is_too_long_is_told_as_such(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue", retry=FIXED, max_duration_s=5))
    world.run(7, step_s=1)
    world.end(run, "TIMED_OUT", error=AttemptError("timeout", "took longer than 30 s"))
    [event] = world.events(run)
    assert (event.state, event.reason, event.attempt_state) == ("DEAD", "max_duration", "TIMED_OUT")


def test_time_in_the_queue_does_not_count_and_a_redrive_begins_anew(world: OverlapWorld) -> None:
    job = world.manual("queue", max_duration_s=30, target={**TARGET, "timeout_s": 5})
    first, second = world.trigger(job), world.trigger(job)
    world.run(28, step_s=1)
    world.end(first)
    world.run(25, step_s=1)
    assert world.active()[second].ending is None
    world.run(8, step_s=1)
    assert world.active()[second].ending == "max_duration"
    world.run(40, step_s=1)
    assert world.story(second)[-1] == ("DEAD", "max_duration")
    world.order("redrive", job, execution_id=second, attempts_before=1)
    world.run(25, step_s=1)
    assert world.active()[second].ending is None


def test_scheduled_and_missed_runs_have_their_time_too(world: OverlapWorld) -> None:
    for fields in ({}, {"catch_up": "fire_all", "misfire_after_s": 1, "max_catch_up": 1}):
        world.job("queue", schedule={"every_s": 1000, "anchor_at": "2027-01-15T08:00:05Z"}, max_duration_s=9, **fields)
    world.run(2, step_s=1)
    world.clock.advance(10)
    world.start()
    world.run(3)
    assert len(world.active()) == 2
    assert all(one.ends_by == one.published_at + 9 * SECOND for one in world.active().values())
    before = {name: one.ends_by for name, one in world.active().items()}
    world.start()
    assert {name: one.ends_by for name, one in world.active().items()} == before


@pytest.mark.parametrize(
    ("kind", "changes", "state"),
    [
        ("CANCELLED", {"error": None}, "DEAD"),
        ("RETURNED", {"error": None, "started": "no", "reason": "cancelled"}, "DEAD"),
        ("RETURNED", {"error": None, "started": "maybe", "reason": "predecessor"}, "UNKNOWN"),
        (None, {}, "UNKNOWN"),
    ],
)
def test_what_must_not_run_twice_and_is_too_long_is_dead_only_if_that_was_said(
    world: OverlapWorld, kind: str | None, changes: dict[str, object], state: str
) -> None:
    run = world.trigger(world.manual("queue", max_duration_s=5, delivery="at_most_once"))
    world.report(world.dispatch_of(run), "RUNNING", error=None, timeout_s=500.0)
    world.run(7, step_s=1)
    if kind is not None:
        world.end(run, kind, worker_id="worker-1", **changes)
    world.run(70, step_s=1)
    assert world.story(run)[-1] == (state, "max_duration")
    assert world.started() == [run]


def test_what_must_not_run_twice_and_is_cancelled_ends_cancelled(world: OverlapWorld) -> None:
    run = world.trigger(world.manual("queue", delivery="at_most_once"))
    world.cancel(run)
    world.end(run, "RETURNED", error=None, started="maybe", reason="predecessor")
    assert world.story(run) == [("CANCELLED", "cancelled")]
