"""Workers on a real broker: everything runs once, and what was begun is known after a kill."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.http_receiver import HttpReceiver
from tests.integration.lane_world import LANE_PARTITIONS, LaneWorld, WorkerProcess, wait_until
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
    workers: list[WorkerProcess] = []

    def make(name: str, **settings: object) -> WorkerProcess:
        workers.append(WorkerProcess(world, tmp_path, name, **settings))
        return workers[-1]

    yield make
    for worker in workers:
        if worker.process.poll() is None:
            worker.kill()


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


def test_after_a_kill_exactly_what_was_begun_is_marked_as_redelivered(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[..., WorkerProcess]
) -> None:
    quick = {f"quick{n}" for n in range(8)}
    slow = {f"slow{n}" for n in range(30)}
    for partition in range(LANE_PARTITIONS):
        world.dispatch(receiver.url + "/gated", sorted(slow)[partition::LANE_PARTITIONS], partition=partition)
        world.dispatch(receiver.url, sorted(quick)[partition::LANE_PARTITIONS], partition=partition)
    first = start("first", running_max=10)
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
    left = (quick | slow) - done
    second = start("second", running_max=10)
    wait_until(lambda: len(receiver.calls) >= len(left), "all calls")
    assert second.stop() == 0, second.log.read_text()
    assert sorted(jobs_called(receiver)) == sorted(left)
    redelivered = {c.headers["Tocsin-Job-Id"] for c in receiver.calls if c.headers.get("Tocsin-Redelivered") == "true"}
    assert redelivered == begun
    reports = world.reports()
    assert len(reports) == 38
    assert {r.head.job_id for r in reports if r.redelivered} == begun
    assert {(r.head.attempt, r.head.token) for r in reports} == {(1, 5)}
    assert world.begun() == set()


def test_a_stop_lets_what_runs_end_and_leaves_the_rest_to_others(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[..., WorkerProcess]
) -> None:
    jobs = [f"slow{n}" for n in range(12)]
    world.dispatch(receiver.url + "/gated", jobs, partition=2)
    first = start("first", running_max=5)
    first.wait_ready()
    wait_until(lambda: len(receiver.calls) == 5, "five calls")
    first.process.terminate()
    second = start("second", running_max=5)
    receiver.gate.set()
    assert first.process.wait(60) == 0, first.log.read_text()
    wait_until(lambda: len(receiver.calls) >= 12, "all calls")
    assert second.stop() == 0
    assert sorted(jobs_called(receiver)) == sorted(jobs)
    assert not any("Tocsin-Redelivered" in call.headers for call in receiver.calls)


def test_a_worker_without_its_topics_says_what_to_do(cluster: Endpoints, tmp_path: Path, unique: str) -> None:
    world = LaneWorld(cluster.kafka_bootstrap, unique)
    world.names = type(world.names)(f"{unique}.elsewhere.")
    worker = WorkerProcess(world, tmp_path, "lost")
    assert worker.process.wait(60) == 1
    assert "tocsin topics apply" in worker.log.read_text()
