"""Writes docs/benchmarks.md from ``results/*.json``: no figure on it was typed. Run it by ``make bench-page``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.capacity import page as capacity
from benchmarks.results_file import RESULTS, ROOT

PAGE: Final = ROOT / "docs" / "benchmarks.md"
ROWS_MAX: Final = 80
"""Figures of one result that are shown; the rest is in its file."""
INTRODUCTION: Final = """\
# Results of the benchmarks

Written by `make bench-page` from [`benchmarks/results/`](../benchmarks/results); what each figure is stands in
[`benchmarks/README.md`](../benchmarks/README.md). Each result names the commit and the machine that it was measured
on, and the load that the machine had before and at the end: where it was well above the number of cores, or not small
before, other work ran beside, rates and lateness say little, and ratios within one run and CPU times are what holds.
"""


def page(results: Mapping[str, Mapping[str, Any]], plots: Sequence[str]) -> str:
    """Return the page.

    Args:
        results: the content of each result file, by its name without suffix.
        plots: names of the plots' files.
    """
    parts = [INTRODUCTION, *_goals(results)]
    for name, result in results.items():
        parts += _section(name, result, [plot for plot in plots if plot.removesuffix(".svg").split("-")[0] == name])
    return "\n".join(parts).rstrip() + "\n"


def _goals(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| benchmark | goal | wanted | measured | holds |\n|---|---|---|---|---|"
    for name, result in results.items():
        for goal in result.get("goals", ()):
            holds = "yes" if goal["holds"] else "**no**"
            yield f"| [{name}](#{name}) | {goal['name']} | {goal['goal']} | {_shown(goal['measured'])} | {holds} |"
    yield ""


def _section(name: str, result: Mapping[str, Any], plots: Sequence[str]) -> Iterator[str]:
    yield f"## {name}\n"
    machine = result.get("machine", {})
    yield f"`{result.get('command', '')}` at commit `{_short(str(result.get('commit', 'unknown')))}`, on"
    before, after = (machine.get(f"load_at_the_{when}", "not noted") for when in ("beginning", "end"))
    yield (
        f"{machine.get('cores', '?')} cores of {machine.get('cpu', 'an unknown processor')},"
        f" {machine.get('memory_gib', '?')} GiB, Python {machine.get('python', '?')}, load at the beginning"
        f" {before}, at the end {after}.\n"
    )
    for plot in plots:
        yield f"![{plot}](../benchmarks/results/{plot})\n"
    if result.get("tables"):
        for title, table in result["figures"].items():
            yield from _table(title, table)
        return
    rows = list(_flat(result.get("figures", {})))
    yield "| figure | value |\n|---|---|"
    for key, value in rows[:ROWS_MAX]:
        yield f"| `{key}` | {value} |"
    if len(rows) > ROWS_MAX:
        yield f"\n{len(rows) - ROWS_MAX} more are in [`{name}.json`](../benchmarks/results/{name}.json)."
    yield ""


def _table(title: str, table: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield figures by row and column; columns are few enough to be read, so the longer side goes down."""
    columns, rows = list(table), list(dict.fromkeys(key for one in table.values() for key in one))
    if len(rows) == 1:
        yield f"| {title} | |\n|---|---|"
        yield from (f"| {name} | {_shown(one.get(rows[0], ''))} |" for name, one in table.items())
    else:
        yield f"| {title} | {' | '.join(columns)} |\n|---{'|---' * len(columns)}|"
        for key in rows:
            yield f"| `{key}` | {' | '.join(_shown(table[name].get(key, '')) for name in columns)} |"
    yield ""


def _flat(figures: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(figures, dict):
        for key, value in figures.items():
            yield from _flat(value, f"{prefix} {key}".strip())
    elif isinstance(figures, list) and any(isinstance(one, dict | list) for one in figures):
        yield prefix, f"{len(figures)} entries"
    elif isinstance(figures, list):
        yield prefix, ", ".join(map(_shown, figures))
    else:
        yield prefix, _shown(figures)


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("|", "\\|")
    return f"{value:,}" if abs(value) >= 10_000 else str(value)


def _short(commit: str) -> str:
    sha, plus, changes = commit.partition("+")
    return f"{sha[:12]}{plus}{changes}"


def written() -> str:
    """Return what the page has to be now."""
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))}
    # Results of chaos are of another kind: they say what was lost, not how fast it was.
    results = {name: result for name, result in found.items() if "goals" in result and "figures" in result}
    return page(results, sorted(path.name for path in RESULTS.glob("*.svg")))


def main(path: Path = PAGE) -> None:
    """Write the page, and that of the capacity model, which reckons with the same results."""
    path.write_text(written(), "utf-8")
    if path == PAGE:
        capacity.main()


if __name__ == "__main__":
    main()
