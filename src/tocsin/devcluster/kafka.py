"""A Kafka node: broker and controller in one process (KRaft). Its settings, its storage, its sign of life."""

import base64
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tocsin.devcluster.errors import DevClusterError
from tocsin.devcluster.node import (
    LOOPBACK,
    NotAnsweringError,
    Ports,
    Runtime,
    argument_file,
    class_path_argument,
    properties,
)
from tocsin.devcluster.versions import KAFKA_COORDINATES

FORMAT_TIMEOUT_S = 60.0
FORMAT_OUTPUT_CHARS_MAX = 4000
PROBE_TIMEOUT_S = 5.0
HEAP = ("-Xms256m", "-Xmx512m")


@dataclass
class KafkaNode:
    """The only node of a one-node cluster: controller.quorum and replication settings say so."""

    name: str
    directory: Path
    coordinates: Sequence[str] = KAFKA_COORDINATES
    port_names: Sequence[str] = ("client", "controller")
    started_line: str = "Kafka Server started"
    node_id: int = field(default=1)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def settings_file(self) -> Path:
        return self.directory / "server.properties"

    def prepare(self, ports: Ports, runtime: Runtime) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self.settings_file.write_text(properties(self.settings(ports)), "utf-8")
        jvm = [*HEAP, *JVM_OPTIONS, "-cp", class_path_argument(runtime.class_path)]
        self._jvm_file.write_text(argument_file(jvm), "utf-8")
        if not (self.data / "meta.properties").exists():
            self._format(runtime)

    def arguments(self, runtime: Runtime, ports: Ports) -> Sequence[str]:
        return [f"@{self._jvm_file}", "kafka.Kafka", str(self.settings_file)]

    def probe(self, ports: Ports) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        client = AdminClient({"bootstrap.servers": f"{LOOPBACK}:{ports['client']}", "log_level": 0})
        try:
            client.list_topics(timeout=PROBE_TIMEOUT_S)
        except KafkaException as error:
            raise NotAnsweringError(str(error)) from error

    def settings(self, ports: Ports) -> dict[str, object]:
        """Return the contents of server.properties."""
        client = f"PLAINTEXT://{LOOPBACK}:{ports['client']}"
        controller = f"CONTROLLER://{LOOPBACK}:{ports['controller']}"
        return {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.bootstrap.servers": f"{LOOPBACK}:{ports['controller']}",
            "listeners": f"{client},{controller}",
            "advertised.listeners": f"{client},{controller}",
            "log.dirs": self.data,
            **SETTINGS,
        }

    @property
    def _jvm_file(self) -> Path:
        return self.directory / "jvm.args"

    def _format(self, runtime: Runtime) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # "--cluster-id=" in one word: an id may begin with a dash.
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(self.settings_file)]
        try:
            subprocess.run(
                [str(runtime.java), f"@{self._jvm_file}", *tool, "--standalone"],
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
    # One node: nothing can be replicated.
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    # After a kill the broker is let in again only when the controller has given its former life up.
    "broker.session.timeout.ms": 4000,
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
