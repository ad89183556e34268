"""What tocsin promises beside its peers. No measuring in here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from benchmarks.results_file import Goal

OURS: Final = "tocsin"
OURS_TOO: Final = "tocsin-2"
"""With a worker process for each of two cores, as most peers use both: judged beside it, and no peer."""
FIRED_TIMES: Final = 5
AT_LEAST_BEFORE: Final = "db-scheduler"
BESIDE: Final = ("fired_per_s", "completed_per_s")
"""What a peer's entry carries of the tocsin of its run."""
LARGE_N: Final = 100_000
"""From so many due at once tocsin is to be ahead of all."""
KILL_S: Final = 30.0


def goals_of(figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Goal]:
    """Judge the rounds that were made: by kind, number and contestant."""
    return [goal for kind, found in figures.items() for goal in _goals_of_round(kind, found)]


def _goals_of_round(kind: str, found: Mapping[str, Mapping[str, Any]]) -> Iterator[Goal]:
    ours = found.get(OURS, {})
    what, _, number = kind.partition(", n=")
    if what == "burst" and "fired_per_s" in ours:
        for name in (OURS, OURS_TOO):
            yield from _goals_beside_peers(name, number, found)
        for name in ("early", "repeats", "not_completed"):
            yield Goal(f"{name}, n={number}", "0", ours[name], ours[name] == 0)
    if what == "kill" and "lost" in ours:
        last_s = ours["last_start_s_after_kill"]
        yield Goal("last start after a kill, s", f"<= {KILL_S:.0f}", last_s, last_s <= KILL_S)
        for name in ("hanging", "lost", "repeated_unmarked"):
            yield Goal(f"{name} after a kill", "0", ours[name], ours[name] == 0)


def _goals_beside_peers(name: str, number: str, found: Mapping[str, Mapping[str, Any]]) -> Iterator[Goal]:
    """Judge tocsin with one worker process, or with two, at so many due at once."""
    beside = {other: _beside(name, one, found) for other, one in found.items() if other not in (OURS, OURS_TOO)}
    times = _least(beside, found, "fired_per_s", "starts_per_s")
    if times is not None:
        yield Goal(f"{name}: fired a second, to the best peer's starts, n={number}", f">= {FIRED_TIMES}",
                   times, times >= FIRED_TIMES)  # fmt: skip
    large = int(number) >= LARGE_N
    rivals = {other: ours for other, ours in beside.items() if large or other == AT_LEAST_BEFORE}
    times = _least(rivals, found, "completed_per_s", "completed_per_s")
    if times is not None:
        whose = "the best peer's" if large else f"{AT_LEAST_BEFORE}'s"
        yield Goal(f"{name}: completed a second, to {whose}, n={number}", "> 1", times, times > 1)


def _beside(name: str, peer: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what tocsin reached in the run in which a peer was measured; nothing where that is not known.

    A peer carries what one worker process reached beside it. Where that is what is kept of it now, and by the same
    commit as with two, these were measured in that run as well.
    """
    carried = {what: peer[f"tocsin_{what}"] for what in BESIDE if f"tocsin_{what}" in peer}
    if name == OURS:
        return carried
    ours, ours_too = found.get(OURS, {}), found.get(OURS_TOO, {})
    same_run = carried.items() <= ours.items() and ours.get("at_commit") == ours_too.get("at_commit")
    return ours_too if carried and same_run else {}


def _least(
    beside: Mapping[str, Mapping[str, Any]], found: Mapping[str, Mapping[str, Any]], ours: str, theirs: str
) -> float | None:
    """Return by how many times tocsin was ahead of the peer that came nearest."""
    times = [one[ours] / found[peer][theirs] for peer, one in beside.items() if found[peer].get(theirs) and ours in one]
    return round(min(times), 2) if times else None
