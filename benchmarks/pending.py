"""One-offs that are due in the days to come, created through the command topic, until all of them are in the index."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from benchmarks.creates import Creates, Outcomes
from benchmarks.rig import Rig, cpu_s, metric, wait_until
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.instants import format_rfc3339

CHUNK: Final = 5_000
"""One chunk is encoded and sent while the one before it is being decided, and no further: a service that creates much
waits as well, and with any number of rows the owner has the same queue before it."""
AHEAD_S: Final = 3 * 3_600
"""The first row is due so long from now: after the end of what is measured."""
PATIENCE_S: Final = 600.0
SAID_EVERY: Final = 100_000
TARGET: Final = {"type": "http", "url": "http://127.0.0.1:9/nobody", "body": '{"from": "pending"}'}

console = Console()


@dataclass
class Loading:
    """How it went.

    Attributes:
        rows: how many were loaded.
        took_s: until the store had acknowledged the last row.
        trigger_cpu_s: CPU time of the trigger.
    """

    rows: int
    took_s: float
    trigger_cpu_s: float

    @property
    def figures(self) -> Mapping[str, Any]:
        """What loading cost."""
        return {
            "rows": self.rows,
            "took_s": round(self.took_s, 1),
            "per_s": round(self.rows / self.took_s),
            "trigger_cpu_us_per_row": round(self.trigger_cpu_s / self.rows * 1e6),
        }


def load(system: Rig, names: TopicNames, trigger: int, rows: int, days: float) -> Loading:
    """Create one-offs that are due evenly over days to come; return how it went once all are in the index.

    ``trigger``: its pid.
    """
    began_s, cpu_before_s = time.monotonic(), cpu_s(trigger)
    first_us, step_us = int(time.time() + AHEAD_S) * 1_000_000, round(days * 86_400e6 / rows)
    outcomes, creates = Outcomes(system, names, "load"), Creates(system, names, "load")
    decided = 0

    def await_decided(wanted: int) -> int:
        """Wait until so many are decided; return how many were."""
        so_far = decided
        if so_far < wanted:
            so_far += outcomes.await_accepted(wanted - so_far, time.time() + PATIENCE_S)
        if so_far < wanted:
            raise SystemExit(f"{so_far} of {wanted} creates were decided within {PATIENCE_S:.0f} s")
        return so_far

    for at in range(0, rows, CHUNK):
        for number in range(at, min(at + CHUNK, rows)):
            creates.send({"run_at": format_rfc3339(first_us + number * step_us), "target": TARGET})
        creates.flush()
        decided = await_decided(at)
        if at and at % SAID_EVERY == 0:
            console.print(f"{at:,} of {rows:,} after {time.monotonic() - began_s:.0f} s")
    await_decided(rows)
    outcomes.close()
    await_written(system)
    return Loading(rows, time.monotonic() - began_s, cpu_s(trigger) - cpu_before_s)


def await_written(system: Rig) -> None:
    """Wait until the store has acknowledged all rows of the trigger."""
    url = str(system.facts("trigger")["metrics_url"])
    wait_until(lambda: metric(url, "tocsin_unwritten_turns") == 0, PATIENCE_S)
