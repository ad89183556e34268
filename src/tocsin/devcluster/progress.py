"""How a caller hears of progress: the protocol, and what stands behind it in a terminal. No work is done here."""

from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

FilesTotal = int | None


class ProgressReporter(Protocol):
    """What `DevCluster.up` tells while it works; calls may come from several threads."""

    def say(self, text: str) -> None:
        """Take one line about a step."""

    def files_started(self, label: str, total: FilesTotal) -> None:
        """A set of downloads begins or, under the same label, learns its total."""

    def file_received(self, label: str, size_bytes: int) -> None:
        """One file of the set has arrived and was verified, or was there already (0 bytes)."""

    def files_finished(self, label: str) -> None:
        """The set is complete or given up."""


class SayOnly:
    """A reporter made of a function that takes lines; sets of downloads become a line each."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def say(self, text: str) -> None:
        self._say(text)

    def files_started(self, label: str, total: FilesTotal) -> None:
        if total is not None:
            self._say(f"{label}: {total} files")

    def file_received(self, label: str, size_bytes: int) -> None:
        pass

    def files_finished(self, label: str) -> None:
        pass


class RichProgress:
    """A reporter that draws a bar for each set of downloads on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._received_bytes: dict[str, int] = {}

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def files_started(self, label: str, total: FilesTotal) -> None:
        if self._progress is None:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[received]}"),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._progress.start()
        if label in self._tasks:
            self._progress.update(self._tasks[label], total=total)
        else:
            self._tasks[label] = self._progress.add_task(label, total=total, received="")
            self._received_bytes[label] = 0

    def file_received(self, label: str, size_bytes: int) -> None:
        if self._progress is None or label not in self._tasks:
            return
        self._received_bytes[label] += size_bytes
        received = f"{self._received_bytes[label] / 1e6:.1f} MB"
        self._progress.update(self._tasks[label], advance=1, received=received)

    def files_finished(self, label: str) -> None:
        self._tasks.pop(label, None)
        if not self._tasks:
            self.close()

    def close(self) -> None:
        """Stop drawing, whatever is unfinished."""
        self._tasks.clear()
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def as_reporter(report: "Callable[[str], None] | ProgressReporter | None") -> ProgressReporter:
    """Take what a caller gave, a function, a reporter or nothing, as a reporter."""
    if report is None:
        return SayOnly(lambda _: None)
    if callable(report):
        return SayOnly(report)
    return report
