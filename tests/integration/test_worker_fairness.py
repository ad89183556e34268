"""On a real broker: a tenant whose target hangs or fails keeps neither others waiting nor its attempts coming."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from tests.http_receiver import HttpReceiver
from tests.integration.lane_world import LaneWorld, WorkerProcess, wait_until, worker_processes
from tocsin.devcluster import Endpoints
from tocsin.domain.executions import ReportKind

pytestmark = pytest.mark.real

AHEAD = 5_000


class Moody:
    """A target that fails until it is well."""

    def __init__(self) -> None:
        self.is_well = False

    async def answer(self, _request: web.Request) -> web.Response:
        return web.Response(status=200 if self.is_well else 503)


@pytest.fixture
def moody() -> Moody:
    return Moody()


@pytest.fixture
def receiver(moody: Moody) -> Iterator[HttpReceiver]:
    server = HttpReceiver({"/moody": moody.answer})
    yield server
    server.gate.set()
    server.close()


@pytest.fixture
def world(cluster: Endpoints, unique: str) -> LaneWorld:
    return LaneWorld(cluster.kafka_bootstrap, unique)


@pytest.fixture
def start(world: LaneWorld, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    with worker_processes() as make:
        yield partial(make, world, tmp_path)


def called(receiver: HttpReceiver) -> list[str]:
    return [call.headers["Tocsin-Job-Id"] for call in receiver.calls]


def test_another_tenant_is_served_behind_5000_executions_that_hang(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[..., WorkerProcess]
) -> None:
    """They hang for a minute, and fill the worker for more than twenty: whoever waited for them would wait long."""
    world.dispatch(receiver.url + "/gated", [f"bad{n}" for n in range(AHEAD)], partition=0, tenant="bad")
    worker = start("w", running_max=200, tenant_running_max=100)
    worker.wait_ready()
    wait_until(lambda: len(receiver.calls) == 100, "the bad tenant to take all that it may")
    world.dispatch(receiver.url, ["good"], partition=0, tenant="good")
    wait_until(lambda: "good" in called(receiver), "the other tenant's call", wait_s=30)
    assert len(receiver.calls) == 101


def test_a_target_that_fails_is_left_alone_and_found_well_again(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[..., WorkerProcess], moody: Moody
) -> None:
    jobs = [f"bad{n}" for n in range(400)]
    world.dispatch(receiver.url + "/moody", jobs, partition=0, tenant="bad")
    start("w", running_max=50, breaker_open_s=1).wait_ready()
    wait_until(lambda: len(world.reports()) >= len(jobs), "a report on each")
    returned = [report for report in world.reports() if report.kind == ReportKind.RETURNED]
    assert len(returned) >= 200, "attempts stop"
    assert {(report.reason, report.started) for report in returned} == {("breaker", "no")}
    assert len(receiver.calls) == len(jobs) - len(returned)

    moody.is_well = True
    tried: list[str] = []

    def is_found_well() -> bool:
        tried.append(f"again{len(tried)}")
        world.dispatch(receiver.url + "/moody", tried[-1:], partition=0, tenant="bad")
        time.sleep(0.2)
        return any(report.kind == ReportKind.SUCCEEDED for report in world.reports())

    wait_until(is_found_well, "a probe that succeeds")
    world.dispatch(receiver.url + "/moody", [f"after{n}" for n in range(20)], partition=0, tenant="bad")
    wait_until(lambda: len(world.reports()) >= len(jobs) + len(tried) + 20, "a report on each")
    ended = {report.head.job_id: report.kind for report in world.reports()}
    assert {ended[f"after{n}"] for n in range(20)} == {ReportKind.SUCCEEDED}
    assert len(world.reports()) == len(ended) == len(jobs) + len(tried) + 20, "each once, none lost"
