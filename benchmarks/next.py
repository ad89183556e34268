"""``next``: next occurrences a second on one core, beside croniter and cronsim in the same run.

*Cold*: the plan is compiled and the instant was not asked from before. *Memoised*: the same instant again, as a fleet
that shares an expression asks. Times are CPU times of this process, so other processes matter little. Run it by
``make bench-next``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim
from rich.console import Console

from benchmarks.command import begin, conclude, parser
from benchmarks.results_file import Goal
from tocsin.domain.definitions import parse
from tocsin.domain.firing import plan_of, plan_text
from tocsin.domain.instants import SECOND
from tocsin.domain.recurrence import TZDATA_VERSION, compile_cron

ZONE: Final = "America/New_York"
EXPRESSIONS: Final = ("0 * * * *", "30 2 * * *", "*/5 * * * *", "0 9 * * MON-FRI", "0 0 29 2 *", "15 10 L * *")
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
STEP_US: Final = 977_777_777
"""Between the instants that are asked from: they fall on all hours, and on days where the clock changes."""
COLD_GOAL: Final = 100_000
MEMOISED_GOAL: Final = 1_000_000
ROUNDS: Final = 5

console = Console()


def per_second(count: int, run: Callable[[], None]) -> float:
    """Return calls a second of CPU time, the median of several rounds."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        run()
        found.append(count / (time.process_time() - began))
    return statistics.median(found)


def measure(expression: str, n: int, n_peers: int) -> dict[str, Any]:
    """Return the rates for one expression."""
    start = int(START.timestamp()) * SECOND
    plan = compile_cron(expression, ZONE)
    instants = [start + number * STEP_US for number in range(n)]
    next_after = plan.next_after

    def cold() -> None:
        for at in instants:
            next_after(at)

    def memoised() -> None:
        for _ in range(n):
            next_after(start)

    schedule = {"cron": expression, "timezone": ZONE}
    text = plan_text(parse({"schedule": schedule, "target": {"type": "http", "url": "http://a/"}}), "t@job", 0)

    def from_row() -> None:
        for _ in range(n):
            plan_of(text).next_after(start)

    zone = ZoneInfo(ZONE)
    moments = [(START + timedelta(microseconds=number * STEP_US)).astimezone(zone) for number in range(n_peers)]

    def of_croniter() -> None:
        steps = croniter(expression, moments[0])
        for moment in moments:
            steps.get_next(datetime, start_time=moment)

    def of_cronsim() -> None:
        for moment in moments:
            next(CronSim(expression, moment))

    return {
        "cold_per_s": round(per_second(n, cold)),
        "memoised_per_s": round(per_second(n, memoised)),
        "from_a_row_per_s": round(per_second(n, from_row)),
        "croniter_per_s": round(per_second(n_peers, of_croniter)),
        "cronsim_per_s": round(per_second(n_peers, of_cronsim)),
    }


def main() -> None:
    """Measure every expression, print a table, and write the result file."""
    words = parser("next", __doc__)
    words.add_argument("--n", type=int, default=100_000, help="calls of ours in a round")
    words.add_argument("--n-peers", type=int, default=500, help="calls of the peers in a round")
    given = begin(words)
    figures: dict[str, Any] = {"zone": ZONE, "zone_data": TZDATA_VERSION}
    for expression in EXPRESSIONS:
        figures[expression] = measure(expression, given.n, given.n_peers)
        console.print(expression, figures[expression])
    rates = [figures[expression] for expression in EXPRESSIONS]
    cold, memoised = (min(rate[name] for rate in rates) for name in ("cold_per_s", "memoised_per_s"))
    goals = [
        Goal("cold, the slowest expression", f">= {COLD_GOAL} a second", cold, cold >= COLD_GOAL),
        Goal("memoised, the slowest expression", f">= {MEMOISED_GOAL} a second", memoised, memoised >= MEMOISED_GOAL),
    ]
    conclude("next", given, figures, goals)


if __name__ == "__main__":
    main()
