"""Pools: made while the system runs, refused while they do not exist, and waited for where their topics are gone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.trigger.world import World
from tocsin.adapters.memory.pools import MemoryPoolRoll
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.domain import ids
from tocsin.domain.alerts import Alert, AlertKind
from tocsin.domain.commands import Command, CommandOutcome
from tocsin.domain.errors import Unavailable
from tocsin.domain.fleet import Heartbeat
from tocsin.domain.instants import SECOND, format_rfc3339
from tocsin.domain.shard_records import Phase
from tocsin.engine.fleet_watch import FleetWatch
from tocsin.ports.fleet_log import SeenBeat
from tocsin.ports.shard_log import executions
from tocsin.roles.pools import PoolBook
from tocsin.roles.trigger.idle_pools import IdlePools
from tocsin.testing import SettableClock

JOB = ids.made_job_id("0190f0e0f0e07000a000000000000001")
OTHER = ids.made_job_id("0190f0e0f0e07000a000000000000002")


@pytest.fixture
def world() -> World:
    world = World(shards=1)
    world.roll = MemoryPoolRoll(gpu=3)
    world.book = PoolBook(world.roll)
    world.book.look()
    world.start()
    world.settle()
    return world


def handler(world: World, pool: str, in_s: float = 60) -> dict[str, Any]:
    at = format_rfc3339(world.clock.now() + round(in_s * SECOND))
    return {"run_at": at, "target": {"type": "handler", "name": "train", "pool": pool, "payload": {"n": 1}}}


def create(world: World, job_id: str, pool: str, in_s: float = 60) -> CommandOutcome:
    command_id = f"{job_id[-1]}-{pool}"
    world.send(Command("create", command_id, job_id, None, 0, handler(world, pool, in_s)), 0)
    world.settle()
    return world.outcomes()[command_id]


def test_an_execution_travels_in_the_lane_of_its_pool(world: World) -> None:
    assert create(world, JOB, "gpu").accepted
    world.run(70)
    assert len(world.log.all(executions("pool.gpu"))) == 1
    assert world.executions() == []


def test_an_owner_refuses_a_pool_that_does_not_exist_and_names_those_that_do(world: World) -> None:
    outcome = create(world, JOB, "cpu")
    assert not outcome.accepted
    (fault,) = outcome.faults
    assert (fault.field, fault.value) == ("target.pool", "'cpu'")
    assert "gpu" in fault.remedy and "TOCSIN_CLUSTER__POOLS" in fault.remedy


def test_a_pool_that_is_made_later_is_used_without_a_restart(world: World) -> None:
    assert not create(world, JOB, "cpu").accepted
    world.roll.pools["cpu"] = 2
    world.book.look()
    world.settle()
    assert create(world, OTHER, "cpu").accepted
    world.run(70)
    assert len(world.log.all(executions("pool.cpu"))) == 1


def test_a_create_that_is_repeated_exists_though_its_pool_is_gone(world: World) -> None:
    definition = handler(world, "gpu")
    create(world, JOB, "gpu")
    del world.lanes.partitions["pool.gpu"]
    world.send(Command("create", "again", JOB, None, 0, definition), 0)
    world.settle()
    assert world.outcomes()["again"].detail == "existed"


def test_an_update_may_keep_a_pool_that_is_gone_and_not_move_to_one(world: World) -> None:
    create(world, JOB, "gpu")
    del world.lanes.partitions["pool.gpu"]
    kept, moved = handler(world, "gpu", 90), handler(world, "cpu", 90)
    assert _ordered(world, "update", definition=kept).accepted
    assert not _ordered(world, "update", definition=moved).accepted


def _ordered(world: World, kind: str, **fields: object) -> CommandOutcome:
    command_id = world.order(kind, JOB, **fields)
    world.settle()
    return world.outcomes()[command_id]


def test_an_owner_that_has_not_found_a_pool_yet_lets_its_work_wait_and_sets_nothing_aside(world: World) -> None:
    create(world, JOB, "gpu")
    # As a trigger that started before the pool was made, and takes the shard over.
    world.roll.pools.clear()
    world.book.look()
    world.lanes.partitions.pop("pool.gpu")
    world.start()
    world.run(70)
    assert world.log.all(executions("pool.gpu")) == [] and world.dead_letters() == []
    (active,) = world.engines[0].state.active.values()
    assert active.phase == Phase.WAITING
    world.roll.pools["gpu"] = 3
    world.book.look()
    world.run(60)
    assert len(world.log.all(executions("pool.gpu"))) == 1


def test_without_an_answer_what_was_known_of_pools_stays() -> None:
    class Away(MemoryPoolRoll):
        def partitions(self) -> dict[str, int]:
            raise Unavailable("kafka", "is away")

    book = PoolBook(Away())
    book.look()
    assert book.known() is None


class Alerts:
    def __init__(self) -> None:
        self.sent: list[Alert] = []
        self.away = False

    def send(self, alerts: Any) -> None:
        if self.away:
            raise Unavailable("kafka", "is away")
        self.sent += alerts


class Idle:
    """What tells of idle pools, with everything around it."""

    def __init__(self) -> None:
        self.roll = MemoryPoolRoll(gpu=1, cpu=1)
        self.roll.working.add("gpu")
        self.workers: dict[str, int] = {}
        self.in_charge = True
        self.alerts = Alerts()
        self.meter = PrometheusMeter()
        self.clock = SettableClock()
        self.pools = IdlePools(
            self.roll, lambda: self.workers, lambda: self.in_charge, self.alerts, self.meter, self.clock
        )

    def after(self, seconds: float) -> list[str]:
        self.clock.advance(seconds)
        self.pools.look(self.roll.partitions())
        sent, self.alerts.sent = self.alerts.sent, []
        assert all(alert.kind == AlertKind.POOL_IDLE for alert in sent)
        return [alert.message for alert in sent]

    def gauge(self) -> float:
        return self.meter.registry.get_sample_value("tocsin_pools_idle") or 0


def test_a_pool_in_which_work_waits_for_a_minute_without_workers_is_told_of_once() -> None:
    idle = Idle()
    assert idle.after(0) == [] and idle.after(50) == [] and idle.gauge() == 0
    (message,) = idle.after(10)
    assert "pool gpu" in message and "--pool gpu" in message
    assert idle.gauge() == 1
    assert idle.after(600) == [], "it is told once"
    idle.workers["gpu"] = 1
    assert idle.after(5) == [] and idle.gauge() == 0
    idle.workers.clear()
    assert idle.after(5) == [] and len(idle.after(61)) == 1, "another time is another alert"


def test_a_minute_counts_from_when_the_last_worker_went() -> None:
    idle = Idle()
    idle.workers["gpu"] = 1
    idle.after(0)
    idle.after(100)
    idle.workers.clear()
    assert idle.after(5) == [] and idle.after(59) == []
    assert len(idle.after(1)) == 1


def test_an_alert_that_was_not_taken_is_sent_again() -> None:
    idle = Idle()
    idle.after(0)
    idle.alerts.away = True
    assert idle.after(61) == []
    idle.alerts.away = False
    assert len(idle.after(5)) == 1


def test_only_the_owner_of_the_first_shard_tells() -> None:
    idle = Idle()
    idle.in_charge = False
    assert idle.after(0) == [] and idle.after(100) == [] and idle.gauge() == 0


def test_living_workers_are_counted_by_pool() -> None:
    watch = FleetWatch("me")

    def beat(process_id: str, at_s: int, *pools: str, stopped: bool = False) -> SeenBeat:
        role = "trigger" if process_id == "me" else "worker"
        return SeenBeat(Heartbeat(process_id, process_id, role, "h", "1", 0, stopped, pools=pools), at_s * SECOND)

    watch.take([beat("a", 100, "gpu"), beat("b", 100, "gpu", "cpu"), beat("c", 100, "gpu"), beat("d", 60, "gpu")])
    watch.take([beat("me", 101), beat("c", 101, "gpu", stopped=True)])
    assert watch.workers_by_pool() == {"gpu": 2, "cpu": 1}, "c said goodbye, and d is silent"
    watch.take([beat("me", 129)])
    watch.take([beat("me", 131)])
    assert watch.workers_by_pool() == {}
