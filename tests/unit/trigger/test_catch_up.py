"""What was missed, by policy: what runs, what is told, how fast, and that each occurrence is decided once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.unit.trigger.world import CODEC, World, work_of
from tocsin.domain.executions import Execution, ExecutionEvent
from tocsin.domain.instants import DAY, MINUTE, SECOND
from tocsin.engine.catch_up import BACKLOGS_MAX, CatchUpLimits
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import EVENTS

BEGIN = 1_800_000_000 * SECOND
EVERY_MINUTE = {"cron": "* * * * *", "timezone": "UTC"}


@pytest.fixture
def world() -> World:
    return begun(World())


def begun(world: World) -> World:
    world.clock.set(BEGIN)  # 08:00:00 UTC
    world.start()
    return world


def nominal(world: World, job: str) -> list[int]:
    """Nominal seconds after the start of each dispatch of a job, in the order of dispatch."""
    return [(e.head.scheduled_for - BEGIN) // SECOND for e in world.executions() if e.head.job_id == job]


def skips(world: World, job: str) -> list[tuple[str | None, int, int, int | None]]:
    """Reason, first and last nominal second, and count of each range of a job that is not run."""
    events = [CODEC.decode_event(record.value) for record in world.log.all(EVENTS)]
    return [
        (e.reason, *((at - BEGIN) // SECOND for at in _ends(e)), e.skipped_count)
        for e in events
        if e.state == "SKIPPED" and e.head.job_id == job
    ]


def _ends(event: ExecutionEvent) -> tuple[int, int]:
    return event.head.scheduled_for, event.skipped_upto or event.head.scheduled_for


def away(world: World, seconds: float) -> None:
    """Let nobody be there for a while, and then somebody else."""
    world.clock.advance(seconds)
    world.start()
    world.settle(30)


def succeed(world: World, done: set[str]) -> list[Execution]:
    """Report that all that was dispatched and not yet reported has succeeded; return what that was."""
    fresh = [e for e in world.executions() if e.head.execution_id not in done]
    for execution in fresh:
        done.add(execution.head.execution_id)
        world.report(execution)
    return fresh


def test_skip_runs_nothing_of_what_was_missed(world: World) -> None:
    job = world.recur(EVERY_MINUTE, catch_up="skip", concurrency="allow")
    away(world, 10 * 60 + 1)
    assert nominal(world, job) == []
    assert skips(world, job) == [("late", 60, 600, 10)]
    world.run(60, step_s=1)
    assert nominal(world, job) == [660]


def test_skip_with_a_grace_runs_what_is_within_it(world: World) -> None:
    job = world.recur(EVERY_MINUTE, catch_up="skip", grace_s=150, concurrency="allow")
    away(world, 10 * 60 + 1)
    assert nominal(world, job) == [480, 540, 600], "121 s, 61 s and 1 s late"
    assert skips(world, job) == [("late", 60, 420, 7)]


def test_a_grace_replaces_the_patience_of_skip(world: World) -> None:
    short = world.recur({"every_s": 3600}, catch_up="skip", grace_s=5, misfire_after_s=600)
    long = world.recur({"every_s": 3600}, catch_up="skip", grace_s=900, misfire_after_s=5)
    away(world, 3600 + 300)
    assert (nominal(world, short), nominal(world, long)) == ([], [3600])
    assert skips(world, short) == [("late", 3600, 3600, 1)]


def test_a_one_off_that_skips_is_told_and_one_that_does_not_runs_late(world: World) -> None:
    def create(job_id: str, **fields: object) -> str:
        target = {"type": "http", "url": "https://example.test/"}
        world.order("create", job_id, definition={"delay_s": 30, "target": target, **fields})
        return f"default@{job_id}"

    skipping = create("skipping", catch_up="skip")
    patient = create("patient", catch_up="skip", grace_s=3600)
    all_of_it = create("all", catch_up="fire_all")
    away(world, 600)
    assert [nominal(world, job) for job in (skipping, patient, all_of_it)] == [[], [30], [30]]
    assert skips(world, skipping) == [("late", 30, 30, 1)]
    world.run(700, step_s=5)
    assert len(world.executions()) == 2


def test_fire_all_runs_each_that_was_missed_and_the_present_ones_meanwhile(world: World) -> None:
    job = world.recur(EVERY_MINUTE, catch_up="fire_all", concurrency="allow")
    away(world, 10 * 60 + 1)
    world.run(60, step_s=0.25)
    assert nominal(world, job) == [60 * n for n in range(1, 12)]
    assert skips(world, job) == []
    heads = [e.head for e in world.executions()]
    assert all(head.execution_id == f"{job}.{head.job_version}.{head.scheduled_for}" for head in heads)
    assert all(not work_of(engine) for engine in world.engines.values())


def test_fire_all_keeps_to_its_number_and_tells_the_rest(world: World) -> None:
    job = world.recur(EVERY_MINUTE, catch_up="fire_all", max_catch_up=4, concurrency="allow")
    away(world, 3 * 3600 + 1)
    world.run(5)
    assert nominal(world, job) == [60, 120, 180, 240]
    assert skips(world, job) == [("max_catch_up", 300, 10_800, 176)]


def test_what_catches_up_waits_for_what_runs_and_is_not_skipped(world: World) -> None:
    job = world.recur(EVERY_MINUTE, catch_up="fire_all")
    done: set[str] = set()
    away(world, 4 * 60 + 1)
    world.run(5)
    assert nominal(world, job) == [60], "the first runs, the others wait for its end"
    for n in range(2, 5):
        succeed(world, done)
        world.run(2)
        assert nominal(world, job)[-1] == 60 * n
    succeed(world, done)
    world.run(58, step_s=0.5)
    assert nominal(world, job) == [60, 120, 180, 240, 300]
    assert skips(world, job) == []


def test_a_present_occurrence_that_meets_a_late_run_is_skipped_as_by_any_run(world: World) -> None:
    job = world.recur(EVERY_MINUTE, catch_up="fire_all")
    away(world, 2 * 60 + 1)
    world.run(60, step_s=1)
    assert nominal(world, job) == [60]
    assert skips(world, job) == [("overlap", 180, 180, 1)]
    succeed(world, set())
    world.run(2)
    assert nominal(world, job) == [60, 120], "the late one is still to come"


def test_a_lone_missed_occurrence_waits_for_a_run_too(world: World) -> None:
    job = world.recur({"every_s": 600}, catch_up="fire_all")
    world.run(601, step_s=5)
    away(world, 700)
    assert nominal(world, job) == [600]
    succeed(world, set())
    world.run(2)
    assert nominal(world, job) == [600, 1200]
    assert skips(world, job) == []


def test_catching_up_is_no_flood() -> None:
    limits = EngineLimits(catch_up=CatchUpLimits(per_s=20, job_per_s=4))
    world = begun(World(shards=1, limits=limits))
    jobs = [world.recur({"every_s": 60}, catch_up="fire_all", concurrency="allow") for _ in range(30)]
    world.run(1)
    away(world, 1000)
    world.run(20, step_s=0.05)
    sent = [(r.timestamp, CODEC.decode_execution(r.value).head) for r in world.log.all("executions.default")]
    stamps = [(at, head.job_id) for at, head in sent if at - head.scheduled_for > SECOND]
    seconds = Counter(at // SECOND for at, _ in stamps)
    assert max(seconds.values()) <= 21 and len(stamps) > 380
    each = Counter((at // SECOND, job) for at, job in stamps)
    assert max(each.values()) <= 5
    assert {job for _, job in stamps} == set(jobs), "each has its turn"


def test_what_is_due_in_time_is_not_held_up_by_what_is_late() -> None:
    limits = EngineLimits(work_portions_max=2, catch_up=CatchUpLimits(per_s=50, job_per_s=50))
    world = begun(World(shards=1, limits=limits))
    for _ in range(20):
        world.recur({"every_s": 1}, catch_up="fire_all", concurrency="allow", max_catch_up=500)
    world.run(1)
    away(world, 500)
    punctual = world.create(in_s=3)
    world.run(5, step_s=0.1)
    [at] = [r.timestamp for r in world.log.all("executions.default") if punctual.encode() in (r.value or b"")]
    [due] = [e.head.due_at for e in world.executions() if e.head.job_id == punctual]
    assert 0 <= at - due <= 100_000


@pytest.mark.parametrize(("verb", "reason"), [("delete", "deleted"), ("pause", "paused"), ("update", "updated")])
def test_a_change_of_the_job_ends_its_catching_up_and_tells_the_rest(world: World, verb: str, reason: str) -> None:
    job = world.recur(EVERY_MINUTE, catch_up="fire_all")
    away(world, 10 * 60 + 1)
    assert nominal(world, job) == [60]
    changed = {"schedule": EVERY_MINUTE, "target": {"type": "http", "url": "https://example.test/new"}}
    world.order(verb, job, **({"definition": changed} if verb == "update" else {}))
    world.run(1)
    assert skips(world, job) == [(reason, 120, 600, 9)]
    succeed(world, set())
    world.run(10)
    assert nominal(world, job) == [60]
    assert all(not work_of(engine) for engine in world.engines.values())


def test_absences_in_a_row_are_caught_up_with_in_order_and_not_without_end(world: World) -> None:
    job = world.recur(EVERY_MINUTE, catch_up="fire_all")
    world.run(1)
    for _ in range(BACKLOGS_MAX + 2):
        world.clock.advance(300 - 1)
        world.start()
        world.run(1)
    told = skips(world, job)
    assert {reason for reason, *_ in told} == {"max_catch_up"} and len(told) == 2
    done: set[str] = set()
    for _ in range(5 * BACKLOGS_MAX + 30):
        succeed(world, done)
        world.run(0.5)
    late = nominal(world, job)
    assert late == sorted(late) and len(set(late)) == len(late)
    covered = {n for _, first, last, _ in told for n in range(first, last + 60, 60)}
    assert sorted(covered | set(late)) == list(range(60, 5_460, 60)) and not covered & set(late)


def test_a_takeover_at_every_turn_repeats_and_drops_nothing_of_a_backlog(world: World) -> None:
    job = world.recur(EVERY_MINUTE, catch_up="fire_all", max_catch_up=8)
    done: set[str] = set()
    away(world, 12 * 60 + 1)
    for _ in range(40):
        world.store.lose()
        world.start()
        world.settle(2)
        succeed(world, done)
        world.clock.advance(0.4)
        world.settle(2)
    assert nominal(world, job)[:8] == [60 * n for n in range(1, 9)]
    assert len(set(nominal(world, job))) == len(nominal(world, job))
    assert skips(world, job) == [("max_catch_up", 540, 720, 4)]


def test_a_pause_is_told_in_one_event(world: World) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    world.run(90, step_s=1)
    world.order("pause", job)
    world.run(1)
    target = {"type": "http", "url": "https://b.test/"}
    world.order("update", job, definition={"schedule": EVERY_MINUTE, "target": target, "concurrency": "allow"})
    world.run(300, step_s=5)
    world.start()
    world.order("resume", job)
    world.run(60, step_s=1)
    assert skips(world, job) == [("paused", 120, 360, 5)]
    assert nominal(world, job) == [60, 420]


def test_a_short_pause_is_no_event(world: World) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    world.run(70, step_s=1)
    world.order("pause", job)
    world.run(20, step_s=1)
    world.order("resume", job)
    world.run(40, step_s=1)
    assert skips(world, job) == [] and nominal(world, job) == [60, 120]


@pytest.mark.parametrize(
    ("fields", "late", "told"),
    [
        ({}, [120], [("missed", 180, 360, 4)]),
        ({"catch_up": "fire_all"}, [120, 180, 240, 300, 360], []),
        ({"catch_up": "fire_all", "max_catch_up": 2}, [120, 180], [("max_catch_up", 240, 360, 3)]),
        ({"catch_up": "skip"}, [], [("late", 120, 360, 5)]),
        ({"catch_up": "skip", "grace_s": 150}, [240, 300, 360], [("late", 120, 180, 2)]),
        ({"catch_up": "skip", "grace_s": 3600}, [120, 180, 240, 300, 360], []),
    ],
)
def test_what_a_pause_held_back_is_caught_up_with_if_so_asked(
    world: World, fields: dict[str, object], late: list[int], told: list[tuple[str, int, int, int]]
) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow", on_resume="catch_up", **fields)
    world.run(90, step_s=1)
    world.order("pause", job)
    world.run(280, step_s=5)
    world.order("resume", job)
    world.run(20, step_s=0.25)
    assert nominal(world, job) == [60, *late]
    assert skips(world, job) == told
    world.run(60, step_s=1)
    assert nominal(world, job)[-1] == 420


@pytest.mark.parametrize("verb", ["delete", "update"])
def test_what_a_pause_held_back_is_told_where_its_schedule_ends_in_it(world: World, verb: str) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    world.run(90, step_s=1)
    world.order("pause", job)
    world.run(200, step_s=5)
    changed = {"schedule": {"every_s": 50}, "target": {"type": "http", "url": "https://example.test/new"}}
    world.order(verb, job, **({"definition": changed} if verb == "update" else {}))
    world.run(1)
    assert skips(world, job) == [("paused", 120, 240, 3)]
    if verb == "update":
        world.run(110, step_s=5)
        world.order("resume", job)
        world.run(1)
        assert skips(world, job)[1:] == [("paused", 300, 400, 3)]


@pytest.mark.parametrize(
    ("fields", "runs", "told"),
    [
        ({}, True, []),
        ({"on_resume": "catch_up"}, True, []),
        ({"on_resume": "skip"}, False, [("paused", 30, 30, 1)]),
        ({"catch_up": "skip"}, False, [("late", 30, 30, 1)]),
    ],
)
def test_a_one_off_whose_time_passed_in_a_pause(
    world: World, fields: dict[str, object], runs: bool, told: list[tuple[str, int, int, int]]
) -> None:
    target = {"type": "http", "url": "https://example.test/"}
    world.order("create", "once", definition={"delay_s": 30, "target": target, **fields})
    world.run(1)
    world.order("pause", "once")
    world.run(200, step_s=5)
    world.order("resume", "once")
    world.run(2)
    assert bool(nominal(world, "default@once")) is runs
    assert skips(world, "default@once") == told


def test_months_of_a_second_are_counted_without_a_walk(world: World) -> None:
    job = world.recur({"every_s": 1}, concurrency="allow")
    world.run(2)
    away(world, 90 * DAY // SECOND)
    [(reason, first, last, count)] = skips(world, job)
    assert (reason, last - first + 1) == ("missed", count)
    assert count == 90 * DAY // SECOND - 1


def test_where_counting_is_a_walk_it_ends_and_says_so(world: World) -> None:
    job = world.recur({"cron": "* * * * * *", "timezone": "UTC"}, concurrency="allow")
    world.run(2)
    away(world, 90 * DAY // SECOND)
    [event] = [e for e in map(CODEC.decode_event, (r.value for r in world.log.all(EVENTS))) if e.state == "SKIPPED"]
    assert (event.skipped_count, event.skipped_more, event.result) == (10_000, True, "more than 10000 times")
    assert (event.skipped_upto or 0) == world.clock.now() - world.clock.now() % SECOND, "the range is exact"
    assert nominal(world, job)[:2] == [1, 2]


def test_a_thousand_jobs_of_a_second_that_were_away_for_months_cost_no_long_walk(world: World) -> None:
    """Counted in calls of the evaluator, not in seconds, which a busy machine stretches."""
    from tocsin.domain.recurrence import CronPlan

    for n in range(300):
        world.recur({"cron": f"*/{1 + n % 30} * * * * *", "timezone": "UTC"}, concurrency="allow")
        world.recur({"every_s": 1 + n % 30}, concurrency="allow", catch_up="fire_all")
    world.run(1)
    walked = 0
    original = CronPlan.count_between

    def counted(self: CronPlan, after: int, upto: int, limit: int) -> tuple[int, bool]:
        nonlocal walked
        found = original(self, after, upto, limit)
        walked += found[0]
        return found

    CronPlan.count_between = counted  # type: ignore[method-assign]
    try:
        world.clock.advance(60 * DAY // SECOND)
        world.start()
        world.settle(60)
    finally:
        CronPlan.count_between = original  # type: ignore[method-assign]
    assert walked <= 2 * 60 * 60_000 and len(skips_of_all(world)) >= 300


def skips_of_all(world: World) -> list[ExecutionEvent]:
    return [e for e in map(CODEC.decode_event, (r.value for r in world.log.all(EVENTS))) if e.state == "SKIPPED"]


def test_a_stalled_store_costs_no_quadratic_walk_at_the_next_takeover(world: World) -> None:
    job = world.recur({"every_s": 1}, concurrency="allow")
    world.run(1)
    world.store.held = True
    world.run(100, step_s=1)
    asked = 0
    from tocsin.domain.recurrence import EveryPlan

    original = EveryPlan.next_after

    def counted(self: EveryPlan, instant: int) -> int | None:
        nonlocal asked
        asked += 1
        return original(self, instant)

    EveryPlan.next_after = counted  # type: ignore[method-assign]
    try:
        world.store.held = False
        world.store.release(10_000)
        world.start()
        world.settle(20)
    finally:
        EveryPlan.next_after = original  # type: ignore[method-assign]
    world.run(3, step_s=1)
    assert nominal(world, job) == list(range(1, 105))
    assert asked < 1_000, "some steps for each row, not for each pair of rows"


def test_a_day_of_an_hourly_job_keeps_its_nominal_times(world: World) -> None:
    job = world.recur({"cron": "30 * * * *", "timezone": "Asia/Kolkata"}, catch_up="fire_all", concurrency="allow")
    away(world, DAY // SECOND)
    world.run(10)
    times = nominal(world, job)
    assert len(times) == 24 and {b - a for a, b in pairwise(times)} == {3_600}
    assert times[0] * SECOND % (30 * MINUTE) == 0


@pytest.mark.parametrize(("verb", "reason"), [("delete", "deleted"), ("update", "updated")])
def test_what_was_due_and_not_decided_when_a_command_took_it_back_is_told(world: World, verb: str, reason: str) -> None:
    world.run(6)  # ids that are made from here on are known to be new
    world.store.held = True  # so that the job stays in memory, and the command is decided before what is due
    job = world.recur({"every_s": 20}, concurrency="allow")
    world.settle()
    world.clock.advance(45)
    changed = {"schedule": {"every_s": 3_600}, "target": {"type": "http", "url": "https://example.test/new"}}
    world.order(verb, job, **({"definition": changed} if verb == "update" else {}))
    world.settle()
    assert nominal(world, job) == []
    assert skips(world, job) == [(reason, 26, 46, 2)]


def test_an_edit_that_keeps_the_schedule_keeps_what_is_due(world: World) -> None:
    world.run(6)  # ids that are made from here on are known to be new
    world.store.held = True
    job = world.recur({"every_s": 20}, concurrency="allow")
    world.settle()
    world.clock.advance(45)
    changed = {"schedule": {"every_s": 20}, "target": {"type": "http", "url": "https://example.test/new"}}
    world.order("update", job, definition={**changed, "concurrency": "allow"})
    world.settle()
    assert nominal(world, job) == [26, 46] and skips(world, job) == []
    assert all("new" in str(execution.target) for execution in world.executions())
