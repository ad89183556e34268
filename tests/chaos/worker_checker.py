"""Judges what workers did under faults: who may be called again, why, and what a late word may change. Pure.

A call is repeated when an attempt is called more than once. That is allowed only to those whose caller was a victim of
a fault that takes a worker's memory or hands its work to others: a kill, a pause, lost offsets. Who called is known by
the ports that the victims had open when the fault struck, so a rebalance that happens at the same time excuses nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tests.chaos import checker
from tests.chaos.checker import Verdict, lateness, lateness_ms
from tests.chaos.history import SECOND, Call, Fault, History
from tocsin.domain.executions import ATTEMPT_ENDS, ENDS

ON_ITS_WAY_US = 5 * SECOND
"""How long a call may take from its worker to the receiver, and its answer from there into an acknowledged report."""
NOBODY = "nothing that was done"


@dataclass
class WorkerVerdict(Verdict):
    """Sums of one run with workers; all of ``VIOLATIONS`` must be 0.

    Attributes:
        repeated_without_cause: repeated calls whose caller had nothing done to it.
        at_most_once_repeated: repeated calls of executions that must not be made again.
        stale_changed: executions whose history or end follows a word on another than their latest dispatch.
        called_without_dispatch: calls of what was never committed as a dispatch.
        delivered_twice_by_cause: repeated calls by the fault that explains them.
        stale_reports: ends of attempts that were reported and changed nothing.
        unknown: executions of which nobody can tell whether they ran, and that must not be made again.
        at_once_max: most calls under way at one time.
    """

    repeated_without_cause: int = 0
    at_most_once_repeated: int = 0
    stale_changed: int = 0
    called_without_dispatch: int = 0
    delivered_twice_by_cause: dict[str, int] = field(default_factory=dict)
    stale_reports: int = 0
    unknown: int = 0
    at_once_max: int = 0

    @property
    def violations(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in VIOLATIONS if getattr(self, name)}


VIOLATIONS = (
    *checker.VIOLATIONS,
    "repeated_without_cause",
    "at_most_once_repeated",
    "stale_changed",
    "called_without_dispatch",
)
SUMMED = (
    "repeated_without_cause",
    "at_most_once_repeated",
    "stale_changed",
    "called_without_dispatch",
    "stale_reports",
    "unknown",
)
"""What parts are summed up by, beside what every run is."""


def check(history: History, at_most_once: frozenset[str] = frozenset()) -> WorkerVerdict:
    """Return what a history amounts to.

    Args:
        history: with calls, faults, reports and changes.
        at_most_once: jobs whose executions must not be called again, whatever happens.
    """
    verdict = WorkerVerdict()
    checker.judge(history, verdict)
    _check_repeats(history, at_most_once, verdict)
    _check_changes(history, verdict)
    verdict.lateness_ms = lateness_ms(late for _, late in lateness(history))
    verdict.unknown = sum(states == ["UNKNOWN"] for states in history.ends.values())
    verdict.at_once_max = most_at_once(history)
    return verdict


def _check_repeats(history: History, at_most_once: frozenset[str], verdict: WorkerVerdict) -> None:
    dispatched = {(d.execution_id, d.attempt, d.token) for d in history.dispatches}
    by_attempt: defaultdict[tuple[str, int], list[Call]] = defaultdict(list)
    once: Counter[str] = Counter()
    for call in sorted(history.calls, key=lambda call: call.at):
        by_attempt[call.execution_id, call.attempt].append(call)
        what = f"{call.execution_id} attempt {call.attempt} token {call.token}"
        if (call.execution_id, call.attempt, call.token) not in dispatched:
            verdict.note("called_without_dispatch", what)
        once[call.execution_id] += 1
        if once[call.execution_id] > 1 and call.execution_id.split(".", 1)[0] in at_most_once:
            verdict.note("at_most_once_repeated", what)
    causes: Counter[str] = Counter()
    for first, second in (pair for calls in by_attempt.values() for pair in pairwise(calls)):
        cause = _cause(first, second, history.faults)
        causes[cause or NOBODY] += 1
        if cause is None:
            what = f"{first.execution_id} attempt {first.attempt}: tokens {first.token} and {second.token}"
            verdict.note("repeated_without_cause", what)
    verdict.delivered_twice_by_cause = dict(sorted(causes.items()))


def _cause(first: Call, second: Call, faults: list[Fault]) -> str | None:
    """Return the fault that struck the first caller between its call and the acknowledgement of its report."""
    for fault in faults:
        if first.port not in fault.ports or fault.began_at > second.at:
            continue
        until = fault.began_at + ON_ITS_WAY_US
        if first.at <= until and (first.ended_at == 0 or first.ended_at >= fault.began_at - ON_ITS_WAY_US):
            return fault.name
    return None


def _check_changes(history: History, verdict: WorkerVerdict) -> None:
    latest: dict[str, tuple[int, int]] = {}
    for dispatch in history.dispatches:
        pair = (dispatch.attempt, dispatch.token)
        latest[dispatch.execution_id] = max(pair, latest.get(dispatch.execution_id, pair))
    reached: dict[str, tuple[int, int]] = {}
    ended: dict[str, tuple[int, int]] = {}
    for change in history.changes:
        pair, known = (change.attempt, change.token), reached.get(change.execution_id, (0, 0))
        of_its_last = change.state not in ENDS or pair == latest.get(change.execution_id, pair)
        if pair < known or change.execution_id in ended or not of_its_last:
            what = f"{change.execution_id}: {change.state} of {pair} after {known}"
            verdict.note("stale_changed", what)
        reached[change.execution_id] = max(pair, known)
        if change.state in ENDS:
            ended[change.execution_id] = pair
    closed = {tuple(c[:3]) for c in history.changes if c.state in ENDS or c.state == "RETRY_SCHEDULED"}
    told = Counter(tuple(r[:3]) for r in history.reports if r.kind in ATTEMPT_ENDS)
    verdict.stale_reports = sum(count - (dispatch in closed) for dispatch, count in told.items())


def most_at_once(history: History) -> int:
    """Return the most calls that were under way together; what a victim had called ends with its death."""
    steps = sorted(step for call in history.calls for step in _span(call, history.faults))
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def _span(call: Call, faults: list[Fault]) -> Iterator[tuple[int, int]]:
    if call.ended_at == 0:
        return
    struck = [f.began_at for f in faults if call.port in f.ports and call.at <= f.began_at <= call.ended_at]
    yield call.at, 1
    yield min([call.ended_at, *struck]), -1
