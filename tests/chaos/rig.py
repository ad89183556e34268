"""A cluster under test: several servers, several processes of every role, and what can be done to them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.chaos.receiver import Receiver
from tests.chaos.small_disk import SmallDisk, small_disk
from tests.e2e.system import System, wait_for, wait_until_empty
from tocsin.devcluster import DevCluster

SHARDS = 8
PATIENCE_S = 420.0
"""How long what must come may take on a busy machine."""
FLEET = (*(f"{role}-{n}" for role in ("trigger", "worker") for n in (1, 2, 3)), "projector", "gateway")


class Rig:
    """The processes of one part, by names such as ``trigger-1``, and the servers below them.

    Args:
        cluster: the servers.
        system: the processes.
        receiver: what the jobs call.
        fleet: the processes that a supervisor keeps running.
    """

    def __init__(self, cluster: DevCluster, system: System, receiver: Receiver, fleet: Sequence[str] = FLEET) -> None:
        self.cluster = cluster
        self.system = system
        self.receiver = receiver
        self.fleet = fleet
        self.small_disk: SmallDisk | None = None
        """The disk of one broker, where it can be filled."""
        self.steady: dict[str, int] = {}
        """Jobs of every second, with their shards; filled by the load."""
        self.admin = AdminClient({"bootstrap.servers": system.endpoints.kafka_bootstrap, "log_level": 0})

    @property
    def prefix(self) -> str:
        return f"{self.system.unique}."

    @property
    def trigger_group(self) -> str:
        return self.system.unique + ".trigger"

    def names(self, role: str) -> list[str]:
        """Return the living processes of a role."""
        known = [name for name in self.system.processes if name.split("-")[0] == role]
        return [name for name in known if self.system.processes[name].poll() is None]

    def start(self, *names: str, env: dict[str, str] | None = None, wait: bool = True) -> None:
        for name in names:
            self.system.start_unready(name.split("-")[0], name, env)
        for name in names if wait else ():
            self.system.wait_ready(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        os.kill(self.system.processes[name].pid, number)

    def stop(self, *names: str) -> None:
        """Ask processes to end, and wait; one that ends with another code than 0 is told of, for it is allowed to."""
        for name in names:
            self.signal(name, signal.SIGTERM)
        for name in names:
            code = self.system.processes[name].wait(PATIENCE_S)
            if code != 0:
                print(f"{name} ended with {code} when it was asked to stop", flush=True)

    def kill(self, *names: str) -> None:
        for name in names:
            self.system.kill(name)

    def revive(self) -> None:
        """Start again what has ended, as a supervisor does."""
        down = [name for name in self.fleet if self.system.processes[name].poll() is not None]
        if down:
            self.start(*down, wait=False)

    def is_standing(self, name: str) -> bool:
        """Tell whether a process is stopped, as by SIGSTOP."""
        process = self.system.processes[name]
        assert process.poll() is None, f"{name} ended with {process.returncode} before it stood still"
        text = Path(f"/proc/{process.pid}/stat").read_text("utf-8")
        return text.rpartition(")")[2].split()[0] in ("T", "t")

    def owners(self) -> dict[int, str]:
        """Return which trigger the group gave each shard to; empty while it is forming."""
        future = self.admin.describe_consumer_groups([self.trigger_group], request_timeout=20)[self.trigger_group]
        found = {}
        for member in future.result().members:
            for partition in member.assignment.topic_partitions if member.assignment else ():
                found[partition.partition] = member.client_id.rpartition(f"{self.system.unique}-")[2]
        return found

    def wait_owned(self) -> dict[int, str]:
        """Wait until every shard has an owner, and return them."""
        return wait_for("every shard to be owned", lambda: (o := self.owners()) and len(o) == SHARDS and o, PATIENCE_S)

    @property
    def worker_group(self) -> str:
        return self.system.unique + ".worker.default"

    def coordinator(self, group: str | None = None) -> str:
        """Return the server that coordinates a group: the triggers', unless another is named."""
        group = group or self.trigger_group
        future = self.admin.describe_consumer_groups([group], request_timeout=20)[group]
        return f"kafka-{future.result().coordinator.id}"

    def delete_offsets(self, group: str) -> None:
        """Drop a group without members with its offsets, as their expiry would."""

        # A client that has not seen the brokers restart: one that has may ask the wrong one for minutes.
        admin = AdminClient({"bootstrap.servers": self.system.endpoints.kafka_bootstrap, "log_level": 0})

        def refusal() -> str | None:
            error = admin.delete_consumer_groups([group], request_timeout=10)[group].exception(30)
            gone = isinstance(error, KafkaException) and error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
            return None if error is None or gone else str(error)

        wait_until_empty(f"the group {group} to be deleted", refusal, PATIENCE_S)
        asked = [ConsumerGroupTopicPartitions(group)]
        left = admin.list_consumer_group_offsets(asked)[group]
        assert not left.result(30).topic_partitions

    def wait_firing(self, since: float | None = None) -> None:
        """Wait until every shard has fired something that came due after now."""
        since_us = int((since or time.time()) * 1_000_000)
        wanted = set(self.steady.values())

        def fired() -> bool:
            seen = {
                self.steady[job]
                for call in self.receiver.calls[-5_000:]
                if call.scheduled_for >= since_us and (job := call.execution_id.split(".", 1)[0]) in self.steady
            }
            return seen == wanted

        wait_for("every shard to fire again", lambda: self.revive() or fired(), PATIENCE_S)


@contextmanager
def rig(directory: Path, unique: str, brokers: int, stores: int, *, with_small_disk: bool) -> Iterator[Rig]:
    """Start servers and processes, and leave none behind."""
    servers = directory / "servers"
    cluster = DevCluster(servers, brokers=brokers, stores=stores)
    with small_disk(servers, brokers) if with_small_disk else nullcontext() as disk:
        try:
            endpoints = cluster.up(die_with_parent=True)
            with running(cluster, System(endpoints, unique, directory)) as made:
                made.small_disk = disk
                yield made
        finally:
            cluster.down()


@contextmanager
def running(cluster: DevCluster, system: System, fleet: Sequence[str] = FLEET) -> Iterator[Rig]:
    """Start all processes on servers that run, and end them; what ``system.settings`` says goes first."""
    receiver = Receiver()
    system.settings = {
        "TOCSIN_CLUSTER__SHARDS": str(SHARDS),
        "TOCSIN_CLUSTER__LANE_PARTITIONS": "8",
        "TOCSIN_WORKER__STOP_GRACE_S": "5",
        **system.settings,
    }
    try:
        system.create()
        made = Rig(cluster, system, receiver, fleet)
        made.start(*fleet)
        yield made
    finally:
        for process in system.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)  # also one that stands still
        for process in system.processes.values():
            process.wait(20)
        system.close()
        receiver.close()
