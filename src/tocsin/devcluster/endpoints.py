"""Where Kafka and Cassandra answer, and the reading of such addresses from the environment.

A part whose address is given there is not started by us, only checked to be reachable.
"""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from tocsin.devcluster.errors import DevClusterError

KAFKA_VARIABLE = "TOCSIN_KAFKA__BOOTSTRAP_SERVERS"
CASSANDRA_VARIABLE = "TOCSIN_CASSANDRA__CONTACT_POINTS"
CASSANDRA_PORT_VARIABLE = "TOCSIN_CASSANDRA__PORT"
CASSANDRA_PORT_DEFAULT = 9042
KAFKA_PORT_DEFAULT = 9092
CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Endpoints:
    """Addresses that clients use; managed is False when all were given by the environment."""

    kafka_bootstrap: str
    cassandra_contact_points: tuple[str, ...]
    cassandra_port: int
    managed: bool


@dataclass(frozen=True)
class GivenEndpoints:
    """What the environment gives: None for a part that is left to us."""

    kafka_bootstrap: str | None
    cassandra_contact_points: tuple[str, ...] | None
    cassandra_port: int

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> "GivenEndpoints":
        """Read the variables; a list is comma-separated or JSON."""
        servers = _parse_list(KAFKA_VARIABLE, environ.get(KAFKA_VARIABLE, ""))
        points = _parse_list(CASSANDRA_VARIABLE, environ.get(CASSANDRA_VARIABLE, ""))
        port_text = environ.get(CASSANDRA_PORT_VARIABLE, "").strip() or str(CASSANDRA_PORT_DEFAULT)
        if not port_text.isdecimal():
            raise DevClusterError(
                f"{CASSANDRA_PORT_VARIABLE} is {port_text!r}, not a port", remedy="set it to a number, or unset it"
            )
        return cls(",".join(servers) or None, points or None, int(port_text))

    def check(self) -> None:
        """Raise DevClusterError unless one address of each given part takes a connection."""
        if self.kafka_bootstrap is not None:
            servers = [_split_port(server, KAFKA_PORT_DEFAULT) for server in self.kafka_bootstrap.split(",")]
            _check_one_answers("Kafka", KAFKA_VARIABLE, servers)
        if self.cassandra_contact_points is not None:
            points = [(point, self.cassandra_port) for point in self.cassandra_contact_points]
            _check_one_answers("Cassandra", CASSANDRA_VARIABLE, points)


def _parse_list(variable: str, text: str) -> tuple[str, ...]:
    text = text.strip()
    items: list[object]
    if text.startswith("["):
        try:
            items = json.loads(text)
        except ValueError as error:
            raise DevClusterError(
                f"{variable} is not a JSON list: {error}",
                remedy="set it to a JSON list or to names with commas between",
            ) from error
    else:
        items = list(text.split(","))
    return tuple(stripped for item in items if (stripped := str(item).strip()))


def _split_port(server: str, port_default: int) -> tuple[str, int]:
    host, separator, port = server.rpartition(":")
    if not separator:
        return server, port_default
    if not port.isdecimal():
        raise DevClusterError(f"{KAFKA_VARIABLE} has {server!r}, not host:port", remedy="correct the variable")
    return host.strip("[]"), int(port)


def _check_one_answers(what: str, variable: str, addresses: list[tuple[str, int]]) -> None:
    failures = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            failures.append(f"{host}:{port}: {error}")
    raise DevClusterError(
        f"{what} is not reachable where {variable} says ({'; '.join(failures)})",
        remedy=f"start that {what}, correct {variable}, or unset it to have tocsin start one",
    )
