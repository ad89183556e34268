"""``python -m tests.chaos.worker_run``: faults are done to workers under load, in parts, and what came of it is judged.

Each part adds its sums to ``benchmarks/results/worker_chaos.json``.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from tests.chaos.__main__ import LOGS, RESULTS
from tests.chaos.evidence import Evidence
from tests.chaos.history import SECOND, History
from tests.chaos.report import SUMMED, merge
from tests.chaos.rig import PATIENCE_S, Rig, running
from tests.chaos.run import save_logs
from tests.chaos.worker_checker import SUMMED as SUMMED_OF_WORKERS
from tests.chaos.worker_checker import WorkerVerdict, check
from tests.chaos.worker_faults import WORKER_FAULTS, WorkerDrill, wait_gone
from tests.chaos.worker_load import WorkerLoad
from tests.e2e.system import System, wait_for
from tocsin.devcluster import DevCluster

COMMAND: Final = "make chaos-workers"
SETTLE_S = 3.0
ENDS_PATIENCE_S = 600.0
"""A long attempt is lost, its silence noticed, its repetition delayed, and lost again."""


@dataclass
class WorkerPart:
    """What one part came to."""

    verdict: WorkerVerdict
    history: History
    duration_s: float
    workers: int
    at_most_once: int
    broken: list[str]
    """What went wrong with the system or the rig, other than what the checker finds."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "duration_s": round(self.duration_s, 1),
            "faults": dict(Counter(fault.name for fault in self.history.faults)),
            **self.verdict.as_dict(),
            "workers": self.workers,
            "at_most_once_executions": self.at_most_once,
            "broken": self.broken,
        }


def settings(running_max: int, grace_s: float) -> dict[str, str]:
    """Return the environment of a rig for workers: what leaves may let end the longest attempt."""
    return {
        "TOCSIN_WORKER__LANES": '["default"]',
        "TOCSIN_WORKER__RUNNING_MAX": str(running_max),
        "TOCSIN_WORKER__TENANT_RUNNING_MAX": str(running_max),
        "TOCSIN_WORKER__STOP_GRACE_S": str(grace_s),
    }


def run_part(
    rig: Rig, names: Sequence[str], load: WorkerLoad, executions: int, *, once: bool = False, rebalances: int = 6
) -> WorkerPart:
    """Make faults one after another, each at least once, until so many executions were due, and judge."""
    evidence, drill = Evidence(rig), WorkerDrill(rig, rebalances)
    broken: list[str] = []
    began = time.monotonic()
    load.start()
    wait_for("the first long ones to be under way", lambda: len(rig.receiver.calls) > 5 * load.per_s, PATIENCE_S)
    for number, name in enumerate(cycle(names)):
        if number >= len(names) and (once or len(load.duties) >= executions):
            break
        try:
            WORKER_FAULTS[name](drill)
        except Exception as error:  # noqa: BLE001 - the rest of the run says more than its end here
            traceback.print_exc()
            broken.append(f"{name}: {error}"[:500])
        rig.revive()
        evidence.gather()
        time.sleep(SETTLE_S)
    wait_for("enough executions", lambda: len(load.duties) >= executions, 3600)
    return _judge(rig, evidence, drill, load, began, broken)


def _judge(
    rig: Rig, evidence: Evidence, drill: WorkerDrill, load: WorkerLoad, began: float, broken: list[str]
) -> WorkerPart:
    duties = load.stop()
    wait_for("the last execution to be due", lambda: time.time_ns() // 1000 > load.last_due() + 2 * SECOND)
    owed = {duty.job_id for duty in duties}

    def left() -> int:
        rig.revive()
        evidence.gather()
        missing = owed - {dispatch.job_id for dispatch in evidence.history.dispatches}
        return len(missing) + len(evidence.unended())

    deadline = time.monotonic() + ENDS_PATIENCE_S
    while (count := left()) and time.monotonic() < deadline:
        time.sleep(5)
    if count:
        broken.append(f"{count} executions without an end after {ENDS_PATIENCE_S:.0f} s")
    try:
        wait_gone(rig)
    except AssertionError as error:
        broken.append(str(error)[:500])
    evidence.gather()
    history = evidence.history
    history.duties, history.faults, history.calls = duties, drill.faults, list(rig.receiver.calls)
    verdict = check(history, frozenset(load.at_most_once))
    workers = len(drill.workers())
    return WorkerPart(verdict, history, time.monotonic() - began, workers, len(load.at_most_once), broken)


def tell(part: WorkerPart) -> str:
    """Return a part in a few lines for a terminal."""
    verdict = part.verdict
    lines = [
        f"{part.duration_s:.0f} s, {verdict.executions} executions, {len(part.history.calls)} calls,"
        f" at most {verdict.at_once_max} at once, lateness {verdict.lateness_ms}",
        f"violations: {verdict.violations or 'none'}; called again: {verdict.delivered_twice_by_cause or 'never'};"
        f" stale reports: {verdict.stale_reports}; unknown: {verdict.unknown} of {part.at_most_once}",
        *(f"broken: {what}" for what in part.broken),
        *(f"{kind}: {example}" for kind, examples in verdict.examples.items() for example in examples),
    ]
    return "\n".join(lines)


def main() -> int:
    arguments = _arguments()
    unknown = sorted(set(arguments.faults) - set(WORKER_FAULTS))
    if unknown:
        print(f"unknown faults: {', '.join(unknown)}; known: {', '.join(WORKER_FAULTS)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="tocsin-chaos-") as name:
        cluster = DevCluster(Path(name) / "servers", brokers=arguments.brokers, stores=arguments.stores)
        try:
            system = System(cluster.up(die_with_parent=True), f"c{uuid.uuid4().hex[:8]}", Path(name))
            system.settings = settings(arguments.running_max, 2 * arguments.long_s[1] + 60)
            fleet = ("trigger-1", *(f"worker-{n}" for n in range(1, arguments.workers + 1)))
            with running(cluster, system, fleet) as made:
                load = WorkerLoad(made, arguments.per_s, arguments.long_s, arguments.at_most_once_every)
                part = run_part(made, arguments.faults, load, arguments.executions, rebalances=arguments.rebalances)
                print(tell(part), flush=True)
                save_logs(made, LOGS / arguments.name)
        finally:
            cluster.down()
    command = shlex.join(["python", "-m", "tests.chaos.worker_run", *sys.argv[1:]])
    path, summed = arguments.results / "worker_chaos.json", (*SUMMED, *SUMMED_OF_WORKERS)
    merge(path, arguments.name, command, part.as_dict(), whole_command=COMMAND, summed=summed)
    return 1 if part.verdict.violations or part.broken else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.worker_run", description=__doc__)
    parser.add_argument("--name", default="workers", help="of the part, in the results")
    parser.add_argument(
        "--faults",
        type=lambda text: text.split(","),
        default=list(WORKER_FAULTS),
        help=f"which, with commas between; by default all: {', '.join(WORKER_FAULTS)}",
    )
    parser.add_argument("--executions", type=int, default=10_000, help="at least so many become due")
    parser.add_argument("--per-s", type=float, default=80.0, help="so many of them a second")
    parser.add_argument(
        "--long-s",
        type=lambda text: tuple(map(float, text.split(","))),
        default=(30.0, 90.0),
        help="how long one of ten lasts at least and at most; the others under a second",
    )
    parser.add_argument("--at-most-once-every", type=int, default=0, help="one of so many is delivered at most once")
    parser.add_argument("--rebalances", type=int, default=6, help="in a stretch, one every 10 s")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--running-max", type=int, default=250, help="attempts of one worker at once")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--stores", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
