"""What benchmarks run on: servers in a directory of their own, tables and topics, and roles as real processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tocsin.config import Settings
from tocsin.dev.audience import Terminal
from tocsin.dev.child import LEASH
from tocsin.dev.roles import endpoint_environ
from tocsin.dev.servers import prepare, settings_for
from tocsin.devcluster import DevCluster, Endpoints

READY_S: Final = 90.0
STOP_S: Final = 60.0
METRICS_S: Final = 30.0


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
        self,
        role: str,
        ready: Callable[[dict[str, Any]], bool],
        name: str | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a role until the block ends, unless it ended before; its log goes beside the servers' data.

        ``name``: of the process, where there are several of a role. ``extra``: more of its environment.
        """
        name = name or role
        ready_file = self.directory / f"{name}.json"
        ready_file.unlink(missing_ok=True)
        environ = {**os.environ, **endpoint_environ(self.endpoints), **(extra or {})}
        environ["TOCSIN_READY_FILE"] = str(ready_file)
        # On a leash: a benchmark that is killed leaves no role behind to disturb the next one.
        leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid())]
        words = [*leash, sys.executable, "-m", "tocsin", role, "--name", name]
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(words, env=environ, stdout=log, stderr=log)

        def serves() -> bool:
            if process.poll() is not None:
                raise SystemExit(f"the {role} ended with {process.returncode}:\n{self.tail(name)}")
            return ready_file.exists() and ready(json.loads(ready_file.read_text("utf-8")))

        try:
            wait_until(serves, said=lambda: self.tail(name))
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def facts(self, name: str) -> dict[str, Any]:
        """Return what a process said of itself once it served."""
        found = json.loads((self.directory / f"{name}.json").read_text("utf-8"))
        assert isinstance(found, dict)
        return found

    def owns_all(self, facts: Mapping[str, Any]) -> bool:
        """Tell whether a trigger owns every shard; it says that it serves once it is a member, which may be before."""
        return metric(str(facts["metrics_url"]), "tocsin_shards_owned") == self.shards

    def tail(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text("utf-8", errors="replace")[-2000:]


def wait_until(holds: Callable[[], bool], wait_s: float = READY_S, said: Callable[[], str] = str) -> None:
    """Wait for a condition; end the benchmark where it does not come, with what is ``said`` then."""
    deadline = time.monotonic() + wait_s
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {wait_s:.0f} s in vain\n{said()}")
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


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, 99th percentile and maximum."""
    ordered = sorted(values)
    picked = {"p50": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)], "max": ordered[-1]}
    return {name: round(value, 1) for name, value in picked.items()}


def peak_memory_mib(pid: int) -> float:
    """Return the most memory that a running process has had, MiB; 0 where the kernel does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    except OSError:
        return 0.0
    return next((round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("VmHWM:")), 0.0)


def metric(url: str, name: str) -> float:
    """Return a metric of a process, summed over its labels."""
    with urllib.request.urlopen(url, timeout=METRICS_S) as answer:
        text = answer.read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE))


def cpu_s(pid: int) -> float:
    """Return the CPU time that a running process has used with all its threads, s; Linux only, elsewhere 0.

    It says what something costs also on a machine that other work keeps busy.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
