"""Whether an execution may start while others of its job, or of its concurrency group, have not ended.

Every source of fires asks here: the schedule, triggers by hand, what is caught up with, and redrives. What waits for a
retry has not ended. What must wait stands behind, in the state, in the order in which it came; it starts when nothing
before it is left.
"""

from __future__ import annotations

from enum import Enum, auto

from tocsin.domain.catch_up import SkipReason
from tocsin.domain.executions import ExecutionEvent, ExecutionState
from tocsin.domain.instants import Micros
from tocsin.domain.policies import Overlap
from tocsin.domain.shard_records import Active, Phase
from tocsin.engine.actives import Actives
from tocsin.engine.dispatch_desk import DispatchDesk
from tocsin.engine.effects import Step
from tocsin.engine.suspects import EXECUTION, Suspect
from tocsin.engine.sweeps import Sweeps
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import EVENTS, NewRecord


class Way(Enum):
    """How it goes on with an execution that is to start."""

    FREE = auto()
    """It starts."""
    BEHIND = auto()
    """It waits behind what is active."""
    TAKEN = auto()
    """Another is active, and its job wants it skipped then."""
    FULL = auto()
    """As many as may stand behind already."""
    CROWDED = auto()
    """As many as may be active beside one another already."""


REFUSED = {
    Way.TAKEN: SkipReason.OVERLAP, Way.FULL: SkipReason.QUEUE_FULL, Way.CROWDED: SkipReason.QUEUE_FULL,
}  # fmt: skip
"""Why an occurrence is skipped that may neither start nor wait."""


def told_of(way: Way) -> str:
    """Return the sentence that says why something is refused."""
    if way is Way.CROWDED:
        return "as many executions of the job are active as may be"
    queued = ", and as many wait behind it as may" if way is Way.FULL else ""
    return f"an execution of the job or of its group is active{queued}"


class Overlaps:
    """The admissions of one shard.

    Args:
        shard, actives, dispatches, sweeps, codec: the shard's.
        behind_max: how many of a job, or of a concurrency group, may stand behind others.
        beside_max: how many of a job may be active beside one another, where it allows that.
    """

    def __init__(
        self,
        shard: int,
        actives: Actives,
        dispatches: DispatchDesk,
        sweeps: Sweeps,
        codec: RecordCodec,
        behind_max: int,
        beside_max: int,
    ) -> None:
        self._shard = shard
        self._actives = actives
        self._dispatches = dispatches
        self._sweeps = sweeps
        self._codec = codec
        self._behind_max = behind_max
        self._beside_max = beside_max

    def look(self, execution_id: str, overlap: Overlap) -> Way:
        """Tell how it would go on with an execution, if nobody's place is taken for it."""
        if overlap is Overlap.ALLOW:
            return Way.CROWDED if self._actives.beside(execution_id) >= self._beside_max else Way.FREE
        if not self._actives.is_taken(execution_id):
            return Way.FREE
        if overlap is not Overlap.QUEUE:
            return Way.TAKEN
        return Way.FULL if self._actives.behind(execution_id) >= self._behind_max else Way.BEHIND

    def admit(self, step: Step, execution_id: str, overlap: Overlap) -> Way:
        """Decide how it goes on with an execution; one that replaces others has them ended, and what waited dropped.

        The execution must be started or put behind accordingly, in the same step.
        """
        way = self.look(execution_id, overlap)
        if way is not Way.TAKEN or overlap is not Overlap.REPLACE:
            return way
        self._sweeps.replace(step, execution_id)
        return Way.BEHIND if self._actives.is_taken(execution_id) else Way.FREE

    def put_behind(
        self,
        step: Step,
        execution_id: str,
        execution: bytes,
        *,
        attempt: int = 1,
        not_before: Micros = 0,
        redrives: int = 0,
        last: bool = False,
    ) -> int:
        """Let an execution wait until nothing before it is left; return the size of its record.

        Args:
            step: the present one.
            execution_id, execution: it, never dispatched, or not under this head.
            attempt: which one is made when it starts.
            not_before: it does not start before, µs.
            redrives: how often it was redriven, as its record says too.
            last: it is the last of its job.
        """
        head, head_bytes = self._codec.split_head(execution)
        behind = Active(execution, step.now, Phase.BEHIND, not_before, attempt, last=last)
        self._dispatches.change(step, execution_id, behind)
        event = ExecutionEvent(
            head, ExecutionState.QUEUED, step.now, step.now, reason=SkipReason.OVERLAP, redrives=redrives
        )
        value = self._codec.encode_event(head_bytes, event)
        step.records.append(NewRecord(EVENTS, self._shard, execution_id, value))
        return len(execution)

    def release(self, step: Step, limit: int, bytes_max: int) -> int:
        """Let what nothing is left before go on, up to so many and about so many bytes; return how many."""
        count, upto = 0, step.bytes + bytes_max
        while count < limit and step.bytes < upto and (execution_id := self._actives.next_free()) is not None:
            step.at_hand = Suspect(EXECUTION, execution_id)
            if not self._sweeps.takes(step, execution_id):
                self._dispatches.let_go(step, execution_id)
            count += 1
        return count
