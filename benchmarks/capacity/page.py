"""Writes docs/capacity.md from ``results/*.json``: no figure of it was typed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from benchmarks.capacity.inputs import ASSUMED, PHASES, REPLICAS, Costs, From, figure
from benchmarks.capacity.model import (
    BEGUN_MAX,
    DRAIN_S,
    ENDED_KEPT_S,
    LATE_S,
    LOADS,
    RUNNING_MAX,
    SHARDS_A_TRIGGER,
    TENANT_SPREAD,
    Cluster,
    cluster,
    occurrence_us,
    one_off_us,
    tenant_per_s,
    worker_per_s,
)
from benchmarks.results_file import RESULTS, ROOT

PAGE: Final = ROOT / "docs" / "capacity.md"
WIDTH: Final = 118
WHOLE: Final = {"break_long_words": False, "break_on_hyphens": False}
INTRODUCTION: Final = """\
# Capacity: how large a cluster must be

Written by `make bench-capacity` from [`benchmarks/results/`](../benchmarks/results) by the model in
[`benchmarks/capacity/`](../benchmarks/capacity); do not edit it. It reckons from what one of each thing costs, in CPU
time, bytes and rows, to clusters for two loads. **No such cluster was ever run**: what was measured was measured on one
machine of a few cores, and the rest is arithmetic. Take it as the order of things, and as a list of what to look at
first; measure one process of each role on your own machines before you buy.
"""
LOAD_TEXT: Final = """\
## The two loads

| | A | B |
|---|---|---|
| executions a day | {a.per_day:,.0f} | {b.per_day:,.0f} |
| at the worst | {a.peak:,.0f} due in one second | {b.peak:,.0f} due each second for {b.peak_s:.0f} s |
| one-offs pending | {a.pending:,.0f} | {b.pending:,.0f} |

Both: {one_offs:.0%} of executions are one-offs, so each of these is also created, ended and removed; the busiest hour
has {busy:g} times the mean; an attempt takes {attempt:g} s, and there are {retries:g} attempts for each execution.
A burst is to be out within {late:.0f} s, and all of it started within {drain:.0f} s.
"""
RULES: Final = (
    """**Count one-offs, not executions.** In an owner's core a one-off costs {one_off} µs over its life, an
    occurrence of a recurring job {again}: {ratio} to 1. Firing is the least of it; being created, ended and
    removed is the most.""",
    """**Let one-offs go early.** Seven days after their end they are still there: at load A {ended} of them,
    beside {pending} that are pending. `finished_ttl_s` of an hour takes most of `jobs` and `jobs_by_tenant`
    away.""",
    """**Nothing deletes history.** `runs` grows by {history} GB a day at load A, all copies counted; delete old
    months, or give the table a time to live.""",
    """**Keep triggers at half a core** in the busiest hour, and one more than that needs: the others take a
    lost one's shards.""",
    """**Choose shards once**: {each} for each trigger, a power of two. More shards make growth possible and
    turns dearer: each partition that a transaction touches costs the brokers {touch} µs, as much as
    {as_records} records.""",
    """**Few busy triggers rather than many idle ones**, for the same reason: turns that carry more touch no
    more partitions.""",
    """**Late by a turn**: at a steady rate a job waits for about one turn, {turn_a} s at load A and {turn_b} s
    at load B by the transactions that were measured. If turns take longer than your jobs may be late, have
    fewer shards a trigger and fewer partitions of the lane.""",
    """**Workers by what they wait for**: one runs {running} attempts at once (`worker.running_max`), {worker} a
    second at {attempt} s each. Raise it for slow targets before starting more processes, up to {begun} begun on
    each partition.""",
    """**A tenant has eight partitions of a lane**, and half of a worker where others wait: at most {tenant}
    attempts a second at {attempt} s each, however many workers there are. Raise `lane.tenant_spread` for
    tenants that are larger.""",
    """**A concurrency group is one shard**: g of its jobs in a burst of n make the fullest of S shards g·S/n
    fuller. With 250,000 and {shards} shards a group of 1,000 doubles it.""",
)
REMEDIES: Final = {
    "store's disks": "more nodes, or history for fewer days",
    "brokers' disks": "more brokers, or a shorter retention of `execution-events`",
    "triggers' cores": "more triggers, up to one a shard",
    "triggers, one": "nothing: shards are fixed, so choose them for what you will grow to",
    "brokers' cores": "more brokers, or fewer shards for each trigger",
    "store's cores": "more nodes",
    "workers, one": "more partitions of the lane",
    "the burst": "more triggers",
    "the peak": "more triggers",
    "one tenant": "a larger `lane.tenant_spread` or `worker.running_max`",
}
"""By the beginning of what ends."""
UNCERTAIN: Final = (
    """**CPU times** are of one machine, whose other work may make them half as large again, rarely smaller. Another
    processor is another figure: take your own from `make bench-capacity ARGS=--servers`.""",
    """**Servers** were measured alone, without copies, and for a short time: a Java process that has run for an hour
    spends less on the same thing, and one with a full disk of tables to compact spends more. Copies are reckoned as
    further writes, which is about right for a store and too much for a broker, whose followers fetch in batches.""",
    """**Stand-ins** are put together from parts that were measured one by one: they leave out what only the whole
    shows, such as waiting for one another, and reading what a client has fetched.""",
    """**How long a transaction takes** is of one broker that shared its cores. With three it waits for the slowest
    copy. It decides how long turns are, and so how many markers there are: longer ones mean fewer.""",
    """**Compression** is not reckoned: owners write lz4, which takes off perhaps half of it, and brokers keep that.""",
    """**Retries, leases of long attempts, output of programs** (`run_logs`) and edits are not in it. A retry costs an
    owner a report, a fire and an event; a long attempt one more report and event.""",
    "The mix is a guess. Recurring jobs are far cheaper than one-offs: they are created once.",
)


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page. ``results``: the figures of each result, by its name."""
    costs = Costs(results)
    clusters = [cluster(costs, load) for load in LOADS]
    first, second = LOADS
    parts = [
        INTRODUCTION,
        LOAD_TEXT.format(
            a=first, b=second, late=LATE_S, drain=DRAIN_S, one_offs=costs["one_offs"], busy=costs["busy_hour"],
            attempt=costs["attempt_s"], retries=costs["retries"],
        ),
        *_clusters(costs, clusters),
        *_ends(clusters),
        *_rules(costs, clusters),
        *_spread(costs),
        *_life(costs),
        *_inputs(costs, results),
        "## How far to trust it\n",
        *_items(UNCERTAIN),
    ]  # fmt: skip
    return "\n".join(parts).rstrip() + "\n"


def _clusters(costs: Costs, clusters: list[Cluster]) -> Iterator[str]:
    yield "## What carries them\n\n| | A | B | decided by (A; B) |\n|---|---|---|---|"
    yield _row(
        "shards", [one.shards for one in clusters], f"{SHARDS_A_TRIGGER} a trigger at least, a power of two; fixed"
    )
    yield _row("partitions of a lane", [one.partitions for one in clusters], "half as many again as workers")
    for role in clusters[0].processes:
        whys = dict.fromkeys(one.why[role] for one in clusters)
        yield _row(f"{role}s", [one.processes[role] for one in clusters], "; ".join(whys))
    yield _row(
        "partitions of all topics, without copies", [one.log_partitions for one in clusters],
        "six topics by shards, two lanes; one more lane for each pool of handlers",
    )  # fmt: skip
    yield _row(
        "partitions of a broker, with copies",
        [one.log_partitions * REPLICAS / one.processes["broker"] for one in clusters],
        "some thousands are no matter",
    )
    for role in clusters[0].memory_mib:
        text = "rows ahead, and runs under way" if role == "trigger" else "as measured, whatever is pending"
        yield _row(f"memory of a {role}, MiB", [one.memory_mib[role] for one in clusters], text)
    for name in clusters[0].rates:
        if name in clusters[1].rates:
            yield _row(name, [one.rates[name] for one in clusters], "")
    for name in {name: None for one in clusters for name in one.rates if any(name not in o.rates for o in clusters)}:
        yield _row(name, [one.rates.get(name) for one in clusters], "")
    yield _row("a trigger's turn, ms", [one.turn.seconds * 1000 for one in clusters], "as long as it takes to keep up")
    yield _row("partitions that a turn touches", [one.turn.touched for one in clusters], "")
    yield "\nA process is one core. Disks, TB with all three copies:\n\n| log | A | B |\n|---|---|---|"
    for topic in sorted(clusters[0].disk_tb, key=lambda topic: -clusters[0].disk_tb[topic]):
        yield f"| `{topic}` | {_shown(clusters[0].disk_tb[topic])} | {_shown(clusters[1].disk_tb[topic])} |"
    yield "\n| store | A | B |\n|---|---|---|"
    for table in sorted(clusters[0].store_tb, key=lambda table: -clusters[0].store_tb[table]):
        text = f" of {costs['history_days']:.0f} days" if table == "runs" else ""
        yield f"| `{table}`{text} | {_shown(clusters[0].store_tb[table])} | {_shown(clusters[1].store_tb[table])} |"
    yield ""


def _ends(clusters: list[Cluster]) -> Iterator[str]:
    yield "## What breaks first\n"
    yield "How many times the load each part of these clusters would just carry, with nothing spared:\n"
    for one in clusters:
        yield f"| load {one.load.name} | holds up to | then |\n|---|---|---|"
        for name, times in one.holds_upto.items():
            remedy = next((text for begin, text in REMEDIES.items() if name.startswith(begin)), "")
            yield f"| {name} | {_shown(times)} times: {one.load.per_day * times / 1e6:,.0f} M a day | {remedy} |"
        yield ""
    yield from _items([_first_to_end(one) for one in clusters])


def _first_to_end(one: Cluster) -> str:
    """Say what ends first, and what does not carry the load at all by the defaults."""
    enough = [(name, times) for name, times in one.holds_upto.items() if times >= 1]
    (first, upto), (second, upto_then) = enough[:2]
    text = f"**Load {one.load.name}: {first}** end first, at {_shown(upto)} times this load; then {second},"
    text += f" at {_shown(upto_then)} times."
    for name, times in one.holds_upto.items():
        if times < 1:
            text += f" By the defaults one thing falls short: {name} holds up to {_shown(times)} times only."
            if name.startswith("one tenant"):
                text += (
                    f" With `lane.tenant_spread` {math.ceil(TENANT_SPREAD / times)}, not {TENANT_SPREAD}, it would do."
                )
    return text


def _rules(costs: Costs, clusters: list[Cluster]) -> Iterator[str]:
    first, second = clusters
    figures = {
        "one_off": one_off_us(costs),
        "again": occurrence_us(costs),
        "ratio": f"{one_off_us(costs) / occurrence_us(costs):.0f}",
        "ended": f"{first.load.mean_per_s * costs['one_offs'] * ENDED_KEPT_S / 1e9:.1f} billion",
        "pending": f"{first.load.pending / 1e6:,.0f} million",
        "history": first.store_tb["runs"] / costs["history_days"] * 1000,
        "each": SHARDS_A_TRIGGER,
        "touch": costs["broker_touch"],
        "as_records": f"{costs['broker_touch'] / costs['broker_record']:.0f}",
        "turn_a": first.turn.seconds,
        "turn_b": second.turn.seconds,
        "running": RUNNING_MAX,
        "worker": worker_per_s(costs),
        "attempt": costs["attempt_s"],
        "begun": BEGUN_MAX,
        "tenant": tenant_per_s(costs),
        "shards": second.shards,
    }
    yield "## Rules\n"
    yield from _items([rule.format_map({name: _shown(value) for name, value in figures.items()}) for rule in RULES])


def _items(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        yield "\n".join(wrap(" ".join(text.split()), WIDTH, initial_indent="- ", subsequent_indent="  ", **WHOLE))
    yield ""


def _spread(costs: Costs) -> Iterator[str]:
    spread = costs.spread
    sizes = list(spread["shards"]["made"])
    yield f"""## How evenly a burst spreads

The fullest shard decides how late the last job is. {spread["burst"]:,} due at once, hashed as owners do,
{spread["trials"]} trials from a seed: the fullest shard to the mean, the worst trial.
"""
    yield "| ids | " + " | ".join(f"{size} shards" for size in sizes) + " |\n|" + "---|" * (len(sizes) + 1)
    texts = {
        "made": "made by tocsin (UUIDv7)",
        "named": "named by clients, differing in a number",
        "grouped": "one in twenty in groups, the largest of 2,000",
    }
    for kind, text in texts.items():
        yield f"| {text} | " + " | ".join(f"{spread['shards'][kind][size][1]:.2f}" for size in sizes) + " |"
    parts = list(spread["partitions"]["even"])
    yield "\nThe partitions of a lane, of which each of 500 tenants has eight:\n"
    yield "| tenants | " + " | ".join(f"{size} partitions" for size in parts) + " |\n|" + "---|" * (len(parts) + 1)
    for kind in ("even", "uneven"):
        share = spread["partitions"]["largest_tenant_share"][kind]
        row = " | ".join(f"{spread['partitions'][kind][size][1]:.2f}" for size in parts)
        yield f"| the largest has {share:.1%} | {row} |"
    yield "\nSo shards fill evenly whatever ids look like, but for large groups; lanes fill by tenant.\n"


def _life(costs: Costs) -> Iterator[str]:
    yield "## What a one-off comes to\n\nThe engine and the loop of an owner in memory, for each one-off:\n"
    yield "| phase | µs | with its clients, µs | records | bytes | rows |\n|---|---|---|---|---|---|"
    for phase in PHASES:
        one = costs.life[phase]
        records = ", ".join(f"{_shown(n)} `{topic}`" for topic, n in one["records"].items() if n >= 0.1)
        rows = ", ".join(f"{_shown(n)} {statement.replace('_', ' ')}" for statement, n in one["store"].items())
        size = sum(one["bytes"].values())
        cells = [phase, one["cpu_us"], costs[f"trigger_{phase}"], records or "–", size, rows or "–"]
        yield "| " + " | ".join(_shown(cell) for cell in cells) + " |"
    whole = figure({"turn": costs.turn}, "turn", "of_one_create_cpu_us")
    yield f"""
In large turns; a turn that carries one create alone takes {_shown(whole)} µs. *end*: its owner sees that nothing
of it runs and makes it FINISHED; *remove*: some time later it is gone. Bytes are of keys and values, as encoded.
"""


def _inputs(costs: Costs, results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "## What it reckons with\n\n| figure | value | is | from |\n|---|---|---|---|"
    for key, one in costs.inputs.items():
        if key not in ASSUMED:
            origin = f"**{one.origin}**" if one.origin is not From.MEASURED else one.origin
            yield f"| {one.what} | {_shown(one.value)} {one.unit} | {origin} | {one.source} |"
    for text, key in (
        ("a row ahead in a trigger's memory", "row_ahead_bytes"),
        ("a run under way there", "under_way_bytes"),
    ):
        yield f"| {text} | {costs.memory[key]:,} bytes | {From.MEASURED} | `capacity.json` |"
    missing = [name for name in ("create", "steady", "history", "index") if name not in results]
    if missing:
        yield f"\nNot measured on a quiet machine yet, so that stand-ins count: {', '.join(f'`{n}`' for n in missing)}."
    yield "\nAssumed:\n\n| figure | value | because |\n|---|---|---|"
    for one in ASSUMED.values():
        yield f"| {one.what} | {_shown(one.value)} {one.unit} | {one.source} |"
    yield ""


def _row(name: str, values: list[Any], text: str) -> str:
    return f"| {name} | " + " | ".join("–" if value is None else _shown(value) for value in values) + f" | {text} |"


def _shown(value: Any) -> str:
    """Return a figure as precise as it deserves."""
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def written() -> str:
    """Return what the page has to be now."""
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))}
    return page({name: result["figures"] for name, result in found.items() if "figures" in result})


def main(path: Path = PAGE) -> None:
    """Write the page."""
    path.write_text(written(), "utf-8")


if __name__ == "__main__":
    main()
