"""Every query is one that the server prepares on the migrated schema, and is bound as the driver would bind it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tocsin.adapters.cassandra import session
from tocsin.adapters.cassandra.migrations import create_keyspace, migrate
from tocsin.adapters.cassandra.session import Connection, StoreAddress, connect, query_text
from tocsin.devcluster import Endpoints

pytestmark = pytest.mark.real
QUERIES = sorted(path.stem for path in (Path(session.__file__).parent / "queries").glob("*.cql"))
VALUES: dict[str, list[Any]] = {
    "bigint": [0, -1, 2**63 - 1, -(2**63), 1_793_448_000_000_000, None],
    "int": [0, 1, -1, 2**31 - 1, -(2**31), None],
    "varchar": ["", "text", "ünï €", "\x00", None],
    "blob": [b"", b"\x00\xff", b"x" * 1_000, None],
    "boolean": [True, False, None],
    "list": [["one"], ["", "ünï €"], [], ["x"] * 16],
}
WRONG: dict[str, list[Any]] = {"bigint": [2**63, "1"], "int": [2**31], "varchar": [5], "boolean": ["yes"]}


@pytest.fixture(scope="module")
def connection(cluster: Endpoints) -> Iterator[Connection]:
    address = StoreAddress(cluster.cassandra_contact_points, cluster.cassandra_port, "queries")
    create_keyspace(address, 1)
    opened = connect(address)
    migrate(opened)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_prepared_and_bound_as_the_driver_binds_it(connection: Connection, name: str) -> None:
    prepared = connection.session.prepare(query_text(name))
    types = [column.type.typename for column in prepared.column_metadata]
    rounds = max(map(len, VALUES.values()))
    cycles = [itertools.cycle(VALUES[one]) for one in types]
    for _ in range(rounds):
        values = [next(cycle) for cycle in cycles]
        bound = connection.bound(name, values)
        by_driver = prepared.bind(values)
        assert bound.values == by_driver.values
        assert bound.is_idempotent
        if None not in values:
            assert bound.routing_key == by_driver.routing_key
    assert connection.is_prepared(name)


@pytest.mark.parametrize("name", ["insert_entry", "upsert_run_event"])
def test_values_that_do_not_fit_are_refused_and_not_cut(connection: Connection, name: str) -> None:
    prepared = connection.session.prepare(query_text(name))
    types = [column.type.typename for column in prepared.column_metadata]
    right = [VALUES[one][1] for one in types]
    for place, one in enumerate(types):
        for wrong in WRONG.get(one, []):
            with pytest.raises(Exception):  # noqa: B017 - of whatever kind; the caller asks again or gives up
                connection.bound(name, [*right[:place], wrong, *right[place + 1 :]])
    with pytest.raises(ValueError, match=r"shorter|longer"):
        connection.bound(name, right[:-1])
