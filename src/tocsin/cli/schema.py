"""`tocsin schema`: bring the store's tables to what this program needs, and show how they stand. Words only."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tocsin.bootstrap.schema import apply_migrations, migration_standings
from tocsin.config import Settings
from tocsin.domain.errors import TocsinError

EXIT_FAILED = 1
EXIT_PENDING = 3  # as `systemctl status` has it

app = typer.Typer(help="The tables in Cassandra or Scylla.", no_args_is_help=True)
_console = Console()
_errors = Console(stderr=True)


@app.command()
def migrate() -> None:
    """Create the keyspace if it is missing, and apply the migrations that are pending. Safe to repeat."""
    settings = Settings()
    try:
        done = apply_migrations(settings, lambda name: _console.print(f"applied {name}", highlight=False))
    except TocsinError as error:
        _fail(error)
    keyspace = settings.cassandra.keyspace
    _console.print(f"{keyspace}: {len(done)} applied" if done else f"{keyspace}: nothing to do", highlight=False)


@app.command()
def status() -> None:
    """Show each migration; the exit code is 3 unless all are applied."""
    try:
        standings = migration_standings(Settings())
    except TocsinError as error:
        _fail(error)
    table = Table("migration", "state")
    for name, state in standings.items():
        table.add_row(name, state)
    _console.print(table)
    if any(state not in ("applied", "unknown") for state in standings.values()):
        raise typer.Exit(EXIT_PENDING)


def _fail(error: TocsinError) -> NoReturn:
    _errors.print(f"[red]error:[/red] {escape(str(error))}", highlight=False)
    raise typer.Exit(EXIT_FAILED)
