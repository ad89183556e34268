"""Firing many at once decides what firing each by itself decides, whatever else the shard knows of them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.unit.engine.test_firing_cost import CODEC, DUE, TARGET
from tocsin.domain import ids
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.entries import Entry, Place
from tocsin.domain.executions import AttemptHead
from tocsin.domain.instants import MINUTE, SECOND, minute_of
from tocsin.domain.shard_records import Active, ParkedCommand, Phase, Void
from tocsin.domain.timers import END_CHECK_FIRST, END_CHECK_MAX, end_check
from tocsin.engine.arrivals import Arrivals
from tocsin.engine.dispatch_desk import Lanes
from tocsin.engine.effects import Step
from tocsin.engine.plain_fires import Fired, PlainFires
from tocsin.engine.shard_engine import EngineLimits, ShardEngine
from tocsin.engine.shard_state import ShardState
from tocsin.engine.zone_rules import ZoneRules
from tocsin.ports.schedule_store import BucketPage

NEVER = 10**9
"""So many are never due at once."""
CRON = '{"cron":"* * * * *","tz":"Europe/Berlin"}'
PLANS = (
    *[""] * 20,
    *[CRON] * 20,
    *['{"every":1000000,"anchor":0}'] * 4,
    '{"every":1000000,"anchor":0}+1',
    '{"every":1000000,"anchor":0,"overlap":"allow"}',
    CRON.replace("{", '{"max_duration":5000000,'),
    CRON.replace("{", '{"alert_on":["late"],'),
    CRON.replace("{", '{"misfire":500000,'),
    *[CRON.replace("{", '{"misfire":500000,"grace":60000000,"catch_up":"skip","alert_on":["late"],')] * 3,
    CRON.replace("{", f'{{"end":{DUE},'),
    '{"overlap":"queue"}',
    '{"overlap":"allow"}',
)
DAMAGED = b"\xc3\x01 no execution at all, but long enough"


def entry(chance: Random, version: int) -> Entry:
    """Return a row due within two seconds, of one of few jobs."""
    job_id = chance.choice([*["acme@job-{}", "job_{}"] * 9, "grp_1~job_{}"]).format(chance.randrange(400))
    at = DUE + chance.choice([0, 0, 0, 1, 700_000, SECOND])
    execution_id = ids.execution_id(job_id, version, at)
    if chance.random() < 0.02:
        execution_id = ids.triggered_execution_id(job_id, version, at, "cmd_1")
    tenant = chance.choice(["acme", "b", "c"])
    token = chance.choice([0] * 50 + [300])
    head = AttemptHead(1, token, 0, execution_id, job_id, tenant, version, at, at)
    execution = DAMAGED if chance.random() < 0.006 else CODEC.encode_execution(head, TARGET)
    lane = chance.choice(["default"] * 70 + ["message", "gone", "unknown"])
    run_at = at + chance.choice([0] * 60 + [1, 1_700_000])
    made = Entry(run_at, job_id, at, version, execution_id, tenant, lane, execution, chance.choice(PLANS))
    if chance.random() < 0.03:
        return end_check(made, at - chance.choice([END_CHECK_FIRST, END_CHECK_MAX]))
    return made


def state_for(chance: Random, rows: list[Entry]) -> ShardState:
    """Return a state that knows something of the jobs of a few rows."""
    before = Place.before(DUE - MINUTE)
    state = ShardState(0, 1, 1, before, owner="former", successors_upto=before)
    known = [row for row in rows if row.execution and row.execution != DAMAGED]
    for row in chance.sample(known, len(known) // 20):
        version = row.version + chance.choice([-1, 0, 1])
        state.voids[row.job_id] = Void(row.job_id, version, Place.before(DUE + MINUTE))
    for row in chance.sample(known, len(known) // 20):
        other = ids.execution_id(row.job_id, row.version, DUE - 5 * SECOND)
        head = AttemptHead(1, 1, 0, other, row.job_id, row.tenant_id, row.version, DUE, DUE)
        state.active[other] = Active(
            CODEC.encode_execution(head, TARGET), DUE, chance.choice([Phase.QUEUED, Phase.WAITING])
        )
    for offset, row in enumerate(chance.sample(known, len(known) // 20)):
        command = Command(CommandKind.PAUSE, f"cmd-{offset}", row.job_id, row.tenant_id, 0)
        state.parked[offset] = ParkedCommand(offset, DUE - SECOND, CODEC.encode_command(command))
    return state


def fired(seed: int, plain_fires_min: int) -> tuple[ShardEngine, list[Step]]:
    chance = Random(seed)
    rows = [entry(chance, 7) for _ in range(chance.choice([5, 60, 300]))]
    rows += [row._replace(version=8) for row in chance.sample(rows, 3)]
    chance.shuffle(rows)
    limits = EngineLimits(
        fires_max=chance.choice([3, 40, 5_000]),
        fire_bytes_max=chance.choice([2_000, 16_000_000]),
        plain_fires_min=plain_fires_min,
        owed_min=NEVER,
    )
    lanes = Lanes({"default": 8, "message": 4, "gone": 4}, 3, {"gone"})
    engine = ShardEngine(state_for(chance, rows), "owner", CODEC, lanes, limits, 1)
    minutes = engine.step(DUE - 50 * SECOND, Arrivals()).bucket_reads
    late = rows[: chance.choice([0, 0, 2, len(rows)])]
    """What comes after the others were readied."""
    pages = [BucketPage(0, minute, rows[len(late) :] if minute == minute_of(DUE) else [], True) for minute in minutes]
    engine.step(DUE - 40 * SECOND, Arrivals(completions=pages))
    engine.step(DUE - SECOND, Arrivals())
    engine.step(DUE - SECOND + 1, Arrivals(completions=[BucketPage(0, minute_of(DUE), late, True)]))
    times = [DUE, DUE, DUE + 700_000, *[DUE + SECOND + 3_000] * 150, *[DUE + 5 * SECOND] * 20]
    return engine, [engine.step(at, Arrivals()) for at in times]


def indexes(engine: ShardEngine) -> dict[str, Any]:
    return {name: value for name, value in vars(engine._actives).items() if name != "_active"}


@pytest.mark.parametrize("seed", range(40))
def test_firing_many_at_once_decides_what_firing_each_decides(seed: int) -> None:
    (together, steps), (one_by_one, expected) = fired(seed, 2), fired(seed, NEVER)
    for step in [*steps, *expected]:
        step.at_hand = None
        step.inserts.sort()  # the store does not care
    assert steps == expected
    assert together.state == one_by_one.state
    assert list(together.state.active) == list(one_by_one.state.active)
    assert indexes(together) == indexes(one_by_one)
    assert any(step.dispatched for step in steps)


def test_while_zone_data_change_recurring_jobs_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(1)
    rows = [entry(chance, 7) for _ in range(300)]
    planned = [row._replace(plan=CRON) for row in rows]
    state = state_for(chance, [])
    engine = ShardEngine(state, "owner", CODEC, Lanes({"default": 8}), EngineLimits(), 1)
    plain_next = engine._successors.plain_next
    assert all(plain_next(row.plan, row.scheduled_for, DUE) for row in planned)
    monkeypatch.setattr(ZoneRules, "changing", property(lambda zones: True))
    assert not any(plain_next(row.plan, row.scheduled_for, DUE) for row in planned)


def test_most_of_those_storms_are_fired_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would compare a thing with itself."""
    runs: list[int] = []
    real = PlainFires.fire

    def counted(self: PlainFires, *arguments: Any) -> Fired:
        fired = real(self, *arguments)
        runs.append(fired.end - arguments[2])
        return fired

    monkeypatch.setattr(PlainFires, "fire", counted)
    for seed in range(10):
        fired(seed, 2)
    assert sum(runs) > 300
    assert max(runs) > 10
