"""One partition through one assignment, and the records of it that this process holds.

An item refers to the assignment under which it came. When that ends, the item settles nothing any more, also if the
partition comes back to this very process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

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
    """Its report is under way; it settles when that is acknowledged."""


@dataclass(slots=True, eq=False)
class Item:
    """A record that was received and is not settled."""

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    inherited: bool
    """A predecessor had begun it."""
    stage: Stage = Stage.QUEUED
    execution: Execution | None = None
    started_at: Micros = 0
    overdue_at_s: float = 0.0
    """When, by the monotonic clock, it counts as one that cannot be stopped."""

    @property
    def bytes_held(self) -> int:
        return len(self.key or b"") + len(self.value or b"")


@dataclass(slots=True, eq=False)
class Partition:
    """A partition under one assignment.

    Attributes:
        number: in the lane's topic.
        epoch: counts the assignments of this process.
        window: what is settled and begun.
        queue: received, not marked yet; in order.
        in_hand: marked, running or reported, and not settled.
        live: the assignment lasts.
        changed: the window says something that is not committed.
        full: the window is used up; fetching waits until it is roomy again.
        paused: fetching is stopped, as the log was told.
    """

    number: int
    epoch: int
    window: OffsetWindow
    queue: deque[Item] = field(default_factory=deque)
    in_hand: set[Item] = field(default_factory=set)
    live: bool = True
    changed: bool = False
    full: bool = False
    paused: bool = False

    def mark_next(self) -> Item | None:
        """Put the next queued item on the begun list; None where there is none, or no room on the list."""
        if not self.queue or not self.window.can_begin(self.queue[0].offset):
            return None
        item = self.queue.popleft()
        self.window.begin(item.offset)
        item.stage = Stage.MARKED
        self.in_hand.add(item)
        # Also for an inherited one, which is listed already: an acknowledged commit proves that we still own it.
        self.changed = True
        return item

    def settle(self, item: Item) -> None:
        """Settle an item. When the assignment is over, nobody commits this window any more, so it means nothing."""
        self.in_hand.discard(item)
        self.window.settle(item.offset)
        self.changed = True

    def withdraw_marked(self) -> None:
        """Take off the begun list what was not started, so that the next owner does not take it for begun."""
        for item in [item for item in self.in_hand if item.stage is Stage.MARKED]:
            self.in_hand.discard(item)
            self.window.withdraw(item.offset)
            self.changed = True

    def let_go(self) -> list[Item]:
        """End the assignment; return the items that run."""
        self.live = False
        running = [item for item in self.in_hand if item.stage is Stage.RUNNING]
        self.in_hand.clear()
        return running
