"""The cluster as callers see it: up, down, status. How a node is started is start.py's, what it is its own module's."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tocsin.devcluster import processes
from tocsin.devcluster.cassandra import CassandraNode
from tocsin.devcluster.endpoints import Endpoints, GivenEndpoints
from tocsin.devcluster.errors import DevClusterError
from tocsin.devcluster.files import locked
from tocsin.devcluster.kafka import KafkaNode
from tocsin.devcluster.node import LOOPBACK, Node
from tocsin.devcluster.processes import mark
from tocsin.devcluster.progress import ProgressReporter, as_reporter
from tocsin.devcluster.start import Starter
from tocsin.devcluster.state import StateFile

NODES_MAX = 9


@dataclass(frozen=True)
class NodeStatus:
    """One server as it is now.

    Its state is running, starting, died (it should run), stopped, or external (the environment names another).
    """

    name: str
    pid: int | None
    state: str
    ports: dict[str, int]
    log: Path
    rss_mb: float | None


class DevCluster:
    """Kafka and Cassandra on loopback, all of whose files are in one directory."""

    def __init__(self, data_dir: Path, *, brokers: int | None = None, stores: int | None = None) -> None:
        """Look at a directory; nothing is started yet.

        Args:
            data_dir: where everything of the cluster lies.
            brokers, stores: how many of each, NODES_MAX at most; None: as many as the directory was laid out for,
                or one.
        """
        self._dir = data_dir.expanduser().resolve()
        self._logs = self._dir / "logs"
        self._state = StateFile(self._dir / "state.json")
        brokers = _checked("brokers", brokers) or self._laid_out("kafka") or 1
        stores = _checked("stores", stores) or self._laid_out("cassandra") or 1
        # The slower to start come first.
        self._stores: list[Node] = [
            CassandraNode(f"cassandra-{n}", self._dir / f"cassandra-{n}", n, stores) for n in range(1, stores + 1)
        ]
        self._brokers: list[Node] = [
            KafkaNode(f"kafka-{n}", self._dir / f"kafka-{n}", n, brokers) for n in range(1, brokers + 1)
        ]
        self._nodes = [*self._stores, *self._brokers]

    def up(
        self,
        *,
        fresh: bool = False,
        report: Callable[[str], None] | ProgressReporter | None = None,
        die_with_parent: bool = False,
    ) -> Endpoints:
        """Start what does not run yet, wait until it answers, and return where.

        What the environment names (see endpoints.py) is not started, only checked.

        Args:
            fresh: stop the servers first and drop their data.
            report: hears of each step.
            die_with_parent: the servers end with the calling process, however it ends; from the main thread only.

        Raises:
            DevClusterError: something is missing or a server failed; nothing that this call started is left running.
        """
        reporter = as_reporter(report)
        given = GivenEndpoints.from_environ(os.environ)
        given.check()
        wanted = self._wanted(given)
        if not wanted:
            return self._endpoints(given)
        starter = Starter(self._state, self._logs, reporter, die_with_parent=die_with_parent)
        with self._locked(reporter):
            if fresh:
                self._drop_data(given)
            self._refuse_another_size(wanted)
            missing = [node for node in wanted if not self._is_alive(node)]
            if missing:
                starter.start(missing)
            for node in wanted:
                if not self._state.get(node.name).ready:  # an earlier `up` ended before its servers were ready
                    starter.wait_ready(node)
            return self._endpoints(given)

    def down(self, *, report: Callable[[str], None] | ProgressReporter | None = None) -> None:
        """Stop all servers and wait until they are gone; data, logs and ports are kept."""
        if not self._dir.exists():
            return
        reporter = as_reporter(report)
        with self._locked(reporter):
            for pid in self._stop(self._nodes):
                reporter.say(f"process {pid} did not end when asked and was killed")

    def kill(self, name: str) -> None:
        """End one server as a crash would (SIGKILL), and wait until it is gone; `up` or `start` starts it again."""
        processes.stop([mark(self._named(name).directory)], grace_s=None)

    def stop(self, name: str) -> None:
        """Ask one server to end, and wait until it is gone; `up` or `start` starts it again."""
        node = self._named(name)
        with self._locked(as_reporter(None)):
            self._stop([node])

    def start(
        self,
        name: str,
        *,
        report: Callable[[str], None] | ProgressReporter | None = None,
        die_with_parent: bool = False,
    ) -> None:
        """Start one server of a cluster that was laid out before, and wait until it answers."""
        node = self._named(name)
        reporter = as_reporter(report)
        with self._locked(reporter):
            if not self._is_alive(node):
                Starter(self._state, self._logs, reporter, die_with_parent=die_with_parent).start([node])

    def status(self) -> list[NodeStatus]:
        """Return what is known of each server, without waiting for anything."""
        wanted = self._wanted(GivenEndpoints.from_environ(os.environ))
        return [self._status(node, external=node not in wanted) for node in self._nodes]

    def endpoints(self) -> Endpoints | None:
        """Return where clients connect if all servers run and are ready, else None; starts nothing."""
        given = GivenEndpoints.from_environ(os.environ)
        ready = all(self._is_alive(node) and self._state.get(node.name).ready for node in self._wanted(given))
        return self._endpoints(given) if ready else None

    def _named(self, name: str) -> Node:
        found = [node for node in self._nodes if node.name == name]
        if not found:
            names = ", ".join(node.name for node in self._nodes)
            raise DevClusterError(f"there is no server {name!r}", remedy=f"name one of {names}")
        return found[0]

    def _laid_out(self, kind: str) -> int:
        """Return for how many servers of a kind the directory was laid out."""
        return sum(1 for _ in self._dir.glob(f"{kind}-[0-9]"))

    def _drop_data(self, given: GivenEndpoints) -> None:
        """Stop what the directory holds, also of another size, and drop its data."""
        whole = DevCluster(self._dir)
        nodes = {node.name: node for node in [*whole._wanted(given), *self._wanted(given)]}
        self._stop(list(nodes.values()))
        for node in nodes.values():
            if node.directory.exists():
                shutil.rmtree(node.directory)

    def _refuse_another_size(self, wanted: list[Node]) -> None:
        for kind, nodes in (("kafka", self._brokers), ("cassandra", self._stores)):
            laid_out = self._laid_out(kind)
            if laid_out not in (0, len(nodes)) and nodes[0] in wanted:
                raise DevClusterError(
                    f"{self._dir} was laid out for {laid_out} {kind} node(s), and {len(nodes)} were asked for",
                    remedy="ask for as many, choose another directory, or drop the data with --fresh",
                )

    def _wanted(self, given: GivenEndpoints) -> list[Node]:
        stores = self._stores if given.cassandra_contact_points is None else []
        brokers = self._brokers if given.kafka_bootstrap is None else []
        return [*stores, *brokers]

    def _endpoints(self, given: GivenEndpoints) -> Endpoints:
        bootstrap = given.kafka_bootstrap
        if bootstrap is None:
            bootstrap = ",".join(f"{LOOPBACK}:{self._client_port(node)}" for node in self._brokers)
        points, port = given.cassandra_contact_points, given.cassandra_port
        if points is None:
            points, port = tuple(node.host for node in self._stores), self._client_port(self._stores[0])
        return Endpoints(bootstrap, points, port, managed=bool(self._wanted(given)))

    def _client_port(self, node: Node) -> int:
        return self._state.get(node.name).ports["client"]

    def _is_alive(self, node: Node) -> bool:
        process = self._state.get(node.name).process
        return process is not None and processes.is_alive(process, mark(node.directory))

    def _stop(self, nodes: list[Node]) -> list[int]:
        killed = processes.stop(mark(node.directory) for node in nodes)
        for node in nodes:
            self._state.forget_process(node.name)
        return killed

    def _status(self, node: Node, *, external: bool) -> NodeStatus:
        state = self._state.get(node.name)
        log = self._logs / f"{node.name}.log"
        if state.process is None:
            return NodeStatus(node.name, None, "external" if external else "stopped", state.ports, log, None)
        if not self._is_alive(node):
            return NodeStatus(node.name, None, "died", state.ports, log, None)
        pid = state.process.pid
        return NodeStatus(
            node.name, pid, "running" if state.ready else "starting", state.ports, log, processes.rss_mb(pid)
        )

    def _create_directory(self) -> None:
        if not self._dir.exists():
            self._dir.mkdir(parents=True, exist_ok=True)
            (self._dir / ".gitignore").write_text("*\n", "utf-8")  # the default directory lies in a checkout

    @contextmanager
    def _locked(self, reporter: ProgressReporter) -> Iterator[None]:
        wait_text = f"another process is starting or stopping {self._dir}, waiting for it"
        try:
            self._create_directory()
            with locked(self._dir / "lock", on_wait=lambda: reporter.say(wait_text)):
                yield
        except OSError as error:
            raise DevClusterError(
                f"{self._dir} cannot be used: {error}",
                remedy="make it a directory that can be written, on a disk with room, or choose another one",
            ) from error


def _checked(what: str, count: int | None) -> int | None:
    if count is not None and not 1 <= count <= NODES_MAX:
        raise DevClusterError(f"{count} {what} were asked for", remedy=f"ask for 1 to {NODES_MAX}")
    return count
