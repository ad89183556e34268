"""A migrated keyspace on the real store, shared by the suites; each test keeps to shards and ids of its own."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator

import pytest

from tocsin.adapters.cassandra.migrations import create_keyspace, migrate
from tocsin.adapters.cassandra.session import Connection, StoreAddress, connect
from tocsin.devcluster import Endpoints

_shards = itertools.count(1)


@pytest.fixture(scope="session")
def store_address(cluster: Endpoints) -> StoreAddress:
    """A keyspace of this test run with all tables."""
    address = StoreAddress(
        cluster.cassandra_contact_points, cluster.cassandra_port, f"contract_{uuid.uuid4().hex[:12]}"
    )
    create_keyspace(address, replication_factor=1)
    connection = connect(address)
    migrate(connection)
    connection.close()
    return address


@pytest.fixture
def connection(store_address: StoreAddress) -> Iterator[Connection]:
    """A connection of one test."""
    opened = connect(store_address)
    yield opened
    opened.close()


@pytest.fixture
def shard() -> int:
    """A shard that no other test uses."""
    return next(_shards)
