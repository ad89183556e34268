"""``tocsin dev``: a whole tocsin on this machine, in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataDir = Annotated[
    Path, typer.Option("--data-dir", envvar="TOCSIN_DEV_DIR", help="Where data and logs are kept.", show_default=True)
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        help="Port of the gateway; 0 takes any free one. Default: 8080, or another where that is taken.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show all that the roles log.")]


def dev(
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop the data of earlier runs first.")] = False,
    data_dir: DataDir = Path(".tocsin"),
    port: Port = None,
    echo: Annotated[bool, typer.Option("--echo", help="Run a receiver that shows the calls it gets.")] = False,
    ready_file: Annotated[
        Path | None, typer.Option("--ready-file", help="Written, as JSON, once everything serves.")
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Start Kafka, Cassandra and all four roles here, for development.

    Jobs may call this machine (127.0.0.1). Ctrl-C or SIGTERM stops everything and keeps the data; given
    TOCSIN_KAFKA__BOOTSTRAP_SERVERS or TOCSIN_CASSANDRA__CONTACT_POINTS, those servers are used and left alone.
    """
    from tocsin.dev.audience import Terminal
    from tocsin.dev.run import run_dev
    from tocsin.dev.system import DevOptions
    from tocsin.devcluster import DevClusterError
    from tocsin.domain.errors import TocsinError

    terminal = Terminal()
    options = DevOptions(
        data_dir, fresh=fresh, port=port, echo=echo, ready_file=ready_file and ready_file.resolve(), verbose=verbose
    )
    try:
        run_dev(options, terminal)
    except (DevClusterError, TocsinError) as error:
        terminal.failed(error)
        raise typer.Exit(1) from error
