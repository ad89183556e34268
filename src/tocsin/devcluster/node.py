"""What a server is to those who start it: the protocol that kafka.py and cassandra.py fulfil, and what they share."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

LOOPBACK = "127.0.0.1"

Ports = Mapping[str, int]
AllPorts = Mapping[str, Ports]
"""The ports of every node, by its name."""


@dataclass(frozen=True)
class Runtime:
    """What a node needs to run: a Java and its own class path."""

    java: Path
    class_path: tuple[Path, ...]


class Node(Protocol):
    """One server process. Its directory holds its settings and, below `data`, all that it must not lose."""

    name: str
    directory: Path
    coordinates: Sequence[str]
    port_names: Sequence[str]
    started_line: str

    @property
    def host(self) -> str:
        """Return the loopback address that it listens on."""

    def same_ports(self) -> Mapping[str, str]:
        """Return which of its ports are those of another node (on another address), by that node's name."""

    def must_wait_for(self) -> str | None:
        """Return the node that has to be ready before this one starts, if both are started at once."""

    def prepare(self, ports: AllPorts, runtime: Runtime) -> None:
        """Write the settings, and lay out the data if there is none yet.

        Args:
            ports: of all nodes of the cluster, by their names.
            runtime: what it runs on.
        """

    def arguments(self, runtime: Runtime, ports: Ports) -> Sequence[str]:
        """Return Java's arguments, the main class and the program's arguments."""

    def probe(self, ports: Ports) -> None:
        """Talk to the server as a client does; raise NotAnsweringError if it does not answer."""

    def note_ready(self) -> None:
        """Take note that the server has answered."""


class NotAnsweringError(Exception):
    """The server does not answer a client, perhaps not yet."""


def argument_file(arguments: Iterable[str]) -> str:
    """Render arguments for `java @file`: one a line, quoted, since paths may hold blanks."""
    return "".join('"' + argument.replace("\\", "\\\\").replace('"', '\\"') + '"\n' for argument in arguments)


def class_path_argument(class_path: Iterable[Path]) -> str:
    """Join a class path."""
    return ":".join(str(jar) for jar in class_path)


def properties(settings: Mapping[str, object]) -> str:
    """Render a Java properties file; booleans in lower case, backslashes doubled."""
    return "".join(f"{key}={_property_value(value)}\n" for key, value in settings.items())


def _property_value(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return re.sub(r"\n", r"\\n", text.replace("\\", "\\\\"))
