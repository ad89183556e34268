"""Results of parts, merged into one file whose sums name the parts that they were made of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

SUMMED: Final = (
    "occurrences",
    "executions",
    "lost",
    "published_twice",
    "early",
    "delivered_twice",
    "delivered_twice_unmarked",
    "accepted_then_lost",
    "ended_twice",
    "skipped",
    "undecided",
)

TAKEOVERS: Final = ("kill_trigger", "stop_trigger", "roll_trigger", "sleep_trigger")
"""Faults whose standstills are the takeovers: of a kill, of polite stops, and of a sleep."""


def merge(
    path: Path,
    name: str,
    command: str,
    part: dict[str, Any],
    *,
    whole_command: str = "make chaos",
    summed: Sequence[str] = SUMMED,
) -> dict[str, Any]:
    """Add a part to the file, or replace the one of the same name, and return the whole."""
    parts: dict[str, Any] = {}
    if path.exists():
        parts = json.loads(path.read_text("utf-8"))["parts"]
    parts[name] = {"command": command, **part}
    whole = sums(parts, whole_command, summed)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=2) + "\n", "utf-8")
    return whole


def sums(parts: dict[str, Any], command: str = "make chaos", summed: Sequence[str] = SUMMED) -> dict[str, Any]:
    """Return the sums of all parts, and the parts.

    Lateness cannot be summed: it is the worst part's for each figure. Nor can what ran at once: it is the most.
    """
    faults: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    standstills: dict[str, list[float]] = {}
    for part in parts.values():
        faults.update(part["faults"])
        causes.update(part.get("delivered_twice_by_cause", {}))
        for fault, found in part.get("standstill_s", {}).items():
            standstills.setdefault(fault, []).extend(found)
    figures = [part["lateness_ms"] for part in parts.values() if part["lateness_ms"]]
    at_once = [part["at_once_max"] for part in parts.values() if "at_once_max" in part]
    return {
        "command": command,
        "duration_s": round(sum(part["duration_s"] for part in parts.values()), 1),
        **{name: sum(part.get(name, 0) for part in parts.values()) for name in summed},
        **({"delivered_twice_by_cause": dict(sorted(causes.items()))} if causes else {}),
        **({"at_once_max": max(at_once)} if at_once else {}),
        "faults": dict(sorted(faults.items())),
        "lateness_ms": {key: max(figure[key] for figure in figures) for key in ("p50", "p99", "max")}
        if figures
        else {},
        "takeover_s": {name: _spread(standstills[name]) for name in TAKEOVERS if name in standstills},
        "standstill_s": dict(sorted(standstills.items())),
        "parts": parts,
    }


def _spread(found: list[float]) -> dict[str, float]:
    return {"times": len(found), "median": median(found), "max": max(found)}
