"""All benchmarks one after another in short form, and one table of their goals at the end. Run it by ``make bench``.

The short forms are for seeing that everything still works and where a figure has moved by a factor; results that are
kept come from the benchmarks' own commands, on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.results_file import ROOT

SHORT: Final[dict[str, tuple[str, ...]]] = {
    "next": ("--n", "20000", "--n-peers", "100"),
    "burst": ("--n", "5000"),
    "steady": ("--per-s", "500", "--lasts-s", "10"),
    "create": ("--n", "5000", "--lasts-s", "8"),
    "history": ("--n", "10000", "--pairs", "3", "--lasts-s", "10"),
    "index": ("--n", "3000", "--pending", "1000", "10000", "50000", "--pairs", "3", "--step-pairs", "1"),
    "memory": ("--n", "2000", "--pending", "1000", "30000"),
    "worker": (),
    "fairness": (),
    "failover": (),
}
"""The further words of each one's command."""

console = Console()


def main() -> int:
    """Run them; return 1 where one failed (a goal that does not hold is no failure: machines differ)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.all", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*SHORT, []], help="only these")
    given = parser.parse_args()
    failed = []
    table = Table("benchmark", "goal", "wanted", "measured", "holds")
    with tempfile.TemporaryDirectory(prefix="tocsin-results-") as directory:
        for name in given.names or SHORT:
            out = Path(directory) / f"{name}.json"
            console.rule(name)
            words = [sys.executable, "-m", f"benchmarks.{name}", *SHORT[name], "--out", str(out)]
            subprocess.run(words, cwd=ROOT, check=False)
            if not out.exists():
                failed.append(name)
                continue
            for goal in json.loads(out.read_text("utf-8"))["goals"]:
                holds = "yes" if goal["holds"] else "[bold red]no[/]"
                table.add_row(name, goal["name"], goal["goal"], f"{goal['measured']:,}", holds)
    console.print(table)
    if failed:
        console.print(f"[bold red]no result:[/] {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
