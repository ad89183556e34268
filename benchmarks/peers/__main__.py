"""``peers``: the same one-offs due at one instant, by tocsin and by others, one after another on this machine.

Each has its servers to itself, in a temporary directory on disk. Run it by ``make bench-peers``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Final

from rich.console import Console

from benchmarks.command import begin, parser
from benchmarks.peers.goals import OURS
from benchmarks.peers.kept import Kept
from benchmarks.peers.programs import PeerFailed
from benchmarks.peers.rounds import Contestant, burst, killed
from benchmarks.peers.stage import PEERS
from benchmarks.peers.stores import versions
from benchmarks.peers.tocsin_stage import Tocsin

CONTESTANTS: Final[tuple[Contestant, ...]] = (Tocsin("tocsin", 1), Tocsin("tocsin-2", 2), *PEERS)
ON_DISK: Final = "/var/tmp"
"""/tmp is memory on some machines, and there nothing would be durable."""

console = Console()


def measure(contestants: list[Contestant], given: argparse.Namespace, kept: Kept) -> None:
    """Run the rounds; what each of them shows is kept at once."""
    kept.put_about("set_up", {one.name: one.set_up for one in contestants})
    with suppress(PeerFailed):
        kept.put_about("servers", versions())
    for n in given.n:
        for one in contestants:
            curve: list[float] = []
            try:
                found, curve = burst(one, n, given.warm)
            except (PeerFailed, SystemExit, subprocess.SubprocessError, OSError) as error:
                found = {"failed": _first_line(error)}
            console.print(f"n={n:,} {one.name}: {found}")
            kept.put(f"burst, n={n}", one.name, found, curve)
    if given.kill:
        for one in contestants:
            try:
                found = killed(one, given.kill, given.warm)
            except (PeerFailed, SystemExit, subprocess.SubprocessError, OSError) as error:
                found = {"failed": _first_line(error)}
            console.print(f"killed at {given.kill // 2:,} {one.name}: {found}")
            kept.put(f"kill, n={given.kill}", one.name, found)


def main() -> None:
    """Run the rounds, and write the result and its plots."""
    names = [one.name for one in CONTESTANTS]
    words = parser("peers", __doc__)
    words.add_argument("--n", type=int, nargs="*", default=[20_000, 100_000], help="jobs due at once; none: no burst")
    words.add_argument("--kill", type=int, default=20_000, help="jobs of the rounds with a kill; 0: leave them out")
    words.add_argument(
        "--warm", type=int, default=1_000, help="jobs that each runs before and that count nowhere, one at least"
    )
    words.add_argument("--only", nargs="+", choices=names, default=names, help="these contestants")
    words.add_argument(
        "--add", action="store_true", help="keep what the result holds, and replace only the rounds that are run now"
    )
    given = begin(words)
    if given.warm < 1:
        words.error("--warm must be 1 at least: these jobs also tell how long the others take to insert")
    if OURS not in given.only:
        words.error(f"--only must name {OURS} as well: what a peer reaches is worth something beside it alone")
    tempfile.tempdir = os.environ.get("TMPDIR", ON_DISK)
    kept = Kept(given, ["python", "-m", "benchmarks.peers", *sys.argv[1:]])
    measure([one for one in CONTESTANTS if one.name in given.only], given, kept)
    for goal in kept.write():
        console.print(f"{goal.name}: {goal.measured:,} ({goal.goal}: {'holds' if goal.holds else 'does not hold'})")


def _first_line(error: BaseException) -> str:
    console.print(str(error))
    return str(error).partition("\n")[0] or type(error).__name__


if __name__ == "__main__":
    main()
