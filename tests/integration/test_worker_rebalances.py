"""Workers come, go, die and start again while attempts of one to three seconds run: nothing is repeated."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.http_receiver import HttpReceiver
from tests.integration.lane_world import LANE_PARTITIONS, LaneWorld, WorkerProcess, wait_until
from tocsin.devcluster import Endpoints
from tocsin.domain.executions import ReportKind

pytestmark = pytest.mark.real

EXECUTIONS = 200
COMMIT_S_MAX = 5.0
"""A bound that a busy machine keeps too; the classic protocol held commits for up to ten seconds."""


async def _work(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(float(request.query["s"]))
    return web.Response(text="done")


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    server = HttpReceiver({"/work": _work})
    yield server
    server.close()


class Fleet:
    """Workers, and what their meters said before they ended."""

    def __init__(self, world: LaneWorld, directory: Path) -> None:
        self._world = world
        self._directory = directory
        self.alive: dict[str, WorkerProcess] = {}
        self.killed: set[str] = set()
        """Process ids."""
        self.commit_s_max: dict[str, float] = {}
        self.refused: dict[str, float] = {}

    def start(self, name: str) -> None:
        self.alive[name] = WorkerProcess(self._world, self._directory, name, running_max=24, lease_after_s=2)

    def _facts(self, name: str) -> dict[str, object]:
        facts = self.alive[name].wait_ready()
        with urllib.request.urlopen(str(facts["metrics_url"]), timeout=30) as answer:
            text = answer.read().decode()
        self.commit_s_max[name] = _sample(text, "tocsin_offset_commit_seconds_max")
        self.refused[name] = _sample(text, "tocsin_offset_commits_refused_total")
        return facts

    def handover_commits_s(self) -> list[float]:
        """Return how long the commits took that workers sent while partitions were taken from them."""
        lines = [line for log in self._directory.glob("*.log") for line in log.read_text().splitlines()]
        return [json.loads(line)["commit_s"] for line in lines if '"worker.revoked"' in line]

    def kill(self, name: str) -> None:
        self.killed.add(str(self._facts(name)["process_id"]))
        self.alive.pop(name).kill()

    def stop(self, name: str) -> None:
        self._facts(name)
        worker = self.alive.pop(name)
        assert worker.stop() == 0, worker.log.read_text()

    def end(self) -> None:
        for worker in self.alive.values():
            if worker.process.poll() is None:
                worker.kill()


def _sample(text: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found, f"{name} is not among the metrics"
    return float(found[1])


@pytest.fixture
def world(cluster: Endpoints, unique: str) -> LaneWorld:
    return LaneWorld(cluster.kafka_bootstrap, unique)


@pytest.fixture
def fleet(world: LaneWorld, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(world, tmp_path)
    yield fleet
    fleet.end()


def test_joins_leaves_kills_and_restarts_repeat_nothing(
    world: LaneWorld, receiver: HttpReceiver, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    jobs = [f"job{n}" for n in range(EXECUTIONS)]
    changes: list[Callable[[], None]] = [
        lambda: fleet.start("b"),
        lambda: fleet.start("c"),
        lambda: fleet.stop("a"),
        lambda: fleet.kill("b"),
        lambda: fleet.start("b2"),
        lambda: fleet.start("d"),
        lambda: fleet.stop("c"),
        lambda: fleet.start("a2"),
    ]
    fleet.start("a")
    fleet.alive["a"].wait_ready()
    for n in range(EXECUTIONS):
        seconds = 1 + 2 * n / EXECUTIONS
        world.dispatch(f"{receiver.url}/work?s={seconds:.2f}", [jobs[n]], partition=n % LANE_PARTITIONS)
        if n % 20 == 10 and changes:
            changes.pop(0)()
        time.sleep(0.08)
    for change in changes:
        change()

    def decided() -> set[str]:
        return {r.head.job_id for r in world.reports() if r.kind != ReportKind.RUNNING or r.worker_id in fleet.killed}

    wait_until(lambda: decided() == set(jobs), "every execution to be decided", 180)
    for name in list(fleet.alive):
        fleet.stop(name)

    called = Counter(call.headers["Tocsin-Job-Id"] for call in receiver.calls)
    assert [job for job, count in called.items() if count > 1] == [], "without its owner's word nothing runs again"
    reports = world.reports()
    ended = Counter(r.head.job_id for r in reports if r.kind == ReportKind.SUCCEEDED)
    assert set(ended.values()) == {1}
    lost = set(jobs) - ended.keys()
    assert len(lost) <= 24, "no more than the killed worker ran"
    for report in reports:
        if report.kind == ReportKind.RETURNED and report.head.job_id not in ended:
            assert report.reason == "predecessor", "only a kill costs an attempt"
        elif report.kind == ReportKind.RUNNING and report.head.job_id in lost:
            assert report.worker_id in fleet.killed
    assert sum(fleet.refused.values()) == 0, fleet.refused
    handovers_s = fleet.handover_commits_s()
    longest = max(*fleet.commit_s_max.values(), *handovers_s)
    summary = {
        "commit_s_max": round(longest, 3),
        "handovers": len(handovers_s),
        "lost_to_the_kill": len(lost),
        "workers": len(fleet.commit_s_max),
    }
    record_property("rebalances", json.dumps(summary))
    print(f"\nrebalances: {json.dumps(summary)}")
    assert longest < COMMIT_S_MAX
    assert world.begun() == set()
