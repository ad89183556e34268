"""All commands in one place, and how errors are shown."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.console import Console
from rich.markup import escape

from tocsin import __version__
from tocsin.cli import (
    alerts,
    cron,
    demo,
    dev,
    devcluster,
    dlq,
    fleet,
    index,
    job_definitions,
    jobs,
    reconcile,
    roles,
    runs,
    schema,
    tenants,
    topics,
    tz,
)
from tocsin.cli.exits import EPILOG, REFUSED, USAGE
from tocsin.cli.settings_errors import told
from tocsin.cli.shown import plain
from tocsin.domain.errors import TocsinError

app = typer.Typer(
    name="tocsin",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="tocsin: cron at scale. A distributed job scheduler on Kafka and Cassandra.",
)
app.add_typer(devcluster.app, name="devcluster")
app.add_typer(topics.app, name="topics")
app.add_typer(schema.app, name="schema")
app.add_typer(index.app, name="index")
app.add_typer(jobs.app, name="jobs")
jobs.app.command("create")(job_definitions.create_job)
jobs.app.command("update")(job_definitions.update_job)
app.add_typer(runs.app, name="runs")
app.add_typer(dlq.app, name="dlq")
app.add_typer(tenants.app, name="tenants")
app.add_typer(cron.app, name="cron")
app.add_typer(tz.app, name="tz")
app.command(epilog=EPILOG)(fleet.fleet)
app.command(epilog=alerts.EPILOG)(alerts.alerts)
app.command(epilog=reconcile.EPILOG)(reconcile.reconcile)
app.command()(demo.demo)
app.command()(dev.dev)
app.command()(roles.gateway)
app.command()(roles.trigger)
app.command()(roles.worker)
app.command()(roles.projector)
app.command()(roles.notifier)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Run jobs on time, at least once, for many tenants."""


def main() -> None:
    """Run the command line; an error of ours is a line and exit code 1, one in the settings 2, never a traceback."""
    try:
        app()
    except TocsinError as error:
        _tell(str(error))
        sys.exit(REFUSED)
    except (ValidationError, SettingsError) as error:
        for line in told(error):
            _tell(line)
        sys.exit(USAGE)


def _tell(problem: str) -> None:
    Console(stderr=True).print(f"[red]error:[/red] {escape(plain(problem))}", highlight=False, soft_wrap=True)
