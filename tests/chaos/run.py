"""One part: start everything, load it, make faults, wait until all has ended, and judge."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

from tests.chaos.checker import Verdict, check, standstill_s
from tests.chaos.evidence import Evidence
from tests.chaos.faults import FAULTS, Drill, Pace, Skipped
from tests.chaos.history import SECOND, History
from tests.chaos.load import Load
from tests.chaos.rig import Rig
from tests.e2e.system import wait_for

ENDS_PATIENCE_S = 420.0
"""Silence, backoff after losses and retries add up before the last execution has its end."""
RECOVERY_S = 30.0
"""How long after a fault's end a standstill still counts as its doing."""


@dataclass
class Part:
    """What one part came to."""

    verdict: Verdict
    history: History
    duration_s: float
    standstills: dict[str, list[float]]
    """For each fault, each time it was made: the longest time that some shard did not fire, s."""
    moved: list[float]
    skipped: dict[str, str]
    """Faults that could not be made here, and why."""
    broken: list[str]
    """What went wrong with the system or the rig, other than what the checker finds."""
    undecided: int

    def as_dict(self) -> dict[str, Any]:
        told = self.verdict.as_dict()
        return {
            "duration_s": round(self.duration_s, 1),
            "faults": dict(Counter(fault.name for fault in self.history.faults)),
            **told,
            "standstill_s": {name: [round(s, 1) for s in found] for name, found in self.standstills.items()},
            "shards_moved_by_a_roll": [round(share, 2) for share in self.moved],
            "skipped_faults": self.skipped,
            "broken": self.broken,
            "undecided": self.undecided,
        }


def run_part(rig: Rig, names: Sequence[str], duration_s: float, load: Load, pace: Pace | None = None) -> Part:
    """Make faults one after another until the time is over, each at least once, and judge.

    Raises:
        AssertionError: the load could not be set up.
    """
    evidence = Evidence(rig)
    pace = pace or Pace()
    drill = Drill(rig, load, pace)
    began = time.monotonic()
    load.start()
    rig.wait_firing()
    skipped: dict[str, str] = {}
    broken: list[str] = []
    for number, name in enumerate(cycle(names)):
        if number >= len(names) and time.monotonic() - began > duration_s:
            break
        try:
            FAULTS[name](drill)
        except Skipped as reason:
            skipped[name] = str(reason)
        except Exception as error:  # noqa: BLE001 - the rest of the run says more than its end here
            traceback.print_exc()
            broken.append(f"{name}: {error}"[:500])
        try:
            rig.wait_firing()
        except AssertionError as error:
            broken.append(f"after {name}: {error}"[:500])
            break
        evidence.gather()
        if set(names) <= set(skipped):
            break
        time.sleep(pace.settle_s)
    duration_s = time.monotonic() - began
    return _judge(rig, evidence, drill, duration_s, skipped, broken)


def _judge(
    rig: Rig, evidence: Evidence, drill: Drill, duration_s: float, skipped: dict[str, str], broken: list[str]
) -> Part:
    try:
        # What a pause finds undone stays undone: it may come only when all that was due has fired.
        rig.wait_firing()
    except AssertionError as error:
        broken.append(f"before the end: {error}"[:500])
    duties = drill.load.stop()
    wait_for("the last one-off to be due", lambda: time.time_ns() // 1000 > drill.load.last_due() + 2 * SECOND)

    def all_ended() -> bool:
        rig.revive()
        evidence.gather()
        ran = {dispatch.job_id for dispatch in evidence.history.dispatches}
        return not evidence.unended() and {duty.job_id for duty in duties if duty.windows()} <= ran

    try:
        wait_for("every execution to end", all_ended, ENDS_PATIENCE_S)
    except AssertionError as error:
        broken.append(str(error))
    history = evidence.history
    history.duties, history.faults, history.calls = duties, drill.faults, list(rig.receiver.calls)
    return Part(
        check(history),
        history,
        duration_s,
        _standstills(history, rig.steady),
        drill.moved,
        skipped,
        broken,
        drill.load.undecided,
    )


def _standstills(history: History, steady: dict[str, int]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for fault in history.faults:
        by_shard = standstill_s(history, steady, fault, RECOVERY_S)
        found.setdefault(fault.name, []).append(max(by_shard.values(), default=0.0))
    return found


def tell(part: Part) -> str:
    """Return a part in a few lines for a terminal."""
    verdict = part.verdict
    lines = [
        f"{part.duration_s:.0f} s, {verdict.occurrences} occurrences, {verdict.executions} executions,"
        f" {len(part.history.calls)} calls, lateness {verdict.lateness_ms}",
        f"violations: {verdict.violations or 'none'}; delivered twice, marked: {verdict.delivered_twice}"
        f"; skipped by policy: {verdict.skipped}; undecided: {part.undecided}",
        *(f"longest standstill in {name}: median {median(s):.1f} s" for name, s in part.standstills.items()),
        *(f"not made: {name}: {reason}" for name, reason in part.skipped.items()),
        *(f"broken: {what}" for what in part.broken),
        *(f"{kind}: {example}" for kind, examples in verdict.examples.items() for example in examples),
    ]
    return "\n".join(lines)


def save_logs(rig: Rig, directory: Path) -> None:
    """Keep the processes' logs, for whoever asks how a figure came to be."""
    directory.mkdir(parents=True, exist_ok=True)
    for log in rig.system.directory.glob("*.log"):
        (directory / log.name).write_bytes(log.read_bytes())
