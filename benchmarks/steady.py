"""``steady``: jobs that come due evenly, some each millisecond; how late each one is.

First one-offs, created ahead; then recurring jobs of every second, spread over it, whose successors are worked out and
filed as they fire. Lateness is from the due time to the broker's timestamp of the dispatch, and until a read_committed
reader held it. One trigger, no worker. Run it by ``make bench-steady``.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

from rich.console import Console

from benchmarks.command import begin, conclude, parser
from benchmarks.creates import Creates, Outcomes
from benchmarks.plot import write_cumulative
from benchmarks.reader import Seen, reading
from benchmarks.results_file import Goal
from benchmarks.rig import Rig, cpu_s, rig, spread
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.ids import parse_execution_id
from tocsin.domain.instants import format_rfc3339

P99_GOAL_MS: Final = 150.0
SPARE_S: Final = 3.0
"""From the last create's decision until the first job is due."""
WARM_S: Final = 3
"""So long one-offs are due first that count nowhere: clients meet the topics, and servers warm up."""
QUIET_S: Final = 1.0
DRAIN_S: Final = 60.0
KINDS: Final = ("one_offs", "recurring")
TARGET: Final = {"type": "http", "url": "http://127.0.0.1:9/nobody"}

console = Console()


def definitions(kind: str, begin_us: int, per_s: int, lasts_s: int) -> list[dict[str, Any]]:
    """Return what is created, so that ``per_s`` jobs are due each second, evenly."""
    step_us = 1_000_000 // per_s
    if kind == "one_offs":
        due = (begin_us + number * step_us for number in range(per_s * lasts_s))
        return [{"run_at": format_rfc3339(at), "target": TARGET} for at in due]
    end_at = format_rfc3339(begin_us + lasts_s * 1_000_000 - 1)
    starts = (format_rfc3339(begin_us + number * step_us) for number in range(per_s))
    # At most once at a time would skip them, for nobody here carries any out.
    return [
        {
            "schedule": {"every_s": 1, "anchor_at": at, "start_at": at, "end_at": end_at},
            "concurrency": "allow",
            "target": TARGET,
        }
        for at in starts
    ]


def measure(system: Rig, names: TopicNames, trigger: int, kind: str, per_s: int, lasts_s: int) -> dict[str, Any]:
    """Have so many fire for so long; return the figures, and the lateness of each under ``visible``."""
    n = per_s * lasts_s
    lead_s = SPARE_S + 10 + (n if kind == "one_offs" else per_s) / 500
    begin_us = (int(time.time() + lead_s) + 1) * 1_000_000
    until_s = begin_us / 1e6 + lasts_s + DRAIN_S
    console.print(f"{kind}: {n:,} executions, the first due in {begin_us / 1e6 - time.time():.0f} s")
    outcomes, creates = Outcomes(system, names, "steady"), Creates(system, names, "steady")
    with reading(system.bootstrap, names.executions("default"), n, until_s, QUIET_S) as reader:
        reader.wait_ready()
        wanted = definitions(kind, begin_us, per_s, lasts_s)
        for one in wanted:
            creates.send(one)
        creates.flush()
        decided = outcomes.await_accepted(len(wanted), begin_us / 1e6 - SPARE_S)
        outcomes.close()
        if decided < len(wanted):
            said = system.tail("trigger")
            raise SystemExit(f"{decided} of {len(wanted)} creates were decided in time:\n{said}")
        cpu_before_s = cpu_s(trigger)
        seen = reader.seen(until_s - time.time() + QUIET_S)
        used_s = cpu_s(trigger) - cpu_before_s
    return figures_of(seen, n) | {"trigger_cpu_us_per_fire": round(used_s / n * 1e6), "jobs": len(wanted)}


def figures_of(seen: list[Seen], n: int) -> dict[str, Any]:
    """Judge what a reader saw."""
    executions = Counter(record.key.split(b"|")[1].decode() for record in seen)
    if not seen:
        raise SystemExit("nothing was fired")
    due_us = {name: parse_execution_id(name).scheduled_for for name in executions}
    appended, visible = [], []
    for record in seen:
        due = due_us[record.key.split(b"|")[1].decode()]
        # The broker keeps whole milliseconds, so they are compared with the whole ones in which the job was due.
        appended.append(record.appended_ms - due // 1000)
        visible.append((record.visible_us - due) / 1000)
    return {
        "n": n,
        "lateness_appended_ms": spread(appended),
        "lateness_visible_ms": spread(visible),
        "early": sum(late < 0 for late in appended),
        "lost": n - len(executions),
        "published_twice": sum(count - 1 for count in executions.values()),
        "visible": visible,
    }


def goals_of(kind: str, figures: dict[str, Any]) -> list[Goal]:
    p99 = figures["lateness_appended_ms"]["p99"]
    none = [
        Goal(f"{what}, {kind}", "0", figures[what], figures[what] == 0) for what in ("early", "lost", "published_twice")
    ]
    return [Goal(f"p99 lateness, ms, {kind}", f"<= {P99_GOAL_MS:.0f}", p99, p99 <= P99_GOAL_MS), *none]


def main() -> None:
    """Run both kinds, and write the result and its plot."""
    words = parser("steady", __doc__)
    words.add_argument("--per-s", type=int, default=1_000)
    words.add_argument("--lasts-s", type=int, default=60)
    given = begin(words)
    figures: dict[str, Any] = {"per_s": given.per_s, "lasts_s": given.lasts_s}
    curves: dict[str, list[float]] = {}
    with rig() as system:
        names = TopicNames(system.settings.kafka.topic_prefix)
        system.stamp_on_append(names.executions("default"))
        with system.role("trigger", system.owns_all) as trigger:
            measure(system, names, trigger.pid, "one_offs", given.per_s, WARM_S)
            for kind in KINDS:
                figures[kind] = measure(system, names, trigger.pid, kind, given.per_s, given.lasts_s)
                curves[kind.replace("_", "-")] = figures[kind].pop("visible")
                console.print(figures[kind])
    goals = [goal for kind in KINDS for goal in goals_of(kind, figures[kind])]
    conclude("steady", given, figures, goals)
    title = f"Share of executions, by time after they were due ({given.per_s:,} each second)"
    write_cumulative(given.out.with_suffix(".svg"), title, "ms until visible to a read_committed reader", curves)


if __name__ == "__main__":
    main()
