"""What a job asks people to be alerted to: it alone, once, and without a flood."""

from __future__ import annotations

import pytest

from tests.unit.trigger.overlap_world import OverlapWorld
from tests.unit.trigger.test_alerts import alerts, started
from tests.unit.trigger.world import CODEC, World
from tocsin.domain.alerts import Alert
from tocsin.engine.engine_limits import EngineLimits
from tocsin.ports.shard_log import DEAD_LETTERS, EVENTS

Told = list[tuple[str, str | None, str | None, int]]


def told(world: World) -> Told:
    return [(alert.kind, alert.alert_on, alert.job_id, alert.count) for alert in alerts(world)]


def outage(world: World, lasts_s: float) -> None:
    world.shard_log.lose(range(1))
    world.clock.advance(lasts_s)
    world.start()
    world.run(2)


def test_a_failure_that_was_asked_for_is_told_once_and_says_so() -> None:
    world = started()
    job = world.recur({"every_s": 100_000, "anchor_at": "2027-01-15T08:00:01Z"}, alert_on=["failure"])
    world.run(5)
    [execution] = world.executions()
    world.report(execution, "FAILED")
    world.settle()
    [alert] = alerts(world)
    head = execution.head
    expected = Alert("dead_letter", alert.at, "default", job, head.execution_id, 0, "execution: answered 500", 1)
    assert alert == Alert(**{**{s: getattr(expected, s) for s in expected.__slots__}, "alert_on": "failure"})


def test_an_unknown_end_is_a_failure() -> None:
    world = started()
    job = world.recur(
        {"every_s": 100_000, "anchor_at": "2027-01-15T08:00:01Z"}, alert_on=["failure"], delivery="at_most_once"
    )
    world.run(5)
    world.report(world.executions()[0], "RETURNED", started="maybe", reason="lost")
    world.settle()
    assert told(world) == [("unknown", "failure", job, 1)]


def test_failures_that_were_asked_for_are_named_by_job_before_a_flood_of_others() -> None:
    world = started(EngineLimits(alerts_max=2))
    for _ in range(10):
        world.create(in_s=1)
    asking = world.recur({"every_s": 1, "end_at": "2027-01-15T08:00:03Z"}, alert_on=["failure"], concurrency="allow")
    world.run(5)
    mine = [one for one in world.executions() if one.head.job_id == asking]
    assert len(mine) > 1
    for execution in world.executions():
        world.report(execution, "FAILED")
    world.settle()
    [first, *_, last] = told(world)
    assert first == ("dead_letter", "failure", asking, len(mine))
    assert last == ("dead_letter", None, None, 9)
    assert sum(count for *_, count in told(world)) == len(world.log.all(DEAD_LETTERS))


def test_overlaps_that_were_asked_for_are_told_at_once_and_then_once_a_minute() -> None:
    world = started()
    job = world.recur({"every_s": 1}, alert_on=["skip"])
    world.run(4)
    first = alerts(world)[0]
    assert first.execution_id is not None and first.message == "overlap"
    assert told(world) == [("skipped", "skip", job, 1)]
    world.run(57)
    assert len(told(world)) == 1
    world.run(3)
    [_, second] = alerts(world)
    assert second.message == f"{second.count} since the last alert; the first: overlap"
    assert (second.execution_id, second.alert_on) == (None, "skip")
    world.run(200)
    skipped = len(world.skipped())
    counted = sum(alert.count for alert in alerts(world))
    assert len(alerts(world)) <= 6
    assert skipped - 60 <= counted <= skipped


def test_what_is_held_back_is_told_when_the_shard_is_given_up() -> None:
    world = started()
    world.recur({"every_s": 1}, alert_on=["skip"])
    world.run(10)
    world.shard_log.revoke(range(1))
    world.loop.turn()
    assert sum(alert.count for alert in alerts(world)) == len(world.skipped())


def test_skips_of_a_full_queue_of_a_replacement_and_of_a_pause_are_told() -> None:
    world = OverlapWorld(EngineLimits(overlap_queue_max=1, alert_gap_s=1))
    replacing = world.manual("replace", alert_on=["skip"])
    for _ in range(3):
        world.trigger(replacing)
    assert told(world) == [("skipped", "skip", replacing, 1)]
    assert alerts(world)[0].message == "replaced"
    queueing = world.job("queue", schedule={"every_s": 2}, alert_on=["skip"])
    world.run(10)
    [(kind, alert_on, job, _), *_] = told(world)[1:]
    assert (kind, alert_on, job) == ("skipped", "skip", queueing)
    assert "queue_full" in alerts(world)[1].message
    world.order("pause", queueing)
    world.run(10)
    world.order("resume", queueing)
    world.run(3)
    [paused] = [alert for alert in alerts(world) if alert.message == "paused"]
    assert (paused.job_id, paused.alert_on) == (queueing, "skip")
    assert paused.count == 5


def test_what_was_missed_is_one_alert_of_each_job_that_asks_and_one_of_all_others() -> None:
    world = started()
    asking = world.recur({"every_s": 10}, concurrency="allow", alert_on=["missed", "skip"])
    for _ in range(3):
        world.recur({"every_s": 10}, concurrency="allow", alert_on=["skip"])
    world.run(2)
    outage(world, 600)
    [mine, others] = alerts(world)
    assert (mine.kind, mine.job_id, mine.alert_on, mine.message) == ("skipped", asking, "missed", "missed")
    assert (others.kind, others.job_id, others.alert_on) == ("skipped", None, None)
    assert mine.count > 50 and others.count == 3 * mine.count
    assert mine.count == next(
        event.skipped_count
        for event in (CODEC.decode_event(record.value) for record in world.log.all(EVENTS))
        if event.head.job_id == asking and event.state == "SKIPPED"
    )


@pytest.mark.parametrize("schedule", ["every", "once"])
def test_a_late_run_is_told(schedule: str) -> None:
    world = started()
    at = "2027-01-15T08:00:30Z"
    when = {"every_s": 100_000, "anchor_at": at} if schedule == "every" else {"run_at": at}
    jobs = [world.recur(when, alert_on=["late"], misfire_after_s=after) for after in (60, 300)]
    world.recur(when)
    world.run(1)
    outage(world, 150)
    assert len(world.executions()) == 3
    [alert] = alerts(world)
    [late] = [one for one in world.executions() if one.head.job_id == jobs[0]]
    assert (alert.kind, alert.alert_on, alert.execution_id) == ("late", "late", late.head.execution_id)
    assert alert.message.startswith("fired 12") and alert.message.endswith(" s after its time")


def test_late_runs_of_a_backlog_are_summed_up() -> None:
    world = started()
    job = world.recur({"every_s": 5}, concurrency="allow", catch_up="fire_all", alert_on=["late", "missed"])
    world.run(1)
    outage(world, 300)
    world.run(100, step_s=1)
    late = [alert for alert in alerts(world) if alert.kind == "late"]
    assert len(late) == 2
    assert {alert.job_id for alert in late} == {job}
    assert 45 <= sum(alert.count for alert in late) <= 60
    assert [alert for alert in alerts(world) if alert.alert_on == "missed"] == [], "each was run"


def test_nobody_is_told_what_nobody_asked_for() -> None:
    world = started()
    world.recur({"every_s": 2}, alert_on=["failure", "missed", "late"])
    world.run(10)
    assert world.skipped()
    assert alerts(world) == []


def test_an_edit_changes_what_is_told() -> None:
    world = started()
    job = world.recur({"every_s": 1})
    world.run(4)
    assert world.skipped() and alerts(world) == []
    definition = {"schedule": {"every_s": 1}, "target": {"type": "http", "url": "https://example.test/run"}}
    world.order("update", job, definition={**definition, "alert_on": ["skip"]})
    world.run(4)
    assert [alert.alert_on for alert in alerts(world)] == ["skip"]
