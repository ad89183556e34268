"""What follows from the evidence that peers' handlers leave, and which promises it keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.page import page
from benchmarks.peers.evidence import (
    RECORD,
    Start,
    burst_figures,
    cpu_figures,
    kill_figures,
    lateness_ms,
    read_starts,
    started,
)
from benchmarks.peers.goals import goals_of
from benchmarks.peers.kept import Kept
from benchmarks.peers.stage import HERE

DUE_MS = 1_800_000_000_000


def at(number: int, late_ms: float, told: bool = False) -> Start:
    return Start(number, int((DUE_MS + late_ms) * 1e6), told)


def test_what_a_handler_writes_is_read_again_and_a_torn_write_is_none(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    assert (started(path), read_starts(path)) == (0, [])
    program = "from noted import note; note(7); note(-1, True)"
    environ = {**os.environ, "PYTHONPATH": str(HERE / "python"), "PEER_STARTS": str(path)}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True)
    with path.open("ab") as file:
        file.write(RECORD.pack(8, 0, 0)[:-1])
    assert started(path) == 2
    assert [(start.number, start.told) for start in read_starts(path)] == [(7, False), (-1, True)]


def test_lateness_is_of_first_starts_and_below_zero_where_one_was_early() -> None:
    starts = [at(0, 30), at(1, -5), at(0, 10), at(2, 20)]
    assert [round(ms) for ms in lateness_ms(starts, DUE_MS)] == [-5, 10, 20]
    figures = burst_figures(starts, 4, DUE_MS, 3, DUE_MS / 1000 + 0.5)
    assert (figures["started"], figures["repeats"], figures["early"], figures["not_completed"]) == (3, 1, 1, 1)
    assert (figures["start_ms_last"], figures["starts_per_s"], figures["completed_per_s"]) == (20.0, 150, 6)


def test_nothing_started_is_no_rate() -> None:
    assert burst_figures([], 4, DUE_MS, 0, DUE_MS / 1000 + 60) == {"started": 0, "completed": 0}


def test_after_a_kill_hanging_lost_and_repeated_are_told_apart() -> None:
    starts = [at(0, 1), at(1, 2), at(2, 3), at(1, 9, told=True), at(0, 9)]
    kept = kill_figures(starts, 6, {0, 1}, {2, 3}, {"s": 1.23})
    assert kept == {
        "completed": 2, "hanging": 2, "hanging_never_started": 1, "lost": 2, "repeated": 2, "repeated_unmarked": 1,
        "s": 1.2,
    }  # fmt: skip
    # Where no end is kept, what was started and is no longer in the store has ended.
    unkept = kill_figures(starts, 6, None, {2, 3}, {})
    assert (unkept["completed"], unkept["hanging"], unkept["lost"]) == (2, 2, 2)


def test_processor_time_is_per_completed_execution() -> None:
    assert cpu_figures({"worker": 1.0}, {"worker": 3.0}, 1_000) == {"cpu_us_worker": 2_000.0}
    assert cpu_figures({"worker": 1.0}, {"worker": 3.0}, 0) == {}


def test_the_peer_that_comes_nearest_is_the_measure_and_a_failed_one_is_none() -> None:
    ours: dict[str, Any] = {
        "fired_per_s": 500, "completed_per_s": 90, "early": 0, "repeats": 1, "not_completed": 0,
    }  # fmt: skip
    beside = {"tocsin_fired_per_s": 500, "tocsin_completed_per_s": 90}
    figures = {
        "set_up": {"tocsin": {"as": "…"}},
        "burst, n=20000": {
            "tocsin": ours,
            "tocsin-2": {"fired_per_s": 510, "completed_per_s": 70},
            "river": {"starts_per_s": 101, "completed_per_s": 100, **beside},
            "db-scheduler": {"starts_per_s": 50, "completed_per_s": 80, **beside},
            "quartz": {"failed": "no Java", **beside},
        },
        "burst, n=100000": {"tocsin": ours, "river": {"starts_per_s": 90, "completed_per_s": 100, **beside}},
        "kill, n=20000": {"tocsin": {"last_start_s_after_kill": 31.0, "hanging": 0, "lost": 0, "repeated_unmarked": 0}},
    }
    held = {goal.name: goal.holds for goal in goals_of(figures)}
    assert held["tocsin: fired a second, to the best peer's starts, n=20000"] is False
    assert held["tocsin: fired a second, to the best peer's starts, n=100000"] is True
    assert held["tocsin: completed a second, to db-scheduler's, n=20000"] is True
    assert held["tocsin: completed a second, to the best peer's, n=100000"] is False
    assert held["tocsin-2: fired a second, to the best peer's starts, n=20000"] is True
    assert held["tocsin-2: completed a second, to db-scheduler's, n=20000"] is False
    assert not any("tocsin-2" in name and "n=100000" in name for name in held)
    assert held["repeats, n=20000"] is False
    assert (held["last start after a kill, s"], held["lost after a kill"]) == (False, True)


@pytest.mark.parametrize("older", ["tocsin-2", "river"])
def test_two_workers_are_judged_only_beside_peers_of_their_own_run(older: str) -> None:
    entry: dict[str, Any] = {"early": 0, "repeats": 0, "not_completed": 0, "at_commit": "new"}
    found = {
        "tocsin": {"fired_per_s": 500, "completed_per_s": 90, **entry},
        "tocsin-2": {"fired_per_s": 600, "completed_per_s": 99, **entry},
        "river": {"starts_per_s": 100, "completed_per_s": 80, "tocsin_fired_per_s": 500, "tocsin_completed_per_s": 90},
    }
    assert any("tocsin-2" in goal.name for goal in goals_of({"burst, n=100000": found}))
    found[older] = found[older] | ({"at_commit": "old"} if older == "tocsin-2" else {"tocsin_fired_per_s": 400})
    assert not any("tocsin-2" in goal.name for goal in goals_of({"burst, n=100000": found}))


def test_a_later_run_adds_to_a_result_and_each_peer_keeps_the_tocsin_of_its_own_run(tmp_path: Path) -> None:
    out, kind = tmp_path / "peers.json", "burst, n=20000"

    def run(ours: int, peers: dict[str, int], *, add: bool) -> None:
        kept = Kept(Namespace(out=out, add=add), ["python"])
        kept.put_about("set_up", dict.fromkeys(["tocsin", *peers], "…"))
        zeros = {"early": 0, "repeats": 0, "not_completed": 0}
        curve = [float(ms) for ms in range(1_000)]
        kept.put(kind, "tocsin", {"fired_per_s": ours, "completed_per_s": ours, **zeros}, curve)
        for name, rate in peers.items():
            kept.put(kind, name, {"starts_per_s": rate, "completed_per_s": rate}, curve)

    run(600, {"river": 100, "quartz": 10}, add=False)
    run(200, {"quartz": 20}, add=True)
    result = json.loads(out.read_text("utf-8"))
    found = result["figures"][kind]
    assert list(found) == ["tocsin", "river", "quartz"]
    assert (found["tocsin"]["fired_per_s"], found["river"]["starts_per_s"], found["quartz"]["starts_per_s"]) == (
        200, 100, 20,
    )  # fmt: skip
    assert (found["river"]["tocsin_fired_per_s"], found["quartz"]["tocsin_fired_per_s"]) == (600, 200)
    # 600 beside 100, not 200.
    assert result["goals"][0]["measured"] == 6.0
    assert set(json.loads((tmp_path / "peers-curves.json").read_text("utf-8"))[kind]) == {"tocsin", "river", "quartz"}
    assert "river, 20,000" in (tmp_path / "peers.svg").read_text("utf-8")
    run(200, {"quartz": 20}, add=False)
    assert "river" not in json.loads(out.read_text("utf-8"))["figures"][kind]


def test_a_round_is_one_table_on_the_page() -> None:
    figures = {"set_up": {"a": {"as": "A|1"}}, "burst": {"a": {"p99": 1.5}, "b": {"p99": 20_000, "early": 0}}}
    text = page({"peers": {"figures": figures, "goals": [], "tables": True}}, [])
    assert "| set_up | |\n|---|---|\n| a | A\\|1 |" in text
    assert "| burst | a | b |\n|---|---|---|\n| `p99` | 1.5 | 20,000 |\n| `early` |  | 0 |" in text
