"""How a result is written down: what was run, on what, the figures, and which goals they meet. No measuring here."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import confluent_kafka

from tocsin.devcluster.versions import CASSANDRA_COORDINATES, KAFKA_COORDINATES

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Goal:
    """A promise, and what was found."""

    name: str
    goal: str
    measured: float
    holds: bool


def write_result(
    path: Path, command: Sequence[str], figures: Mapping[str, Any], goals: Sequence[Goal], *, tables: bool = False
) -> None:
    """Write one benchmark's result file; ``tables``: each of its figures is a table, by row and column."""
    path.parent.mkdir(parents=True, exist_ok=True)
    result = {
        "command": shlex.join(command),
        "commit": commit(),
        "machine": machine(),
        "figures": dict(figures),
        "goals": [asdict(goal) for goal in goals],
    }
    if tables:
        result["tables"] = True
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8")


@cache
def commit() -> str:
    """Return the commit that was measured; ``+changes`` where the sources differ from it.

    It is asked once, when a benchmark begins: what is committed while it runs is not what runs.
    """
    head = _git("rev-parse", "HEAD")
    if not head:
        return "unknown"
    return (
        f"{head}+changes"
        if _git("status", "--porcelain", "--", "src", "schemas", "topics", "benchmarks/*.py", "benchmarks/peers")
        else head
    )


@cache
def load_at_the_beginning() -> float:
    """Return the machine's load before anything was done, for the first one who asks."""
    return round(os.getloadavg()[0], 2)


def machine() -> dict[str, Any]:
    """Return what the figures depend on; the machine's name is not among it."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_at_the_beginning": load_at_the_beginning(),
        "load_at_the_end": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "servers": [*KAFKA_COORDINATES[:1], *CASSANDRA_COORDINATES],
        "servers_on_the_same_cores": True,
    }


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "unknown")
