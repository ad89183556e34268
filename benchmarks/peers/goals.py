"""What tocsin promises beside its peers. No measuring in here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.results_file import Goal

OURS: Final = "tocsin"
OURS_TOO: Final = "tocsin-2"
"""With a worker process more: shown beside, and no peer."""
FIRED_TIMES: Final = 5
AT_LEAST_BEFORE: Final = "db-scheduler"
LARGE_N: Final = 100_000
"""From so many due at once tocsin is to be ahead of all."""
KILL_S: Final = 30.0


def goals_of(figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Goal]:
    """Judge the rounds that were made: by kind, number and contestant."""
    return [goal for kind, found in figures.items() for goal in _goals_of_round(kind, found)]


def _goals_of_round(kind: str, found: Mapping[str, Mapping[str, Any]]) -> Iterator[Goal]:
    ours = found.get(OURS, {})
    others = {name: one for name, one in found.items() if name not in (OURS, OURS_TOO)}
    what, _, number = kind.partition(", n=")
    if what == "burst" and "fired_per_s" in ours:
        times = _least(others, "tocsin_fired_per_s", "starts_per_s")
        if times is not None:
            yield Goal(f"fired a second, to the best peer's starts, n={number}", f">= {FIRED_TIMES}",
                       times, times >= FIRED_TIMES)  # fmt: skip
        large = int(number) >= LARGE_N
        rivals = others if large else {AT_LEAST_BEFORE: others.get(AT_LEAST_BEFORE, {})}
        times = _least(rivals, "tocsin_completed_per_s", "completed_per_s")
        if times is not None:
            whose = "the best peer's" if large else f"{AT_LEAST_BEFORE}'s"
            yield Goal(f"completed a second, to {whose}, n={number}", "> 1", times, times > 1)
        for name in ("early", "repeats", "not_completed"):
            yield Goal(f"{name}, n={number}", "0", ours[name], ours[name] == 0)
    if what == "kill" and "lost" in ours:
        last_s = ours["last_start_s_after_kill"]
        yield Goal("last start after a kill, s", f"<= {KILL_S:.0f}", last_s, last_s <= KILL_S)
        for name in ("hanging", "lost", "repeated_unmarked"):
            yield Goal(f"{name} after a kill", "0", ours[name], ours[name] == 0)


def _least(others: Mapping[str, Mapping[str, Any]], ours: str, theirs: str) -> float | None:
    """Return by how many times tocsin was ahead of the peer that came nearest, each in the run that measured both."""
    found = [one[ours] / one[theirs] for one in others.values() if one.get(theirs) and ours in one]
    return round(min(found), 2) if found else None
