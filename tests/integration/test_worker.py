"""Workers on a real broker: everything runs once, and what was begun is known after a kill."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.http_receiver import HttpReceiver
from tests.integration.lane_world import LANE_PARTITIONS, LaneWorld, WorkerProcess, wait_until, worker_processes
from tocsin.devcluster import Endpoints
from tocsin.domain.executions import ReportKind

pytestmark = pytest.mark.real


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    server = HttpReceiver()
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


def jobs_called(receiver: HttpReceiver) -> list[str]:
    return [call.headers["Tocsin-Job-Id"] for call in receiver.calls]


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_everything_runs_once_is_reported_and_settled(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[..., WorkerProcess], protocol: str
) -> None:
    jobs = [f"job{n}" for n in range(240)]
    for n in range(0, 240, 20):
        world.dispatch(receiver.url, jobs[n : n + 20], partition=n // 20 % LANE_PARTITIONS)
        world.dispatch(receiver.url, [f"aborted{n}"], partition=n // 20 % LANE_PARTITIONS, abort=True)
    world.write_raw(b"default|damaged.1.1000000|1|5", b"not an execution", partition=0)
    worker = start("w", group_protocol=protocol, running_max=32)
    facts = worker.wait_ready()
    assert (facts["role"], facts["name"], facts["pid"]) == ("worker", "w", worker.process.pid)
    wait_until(lambda: len(receiver.calls) >= 240, "all calls")
    with urllib.request.urlopen(str(facts["metrics_url"]), timeout=30) as answer:
        assert b"tocsin_attempts_started_total" in answer.read()
    assert worker.stop() == 0, worker.log.read_text()

    assert sorted(jobs_called(receiver)) == sorted(jobs)
    assert not any("Tocsin-Redelivered" in call.headers for call in receiver.calls)
    reports = world.reports()
    assert sorted(r.head.job_id for r in reports) == sorted([*jobs, "damaged"])
    assert {r.kind for r in reports if r.head.job_id != "damaged"} == {ReportKind.SUCCEEDED}
    assert {r.error.error_class for r in reports if r.error} == {"undecodable"}
    ends = {p: max(offset for q, offset in world.at if q == p) + 1 for p in range(LANE_PARTITIONS)}
    committed = world.committed()
    assert all(committed[p][0] >= ends[p] - 1 and committed[p][1] == "" for p in range(LANE_PARTITIONS))
    beats = world.heartbeats()
    assert beats[-1].stopped
    assert {(beat.role, beat.name, beat.process_id) for beat in beats} == {("worker", "w", facts["process_id"])}

    again = start("again", group_protocol=protocol)
    again.wait_ready()
    world.dispatch(receiver.url, ["last"], partition=1)
    wait_until(lambda: "last" in jobs_called(receiver), "the last call")
    assert again.stop() == 0
    assert len(receiver.calls) == 241, "nothing that was settled runs again"


def test_after_a_kill_exactly_what_was_begun_is_returned_and_the_rest_runs(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[..., WorkerProcess]
) -> None:
    quick = {f"quick{n}" for n in range(8)}
    slow = {f"slow{n}" for n in range(30)}
    for partition in range(LANE_PARTITIONS):
        world.dispatch(receiver.url + "/gated", sorted(slow)[partition::LANE_PARTITIONS], partition=partition)
        world.dispatch(receiver.url, sorted(quick)[partition::LANE_PARTITIONS], partition=partition)
    first = start("first", running_max=10, lease_after_s=600)
    first.wait_ready()
    # Quick ones may pass by until ten slow ones hold every place.
    wait_until(lambda: len(slow.intersection(jobs_called(receiver))) == 10, "ten slow calls")
    begun = slow.intersection(jobs_called(receiver))
    wait_until(lambda: world.begun() == begun, "the begun list to say just that")
    first.kill()
    assert world.begun() == begun
    done = quick.intersection(jobs_called(receiver))
    assert {r.head.job_id for r in world.reports()} == done

    receiver.calls.clear()
    receiver.gate.set()
    left = (quick | slow) - done - begun
    second = start("second", running_max=10)
    name = second.wait_ready()["process_id"]
    wait_until(lambda: len(world.reports()) >= 38, "a report on each")
    assert second.stop() == 0, second.log.read_text()
    assert sorted(jobs_called(receiver)) == sorted(left), "what may have run is not run on a worker's own account"
    reports = world.reports()
    assert len(reports) == 38
    returned = [r for r in reports if r.kind == ReportKind.RETURNED]
    assert {r.head.job_id for r in returned} == begun
    assert {(r.started, r.reason, r.worker_id) for r in returned} == {("maybe", "predecessor", name)}
    assert {(r.head.attempt, r.head.token) for r in reports} == {(1, 5)}
    assert world.begun() == set()


def test_what_lasts_is_a_lease_that_no_longer_depends_on_its_partition(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[..., WorkerProcess]
) -> None:
    world.dispatch(receiver.url + "/gated", ["slow"], partition=1)
    first = start("first", lease_after_s=0.5)
    name = first.wait_ready()["process_id"]
    wait_until(lambda: len(world.reports()) == 1, "a lease")
    wait_until(lambda: world.begun() == set(), "the lease to settle the offset")
    (lease,) = world.reports()
    assert (lease.kind, lease.head.job_id, lease.worker_id) == (ReportKind.RUNNING, "slow", name)
    assert lease.timeout_s == 60.0
    assert lease.started_at is not None
    first.kill()
    second = start("second")
    second.wait_ready()
    world.dispatch(receiver.url, ["next"], partition=1)
    wait_until(lambda: "next" in jobs_called(receiver), "the next one")
    assert second.stop() == 0
    assert jobs_called(receiver) == ["slow", "next"]
    assert sorted((r.head.job_id, r.kind) for r in world.reports()) == [("next", "SUCCEEDED"), ("slow", "RUNNING")]


def test_a_stop_leaves_at_once_and_lets_what_runs_end(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[..., WorkerProcess]
) -> None:
    jobs = [f"slow{n}" for n in range(12)]
    world.dispatch(receiver.url + "/gated", jobs, partition=2)
    first = start("first", running_max=5, stop_grace_s=60)
    first.wait_ready()
    wait_until(lambda: len(receiver.calls) == 5, "five calls")
    second = start("second", running_max=20)
    second.wait_ready()
    first.process.terminate()
    wait_until(lambda: len(receiver.calls) == 12, "the rest to run elsewhere while the first one drains")
    assert first.process.poll() is None
    receiver.gate.set()
    assert first.process.wait(60) == 0, first.log.read_text()
    assert second.stop() == 0
    assert sorted(jobs_called(receiver)) == sorted(jobs)
    ends = [r.head.job_id for r in world.reports() if r.kind == ReportKind.SUCCEEDED]
    assert sorted(ends) == sorted(jobs)
    assert not any(r.kind == ReportKind.RETURNED for r in world.reports())


def test_what_outlasts_the_grace_of_a_stop_is_returned(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[..., WorkerProcess]
) -> None:
    world.dispatch(receiver.url + "/gated", ["a", "b", "c"], partition=0)
    worker = start("first", running_max=2, stop_grace_s=0.5)
    worker.wait_ready()
    wait_until(lambda: len(receiver.calls) == 2, "two calls")
    assert worker.stop() == 0, worker.log.read_text()
    said = [(r.head.job_id, r.kind, r.started, r.reason) for r in world.reports()]
    begun = jobs_called(receiver)
    for job in begun:
        assert (job, "RUNNING", None, None) in said
        assert (job, "RETURNED", "maybe", "stop") in said
    assert len(said) == 4
    assert world.begun() == set()
    assert world.heartbeats()[-1].stopped


def test_a_worker_without_its_topics_says_what_to_do(cluster: Endpoints, tmp_path: Path, unique: str) -> None:
    world = LaneWorld(cluster.kafka_bootstrap, unique)
    world.names = type(world.names)(f"{unique}.elsewhere.")
    worker = WorkerProcess(world, tmp_path, "lost")
    assert worker.process.wait(60) == 1
    assert "tocsin topics apply" in worker.log.read_text()
