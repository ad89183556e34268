"""Zone data that change under jobs of several times a day, pauses, backlogs and bounds: the rule holds for each."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit import zone_data
from tests.unit.trigger.test_index_rebuild import SMALL
from tests.unit.trigger.world import CODEC, World
from tocsin.domain.firing import plan_of, plan_text
from tocsin.domain.instants import DAY, MINUTE, Micros, format_rfc3339
from tocsin.domain.sharding import shard_of
from tocsin.engine.zone_rules import ERA
from tocsin.ports.shard_log import EVENTS

HOUR = 60 * MINUTE
PARIS = "Europe/Paris"
OFFSETS = {
    "Europe/London": 0,
    PARIS: HOUR,
    "Europe/Athens": 2 * HOUR,
    "Asia/Tokyo": 9 * HOUR,
    "Asia/Kolkata": 330 * MINUTE,
}
"""In January, in which these tests play."""


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    zone_data.forget()


def _job(
    world: World,
    cron: str,
    *,
    concurrency: str = "allow",
    catch_up: dict[str, object] | None = None,
    **schedule: object,
) -> str:
    more = {} if catch_up is None else catch_up
    return world.recur({"cron": cron, "timezone": PARIS, **schedule}, concurrency=concurrency, **more)


def _changed_at(world: World, job_id: str) -> list[Micros]:
    work = world.engines[shard_of(job_id, world.shards)].state.work.values()
    return [json.loads(item.data)["at"] for item in work if item.kind == ERA]


def _times(world: World, job_id: str) -> list[Micros]:
    return sorted(e.head.scheduled_for for e in world.executions() if e.head.job_id == job_id)


def _expected(walls: list[Micros], changes: list[tuple[Micros, str]], start: Micros, end: Micros) -> list[Micros]:
    """When a job of some wall times a day runs: each wall time once, at the first instant that shows or passes it.

    Minute by minute, as a person would who looks at a clock on the wall and strikes out what it has shown.
    """
    found = []
    zones = [(0, PARIS), *changes]
    shown = None
    for now in range(start // MINUTE * MINUTE, end + 1, MINUTE):
        zone = [zone for at, zone in zones if at <= now][-1]
        wall = now + OFFSETS[zone]
        if shown is None:
            shown = wall
            continue
        if wall > shown:
            due = {at for at in range(shown + MINUTE, wall + 1, MINUTE) if at % DAY in walls}
            shown = wall
            if due and now > start:
                found.append(now)
    return found


CRONS = {
    "0 9-17 * * *": [hour * HOUR for hour in range(9, 18)],
    "0,30 3,10,18 * * *": [hour * HOUR + half for hour in (3, 10, 18) for half in (0, 30 * MINUTE)],
    "15 0,12 * * *": [15 * MINUTE, 12 * HOUR + 15 * MINUTE],
}


@pytest.mark.parametrize("zone", ["Europe/London", "Europe/Athens", "Asia/Kolkata"])
@pytest.mark.parametrize("hours", [2, 7, 16.4])
def test_jobs_of_several_times_a_day_run_once_for_each(patch: pytest.MonkeyPatch, zone: str, hours: float) -> None:
    world = World(shards=1, limits=SMALL)
    world.start()
    start = world.clock.now()
    jobs = {_job(world, cron): cron for cron in CRONS}
    world.run(hours * 3600, step_s=300)
    zone_data.install(patch, "2030a", Paris=zone)
    world.start()
    world.run(26 * 3600, step_s=240)
    for job, cron in jobs.items():
        (at,) = _changed_at(world, job)
        expected = _expected(CRONS[cron], [(at, zone)], start, world.clock.now())
        assert _times(world, job) == expected, cron


@pytest.mark.parametrize("between", [0, 300])
@pytest.mark.parametrize(
    "zones", [("Europe/Athens", PARIS), ("Asia/Kolkata", "Europe/London"), ("Europe/London", PARIS)]
)
@pytest.mark.parametrize("hours", [7.9])
def test_a_second_change_before_the_first_is_over(
    patch: pytest.MonkeyPatch, zones: tuple[str, str], between: int, hours: float
) -> None:
    world = World(shards=1, limits=SMALL)
    world.start()
    start = world.clock.now()
    jobs = {_job(world, cron): cron for cron in CRONS}
    world.run(hours * 3600, step_s=300)
    zone_data.install(patch, "2030a", Paris=zones[0])
    world.start()
    world.run(between, step_s=30)
    zone_data.install(patch, "2030b", Paris=zones[1])
    world.start()
    world.run(26 * 3600, step_s=240)
    for job, cron in jobs.items():
        changes = list(zip(_changed_at(world, job), zones, strict=True))
        expected = _expected(CRONS[cron], changes, start, world.clock.now())
        assert _times(world, job) == expected, cron


def _skips(world: World, job_id: str) -> list[tuple[Micros, Micros, str]]:
    events = [CODEC.decode_event(record.value) for record in world.log.all(EVENTS)]
    return [
        (e.head.scheduled_for, e.skipped_upto or e.head.scheduled_for, e.reason or "")
        for e in events
        if e.state == "SKIPPED" and e.head.job_id == job_id
    ]


def _complaints(times: list[Micros], skips: list[tuple[Micros, Micros, str]], expected: list[Micros]) -> list[str]:
    """Say which occurrences are neither run nor told, run twice, or run and told to be skipped."""
    said = []
    if len(times) != len(set(times)):
        said.append("one ran twice")
    for at in expected:
        told = [skip for skip in skips if skip[0] <= at <= skip[1]]
        if at not in times and not told:
            said.append(f"{format_rfc3339(at)} is lost")
        if at in times and told:
            said.append(f"{format_rfc3339(at)} ran, and is told to be skipped: {told}")
    said += [f"{format_rfc3339(at)} is nobody's" for at in times if at not in expected]
    return said


@pytest.mark.parametrize("zone", ["Europe/London", "Europe/Athens", "Asia/Kolkata"])
@pytest.mark.parametrize(
    "catch_up", [None, {"catch_up": "fire_all", "on_resume": "catch_up"}, {"on_resume": "catch_up"}]
)
@pytest.mark.parametrize("paused_h", [0.05, 1.2, 4])
def test_what_a_pause_holds_back_is_told_or_run_once(
    patch: pytest.MonkeyPatch, zone: str, catch_up: dict[str, object] | None, paused_h: float
) -> None:
    world = World(shards=1, limits=SMALL)
    world.start()
    start = world.clock.now()
    jobs = {_job(world, cron, catch_up=catch_up): cron for cron in CRONS}
    world.run(8.3 * 3600, step_s=300)
    for job in jobs:
        world.order("pause", job)
    world.run(600, step_s=60)
    zone_data.install(patch, "2030a", Paris=zone)
    world.start()
    world.run(paused_h * 3600, step_s=240)
    for job in jobs:
        world.order("resume", job)
    world.run(25 * 3600, step_s=240)
    for job, cron in jobs.items():
        (at,) = _changed_at(world, job)
        expected = _expected(CRONS[cron], [(at, zone)], start, world.clock.now())
        assert _complaints(_times(world, job), _skips(world, job), expected) == [], cron


@pytest.mark.parametrize("zone", ["Europe/London", "Europe/Athens", "Asia/Kolkata"])
def test_a_backlog_is_not_run_ahead_of_time(patch: pytest.MonkeyPatch, zone: str) -> None:
    world = World(shards=1, limits=SMALL)
    world.start()
    start = world.clock.now()
    catch_up = {"catch_up": "fire_all", "on_resume": "catch_up"}
    jobs = {_job(world, cron, catch_up=catch_up, concurrency="skip_if_running"): cron for cron in CRONS}
    world.run(1_800, step_s=300)
    for job in jobs:
        world.order("pause", job)
    world.run(16.2 * 3600, step_s=300)
    for job in jobs:
        world.order("resume", job)
    world.run(3, step_s=1)
    zone_data.install(patch, "2030a", Paris=zone)
    world.start()
    ended: set[str] = set()
    end = world.clock.now() + 25 * HOUR
    while world.clock.now() < end:
        world.run(120, step_s=120)
        for execution in world.executions():
            head = execution.head
            if head.execution_id not in ended:
                ended.add(head.execution_id)
                assert head.scheduled_for <= world.clock.now(), "ahead of time"
                world.report(execution)
    for job, cron in jobs.items():
        (at,) = _changed_at(world, job)
        expected = _expected(CRONS[cron], [(at, zone)], start, world.clock.now())
        assert _complaints(_times(world, job), _skips(world, job), expected) == [], cron


def _catch_up(world: World) -> None:
    """Let owners decide all that was due."""
    for _ in range(2_000):
        world.settle(6)
        world.clock.advance(5)
        if all(engine.state.cursor.run_at >= world.clock.now() - 2 * MINUTE for engine in world.engines.values()):
            return
    raise AssertionError("a shard stands still")


@pytest.mark.parametrize("zone", ["Europe/London", "Europe/Athens", "Asia/Kolkata"])
@pytest.mark.parametrize("seed", range(2))
def test_whoever_takes_over_and_however_late_none_is_lost_or_run_twice(
    patch: pytest.MonkeyPatch, zone: str, seed: int
) -> None:
    chance = random.Random(seed)
    world = World(shards=1, limits=SMALL)
    world.start()
    start = world.clock.now()
    jobs = {_job(world, cron): cron for cron in CRONS}
    world.run(chance.uniform(2, 17) * 3600, step_s=300)
    zone_data.install(patch, "2030a", Paris=zone)
    world.start()
    end = world.clock.now() + 26 * HOUR
    while world.clock.now() < end:
        world.clock.advance(chance.choice([1, 20, 200, 900, 4_000]))
        if chance.random() < 0.15:
            world.start(aware=chance.random() < 0.5)
        world.store.held = chance.random() < 0.2
        world.loop._jobs_log.held = chance.random() < 0.3
        world.settle(chance.randrange(8))
    world.store.held = world.loop._jobs_log.held = False
    _catch_up(world)
    for job, cron in jobs.items():
        (at,) = _changed_at(world, job)
        expected = _expected(CRONS[cron], [(at, zone)], start, world.clock.now())
        said = _complaints(_times(world, job), _skips(world, job), expected)
        stray = [one for one in said if "nobody's" in one]
        lost = [one for one in said if "is lost" in one]
        # One that could not be moved in time runs at its old time, once.
        assert not said or (len(stray), len(lost), len(said)) == (1, 1, 2), (cron, said)


@pytest.mark.parametrize("zone", ["Europe/London", "Europe/Athens", "Asia/Kolkata"])
@pytest.mark.parametrize("hours", [2, 7.3, 16.4])
def test_windows_ends_calendars_and_h_keep_their_meaning(patch: pytest.MonkeyPatch, zone: str, hours: float) -> None:
    world = World(shards=1, limits=SMALL)
    world.start()
    start = world.clock.now()
    cron = "0 9-17 * * *"
    end_at, excluded = start // DAY * DAY + 16 * HOUR + 30 * MINUTE, start // DAY * DAY + DAY
    spread = _job(world, cron, spread_s=1_200)
    ends = _job(world, cron, end_at=format_rfc3339(end_at))
    begins = _job(world, cron, start_at=format_rfc3339(end_at))
    off = _job(world, cron, calendar={"exclude": [format_rfc3339(excluded)[:10]], "on_excluded": "skip"})
    hashed = _job(world, "H 9-17 * * *")
    plain = [world.recur({"every_s": 1_800}, concurrency="allow"), world.create(at=start + 20 * HOUR)]
    world.run(hours * 3600, step_s=240)
    jobs = {job: CODEC.decode_job(world.tables.jobs[job].snapshot) for job in (spread, hashed, *plain)}
    offset = plan_of(plan_text(jobs[spread].definition, spread, jobs[spread].created_at)).offset
    zone_data.install(patch, "2030a", Paris=zone)
    world.start()
    world.run(26 * 3600, step_s=240)
    (at,) = _changed_at(world, spread)
    now = world.clock.now()

    def expected(minute: Micros = 0) -> list[Micros]:
        walls = [hour * HOUR + minute for hour in range(9, 18)]
        return _expected(walls, [(at, zone)], start, now)

    # It is nine in Paris as this starts.
    assert _times(world, spread) == [time + offset for time in [start, *expected()] if time + offset <= now]
    assert _times(world, ends) == [time for time in expected() if time <= end_at]
    assert _times(world, begins) == [time for time in expected() if time >= end_at]
    away = [time for time in expected() if (time + OFFSETS[zone if time >= at else PARIS]) // DAY * DAY != excluded]
    assert _times(world, off) == away
    minute = jobs[hashed].entry.scheduled_for % HOUR  # before the change Paris is whole hours ahead
    assert _times(world, hashed) == expected(minute)
    assert _times(world, plain[0]) == list(range(start + 30 * MINUTE, now + 1, 30 * MINUTE))
    assert _times(world, plain[1]) == [start + 20 * HOUR]
    versions = {job: CODEC.decode_job(world.tables.jobs[job].snapshot).version for job in plain}
    assert versions[plain[0]] == jobs[plain[0]].version, "what has no zone is not touched"


def test_a_choice_by_name_is_kept_until_its_row_has_moved(patch: pytest.MonkeyPatch) -> None:
    world = World(shards=1, limits=replace(SMALL, fires_max=2))
    world.start()
    jobs = [_job(world, "0 11,12 * * *") for _ in range(8)]
    world.run(1.5 * 3600, step_s=240)
    world.clock.advance(2 * 3600)
    while not world.fired():
        world.loop.turn()
    behind = world.engines[0].state
    assert behind.named and behind.cursor.run_at < world.clock.now() - HOUR
    zone_data.install(patch, "2030a", Paris="Europe/Athens")
    world.start()
    world.loop._jobs_log.held = True
    _catch_up(world)
    world.run(120, step_s=10)
    world.loop._jobs_log.held = False
    world.run(120, step_s=10)
    now = world.clock.now()
    rows = [row for bucket in world.tables.index.values() for row in bucket.values() if row.run_at > now]
    assert sorted((row.job_id, row.run_at % DAY) for row in rows) == [(job, 9 * HOUR) for job in sorted(jobs)]
    assert not world.engines[0].state.named


def test_a_choice_by_name_that_has_run_hides_nothing_of_the_change(patch: pytest.MonkeyPatch) -> None:
    world = World(shards=1, limits=SMALL)
    world.start()
    job = _job(world, "0 8-20 * * *")
    zone_data.install(patch, "2029z", London="Europe/Athens")
    world.start()
    world.loop._jobs_log.held = True  # while what is filed moves, names are kept
    world.run(0.5 * 3600, step_s=240)
    world.clock.advance(1.75 * 3600)
    world.settle()
    world.run(3600, step_s=20)
    name = world.engines[0].state.named[job]
    assert name.scheduled_for in _times(world, job), "the occurrence that was named has run"
    zone_data.install(patch, "2030a", Paris="Europe/Athens")
    world.start()
    world.run(3600, step_s=20)
    _, at = _changed_at(world, job)
    following = name.scheduled_for + HOUR
    assert name.scheduled_for < at < following, "the clock passes over an hour's time"
    # That is run as the clock goes on; where the next was by the old one, is the one after it by the new.
    assert _times(world, job)[-3:] == [name.scheduled_for, at, following]


PATIENCE: dict[str, tuple[dict[str, object], list[int], list[int]]] = {
    "patient": ({"misfire_after_s": 8 * 3_600}, [0], [0]),
    "fire-once": ({}, [0], [0]),
    "fire-all": ({"catch_up": "fire_all"}, [0], [0, 1]),
    "skip": ({"catch_up": "skip"}, [], []),
    "grace": ({"catch_up": "skip", "grace_s": 7_200}, [0], []),
}
"""By policy: which of two times run, where the first has passed, and where both have."""


@pytest.mark.parametrize("both", [False, True], ids=["one-passes", "both-pass"])
@pytest.mark.parametrize("policy", PATIENCE)
def test_a_row_that_is_held_past_its_new_time_is_decided_by_that_one(
    patch: pytest.MonkeyPatch, policy: str, both: bool
) -> None:
    catch_up, *runs = PATIENCE[policy]
    world = World(shards=1, limits=SMALL)
    world.start()
    day = world.clock.now() // DAY * DAY
    job = _job(world, "30 10,16 * * *", catch_up=catch_up)
    was, *times = [day + hour * HOUR + HOUR // 2 for hour in (9, 10, 16)]  # by Paris, and by London
    world.run(60, step_s=20)
    zone_data.install(patch, "2030a", Paris="Europe/London")
    world.start()
    world.loop._jobs_log.held = True
    world.run(80 * 60, step_s=60)
    patch.setattr(world.store, "begin_job_read", lambda *_: None)  # as if its row alone could not be read
    world.order("resume", job)  # The job is not in memory, so this is parked, and what is due of it is held.
    while world.clock.now() < times[both] + HOUR:
        world.run(300, step_s=60)
    assert world.engines[0].state.cursor.run_at > times[both]
    assert (_times(world, job), _skips(world, job)) == ([], [])
    world.start()
    world.run(10, step_s=1)
    assert not world.engines[0].state.parked
    world.start()
    passed = times[: 1 + both]
    assert _times(world, job) == [times[n] for n in runs[both]]
    assert _skips(world, job)[0] == (was, was, "moved")
    assert _complaints(_times(world, job), _skips(world, job), passed) == []
    while world.clock.now() < times[0] + DAY - HOUR:
        world.run(300, step_s=300)
    world.run(2 * 3_600, step_s=60)
    expected = [*times, times[0] + DAY]
    assert _complaints(_times(world, job), _skips(world, job), expected) == []
    assert _times(world, job)[-1] == expected[-1]
