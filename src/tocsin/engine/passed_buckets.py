"""Which minutes of the index may be deleted whole: they have passed, and nothing can ask for their rows any more.

The rows of a fired minute are the outbox of their successors, so they stay until a turn is committed that says that
those are in the store; and for a while longer, for people to look at. Rows are never deleted one by one for having
fired.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.domain.entries import Entry
from tocsin.domain.instants import DAY, SECOND, Micros, minute_of
from tocsin.engine.shard_state import ShardState


@dataclass(frozen=True, slots=True)
class PassedLimits:
    """How long passed minutes are kept, and how fast they go.

    Attributes:
        kept_s: how long after its end a minute stays in the index.
        per_turn_max: minutes deleted with one turn.
    """

    kept_s: float = DAY / SECOND
    per_turn_max: int = 60


class PassedBuckets:
    """The passed minutes of one shard, deleted in order."""

    def __init__(self, state: ShardState, limits: PassedLimits) -> None:
        self._state = state
        self._limits = limits
        if state.deleted_upto is None:
            # Written before minutes were deleted: what is older than its outbox is left to the operator.
            state.deleted_upto = minute_of(min(state.successors_upto, state.cursor).run_at)
        self.next = state.deleted_upto
        """The first minute whose deletion has not begun."""
        self._empty: set[int] = set()
        """Minutes that were read whole and held nothing: a tombstone would be all there is of them."""
        self._filled: set[int] = set()

    def read(self, minute: int, rows: int, last: bool) -> None:
        """A page of a minute was read."""
        if rows:
            self._filled.add(minute)
            self._empty.discard(minute)
        if last:
            if minute not in self._filled:
                self._empty.add(minute)
            self._filled.discard(minute)

    def filed(self, entries: Iterable[Entry]) -> None:
        """Rows are about to be written."""
        if self._empty:
            self._empty -= {minute_of(entry.run_at) for entry in entries}

    def due(self, now: Micros) -> list[int]:
        """Return the minutes to delete with this turn, whose header says that their successors are in the store."""
        kept = int(self._limits.kept_s * SECOND)
        passed = min(self._state.successors_upto, self._state.cursor).run_at
        upto = min(minute_of(now - kept), minute_of(passed), self.next + self._limits.per_turn_max)
        minutes = [minute for minute in range(self.next, upto) if minute not in self._empty]
        self._empty.difference_update(range(self.next, upto))
        self.next = max(self.next, upto)
        return minutes
