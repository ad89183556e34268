"""What a lane's group had committed is lost on a real broker: nothing of it is run again on a worker's own account."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.http_receiver import HttpReceiver
from tests.integration.lane_world import LANE_PARTITIONS, LaneWorld, WorkerProcess, wait_until, worker_processes
from tocsin.adapters.kafka.lane_groups import LaneGroups
from tocsin.bootstrap.lane_groups import check_offsets_retention
from tocsin.config import KafkaSettings, Settings
from tocsin.devcluster import Endpoints
from tocsin.domain.errors import Refused

pytestmark = pytest.mark.real
DAY_MS = 86_400_000


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    server = HttpReceiver()
    yield server
    server.close()


@pytest.fixture
def world(cluster: Endpoints, unique: str) -> LaneWorld:
    return LaneWorld(cluster.kafka_bootstrap, unique)


@pytest.fixture
def start(world: LaneWorld, tmp_path: Path) -> Iterator[Callable[[str], WorkerProcess]]:
    with worker_processes() as make:
        yield partial(make, world, tmp_path)


def _lose_offsets(world: LaneWorld) -> None:
    admin = AdminClient({"bootstrap.servers": world.bootstrap})

    def is_gone() -> bool:
        try:
            [future] = admin.delete_consumer_groups([world.names.group("worker.default")]).values()
            future.result(30)
        except KafkaException:
            return False  # the group still counts its last member
        return True

    wait_until(is_gone, "the group to be deleted")
    assert world.committed() == {}


def test_what_is_below_the_end_is_returned_and_what_comes_later_runs(
    world: LaneWorld, receiver: HttpReceiver, start: Callable[[str], WorkerProcess]
) -> None:
    done, queued, later = ([f"{what}{n}" for n in range(8)] for what in ("done", "queued", "later"))
    for n in range(8):
        world.dispatch(receiver.url, [done[n]], partition=n % LANE_PARTITIONS)
    first = start("first")
    wait_until(lambda: len(receiver.calls) == 8, "the first ones to run")
    assert first.stop() == 0, first.log.read_text()
    for n in range(8):
        world.dispatch(receiver.url, [queued[n]], partition=n % LANE_PARTITIONS)
    _lose_offsets(world)

    second = start("second")
    second.wait_ready()
    for n in range(8):
        world.dispatch(receiver.url, [later[n]], partition=n % LANE_PARTITIONS)
    wait_until(lambda: len(receiver.calls) == 16, "what came later to run")
    assert second.stop() == 0, second.log.read_text()
    called = [call.headers["Tocsin-Job-Id"] for call in receiver.calls]
    assert sorted(called) == sorted(done + later), "nothing that may have run is run again"
    reports = [r for r in world.reports() if r.kind == "RETURNED"]
    assert sorted(r.head.job_id for r in reports) == sorted(done + queued)
    assert {(r.started, r.reason) for r in reports} == {("maybe", "predecessor")}
    assert {p: metadata for p, (_, metadata) in world.committed().items()} == dict.fromkeys(range(LANE_PARTITIONS), "")
    assert "worker.offsets_lost" in second.log.read_text()


def test_the_first_commits_are_made_where_nothing_ever_stood(world: LaneWorld) -> None:
    assert world.committed() == dict.fromkeys(range(LANE_PARTITIONS), (0, "")), "made with the topic"
    lanes = {world.names.group("worker.default"): world.lane}
    groups = LaneGroups(world.bootstrap)
    assert set(groups.begin(lanes).values()) == {0}, "once is enough"
    _lose_offsets(world)
    world.dispatch("http://127.0.0.1:1/", ["a"], partition=2)
    assert set(groups.begin(lanes).values()) == {LANE_PARTITIONS - 1}
    assert sorted(world.committed()) == [0, 1, 3], "what is lost is not covered up"


def test_a_worker_does_not_start_where_brokers_forget_its_place_first(
    world: LaneWorld, start: Callable[[str], WorkerProcess]
) -> None:
    settings = Settings(
        kafka=KafkaSettings(bootstrap_servers=world.bootstrap, topic_prefix=world.names.prefix), ready_file=None
    )
    check_offsets_retention(settings, ["default", "not there"])
    longer = ConfigEntry("retention.ms", str(14 * DAY_MS), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, world.lane, incremental_configs=[longer])
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    [altered] = admin.incremental_alter_configs([resource]).values()
    altered.result(30)
    with pytest.raises(Refused, match=r"offsets.retention.minutes is 20160 \(14 days\), .* keeps its records for 14"):
        check_offsets_retention(settings, ["default"])
    worker = start("w")
    assert worker.process.wait(60) == 1
    assert "offsets.retention.minutes" in worker.log.read_text()
