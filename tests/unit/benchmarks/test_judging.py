"""What benchmarks make of what they measured: which burst counts, which goals hold; and how they are stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import burst, index, memory
from benchmarks.plot import write_lines
from benchmarks.results_file import ROOT


def test_of_several_bursts_the_median_counts_and_what_must_never_happen_is_summed() -> None:
    def one(ratio: float, early: int) -> tuple[dict[str, Any], list[float]]:
        return {"ratio_to_bare": ratio, "early": early, "lost": 0, "published_twice": 0}, [ratio]

    figures, visible = burst.median_of([one(0.9, 0), one(0.1, 2), one(0.5, 1)])
    assert (figures["ratio_to_bare"], visible) == (0.5, [0.5])
    assert (figures["ratios"], figures["early"], figures["lost"]) == ([0.9, 0.1, 0.5], 3, 0)


def test_memory_is_judged_from_the_fewest_to_the_most_and_a_gateways_where_its_outcomes_are_full() -> None:
    few, mid, many = {"gateway": 100.0}, {"gateway": 200.0}, {"gateway": 210.0}
    for role in memory.ROLES:
        if role != "gateway":
            few[role], mid[role], many[role] = 100.0, 110.0, 140.0
    goals = {goal.name: goal for goal in memory.goals_of({10: few, 100: mid, 1_000: many}, 100)}
    assert goals["trigger, MiB more with 1,000 pending than with 10"].holds is False
    assert goals["gateway, MiB more with 1,000 pending than with 100"].measured == 10.0
    assert len(goals) == len(memory.ROLES)
    # Where no step fills a gateway's outcomes, or only the last one does, nothing is said of it.
    assert not [goal for goal in memory.goals_of({10: few, 1_000: many}, 1_000) if goal.name.startswith("gateway")]


def test_the_last_step_of_the_index_is_judged_and_all_steps_for_what_came_early() -> None:
    def step(ratio: float, few_mib: float, many_mib: float, early: int) -> dict[str, Any]:
        return {
            "few": {"trigger_memory_mib_max": few_mib, "early": 0},
            "many": {"trigger_memory_mib_max": many_mib, "early": early},
            "many_to_few": ratio,
        }

    ahead = {"many": {"pending": 2_000, "trigger_cpu_us_per_row": 30.0, "early": 0}}
    figures = {"steps": {"1,000": step(0.2, 1, 900, 1), "2,000": step(0.95, 100, 120, 0)}, "read_ahead": ahead}
    goals = {goal.name: (goal.measured, goal.holds) for goal in index.goals_of(figures)}
    assert goals["with 2,000 rows pending, to few"] == (0.95, True)
    assert goals["the trigger's memory beyond that with few, MiB"] == (20, True)
    assert goals["reading a row ahead, µs, 2,000 pending"] == (30.0, False)
    assert goals["early"] == (1, False)


def test_a_line_goes_through_the_medians_and_large_numbers_are_short(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    write_lines(path, "a & b", "rows", {"one": [(10, 4), (10, 5), (10, 9), (1_000_000, 5)]}, [10, 1_000_000])
    text = path.read_text("utf-8")
    assert text.count("<circle") == 4
    points = text.partition('points="')[2].partition('"')[0].split()
    assert len(points) == 2
    # Both medians are 5, so the line is level.
    assert points[0].split(",")[1] == points[1].split(",")[1]
    assert ">1M<" in text and "a &amp; b" in text


def test_a_benchmark_that_is_stopped_cleans_up_and_says_so(tmp_path: Path) -> None:
    program = (
        "import signal\n"
        "from benchmarks.command import begin, parser\n"
        "begin(parser('x', None))\n"
        "try:\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "finally:\n"
        "    print('cleaned up')\n"
    )
    words = [sys.executable, "-c", program, "--out", str(tmp_path / "x.json")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode not in (0, -signal.SIGTERM)
    assert "cleaned up" in done.stdout
    assert "stopped by SIGTERM" in done.stderr
