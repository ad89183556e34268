"""The one way to a session: policies, consistency and time limits, errors in our own words, prepared statements.

Queries lie in ``queries``, one per file, and are prepared when they are first used. Neither query texts nor the
driver's defaults (LOCAL_ONE, timestamps from the client's clock) are used around this module.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import DCAwareRoundRobinPolicy, ExponentialReconnectionPolicy, TokenAwarePolicy
from cassandra.query import BoundStatement, PreparedStatement, tuple_factory

from tocsin.adapters.cassandra.binding import Packer, bind, packers_of
from tocsin.adapters.cassandra.driver_errors import PART, translated
from tocsin.domain.errors import Refused, TocsinError, Unavailable

_QUERIES: Final = Path(__file__).parent / "queries"
_KEYSPACE: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
_RECONNECT_S: Final = (0.5, 5.0)
_CONTROL_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where the store is, and how long it may take to answer.

    Attributes:
        contact_points: hosts asked first; the others are learnt from them.
        local_datacenter: None takes that of the first contact point.
        username: None for a store that asks for none.
    """

    contact_points: tuple[str, ...]
    port: int
    keyspace: str
    local_datacenter: str | None = None
    request_timeout_s: float = 10.0
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if _KEYSPACE.fullmatch(self.keyspace) is None:
            raise Refused(
                f"the keyspace {self.keyspace!r} cannot be used: a name is up to 48 small letters, digits and"
                " underscores, and begins with a letter"
            )


@cache
def query_text(name: str) -> str:
    """Return the query of ``queries/<name>.cql`` without its comments."""
    lines = (_QUERIES / f"{name}.cql").read_text().splitlines()
    return " ".join(line.strip() for line in lines if not line.lstrip().startswith("--")).strip().rstrip(";")


class Connection:
    """A session that is opened on first use and kept; may be shared by threads.

    The driver itself reconnects to nodes that come back. Opening, preparing and ``execute`` block for at most the
    request timeout or so; what must not block asks first whether a statement is prepared.
    """

    def __init__(self, address: StoreAddress, *, use_keyspace: bool = True) -> None:
        self.address = address
        self._use_keyspace = use_keyspace
        self._lock = threading.Lock()
        self._cluster: Any = None
        self._session: Session | None = None
        self._prepared: dict[str, tuple[PreparedStatement, list[Packer]]] = {}
        self._closed = False

    @property
    def session(self) -> Session:
        """The driver's session, opened if need be.

        Raises:
            Unavailable: no node answers.
            Refused: the store answers, but not to us: wrong credentials, or no such keyspace.
        """
        session = self._session
        if session is None:
            with self._lock:
                session = self._session = self._session or self._open()
        return session

    def bound(self, name: str, values: Sequence[Any]) -> BoundStatement:
        """Return ``queries/<name>.cql`` with its values, prepared if need be; every query is idempotent."""
        prepared, packers = self._prepared.get(name) or self._prepare(name)
        return bind(prepared, packers, values)

    def is_prepared(self, name: str) -> bool:
        """Tell whether ``bound`` returns without waiting for the store."""
        return name in self._prepared

    def _prepare(self, name: str) -> tuple[PreparedStatement, list[Packer]]:
        try:
            prepared = self.session.prepare(query_text(name))
        except TocsinError:
            raise
        except Exception as error:
            raise translated(error) from error
        prepared.is_idempotent = True
        self._prepared[name] = prepared, packers_of(prepared)
        return self._prepared[name]

    def replica_of(self, routing_key: bytes) -> Hashable:
        """Return the node with the first replica of a partition; None where it is not known, or there is one node."""
        session = self._session
        if session is None or len(session.cluster.metadata.all_hosts()) <= 1:
            return None
        replicas = session.cluster.metadata.get_replicas(self.address.keyspace, routing_key)
        return replicas[0] if replicas else None

    def execute(self, query: Any, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Run one query and wait for its rows. For seldom things: migrations, facts."""
        session = self.session
        try:
            return list(session.execute(query, parameters))
        except Exception as error:
            raise translated(error) from error

    def nodes_in(self, datacenter: str) -> int:
        """Return how many nodes a datacenter has, up or down."""
        return sum(1 for host in self.session.cluster.metadata.all_hosts() if host.datacenter == datacenter)

    def has_keyspace(self) -> bool:
        """Tell whether the keyspace exists; for connections that do not use it yet."""
        query = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = %s"
        return bool(self.execute(query, (self.address.keyspace,)))

    def close(self) -> None:
        """Close the session; requests under way fail."""
        with self._lock:
            self._closed = True
            if self._cluster is not None:
                self._cluster.shutdown()
                self._cluster = self._session = None

    def _open(self) -> Session:
        if self._closed:
            raise Unavailable(PART, "the connection is closed")
        _quieten_driver()
        cluster = _cluster(self.address)
        try:
            session = cluster.connect()
            session.use_client_timestamp = False  # Each statement carries its own, logical one.
            if self._use_keyspace:
                session.set_keyspace(self.address.keyspace)
        except Exception as error:
            cluster.shutdown()
            raise translated(error) from error
        self._cluster = cluster
        return session


def connect(address: StoreAddress) -> Connection:
    """Return a connection that is open. Raises as ``Connection.session`` does."""
    connection = Connection(address)
    _ = connection.session
    return connection


def _cluster(address: StoreAddress) -> Any:
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy(address.local_datacenter or "")),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        request_timeout=address.request_timeout_s,
        row_factory=tuple_factory,
    )
    auth = None
    if address.username is not None:
        auth = PlainTextAuthProvider(address.username, address.password or "")
    return Cluster(
        list(address.contact_points),
        port=address.port,
        auth_provider=auth,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        # The default waits up to ten minutes for a node that is long back. And for ever: after 64 attempts, some five
        # minutes, the driver would give a node up for good, and with the last one the store.
        reconnection_policy=ExponentialReconnectionPolicy(*_RECONNECT_S, max_attempts=None),
        connect_timeout=_CONTROL_TIMEOUT_S,
        control_connection_timeout=_CONTROL_TIMEOUT_S,
        monitor_reporting_enabled=False,
    )


def _quieten_driver() -> None:
    """Silence the driver's own log, tracebacks and all, unless the operator set a level: we report its errors."""
    logger = logging.getLogger("cassandra")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
