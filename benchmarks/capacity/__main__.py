"""Measures what the model needs, simulates how bursts spread, and writes both down; then the page.

Without servers it takes about a minute and keeps the servers' figures of the result that is there; ``--servers`` starts
a broker and a store and measures those too. ``--page`` measures nothing and writes the page from what there is.
Run it by ``make bench-capacity``.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any, Final

from rich.console import Console

from benchmarks.capacity import life, page, servers, spread
from benchmarks.capacity.house import CODEC
from benchmarks.command import begin, conclude, parser
from benchmarks.history import made_events
from benchmarks.results_file import RESULTS, Goal, machine
from tocsin.adapters.cassandra.run_rows import dispatch_write, event_write
from tocsin.domain.executions import AttemptReport, ReportKind
from tocsin.ports.views import DispatchSeen, EventSeen

SEED: Final = 20_261_130
JOBS: Final = 4_000
TURNS: Final = 300
BURST: Final = 250_000
TRIALS: Final = 2
CALLS: Final = 3_000

console = Console()


def timed(call: Callable[[], object]) -> float:
    """Return µs of CPU time a call, the least of three rounds."""
    best = float("inf")
    for _ in range(3):
        before_s = time.thread_time()
        for _ in range(CALLS):
            call()
        best = min(best, (time.thread_time() - before_s) / CALLS * 1e6)
    return round(best, 2)


def codec() -> dict[str, float]:
    """Return µs of CPU time for the records on the way of an execution."""
    execution = servers.execution(1)
    decoded = CODEC.decode_execution(execution)
    now = decoded.head.due_at
    report = AttemptReport(decoded.head, decoded.head_bytes, ReportKind.SUCCEEDED, "worker-01", now, now)
    reported = CODEC.encode_report(report)
    [event] = made_events(1)
    evented = CODEC.encode_event(decoded.head_bytes, event)
    stamp = CODEC.stamp(1, 2_000_000, 0)
    return {
        "encode_execution": timed(lambda: CODEC.encode_execution(decoded.head, decoded.target)),
        "stamp_execution": timed(lambda: CODEC.restamp(execution, stamp)),
        "decode_execution": timed(lambda: CODEC.decode_execution(execution)),
        "encode_report": timed(lambda: CODEC.encode_report(report)),
        "decode_report": timed(lambda: CODEC.decode_report(reported)),
        "encode_event": timed(lambda: CODEC.encode_event(decoded.head_bytes, event)),
        "decode_event": timed(lambda: CODEC.decode_event(evented)),
    }


def run_row_bytes() -> int:
    """Return the bytes of the values of a row of history: what is known at the dispatch, and of its end."""
    [event] = made_events(1)
    writes = [event_write(EventSeen(event, 1)), dispatch_write(DispatchSeen(event.head, event.decided_at, "default"))]
    return sum(len(v.encode()) if isinstance(v, str) else 8 for write in writes for v in write.values if v is not None)


def measure(with_servers: bool, former: dict[str, Any]) -> dict[str, Any]:
    """Return the figures; those of servers are former ones where they are not to be measured."""
    if with_servers:
        measured = servers.measure() | {"load_then": machine()["load_at_the_end"]}
    elif "servers" in former:
        measured = former["servers"]
    else:
        raise SystemExit("there are no figures of servers yet: measure them by --servers")
    chance = random.Random(SEED)
    figures: dict[str, Any] = {"seed": SEED, "jobs": JOBS, "codec": codec(), "run_row_bytes": run_row_bytes()}
    figures["one_offs"] = life.one_offs(JOBS, chance)
    figures["recurring"] = life.recurring(JOBS, chance)
    figures["turn"] = life.turns(TURNS, chance)
    figures["memory"] = life.memory(JOBS, chance)
    console.print("measured; now the spread")
    figures["spread"] = {
        "burst": BURST,
        "trials": TRIALS,
        "shards": spread.over_shards(BURST, TRIALS, chance),
        "partitions": spread.over_partitions(BURST // 5, TRIALS, chance),
    }
    return figures | {"servers": measured}


def goals_of(figures: dict[str, Any]) -> list[Goal]:
    """Judge what the model rests on."""
    encode = figures["codec"]["encode_execution"]
    made = figures["spread"]["shards"]["made"]["64"][1]
    return [
        Goal("encoding an execution, µs", "<= 30", encode, encode <= 30),
        Goal("fullest of 64 shards to the mean, ids as tocsin makes them", "<= 1.1", made, made <= 1.1),
    ]


def main() -> None:
    """Measure, write the result and the page."""
    words = parser("capacity", __doc__)
    words.add_argument("--servers", action="store_true", help="measure a broker and a store too")
    words.add_argument("--page", action="store_true", help="only write the page from the results")
    given = begin(words)
    kept = RESULTS / "capacity.json"
    if not given.page:
        former = given.out if given.out.exists() else kept
        figures = measure(given.servers, json.loads(former.read_text("utf-8"))["figures"] if former.exists() else {})
        conclude("capacity", given, figures, goals_of(figures))
    if given.out == kept:
        page.main()


if __name__ == "__main__":
    main()
