"""Recurring jobs through the real loop: each occurrence once, late ones as promised, edits that never fire."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.unit.trigger.world import CODEC, World
from tocsin.domain.executions import ExecutionEvent
from tocsin.domain.instants import DAY, MINUTE, SECOND
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import EVENTS

EVERY_MINUTE = {"cron": "* * * * *", "timezone": "UTC"}


@pytest.fixture
def world() -> World:
    world = World()
    world.clock.set(1_800_000_000 * SECOND)  # 08:00:00 UTC
    world.start()
    return world


def _nominal(world: World, job: str) -> list[int]:
    """Nominal seconds after the start at which a job was dispatched."""
    return [
        (e.head.scheduled_for - 1_800_000_000 * SECOND) // SECOND for e in world.executions() if e.head.job_id == job
    ]


def _events(world: World, state: str) -> list[ExecutionEvent]:
    events = [CODEC.decode_event(record.value) for record in world.log.all(EVENTS)]
    return [event for event in events if event.state == state]


def _succeed_all(world: World) -> None:
    done = {event.head.execution_id for event in _events(world, "SUCCEEDED")}
    for execution in world.executions():
        if execution.head.execution_id not in done:
            world.report(execution)
    world.settle()


def test_every_occurrence_fires_once_at_its_time(world: World) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    world.run(601, step_s=1)
    assert _nominal(world, job) == [60 * n for n in range(1, 11)]
    for record, execution in zip(world.log.all("executions.default"), world.executions(), strict=True):
        assert 0 <= record.timestamp - execution.head.due_at <= SECOND


def test_an_interval_counts_from_its_anchor_or_its_creation(world: World) -> None:
    anchored = world.recur({"every_s": 90, "anchor_at": "2027-01-15T08:00:30Z"}, concurrency="allow")
    created = world.recur({"every_s": 45}, concurrency="allow")
    world.run(200, step_s=1)
    assert _nominal(world, anchored) == [30, 120]
    assert _nominal(world, created) == [45, 90, 135, 180]


def test_every_second_fires_every_second_even_in_large_steps(world: World) -> None:
    job = world.recur({"every_s": 1}, concurrency="allow")
    world.run(30, step_s=7)
    assert _nominal(world, job) == list(range(1, 31))


def test_bounded_turns_keep_the_order_of_many_fast_jobs() -> None:
    world = World(limits=EngineLimits(fires_max=3))
    world.clock.set(1_800_000_000 * SECOND)
    world.start()
    jobs = [world.recur({"every_s": 1 + n % 2}, concurrency="allow") for n in range(8)]
    world.run(12, step_s=5)
    world.settle(80)
    for n, job in enumerate(jobs):
        assert _nominal(world, job) == list(range(1 + n % 2, 13, 1 + n % 2))


@pytest.mark.parametrize("downtime_s", [101 * 60, 3 * 86_400])
def test_after_a_long_absence_one_late_run_stands_for_all_missed(world: World, downtime_s: int) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    world.run(61, step_s=1)
    world.clock.advance(downtime_s)
    world.start()
    world.settle(3_000)
    assert _nominal(world, job) == [60, 120], "exactly one late run, the oldest that was missed"
    world.run(120, step_s=1)
    late_minutes = (61 + downtime_s) // 60
    assert _nominal(world, job)[2:] == [60 * (late_minutes + 1), 60 * (late_minutes + 2)]
    [skipped] = _events(world, "SKIPPED")
    assert skipped.reason == "missed"
    assert skipped.skipped_count == late_minutes - 2
    assert (skipped.skipped_upto or 0) // SECOND - 1_800_000_000 == 60 * late_minutes


def test_a_short_absence_runs_each_occurrence(world: World) -> None:
    job = world.recur({"every_s": 10}, concurrency="allow")
    world.run(11, step_s=1)
    world.clock.advance(35)
    world.start()
    world.run(10, step_s=1)
    assert _nominal(world, job) == [10, 20, 30, 40, 50]


def test_a_takeover_at_any_moment_neither_repeats_nor_drops(world: World) -> None:
    job = world.recur({"every_s": 7}, concurrency="allow")
    for _ in range(60):
        world.run(5, step_s=1)
        world.store.lose()  # what was begun never arrives
        world.start()
    world.run(1)
    assert _nominal(world, job) == [7 * n for n in range(1, 302 // 7 + 1)]


def test_an_active_run_makes_the_next_ones_skip_with_the_reason(world: World) -> None:
    job = world.recur(EVERY_MINUTE)
    world.run(301, step_s=1)
    assert _nominal(world, job) == [60]
    skipped = _events(world, "SKIPPED")
    assert [(e.head.scheduled_for // SECOND - 1_800_000_000, e.reason) for e in skipped] == [
        (60 * n, "overlap") for n in range(2, 6)
    ]
    _succeed_all(world)
    world.run(60, step_s=1)
    assert _nominal(world, job) == [60, 360]


def test_a_deleted_job_never_fires_again(world: World) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    world.run(121, step_s=1)
    command = world.delete(job)
    world.run(1)
    world.start()
    world.run(600, step_s=5)
    assert _nominal(world, job) == [60, 120]
    assert world.outcomes()[command].detail == "prevented"
    assert all(not rows for (minute, _), rows in world.tables.index.items() if minute * MINUTE > world.clock.now())


def test_pausing_stops_and_resuming_goes_on_after_now(world: World) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    world.run(90, step_s=1)
    world.order("pause", job, reason="maintenance")
    world.run(230, step_s=1)
    assert _nominal(world, job) == [60]
    world.start()
    world.order("resume", job)
    world.run(50, step_s=1)
    assert _nominal(world, job) == [60, 360], "nothing for what passed while it was paused"


def test_pausing_and_resuming_twice_change_nothing(world: World) -> None:
    job = world.recur({"cron": "*/5 * * * *", "timezone": "UTC"}, concurrency="allow")
    world.run(1)
    resumed = world.order("resume", job)
    first = world.order("pause", job)
    second = world.order("pause", job)
    world.run(1)
    outcomes = world.outcomes()
    assert [outcomes[c].detail for c in (resumed, first, second)] == ["unchanged", "paused", "unchanged"]
    assert outcomes[first].version == outcomes[second].version


def test_an_update_of_the_target_alone_keeps_the_occurrence(world: World) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    world.run(59, step_s=1)
    target = {"type": "http", "url": "https://example.test/other"}
    world.order("update", job, definition={"schedule": EVERY_MINUTE, "target": target, "concurrency": "allow"})
    world.run(130, step_s=1)
    assert _nominal(world, job) == [60, 120, 180]
    assert {e.target.url for e in world.executions()} == {"https://example.test/other"}


def test_an_edit_never_fires_and_leaves_one_row(world: World) -> None:
    job = world.recur({"cron": "0 0 1 1 *", "timezone": "UTC"}, concurrency="allow")
    world.run(10, step_s=1)
    definition = {"schedule": EVERY_MINUTE, "target": {"type": "http", "url": "https://example.test/"}}
    world.order("update", job, definition=definition)
    world.run(1)
    assert _nominal(world, job) == []
    rows = [entry for rows in world.tables.index.values() for entry in rows.values()]
    assert len(rows) == 1
    world.run(60, step_s=1)
    assert _nominal(world, job) == [60]


def test_a_monthly_job_moved_to_a_day_that_passed_waits_for_next_month() -> None:
    def tenth_or(day: int) -> dict[str, str]:
        return {"cron": f"0 9 {day} * *", "timezone": "UTC"}

    world = World()
    world.clock.set(1_800_000_000 * SECOND - 6 * DAY)  # the 9th of January, 08:00
    world.start()
    job = world.recur(tenth_or(10), concurrency="allow")
    world.run(2 * 86_400, step_s=600)
    fired = len(set(_nominal(world, job)))
    assert fired == 1
    world.run(2.5 * 86_400, step_s=600)
    target = {"type": "http", "url": "https://example.test/run"}
    world.order("update", job, definition={"schedule": tenth_or(11), "target": target, "concurrency": "allow"})
    world.run(3 * 86_400, step_s=600)
    assert len(set(_nominal(world, job))) == 1
    world.run(27 * 86_400, step_s=600)
    assert len(set(_nominal(world, job))) == 2


def test_a_job_is_run_by_hand_under_its_own_policy(world: World) -> None:
    job = world.recur(EVERY_MINUTE)
    manual = world.create_manual()
    world.run(1)
    first = world.order("trigger", job)
    world.run(1)
    second = world.order("trigger", job)
    third = world.order("trigger", manual)
    world.run(1)
    outcomes = world.outcomes()
    assert [outcomes[c].detail for c in (first, second, third)] == ["triggered", "running", "triggered"]
    assert Counter(world.fired()) == {job: 1, manual: 1}
    execution_id = outcomes[first].execution_id
    assert execution_id is not None and execution_id in {e.head.execution_id for e in world.executions()}
    world.run(60, step_s=1)
    assert [e.reason for e in _events(world, "SKIPPED")] == ["overlap"], "one admission for every source of fires"


def test_the_same_key_and_body_give_one_job_and_another_body_a_conflict(world: World) -> None:
    def keyed(url: str) -> dict[str, object]:
        return {"delay_s": 100, "target": {"type": "http", "url": url}, "idempotency_key": "once"}

    ids = [world.create_keyed(keyed("https://example.test/a")) for _ in range(20)]
    other = world.create_keyed(keyed("https://example.test/b"))
    world.run(2)
    outcomes = world.outcomes()
    assert len({outcomes[command].job_id for command in ids}) == 1
    assert [outcomes[command].detail for command in ids] == ["created"] + ["existed"] * 19
    assert (outcomes[other].accepted, outcomes[other].detail) == (False, "conflict")
    world.run(120, step_s=1)
    assert len(world.fired()) == 1


def test_a_clients_own_id_belongs_to_its_tenant(world: World) -> None:
    definition = {"delay_s": 5, "target": {"type": "http", "url": "https://example.test/"}}
    created = world.order("create", "settle", definition=definition)
    again = world.order("create", "settle", definition={**definition, "name": "another"})
    theirs = world.order("create", "settle", definition=definition, tenant_id="acme")
    stolen = world.order("delete", "default@settle", tenant_id="acme")
    odd = world.order("create", "no such id!", definition=definition)
    world.run(1)
    outcomes = world.outcomes()
    assert [outcomes[c].detail for c in (created, again, theirs, stolen, odd)] == [
        "created", "conflict", "created", "invalid", "invalid",
    ]  # fmt: skip
    world.run(5)
    assert sorted(world.fired()) == ["acme@settle", "default@settle"]


def test_an_id_may_be_used_again_after_a_delete_and_inherits_nothing(world: World) -> None:
    definition = {"schedule": {"every_s": 15}, "target": {"type": "http", "url": "https://example.test/"}}
    world.order("create", "tick", definition={**definition, "concurrency": "allow"})
    world.run(31, step_s=1)
    world.order("delete", "tick")
    world.run(60, step_s=1)
    world.order("create", "tick", definition={**definition, "concurrency": "allow"})
    world.run(16, step_s=1)
    nominal = _nominal(world, "default@tick")
    assert len(nominal) == 3
    assert len({e.head.execution_id for e in world.executions()}) == 3


def test_a_command_at_the_wrong_shard_is_passed_on_once(world: World) -> None:
    definition = {"delay_s": 3, "target": {"type": "http", "url": "https://example.test/"}}
    for n in range(10):
        command = {"command_id": f"w{n}", "definition": definition}
        world.order_at(n % 2, "create", f"job{n}", **command)
    world.run(5)
    assert sorted(world.fired()) == sorted(f"default@job{n}" for n in range(10))
    outcomes = world.outcomes()
    assert all(outcomes[f"w{n}"].accepted for n in range(10))


def test_a_command_for_another_version_is_refused(world: World) -> None:
    job = world.recur(EVERY_MINUTE)
    world.run(1)
    version = world.outcomes()["c1"].version
    stale = world.order("pause", job, if_version=version + 1)
    right = world.order("pause", job, if_version=version)
    world.run(1)
    assert world.outcomes()[stale].detail == "stale_version"
    assert world.outcomes()[right].detail == "paused"


def test_a_fired_one_off_cannot_be_given_another_time(world: World) -> None:
    job = world.create(in_s=1)
    world.run(3)
    target = {"type": "http", "url": "https://example.test/run"}
    command = world.order("update", job, definition={"delay_s": 50, "target": target})
    world.run(100, step_s=1)
    assert world.outcomes()[command].detail == "finished"
    assert world.fired() == [job]


def test_a_paused_one_off_whose_time_passed_fires_late_when_resumed(world: World) -> None:
    job = world.create(in_s=30)
    world.run(1)
    world.order("pause", job)
    world.run(60, step_s=1)
    assert world.fired() == []
    world.order("resume", job)
    world.run(1)
    assert world.fired() == [job]
    assert world.executions()[0].head.scheduled_for == 1_800_000_030 * SECOND


def test_a_stepped_clock_repeats_and_skips_nothing(world: World) -> None:
    job = world.recur(EVERY_MINUTE, concurrency="allow")
    world.run(121, step_s=1)
    world.clock.advance(-300)
    world.run(100, step_s=1)
    assert _nominal(world, job) == [60, 120]
    world.run(320, step_s=1)
    assert _nominal(world, job) == [60, 120, 180, 240]


def test_a_key_may_come_with_the_id_that_follows_from_it_and_with_no_other(world: World) -> None:
    from tocsin.domain.ids import keyed_job_id

    definition = {"delay_s": 5, "target": {"type": "http", "url": "https://example.test/"}, "idempotency_key": "k"}
    right = world.order("create", keyed_job_id("default", "k"), definition=definition)
    wrong = world.order("create", "other", definition=definition)
    world.run(1)
    assert world.outcomes()[right].detail == "created"
    assert world.outcomes()[wrong].detail == "invalid"
    update = world.order("update", keyed_job_id("default", "k"), definition={**definition, "name": "renamed"})
    world.run(1)
    assert world.outcomes()[update].detail == "updated"


def test_a_job_in_a_window_fires_at_its_own_place_and_not_after_its_end(world: World) -> None:
    bounds = {"start_at": "2027-01-15T08:02:00Z", "end_at": "2027-01-15T08:05:00Z", "spread_s": 60}
    job = world.recur({**EVERY_MINUTE, **bounds}, concurrency="allow")
    every = world.recur({"every_s": 60, "anchor_at": "2027-01-15T08:00:00Z", **bounds}, concurrency="allow")
    world.run(600, step_s=1)
    for job_id in (job, every):
        fired = [e.head.scheduled_for for e in world.executions() if e.head.job_id == job_id]
        assert len(fired) in (3, 4)
        assert {later - earlier for earlier, later in pairwise(fired)} == {MINUTE}
        assert all((1_800_000_000 + 120) * SECOND <= at <= (1_800_000_000 + 300) * SECOND for at in fired)


def test_hashed_jobs_keep_their_time_through_a_takeover(world: World) -> None:
    jobs = [world.recur({"cron": "H * * * * *", "timezone": "UTC"}, concurrency="allow") for _ in range(8)]
    world.run(90, step_s=1)
    world.start()
    world.run(200, step_s=1)
    for job in jobs:
        found = _nominal(world, job)
        assert len(found) == len(set(found)) >= 4
        assert len({at % 60 for at in found}) == 1
    assert len({_nominal(world, job)[0] % 60 for job in jobs}) > 1
