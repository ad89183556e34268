"""``peers``: the same one-offs due at one instant, by tocsin and by others, one after another on this machine.

Each has its servers to itself, in a temporary directory on disk. Run it by ``make bench-peers``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from benchmarks.peers.goals import goals_of
from benchmarks.peers.programs import PeerFailed
from benchmarks.peers.rounds import Contestant, burst, killed
from benchmarks.peers.stage import PEERS
from benchmarks.peers.stores import versions
from benchmarks.peers.tocsin_stage import Tocsin
from benchmarks.plot import write_bars, write_cumulative
from benchmarks.results_file import RESULTS, write_result

CONTESTANTS: Final[tuple[Contestant, ...]] = (Tocsin("tocsin", 1), Tocsin("tocsin-2", 2), *PEERS)
ON_DISK: Final = "/var/tmp"
"""/tmp is memory on some machines, and there nothing would be durable."""

console = Console()


def measure(contestants: list[Contestant], given: argparse.Namespace) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Run the rounds; return the figures by round and contestant, and the lateness in the largest burst."""
    figures: dict[str, Any] = {"set_up": {one.name: {"as": one.set_up} for one in contestants}}
    with suppress(PeerFailed):
        figures["servers"] = {name: {"as": version} for name, version in versions().items()}
    curves: dict[str, list[float]] = {}
    for n in given.n:
        found = figures[f"burst, n={n}"] = {}
        for one in contestants:
            try:
                found[one.name], curves[one.name] = burst(one, n, given.warm)
            except (PeerFailed, SystemExit, subprocess.SubprocessError, OSError) as error:
                found[one.name] = {"failed": _first_line(error)}
            console.print(f"n={n:,} {one.name}: {found[one.name]}")
    if given.kill:
        found = figures[f"kill, n={given.kill}"] = {}
        for one in contestants:
            try:
                found[one.name] = killed(one, given.kill, given.warm)
            except (PeerFailed, SystemExit, subprocess.SubprocessError, OSError) as error:
                found[one.name] = {"failed": _first_line(error)}
            console.print(f"killed at {given.kill // 2:,} {one.name}: {found[one.name]}")
    return figures, curves


def main() -> None:
    """Run the rounds, and write the result and its plots."""
    names = [one.name for one in CONTESTANTS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--n", type=int, nargs="*", default=[20_000, 100_000], help="jobs due at once; none: no burst")
    parser.add_argument("--kill", type=int, default=20_000, help="jobs of the rounds with a kill; 0: leave them out")
    parser.add_argument(
        "--warm", type=int, default=1_000, help="jobs that each runs before and that count nowhere, one at least"
    )
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="these contestants")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers.json", help="the result; plots go beside it")
    given = parser.parse_args()
    if given.warm < 1:
        parser.error("--warm must be 1 at least: these jobs also tell how long the others take to insert")
    tempfile.tempdir = os.environ.get("TMPDIR", ON_DISK)
    figures, curves = measure([one for one in CONTESTANTS if one.name in given.only], given)
    goals = goals_of(figures)
    write_result(given.out, ["python", "-m", "benchmarks.peers", *sys.argv[1:]], figures, goals, tables=True)
    _draw(given.out, figures, curves, given.n)
    for goal in goals:
        console.print(f"{goal.name}: {goal.measured:,} ({goal.goal}: {'holds' if goal.holds else 'does not hold'})")


def _draw(out: Path, figures: Mapping[str, Any], curves: Mapping[str, list[float]], numbers: list[int]) -> None:
    if not curves:
        return
    bars = {}
    for name in figures["set_up"]:
        for n in numbers:
            found = figures[f"burst, n={n}"][name]
            if "completed_per_s" in found:
                bars[f"{name}, {n:,}"] = found["completed_per_s"]
    write_bars(out.with_suffix(".svg"), "executions completed a second", bars)
    title = f"Share of {numbers[-1]:,} jobs started, by time after they were due"
    write_cumulative(out.with_name(f"{out.stem}-lateness.svg"), title, "ms", curves, log_from=1.0)


def _first_line(error: BaseException) -> str:
    console.print(str(error))
    return str(error).partition("\n")[0] or type(error).__name__


if __name__ == "__main__":
    main()
