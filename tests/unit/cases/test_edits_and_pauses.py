"""Cases of edits, pauses and identities, each seen from outside: PAU, UPD, IDE, CON-3."""

from __future__ import annotations

import pytest

from tests.unit.trigger.world import TARGET, World
from tocsin.domain.instants import DAY, MINUTE, SECOND, format_rfc3339, parse_rfc3339
from tocsin.engine.engine_limits import EngineLimits
from tocsin.engine.horizon import HorizonLimits


def _at(text: str) -> World:
    # Months pass in large steps: many minutes are read at once.
    world = World(shards=1, limits=EngineLimits(horizon=HorizonLimits(reads_max=100)))
    world.clock.set(parse_rfc3339(f"{text}Z"))
    world.start()
    world.settle()
    return world


def _until(world: World, text: str, step_s: float = 5) -> None:
    world.run((parse_rfc3339(f"{text}Z") - world.clock.now()) / SECOND, step_s)


def _cron(expression: str) -> dict[str, object]:
    return {"cron": expression, "timezone": "UTC"}


def _nominal(world: World) -> list[str]:
    # Each once: what nobody picks up for days is dispatched again.
    return list(dict.fromkeys(format_rfc3339(e.head.scheduled_for)[:19] for e in world.executions()))


def _end_runs(world: World) -> None:
    ended = set(world.states())
    for execution in world.executions():
        if execution.head.execution_id not in ended:
            world.report(execution)
    world.settle()


def test_pau_1_nothing_for_the_minutes_of_a_pause() -> None:
    world = _at("2027-03-01T11:29:30")
    job = world.recur(_cron("* * * * *"))
    _until(world, "2027-03-01T11:30:30")
    _end_runs(world)
    _until(world, "2027-03-01T11:31:00.5")
    _end_runs(world)
    world.order("pause", job)
    _until(world, "2027-03-01T11:35:20")
    world.order("resume", job)
    _until(world, "2027-03-01T11:36:30")
    assert _nominal(world) == ["2027-03-01T11:30:00", "2027-03-01T11:31:00", "2027-03-01T11:36:00"]


def test_pau_3_resuming_goes_on_with_the_next_and_a_needless_resume_changes_nothing() -> None:
    world = _at("2027-03-01T06:48:00")
    job = world.recur(_cron("*/5 * * * *"), concurrency="allow")
    _until(world, "2027-03-01T06:50:01")
    world.order("pause", job)
    _until(world, "2027-03-01T07:08:00")
    resumed = world.order("resume", job)
    world.run(1)
    again = world.order("resume", job)
    world.run(1)
    outcomes = world.outcomes()
    assert (outcomes[resumed].detail, outcomes[again].detail) == ("resumed", "unchanged")
    assert outcomes[resumed].version == outcomes[again].version
    assert outcomes[resumed].job == outcomes[again].job, "its next run too"
    _until(world, "2027-03-01T07:12:00")
    assert _nominal(world) == ["2027-03-01T06:50:00", "2027-03-01T07:10:00"]


def test_upd_1_a_monthly_job_moved_to_the_day_before_yesterday_waits_a_month() -> None:
    world = _at("2027-03-09T08:00:00")
    job = world.recur(_cron("0 9 10 * *"), concurrency="allow")
    _until(world, "2027-03-12T12:00:00", 3600)
    assert _nominal(world) == ["2027-03-10T09:00:00"]
    definition = {"schedule": _cron("0 9 11 * *"), "target": TARGET, "concurrency": "allow"}
    world.order("update", job, definition=definition)
    _until(world, "2027-04-10T12:00:00", 3600)
    assert _nominal(world) == ["2027-03-10T09:00:00"], "an edit never fires"
    _until(world, "2027-04-12T12:00:00", 3600)
    assert _nominal(world) == ["2027-03-10T09:00:00", "2027-04-11T09:00:00"]


def test_upd_3_a_yearly_job_becomes_one_of_every_minute_with_one_row() -> None:
    world = _at("2027-03-01T09:59:00")
    job = world.recur(_cron("0 0 1 1 *"), concurrency="allow")
    _until(world, "2027-03-01T10:00:10")
    world.order("update", job, definition={"schedule": _cron("* * * * *"), "target": TARGET, "concurrency": "allow"})
    world.run(1)
    rows = [entry for rows in world.tables.index.values() for entry in rows.values()]
    assert [row.run_at % DAY // MINUTE for row in rows] == [10 * 60 + 1]
    _until(world, "2027-03-01T10:02:30")
    assert _nominal(world) == ["2027-03-01T10:01:00", "2027-03-01T10:02:00"]
    _until(world, "2027-03-01T10:03:30")
    assert len({e.head.job_version for e in world.executions()}) == 1, "the old row never fires"


def test_ide_1_twenty_creates_under_one_key_are_one_job_and_another_body_a_conflict() -> None:
    world = _at("2027-03-01T09:59:00")
    body = {"delay_s": 30, "target": TARGET, "idempotency_key": "settlement-v1"}
    commands = [world.create_keyed(body) for _ in range(20)]
    other = world.create_keyed({**body, "name": "another"})
    world.run(60, step_s=5)
    outcomes = world.outcomes()
    assert len({outcomes[command].job_id for command in commands}) == 1
    assert all(outcomes[command].accepted for command in commands)
    assert outcomes[other].detail == "conflict"
    assert len(world.executions()) == 1


def test_ide_1_holds_while_the_store_is_away() -> None:
    world = _at("2027-03-01T09:59:00")
    world.run(6)
    world.store.held = True
    body = {"delay_s": 30, "target": TARGET, "idempotency_key": "settlement-v1"}
    commands = [world.create_keyed(body) for _ in range(20)]
    other = world.create_keyed({**body, "name": "another"})
    world.run(5)
    world.store.held = False
    world.run(60, step_s=5)
    outcomes = world.outcomes()
    assert [outcomes[command].detail for command in commands] == ["created"] + ["existed"] * 19
    assert outcomes[other].detail == "conflict"
    assert len(world.executions()) == 1


@pytest.mark.parametrize("store_away", [False, True])
def test_con_3_a_trigger_beside_an_active_run_is_refused_with_the_reason(store_away: bool) -> None:
    world = _at("2027-03-01T09:59:50")
    job = world.recur(_cron("* * * * *"))
    _until(world, "2027-03-01T10:00:05")
    assert len(world.executions()) == 1
    world.store.held = store_away
    command = world.order("trigger", job)
    world.run(5)
    world.store.held = False
    world.run(2)
    outcome = world.outcomes()[command]
    assert (outcome.accepted, outcome.detail) == (False, "running")
    assert "active" in str(outcome.faults[0])
