"""One partition through one assignment, and the records of it that this process holds.

An item refers to the assignment under which it came. When that ends, the item settles nothing any more, also if the
partition comes back to this very process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from tocsin.domain.executions import Execution
from tocsin.domain.instants import Micros
from tocsin.engine.offset_window import OffsetWindow


class Stage(IntEnum):
    """How far an item has come."""

    QUEUED = 0
    MARKED = 1
    """On the begun list; it starts when a commit that lists it is acknowledged."""
    RUNNING = 2
    REPORTED = 3
    """Its closing report is under way; it settles when that is acknowledged, if it has not before."""


class Lease(IntEnum):
    """Whether the owner knows that an attempt goes on."""

    NONE = 0
    ASKED = 1
    """A RUNNING report is under way."""
    HELD = 2
    """It is acknowledged: the offset is settled, and the attempt no longer depends on its partition."""


# By the class they are looked up slowly, and they are named for each record.
_MARKED, _RUNNING = Stage.MARKED, Stage.RUNNING

CAREFUL_TAKEOVERS: Final = 3
"""Two owners in a row have settled nothing, and this is the third: one of the next records may be what kills them."""


@dataclass(eq=False)
class Item:
    """A record that was received and is not settled.

    What it begins with stands in the class: to be made, one takes as much time as it has attributes of its own.
    """

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    inherited: bool
    """A predecessor had begun it: it may have run, so it is not run here but returned."""
    tenant: bytes = b""
    """Whose it is, as its key says."""
    bytes_held: int = 0
    """Of key and value together, as it was received."""
    stage: Stage = field(default=Stage.QUEUED, init=False)
    lease: Lease = field(default=Lease.NONE, init=False)
    settled: bool = field(default=False, init=False)
    surplus: bool = field(default=False, init=False)
    """It is marked only to be given back: it waited behind its tenant's share."""
    abandoned: str | None = field(default=None, init=False)
    """Why it was told to stop, where it was; if it does stop, it is returned for this reason."""
    heir: Item | None = field(default=None, init=False)
    """The same dispatch, come again under a later assignment; it settles with this one."""
    execution: Execution | None = field(default=None, init=False)
    timeout_s: float = field(default=0.0, init=False)
    started_at: Micros = field(default=0, init=False)
    lease_at_s: float = field(default=0.0, init=False)
    """When, by the monotonic clock, it has lasted long enough for a lease."""
    overdue_at_s: float = field(default=0.0, init=False)
    """When, by the monotonic clock, it counts as one that cannot be stopped."""


@dataclass(slots=True, eq=False)
class Partition:
    """A partition under one assignment.

    Attributes:
        number: in the lane's topic.
        epoch: counts the assignments of this process.
        window: what is settled and begun.
        legacy: received, begun by a predecessor, not marked yet; in order.
        in_hand: marked, running or reported, and not settled; by offset.
        reached: the highest offset that was marked.
        live: the assignment lasts.
        changed: the window says something that is not committed.
        full: the window is used up; fetching waits until it is roomy again.
        paused: fetching is stopped, as the log was told.
    """

    number: int
    epoch: int
    window: OffsetWindow
    legacy: deque[Item] = field(default_factory=deque)
    in_hand: dict[int, Item] = field(default_factory=dict)
    reached: int = -1
    live: bool = True
    changed: bool = False
    full: bool = False
    paused: bool = False

    @property
    def careful(self) -> bool:
        """One record at a time is fetched and marked, and decoded only then, until one has been settled."""
        return self.window.takeovers >= CAREFUL_TAKEOVERS

    @property
    def holds_back(self) -> bool:
        """Nothing more is to be fetched though there is room."""
        return self.careful and self.window.unsettled > 0

    def mark_legacy(self, in_hand_max: int) -> list[Item]:
        """Mark what a predecessor had begun, or may have: an acknowledged commit proves that we own it.

        Args:
            in_hand_max: no more than so many are under way at once.
        """
        room = max(0, (1 if self.careful else in_hand_max) - len(self.in_hand))
        marked = [self.legacy.popleft() for _ in range(min(room, len(self.legacy)))]
        for item in marked:
            self.window.begin(item.offset)
            self._mark(item)
        return marked

    def mark(self, item: Item) -> bool:
        """Put an item on the begun list, where that has room; tell whether it had."""
        if (self.in_hand and self.careful) or not self.window.try_begin(item.offset):
            return False
        self._mark(item)
        return True

    def mark_run(self, queue: deque[Item], limit: int) -> list[Item]:
        """Take items from the head of a queue and put them on the begun list, as many as that has room for."""
        if self.careful:
            limit = min(limit, 0 if self.in_hand else 1)
        marked: list[Item] = []
        try_begin, in_hand = self.window.try_begin, self.in_hand
        while queue and len(marked) < limit and try_begin(queue[0].offset):
            item = queue.popleft()
            item.stage = _MARKED
            in_hand[item.offset] = item
            marked.append(item)
        if marked:
            self.reached = max(self.reached, marked[-1].offset)
            self.changed = True
        return marked

    def _mark(self, item: Item) -> None:
        offset = item.offset
        if offset > self.reached:
            self.reached = offset
        item.stage = _MARKED
        self.in_hand[offset] = item
        self.changed = True

    def settle(self, item: Item) -> None:
        """Settle an item, once. When the assignment is over, nobody commits this window any more."""
        if item.settled or not self.live:
            return
        item.settled, offset = True, item.offset
        del self.in_hand[offset]
        self.window.settle(offset)
        self.changed = True

    def running(self) -> list[Item]:
        """Return the items that run and are not settled: those without an acknowledged lease."""
        return [item for item in self.in_hand.values() if item.stage is _RUNNING]

    def withdraw_marked(self) -> None:
        """Take off the begun list what was not started, so that the next owner does not take it for begun."""
        for item in [item for item in self.in_hand.values() if item.stage is Stage.MARKED]:
            del self.in_hand[item.offset]
            self.window.withdraw(item.offset)
            self.changed = True

    def drop_legacy(self) -> list[Item]:
        """Forget what a predecessor had begun and is not marked; return it."""
        dropped = list(self.legacy)
        self.legacy.clear()
        return dropped

    def let_go(self) -> list[Item]:
        """End the assignment; return the items that run without an acknowledged lease."""
        self.live = False
        running = self.running()
        self.in_hand.clear()
        return running
