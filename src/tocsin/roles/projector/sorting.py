"""From records to what the views are told. Pure: bytes in, values out; what cannot be read is counted, not kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from tocsin.domain.errors import Undecodable
from tocsin.domain.executions import AttemptHead, Execution, ExecutionEvent
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.ids import parse_execution_id, version_of
from tocsin.domain.instants import EARLIEST, LATEST
from tocsin.domain.jobs import Job
from tocsin.domain.letters import LetterId
from tocsin.ports.projection_log import ProjectedRecord
from tocsin.ports.views import DispatchSeen, EventSeen, JobSeen, LetterSeen

JOBS: Final = "jobs"
EVENTS: Final = "execution-events"
DEAD_LETTERS: Final = "dead-letters"
EXECUTIONS: Final = "executions."
"""Beginning of the topics of lanes and pools; what follows is the lane."""


class Decoder(Protocol):
    """The part of the codec that the projector needs."""

    def decode_job(self, value: bytes | None) -> Job: ...

    def decode_event(self, value: bytes | None) -> ExecutionEvent: ...

    def decode_head(self, value: bytes | None) -> AttemptHead: ...

    def decode_execution(self, value: bytes | None) -> Execution: ...

    def decode_dead_letter(self, value: bytes | None) -> DeadLetter: ...


@dataclass(slots=True)
class Batch:
    """What a number of records say, ready to be filed."""

    jobs: list[JobSeen] = field(default_factory=list)
    dispatches: list[DispatchSeen] = field(default_factory=list)
    events: list[EventSeen] = field(default_factory=list)
    letters: list[LetterSeen] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    """Records that could not be read, by what they should have been."""
    where: dict[str, str] = field(default_factory=dict)
    """For each of these kinds, place and fault of the first."""

    def __bool__(self) -> bool:
        return bool(self.jobs or self.dispatches or self.events or self.letters)

    @property
    def filed(self) -> dict[str, int]:
        """How many of each kind there are."""
        counts = {
            "job": len(self.jobs),
            "execution": len(self.dispatches),
            "event": len(self.events),
            "dead_letter": len(self.letters),
        }
        return {kind: count for kind, count in counts.items() if count}


def sort_records(records: Iterable[ProjectedRecord], codec: Decoder, epoch: int) -> Batch:
    """Read records.

    Args:
        records: of the topics above, in any order.
        codec: reads their values.
        epoch: incarnation of the topics, the high part of every event's timestamp.
    """
    batch = Batch()
    for record in records:
        kind = "job"
        try:
            if record.topic == EVENTS:
                kind = "event"
                event = codec.decode_event(record.value)
                _check(event.head)
                batch.events.append(EventSeen(event, version_of(epoch, record.offset)))
            elif record.topic.startswith(EXECUTIONS):
                kind = "execution"
                head = codec.decode_head(record.value)
                _check(head)
                lane, redrives = record.topic[len(EXECUTIONS) :], _redrives(codec, head, record.value)
                batch.dispatches.append(DispatchSeen(head, record.timestamp, lane, redrives))
            elif record.topic == DEAD_LETTERS:
                kind = "dead_letter"
                letter = codec.decode_dead_letter(record.value)
                if not EARLIEST <= letter.at <= LATEST:
                    raise Undecodable(f"was set aside at {letter.at}, which is outside the years 1970 to 2199")
                place = LetterId(letter.at, record.partition, record.offset)
                batch.letters.append(LetterSeen(letter, place, version_of(epoch, record.offset)))
            elif record.value is not None:  # A tombstone follows a DELETED snapshot, which said it all.
                batch.jobs.append(JobSeen(codec.decode_job(record.value), record.value))
        except Undecodable as error:
            batch.skipped[kind] += 1
            batch.where.setdefault(kind, f"{record.topic}[{record.partition}] at {record.offset}: {error}")
    return batch


def _redrives(codec: Decoder, head: AttemptHead, value: bytes | None) -> int:
    """Return how often an execution was redriven; only what has had attempts before can have been."""
    if head.attempt == 1:
        return 0
    try:
        return codec.decode_execution(value).redrives
    except Undecodable:  # by us; its head is sound, and that is what is filed
        return 0


def _check(head: AttemptHead) -> None:
    """A run is filed by its job and the month of its nominal time, and found by its id: the three must agree."""
    if not EARLIEST <= head.scheduled_for <= LATEST:
        raise Undecodable(f"has the nominal time {head.scheduled_for}, which is outside the years 1970 to 2199")
    name = parse_execution_id(head.execution_id)
    if (name.job_id, name.scheduled_for) != (head.job_id, head.scheduled_for):
        raise Undecodable(f"says job {head.job_id[:80]!r} at {head.scheduled_for}, its id {head.execution_id[:120]!r}")
