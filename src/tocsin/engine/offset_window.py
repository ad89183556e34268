"""Which offsets of one partition are settled, which have begun, and what may be committed.

The lowest received unsettled offset is committed, or the position where there is none: never the highest seen.
Offsets that are never delivered (transaction markers, aborted records) hold nothing up. The window belongs to one
assignment of the partition; whoever gets the partition next starts from what was committed. Where that is lost, all
offsets below the end of the log may have been handed out before: they are in doubt, and treated as begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum

from tocsin.engine.offset_metadata import BEGUN_MAX, NO_MARKS, WINDOW_MAX, Marks, encode_marks


class Seen(Enum):
    """What an offset is to this owner when it is received."""

    NEW = 1
    BEGUN = 2
    """A predecessor had begun it, or may have: it may have run."""
    SETTLED = 3
    """A predecessor had settled it: skip it."""
    REPEATED = 4
    """It lies below the position: nothing to do."""


# By the class they are looked up slowly, and they are named for each record.
_NEW, _BEGUN = Seen.NEW, Seen.BEGUN


class OffsetWindow:
    """Tracks one partition through one assignment.

    Args:
        start: the committed offset, at which consumption starts.
        marks: what the predecessor's metadata says.
        window_max: how far past the prefix an offset may begin.
        begun_max: how many may be begun and unsettled at once.
    """

    def __init__(
        self, start: int, marks: Marks = NO_MARKS, window_max: int = WINDOW_MAX, begun_max: int = BEGUN_MAX
    ) -> None:
        self._window_max = min(window_max, WINDOW_MAX)
        self._begun_max = min(begun_max, BEGUN_MAX)
        self._untouched = True
        self._position = start
        self._order: deque[int] = deque()
        """Received offsets from the prefix on, settled ones included; begins with an unsettled one."""
        self._settled: set[int] = set()
        """Those of ``_order`` that are settled."""
        self._begun: set[int] = set()
        self._inherited = {start + offset for offset in marks.begun}
        """Begun by a predecessor, and not settled; also those that were not received yet."""
        self._skips = {start + offset for offset in marks.settled}
        """Settled by a predecessor, and not received yet."""
        self.takeovers = marks.takeovers
        """How many owners in a row, this one included, have settled nothing."""
        self._doubtful_below = start + marks.doubt
        self._doubtful: set[int] = set()
        """Received, in doubt, and not settled."""

    @property
    def prefix(self) -> int:
        """What may be committed: everything below it is settled or was never delivered."""
        return self._order[0] if self._order else self._position

    @property
    def position(self) -> int:
        """The offset after the highest received one."""
        return self._position

    @property
    def unsettled(self) -> int:
        """How many received offsets are not settled."""
        return len(self._order) - len(self._settled)

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be fetched. A partition with nothing unsettled is never full."""
        return bool(self._order) and self._position - self._order[0] >= self._window_max

    @property
    def is_roomy(self) -> bool:
        """Whether fetching may go on after it was stopped; not the opposite of full, so that it does not flutter."""
        return not self._order or self._position - self._order[0] <= self._window_max // 2

    def received(self, offset: int) -> Seen:
        """Note that an offset was delivered, and tell what to do with it."""
        if offset < self._position:
            if not self._untouched:
                return Seen.REPEATED
            # The log starts again below what was committed (it was truncated or made anew): what is known of the
            # old offsets says nothing about these.
            self._inherited.clear()
            self._skips.clear()
            # Unless it was made anew, they have been handed out before.
            self._doubtful_below = max(self._doubtful_below, self._position)
        elif offset > self._position and (self._skips or self._inherited):
            self._forget_undelivered(self._position, offset)
        self._untouched = False
        self._position = offset + 1
        if offset in self._skips:
            self._skips.remove(offset)
            if self._order:
                self._order.append(offset)
                self._settled.add(offset)
            return Seen.SETTLED
        self._order.append(offset)
        if offset in self._inherited:
            return _BEGUN
        if offset < self._doubtful_below:
            self._doubtful.add(offset)
            return _BEGUN
        return _NEW

    def _forget_undelivered(self, low: int, high: int) -> None:
        self._skips = {offset for offset in self._skips if not low <= offset < high}
        self._inherited = {offset for offset in self._inherited if not low <= offset < high}

    def can_begin(self, offset: int) -> bool:
        """Tell whether a received offset may be put on the begun list now."""
        return offset in self._inherited or offset in self._doubtful or self._has_room(offset)

    def _has_room(self, offset: int) -> bool:
        first = self._order[0] if self._order else self._position
        return len(self._begun) + len(self._inherited) < self._begun_max and offset - first < self._window_max

    def begin(self, offset: int) -> None:
        """Put a received offset on the begun list; it may start once a commit that lists it is acknowledged."""
        if not self.try_begin(offset):
            raise ValueError(f"offset {offset} cannot begin")

    def try_begin(self, offset: int) -> bool:
        """Put a received offset on the begun list where that can be done now; tell whether it was."""
        if offset in self._inherited or offset in self._doubtful:
            return True
        if not self._has_room(offset):
            return False
        self._begun.add(offset)
        return True

    def withdraw(self, offset: int) -> None:
        """Take an offset off the begun list because it was not started after all; inherited ones stay."""
        self._begun.discard(offset)

    def settle(self, offset: int) -> None:
        """Note that the responsibility for a begun offset has been taken over.

        Raises:
            ValueError: the offset was not begun, or is settled.
        """
        if offset in self._begun:
            self._begun.remove(offset)
        elif offset in self._inherited and offset < self._position:
            self._inherited.remove(offset)
        elif offset in self._doubtful:
            self._doubtful.remove(offset)
        else:
            raise ValueError(f"offset {offset} is not begun")
        self.takeovers = 0
        order = self._order
        if order[0] != offset:
            self._settled.add(offset)
            return
        order.popleft()
        while order and order[0] in self._settled:
            self._settled.remove(order.popleft())

    def metadata(self, *, released: bool = False) -> str:
        """Return what to commit beside the prefix.

        Args:
            released: the owner gives the partition up in peace, which ends the count of takeovers.
        """
        takeovers = 0 if released else self.takeovers
        prefix = self.prefix
        doubt = max(0, self._doubtful_below - prefix)
        if not (self._settled or self._skips or self._begun or self._inherited or takeovers or doubt):
            return ""
        return encode_marks(
            self._relative(prefix, self._settled, self._skips),
            self._relative(prefix, self._begun, self._inherited),
            takeovers,
            doubt,
        )

    def _relative(self, prefix: int, *groups: Iterable[int]) -> list[int]:
        return [offset - prefix for group in groups for offset in group]
