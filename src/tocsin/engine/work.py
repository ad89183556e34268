"""Work that takes longer than one turn: kept in the shard's state, and gone on with a bounded share in each step.

An item is begun in the turn that decides on it, so it survives whoever began it. Each kind has a handler, which says
what an item does next and what becomes of it when its job changes. Items of a kind that no handler knows were left by
a newer program: they stay as they are. No handler may keep anything of an item that is not in the item.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from tocsin.domain.errors import Undecodable
from tocsin.domain.fleet import DEAD_LETTER_BYTES_MAX, DeadLetter
from tocsin.domain.instants import Micros
from tocsin.domain.jobs import Job
from tocsin.domain.recurrence import CronError
from tocsin.domain.shard_records import WorkItem
from tocsin.engine.dead_letters import set_aside
from tocsin.engine.effects import Step
from tocsin.engine.shard_state import ShardState
from tocsin.engine.suspects import FAULT_OF_TOCSIN, WORK, Severity, Suspect, SuspectId
from tocsin.ports.codec import RecordCodec
from tocsin.ports.shard_log import SHARD_STATE

AT_ONCE: Final[Micros] = 0


@dataclass(slots=True)
class Room:
    """What is left of a step's share for work: portions (such as executions) and their bytes."""

    portions: int
    bytes: int

    @property
    def used_up(self) -> bool:
        return self.portions <= 0 or self.bytes <= 0

    def take(self, size: int = 0) -> None:
        """Count one portion of this many bytes."""
        self.portions -= 1
        self.bytes -= size


class Progress(NamedTuple):
    """How an item stands after it went on.

    Attributes:
        item: as it is now; the very same object where nothing changed, None where it is done.
        wake_at: when it goes on, µs; now or earlier means in the next step.
        waits_for: instead of a time, a word that ``Work.wake`` is given when it can go on.
    """

    item: WorkItem | None
    wake_at: Micros = AT_ONCE
    waits_for: str | None = None


class WorkHandler(Protocol):
    """What one kind of item does."""

    def go_on(self, step: Step, item: WorkItem, room: Room) -> Progress:
        """Do a share of an item within the room that is left, at least one portion, and put what it leads to into the
        step. What may fail comes before anything is put in."""
        ...

    def job_changed(self, step: Step, item: WorkItem, job: Job) -> bool:
        """Tell whether an item outlives a new version of its job; what is said of its end goes into the step."""
        ...


class Work:
    """The work items of one shard, and when each goes on."""

    def __init__(
        self, state: ShardState, codec: RecordCodec, culprits: Mapping[SuspectId, Severity] = MappingProxyType({})
    ) -> None:
        self._culprits = culprits
        self._state = state
        self._codec = codec
        self._handlers: dict[str, WorkHandler] = {}
        self._by_job: defaultdict[str, dict[str, None]] = defaultdict(dict)
        """Ids by job, in the order in which they were begun; so are all ids below."""
        self._timers: list[tuple[Micros, int, str]] = []
        self._timer_of: dict[str, int] = {}
        """The serial number of an item's timer; another one is stale."""
        self._waiting: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._serial = 0

    def register(self, kind: str, handler: WorkHandler) -> None:
        """Let a handler go on with items of a kind, those that were restored first of all."""
        self._handlers[kind] = handler
        for item in self._state.work.values():
            if item.kind == kind:
                self._take_in(item)

    def of_job(self, job_id: str, kind: str) -> list[WorkItem]:
        """Return the items of a job, oldest first; those begun in a step only once it has been settled."""
        items = (self._state.work[item_id] for item_id in self._by_job.get(job_id, ()))
        return [item for item in items if item.kind == kind]

    def has(self, item_id: str) -> bool:
        """Tell whether an item is under way."""
        return item_id in self._state.work

    def has_job(self, job_id: str) -> bool:
        """Tell whether work of a job is under way."""
        return job_id in self._by_job

    def begin(self, step: Step, kind: str, job_id: str | None, data: str) -> WorkItem:
        """Put a new item into a step; it goes on from the next one. Its id is never used again in its shard."""
        item = WorkItem(f"{step.number}.{len(step.work)}", kind, job_id, data)
        step.work.append(item)
        step.turn = True
        return item

    def change(self, step: Step, item: WorkItem) -> None:
        """Replace an item that there is; it goes on in this very step. Nothing in the step may be taken back after."""
        self._state.work[item.id] = item
        step.work.append(item)
        step.turn = True
        self._set_timer(item.id, AT_ONCE)

    def wake(self, word: str) -> None:
        """Let the items that wait for a word go on."""
        for item_id in self._waiting.pop(word, ()):
            if item_id in self._state.work:
                self._set_timer(item_id, AT_ONCE)

    @property
    def awaits(self) -> bool:
        """Some item waits for a word."""
        return bool(self._waiting)

    def job_changed(self, step: Step, job: Job) -> None:
        """End the items that do not outlive a new version of their job."""
        known = [self._state.work[item_id] for item_id in self._by_job.get(job.job_id, ())]
        begun = (item for item in step.work if item.job_id == job.job_id and item.id not in self._state.work)
        for item in [*known, *begun]:
            ended = item.id in step.work_done
            if not ended and not self._handlers[item.kind].job_changed(step, item, job):
                step.work_done.append(item.id)
                step.turn = True

    def next_wake(self) -> Micros | None:
        """Return when the next item goes on, or None."""
        self._drop_stale()
        return self._timers[0][0] if self._timers else None

    def go_on(self, step: Step, room: Room) -> None:
        """Give each item that can go on its share, as far as there is room."""
        self.settle(step)
        resting: list[tuple[str, Micros]] = []
        while not room.used_up:
            self._drop_stale()
            if not self._timers or self._timers[0][0] > step.now:
                break
            item_id = heapq.heappop(self._timers)[2]
            del self._timer_of[item_id]
            progress = self._advance(step, self._state.work[item_id], room)
            if progress.item is None:
                step.work_done.append(item_id)
                step.turn = True
                self._forget(item_id)
                continue
            if progress.item is not self._state.work[item_id]:
                self._state.work[item_id] = progress.item
                step.work.append(progress.item)
                step.turn = True
            if progress.waits_for is not None:
                self._waiting[progress.waits_for][item_id] = None
            else:
                resting.append((item_id, progress.wake_at))
        for item_id, wake_at in resting:
            self._set_timer(item_id, wake_at)

    def settle(self, step: Step) -> None:
        """Take over what a step holds of items so far; a step that took something back must not have been settled."""
        done = set(step.work_done)
        for item in step.work:
            if item.id not in done and item.id not in self._state.work:
                self._state.work[item.id] = item
                self._take_in(item)
        for item_id in done:
            self._forget(item_id)

    def _advance(self, step: Step, item: WorkItem, room: Room) -> Progress:
        mark = step.mark()
        step.at_hand = Suspect(WORK, item.id)
        if self._culprits and (severity := self._culprits.get(step.at_hand.id)):
            if severity is not Severity.PASSED_OVER:
                bare = item._replace(data="") if severity is Severity.BARE else item
                self._set_aside(step, bare, FAULT_OF_TOCSIN)
            return Progress(None)
        try:
            return self._handlers[item.kind].go_on(step, item, room)
        except (CronError, Undecodable, ValueError, TypeError, KeyError) as error:
            # A damaged item must not stop its shard: it ends as a dead letter.
            step.back_to(mark)
            self._set_aside(step, item, f"work item {item.id} cannot go on: {type(error).__name__}: {error}")
            return Progress(None)

    def _set_aside(self, step: Step, item: WorkItem, why: str) -> None:
        letter = DeadLetter(
            "work", why[:1000], step.now, SHARD_STATE, self._state.shard, 0,
            item.data.encode(errors="replace")[:DEAD_LETTER_BYTES_MAX], job_id=item.job_id,
        )  # fmt: skip
        set_aside(step, self._codec, self._state.shard, item.job_id or item.id, letter)

    def _take_in(self, item: WorkItem) -> None:
        if item.kind not in self._handlers:
            return
        if item.job_id is not None:
            self._by_job[item.job_id][item.id] = None
        self._set_timer(item.id, AT_ONCE)

    def _set_timer(self, item_id: str, wake_at: Micros) -> None:
        self._serial += 1
        self._timer_of[item_id] = self._serial
        heapq.heappush(self._timers, (wake_at, self._serial, item_id))

    def _drop_stale(self) -> None:
        while self._timers and self._timer_of.get(self._timers[0][2]) != self._timers[0][1]:
            heapq.heappop(self._timers)

    def _forget(self, item_id: str) -> None:
        item = self._state.work.pop(item_id, None)
        self._timer_of.pop(item_id, None)
        if item is None or item.job_id is None:
            return
        self.wake(end_of_work(item.job_id))
        ids = self._by_job.get(item.job_id, {})
        ids.pop(item_id, None)
        if not ids:
            self._by_job.pop(item.job_id, None)


def end_of_work(job_id: str | None) -> str:
    """Return the word that is said when an item of a job has ended, for those behind it."""
    return f"end of work for {job_id}"
