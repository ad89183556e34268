"""Commands in a real worker: output in the real store, ends in the log, and nothing of them left after a kill."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.lane_world import CODEC, LaneWorld, WorkerProcess, wait_until, worker_processes
from tests.kafka_topics import create_topics
from tests.unit.targets.programs import running_with
from tocsin.adapters.cassandra.migrations import create_keyspace, migrate
from tocsin.adapters.cassandra.run_logs import CassandraRunLogReader
from tocsin.adapters.cassandra.session import Connection, StoreAddress, connect
from tocsin.adapters.kafka.lane_groups import LaneGroups
from tocsin.devcluster import Endpoints
from tocsin.domain.executions import AttemptHead, dispatch_key
from tocsin.domain.ids import execution_id
from tocsin.domain.programs import CommandTarget

pytestmark = pytest.mark.real


class PoolWorld(LaneWorld):
    """A pool's lane, and a keyspace for output."""

    def __init__(self, cluster: Endpoints, name: str) -> None:
        super().__init__(cluster.kafka_bootstrap, name)
        self.lane = self.names.executions("pool.batch")
        create_topics(cluster.kafka_bootstrap, {self.lane: 1})
        LaneGroups(cluster.kafka_bootstrap).begin({self.names.group("worker.pool.batch"): self.lane})
        self.address = StoreAddress(cluster.cassandra_contact_points, cluster.cassandra_port, name)
        create_keyspace(self.address, replication_factor=1)

    def run(self, job: str, text: str, *, mark: str = "", token: int = 5, losses: int = 0) -> str:
        """Dispatch a shell's work; return its execution."""
        identity = execution_id(job, 1, 1_000_000)
        head = AttemptHead(1, token, losses, identity, job, "default", 1, 1_000_000, 1_000_000)
        target = CommandTarget(("/bin/sh", "-c", text), "batch", {"MARK": mark}, timeout_s=60.0)
        self._producer.begin_transaction()
        self._produce(
            dispatch_key("default", identity, 1, token).encode(), CODEC.encode_execution(head, target), job, 0, False
        )
        self._finish(abort=False)
        return identity

    def settings(self, **worker: object) -> dict[str, object]:
        return {"lanes": "", "pools": "batch", "allow_command": "true", "program_grace_s": 0.5, **worker}


@pytest.fixture
def world(cluster: Endpoints, unique: str, monkeypatch: pytest.MonkeyPatch) -> PoolWorld:
    monkeypatch.setenv("TOCSIN_CASSANDRA__CONTACT_POINTS", ",".join(cluster.cassandra_contact_points))
    monkeypatch.setenv("TOCSIN_CASSANDRA__PORT", str(cluster.cassandra_port))
    monkeypatch.setenv("TOCSIN_CASSANDRA__KEYSPACE", unique)
    return PoolWorld(cluster, unique)


@pytest.fixture
def store(world: PoolWorld) -> Iterator[Connection]:
    opened = connect(world.address)
    migrate(opened)
    yield opened
    opened.close()


@pytest.fixture
def start(world: PoolWorld, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    with worker_processes() as make:

        def make_ready(name: str, **worker: object) -> WorkerProcess:
            made = make(world, tmp_path, name, **world.settings(**worker))
            made.wait_ready()
            return made

        yield make_ready


def test_commands_run_in_their_pool_print_into_the_store_and_do_not_outlive_their_worker(
    world: PoolWorld, store: Connection, start: Callable[..., WorkerProcess]
) -> None:
    reader = CassandraRunLogReader(store)

    def text(identity: str) -> str:
        return "".join(chunk.text for chunk in asyncio.run(reader.read_log(identity, 1, None, 100)))

    mark = uuid.uuid4().hex
    good, bad = world.run("good", "echo $TOCSIN_EXECUTION_ID; echo err >&2"), world.run("bad", "echo why; exit 3")
    alone = world.run("alone", "echo $TOCSIN_REDELIVERED", losses=2)
    long = world.run("long", "trap '' TERM; echo started; sleep 1000 & setsid sleep 1000", mark=mark)
    first = start("first")
    wait_until(lambda: len(world.reports()) >= 3, "three reports")
    wait_until(lambda: text(long) == "started\n", "output of what runs")
    ends = {r.head.job_id: r for r in world.reports() if r.kind != "RUNNING"}
    assert (ends["good"].kind, ends["good"].result) == ("SUCCEEDED", f"{good}\nerr")
    assert ends["bad"].error is not None
    assert (ends["bad"].error.error_class, ends["bad"].error.status, ends["bad"].result) == ("exit", 3, "why")
    assert (ends["alone"].kind, ends["alone"].result) == ("SUCCEEDED", "true"), "what was lost twice runs alone"
    for identity, wanted in ((good, f"{good}\nerr\n"), (bad, "why\n"), (alone, "true\n")):
        wait_until(lambda identity=identity, wanted=wanted: text(identity) == wanted, "all output")

    assert len(running_with(mark)) >= 3
    first.kill()
    wait_until(lambda: running_with(mark) == [], "all that the command started to end with its worker")
    assert start("second", allow_command="false").process.poll() is None
    world.run("refused", "echo never")
    wait_until(lambda: any(r.head.job_id == "refused" for r in world.reports()), "the refusal")
    said = {r.head.job_id: r for r in world.reports()}
    assert (said["long"].kind, said["long"].reason) in {("RETURNED", "predecessor"), ("RUNNING", None)}
    refused = said["refused"].error
    assert refused is not None
    assert (refused.error_class, "--allow-command" in refused.message) == ("not_allowed", True)
