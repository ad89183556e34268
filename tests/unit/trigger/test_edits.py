"""Several edits of one job in a row, with and without crashes: only the last schedule fires."""

from __future__ import annotations

import random

import pytest

from tests.unit.trigger.world import CODEC, TARGET, World
from tocsin.domain.commands import Command
from tocsin.domain.definitions import parse
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.domain.sharding import shard_of
from tocsin.ports.shard_log import COMMANDS

START = 1_800_000_000 * SECOND


@pytest.fixture
def world() -> World:
    world = World()
    world.clock.set(START)
    world.start()
    return world


def _nominal(world: World, job: str) -> list[int]:
    return [(e.head.scheduled_for - START) // SECOND for e in world.executions() if e.head.job_id == job]


def _every(seconds: int) -> dict[str, object]:
    return {"schedule": {"every_s": seconds}, "target": TARGET, "concurrency": "allow"}


def test_a_paused_job_that_is_deleted_never_fires_again(world: World) -> None:
    job = world.recur({"every_s": 30}, concurrency="allow")
    world.run(65, step_s=1)
    world.order("pause", job)
    world.run(2, step_s=1)
    world.delete(job)
    world.run(300, step_s=1)
    assert _nominal(world, job) == [30, 60]


def test_a_paused_job_that_is_updated_stays_silent(world: World) -> None:
    job = world.recur({"every_s": 30}, concurrency="allow")
    world.run(65, step_s=1)
    world.order("pause", job)
    world.run(2, step_s=1)
    world.order("update", job, definition=_every(45))
    world.run(300, step_s=1)
    assert _nominal(world, job) == [30, 60]


def test_pausing_and_resuming_leaves_one_chain(world: World) -> None:
    job = world.recur({"every_s": 90}, concurrency="allow")
    world.run(5, step_s=1)
    world.order("pause", job)
    world.run(1)
    world.order("resume", job)
    world.run(400, step_s=1)
    assert _nominal(world, job) == [90, 180, 270, 360]


def test_two_updates_leave_the_last_schedule(world: World) -> None:
    job = world.recur({"every_s": 90}, concurrency="allow")
    world.run(5, step_s=1)
    world.order("update", job, definition=_every(20))
    world.run(1)
    world.order("update", job, definition=_every(200))
    world.run(500, step_s=1)
    assert _nominal(world, job) == [200, 400]


def test_a_one_off_that_is_moved_twice_fires_at_the_last_time(world: World) -> None:
    job = world.create(in_s=100)
    for at in (50, 300):
        world.run(1)
        definition = {"run_at": format_rfc3339(START + at * SECOND), "target": TARGET}
        world.order("update", job, definition=definition)
    world.run(400, step_s=1)
    assert _nominal(world, job) == [300]


@pytest.mark.parametrize("kind", ["delete", "update"])
def test_a_restart_in_the_same_minute_brings_no_old_version_back(world: World, kind: str) -> None:
    job = world.recur({"every_s": 10}, concurrency="allow")
    world.run(12, step_s=1)
    world.order(kind, job, **({"definition": _every(25)} if kind == "update" else {}))
    world.run(20, step_s=1)
    world.start()
    world.run(120, step_s=1)
    assert _nominal(world, job) == ([10] if kind == "delete" else [10, 25, 50, 75, 100, 125, 150])


def test_a_schedule_may_be_given_to_a_job_that_never_had_one(world: World) -> None:
    job = world.create_manual()
    world.run(1)
    definition = {"run_at": format_rfc3339(START + 30 * SECOND), "target": TARGET}
    command = world.order("update", job, definition=definition)
    world.run(60, step_s=1)
    assert world.outcomes()[command].detail == "updated"
    assert _nominal(world, job) == [30]


def test_an_edit_to_a_time_in_the_past_is_refused(world: World) -> None:
    job = world.create(in_s=100)
    world.run(5)
    definition = {"run_at": "1990-01-01T00:00:00Z", "target": TARGET}
    command = world.order("update", job, definition=definition)
    world.run(5)
    assert not world.outcomes()[command].accepted
    assert world.fired() == []


def test_no_detour_over_another_schedule_and_a_pause_runs_an_occurrence_twice(world: World) -> None:
    job = world.create(in_s=10)
    world.run(15)
    at = format_rfc3339(START + 10 * SECOND)
    world.order("update", job, definition=_every(1000))
    world.order("pause", job)
    command = world.order("update", job, definition={"run_at": at, "target": TARGET})
    world.run(5)
    assert world.outcomes()[command].detail == "invalid"
    world.order("resume", job)
    world.run(30)
    assert _nominal(world, job) == [10]


def _once(at: int) -> dict[str, object]:
    return {"run_at": format_rfc3339(at), "target": TARGET, "concurrency": "allow"}


def test_a_job_is_not_moved_to_a_time_that_a_late_run_stood_for(world: World) -> None:
    """Found by the simulation: an event said that an occurrence was missed, and under the same id the job then ran."""
    world.run(20, step_s=5)
    world.store.held = True
    job = world.recur({"every_s": 3}, concurrency="allow", misfire_after_s=10)
    world.run(4, step_s=1)
    world.clock.set(START + 400 * SECOND)
    world.settle(2)
    assert world.skipped() == [(START + 29 * SECOND, START + 398 * SECOND)], "though the cursor has not come so far"
    sent = Command("update", "late", job, None, 0, _once(START + 203 * SECOND))
    world.log.append(COMMANDS, shard_of(job, 2), job, CODEC.encode_command(sent), START + 200 * SECOND)
    world.settle(2)
    assert not world.outcomes()["late"].accepted
    world.store.held = False
    world.run(10, step_s=1)
    assert _nominal(world, job) == [23, 26, 401, 404, 407, 410]


def _arrive_late(world: World, job: str, commands: list[tuple[int, Command]]) -> None:
    """Let an owner read commands only now that were appended long ago."""
    for at, command in commands:
        world.log.append(COMMANDS, shard_of(job, 2), job, CODEC.encode_command(command), START + at * SECOND)
    world.settle(3)


def test_what_a_late_run_stood_for_is_not_held_back_by_an_edit_in_a_pause(world: World) -> None:
    """Found by the simulation: what was told as late was told once more, as held back by the pause."""
    job = world.recur({"every_s": 3}, concurrency="allow", catch_up="skip", misfire_after_s=10)
    world.run(4, step_s=1)
    world.clock.set(START + 400 * SECOND)
    world.settle(2)
    told = [(START + 6 * SECOND, START + 399 * SECOND)]
    assert world.skipped() == told
    update = Command("update", "u", job, None, 0, _every(7))
    commands = [(5, Command("pause", "p", job)), (6, update), (8, Command("resume", "r", job))]
    _arrive_late(world, job, commands)
    world.run(20, step_s=1)
    assert world.skipped() == told
    assert _nominal(world, job) == [3, 406, 413, 420]


def test_what_ran_before_a_pause_was_read_is_not_caught_up_with_after_edits(world: World) -> None:
    job = world.recur({"every_s": 3}, concurrency="allow")
    world.run(31, step_s=1)
    edits = [{**_every(period), "on_resume": "catch_up"} for period in (5, 6)]
    updates = [(21 + n, Command("update", f"u{n}", job, None, 0, edit)) for n, edit in enumerate(edits)]
    _arrive_late(world, job, [(20, Command("pause", "p", job)), *updates, (23, Command("resume", "r", job))])
    world.run(12, step_s=1)
    assert _nominal(world, job) == [*range(3, 31, 3), 36, 42]


def test_what_was_due_when_a_job_was_given_one_time_is_told(world: World) -> None:
    world.run(20, step_s=5)
    world.store.held = True  # so the job is in memory, and the edit is decided before what is due
    job = world.recur({"every_s": 3}, concurrency="allow")
    world.run(4, step_s=1)
    world.clock.set(START + 40 * SECOND)
    world.order("update", job, definition=_once(START + 60 * SECOND))
    world.run(30, step_s=1)
    assert _nominal(world, job) == [23, 60]
    assert world.skipped() == [(START + 26 * SECOND, START + 38 * SECOND)]


def test_replaced_rows_are_forgotten_once_they_are_deleted(world: World) -> None:
    job = world.recur({"every_s": 1000}, concurrency="allow")
    for n in range(40):
        world.run(1)
        world.order("update", job, definition=_every(1000 + n))
    world.run(2)
    assert len(CODEC.decode_job(world.tables.snapshot(job)).replaced) <= 2


def test_an_id_used_again_does_not_wait_for_the_former_jobs_run(world: World) -> None:
    definition = {"delay_s": 1, "target": TARGET}
    world.order("create", "again", definition=definition)
    world.run(3)
    world.order("delete", "again")
    world.run(1)
    world.order("create", "again", definition=definition)
    world.run(3)
    assert world.fired() == ["default@again"] * 2


def test_a_trigger_that_is_sent_twice_runs_once(world: World) -> None:
    job = world.recur({"every_s": 1000}, concurrency="allow")
    world.run(1)
    for _ in range(2):
        world.send(Command("trigger", "same", job, None, 0))
    world.run(1)
    assert len(world.executions()) == 1


def test_equal_timers_of_a_lease_and_a_retry_dispatch_once(world: World) -> None:
    world.recur({"every_s": 1000}, retry={"max_attempts": 3, "backoff": "fixed", "base_s": 60, "jitter": "none"})
    world.run(1001, step_s=5)
    [execution] = world.executions()
    world.report(execution, "RUNNING", error=None, timeout_s=30.0)
    world.report(execution, "FAILED")
    world.run(70, step_s=1)
    assert [e.head.attempt for e in world.executions()] == [1, 2]


@pytest.mark.parametrize("timeout_s", [float("inf"), float("nan"), 1e300, -5.0, 0.0])
def test_a_lease_with_an_absurd_timeout_stops_nobody(world: World, timeout_s: float) -> None:
    world.create(in_s=1)
    world.run(2)
    world.report(world.executions()[0], "RUNNING", error=None, timeout_s=timeout_s)
    job = world.create(in_s=1)
    world.run(3)
    assert job in world.fired()


@pytest.mark.parametrize("expression", ["0 0 31 H *", "0 0 H(29-31) 2 *"])
def test_hashed_fields_that_leave_some_jobs_without_a_date_are_refused(world: World, expression: str) -> None:
    world.recur({"cron": expression, "timezone": "UTC"})
    job = world.create(in_s=1)
    world.run(3)
    assert not world.outcomes()["c1"].accepted
    assert world.fired() == [job]
    assert parse({"schedule": {"cron": "0 0 * * THU", "timezone": "UTC"}, "target": TARGET})


HOSTILE = [
    {"target": {**TARGET, "body": {"user": 42}}, "delay_s": 1},
    {"target": TARGET, "delay_s": 1, "name": 5},
    {"target": TARGET, "schedule": [1]},
    {"target": TARGET, "delay_s": 1, "labels": {"a": None}},
    {"target": TARGET, "delay_s": 1, "priority": "critical"},
    {"target": TARGET, "delay_s": 1, "retry": {"max_atempts": 3}},
    {"target": TARGET, "delay_s": 1, "retry": {"max_attempts": 1e6}},
]


@pytest.mark.parametrize("definition", HOSTILE, ids=str)
@pytest.mark.parametrize("shard", [0, 1])
def test_a_json_command_is_the_same_at_the_right_shard_and_the_wrong_one(
    world: World, definition: dict[str, object], shard: int
) -> None:
    import orjson

    command = {"kind": "create", "command_id": "json", "job_id": "mis", "definition": definition}
    world.log.append("commands", shard, "k", orjson.dumps(command))
    world.log.append("commands", shard, "k", orjson.dumps({**command, "command_id": "odd", "reply_partition": 2**40}))
    job = world.create(in_s=1)
    world.run(3)
    assert job in world.fired()
    taken = definition in (HOSTILE[0], HOSTILE[-1])
    assert world.outcomes()["json"].accepted is taken
    assert ("default@mis" in world.fired()) is taken


@pytest.mark.parametrize("seed", range(40))
def test_storm_of_edits(seed: int) -> None:
    """Random edits of recurring jobs with crashes: nothing fires after its delete, nothing twice, nothing early."""
    chance = random.Random(seed)
    world = World()
    world.clock.set(START)
    world.start()
    jobs = [world.recur({"every_s": chance.choice([3, 10, 45])}, concurrency="allow") for _ in range(4)]
    deleted: dict[str, int] = {}
    for _ in range(60):
        job, deed = chance.choice(jobs), chance.random()
        if deed < 0.25:
            world.order("update", job, definition=_every(chance.choice([3, 7, 20, 90])))
        elif deed < 0.4:
            world.order("pause", job)
        elif deed < 0.55:
            world.order("resume", job)
        elif deed < 0.6 and job not in deleted:
            world.delete(job)
            world.settle()
            deleted[job] = world.clock.now()
        elif deed < 0.75:
            world.start()
        elif deed < 0.85:
            world.store.lose()
            world.start()
        world.run(chance.choice([0.2, 1, 5, 20]), step_s=1)
    world.run(30, step_s=1)
    heads = [e.head for e in world.executions()]
    assert len({head.execution_id for head in heads}) == len(heads)
    for record, head in zip(world.log.all("executions.default"), heads, strict=True):
        assert record.timestamp >= head.due_at
        if head.job_id in deleted:
            assert record.timestamp <= deleted[head.job_id]
