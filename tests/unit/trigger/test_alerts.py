"""What an owner alerts people to: in the very turn in which it happens, and never in a flood."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trigger.poison import PoisonCodec, is_poison, poisoned
from tests.unit.trigger.world import CODEC, World
from tocsin.domain.alerts import MESSAGE_CHARS_MAX, Alert, AlertKind
from tocsin.domain.shard_records import StateDelta
from tocsin.engine.alerts import alert_records
from tocsin.engine.shard_engine import EngineLimits
from tocsin.ports.shard_log import ALERTS, DEAD_LETTERS, SHARD_STATE


def alerts(world: World) -> list[Alert]:
    return [CODEC.decode_alert(record.value) for record in world.log.all(ALERTS)]


def deltas(world: World) -> list[StateDelta]:
    return [CODEC.decode_delta(r.value) for r in world.log.all(SHARD_STATE) if (r.key or b"").startswith(b"d")]


def started(limits: EngineLimits | None = None, **more: Any) -> World:
    world = World(shards=1, limits=limits, **more)
    world.start()
    world.settle()
    return world


def test_a_dead_letter_alerts_in_its_own_turn() -> None:
    world = started()
    job = world.create(in_s=1)
    world.run(5)
    [execution] = world.executions()
    world.report(execution, "FAILED")
    world.settle()
    [alert] = alerts(world)
    at, head = alert.at, execution.head
    assert alert == Alert("dead_letter", at, "default", job, head.execution_id, 0, "execution: answered 500")
    assert [delta for delta in deltas(world) if delta.at == at and head.execution_id in delta.ended]
    assert world.meter.registry.get_sample_value("tocsin_alerts_total", {"kind": "dead_letter"}) == 1


def test_a_suspended_job_alerts_beside_its_dead_letter() -> None:
    codec = PoisonCodec()
    world = World(codec=codec)
    world.start()
    world.settle()
    job = poisoned(world, schedule={"every_s": 5})
    world.run(1)
    codec.fails["restamp"] = is_poison
    world.run(30)
    assert [(alert.kind, alert.job_id) for alert in alerts(world)] == [("dead_letter", job), ("suspended", job)]


def test_an_end_that_nobody_knows_alerts() -> None:
    world = started(EngineLimits(outlived_after_s=3_600))
    job = poisoned(world, target={"type": "message", "topic": "orders", "value": "v"})
    world.run(10)
    world.run(4_500, step_s=60)
    [alert] = alerts(world)
    assert (alert.kind, alert.job_id) == ("unknown", job)
    assert alert.message == "nobody can tell whether it ran: outlived_its_lane"
    assert len(world.log.all(DEAD_LETTERS)) == 1


def test_what_was_missed_is_one_alert_of_its_shard_and_turn() -> None:
    world = started()
    jobs = [world.recur({"every_s": 1}, concurrency="allow") for _ in range(3)]
    world.run(2)
    world.shard_log.lose(range(1))
    world.clock.advance(600)
    world.start()
    world.run(5)
    [alert] = alerts(world)
    assert (alert.kind, alert.job_id, alert.execution_id, alert.shard) == ("skipped", None, None, 0)
    assert alert.count == sum((upto - first) // 1_000_000 + 1 for first, upto in world.skipped())
    assert alert.count > 3 * 500
    assert f"of {len(jobs)} jobs" in alert.message


def test_a_skip_that_the_job_asked_for_alerts_nobody() -> None:
    world = started()
    world.recur({"every_s": 2}, concurrency="skip_if_running")
    world.run(10)
    assert world.skipped()
    assert alerts(world) == []


def test_a_flood_is_told_in_a_few_records() -> None:
    world = started(EngineLimits(alerts_max=3))
    for _ in range(10):
        world.create(in_s=1)
    world.run(5)
    for execution in world.executions():
        world.report(execution, "FAILED")
    world.settle()
    found = alerts(world)
    assert [alert.count for alert in found] == [1, 1, 1, 7]
    assert (found[-1].kind, found[-1].tenant_id, found[-1].job_id) == ("dead_letter", "default", None)
    assert world.meter.registry.get_sample_value("tocsin_alerts_total", {"kind": "dead_letter"}) == 10


@pytest.mark.parametrize(("singles_max", "counts"), [(0, [5, 3]), (1, [1, 5, 2]), (10, [1, 1, 1, 5])])
def test_each_kind_adds_one_record_at_most(singles_max: int, counts: list[int]) -> None:
    noted = [Alert(AlertKind.SKIPPED, 1, "t", "a", count=2), Alert(AlertKind.SKIPPED, 1, "t", "b", count=3)]
    noted += [Alert(AlertKind.DEAD_LETTER, 1, "t", f"j{n}", "e", message="x" * 5_000) for n in range(3)]
    records = alert_records(CODEC, 7, noted, singles_max)
    told = [CODEC.decode_alert(record.value) for record in records]
    assert sorted(alert.count for alert in told) == sorted(counts)
    assert all(len(alert.message) <= MESSAGE_CHARS_MAX and alert.shard == 7 for alert in told)
    assert {(record.topic, record.partition) for record in records} == {(ALERTS, 0)}
    assert [record.key for record in records if record.key == "shard 7"], "sums of several jobs belong to the shard"
