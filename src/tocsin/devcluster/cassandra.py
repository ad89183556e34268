"""A Cassandra node: its settings, its Java options, its sign of life."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tocsin.devcluster.node import (
    LOOPBACK,
    AllPorts,
    NotAnsweringError,
    Ports,
    Runtime,
    argument_file,
    class_path_argument,
)
from tocsin.devcluster.versions import CASSANDRA_COORDINATES

CLUSTER_NAME = "tocsin-dev"
PROBE_TIMEOUT_S = 10.0
JOINED = "joined"
"""A file beside the data of a node that was ready once, and so has its place in the ring."""
HEAP = ("-Xss256k", "-Xms512m", "-Xmx768m")


@dataclass
class CassandraNode:
    """One node of a ring whose first is the seed of all; each has an address of its own, and they share ports."""

    name: str
    directory: Path
    number: int = 1
    size: int = 1
    coordinates: Sequence[str] = CASSANDRA_COORDINATES
    port_names: Sequence[str] = ("client", "storage", "jmx")
    started_line: str = "Startup complete"

    @property
    def host(self) -> str:
        return f"127.0.0.{self.number}"

    def same_ports(self) -> Mapping[str, str]:
        return {} if self.number == 1 else {"client": self._nth(1), "storage": self._nth(1)}

    def must_wait_for(self) -> str | None:
        # Two nodes that join a ring at once may choose the same place in it; who has joined keeps its place.
        return None if self.number == 1 or (self.data / JOINED).exists() else self._nth(self.number - 1)

    def _nth(self, number: int) -> str:
        return f"{self.name.rpartition('-')[0]}-{number}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def settings_file(self) -> Path:
        return self.directory / "cassandra.yaml"

    def prepare(self, ports: AllPorts, runtime: Runtime) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self.settings_file.write_text(yaml.safe_dump(self.settings(ports), sort_keys=False), "utf-8")
        self._logback_file.write_text(LOGBACK, "utf-8")
        self._jvm_file.write_text(argument_file(self.jvm_options(runtime, ports[self.name])), "utf-8")

    def arguments(self, runtime: Runtime, ports: Ports) -> Sequence[str]:
        return [f"@{self._jvm_file}", "org.apache.cassandra.service.CassandraDaemon"]

    def note_ready(self) -> None:
        (self.data / JOINED).touch()

    def probe(self, ports: Ports) -> None:
        from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
        from cassandra.policies import WhiteListRoundRobinPolicy

        profile = ExecutionProfile(WhiteListRoundRobinPolicy([self.host]), request_timeout=PROBE_TIMEOUT_S)
        cluster = Cluster(
            [self.host],
            port=ports["client"],
            connect_timeout=PROBE_TIMEOUT_S,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            protocol_version=5,
        )
        try:
            cluster.connect().execute("SELECT release_version FROM system.local")
        except (NoHostAvailable, OSError) as error:
            raise NotAnsweringError(str(error)) from error
        finally:
            cluster.shutdown()

    def settings(self, ports: AllPorts) -> dict[str, object]:
        """Return the contents of cassandra.yaml."""
        own = ports[self.name]
        seeds = [{"seeds": f"{LOOPBACK}:{ports[self._nth(1)]['storage']}"}]
        return {
            "cluster_name": CLUSTER_NAME,
            "num_tokens": 1,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "commitlog_sync": "periodic",
            "commitlog_sync_period": "1000ms",
            "data_file_directories": [str(self.data / "tables")],
            "commitlog_directory": str(self.data / "commitlog"),
            "cdc_raw_directory": str(self.data / "cdc_raw"),
            "hints_directory": str(self.data / "hints"),
            "saved_caches_directory": str(self.data / "saved_caches"),
            "seed_provider": [{"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": seeds}],
            "listen_address": self.host,
            "rpc_address": self.host,
            "storage_port": own["storage"],
            "native_transport_port": own["client"],
            "start_native_transport": True,
            "endpoint_snitch": "SimpleSnitch",
            "auto_snapshot": False,
            # Batches are how rows get in fast; below the size at which they are refused, a warning each is only noise.
            "batch_size_warn_threshold": "64KiB",
            "unlogged_batch_across_partitions_warn_threshold": 100,
            "memtable": {"configurations": {"default": {"class_name": "TrieMemtable"}}},
        }

    def jvm_options(self, runtime: Runtime, ports: Ports) -> list[str]:
        """Return Java's options, without the main class."""
        agent = next(jar for jar in runtime.class_path if jar.name.startswith("jamm-"))
        return [
            f"-javaagent:{agent}",  # measures objects; Cassandra does not start without it
            *HEAP,
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.net.preferIPv4Stack=true",
            "-Djdk.attach.allowAttachSelf=true",
            "-Dio.netty.tryReflectionSetAccessible=true",
            *(f"--add-exports={package}=ALL-UNNAMED" for package in EXPORTS),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENS),
            f"-Dcassandra.config={self.settings_file.as_uri()}",
            f"-Dcassandra.storagedir={self.data}",
            f"-Dcassandra.logdir={self.directory / 'log'}",
            "-Dcassandra-foreground=yes",
            f"-Dcassandra.jmx.local.port={ports['jmx']}",
            f"-Dlogback.configurationFile={self._logback_file}",
            # A ring of one has nobody to wait for; in a larger one it is also how long the seed may take to answer.
            f"-Dcassandra.ring_delay_ms={100 if self.size == 1 else 5000}",
            # Nor is there anybody to tell that it ends, and to give two seconds for hearing it.
            f"-Dcassandra.shutdown_announce_in_ms={0 if self.size == 1 else 2000}",
            "-Dcassandra.consistent.rangemovement=false",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            "-cp",
            class_path_argument(runtime.class_path),
        ]

    @property
    def _jvm_file(self) -> Path:
        return self.directory / "jvm.args"

    @property
    def _logback_file(self) -> Path:
        return self.directory / "logback.xml"


# What Cassandra 5.0's own start script opens to itself on Java 17.
EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.attach/sun.tools.attach",
)
OPENS = (
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang.reflect",
    "java.base/java.lang",
    "java.base/java.util",
    "jdk.management/com.sun.management.internal",
    "jdk.compiler/com.sun.tools.javac",
)

LOGBACK = """\
<configuration>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %-5level [%thread] %logger{20} %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="STDOUT"/></root>
</configuration>
"""
