"""``index``: what a burst costs with few and with millions of rows pending.

Two systems on the same machine, one with few rows, one that is loaded step by step through the command topic like any
other. At each step bursts of the same size alternate between the two, so each figure has one beside it that was
measured a moment apart with few rows; the medians of the pairs count. Neither how fast one fires, nor how late, nor
the trigger's memory, nor what a row costs that is read ahead, may depend on what is pending. Run it by
``make bench-index``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from benchmarks.burst import create
from benchmarks.command import begin, conclude, parser
from benchmarks.pending import await_written, load
from benchmarks.plot import write_lines
from benchmarks.reader import Seen, reading
from benchmarks.results_file import Goal
from benchmarks.rig import Rig, cpu_s, peak_memory_mib, rig, spread
from tocsin.adapters.kafka.names import TopicNames

WITHIN: Final = 0.10
MORE_MIB: Final = 64
"""Both fire the same bursts, so all that differs is what is pending; at a hundred bytes for each of two million rows it
would be 190."""
READ_GOAL_US: Final = 25.0
LEAD_S: Final = 10.0
SPARE: Final = 2.0
"""Creating so many times slower than while loading is still soon enough."""
CREATES_PER_S_MIN: Final = 200.0
"""What is loaded by a few rows only says little of how fast it goes."""
DRAIN_S: Final = 120.0
QUIET_S: Final = 1.0
IDLE_S: Final = 10.0
"""So long a trigger's CPU time is watched before rows are read ahead, to be taken off what reading them costs."""
BEFORE_S: Final = 0.5
READ_S: Final = 6.0
"""So long before and after the read ahead begins; all is read well within, and little else is counted with it."""
MINUTE_S: Final = 60

console = Console()


@dataclass
class Loaded:
    """A system with rows pending.

    Attributes:
        trigger: its pid.
        pending: rows that were loaded.
        per_s: creates a second while it was loaded; by that is reckoned how long those of a burst will take.
    """

    system: Rig
    names: TopicNames
    trigger: int
    pending: int = 0
    per_s: float = CREATES_PER_S_MIN

    def load_upto(self, wanted: int, days: float) -> Mapping[str, Any]:
        """Load until so many rows are pending; return what it cost."""
        loading = load(self.system, self.names, self.trigger, wanted - self.pending, days)
        self.pending, self.per_s = wanted, loading.rows / loading.took_s
        return loading.figures

    def create_s(self, n: int) -> float:
        """Return how long creating N one-offs may take at most."""
        return LEAD_S + SPARE * n / max(self.per_s, CREATES_PER_S_MIN)


def burst(one: Loaded, n: int) -> dict[str, Any]:
    """Have N one-offs come due at once; return the figures."""
    due_s = int(time.time() + one.create_s(n)) + 1
    with reading(one.system.bootstrap, one.names.executions("default"), n, due_s + DRAIN_S, QUIET_S) as reader:
        reader.wait_ready()
        create(one.system, one.names, n, due_s)
        before_s = cpu_s(one.trigger)
        seen = reader.seen(due_s - time.time() + DRAIN_S + QUIET_S)
        used_s = cpu_s(one.trigger) - before_s
    return {**figures_of(one, seen, n, due_s), "cpu_us_per_fire": used_s / n * 1e6}


def figures_of(one: Loaded, seen: Sequence[Seen], n: int, due_s: int) -> dict[str, Any]:
    """Judge what a reader saw of a burst; one that is not complete says nothing."""
    if len(seen) != n or len({record.key for record in seen}) != n:
        raise SystemExit(f"of {n} executions {len(seen)} were published:\n{one.system.tail('trigger')}")
    late_ms = [record.visible_us / 1000 - due_s * 1000.0 for record in seen]
    return {
        "executions_per_s": n / (max(late_ms) / 1000),
        "p99_ms": spread(late_ms)["p99"],
        "early": sum(record.appended_ms < due_s * 1000 for record in seen),
    }


def compare(few: Loaded, many: Loaded, n: int, pairs: int) -> dict[str, Any]:
    """Run bursts in pairs, each time the other one first, after a pair that does not count; return the figures."""
    found: dict[str, list[dict[str, Any]]] = {"few": [], "many": []}
    for number in range(pairs + 1):
        both = (("few", few), ("many", many))
        for name, one in both if number % 2 else both[::-1]:
            figures = burst(one, n)
            console.print(f"{one.pending:,} pending: {figures}")
            if number:
                found[name].append(figures)
    a, b = (summed(one, found[name]) for name, one in (("few", few), ("many", many)))
    ratios = [y / x for x, y in zip(a["executions_per_s"], b["executions_per_s"], strict=True)]
    return {"few": a, "many": b, "many_to_few": round(statistics.median(ratios), 3)}


def summed(one: Loaded, bursts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "pending": one.pending,
        "executions_per_s": [round(each["executions_per_s"]) for each in bursts],
        "p99_ms": [each["p99_ms"] for each in bursts],
        "cpu_us_per_fire": round(statistics.median(each["cpu_us_per_fire"] for each in bursts)),
        "early": sum(each["early"] for each in bursts),
        "trigger_memory_mib_max": peak_memory_mib(one.trigger),
    }


def read_ahead(systems: Mapping[str, Loaded], n: int) -> dict[str, dict[str, Any]]:
    """Create N one-offs for a minute that no trigger has read yet; return what reading them cost, and how they fired.

    A trigger begins to read a minute some time before it comes, by its settings; nothing but that happens then.
    """
    trigger = systems["few"].system.settings.trigger
    lead_s = trigger.preload_lead_s + (trigger.preload_minutes - 1) * MINUTE_S
    ready_s = time.time() + sum(one.create_s(n) for one in systems.values()) + IDLE_S
    due_s = (int(ready_s + lead_s) // MINUTE_S + 1) * MINUTE_S
    begins_s = due_s - lead_s
    for one in systems.values():
        create(one.system, one.names, n, due_s)
        await_written(one.system)
    if time.time() > begins_s - IDLE_S:
        raise SystemExit("the rows were not written before they were read ahead")
    used: list[dict[str, float]] = []
    for at_s in (begins_s - IDLE_S, begins_s - BEFORE_S, begins_s + READ_S):
        time.sleep(max(0.0, at_s - time.time()))
        used.append({name: cpu_s(one.trigger) for name, one in systems.items()})
    found = {}
    with ExitStack() as stack:
        readers = {}
        for name, one in systems.items():
            topic = one.names.executions("default")
            reader = stack.enter_context(reading(one.system.bootstrap, topic, n, due_s + DRAIN_S, QUIET_S))
            reader.wait_ready()
            readers[name] = reader
        for name, one in systems.items():
            seen = readers[name].seen(due_s - time.time() + DRAIN_S + QUIET_S)
            first, before, after = (each[name] for each in used)
            idle_s = (before - first) / (IDLE_S - BEFORE_S)
            reading_s = after - before - idle_s * (READ_S + BEFORE_S)
            fired = figures_of(one, seen, n, due_s)
            found[name] = {
                "pending": one.pending,
                "n": n,
                "trigger_cpu_us_per_row": round(reading_s / n * 1e6, 1),
                "trigger_cpu_share_idle": round(idle_s, 4),
                "early": fired["early"],
            }
            console.print(f"{one.pending:,} pending: {found[name]}")
    return found


def goals_of(figures: Mapping[str, Any]) -> list[Goal]:
    steps = list(figures["steps"].values())
    upto, last = list(figures["steps"])[-1], steps[-1]
    ratio = last["many_to_few"]
    more_mib = round(last["many"]["trigger_memory_mib_max"] - last["few"]["trigger_memory_mib_max"], 1)
    early = sum(step[name]["early"] for step in steps for name in ("few", "many"))
    goals = [
        Goal(f"with {upto} rows pending, to few", f"within {WITHIN:.0%}", ratio, abs(ratio - 1) <= WITHIN),
        Goal("the trigger's memory beyond that with few, MiB", f"<= {MORE_MIB}", more_mib, more_mib <= MORE_MIB),
    ]
    for one in figures["read_ahead"].values():
        cost = one["trigger_cpu_us_per_row"]
        goals.append(
            Goal(
                f"reading a row ahead, µs, {one['pending']:,} pending",
                f"<= {READ_GOAL_US:.0f}",
                cost,
                cost <= READ_GOAL_US,
            )
        )
        early += one["early"]
    return [*goals, Goal("early", "0", early, early == 0)]


def flat(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step's figures as a column: what is of both systems one below the other."""
    both = {f"{key} {name}": step[name][key] for key in step["few"] for name in ("few", "many")}
    loading = {f"loading {key}": value for key, value in step["loading"].items()}
    return {"many_to_few": step["many_to_few"], **both, **loading}


def draw(out: Path, n: int, steps: Sequence[dict[str, Any]]) -> None:
    """Draw what the bursts of each step reached, and beside each what the system with few rows reached meanwhile."""
    few = steps[0]["few"]["pending"]
    names = {"many": "as many rows pending", "few": f"{few:,} rows pending, measured in turn with these"}

    def line(name: str, figure: str) -> list[tuple[float, float]]:
        values = [(step["many"]["pending"], step[name][figure]) for step in steps]
        return [(x, y) for x, found in values for y in (found if isinstance(found, list) else [found])]

    ticks = [step["many"]["pending"] for step in steps]
    for path, figure, title in (
        (out.with_suffix(".svg"), "executions_per_s", f"Executions a second, {n:,} due at once, by rows pending"),
        (
            out.with_name(f"{out.stem}-memory.svg"),
            "trigger_memory_mib_max",
            "The trigger's memory, MiB, by rows pending",
        ),
    ):
        write_lines(path, title, "rows pending", {words: line(name, figure) for name, words in names.items()}, ticks)


def main() -> None:
    """Load both, run the pairs, and write the result and its plots."""
    words = parser("index", __doc__)
    words.add_argument("--n", type=int, default=10_000, help="one-offs of a burst")
    words.add_argument(
        "--pending", type=int, nargs="+", default=[10_000, 100_000, 500_000, 1_000_000, 2_000_000],
        help="rows of few, and then the steps of many",
    )  # fmt: skip
    words.add_argument("--days", type=float, default=7.0, help="over which the pending rows are due")
    words.add_argument("--pairs", type=int, default=7, help="at the last step")
    words.add_argument("--step-pairs", type=int, default=3, help="at the steps before it")
    words.add_argument("--ahead-n", type=int, default=40_000, help="one-offs that are read ahead; 0: none")
    given = begin(words)
    if len(given.pending) < 2 or sorted(set(given.pending)) != given.pending:
        words.error("--pending wants two numbers at least, each larger than the one before")
    steps: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        few, many = (_started(stack) for _ in range(2))
        few.load_upto(given.pending[0], given.days)
        for wanted in given.pending[1:]:
            console.print(f"loading up to {wanted:,} rows")
            loading = many.load_upto(wanted, given.days)
            pairs = given.pairs if wanted == given.pending[-1] else given.step_pairs
            steps[f"{wanted:,}"] = {"loading": loading, **compare(few, many, given.n, pairs)}
            keep(given, steps, {})
        if given.ahead_n:
            keep(given, steps, read_ahead({"few": few, "many": many}, given.ahead_n))


def keep(given: argparse.Namespace, steps: Mapping[str, dict[str, Any]], ahead: Mapping[str, dict[str, Any]]) -> None:
    """Write down what was found so far: an hour's work is not to be lost by what comes after it."""
    columns = {f"{upto} pending": flat(step) for upto, step in steps.items()}
    words = {name: {"as": getattr(given, name)} for name in ("n", "pairs", "step_pairs")}
    figures = {"command": words, "by rows pending": columns, "read ahead": ahead}
    conclude("index", given, figures, goals_of({"steps": steps, "read_ahead": ahead}), tables=True)
    draw(given.out, given.n, list(steps.values()))


def _started(stack: ExitStack) -> Loaded:
    """Start a system with a trigger."""
    system = stack.enter_context(rig())
    names = TopicNames(system.settings.kafka.topic_prefix)
    system.stamp_on_append(names.executions("default"))
    return Loaded(system, names, stack.enter_context(system.role("trigger", system.owns_all)).pid)


if __name__ == "__main__":
    main()
