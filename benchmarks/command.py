"""What the commands of all benchmarks have in common: their words, their end, and what they say when stopped."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.console import Console

from benchmarks.results_file import RESULTS, Goal, commit, load_at_the_beginning, write_result

STOPPING: Final = (signal.SIGTERM, signal.SIGHUP)
"""Without a handler they end a process at once and without a word: its roles and directories would be left behind."""

console = Console()


def parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a benchmark's parser; the caller adds words of its own.

    Args:
        name: of its module, and of its result.
        doc: what it measures.
    """
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--out", type=Path, default=RESULTS / f"{name}.json", help="the result; plots, if any, go beside it"
    )
    return made


def begin(made: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the process's words, and see to it that a run that is stopped cleans up and says so."""
    given = made.parse_args()
    commit()
    load_at_the_beginning()
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _stop)
    console.print(f"{made.prog}: the result will be {given.out}")
    return given


def conclude(
    name: str, given: argparse.Namespace, figures: Mapping[str, Any], goals: Sequence[Goal], *, tables: bool = False
) -> None:
    """Write the result, and say which goals hold."""
    write_result(given.out, ["python", "-m", f"benchmarks.{name}", *sys.argv[1:]], figures, goals, tables=tables)
    console.print_json(given.out.read_text("utf-8"))
    for goal in goals:
        console.print(f"{goal.name}: {goal.measured:,} ({goal.goal}: {'holds' if goal.holds else 'does not hold'})")


def _stop(number: int, _frame: FrameType | None) -> None:
    for other in STOPPING:
        signal.signal(other, signal.SIG_IGN)  # cleaning up is under way, and is not to be broken off
    raise SystemExit(f"stopped by {signal.Signals(number).name}: no result was written")
