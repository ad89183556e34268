"""Migrations on the real store: once each, in order, repeatable, and never changed afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tocsin.adapters.cassandra.migrations import (
    Migration,
    Standing,
    create_keyspace,
    load_migrations,
    migrate,
    refuse_unless_migrated,
    standing,
)
from tocsin.adapters.cassandra.session import Connection, StoreAddress, connect
from tocsin.cli import schema
from tocsin.devcluster import Endpoints
from tocsin.domain.errors import Refused

pytestmark = pytest.mark.real


@pytest.fixture
def address(cluster: Endpoints, unique: str) -> StoreAddress:
    return StoreAddress(cluster.cassandra_contact_points, cluster.cassandra_port, unique)


@pytest.fixture
def connection(address: StoreAddress) -> Iterator[Connection]:
    create_keyspace(address, 1)
    opened = connect(address)
    yield opened
    opened.close()


NAMES = [migration.name for migration in load_migrations()]


def test_a_missing_keyspace_is_refused_with_what_to_do(address: StoreAddress) -> None:
    with pytest.raises(Refused, match="tocsin schema migrate"):
        connect(address)


def test_migrations_are_applied_once_in_order(connection: Connection) -> None:
    assert standing(connection) == dict.fromkeys(NAMES, Standing.PENDING)
    with pytest.raises(Refused, match=f"lacks {NAMES[0]}.*tocsin schema migrate"):
        refuse_unless_migrated(connection)
    told: list[str] = []
    assert migrate(connection, applied=told.append) == NAMES == told
    assert migrate(connection) == []
    assert standing(connection) == dict.fromkeys(NAMES, Standing.APPLIED)
    refuse_unless_migrated(connection)


def test_the_keyspace_is_replicated_in_the_local_datacenter(address: StoreAddress, connection: Connection) -> None:
    create_keyspace(address, 3)
    rows = connection.execute(
        "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s", (address.keyspace,)
    )
    replication = dict(rows[0][0])
    assert replication.pop("class").endswith("NetworkTopologyStrategy")
    assert list(replication.values()) == ["1"], "a keyspace that exists is left as it is"


def test_a_changed_migration_is_refused_by_name_and_nothing_is_applied(connection: Connection) -> None:
    first, second = load_migrations()[:2]
    migrate(connection, [first])
    changed = replace(first, statements=(*first.statements, "CREATE TABLE IF NOT EXISTS sneaked (x int PRIMARY KEY)"))
    with pytest.raises(Refused, match=first.name):
        migrate(connection, [changed, second])
    assert standing(connection, [changed, second]) == {first.name: Standing.CHANGED, second.name: Standing.PENDING}
    tables = connection.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s", (connection.address.keyspace,)
    )
    assert {name for (name,) in tables} == {"schema_migrations", "schedule_index"}


def test_one_that_died_half_way_is_taken_up_where_it_stopped(connection: Connection) -> None:
    first = load_migrations()[0]
    broken = Migration(first.name, (*first.statements, "CREATE TABLE IF NOT EXISTS broken (no key)"))
    with pytest.raises(Refused):
        migrate(connection, [broken])
    assert standing(connection, [first]) == {first.name: Standing.PENDING}
    assert migrate(connection, [first]) == [first.name]


def test_a_migration_of_a_newer_program_is_shown_and_left_alone(connection: Connection) -> None:
    newer = Migration("9999_newer", ("CREATE TABLE IF NOT EXISTS newer (x int PRIMARY KEY)",))
    migrate(connection, [*load_migrations(), newer])
    assert standing(connection)["9999_newer"] is Standing.UNKNOWN
    refuse_unless_migrated(connection)
    assert migrate(connection) == []


def test_a_column_that_one_added_who_died_half_way_is_left_as_it_is(connection: Connection) -> None:
    *before, adding = load_migrations()[: NAMES.index("0008_runs_redrives") + 1]
    migrate(connection, before)
    connection.execute(adding.statements[0])
    assert migrate(connection)[0] == adding.name


def test_two_that_migrate_at_once_do_no_harm(address: StoreAddress, connection: Connection) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        own = connect(address)
        try:
            migrate(own)
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)
        finally:
            own.close()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert standing(connection) == dict.fromkeys(NAMES, Standing.APPLIED)


def test_the_command_line_migrates_and_shows_it(
    cluster: Endpoints, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOCSIN_CASSANDRA__CONTACT_POINTS", ",".join(cluster.cassandra_contact_points))
    monkeypatch.setenv("TOCSIN_CASSANDRA__PORT", str(cluster.cassandra_port))
    monkeypatch.setenv("TOCSIN_CASSANDRA__KEYSPACE", unique)
    runner = CliRunner()
    before = runner.invoke(schema.app, ["status"])
    assert (before.exit_code, before.output.count("pending")) == (schema.EXIT_PENDING, len(NAMES))
    first = runner.invoke(schema.app, ["migrate"])
    assert first.exit_code == 0
    assert [f"applied {name}" in first.output for name in NAMES] == [True] * len(NAMES)
    again = runner.invoke(schema.app, ["migrate"])
    assert (again.exit_code, "nothing to do" in again.output) == (0, True)
    after = runner.invoke(schema.app, ["status"])
    assert (after.exit_code, after.output.count("applied")) == (0, len(NAMES))


def test_the_command_line_says_in_a_line_that_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_CASSANDRA__PORT", "1")
    for command in ("migrate", "status"):
        result = CliRunner().invoke(schema.app, [command])
        assert result.exit_code == schema.EXIT_FAILED
        assert isinstance(result.exception, SystemExit)
