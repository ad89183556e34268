"""Bringing nodes up: ports, processes, readiness. Which nodes, and what else happens around it, is cluster.py's."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tocsin.devcluster import ports, processes
from tocsin.devcluster.errors import DevClusterError
from tocsin.devcluster.files import LOG_LINES_MAX, excerpt, tail
from tocsin.devcluster.java import find_java
from tocsin.devcluster.node import Node, NotAnsweringError, Runtime
from tocsin.devcluster.processes import mark
from tocsin.devcluster.progress import ProgressReporter
from tocsin.devcluster.state import NodeState, StateFile

READY_S_MAX = 300.0
"""Seconds; a restart replays logs, and a busy machine may take minutes over that."""
POLL_S = 0.1
PORT_TRIES = 3
PORT_TAKEN = ("Address already in use", "is in use by another process")


class PortTakenError(DevClusterError):
    """Somebody took a port between our choice and the server's start."""


class Starter:
    """Starts nodes of one data directory. The caller holds the directory's lock."""

    def __init__(self, state: StateFile, logs: Path, reporter: ProgressReporter, *, die_with_parent: bool) -> None:
        self._state = state
        self._logs = logs
        self._reporter = reporter
        self._die_with_parent = die_with_parent

    def start(self, nodes: Sequence[Node]) -> None:
        """Start the nodes and wait until all are ready; on any failure stop them again.

        They start side by side, but for those that must wait for another one.
        """
        # Here, for it takes a tenth of a second, and the command line imports this package in every tocsin process.
        from tocsin.devcluster.jars import JarCache, default_cache_dir

        java = find_java()
        cache = JarCache(default_cache_dir(), self._reporter)
        runtimes = {node.name: Runtime(java, cache.class_path(node.coordinates)) for node in nodes}
        began = time.monotonic()
        try:
            for node in nodes:
                self._choose_ports(node)
            waiting = {node.name: node.must_wait_for() for node in nodes}
            for node in nodes:
                if waiting[node.name] not in waiting:
                    self._launch(node, runtimes[node.name])
            for node in nodes:
                if waiting[node.name] in waiting:
                    self._launch(node, runtimes[node.name])
                self._finish(node, runtimes[node.name], began)
        except BaseException:  # also when interrupted: no half-started server may stay behind
            processes.stop(mark(node.directory) for node in nodes)
            for node in nodes:
                self._state.forget_process(node.name)
            raise

    def wait_ready(self, node: Node) -> None:
        """Wait until a started node answers, and remember it; raise with its log's end if it does not."""
        deadline = time.monotonic() + READY_S_MAX
        log = self.log_of(node)
        state = self._state.get(node.name)
        trouble = f"no line {node.started_line!r} in its log yet"
        while time.monotonic() < deadline:
            if state.process is None or not processes.is_alive(state.process, mark(node.directory)):
                raise self._failure(node, "ended while starting")
            if node.started_line.encode() in log.read_bytes():
                try:
                    node.probe(state.ports)
                except NotAnsweringError as error:
                    trouble = str(error)
                else:
                    node.note_ready()
                    self._state.put(node.name, replace(state, ready=True))
                    return
            time.sleep(POLL_S)
        raise self._failure(node, f"was not ready after {READY_S_MAX:.0f} s ({trouble})")

    def log_of(self, node: Node) -> Path:
        """Return where a node's output goes."""
        return self._logs / f"{node.name}.log"

    def _launch(self, node: Node, runtime: Runtime) -> None:
        every = self._state.ports_of_all()
        node.prepare(every, runtime)
        command = [str(runtime.java), mark(node.directory), *node.arguments(runtime, every[node.name])]
        process = processes.spawn(
            command, log=self.log_of(node), cwd=node.directory, die_with_parent=self._die_with_parent
        )
        self._state.put(node.name, NodeState(dict(every[node.name]), process, ready=False))
        self._reporter.say(f"{node.name}: starting, pid {process.pid}, log {self.log_of(node)}")

    def _choose_ports(self, node: Node) -> None:
        """Settle a node's ports and make its directory: the others' settings name the ports, and `up` counts these."""
        marked = mark(node.directory)
        if processes.find_marked(marked):  # its state was lost, and two servers must not share the data
            self._reporter.say(f"{node.name}: ending a process that was left behind")
            processes.stop([marked])
        state = self._state.get(node.name)
        if state.process is not None:  # it was killed, and may still hold its ports
            processes.wait_gone([state.process])
        shared = {name: self._state.get(other).ports.get(name) for name, other in node.same_ports().items()}
        kept = state.ports | {name: port for name, port in shared.items() if port is not None}
        avoid = self._state.ports_of_others(node.name) - set(kept.values())  # nodes of a ring share
        chosen = ports.choose(node.port_names, kept, avoid=avoid, host=node.host)
        for name, port in kept.items():
            if chosen.get(name) != port:
                self._reporter.say(f"{node.name}: port {port} ({name}) is taken, using {chosen.get(name)}")
        node.directory.mkdir(parents=True, exist_ok=True)
        self._state.put(node.name, NodeState(chosen, state.process, ready=False))

    def _finish(self, node: Node, runtime: Runtime, began: float) -> None:
        for attempt in range(1, PORT_TRIES + 1):
            try:
                self.wait_ready(node)
                break
            except PortTakenError:
                if attempt == PORT_TRIES:
                    raise
                self._reporter.say(f"{node.name}: a port was taken meanwhile, trying others")
                self._choose_ports(node)
                self._launch(node, runtime)
        client = self._state.get(node.name).ports["client"]
        self._reporter.say(f"{node.name}: ready on {node.host}:{client} after {time.monotonic() - began:.1f} s")

    def _failure(self, node: Node, what: str) -> DevClusterError:
        log = self.log_of(node)
        whole = tail(log, lines=LOG_LINES_MAX)
        kind = PortTakenError if any(sign in whole for sign in PORT_TAKEN) else DevClusterError
        return kind(
            f"{node.name} {what}",
            remedy="read its log; `tocsin devcluster up --fresh` starts from nothing if its data are damaged",
            log=log,
            log_tail=excerpt(log),
        )
