"""Zone data that change under what is filed: everything runs once, at its new time where that is still to come."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.unit import zone_data
from tests.unit.trigger.test_index_rebuild import SMALL
from tests.unit.trigger.world import CODEC, World
from tocsin.domain.commands import Command
from tocsin.domain.instants import DAY, MINUTE, Micros
from tocsin.domain.recurrence import TZDATA_VERSION
from tocsin.domain.shard_records import MOVE_FILED
from tocsin.domain.sharding import shard_of
from tocsin.engine.ring import is_delta_key
from tocsin.engine.zone_rules import ERA, TABLES
from tocsin.ports.shard_log import EVENTS
from tocsin.roles.zone_moves import ZoneMoves

HOUR = 60 * MINUTE
PARIS = "Europe/Paris"
OFFSETS = {"Europe/London": 0, PARIS: HOUR, "Europe/Athens": 2 * HOUR, "Asia/Tokyo": 9 * HOUR}
"""In January, in which these tests play."""


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch
    zone_data.forget()


def _daily(world: World, hour: int, minute: int, **schedule: object) -> str:
    cron = {"cron": f"{minute} {hour} * * *", "timezone": PARIS, **schedule}
    return world.recur(cron, concurrency="allow")


def _changed_at(world: World, job_id: str) -> Micros:
    """When the new data began to count for a job's shard."""
    work = world.engines[shard_of(job_id, world.shards)].state.work.values()
    (at,) = [json.loads(item.data)["at"] for item in work if item.kind == ERA]
    return at


def _times(world: World, job_id: str) -> list[Micros]:
    return [e.head.scheduled_for for e in world.executions() if e.head.job_id == job_id]


def _expected(hour: int, minute: int, at: Micros, zone: str, start: Micros, end: Micros) -> list[Micros]:
    """When a daily job runs: by Paris before an instant, by another zone from it on, each wall time once."""
    found = set()
    for day in range(start // DAY - 2, end // DAY + 2):
        wall = day * DAY + hour * HOUR + minute * MINUTE
        before, after = wall - OFFSETS[PARIS], wall - OFFSETS[zone]
        if before < at:
            found.add(before)
        else:
            found.add(max(after, at))
    return sorted(time for time in found if start < time <= end)


def _moves(world: World) -> dict[str, int]:
    scans = [json.loads(i.data) for e in world.engines.values() for i in e.state.work.values() if i.kind == MOVE_FILED]
    assert all(scan["done"] for scan in scans)
    return {name: sum(scan[name] for scan in scans) for name in ("looked", "moved", "damaged")}


@pytest.mark.parametrize("zone", ["Europe/London", "Europe/Athens", "Asia/Tokyo"])
@pytest.mark.parametrize("storm", [None, 0, 1])
def test_every_occurrence_runs_once_and_at_its_new_time(
    patch: pytest.MonkeyPatch, zone: str, storm: int | None
) -> None:
    world = World(limits=SMALL)
    world.start()
    start = world.clock.now()
    jobs = {_daily(world, hour, minute): (hour, minute) for hour in range(24) for minute in (20,)}
    world.run(5 * 3600, step_s=300)
    zone_data.install(patch, "2030a", Paris=zone)
    world.start()
    if storm is None:
        world.run(31 * 3600, step_s=240)
    else:
        chance = random.Random(storm)
        end = world.clock.now() + 31 * HOUR
        while world.clock.now() < end:
            world.clock.advance(chance.choice([1, 20, 200, 900]))
            if chance.random() < 0.15:
                world.start(aware=chance.random() < 0.5)
            world.store.held = chance.random() < 0.1
            world.settle(chance.randrange(8))
        world.store.held = False
        world.run(300, step_s=20)
    for job, (hour, minute) in jobs.items():
        at = _changed_at(world, job)
        expected = _expected(hour, minute, at, zone, start, world.clock.now())
        times = sorted(_times(world, job))
        if storm is not None and times != expected:
            # Its shard had no owner for so long that the new time was over: it runs at the old one, and not twice.
            was = min(time for time in _expected(hour, minute, start + 90 * DAY, zone, at - 1, at + DAY))
            moved = expected.index(next(time for time in expected if time >= at))
            assert was > expected[moved]
            expected[moved] = was
        assert times == expected, (hour, minute)
    assert _moves(world)["moved"] > 15


def _settle_change(world: World) -> None:
    world.run(120, step_s=5)


def test_the_first_owner_writes_its_data_down_and_moves_nothing() -> None:
    world = World()
    world.start()
    kept = [json.loads(engine.state.work[TABLES].data) for engine in world.engines.values()]
    assert {data["release"] for data in kept} == {TZDATA_VERSION}
    world.start()
    world.run(20)
    assert not any(item.kind in (ERA, MOVE_FILED) for e in world.engines.values() for item in e.state.work.values())


def test_a_release_that_changes_no_zone_in_the_future_moves_nothing(patch: pytest.MonkeyPatch) -> None:
    world = World()
    world.start()
    job = _daily(world, 20, 0)
    world.run(10)
    zone_data.install(patch, "2030a")
    world.start()
    _settle_change(world)
    assert {json.loads(e.state.work[TABLES].data)["release"] for e in world.engines.values()} == {"2030a"}
    assert not any(item.kind == ERA for e in world.engines.values() for item in e.state.work.values())
    assert CODEC.decode_job(world.tables.jobs[job].snapshot).entry.scheduled_for % DAY == 19 * HOUR


def test_moved_jobs_say_so_and_their_old_rows_are_gone(patch: pytest.MonkeyPatch) -> None:
    world = World(shards=1)
    world.start()
    moved = _daily(world, 20, 0)
    others = [world.recur({"cron": "0 20 * * *", "timezone": "UTC"}), world.recur({"every_s": 3_600})]
    world.run(10)
    before = {job: world.tables.jobs[job].version for job in (moved, *others)}
    zone_data.install(patch, "2030a", Paris="Europe/Athens")
    world.start()
    _settle_change(world)
    job = CODEC.decode_job(world.tables.jobs[moved].snapshot)
    assert job.version > before[moved]
    assert job.entry.scheduled_for % DAY == 18 * HOUR
    rows = [e for bucket in world.tables.index.values() for e in bucket.values() if e.job_id == moved]
    assert [e.key for e in rows] == [job.entry]
    assert all(world.tables.jobs[other].version == before[other] for other in others)
    assert _moves(world) == {"looked": 3, "moved": 1, "damaged": 0}
    alerts = [CODEC.decode_alert(record.value) for record in world.log.all("alerts")]
    assert [(alert.kind, alert.job_id) for alert in alerts] == [("moved", moved), ("moved", None)]
    assert "T18:00:00Z instead of" in alerts[0].message
    assert "1 of 3 jobs" in alerts[1].message


def test_the_state_says_what_it_came_to_where_a_command_asks(patch: pytest.MonkeyPatch) -> None:
    world = World(shards=1)
    world.start()
    _daily(world, 20, 0)
    world.run(10)
    zone_data.install(patch, "2030a", Paris="Europe/Athens")
    world.send(Command("set_zone_data", "tz", reply_partition=0, zone_data="2030a"), 0)
    world.start()
    _settle_change(world)
    assert world.outcomes()["tz"].detail == "agreed"
    watch = ZoneMoves({0: "tz"})
    for record in world.log.all("shard-state"):
        if is_delta_key(record.key.decode()):
            watch.take(0, CODEC.decode_delta(record.value))
    assert watch.is_over
    shard = watch.shards[0]
    assert (shard.looked, shard.moved, shard.former) == (1, 1, TZDATA_VERSION)
    assert [(was % DAY, now % DAY) for _, was, now in watch.moves] == [(19 * HOUR, 18 * HOUR)]


@pytest.mark.parametrize("seed", range(3))
def test_edits_pauses_and_deletes_meanwhile_leave_one_row_or_none(patch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    world = World(limits=SMALL)
    world.start()
    jobs = [_daily(world, hour, 30) for hour in range(24)]
    world.run(3_600, step_s=300)
    deleted: set[str] = set()
    for n, zone in enumerate(["Europe/London", "Asia/Tokyo", PARIS]):
        zone_data.install(patch, f"203{n}a", Paris=zone)
        world.start(aware=chance.random() < 0.5)
        for _ in range(40):
            deed = chance.random()
            job = chance.choice(jobs)
            if deed < 0.15:
                world.start(aware=chance.random() < 0.5)
            elif deed < 0.3:
                world.store.held = not world.store.held
            elif deed < 0.5:
                world.order(chance.choice(["pause", "resume"]), job)
            elif deed < 0.6:
                cron = {"cron": f"30 {jobs.index(job)} * * *", "timezone": PARIS}
                target = {"type": "http", "url": f"https://other.test/{chance.random()}"}
                world.order("update", job, definition={"schedule": cron, "target": target, "concurrency": "allow"})
            elif deed < 0.63:
                world.delete(job)
                deleted.add(job)
            else:
                world.clock.advance(chance.choice([1, 30, 400, 2_000]))
            world.settle(chance.randrange(4))
    world.store.held = False
    world.run(600, step_s=5)
    ids = [execution.head.execution_id for execution in world.executions()]
    assert len(ids) == len(set(ids))
    counts = {job: len(_times(world, job)) for job in deleted}
    world.run(3 * 86_400, step_s=900)
    assert {job: len(_times(world, job)) for job in deleted} == counts, "what was deleted never fires"
    for job in set(jobs) - deleted:
        times = _times(world, job)
        assert len(times) == len(set(times))
        if CODEC.decode_job(world.tables.jobs[job].snapshot).state == "ACTIVE":
            assert [b - a for a, b in pairwise(times[-2:])] == [DAY], "one chain goes on"


def test_old_data_are_forgotten_once_nothing_can_ask_for_them(patch: pytest.MonkeyPatch) -> None:
    world = World(shards=1)
    world.start()
    _daily(world, 20, 0)
    world.run(10)
    zone_data.install(patch, "2030a", Paris="Europe/Athens")
    world.start()
    world.run(2 * 86_400, step_s=900)
    (engine,) = world.engines.values()
    assert engine._zones.changing
    world.run(2 * 86_400, step_s=900)
    assert not engine._zones.changing
    assert [item.kind for item in engine.state.work.values()] == [TABLES]


def test_a_row_that_comes_due_before_it_is_moved_gives_way_to_its_new_time(patch: pytest.MonkeyPatch) -> None:
    world = World(shards=1)
    world.start()
    job = _daily(world, 10, 30)  # 09:30 UTC by Paris, 10:30 by London
    world.run(10)
    zone_data.install(patch, "2030a", Paris="Europe/London")
    world.start()
    world.loop._jobs_log.held = True
    world.run(3 * 3_600, step_s=30)
    assert [time % DAY for time in _times(world, job)] == [10.5 * HOUR]
    reasons = [CODEC.decode_event(record.value).reason for record in world.log.all(EVENTS)]
    assert "moved" in reasons
