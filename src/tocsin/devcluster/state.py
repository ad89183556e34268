"""What is remembered between commands: each node's ports and process. It decides nothing."""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tocsin.devcluster.files import write_atomically
from tocsin.devcluster.processes import ProcessId

VERSION = 1


@dataclass(frozen=True)
class NodeState:
    """One node as last seen; ports stay when it is stopped, so that its address survives a restart."""

    ports: dict[str, int] = field(default_factory=dict)
    process: ProcessId | None = None
    ready: bool = False


class StateFile:
    """The state of all nodes in one JSON file, written after every change."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, name: str) -> NodeState:
        """Return a node's state; an empty one if it is not known."""
        return self._load().get(name, NodeState())

    def ports_of_others(self, name: str) -> set[int]:
        """Return the ports of all other nodes, running or not."""
        return {port for other, node in self._load().items() if other != name for port in node.ports.values()}

    def ports_of_all(self) -> dict[str, dict[str, int]]:
        """Return the ports of every node, running or not, by its name."""
        return {name: dict(node.ports) for name, node in self._load().items()}

    def put(self, name: str, node: NodeState) -> None:
        """Remember a node's state. The caller holds the cluster's lock."""
        nodes = {**self._load(), name: node}
        content = {"version": VERSION, "nodes": {key: asdict(value) for key, value in nodes.items()}}
        write_atomically(self._path, json.dumps(content, indent=2) + "\n")

    def forget_process(self, name: str) -> None:
        """Remember that a node does not run; its ports stay."""
        self.put(name, replace(self.get(name), process=None, ready=False))

    def _load(self) -> dict[str, NodeState]:
        # A file that cannot be read is no reason to fail: stray processes are found by their mark, ports are rechosen.
        try:
            content = json.loads(self._path.read_text("utf-8"))
            if content["version"] != VERSION:
                return {}
            return {name: _parse(node) for name, node in content["nodes"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}


def _parse(node: dict[str, Any]) -> NodeState:
    process = node["process"]
    return NodeState(
        ports={str(name): int(port) for name, port in node["ports"].items()},
        process=ProcessId(int(process["pid"]), int(process["start_ticks"])) if process else None,
        ready=bool(node["ready"]),
    )
