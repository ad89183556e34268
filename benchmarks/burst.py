"""``burst``: N one-offs due at one instant; how fast one trigger publishes them, and how late each one is.

Creates go through the command topic; the trigger is a real process on a real broker and store, and the figures come
from what a read_committed reader sees. Run it by ``make bench-burst``.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console

from benchmarks.bare import bare_rounds, transactions_of
from benchmarks.command import begin, conclude, parser
from benchmarks.creates import Creates, Outcomes
from benchmarks.plot import write_cumulative
from benchmarks.reader import reading
from benchmarks.results_file import Goal
from benchmarks.rig import Rig, rig, spread
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.instants import format_rfc3339

RATIO_GOAL: Final = 0.5
P99_GOAL_S: Final = 2.0
QUIET_S: Final = 1.0
SPARE_S: Final = 1.0
"""All creates must be decided so long before they are due, or the run says nothing about firing."""
DRAIN_S: Final = 120.0
NEVER: Final = ("early", "lost", "published_twice")
NOBODY: Final = {"type": "http", "url": "http://127.0.0.1:9/nobody", "body": '{"from": "burst"}'}
BARE_TOPIC: Final = "bare-executions"

console = Console()


def create(system: Rig, names: TopicNames, n: int, due_s: int, target: Mapping[str, Any] = NOBODY) -> float:
    """Create N one-offs through the command topic; return the Unix time at which the last was decided."""
    definition = {"run_at": format_rfc3339(due_s * 1_000_000), "target": target}
    outcomes = Outcomes(system, names, "burst")
    creates = Creates(system, names, "burst")
    for _ in range(n):
        creates.send(definition)
    creates.flush()
    decided = outcomes.await_accepted(n, due_s)
    now = time.time()
    outcomes.close()
    if decided < n or now > due_s - SPARE_S:
        raise SystemExit(f"{decided} of {n} creates were decided in time:\n{system.tail('trigger')}")
    return now


def measure(system: Rig, names: TopicNames, n: int, lead_s: float, rounds: int) -> tuple[dict[str, Any], list[float]]:
    """Run one burst and the bare loop after it; return the figures, and the lateness of each record until visible."""
    due_s = int(time.time() + lead_s) + 1
    console.print(f"{n:,} one-offs, due in {due_s - time.time():.0f} s")
    topic = names.executions("default")
    with reading(system.bootstrap, topic, n, due_s + DRAIN_S, QUIET_S) as reader:
        reader.wait_ready()
        began = time.time()
        decided_at = create(system, names, n, due_s)
        console.print(f"all decided {due_s - decided_at:.1f} s before they are due")
        seen = reader.seen(due_s - time.time() + DRAIN_S + QUIET_S)
    executions = Counter(record.key.split(b"|")[1] for record in seen)
    if not seen:
        raise SystemExit(f"nothing was fired:\n{system.tail('trigger')}")
    appended = [record.appended_ms - due_s * 1000.0 for record in seen]
    visible = [record.visible_us / 1000 - due_s * 1000.0 for record in seen]
    took_s = max(visible) / 1000
    console.print(f"last one visible {took_s:.2f} s after it was due; now the bare loop")
    bare_s = bare_rounds(system.bootstrap, BARE_TOPIC, seen, rounds)
    rate, bare_rate = len(executions) / took_s, len(seen) / statistics.median(bare_s)
    figures = {
        "n": n,
        "creates_decided_per_s": round(n / (decided_at - began)),
        "executions_per_s": round(rate),
        "bare_records_per_s": round(bare_rate),
        "ratio_to_bare": round(rate / bare_rate, 3),
        "bare_rounds_s": [round(s, 3) for s in bare_s],
        "transactions": transactions_of(seen),
        "value_bytes_mean": round(statistics.mean(len(record.value) for record in seen)),
        "lateness_appended_ms": spread(appended),
        "lateness_visible_ms": spread(visible),
        "early": sum(late < 0 for late in appended),
        "lost": n - len(executions),
        "published_twice": sum(count - 1 for count in executions.values()),
    }
    return figures, visible


def lead_of(n: int) -> float:
    """Return how long creating so many may take, s."""
    return 10 + n / 1000


def median_of(
    bursts: list[tuple[dict[str, Any], list[float]]],
) -> tuple[dict[str, Any], list[float]]:
    """Return the burst with the median ratio; what must never happen is summed over all of them."""
    ordered = sorted(bursts, key=lambda burst: burst[0]["ratio_to_bare"])
    figures, visible = ordered[len(ordered) // 2]
    totals = {what: sum(one[what] for one, _ in bursts) for what in NEVER}
    return figures | totals | {"ratios": [one["ratio_to_bare"] for one, _ in bursts]}, visible


def goals_of(figures: dict[str, Any]) -> list[Goal]:
    """Judge one burst."""
    n, ratio, p99_s = figures["n"], figures["ratio_to_bare"], figures["lateness_visible_ms"]["p99"] / 1000
    none = [Goal(f"{what}, n={n}", "0", figures[what], figures[what] == 0) for what in NEVER]
    return [
        Goal(f"share of the bare loop, n={n}", f">= {RATIO_GOAL}", ratio, ratio >= RATIO_GOAL),
        Goal(f"p99 lateness until visible, s, n={n}", f"< {P99_GOAL_S}", round(p99_s, 3), p99_s < P99_GOAL_S),
        *none,
    ]


def main() -> None:
    """Run the bursts, and write the result and its plot."""
    words = parser("burst", __doc__)
    words.add_argument("--n", type=int, nargs="+", default=[5_000], help="how many one-offs; one burst for each number")
    words.add_argument("--lead-s", type=float, help="time for creating them; default: 10 s and 1 s a thousand")
    words.add_argument("--bursts", type=int, default=1, help="of each number; the one with the median ratio counts")
    words.add_argument("--warm", type=int, default=1_000, help="one-offs of a first burst that counts nowhere")
    words.add_argument("--rounds", type=int, default=3, help="of the bare loop; the median counts")
    given = begin(words)
    figures: dict[str, Any] = {}
    curves: dict[str, list[float]] = {}
    with rig() as system:
        names = TopicNames(system.settings.kafka.topic_prefix)
        system.stamp_on_append(names.executions("default"))
        system.create_like(names.executions("default"), BARE_TOPIC)
        with system.role("trigger", system.owns_all):
            if given.warm:
                measure(system, names, given.warm, lead_of(given.warm), 1)
            for n in given.n:
                lead_s = given.lead_s or lead_of(n)
                bursts = [measure(system, names, n, lead_s, given.rounds) for _ in range(given.bursts)]
                figures[f"n={n}"], curves[f"{n:,} due at once"] = median_of(bursts)
    goals = [goal for one in figures.values() for goal in goals_of(one)]
    conclude("burst", given, figures, goals)
    title = "Share of one-offs published, by time after they were due"
    write_cumulative(given.out.with_suffix(".svg"), title, "ms until visible to a read_committed reader", curves)


if __name__ == "__main__":
    main()
