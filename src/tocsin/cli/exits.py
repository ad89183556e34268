"""How commands that ask a server end: exit codes, and failures told in two lines, what is wrong and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import typer
from rich.console import Console
from rich.markup import escape

REFUSED: Final = 1
"""The server refused the request, or an input cannot be read."""
USAGE: Final = 2
"""The command line itself is wrong."""
UNREACHABLE: Final = 3
"""No server answers, or a part that it needs is away; the same command may work later."""
NOT_FOUND: Final = 4
CONFLICT: Final = 5
"""Another job, another version or an active run stands against it."""
PENDING: Final = 6
"""The command is in the log, or may be, and is not decided yet."""

EPILOG: Final = (
    "Exit codes: 0 done; 1 refused by the server, or an input that cannot be read; 2 wrong usage; 3 no server answers; "
    "4 not found; 5 conflict (another job, another version, an active run); 6 not decided yet."
)


class Failure(Exception):
    """A command failed.

    Args:
        exit_code: one of those above.
        problem: what is wrong, one line.
        remedy: what would help, one line; empty where the problem says it.
        more: further lines.
    """

    def __init__(self, exit_code: int, problem: str, remedy: str = "", more: Sequence[str] = ()) -> None:
        super().__init__(problem)
        self.exit_code = exit_code
        self.problem = problem
        self.remedy = remedy
        self.more = tuple(more)


@contextmanager
def failures_told() -> Iterator[None]:
    """Turn a failure into lines on stderr and its exit code."""
    try:
        yield
    except Failure as failure:
        console = Console(stderr=True)
        # Soft wrapping leaves the folding of long lines to the terminal: ids and paths can be copied whole.
        label = "pending" if failure.exit_code == PENDING else "error"
        console.print(f"[bold red]{label}:[/] {escape(failure.problem)}", soft_wrap=True, highlight=False)
        for line in failure.more:
            console.print(f"  {escape(line)}", soft_wrap=True, highlight=False)
        if failure.remedy:
            console.print(f"[bold]remedy:[/] {escape(failure.remedy)}", soft_wrap=True, highlight=False)
        raise typer.Exit(failure.exit_code) from failure
