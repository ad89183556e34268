"""What was found so far: written down after each contestant's round, and taken up by a later run that adds to it.

Machines and hours differ, so a peer is compared only with the tocsin of the same run: its entry carries what that
reached beside it, and keeps it when another run adds to the result.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.goals import BESIDE, OURS, OURS_TOO, goals_of
from benchmarks.plot import write_bars, write_cumulative
from benchmarks.results_file import Goal, commit, machine, write_result

CURVE_POINTS: Final = 200


class Kept:
    """A result in the making.

    Args:
        given: the command's words.
        command: how it was called.
    """

    def __init__(self, given: argparse.Namespace, command: Sequence[str]) -> None:
        self._out: Path = given.out
        self._command = command
        self._curves_path = self._out.with_name(f"{self._out.stem}-curves.json")
        self.figures: dict[str, dict[str, Any]] = {}
        self._curves: dict[str, dict[str, list[float]]] = {}
        if given.add:
            self.figures = _read(self._out).get("figures", {})
            self._curves = _read(self._curves_path)
        self._ours: dict[str, dict[str, Any]] = {}
        """By round: what tocsin reached in this run."""

    def put_about(self, title: str, said: Mapping[str, str]) -> None:
        """Keep what is said of contestants or servers, in place of what was said before."""
        self.figures.setdefault(title, {}).update({name: {"as": text} for name, text in said.items()})

    def put(self, kind: str, name: str, found: Mapping[str, Any], curve: Sequence[float] = ()) -> None:
        """Keep a contestant's round, in place of an earlier one, and write all down.

        Args:
            kind: of the round.
            name: the contestant's.
            found: its figures.
            curve: how late each start was, in order.
        """
        if name == OURS:
            self._ours[kind] = dict(found)
        beside = {}
        if name not in (OURS, OURS_TOO):
            ours = self._ours.get(kind, {})
            beside = {f"tocsin_{what}": ours[what] for what in BESIDE if what in ours}
        measured = {
            "measured_at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
            "at_commit": commit()[:12],
            "load_at_the_end": machine()["load_at_the_end"],
        }
        self.figures.setdefault(kind, {})[name] = {**found, **beside, **measured}
        self._curves.setdefault(kind, {}).pop(name, None)
        if curve:
            self._curves[kind][name] = [round(ms, 2) for ms in _thinned(curve)]
        self.write()

    def write(self) -> list[Goal]:
        """Write the result and its plots; return which goals hold."""
        goals = goals_of(self.figures)
        write_result(self._out, self._command, self.figures, goals, tables=True)
        self._curves_path.write_text(json.dumps(self._curves) + "\n", "utf-8")
        self._draw()
        return goals

    def _draw(self) -> None:
        bursts = {kind: found for kind, found in self.figures.items() if kind.startswith("burst, n=")}
        bars = {
            f"{name}, {int(kind.removeprefix('burst, n=')):,}": bursts[kind][name]["completed_per_s"]
            for name in self.figures.get("set_up", {})
            for kind in bursts
            if "completed_per_s" in bursts[kind].get(name, {})
        }
        if bars:
            write_bars(self._out.with_suffix(".svg"), "executions completed a second", bars)
        largest = max(bursts, key=lambda kind: int(kind.removeprefix("burst, n=")), default="")
        if curves := self._curves.get(largest):
            number = int(largest.removeprefix("burst, n="))
            title = f"Share of {number:,} jobs started, by time after they were due"
            write_cumulative(self._out.with_name(f"{self._out.stem}-lateness.svg"), title, "ms", curves, log_from=1.0)


def _thinned(curve: Sequence[float]) -> list[float]:
    """Return as many of the values as a plot shows, the first and the last among them."""
    last = len(curve) - 1
    return [curve[at] for at in sorted({round(i * last / (CURVE_POINTS - 1)) for i in range(CURVE_POINTS)})]


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    found = json.loads(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found
