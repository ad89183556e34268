"""Cases of lateness: absences, far times, times in the past. The id of the case is in the test's name."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.trigger.world import CODEC, TARGET, World
from tocsin.domain.entries import Place
from tocsin.domain.instants import DAY, MILLISECOND, MINUTE, SECOND, Micros, minute_of, parse_rfc3339
from tocsin.engine.broker_clock import BrokerClock
from tocsin.ports.shard_log import EVENTS, executions

BEGIN = 1_800_000_000 * SECOND  # 2027-01-15T08:00:00Z
EVERY_MINUTE = {"cron": "* * * * *", "timezone": "UTC"}
HOUR: Micros = 60 * MINUTE
MINUTES_IN_A_TURN = 2
"""Of an absence, that surely are read in one turn of a loop."""


def begun(at: Micros = BEGIN) -> World:
    world = World(shards=1)
    world.clock.set(at)
    world.start()
    return world


def down(world: World, length: Micros) -> None:
    """Everything stands still for a while; then somebody starts, and reads up to the present."""
    world.clock.advance(length / SECOND)
    world.start()
    world.settle(10 + minute_of(length) // MINUTES_IN_A_TURN)


def times(world: World, job: str) -> list[Micros]:
    """Nominal times of a job's dispatches, in the order of dispatch."""
    return [e.head.scheduled_for for e in world.executions() if e.head.job_id == job]


def lateness(world: World) -> list[Micros]:
    """How late each dispatch was after its nominal time."""
    records = world.log.all(executions("default"))
    return [r.timestamp - CODEC.decode_execution(r.value).head.scheduled_for for r in records]


@pytest.mark.parametrize("policy", ["fire_once", "skip", "fire_all"])
def test_mis_1_everything_is_down_for_101_minutes_and_then_for_3_days(policy: str) -> None:
    world = begun()
    most: dict[str, object] = {"max_catch_up": 5} if policy == "fire_all" else {}
    job = world.recur(EVERY_MINUTE, catch_up=policy, concurrency="allow", **most)
    world.run(61, step_s=1)
    assert times(world, job) == [BEGIN + MINUTE]
    for length in (101 * MINUTE, 3 * DAY):
        before, gone_at = len(times(world, job)), world.clock.now()
        down(world, length)
        world.run(5)
        back_at = world.clock.now()
        oldest = (gone_at // MINUTE + 1) * MINUTE
        expected = {"fire_once": [oldest], "skip": [], "fire_all": [oldest + n * MINUTE for n in range(5)]}[policy]
        assert times(world, job)[before:] == expected
        world.run(60, step_s=1)
        assert times(world, job)[before + len(expected) :] == [(back_at // MINUTE + 1) * MINUTE], "the next minute"
    world.run(600, step_s=5)
    assert times(world, job)[-10:] == [world.clock.now() // MINUTE * MINUTE - n * MINUTE for n in range(9, -1, -1)]


def test_mis_3_the_owner_comes_back_after_days_and_the_job_begins_anew_under_its_id() -> None:
    world = begun()
    definition = {"schedule": {"every_s": 15}, "target": TARGET, "concurrency": "allow"}
    world.order("create", "tick", definition=definition)
    world.run(31, step_s=1)
    assert len(times(world, "default@tick")) == 2
    down(world, 2 * DAY)
    assert len(times(world, "default@tick")) == 3, "at most one catch-up run"
    old = {e.head.execution_id for e in world.executions()}
    world.order("delete", "tick")
    world.run(1)
    down(world, DAY)
    assert len(times(world, "default@tick")) == 3
    again_at = world.clock.now()
    world.order("create", "tick", definition=definition)
    world.run(16, step_s=1)
    new = [e.head for e in world.executions() if e.head.execution_id not in old]
    assert [head.scheduled_for - again_at for head in new] == [15 * SECOND], "nothing is inherited"
    assert len(old) == 3 and not old & {head.execution_id for head in new}, "old runs keep ids of their own"


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("past", [SECOND, HOUR])
def test_mis_5_a_one_off_in_the_past_fires_once_and_late(past: Micros, restarted: bool) -> None:
    world = begun()
    job = world.create(at=world.clock.now() - past)
    if restarted:
        world.settle(1)
        world.store.lose()
        world.start()
    world.run(5)
    if restarted:
        world.start()
    world.run(300, step_s=5)
    assert times(world, job) == [BEGIN - past]
    [late] = lateness(world)
    assert past <= late < past + 5 * SECOND


def test_mis_7_the_owner_dies_50_seconds_before() -> None:
    at = parse_rfc3339("2027-01-15T04:00:00Z")
    world = begun(at - 10 * MINUTE)
    job = world.recur({"cron": "0 4 * * *", "timezone": "UTC"})
    world.run(550, step_s=5)
    assert world.clock.now() == at - 50 * SECOND
    world.store.lose()
    world.clock.advance(62)
    world.start()
    world.run(2)
    assert times(world, job) == [at]
    assert lateness(world)[0] < 13 * SECOND, "as late as the takeover"


def test_mis_7_a_weekly_job_of_a_system_that_is_restarted_daily() -> None:
    world = begun()
    job = world.recur({"cron": "30 8 * * MON", "timezone": "UTC"})
    world.run(1)
    for day in range(11):
        world.clock.advance(DAY / SECOND - 10)
        world.start()
        world.settle(10 + minute_of(DAY) // MINUTES_IN_A_TURN)
        world.run(10, step_s=1)
        if day == 3:
            [monday] = world.executions()
            world.report(monday)
    mondays = [parse_rfc3339(f"2027-01-{day}T08:30:00Z") for day in (18, 25)]
    assert times(world, job) == mondays


@pytest.mark.parametrize("ahead", [30 * DAY, 2**31 * MILLISECOND, 70 * 365 * DAY])
def test_lon_1_far_times_fire_once_on_time_and_keep_nobody_busy(ahead: Micros) -> None:
    world = begun()
    job = world.create(at=BEGIN + ahead)
    world.run(5)
    [engine] = world.engines.values()
    assert engine.next_wake(world.clock.now()) - world.clock.now() > SECOND, "no busy loop"
    # An owner that idled all the way: its cursor has come along.
    near = BEGIN + ahead - 90 * SECOND
    engine.state.cursor = engine.state.successors_upto = Place.before(near)
    world.clock.set(near)
    world.settle(1)
    world.start()
    world.run(85, step_s=1)
    assert times(world, job) == []
    world.run(300, step_s=1)
    assert times(world, job) == [BEGIN + ahead]
    assert 0 <= lateness(world)[0] <= SECOND


def test_oth_1_a_create_that_arrives_when_its_minute_has_been_left() -> None:
    ten = parse_rfc3339("2027-01-15T10:00:00Z")
    world = begun(ten + 30 * SECOND)
    world.run(32)
    assert world.clock.now() == ten + MINUTE + 2 * SECOND
    job = world.create(at=ten + 59 * SECOND + 900 * MILLISECOND)
    world.run(1)
    world.start()
    world.run(120, step_s=1)
    assert times(world, job) == [ten + 59 * SECOND + 900 * MILLISECOND]
    assert 2 * SECOND < lateness(world)[0] < 4 * SECOND


def test_clk_1_a_machines_clock_steps_two_hours_ahead_and_back() -> None:
    """Each start reads the wall clock anew; what is decided by is what the broker's answer leaves of it."""
    three = parse_rfc3339("2027-01-15T15:00:00Z")
    world = begun(three)
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    true, monotonic = three, 0
    for step, seconds in ((0, 50), (2 * HOUR, 15), (0, 300)):
        clock = BrokerClock(true + step, monotonic)
        sent = clock.local(monotonic)
        clock.observe(sent, true, clock.local(monotonic + MILLISECOND))
        assert (clock.off_by() is None) is (step == 0), "a clock that is off says so"
        world.start()
        for _ in range(seconds):
            true, monotonic = true + SECOND, monotonic + SECOND
            world.clock.set(max(world.clock.now(), clock.now(monotonic)))
            world.settle(2)
    fired = Counter(times(world, job))
    assert set(fired.values()) == {1}, "no slot runs twice"
    assert sorted(fired) == [three + n * MINUTE for n in range(1, 7)], "and none is passed over"
    assert max(lateness(world)) <= 2 * SECOND, "no burst"
    assert not [r for r in world.log.all(EVENTS) if CODEC.decode_event(r.value).state == "SKIPPED"]
