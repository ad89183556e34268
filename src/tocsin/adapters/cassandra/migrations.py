"""The schema's migrations: numbered files of CQL, applied in order, each once, and never changed after that.

``schema_migrations`` keeps what was applied, with a checksum of its statements. Every statement can be repeated
(``IF NOT EXISTS``; a column is added unless the table has it), so two processes that migrate at once, or one that died
half way, do no harm.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from tocsin.adapters.cassandra.session import Connection, StoreAddress
from tocsin.domain.errors import Refused

COPIES: Final = 3
MIGRATIONS_DIR: Final = Path(__file__).parent / "migrations"
_NAME: Final = re.compile(r"[0-9]{4}_[a-z0-9_]+")
_ADDED: Final = re.compile(r"ALTER TABLE (\w+) ADD (\w+) \w+")
"""A column, by table and name. Not every server takes ``IF NOT EXISTS`` here, so it is looked up first."""
_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, checksum text, applied_at bigint)
WITH comment = 'migrations of this schema that were applied'
"""


class Standing(StrEnum):
    """How a migration stands in a store."""

    APPLIED = "applied"
    PENDING = "pending"
    CHANGED = "changed"
    """Applied, but its file says something else by now."""
    UNKNOWN = "unknown"
    """Applied by a newer tocsin; this one has no file of it."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of CQL."""

    name: str
    statements: tuple[str, ...]

    @property
    def checksum(self) -> str:
        """Of the statements alone: a comment may be bettered."""
        return hashlib.sha256(";\n".join(self.statements).encode()).hexdigest()


def load_migrations(directory: Path = MIGRATIONS_DIR) -> list[Migration]:
    """Read the migrations in order.

    Raises:
        Refused: a file is not named like ``0001_what_it_does.cql``, or two bear one number.
    """
    found: list[Migration] = []
    for path in sorted(directory.glob("*.cql")):
        if _NAME.fullmatch(path.stem) is None:
            raise Refused(f"the migration {path.name} is not named like 0001_what_it_does.cql")
        if found and found[-1].name[:4] == path.stem[:4]:
            raise Refused(f"the migrations {found[-1].name} and {path.stem} bear the same number")
        lines = (line for line in path.read_text().splitlines() if not line.lstrip().startswith("--"))
        statements = (" ".join(text.split()) for text in "\n".join(lines).split(";"))
        found.append(Migration(path.stem, tuple(text for text in statements if text)))
    return found


def create_keyspace(address: StoreAddress, replication_factor: int | None) -> None:
    """Create the keyspace in the local datacenter unless it exists; one that exists is left as it is.

    Args:
        address: where the store is.
        replication_factor: None keeps three copies, or one where the datacenter has fewer nodes than three.
    """
    connection = Connection(address, use_keyspace=False)
    try:
        datacenter = address.local_datacenter or _datacenter(connection)
        copies = replication_factor or (COPIES if connection.nodes_in(datacenter) >= COPIES else 1)
        connection.execute(
            f"CREATE KEYSPACE IF NOT EXISTS {address.keyspace} WITH replication = "
            f"{{'class': 'NetworkTopologyStrategy', '{datacenter}': {int(copies)}}}"
        )
    finally:
        connection.close()


def migrate(
    connection: Connection,
    migrations: Sequence[Migration] | None = None,
    applied: Callable[[str], None] = lambda _name: None,
) -> list[str]:
    """Apply what is pending, in order.

    Args:
        connection: to the keyspace.
        migrations: those of this program when None.
        applied: told each name as it is done.

    Returns:
        The names of those applied now.

    Raises:
        Refused: an applied migration was changed; nothing is applied then.
    """
    migrations = load_migrations() if migrations is None else migrations
    connection.execute(_LEDGER)
    standings = standing(connection, migrations)
    changed = [name for name, how in standings.items() if how is Standing.CHANGED]
    if changed:
        raise Refused(
            f"the migration {changed[0]} was applied to this store with other statements than its file has now;"
            " restore the file and write what is new into a migration of its own"
        )
    done = []
    for migration in migrations:
        if standings[migration.name] is Standing.APPLIED:
            continue
        for text in migration.statements:
            _apply(connection, text)
        now = time.time_ns() // 1_000
        connection.execute(connection.bound("insert_migration", (migration.name, migration.checksum, now, now)))
        done.append(migration.name)
        applied(migration.name)
    return done


def standing(connection: Connection, migrations: Sequence[Migration] | None = None) -> dict[str, Standing]:
    """Return how each migration stands, in order; those that only the store knows come last."""
    migrations = load_migrations() if migrations is None else migrations
    recorded = _recorded(connection)
    found = {}
    for migration in migrations:
        checksum = recorded.pop(migration.name, None)
        if checksum is None:
            found[migration.name] = Standing.PENDING
        elif checksum == migration.checksum:
            found[migration.name] = Standing.APPLIED
        else:
            found[migration.name] = Standing.CHANGED
    return found | dict.fromkeys(sorted(recorded), Standing.UNKNOWN)


def refuse_unless_migrated(connection: Connection) -> None:
    """Check that the schema is the one that this program needs.

    Raises:
        Refused: migrations are pending or were changed; the message names them and says what to do.
    """
    lacking = [name for name, how in standing(connection).items() if how in (Standing.PENDING, Standing.CHANGED)]
    if lacking:
        raise Refused(
            f"the schema in keyspace {connection.address.keyspace} lacks {', '.join(lacking)};"
            " run `tocsin schema migrate`"
        )


def _recorded(connection: Connection) -> dict[str, str]:
    """Checksums by name; empty where nothing was ever applied."""
    try:
        return {name: checksum for name, checksum, _at in connection.execute(connection.bound("select_migrations", ()))}
    except Refused:
        if _ledger_exists(connection):
            raise
        return {}


def _apply(connection: Connection, text: str) -> None:
    """Carry out a statement; a column that the table has, or that another process adds meanwhile, is left as it is."""
    added = _ADDED.fullmatch(text)
    if added is not None and _has_column(connection, *added.groups()):
        return
    try:
        connection.execute(text)
    except Refused:
        if added is None or not _has_column(connection, *added.groups()):
            raise


def _has_column(connection: Connection, table: str, column: str) -> bool:
    rows = connection.execute(
        "SELECT column_name FROM system_schema.columns"
        " WHERE keyspace_name = %s AND table_name = %s AND column_name = %s",
        (connection.address.keyspace, table, column),
    )
    return bool(rows)


def _ledger_exists(connection: Connection) -> bool:
    rows = connection.execute(
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s AND table_name = 'schema_migrations'",
        (connection.address.keyspace,),
    )
    return bool(rows)


def _datacenter(connection: Connection) -> str:
    rows = connection.execute("SELECT data_center FROM system.local")
    return str(rows[0][0]).replace("'", "''")
