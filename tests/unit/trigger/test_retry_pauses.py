"""A tenant of whom nearly all attempts fail gets its retries paused; first attempts, and other tenants, go on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trigger.world import CODEC, World
from tocsin.domain.alerts import Alert
from tocsin.domain.commands import Command
from tocsin.domain.executions import AttemptError, Execution, ExecutionEvent
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.domain.shard_records import RETRIES_PAUSE
from tocsin.engine.retry_pauses import RetryPauseLimits
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import ALERTS, EVENTS

FIXED = {"max_attempts": 9, "backoff": "fixed", "base_s": 10, "jitter": "none"}
LIMITS = EngineLimits(
    retry_pause=RetryPauseLimits(failures_min=5, failed_share=0.9, window_s=60, pause_s=100, resumed_per_s=2)
)


def started(jobs: int = 6) -> World:
    """Start a shard where so many jobs have fired once."""
    world = World(shards=1, limits=LIMITS)
    world.start()
    fire(world, jobs)
    return world


def fire(world: World, jobs: int, **fields: Any) -> list[Execution]:
    """Have so many new jobs fire; return their first attempts."""
    before = {(e.head.execution_id, e.head.token) for e in world.executions()}
    due_at = world.clock.now() + 2 * SECOND
    for number in range(jobs):
        world.recur(
            {"every_s": 1_000_000, "anchor_at": format_rfc3339(due_at)}, retry=FIXED, name=f"j{number}", **fields
        )
    world.run(4)
    fired = [e for e in world.executions() if (e.head.execution_id, e.head.token) not in before]
    assert len(fired) == jobs
    return fired


def fail(world: World, executions: list[Execution]) -> None:
    for execution in executions:
        world.report(execution, "FAILED")
    world.settle()


def alerts(world: World) -> list[Alert]:
    return [CODEC.decode_alert(record.value) for record in world.log.all(ALERTS)]


def events(world: World) -> list[ExecutionEvent]:
    return [CODEC.decode_event(record.value) for record in world.log.all(EVENTS)]


def retries(world: World, attempt: int = 2) -> list[Execution]:
    return [execution for execution in world.executions() if execution.head.attempt == attempt]


def paused(world: World) -> list[str]:
    return [item.data for item in world.engines[0].state.work.values() if item.kind == RETRIES_PAUSE]


def test_retries_wait_first_attempts_go_on_and_it_is_told_once() -> None:
    world = started()
    fail(world, world.executions())
    assert len(paused(world)) == 1
    world.run(50)
    assert len(world.executions()) == 6, "no retry goes out"
    assert [(a.kind, a.tenant_id, a.count) for a in alerts(world)] == [("retries_paused", "default", 1)]
    first = fire(world, 1)
    assert first[0].head.attempt == 1
    fail(world, first)
    assert len(alerts(world)) == 1
    last = events(world)[-1]
    assert (last.state, last.reason) == ("RETRY_SCHEDULED", "retries_paused")
    assert last.retry_at is not None and last.retry_at > world.clock.now() + 40 * SECOND


def test_a_pause_ends_by_itself_and_retries_go_out_slowly() -> None:
    world = started()
    fail(world, world.executions())
    world.run(99)
    assert len(world.executions()) == 6
    seen = []
    for _ in range(8):
        world.run(1)
        seen.append(len(world.executions()) - 6)
    assert max(b - a for a, b in zip([0, *seen], seen, strict=False)) <= 4
    assert (seen[-1], len(retries(world))) == (6, 6)
    for execution in retries(world):
        world.report(execution)
    world.run(3)
    assert paused(world) == []
    assert set(world.states().values()) == {"SUCCEEDED"}


def test_what_fails_again_when_it_is_over_begins_it_anew_without_another_word() -> None:
    world = started(jobs=12)
    fail(world, world.executions())
    world.run(103)
    out = retries(world)
    assert 5 <= len(out) < 12
    fail(world, out)
    world.run(60)
    assert len(world.executions()) < 24
    assert len(paused(world)) == len(alerts(world)) == 1
    world.run(200)
    assert len(world.executions()) >= 24


def test_somebody_ends_it() -> None:
    world = started()
    fail(world, world.executions())
    world.run(20)
    world.send(Command("resume_retries", "r1", tenant_id="other", reply_partition=0), shard=0)
    world.send(Command("resume_retries", "r2", reply_partition=0), shard=0)
    world.send(Command("resume_retries", "r3", reply_partition=0), shard=0)
    world.run(5)
    answers = {name: (o.accepted, o.detail) for name, o in world.outcomes().items() if name[0] == "r"}
    assert answers == {"r1": (True, "unchanged"), "r2": (True, "resumed"), "r3": (True, "unchanged")}
    assert len(world.executions()) == 12
    world.run(2)
    assert paused(world) == []


@pytest.mark.parametrize("resumed", [False, True])
def test_whoever_takes_over_agrees(resumed: bool) -> None:
    world = started()
    fail(world, world.executions())
    world.run(20)
    if resumed:
        world.send(Command("resume_retries", "r1", reply_partition=0), shard=0)
        world.settle()
    world.start()
    world.run(20)
    assert (len(world.executions()) == 12) is resumed
    world.start()
    world.run(100)
    assert sorted(e.head.attempt for e in world.executions()) == [1] * 6 + [2] * 6


def test_another_tenant_and_rare_failures_are_left_alone() -> None:
    world = World(shards=1, limits=LIMITS)
    world.start()
    mixed = fire(world, 20)
    for execution in mixed[:10]:
        world.report(execution)
    world.settle()
    fail(world, mixed[10:])
    assert paused(world) == []
    world.run(12)
    assert len(world.executions()) == 30


def test_what_no_retry_would_mend_does_not_count() -> None:
    world = started()
    for execution in world.executions():
        world.report(execution, "FAILED", error=AttemptError("status", "404", 404))
    world.settle()
    assert paused(world) == []


def test_a_held_back_retry_that_is_cancelled_does_not_hold_the_pause_open() -> None:
    world = started()
    fail(world, world.executions())
    world.run(20)
    for execution in world.executions():
        world.delete(execution.head.job_id)
    world.run(1)
    assert set(world.states().values()) == {"CANCELLED"}
    world.run(90)
    assert paused(world) == []
    assert len(world.executions()) == 6


def test_a_damaged_pause_is_set_aside_and_holds_nothing_back() -> None:
    world = started()
    fail(world, world.executions())
    state = world.engines[0].state
    (item,) = [one for one in state.work.values() if one.kind == RETRIES_PAUSE]
    state.work[item.id] = item._replace(data="{}")
    world.run(105)
    assert world.dead_letters() == ["work"]
    fail(world, fire(world, 1))
    world.run(15)
    assert len(retries(world)) == 7
