"""Whom a development system tells what happens; and the one that is a terminal."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from rich.console import Console
from rich.markup import escape

from tocsin.dev.log_lines import ShownLine
from tocsin.devcluster import DevClusterError, ProgressReporter, RichProgress

ROLE_CHARS: Final = 9
"""Width of the longest role's name, so that lines stand below one another."""
LEVEL_STYLES: Final = {"warning": "yellow", "error": "bold red", "critical": "bold red"}


class Audience(Protocol):
    """Hears what happens. Calls may come from several threads and never fail."""

    @property
    def progress(self) -> ProgressReporter:
        """What hears of the servers' start and stop."""
        ...

    def said(self, text: str, *, bad: bool = False) -> None:
        """Take a line about a step or, bad, about something that went wrong."""
        ...

    def logged(self, role: str, line: ShownLine) -> None:
        """Take what a child wrote and people should see."""
        ...

    def called(self, text: str) -> None:
        """Take a call that the echo receiver got."""
        ...


class SteadyConsole(Console):
    """A console that falls silent when nobody reads it any more, instead of ending the process as rich's own does."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        if self.file is sys.stdout:
            # What is left in its buffer would otherwise be an error when the interpreter ends.
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), sys.stdout.fileno())


class Terminal:
    """An audience that prints. A terminal that is gone is no reason to fail: the system still has to be stopped."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or SteadyConsole()
        self.progress = RichProgress(self.console)

    def said(self, text: str, *, bad: bool = False) -> None:
        self._print(f"[bold red]{escape(text)}[/]" if bad else escape(text))

    def logged(self, role: str, line: ShownLine) -> None:
        style = LEVEL_STYLES.get(line.level, "dim")
        self._print(f"[{style}]{role:>{ROLE_CHARS}} │[/] {escape(line.text)}")

    def called(self, text: str) -> None:
        self._print(f"[cyan]{'echo':>{ROLE_CHARS}} │[/] {escape(text)}")

    def headline(self, text: str) -> None:
        """Print what must not be overlooked."""
        self._print(f"[bold green]{escape(text)}[/]")

    def plain(self, text: str) -> None:
        """Print text as it is, fit to be pasted into a shell."""
        self._print(escape(text))

    def failed(self, error: Exception) -> None:
        """Print an error with all that it carries."""
        if not isinstance(error, DevClusterError):
            self._print(f"[bold red]error:[/] {escape(str(error))}")
            return
        self._print(f"[bold red]error:[/] {escape(error.message)}")
        self._print(f"[bold]remedy:[/] {escape(error.remedy)}")
        if error.log is not None:
            self._print(f"[bold]log:[/] {escape(str(error.log))}")
        if error.log_tail:
            self._print(f"[dim]{escape(error.log_tail)}[/]")

    def _print(self, markup: str) -> None:
        with suppress(OSError):
            # Soft wrapping leaves the folding to the terminal: paths and commands can be copied whole.
            self.console.print(markup, highlight=False, soft_wrap=True)
