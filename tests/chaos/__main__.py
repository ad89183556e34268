"""``python -m tests.chaos``: the full form, in parts. Each part adds its sums to ``benchmarks/results/chaos.json``."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import uuid
from pathlib import Path

from tests.chaos.checker import lateness
from tests.chaos.faults import FAULTS
from tests.chaos.load import Load
from tests.chaos.picture import draw
from tests.chaos.report import merge
from tests.chaos.rig import rig
from tests.chaos.run import run_part, save_logs, tell

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
LOGS = ROOT / ".tocsin" / "chaos-logs"
"""Where the processes' logs of each part are kept."""


def main() -> int:
    arguments = _arguments()
    unknown = sorted(set(arguments.faults) - set(FAULTS))
    if unknown:
        print(f"unknown faults: {', '.join(unknown)}; known: {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    results: Path = arguments.results
    unique = f"c{uuid.uuid4().hex[:8]}"
    with (
        tempfile.TemporaryDirectory(prefix="tocsin-chaos-") as name,
        rig(
            Path(name),
            unique,
            arguments.brokers,
            arguments.stores,
            with_small_disk="fill_disk" in arguments.faults,
        ) as made,
    ):
        load = Load(made, one_offs_per_s=arguments.one_offs_per_s)
        part = run_part(made, arguments.faults, arguments.duration_s, load)
        print(tell(part), flush=True)
        save_logs(made, LOGS / arguments.name)
        bad = bool(part.verdict.violations or part.broken)
    command = shlex.join(["python", "-m", "tests.chaos", *sys.argv[1:]])
    whole = merge(results / "chaos.json", arguments.name, command, part.as_dict())
    title = f"{arguments.name}: {part.verdict.occurrences:,} occurrences, {len(part.history.faults)} faults"
    draw(results / f"chaos-{arguments.name}.svg", title, lateness(part.history), part.history.faults)
    print(f"all parts: {whole['duration_s']} s, {whole['occurrences']} occurrences, {whole['lost']} lost", flush=True)
    return 1 if bad else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--name", default="all", help="of the part, in the results")
    parser.add_argument(
        "--faults",
        type=lambda text: text.split(","),
        default=list(FAULTS),
        help=f"which, with commas between; by default all: {', '.join(FAULTS)}",
    )
    parser.add_argument(
        "--duration-s", type=float, default=1800.0, help="faults are made until so long after the start"
    )
    parser.add_argument("--one-offs-per-s", type=float, default=4.0)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--stores", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
