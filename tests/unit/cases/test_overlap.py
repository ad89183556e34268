"""Cases of runs that overlap. The id of the case is in the test's name."""

from __future__ import annotations

import pytest

from tests.unit.trigger.overlap_world import OverlapWorld
from tests.unit.trigger.world import TARGET
from tocsin.domain.instants import MINUTE

EVERY_MINUTE = {"cron": "* * * * *", "timezone": "UTC"}


def test_con_1_a_run_that_is_stuck_in_its_lane_lets_later_ticks_be_skipped() -> None:
    world = OverlapWorld()
    world.job("skip_if_running", schedule=EVERY_MINUTE)
    world.run(5 * 60 + 1, step_s=1)
    [run] = world.executions()
    skipped = [event for event in world.events() if event.state == "SKIPPED"]
    assert [event.reason for event in skipped] == ["overlap"] * 4
    nominal = [event.head.scheduled_for for event in skipped]
    assert nominal == [run.head.scheduled_for + n * MINUTE for n in range(1, 5)]
    assert list(world.active()) == [run.head.execution_id]


@pytest.mark.parametrize("policy", ["skip_if_running", "queue", "replace", "allow"])
@pytest.mark.parametrize("state", ["queued", "running", "waits for a retry"])
def test_con_3_a_trigger_meets_a_scheduled_run(policy: str, state: str) -> None:
    """One way in for every source, whatever the active one is at."""
    world = OverlapWorld()
    retry = {"max_attempts": 2, "backoff": "fixed", "base_s": 600, "jitter": "none"}
    job = world.job(policy, schedule={"every_s": 1000, "anchor_at": "2027-01-15T08:00:01Z"}, retry=retry)
    world.run(2)
    [scheduled] = world.started()
    if state == "running":
        world.report(world.dispatch_of(scheduled), "RUNNING", error=None, timeout_s=500.0)
    elif state == "waits for a retry":
        world.end(scheduled, "FAILED")
    triggered = world.trigger(job)
    outcome = list(world.outcomes().values())[-1]
    if policy == "skip_if_running":
        assert (outcome.accepted, outcome.detail) == (False, "running")
        assert "active" in outcome.faults[0].problem
    elif policy == "queue":
        assert outcome.detail == "queued" and world.started() == [scheduled]
        assert world.active()[scheduled].ending is None
    elif policy == "replace" and state != "waits for a retry":
        assert outcome.detail == "queued" and world.started() == [scheduled]
        assert world.active()[scheduled].ending == "replaced"
    else:
        assert outcome.detail == "triggered" and world.started() == [scheduled, triggered]


@pytest.mark.parametrize("heard", ["nothing", "an end after 30 s"])
def test_con_5_the_successor_waits_until_the_replaced_run_is_confirmed_stopped(heard: str) -> None:
    world = OverlapWorld()
    job = world.manual("replace", target={**TARGET, "timeout_s": 20})
    first = world.trigger(job)
    world.report(world.dispatch_of(first), "RUNNING", error=None, timeout_s=400.0, worker_id="w")
    world.settle()
    second = world.trigger(job)
    world.run(30, step_s=1)
    assert world.started() == [first], "its worker does not answer, and its deadline has not passed"
    if heard == "nothing":
        world.run(18, step_s=1)
        assert world.started() == [first]
        world.run(4, step_s=1)
    else:
        world.end(first, "CANCELLED", error=None)
    assert world.story(first)[-1] == ("CANCELLED", "replaced")
    assert world.started() == [first, second]
    world.report(world.dispatch_of(first))
    world.settle()
    assert world.story(first)[-1] == ("CANCELLED", "replaced"), "what the old worker says at last is stale"
    assert list(world.active()) == [second]
    assert world.dispatch_of(second).head.token > world.dispatch_of(first).head.token
