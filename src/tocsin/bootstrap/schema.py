"""Wiring of the schema's migrations: settings in, names and words out."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.adapters.cassandra.migrations import create_keyspace, load_migrations, migrate, standing
from tocsin.adapters.cassandra.session import Connection, StoreAddress, connect
from tocsin.bootstrap.stores import store_address
from tocsin.config import Settings


def apply_migrations(settings: Settings, applied: Callable[[str], None] = lambda _name: None) -> list[str]:
    """Create the keyspace if need be, apply what is pending, and return the names of what was applied.

    Raises:
        Unavailable: the store does not answer.
        Refused: an applied migration was changed since.
    """
    address = store_address(settings)
    create_keyspace(address, settings.cassandra.replication_factor)
    connection = connect(address)
    try:
        return migrate(connection, applied=applied)
    finally:
        connection.close()


def migration_standings(settings: Settings) -> dict[str, str]:
    """Return ``applied``, ``pending``, ``changed`` or ``unknown`` for each migration, in order."""
    address = store_address(settings)
    if not _keyspace_exists(address):
        return {migration.name: "pending" for migration in load_migrations()}
    connection = connect(address)
    try:
        return {name: str(how) for name, how in standing(connection).items()}
    finally:
        connection.close()


def _keyspace_exists(address: StoreAddress) -> bool:
    connection = Connection(address, use_keyspace=False)
    try:
        return connection.has_keyspace()
    finally:
        connection.close()
