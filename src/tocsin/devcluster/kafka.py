"""A Kafka node: broker and controller in one process (KRaft). Its settings, its storage, its sign of life."""

import base64
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tocsin.devcluster.errors import DevClusterError
from tocsin.devcluster.node import (
    LOOPBACK,
    AllPorts,
    NotAnsweringError,
    Ports,
    Runtime,
    argument_file,
    class_path_argument,
    properties,
)
from tocsin.devcluster.versions import KAFKA_COORDINATES

FORMAT_TIMEOUT_S = 120.0
FORMAT_OUTPUT_CHARS_MAX = 4000
PROBE_TIMEOUT_S = 5.0
HEAP = ("-Xms256m", "-Xmx512m")


@dataclass
class KafkaNode:
    """One of ``size`` nodes that are alike: each a broker, and a voter of the controllers' quorum."""

    name: str
    directory: Path
    node_id: int = 1
    size: int = 1
    host: str = LOOPBACK
    coordinates: Sequence[str] = KAFKA_COORDINATES
    port_names: Sequence[str] = ("client", "controller")
    started_line: str = "Kafka Server started"

    def same_ports(self) -> Mapping[str, str]:
        return {}

    def must_wait_for(self) -> str | None:
        return None  # a quorum needs the others, so all start at once

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def settings_file(self) -> Path:
        return self.directory / "server.properties"

    def prepare(self, ports: AllPorts, runtime: Runtime) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self.settings_file.write_text(properties(self.settings(ports)), "utf-8")
        jvm = [*HEAP, *JVM_OPTIONS, "-cp", class_path_argument(runtime.class_path)]
        self._jvm_file.write_text(argument_file(jvm), "utf-8")
        if not (self.data / "meta.properties").exists():
            self._format(runtime, ports)

    def arguments(self, runtime: Runtime, ports: Ports) -> Sequence[str]:
        return [f"@{self._jvm_file}", "kafka.Kafka", str(self.settings_file)]

    def note_ready(self) -> None:
        """Nothing to remember: the quorum does."""

    def probe(self, ports: Ports) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        client = AdminClient({"bootstrap.servers": f"{LOOPBACK}:{ports['client']}", "log_level": 0})
        try:
            client.list_topics(timeout=PROBE_TIMEOUT_S)
        except KafkaException as error:
            raise NotAnsweringError(str(error)) from error

    def settings(self, ports: AllPorts) -> dict[str, object]:
        """Return the contents of server.properties."""
        own = ports[self.name]
        client = f"PLAINTEXT://{LOOPBACK}:{own['client']}"
        controller = f"CONTROLLER://{LOOPBACK}:{own['controller']}"
        voters = ",".join(f"{LOOPBACK}:{ports[name]['controller']}" for name in self._names())
        return {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.bootstrap.servers": voters,
            "listeners": f"{client},{controller}",
            "advertised.listeners": f"{client},{controller}",
            "log.dirs": self.data,
            **SETTINGS,
            **replication(self.size),
        }

    def _names(self) -> list[str]:
        stem = self.name.rpartition("-")[0]
        return [f"{stem}-{node_id}" for node_id in range(1, self.size + 1)]

    @property
    def _jvm_file(self) -> Path:
        return self.directory / "jvm.args"

    def _format(self, runtime: Runtime, ports: AllPorts) -> None:
        # "--cluster-id=" in one word: an id may begin with a dash.
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={self._cluster_id()}", "-c"]
        tool += [str(self.settings_file), f"--initial-controllers={self._voters(ports)}"]
        try:
            subprocess.run(
                [str(runtime.java), f"@{self._jvm_file}", *tool],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=FORMAT_TIMEOUT_S,
                check=True,
                stdin=subprocess.DEVNULL,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise DevClusterError(
                f"{self.name}: formatting {self.data} failed",
                remedy="read the output below; `tocsin devcluster up --fresh` starts from nothing",
                log_tail=(error.output or b"").decode("utf-8", errors="replace")[-FORMAT_OUTPUT_CHARS_MAX:],
            ) from error

    def _cluster_id(self) -> str:
        """Return the id that all nodes below one directory agree on; another directory has another."""
        return _base64(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.directory.parent}#cluster"))

    def _voters(self, ports: AllPorts) -> str:
        """Return the quorum that a new cluster begins with; each voter's directory gets the id that is told here."""
        return ",".join(
            f"{node_id}@{LOOPBACK}:{ports[name]['controller']}:{_base64(uuid.uuid5(uuid.NAMESPACE_URL, str(node_id)))}"
            for node_id, name in enumerate(self._names(), 1)
        )


def _base64(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def replication(size: int) -> dict[str, object]:
    """Return how often a cluster of so many brokers keeps things, and when it gives a silent broker up."""
    copies = min(size, COPIES_MAX)
    in_sync = 2 if copies >= COPIES_MAX else 1
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
        # Alone, a broker that was killed is let in again only when the controller has given its former life up. With
        # others, giving one up too soon, on a busy machine, only moves leaders about.
        "broker.session.timeout.ms": 4000 if size == 1 else 6000,
    }


COPIES_MAX = 3

JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
)

SETTINGS: dict[str, object] = {
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": False,
    # Few partitions for internal topics: each costs files and start time.
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
    "broker.heartbeat.interval.ms": 500,
    # Groups that form at once and notice a dead member soon, as tests want; both protocols.
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 5000,
    "group.consumer.min.session.timeout.ms": 5000,
    "group.consumer.session.timeout.ms": 10000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "transaction.max.timeout.ms": 60000,
    "offsets.retention.minutes": 20160,
    "log.cleaner.dedupe.buffer.size": 2097152,
}
