"""tocsin as a contestant: a trigger, and workers with an async handler, on a broker and a store of their own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks.creates import Creates, Outcomes
from benchmarks.peers.programs import PeerFailed, descendants
from benchmarks.peers.stage import HERE, Stage
from benchmarks.results_file import ROOT
from benchmarks.rig import READY_S, Rig, rig
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.clients import base_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.devcluster import DevCluster
from tocsin.domain.instants import format_rfc3339

POOL: Final = "peers"
RUNNING_MAX: Final = 1_000
WARM_LEAD_S: Final = 0.5
CHUNK: Final = 10_000
ENVIRON: Final = {
    "TOCSIN_CLUSTER__POOLS": POOL,
    "TOCSIN_WORKER__APP": f"{HERE}/python/tocsin_app.py:app",
    # One tenant has all jobs, as in the peers, so it need not leave half of the worker to others.
    "TOCSIN_WORKER__RUNNING_MAX": str(RUNNING_MAX),
    "TOCSIN_WORKER__TENANT_RUNNING_MAX": str(RUNNING_MAX),
    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
}


class Follower:
    """Holds the records of topics as they become visible to a read_committed consumer. It decodes nothing meanwhile."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        client = base_config(bootstrap, "peers-reader")
        self._consumer = Consumer(
            {**client, "group.id": "peers-reader", "isolation.level": "read_committed", "enable.auto.commit": False}
        )
        places = []
        for topic in topics:
            partitions = self._consumer.list_topics(topic, timeout=READY_S).topics[topic].partitions
            for p in partitions:
                end = self._consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=READY_S)[1]
                places.append(TopicPartition(topic, p, end))
        self._consumer.assign(places)
        self.seen: dict[str, list[tuple[bytes, bytes, int]]] = {topic: [] for topic in topics}
        """By topic: key, value, and when it was seen, ns since the epoch."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ends.is_set():
            found = [self._consumer.poll(0.02), *self._consumer.consume(CHUNK, 0)]
            now_ns = time.time_ns()
            for message in found:
                if message is not None and message.error() is None:
                    self.seen[str(message.topic())].append((message.key() or b"", message.value() or b"", now_ns))
        self._consumer.close()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()


class TocsinStage:
    """Fulfils ``Stage``. An execution has ended once its SUCCEEDED event is committed."""

    def __init__(self, system: Rig, directory: Path, roles: ExitStack, workers: int) -> None:
        self.starts = directory / "starts"
        self._names_of_workers = ["worker", *(f"worker-{number}" for number in range(2, workers + 1))]
        self._system = system
        self._names = TopicNames(system.settings.kafka.topic_prefix)
        self._trigger = roles.enter_context(system.role("trigger", system.owns_all))
        self._roles = roles
        self._worker_exit = ExitStack()
        self._workers: dict[str, int] = {}
        """Their processes."""
        self._codec = AvroCodec()
        self._numbers: dict[str, int] = {}
        """Of each job."""
        self._dispatches, self._events = self._names.executions(f"pool.{POOL}"), self._names.events
        self._follower = Follower(system.bootstrap, [self._dispatches, self._events])
        roles.callback(self._follower.close)
        roles.callback(self.kill_worker)

    def insert(self, n: int, warm: int, due_ms: int, wait_s: float) -> None:
        outcomes = Outcomes(self._system, self._names, "peers")
        creates = Creates(self._system, self._names, "peers")
        warm_us = int((time.time() + WARM_LEAD_S) * 1_000_000)
        for number in [*range(-warm, 0), *range(n)]:
            target = {"type": "handler", "pool": POOL, "name": "note", "payload": number}
            run_at = format_rfc3339(warm_us if number < 0 else due_ms * 1_000)
            self._numbers[creates.send({"run_at": run_at, "target": target})] = number
        creates.flush()
        decided = outcomes.await_accepted(n + warm, time.time() + wait_s)
        outcomes.close()
        if decided < n + warm:
            raise PeerFailed(f"{decided} of {n + warm} creates were decided\n{self._system.tail('trigger')}")

    def start_worker(self) -> None:
        self._worker_exit = ExitStack()
        extra = {"PEER_STARTS": str(self.starts)}
        for name in self._names_of_workers:
            worker = self._worker_exit.enter_context(self._system.role("worker", lambda _facts: True, name, extra))
            self._workers[name] = worker.pid

    def kill_worker(self) -> None:
        for pid in [pid for worker in self._workers.values() for pid in descendants(worker)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._workers.clear()
        self._worker_exit.close()

    def open_count(self, n: int) -> int:
        # Each execution that goes well has one event, unless it lasts; `ended_numbers` looks closer.
        return n + self._warmed() - len(self._follower.seen[self._events])

    def open_numbers(self, n: int) -> set[int]:
        return set(range(n)) - self.ended_numbers(n)

    def ended_numbers(self, n: int) -> set[int]:
        ended = set()
        for _, value, _ in self._follower.seen[self._events]:
            event = self._codec.decode_event(value)
            if event.state == "SUCCEEDED":
                ended.add(self._numbers[event.head.job_id])
        return {number for number in ended if number >= 0}

    def processes(self) -> dict[str, int]:
        servers = {
            node.name.partition("-")[0]: node.pid
            for node in DevCluster(self._system.directory / "servers").status()
            if node.pid
        }
        return {**self._workers, "trigger": self._trigger.pid, **servers}

    def further(self, n: int, due_ms: int) -> dict[str, Any]:
        """Return when dispatches were visible, from the due time on."""
        visible_ms = sorted(
            seen_ns / 1e6 - due_ms
            for key, _, seen_ns in self._follower.seen[self._dispatches]
            if self._numbers[_job_of(key)] >= 0
        )
        if not visible_ms:
            return {}
        return {
            "fired_per_s": round(len(visible_ms) / visible_ms[-1] * 1_000),
            "fired_ms_p99": round(visible_ms[int(len(visible_ms) * 0.99)], 1),
            "fired_ms_last": round(visible_ms[-1], 1),
            "dispatches": len(visible_ms),
        }

    def _warmed(self) -> int:
        return sum(number < 0 for number in self._numbers.values())


def _job_of(key: bytes) -> str:
    """Return the job of a dispatch's key: tenant, execution, attempt and token; an execution begins with its job."""
    return key.decode().split("|")[1].rsplit(".", 2)[0]


@dataclass(frozen=True)
class Tocsin:
    """The contestant; ``workers``: worker processes, of which each uses one core."""

    name: str
    workers: int

    worker_first = True

    @property
    def set_up(self) -> str:
        return (
            f"one trigger, worker processes: {self.workers}, {RUNNING_MAX} attempts at once in each, one broker and one"
            " store"
        )

    @contextmanager
    def stage(self, directory: Path) -> Iterator[Stage]:
        """Start its servers and its trigger."""
        before = dict(os.environ)
        os.environ.update(ENVIRON)
        try:
            with rig() as system, ExitStack() as roles:
                yield TocsinStage(system, directory, roles, self.workers)
        finally:
            os.environ.clear()
            os.environ.update(before)
