"""``index``: what a burst costs with few and with millions of rows pending.

Two systems on the same machine, one with few rows, one with many, loaded through the command topic like any others.
Bursts of the same size alternate between them, and the medians of the pairs count: neither how fast one fires, nor how
late, nor the trigger's memory may depend on what is pending. Run it by ``make bench-index``.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from benchmarks.burst import create
from benchmarks.command import begin, conclude, parser
from benchmarks.creates import Creates, Outcomes
from benchmarks.plot import write_bars
from benchmarks.reader import reading
from benchmarks.results_file import Goal
from benchmarks.rig import Rig, cpu_s, metric, peak_memory_mib, rig, spread, wait_until
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.instants import format_rfc3339

WITHIN: Final = 0.10
LEAD_S: Final = 10.0
CREATES_PER_S: Final = 1_000
DRAIN_S: Final = 120.0
QUIET_S: Final = 1.0
CHUNK: Final = 10_000
PATIENCE_S: Final = 600.0
AHEAD_S: Final = 3_600
"""The first pending row is due so long from now."""
TARGET: Final = {"type": "http", "url": "http://127.0.0.1:9/nobody", "body": '{"from": "index"}'}

console = Console()


@dataclass
class Loaded:
    """A system with rows pending. ``trigger``: its pid."""

    system: Rig
    names: TopicNames
    trigger: int
    pending: int


def load(system: Rig, names: TopicNames, pending: int, days: float) -> float:
    """Create one-offs that are due over the coming days; return how long it took until all were in the index, s."""
    began = time.monotonic()
    first_us, step_us = int(time.time() + AHEAD_S) * 1_000_000, round(days * 86_400e6 / pending)
    outcomes, creates = Outcomes(system, names, "load"), Creates(system, names, "load")
    for at in range(0, pending, CHUNK):
        count = min(CHUNK, pending - at)
        for number in range(at, at + count):
            creates.send({"run_at": format_rfc3339(first_us + number * step_us), "target": TARGET})
        creates.flush()
        if outcomes.await_accepted(count, time.time() + PATIENCE_S) < count:
            raise SystemExit(f"{count} creates were not decided within {PATIENCE_S:.0f} s")
    outcomes.close()
    url = system.facts("trigger")["metrics_url"]
    wait_until(lambda: metric(url, "tocsin_unwritten_turns") == 0, PATIENCE_S)
    return time.monotonic() - began


def burst(one: Loaded, n: int) -> dict[str, Any]:
    """Have N one-offs come due at once; return the figures."""
    due_s = int(time.time() + LEAD_S + n / CREATES_PER_S) + 1
    with reading(one.system.bootstrap, one.names.executions("default"), n, due_s + DRAIN_S, QUIET_S) as reader:
        reader.wait_ready()
        create(one.system, one.names, n, due_s)
        before_s = cpu_s(one.trigger)
        seen = reader.seen(due_s - time.time() + DRAIN_S + QUIET_S)
        used_s = cpu_s(one.trigger) - before_s
    if len(seen) != n:
        raise SystemExit(f"of {n} executions {len(seen)} were published:\n{one.system.tail('trigger')}")
    late_ms = [record.visible_us / 1000 - due_s * 1000.0 for record in seen]
    return {
        "executions_per_s": n / (max(late_ms) / 1000),
        "p99_ms": spread(late_ms)["p99"],
        "cpu_us_per_fire": used_s / n * 1e6,
        "early": sum(record.appended_ms < due_s * 1000 for record in seen),
    }


def compare(few: Loaded, many: Loaded, n: int, pairs: int) -> dict[str, list[dict[str, Any]]]:
    """Run bursts in pairs, each time the other one first, after a pair that does not count."""
    found: dict[str, list[dict[str, Any]]] = {"few": [], "many": []}
    for number in range(pairs + 1):
        both = (("few", few), ("many", many))
        for name, one in both if number % 2 else both[::-1]:
            figures = burst(one, n)
            console.print(f"{one.pending:,} pending: {figures}")
            if number:
                found[name].append(figures)
    return found


def summed(one: Loaded, bursts: list[dict[str, Any]], loading_s: float) -> dict[str, Any]:
    return {
        "pending": one.pending,
        "loaded_per_s": round(one.pending / loading_s),
        "executions_per_s": [round(each["executions_per_s"]) for each in bursts],
        "p99_ms": [each["p99_ms"] for each in bursts],
        "cpu_us_per_fire": round(statistics.median(each["cpu_us_per_fire"] for each in bursts)),
        "early": sum(each["early"] for each in bursts),
        "trigger_memory_mib_max": peak_memory_mib(one.trigger),
    }


def main() -> None:
    """Load both, run the pairs, and write the result and its plot."""
    words = parser("index", __doc__)
    words.add_argument("--n", type=int, default=10_000, help="one-offs of a burst")
    words.add_argument("--pending", type=int, nargs=2, default=[10_000, 2_000_000], help="rows, of few and of many")
    words.add_argument("--days", type=float, default=7.0, help="over which the pending rows are due")
    words.add_argument("--pairs", type=int, default=7)
    given = begin(words)
    both: list[Loaded] = []
    loading_s: list[float] = []
    with ExitStack() as stack:
        for pending in given.pending:
            system = stack.enter_context(rig())
            names = TopicNames(system.settings.kafka.topic_prefix)
            system.stamp_on_append(names.executions("default"))
            trigger = stack.enter_context(system.role("trigger", system.owns_all))
            console.print(f"loading {pending:,} rows")
            loading_s.append(load(system, names, pending, given.days))
            both.append(Loaded(system, names, trigger.pid, pending))
        found = compare(both[0], both[1], given.n, given.pairs)
        few, many = (summed(one, found[name], s) for one, name, s in zip(both, found, loading_s, strict=True))
    ratios = [b["executions_per_s"] / a["executions_per_s"] for a, b in zip(found["few"], found["many"], strict=True)]
    ratio = round(statistics.median(ratios), 3)
    early = few["early"] + many["early"]
    figures = {"n": given.n, "pairs": given.pairs, "few": few, "many": many, "many_to_few": ratio}
    goals = [
        Goal("with many rows pending, to few", f"within {WITHIN:.0%}", ratio, abs(ratio - 1) <= WITHIN),
        Goal("early", "0", early, early == 0),
    ]
    conclude("index", given, figures, goals)
    bars = {f"{one['pending']:,} rows": statistics.median(one["executions_per_s"]) for one in (few, many)}
    write_bars(given.out.with_suffix(".svg"), f"Executions a second, {given.n:,} due at once, by rows pending", bars)


if __name__ == "__main__":
    main()
