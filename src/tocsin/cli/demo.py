"""``tocsin demo``: every kind of job and a worker's death, on a system made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.dev import Port, Verbose


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
    jobs: Annotated[int, typer.Option(min=1, max=20_000, help="How many jobs are due in one second.")] = 1_000,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="Where data and logs are kept; data of earlier runs are dropped.")
    ] = Path(".tocsin/demo"),
    port: Port = None,
    verbose: Verbose = False,
) -> None:
    """Start everything here, fire a thousand jobs in one second, kill a worker, and show what became of each job.

    There are also a cron job, an interval and delayed Kafka messages. It takes a minute or two.

    Exits with 0 if all ran, none early, and repeated calls said so; with 1 if not.
    """
    from tocsin.dev.audience import Terminal
    from tocsin.dev.demo.run import run_demo
    from tocsin.devcluster import DevClusterError
    from tocsin.domain.errors import TocsinError

    terminal = Terminal()
    try:
        code = run_demo(data_dir, terminal, burst=jobs, keep=keep, port=port, verbose=verbose)
    except (DevClusterError, TocsinError) as error:
        terminal.failed(error)
        raise typer.Exit(1) from error
    raise typer.Exit(code)
