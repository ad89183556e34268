"""A lane on a real broker, with what a worker needs around it, and workers in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.kafka_topics import create_topics
from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.kafka.lane_groups import LaneGroups
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.executions import AttemptHead, AttemptReport, dispatch_key
from tocsin.domain.fleet import Heartbeat
from tocsin.domain.ids import execution_id
from tocsin.domain.targets import HttpTarget
from tocsin.engine.offset_metadata import decode_marks

CODEC = AvroCodec()
LANE_PARTITIONS = 4
SHARDS = 3
RUN_WORKER = """
import sys
from tocsin.bootstrap.worker import run_worker
from tocsin.config import Settings
sys.exit(run_worker(Settings()))
"""


def wait_until(done: Callable[[], bool], what: str, wait_s: float = 90.0) -> None:
    until = time.monotonic() + wait_s
    while not done():
        assert time.monotonic() < until, f"waited too long for {what}"
        time.sleep(0.05)


class LaneWorld:
    """Topics of one prefix, and what stands in them."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.names = TopicNames(f"{name}.")
        self.lane = self.names.executions("default")
        create_topics(
            bootstrap,
            {self.lane: LANE_PARTITIONS, self.names.reports: SHARDS, self.names.fleet: 1, self.names.worker_control: 1},
        )
        LaneGroups(bootstrap).begin({self.names.group("worker.default"): self.lane})
        settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "retry.backoff.ms": 1, "log_level": 2}
        self._producer = Producer(settings | {"retry.backoff.max.ms": 10})
        self._producer.init_transactions()
        self.at: dict[tuple[int, int], str] = {}
        """Job by partition and offset."""
        self._readers: dict[str, tuple[Consumer, list[bytes]]] = {}
        """By topic: who reads it, and what came so far. A new one for each question costs more than the question."""
        self._reports: list[AttemptReport] = []
        self._asker = Consumer({"bootstrap.servers": bootstrap, "group.id": self.names.group("worker.default")})

    def dispatch(
        self, url: str, jobs: Iterable[str], *, partition: int, abort: bool = False, tenant: str = "default"
    ) -> None:
        """Write executions in one transaction; aborted ones are never delivered, and leave gaps."""
        self._producer.begin_transaction()
        for job in jobs:
            identity = execution_id(job, 1, 1_000_000)
            head = AttemptHead(1, 5, 0, identity, job, tenant, 1, 1_000_000, 1_000_000)
            value = CODEC.encode_execution(head, HttpTarget(url, timeout_s=60.0))
            key = dispatch_key(tenant, identity, 1, 5).encode()
            self._produce(key, value, job, partition, abort)
        self._finish(abort)

    def write_raw(self, key: bytes, value: bytes, partition: int) -> None:
        self._producer.begin_transaction()
        self._produce(key, value, "", partition, abort=True)
        self._finish(abort=False)

    def _produce(self, key: bytes, value: bytes, job: str, partition: int, abort: bool) -> None:
        def delivered(error: object, message: object) -> None:
            if not abort:
                self.at[(message.partition(), message.offset())] = job  # type: ignore[attr-defined]

        self._producer.produce(self.lane, value, key, partition, on_delivery=delivered)

    def _finish(self, abort: bool) -> None:
        self._producer.flush(30)
        if abort:
            self._producer.abort_transaction()
        else:
            self._producer.commit_transaction()

    def read(self, topic: str, partitions: int) -> list[bytes]:
        """Return all values of a topic, as of now."""
        places = [TopicPartition(topic, p, 0) for p in range(partitions)]
        if topic not in self._readers:
            settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "enable.auto.commit": False}
            self._readers[topic] = Consumer(settings), []
            self._readers[topic][0].assign(places)
        reader, values = self._readers[topic]
        end = sum(reader.get_watermark_offsets(place, timeout=30)[1] for place in places)
        until = time.monotonic() + 60
        while len(values) < end:
            assert time.monotonic() < until
            # consume(n, t) waits for n messages or all of t; poll(t) returns with the first.
            if (first := reader.poll(0.2)) is not None:
                found = [first, *reader.consume(500, 0)]
                values += [message.value() or b"" for message in found if message.error() is None]
        return list(values)

    def reports(self) -> list[AttemptReport]:
        values = self.read(self.names.reports, SHARDS)
        self._reports += [CODEC.decode_report(value) for value in values[len(self._reports) :]]
        return list(self._reports)

    def heartbeats(self) -> list[Heartbeat]:
        return [CODEC.decode_heartbeat(value) for value in self.read(self.names.fleet, 1)]

    def committed(self) -> dict[int, tuple[int, str]]:
        """Return offset and metadata of every partition that has any."""
        answers = self._asker.committed([TopicPartition(self.lane, p) for p in range(LANE_PARTITIONS)], timeout=30)
        return {a.partition: (a.offset, a.metadata or "") for a in answers if a.offset >= 0}

    def begun(self) -> set[str]:
        """Return the jobs that are on the begun lists."""
        return {
            self.at[(partition, offset + begun)]
            for partition, (offset, metadata) in self.committed().items()
            for begun in decode_marks(metadata).begun
        }


class Prefixed(Protocol):
    """Topics of one prefix on a broker."""

    bootstrap: str
    names: TopicNames


class WorkerProcess:
    """A worker in a process of its own.

    Args:
        altered: statements that its process runs first: they change what cannot be set.
    """

    def __init__(self, world: Prefixed, directory: Path, name: str, *, altered: str = "", **worker: object) -> None:
        self.ready_file = directory / f"{name}.json"
        self.log = directory / f"{name}.log"
        environment = {
            **os.environ,
            "TOCSIN_KAFKA__BOOTSTRAP_SERVERS": world.bootstrap,
            "TOCSIN_KAFKA__TOPIC_PREFIX": world.names.prefix,
            "TOCSIN_NAME": name,
            "TOCSIN_READY_FILE": str(self.ready_file),
            "TOCSIN_HEARTBEAT_EVERY_S": "0.5",
            "TOCSIN_WORKER__ALLOW_PRIVATE_TARGETS": "true",
            "TOCSIN_WORKER__LANES": '["default"]',
            # Nearly all is one tenant's here, which would have half of the room.
            "TOCSIN_WORKER__TENANT_RUNNING_MAX": "1000",
            **{f"TOCSIN_WORKER__{key.upper()}": str(value) for key, value in worker.items()},
        }
        with self.log.open("w") as log:
            self.process = subprocess.Popen([sys.executable, "-c", altered + RUN_WORKER], env=environment, stderr=log)

    def wait_ready(self) -> dict[str, object]:
        wait_until(lambda: self.ready_file.exists() or self.process.poll() is not None, "the worker to be ready")
        assert self.process.poll() is None, self.log.read_text()
        facts: dict[str, object] = json.loads(self.ready_file.read_text())
        return facts

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """Ask it to stop, and return its exit status."""
        self.process.terminate()
        return self.process.wait(60)


@contextmanager
def worker_processes() -> Iterator[Callable[..., WorkerProcess]]:
    """Make workers as ``WorkerProcess`` does; those that still run in the end are killed."""
    workers: list[WorkerProcess] = []

    def make(world: Prefixed, directory: Path, name: str, **settings: object) -> WorkerProcess:
        workers.append(WorkerProcess(world, directory, name, **settings))  # type: ignore[arg-type]
        return workers[-1]

    try:
        yield make
    finally:
        for worker in workers:
            if worker.process.poll() is None:
                worker.kill()
