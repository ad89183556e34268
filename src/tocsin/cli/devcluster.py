"""`tocsin devcluster`: start, stop and look at the development cluster. Words and tables only, no work."""

from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from tocsin.devcluster import DevCluster, DevClusterError, Endpoints, RichProgress

EXIT_FAILED = 1
EXIT_NOT_RUNNING = 3  # as `systemctl status` has it

app = typer.Typer(help="A real Kafka and Cassandra on this machine, for development.", no_args_is_help=True)
_console = Console()
_errors = Console(stderr=True)

DataDir = Annotated[
    Path,
    typer.Option(
        "--data-dir", envvar="TOCSIN_DEV_DIR", help="Where data, logs and settings are kept.", show_default=True
    ),
]
_DATA_DIR_DEFAULT = Path(".tocsin")


@app.command()
def up(
    data_dir: DataDir = _DATA_DIR_DEFAULT,
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop all data first.")] = False,
    brokers: Annotated[
        int | None, typer.Option(help="Kafka brokers; as many as the data are for, or 1.", show_default=False)
    ] = None,
    stores: Annotated[
        int | None, typer.Option(help="Cassandra nodes; as many as the data are for, or 1.", show_default=False)
    ] = None,
) -> None:
    """Start Kafka and Cassandra, wait until they answer, and print where."""
    progress = RichProgress(_console)
    try:
        endpoints = DevCluster(data_dir, brokers=brokers, stores=stores).up(fresh=fresh, report=progress)
    except DevClusterError as error:
        _fail(error)
    finally:
        progress.close()
    _print_endpoints(endpoints)


@app.command()
def down(data_dir: DataDir = _DATA_DIR_DEFAULT) -> None:
    """Stop both and wait until they are gone; data are kept."""
    try:
        DevCluster(data_dir).down(report=_console.print)
    except DevClusterError as error:
        _fail(error)
    _console.print("stopped; data are kept")


@app.command()
def status(data_dir: DataDir = _DATA_DIR_DEFAULT) -> None:
    """Show each server; the exit code is 3 unless all run."""
    nodes = DevCluster(data_dir).status()
    table = Table("name", "state", "pid", "ports", "memory", Column("log", overflow="fold"))
    for node in nodes:
        ports = " ".join(f"{name}={port}" for name, port in node.ports.items())
        memory = f"{node.rss_mb:.0f} MB" if node.rss_mb is not None else ""
        table.add_row(node.name, node.state, str(node.pid or ""), ports, memory, escape(str(node.log)))
    _console.print(table)
    if any(node.state not in ("running", "external") for node in nodes):
        raise typer.Exit(EXIT_NOT_RUNNING)


def _print_endpoints(endpoints: Endpoints) -> None:
    points = ",".join(endpoints.cassandra_contact_points)
    _console.print("[bold green]ready[/]" if endpoints.managed else "[bold green]reachable, as the environment says[/]")
    # Plain lines: they can be pasted into a shell.
    for line in (
        f"export TOCSIN_KAFKA__BOOTSTRAP_SERVERS={endpoints.kafka_bootstrap}",
        f"export TOCSIN_CASSANDRA__CONTACT_POINTS={points}",
        f"export TOCSIN_CASSANDRA__PORT={endpoints.cassandra_port}",
    ):
        typer.echo(line)


def _fail(error: DevClusterError) -> NoReturn:
    # Soft wrapping leaves the folding of long lines to the terminal: paths can be copied whole.
    _errors.print(f"[bold red]error:[/] {escape(error.message)}", soft_wrap=True, highlight=False)
    _errors.print(f"[bold]remedy:[/] {escape(error.remedy)}", soft_wrap=True, highlight=False)
    if error.log is not None:
        _errors.print(f"[bold]log:[/] {escape(str(error.log))}", soft_wrap=True, highlight=False)
    if error.log_tail:
        _errors.print(error.log_tail, style="dim", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(EXIT_FAILED) from error
