"""Looks for seeds that find each mutant: ``python -m tests.simulation.hunt``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import NamedTuple

from tests.simulation.broker import Violation
from tests.simulation.mutants import MUTANTS, UNSEEN
from tests.simulation.runner import run_seeds

SEEDS_MAX = 200


class Find(NamedTuple):
    """How a mutant was found."""

    mutant: str
    seeds: int
    fault: str | None

    @property
    def is_by_a_check(self) -> bool:
        """Tell whether a check has found it; otherwise it only broke itself, which shows nothing of its rule."""
        return self.fault is not None and self.fault.startswith(f"{Violation.__name__}:")


def hunt(mutant: str, seeds: int) -> Find:
    """Run seeds under a mutant until one fails."""
    results = run_seeds(range(seeds), mutant, stop=True)
    return Find(mutant, len(results), results[-1].fault)


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt all, or those whose names contain a word; return 1 if one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.hunt", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="how many to try for each")
    parser.add_argument("--only", default="", help="those whose names begin with this")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args(arguments)
    names = [name for name in MUTANTS if name.startswith(chosen.only)]
    began, finds = time.monotonic(), []
    with ProcessPoolExecutor(chosen.processes) as pool:
        for done in as_completed([pool.submit(hunt, name, chosen.seeds) for name in names]):
            find = done.result()
            finds.append(find)
            how = f"{find.seeds:>4} seeds" if find.is_by_a_check else "BREAKS" if find.fault else "SURVIVES"
            print(f"{how:>10}  {find.mutant:<66} {(find.fault or '')[:100]}", flush=True)
    for name, test in UNSEEN.items():
        print(f"{'elsewhere':>10}  {name:<66} {test}")
    survivors = [find.mutant for find in finds if not find.is_by_a_check]
    print(f"{len(finds)} mutants, {len(survivors)} survive or break themselves; {time.monotonic() - began:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
