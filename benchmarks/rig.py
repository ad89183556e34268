"""What benchmarks run on: servers in a directory of their own, tables and topics, and roles as real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tocsin.config import Settings
from tocsin.dev.audience import Terminal
from tocsin.dev.roles import endpoint_environ
from tocsin.dev.servers import prepare, settings_for
from tocsin.devcluster import DevCluster, Endpoints

READY_S: Final = 120.0
STOP_S: Final = 60.0


class Rig:
    """A cluster, created and empty."""

    def __init__(self, directory: Path, endpoints: Endpoints) -> None:
        self.directory = directory
        self.endpoints = endpoints
        self.settings: Settings = settings_for(endpoints)
        self.bootstrap = endpoints.kafka_bootstrap
        self.shards = prepare(self.settings, Terminal())
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def stamp_on_append(self, topic: str) -> None:
        """Have the broker stamp a topic's records when it appends them; else they carry the producer's time."""
        entry = ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(READY_S)

    def create_like(self, topic: str, new: str) -> None:
        """Create a topic with the partitions and the set configuration of another, and wait until it is known."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        described = self._admin.describe_configs([resource])[resource].result(READY_S)
        config = {name: e.value for name, e in described.items() if not e.is_default and not e.is_read_only}
        partitions = len(self._admin.list_topics(topic, timeout=READY_S).topics[topic].partitions)
        self._admin.create_topics([NewTopic(new, partitions, 1, config=config)])[new].result(READY_S)

        def known() -> bool:
            found = self._admin.list_topics(timeout=READY_S).topics.get(new)
            return found is not None and len(found.partitions) == partitions

        wait_until(known)

    @contextmanager
    def role(
        self, role: str, ready: Callable[[dict[str, Any]], bool], name: str | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a role until the block ends, unless it ended before; its log goes beside the servers' data.

        ``name``: of the process, where there are several of a role.
        """
        name = name or role
        ready_file = self.directory / f"{name}.json"
        environ = {**os.environ, **endpoint_environ(self.endpoints), "TOCSIN_READY_FILE": str(ready_file)}
        words = [sys.executable, "-m", "tocsin", role, "--name", name]
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(words, env=environ, stdout=log, stderr=log)

        def serves() -> bool:
            if process.poll() is not None:
                raise SystemExit(f"the {role} ended with {process.returncode}:\n{self.tail(name)}")
            return ready_file.exists() and ready(json.loads(ready_file.read_text("utf-8")))

        try:
            wait_until(serves)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def tail(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text("utf-8", errors="replace")[-2000:]


def wait_until(holds: Callable[[], bool], wait_s: float = READY_S) -> None:
    """Wait for a condition; end the benchmark where it does not come."""
    deadline = time.monotonic() + wait_s
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {wait_s:.0f} s in vain")
        time.sleep(0.05)


@contextmanager
def rig() -> Iterator[Rig]:
    """Start the servers in a temporary directory, and leave nothing behind."""
    with tempfile.TemporaryDirectory(prefix="tocsin-benchmark-") as name:
        directory = Path(name)
        cluster = DevCluster(directory / "servers")
        try:
            yield Rig(directory, cluster.up(fresh=True, die_with_parent=True))
        finally:
            cluster.down()
