"""Judges a history: each window that is owed must match one execution, each execution its end. Pure.

A window is matched by the one execution of its job and nominal time; incomplete ones do not count. What is dispatched
again must be explained: by a loss, which the record counts, or by a return of what had not started.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise

from tests.chaos.history import SECOND, Call, Dispatch, Fault, History

EXAMPLES_MAX = 10


@dataclass
class Verdict:
    """Sums of one run; all of ``VIOLATIONS`` must be 0.

    Attributes:
        occurrences: windows and one-offs that were owed.
        lost: windows without an execution, and executions without an end.
        published_twice: dispatches beyond the first of an attempt that nothing explains.
        early: calls before the nominal time.
        delivered_twice: calls beyond the first of one attempt; ``_unmarked`` those that did not say so.
        accepted_then_lost: accepted jobs of which nothing ever ran.
        ended_twice: executions with more than one end.
        skipped: windows that were passed over, as the job's policy allows, with an event.
        lateness_ms: of first calls, from the due time.
        examples: of each kind of violation, a few.
    """

    occurrences: int = 0
    executions: int = 0
    lost: int = 0
    published_twice: int = 0
    early: int = 0
    delivered_twice: int = 0
    delivered_twice_unmarked: int = 0
    accepted_then_lost: int = 0
    ended_twice: int = 0
    skipped: int = 0
    lateness_ms: dict[str, float] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, what: str) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        known = self.examples.setdefault(kind, [])
        if len(known) < EXAMPLES_MAX:
            known.append(what)

    @property
    def violations(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in VIOLATIONS if getattr(self, name)}

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


VIOLATIONS = (
    "lost",
    "published_twice",
    "early",
    "delivered_twice_unmarked",
    "accepted_then_lost",
    "ended_twice",
)


def check(history: History) -> Verdict:
    """Return what a history amounts to."""
    verdict = Verdict()
    judge(history, verdict)
    verdict.lateness_ms = lateness_ms(late for _, late in lateness(history))
    return verdict


def judge(history: History, verdict: Verdict) -> None:
    """Note in a verdict what is wrong with a history."""
    _check_windows(history, verdict)
    _check_dispatches(history, verdict)
    _check_ends(history, verdict)
    _check_calls(history, verdict)


def _check_windows(history: History, verdict: Verdict) -> None:
    ran: dict[str, set[int]] = defaultdict(set)
    for dispatch in history.dispatches:
        ran[dispatch.job_id].add(dispatch.scheduled_for)
    skipped: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for skip in history.skips:
        skipped[skip.job_id].append((skip.first, skip.last))
    for duty in history.duties:
        if not ran[duty.job_id] and duty.windows():
            verdict.note("accepted_then_lost", f"{duty.job_id}, first due at {duty.first}")
        for window in duty.windows():
            verdict.occurrences += 1
            if window in ran[duty.job_id]:
                continue
            if duty.may_skip and any(first <= window <= last for first, last in skipped[duty.job_id]):
                verdict.skipped += 1
            else:
                verdict.note("lost", f"{duty.job_id} has no execution for {window}")


def _check_dispatches(history: History, verdict: Verdict) -> None:
    given_back = {(r.execution_id, r.attempt, r.token) for r in history.returns}
    attempts: dict[tuple[str, int], list[Dispatch]] = defaultdict(list)
    for dispatch in history.dispatches:
        attempts[dispatch.execution_id, dispatch.attempt].append(dispatch)
    for (execution_id, attempt), records in attempts.items():
        records.sort(key=lambda record: (record.token, record.losses))
        for before, after in pairwise(records):
            explained = after.losses > before.losses or (execution_id, attempt, before.token) in given_back
            if before.token == after.token or not explained:
                what = f"{execution_id} attempt {attempt}: tokens {before.token} and {after.token}"
                verdict.note("published_twice", what)
    verdict.executions = len({execution_id for execution_id, _ in attempts})


def _check_ends(history: History, verdict: Verdict) -> None:
    for execution_id in {dispatch.execution_id for dispatch in history.dispatches}:
        ends = history.ends.get(execution_id, [])
        if not ends:
            verdict.note("lost", f"{execution_id} was dispatched and has no end")
        elif len(ends) > 1:
            verdict.note("ended_twice", f"{execution_id}: {', '.join(ends)}")


def _check_calls(history: History, verdict: Verdict) -> None:
    seen: Counter[tuple[str, int]] = Counter()
    for call in sorted(history.calls, key=lambda call: call.at):
        if call.at < call.scheduled_for:
            verdict.note("early", f"{call.execution_id} by {call.scheduled_for - call.at} µs")
        seen[call.execution_id, call.attempt] += 1
        if seen[call.execution_id, call.attempt] > 1:
            what = f"{call.execution_id} attempt {call.attempt} token {call.token}"
            verdict.note("delivered_twice", what)
            if not call.redelivered:
                verdict.note("delivered_twice_unmarked", what)


def lateness(history: History) -> list[tuple[int, int]]:
    """Return for each execution that was called when it was due, and how late its first call was, µs."""
    due = {d.execution_id: d.due_at for d in history.dispatches}
    first: dict[str, Call] = {}
    for call in history.calls:
        known = first.get(call.execution_id)
        if known is None or call.at < known.at:
            first[call.execution_id] = call
    return sorted((due[name], call.at - due[name]) for name, call in first.items() if name in due)


def lateness_ms(late: Iterable[int]) -> dict[str, float]:
    """Return p50, p99 and the maximum in milliseconds."""
    ordered = sorted(late)
    if not ordered:
        return {}
    picked = {"p50": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)], "max": ordered[-1]}
    return {name: round(value / 1000, 1) for name, value in picked.items()}


def standstill_s(history: History, shard_of: dict[str, int], fault: Fault, after_s: float) -> dict[int, float]:
    """Return for each shard the longest time without a call for it, around a fault and before the next one.

    Every shard has jobs of every second, so up to a second is nothing; more is how long its fires were held up.

    Args:
        history: with calls and faults.
        shard_of: of each job.
        fault: the span begins with it.
        after_s: and ends so long after its end at the latest.
    """
    following = [other.began_at for other in history.faults if other.began_at >= fault.ended_at]
    until = min([fault.ended_at + int(after_s * SECOND), *following])
    by_shard: dict[int, list[int]] = defaultdict(list)
    for call in history.calls:
        shard = shard_of.get(call.execution_id.split(".", 1)[0])
        if shard is not None and fault.began_at - SECOND <= call.at <= until:
            by_shard[shard].append(call.at)
    return {shard: _longest_gap(sorted(at)) / SECOND for shard, at in by_shard.items()}


def _longest_gap(instants: Sequence[int]) -> int:
    return max((b - a for a, b in pairwise(instants)), default=0)
