"""``tocsin demo``: a thousand jobs due in one second, on a system made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="Where data and logs are kept; data of earlier runs are dropped.")
    ] = Path(".tocsin/demo"),
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show all that the roles log.")] = False,
) -> None:
    """Start everything here, fire 1,000 jobs in one second, and show what became of each.

    Exits with 0 if all ran, none early; with 1 if not.
    """
    from tocsin.dev.audience import Terminal
    from tocsin.dev.demo.run import run_demo
    from tocsin.devcluster import DevClusterError
    from tocsin.domain.errors import TocsinError

    terminal = Terminal(Console())
    try:
        code = run_demo(data_dir, terminal, keep=keep, verbose=verbose)
    except (DevClusterError, TocsinError) as error:
        terminal.failed(error)
        raise typer.Exit(1) from error
    raise typer.Exit(code)
