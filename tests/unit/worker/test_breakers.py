"""While a target fails as a whole, its work goes back to its owner, and no attempt is burnt."""

from __future__ import annotations

import pytest

from tests.unit.worker.worker_world import CountingMeter, Worker, World
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.engine.circuit_breaker import BreakerLimits
from tocsin.roles.worker.breakers import Breakers, name_of

LIMITS = BreakerLimits(failures_min=5, failed_share=0.9, window_s=30, open_s=10)
DOWN = AttemptError("status", "503 busy", 503)
REFUSES = AttemptError("status", "404 not here", 404)


def world_with(*names: str, **fields: str) -> tuple[World, Worker]:
    world = World(running_max=100, breaker=LIMITS)
    world.dispatch(*names, **fields)  # type: ignore[arg-type]
    return world, world.worker()


def fail_all(worker: Worker, error: AttemptError = DOWN, kind: ReportKind = ReportKind.FAILED) -> None:
    worker.steps()
    worker.runner.finish(*worker.runner.running, kind=kind, error=error)
    worker.steps(2)


def test_it_opens_returns_probes_and_recovers_and_nothing_is_lost() -> None:
    world, worker = world_with("a", "b", "c", "d", "e")
    fail_all(worker)
    assert worker.meter.counts["breakers"] == 1
    world.dispatch("f", "g")
    worker.steps(3)
    returned = [r for r in worker.reports if r.kind == ReportKind.RETURNED]
    assert [(r.head.job_id, r.reason, r.started, r.started_at) for r in returned] == [
        ("f", "breaker", "no", None),
        ("g", "breaker", "no", None),
    ]
    assert {r.not_before for r in returned} == {world.clock.now() + 10_000_000}
    assert world.offset() == 7, "they are settled: their owner has them"
    world.clock.seconds += 10
    world.dispatch("h", "i")
    worker.steps(3)
    assert worker.running == ["h"], "one probe"
    worker.finish("h", kind=ReportKind.FAILED, error=DOWN)
    worker.steps(2)
    world.clock.seconds += 10
    world.dispatch("j", "k")
    worker.steps(3)
    worker.finish("j")
    worker.steps(2)
    assert worker.meter.counts["breakers"] == 0
    world.dispatch("l", "m")
    worker.steps(2)
    assert worker.running == ["l", "m"]
    assert [r.head.job_id for r in worker.reports if r.reason == "breaker"] == ["f", "g", "i", "k"]
    worker.runner.finish_all()
    worker.steps(2)
    assert {report.head.job_id for report in worker.reports} == set("abcdefghijklm")


@pytest.mark.parametrize(
    ("kind", "error", "opens"),
    [
        (ReportKind.FAILED, DOWN, True),
        (ReportKind.TIMED_OUT, AttemptError("timeout", ""), True),
        (ReportKind.FAILED, AttemptError("connection_refused", ""), True),
        (ReportKind.FAILED, AttemptError("dns", ""), True),
        (ReportKind.FAILED, AttemptError("exit", "exit status 3", 3), False),
        (ReportKind.FAILED, AttemptError("exception", "ValueError: no"), True),
        (ReportKind.FAILED, AttemptError("fail", "nothing will help"), False),
        (ReportKind.FAILED, AttemptError("no_handler", ""), False),
        (ReportKind.FAILED, REFUSES, False),
        (ReportKind.FAILED, AttemptError("status", "", 429), False),
        (ReportKind.FAILED, AttemptError("redirect", "", 302), False),
        (ReportKind.FAILED, AttemptError("blocked", ""), False),
        (ReportKind.FAILED, AttemptError("internal", ""), False),
        (ReportKind.SUCCEEDED, None, False),
        (ReportKind.ACCEPTED, None, False),
    ],
)
def test_only_what_speaks_against_the_target_opens_it(kind: ReportKind, error: AttemptError, opens: bool) -> None:
    world, worker = world_with(*(f"j{n}" for n in range(10)))
    fail_all(worker, error, kind)
    world.dispatch("next")
    worker.steps(2)
    assert ("next" in worker.started) is not opens


def test_other_targets_and_other_tenants_go_on() -> None:
    world, worker = world_with("a", "b", "c", "d", "e", url="https://host.test/path")
    fail_all(worker)
    world.dispatch("same", url="https://host.test:443/other")
    world.dispatch("port", url="https://host.test:8443/path")
    world.dispatch("scheme", url="http://host.test/path")
    world.dispatch("theirs", url="https://host.test/path", tenant="other")
    worker.steps(2)
    assert sorted(worker.running) == ["port", "scheme", "theirs"]


def test_a_probe_that_cannot_be_stopped_counts_as_failed() -> None:
    world, worker = world_with("a", "b", "c", "d", "e")
    fail_all(worker)
    world.clock.seconds += 10
    world.dispatch("probe", timeout_s=5)
    worker.steps(2)
    assert worker.running == ["probe"]
    worker.runner.stubborn = True
    world.clock.seconds += 30
    worker.steps(3)
    assert ("probe", "TIMED_OUT", None) in worker.said
    world.dispatch("next")
    worker.steps(3)
    assert ("next", "RETURNED", "breaker") in worker.said


def test_a_bounded_number_is_kept_and_the_oldest_goes_first() -> None:
    _, worker = world_with(*(f"j{n}" for n in range(5)))
    worker.steps()
    attempts = worker.runner.running
    breakers = Breakers(LIMITS, CountingMeter(), kept_max=3)
    for number in range(10):
        head = attempts[0].execution.head._replace(tenant_id=f"t{number}")
        execution = type(attempts[0].execution)(head, b"", attempts[0].execution.target)
        for _ in range(5):
            breakers.ended("x", execution, ReportKind.FAILED, DOWN, 0.0)
        assert breakers.wait_s("y", execution, 0.0) is not None
        assert len(breakers) <= 3
    first = type(attempts[0].execution)(head._replace(tenant_id="t0"), b"", attempts[0].execution.target)
    assert breakers.wait_s("y", first, 0.0) is None
    assert name_of(first.target) == "http://target.test:80"
