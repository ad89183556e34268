"""What history lacks is found, and what only looks as if it were missing is not."""

from __future__ import annotations

import random

import pytest

from tests.unit.reconciler.house import House, names, past_the_minute
from tests.unit.trigger.world import CODEC
from tocsin.domain.errors import Unavailable
from tocsin.domain.instants import MINUTE, SECOND, format_rfc3339
from tocsin.domain.sharding import shard_of
from tocsin.domain.timers import is_timer
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import executions

EVERY_20_S = {"every_s": 20}


def test_a_decided_occurrence_without_a_run_is_found() -> None:
    house = House()
    jobs = [house.world.create(in_s=n + 1) for n in range(20)]
    ticking = house.world.recur(EVERY_20_S, concurrency="allow")
    past_the_minute(house)
    past_the_minute(house)
    assert house.reconcile().missing == ()
    lost = house.forget(jobs[7])
    tick = house.forget(ticking)
    found = house.reconcile()
    assert sorted(names(found.missing)) == sorted([lost, tick])
    [one] = [one for one in found.missing if one.execution_id == lost]
    assert (one.shard, one.tenant_id, one.key.job_id) == (shard_of(jobs[7], 2), "default", jobs[7])
    assert found.rows >= 23 and found.unreadable == 0
    assert house.reconcile([1 - one.shard]).missing == tuple(m for m in found.missing if m.shard != one.shard)


def test_a_minute_that_is_not_closed_is_not_judged() -> None:
    house = House()
    job = house.world.create(in_s=1)
    house.run(3)
    house.forget(job)
    assert house.reconcile().missing == ()
    past_the_minute(house)
    assert len(house.reconcile().missing) == 1


def test_without_a_projector_nothing_is_said() -> None:
    house = House()
    house.world.create(in_s=1)
    house.projector.stopped = True
    past_the_minute(house)
    with pytest.raises(Unavailable, match="projector"):
        house.reconcile()


def test_a_projector_that_is_behind_is_waited_for() -> None:
    house = House()
    house.world.create(in_s=1)
    house.projector.stopped = True
    past_the_minute(house)
    house.projector.stopped = False
    assert house.reconcile().missing == ()


def test_what_was_paused_deleted_or_edited_before_it_was_due_is_not_missing() -> None:
    house = House()
    paused, deleted, edited = (house.world.create(in_s=30) for _ in range(3))
    moved = house.world.recur(EVERY_20_S)
    house.run(5)
    house.world.order("pause", paused)
    house.world.order("delete", deleted)
    later = {"target": {"type": "http", "url": "https://example.test/run"}}
    at = format_rfc3339(house.world.clock.now() // SECOND * SECOND + 40 * SECOND)
    house.world.order("update", edited, definition={"run_at": at, **later})
    house.world.order("update", moved, definition={"schedule": {"every_s": 45}, **later})
    past_the_minute(house)
    past_the_minute(house)
    found = house.reconcile()
    assert found.missing == () and found.rows >= 2


def test_a_row_that_a_replaced_version_left_behind_is_not_missing() -> None:
    """As a row filed under other zone data could be, whose key nobody can work out any more."""
    house = House()
    job = house.world.create(in_s=90)
    house.run(5)
    [(place, left)] = [(p, e) for p, rows in house.world.tables.index.items() for e in rows.values() if e.job_id == job]
    target = {"type": "http", "url": "https://example.test/run"}
    at = format_rfc3339(house.world.clock.now() // SECOND * SECOND + 400 * SECOND)
    house.world.order("update", job, definition={"run_at": at, "target": target})
    house.run(5)
    house.world.tables.index[place][left.key] = left
    for _ in range(3):
        past_the_minute(house)
    assert house.reconcile().missing == ()
    house.world.tables.index[place][left.key] = left._replace(version=left.version + 1_000)
    assert len(house.reconcile().missing) == 1, "one of the present version is"


def test_what_catch_up_skipped_is_not_missing() -> None:
    house = House()
    once = house.world.recur(EVERY_20_S, concurrency="allow")
    skips = house.world.recur(EVERY_20_S, catch_up="skip")
    past_the_minute(house)
    house.world.shard_log.lose(range(2))
    house.world.clock.advance(900)
    house.world.start()
    for _ in range(2):
        past_the_minute(house)
    assert any(upto - first > 600 * SECOND for first, upto in house.world.skipped())
    assert house.reconcile().missing == ()
    start, upto = max(house.world.skipped(), key=lambda span: span[1] - span[0])
    assert upto > start
    # A row within a range, as a crash leaves it between filing a successor and its fire.
    for job in (once, skips):
        found = [(p, e) for p, rows in house.world.tables.index.items() for e in rows.values() if e.job_id == job]
        (_, shard), entry = min(found, key=lambda one: one[1].run_at)
        at = start + 40 * SECOND
        inside = entry._replace(
            run_at=at, scheduled_for=at, execution_id=f"{entry.execution_id.rsplit('.', 1)[0]}.{at}"
        )
        head = CODEC.decode_head(entry.execution)._replace(
            execution_id=inside.execution_id, scheduled_for=at, due_at=at
        )
        inside = inside._replace(execution=CODEC.rehead(entry.execution, head))
        house.world.tables.index.setdefault((at // MINUTE, shard), {})[inside.key] = inside
    assert house.reconcile().missing == ()


def test_what_is_caught_up_with_later_is_in_motion_until_it_has_run() -> None:
    house = House()
    job = house.world.recur(EVERY_20_S, catch_up="fire_all", max_catch_up=50)
    past_the_minute(house)
    house.world.shard_log.lose(range(2))
    house.world.clock.advance(300)
    house.world.start()
    past_the_minute(house)
    found = house.reconcile()
    assert found.missing == () and found.open
    while any(work.job_id == job for engine in house.world.engines.values() for work in engine.state.work.values()):
        for execution in house.world.executions():
            house.world.report(execution)
        house.run(5)
    past_the_minute(house)
    found = house.reconcile()
    assert found.missing == () and not found.open


def test_what_waits_for_a_missing_lane_is_in_motion() -> None:
    house = House()
    house.world.create(in_s=5)
    house.world.log.missing.add(executions("default"))
    past_the_minute(house)
    found = house.reconcile()
    assert found.missing == () and len(found.open) == 1


def test_what_is_committed_and_not_taken_by_the_store_is_not_certain() -> None:
    """The row of a job that was deleted just before it was due stands until the store takes its deletion."""
    house = House()
    job = house.world.create(in_s=30)
    house.run(5)
    house.world.store.held = True
    house.world.order("delete", job)
    house.world.settle()
    house.world.store.release()  # the read of the job's row; what is written from now on waits
    past_the_minute(house)
    found = house.reconcile()
    assert found.missing == () and found.stood == (shard_of(job, 2),)
    house.world.store.held = False
    found = house.reconcile()
    assert (found.missing, found.stood) == ((), ())


def test_a_shard_without_an_owner_is_told_as_such() -> None:
    house = House()
    job = house.world.create(in_s=1)
    past_the_minute(house)
    house.forget(job)
    house.owned = False
    found = house.reconcile()
    assert (found.missing, found.stood) == ((), (shard_of(job, 2),))


def test_timers_are_no_occurrences() -> None:
    house = House()
    job = house.world.recur(EVERY_20_S)
    house.run(5)
    until = house.world.clock.now() // SECOND * SECOND + 70 * SECOND
    house.world.order("pause", job, until=format_rfc3339(until))
    house.run(5)
    timers = [e for rows in house.world.tables.index.values() for e in rows.values() if is_timer(e)]
    assert [timer.job_id for timer in timers] == [job]
    for _ in range(3):
        past_the_minute(house)
    found = house.reconcile()
    assert (found.missing, found.unreadable) == ((), 0) and found.rows


def test_damaged_rows_are_counted_and_not_missed() -> None:
    house = House()
    job = house.world.create(in_s=150)
    house.run(5)
    [(place, row)] = [(p, e) for p, rows in house.world.tables.index.items() for e in rows.values() if e.job_id == job]
    house.world.tables.index[place][row.key] = row._replace(execution=b"?" * 40)
    for _ in range(4):
        past_the_minute(house)
    assert house.world.dead_letters() == ["entry"]
    found = house.reconcile()
    assert (found.missing, found.unreadable) == ((), 1)


@pytest.mark.parametrize("seed", range(3))
def test_a_busy_system_shows_nothing_and_each_lost_run_is_found(seed: int) -> None:
    chance = random.Random(seed)
    house = House(EngineLimits(fires_max=5, commands_max=6, cursor_persist_s=2.0, ring=32))
    jobs: list[str] = []
    for n in range(8):
        house.world.recur({"every_s": 11 + n}, concurrency="allow")
    for _ in range(60):
        kind = chance.choice(["create", "create", "recur", "pause", "resume", "delete", "trigger", "crash"])
        if kind == "create":
            jobs.append(house.world.create(in_s=chance.uniform(0, 90)))
        elif kind == "recur":
            policy = chance.choice(["allow", "skip_if_running"])
            jobs.append(house.world.recur({"every_s": chance.randint(7, 40)}, concurrency=policy))
        elif kind == "crash":
            house.world.start()
        elif jobs:
            house.world.order(kind, chance.choice(jobs))
        house.run(chance.uniform(0, 8))
    house.meddles_s = 1.0
    found = house.reconcile()
    assert found.missing == () and found.rows > 60
    house.meddles_s = 0.0
    fired = sorted({row.execution_id for rows in house.world.tables.index.values() for row in rows.values()})
    closed = [name for name in fired if int(name.rsplit(".", 1)[1]) < house.world.clock.now() - 120 * SECOND]
    lost = chance.sample(closed, 5)
    for place in [place for place in house.views._runs if place[2] in lost]:
        del house.views._runs[place]
    assert sorted(names(house.reconcile().missing)) == sorted(lost)
