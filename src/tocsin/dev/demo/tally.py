"""From what was asked for, received and read back to the counts of the summary. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tocsin.dev.demo.occurrences import RECURRING, Call, Created, Key, Kind
from tocsin.domain.instants import SECOND, Micros

Calls = Mapping[Key, Sequence[Call]]
"""By occurrence, in the order of their arrival."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What became of the jobs.

    Attributes:
        created: jobs that were taken by the gateway.
        undecided: of these, answered 202.
        refused: creates that were not taken.
        due: occurrences of these jobs; each number below counts occurrences, unless it says otherwise.
        recurring: of these, those of recurring jobs.
        fired: with a run in the history.
        succeeded, failed: by their state in the history.
        received: for which a call was answered or a record arrived.
        calls: that they led to, repeats included.
        repeated: that led to more than one call.
        unmarked: repeated calls that did not say so, of all that arrived.
        messages_repeated: records that arrived again, though a transaction forbids it.
        early: with a call before its time; of all that arrived.
        lost: for which no call was ever answered.
        created_late: jobs answered after they were due; left out of the lateness, for it is not the scheduler's.
        lateness_ms: by kind, first arrival after the due time, sorted.
    """

    created: int
    undecided: int
    refused: int
    due: int
    recurring: int
    fired: int
    succeeded: int
    failed: int
    received: int
    calls: int
    repeated: int
    unmarked: int
    messages_repeated: int
    early: int
    lost: int
    created_late: int
    lateness_ms: Mapping[Kind, tuple[float, ...]]

    @property
    def good(self) -> bool:
        """Whether every job was created, and ran, not early, repeats said so, and all is known to have succeeded."""
        return (
            self.created > 0
            and not self.refused
            and not self.early
            and not self.lost
            and not self.unmarked
            and not self.messages_repeated
            and self.succeeded == self.due
        )


def summarise(
    created: Sequence[Created],
    due: Sequence[Created],
    refused: int,
    calls: Calls,
    records: Calls,
    states: Mapping[Key, str],
) -> Summary:
    """Draw up the summary.

    Args:
        created: the jobs that were taken.
        due: their occurrences.
        refused: how many were not taken.
        calls: of the HTTP target.
        records: on the message target's topic.
        states: the state of each run in the history; an occurrence without a run is not in it.
    """
    arrived = {**calls, **records}
    seen = [one for one in due if arrived.get(one.key)]
    timely = [one for one in seen if one.answered_at < one.due_at]
    received = sum(any(call.answered for call in arrived[one.key]) for one in seen)
    late = {kind: [_lateness_ms(one, arrived) for one in timely if one.kind is kind] for kind in Kind}
    return Summary(
        created=len(created),
        undecided=sum(not job.decided for job in created),
        refused=refused,
        due=len(due),
        recurring=sum(one.kind in RECURRING for one in due),
        fired=sum(one.key in states for one in due),
        succeeded=sum(states.get(one.key) == "SUCCEEDED" for one in due),
        failed=sum(states.get(one.key) == "DEAD" for one in due),
        received=received,
        calls=sum(len(arrived[one.key]) for one in seen),
        repeated=sum(len(arrived[one.key]) > 1 for one in seen),
        unmarked=sum(not call.redelivered for repeats in calls.values() for call in repeats[1:]),
        messages_repeated=sum(len(again) - 1 for again in records.values()),
        early=sum(came[0].arrived_at < due_at for (_, due_at), came in arrived.items()),
        lost=len(due) - received,
        created_late=sum(job.answered_at >= job.due_at for job in created if job.kind not in RECURRING),
        lateness_ms={kind: tuple(sorted(values)) for kind, values in late.items() if values},
    )


def _lateness_ms(one: Created, arrived: Calls) -> float:
    return (arrived[one.key][0].arrived_at - one.due_at) / 1_000


@dataclass(frozen=True, slots=True)
class AfterKill:
    """What became of the slow calls of a worker that was killed; times in seconds after the kill.

    Attributes:
        ended: answered before.
        under_way: begun before and not answered.
        to_come: not begun.
        again: of those begun before, called again after it.
        marked: of these, with the mark on each further call.
        first_call_s: the next worker's first call, of any job.
        first_again_s: the first call of one that had begun before.
        all_done_s: when the last of all was answered; None where not all were.
    """

    ended: int
    under_way: int
    to_come: int
    again: int
    marked: int
    first_call_s: float | None
    first_again_s: float | None
    all_done_s: float | None


def after_kill(killed_at: Micros, slow: Sequence[Created], calls: Calls) -> AfterKill:
    """Work out what became of the slow calls."""
    ended = under_way = 0
    again: list[Sequence[Call]] = []
    for came in (calls.get(job.key, ()) for job in slow):
        begun = [call for call in came if call.arrived_at <= killed_at]
        ended += any(call.ended_at is not None and call.ended_at <= killed_at for call in begun)
        under_way += bool(begun) and all(call.ended_at is None or call.ended_at > killed_at for call in begun)
        if begun and len(came) > len(begun):
            again.append(came[len(begun) :])
    done = [_answered_at(calls.get(job.key, ())) for job in slow]
    last = None if None in done else max((at for at in done if at is not None), default=None)
    everything = (call.arrived_at for came in calls.values() for call in came)
    return AfterKill(
        ended=ended,
        under_way=under_way,
        to_come=len(slow) - ended - under_way,
        again=len(again),
        marked=sum(all(call.redelivered for call in repeats) for repeats in again),
        first_call_s=_first_s(everything, killed_at),
        first_again_s=_first_s((repeats[0].arrived_at for repeats in again), killed_at),
        all_done_s=None if last is None else (last - killed_at) / SECOND,
    )


def _answered_at(came: Sequence[Call]) -> Micros | None:
    return next((call.ended_at for call in came if call.answered), None)


def _first_s(instants: Iterable[Micros], after: Micros) -> float | None:
    first = min((at for at in instants if at > after), default=None)
    return None if first is None else (first - after) / SECOND
