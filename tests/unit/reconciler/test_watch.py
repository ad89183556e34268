"""Following minute after minute: each lost run is told once, and what was in motion is looked at again."""

from __future__ import annotations

from tests.unit.reconciler.house import House, Sink, past_the_minute
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.domain.instants import MINUTE
from tocsin.ports.shard_log import executions
from tocsin.roles.reconciler.watch import ReconcilerWatch, WatchLimits


class Bench:
    """A watch over a house."""

    def __init__(self, **limits: float) -> None:
        self.house = House()
        self.sink = Sink()
        self.meter = PrometheusMeter()
        bounds = WatchLimits(settle_s=30.0, look_back_s=120.0)
        self.limits = WatchLimits(**{**{n: getattr(bounds, n) for n in WatchLimits.__slots__}, **limits})  # type: ignore[arg-type]
        self.watch = self.start()

    def start(self) -> ReconcilerWatch:
        world = self.house.world
        self.watch = ReconcilerWatch(
            self.house.reconciler, self.sink, self.meter, world.clock, range(world.shards), self.limits
        )
        return self.watch

    def steps(self) -> None:
        while self.watch.step():
            pass

    def value(self, name: str) -> float | None:
        return self.meter.registry.get_sample_value(name)


def test_a_lost_run_is_told_once_and_counted() -> None:
    bench = Bench()
    job = bench.house.world.create(in_s=1)
    past_the_minute(bench.house)
    lost = bench.house.forget(job)
    past_the_minute(bench.house)
    for _ in range(3):
        bench.steps()
        past_the_minute(bench.house)
    [alert] = bench.sink.sent
    assert (alert.kind, alert.job_id, alert.execution_id, alert.count) == ("missing", job, lost, 1)
    assert bench.value("tocsin_reconciler_missing_total") == 1
    assert (bench.value("tocsin_reconciler_age_seconds") or 0) < 300


def test_a_minute_is_left_to_settle() -> None:
    bench = Bench(settle_s=600.0)
    job = bench.house.world.create(in_s=1)
    past_the_minute(bench.house)
    bench.house.forget(job)
    bench.steps()
    assert bench.sink.sent == []
    bench.house.run(660, step_s=10)
    bench.steps()
    assert len(bench.sink.sent) == 1


def test_what_cannot_be_told_is_found_again() -> None:
    bench = Bench()
    job = bench.house.world.create(in_s=1)
    past_the_minute(bench.house)
    bench.house.forget(job)
    past_the_minute(bench.house)
    bench.sink.away = True
    bench.steps()
    assert bench.value("tocsin_reconciler_missing_total") == 0
    bench.sink.away = False
    bench.steps()
    assert len(bench.sink.sent) == 1


def test_while_nothing_can_be_judged_its_age_grows_and_nothing_is_passed_over() -> None:
    bench = Bench()
    job = bench.house.world.create(in_s=1)
    past_the_minute(bench.house)
    bench.house.forget(job)
    bench.house.projector.stopped = True
    bench.house.world.create(in_s=1)
    bench.house.run(1_200, step_s=10)
    bench.steps()
    assert (bench.value("tocsin_reconciler_age_seconds") or 0) > 1_200
    bench.house.projector.stopped = False
    bench.steps()
    assert len(bench.sink.sent) == 1
    assert (bench.value("tocsin_reconciler_age_seconds") or 0) < 300


def test_what_was_in_motion_is_judged_once_it_is_not() -> None:
    bench = Bench()
    world = bench.house.world
    world.log.missing.add(executions("default"))
    job = world.create(in_s=5)
    past_the_minute(bench.house)
    past_the_minute(bench.house)
    bench.steps()
    world.log.missing.clear()
    bench.house.run(60)
    assert world.fired() == [job]
    bench.house.forget(job)
    bench.steps()
    assert [alert.job_id for alert in bench.sink.sent] == [job]
    bench.steps()
    assert len(bench.sink.sent) == 1


def test_a_flood_is_summed_up_and_counted_whole() -> None:
    bench = Bench(alerts_max=2)
    jobs = [bench.house.world.create(in_s=1) for _ in range(9)]
    past_the_minute(bench.house)
    for job in jobs:
        bench.house.forget(job)
    past_the_minute(bench.house)
    bench.steps()
    assert [alert.count for alert in bench.sink.sent] == [1, 1, 7]
    assert bench.value("tocsin_reconciler_missing_total") == 9


def test_a_long_span_is_taken_in_parts() -> None:
    bench = Bench(look_back_s=0.0, minutes_max=2)
    job = bench.house.world.create(in_s=1)
    bench.house.run(10)
    bench.house.forget(job)
    begun = bench.house.world.clock.now()
    bench.house.run(10 * MINUTE / 1_000_000, step_s=10)
    assert bench.watch.step() is True
    bench.steps()
    assert len(bench.sink.sent) == 1
    assert (bench.value("tocsin_reconciler_age_seconds") or 0) < (bench.house.world.clock.now() - begun) / 2_000_000
