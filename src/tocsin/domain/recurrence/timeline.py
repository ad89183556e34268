"""How a zone's wall clock runs against UTC: segments of constant offset, and two views of them that never go back.

A wall clock jumps over some times and shows others twice. A job with a fixed time is to run once for each wall time,
so it needs a clock that only goes forward:

- ``first``: each wall time at the first instant that shows it. This is the running maximum of the wall clock.
- ``last``: each wall time at the last instant that shows it: the running minimum, looked at from the end.

In both, a wall time that is never shown belongs to the instant at which the clock goes on behind it. That gives the
daemon's rule in one sentence: a fixed time fires at the instant at which the forward clock reaches or passes it.

Everything is whole seconds. Nothing here knows of expressions.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

_FOREVER: Final = 1 << 62


class ForwardClock:
    """A wall clock that never goes back: ascending pieces, each a stretch of real time at one offset."""

    __slots__ = ("_ends", "_offsets", "_starts")

    def __init__(self, pieces: list[tuple[int, int, int]]) -> None:
        """Take pieces of (first second UTC, offset, wall second at which the piece ends)."""
        self._starts: Final = tuple(start for start, _, _ in pieces)
        self._offsets: Final = tuple(offset for _, offset, _ in pieces)
        self._ends: Final = tuple(end for _, _, end in pieces)

    def joined(self, after: ForwardClock, at_s: int) -> ForwardClock:
        """Return a clock that goes on as another from a second of UTC on: as soon as it passes what this one reached.

        So no wall time comes twice, and what is passed over belongs to the instant of the change.
        """
        pieces = [
            (start, offset, min(end, at_s + offset))
            for start, offset, end in zip(self._starts, self._offsets, self._ends, strict=True)
            if start < at_s
        ]
        reached = pieces[-1][2] if pieces else -_FOREVER
        for start, offset, end in zip(after._starts, after._offsets, after._ends, strict=True):
            if end - offset > at_s and end > reached:
                pieces.append((max(start, at_s, reached - offset), offset, end))
        return ForwardClock(pieces)

    def reached(self, at_s: int) -> int:
        """Return the latest wall second that is reached at a second of UTC; where it was passed over, it counts."""
        piece = max(bisect_right(self._starts, at_s) - 1, 0)
        wall_s = at_s + self._offsets[piece]
        end = self._ends[piece]
        return wall_s if wall_s < end else end - 1

    def instant(self, wall_s: int) -> int:
        """Return the second of UTC at which a wall second is reached or passed over."""
        piece = bisect_right(self._ends, wall_s)
        at_s = wall_s - self._offsets[piece]
        start = self._starts[piece]
        return at_s if at_s > start else start

    def gap(self, wall_s: int) -> tuple[int, int] | None:
        """Return the skipped stretch of wall seconds [from, to) that holds ``wall_s``, or None where it is shown."""
        piece = bisect_right(self._ends, wall_s)
        resumed = self._starts[piece] + self._offsets[piece]
        if piece == 0 or wall_s >= resumed:
            return None
        return self._ends[piece - 1], resumed


class Timeline:
    """One zone's wall clock.

    Attributes:
        starts: first second UTC of each segment, ascending.
        offsets: seconds that the wall clock is ahead of UTC in each segment.
        ends: first second UTC after each segment.
        first: forward clock that takes repeated wall times the first time.
        last: forward clock that takes them the last time.
    """

    __slots__ = ("ends", "first", "last", "offsets", "starts")

    def __init__(self, segments: list[tuple[int, int]]) -> None:
        """Take pairs of (first second UTC, offset), ascending."""
        self.starts: Final = tuple(start for start, _ in segments)
        self.offsets: Final = tuple(offset for _, offset in segments)
        self.ends: Final = (*self.starts[1:], _FOREVER)
        self.first: ForwardClock = ForwardClock(self._first_pieces())
        self.last: ForwardClock = ForwardClock(self._last_pieces())

    def joined(self, after: Timeline, at_s: int) -> Timeline:
        """Return a wall clock that shows what this one shows before a second of UTC, and what another does from it on.

        The change counts like any that a zone makes by itself. Up to it all answers are those of this one: wall times
        that come once more after it have had their last time already.
        """
        segments = [(s, o) for s, o in zip(self.starts, self.offsets, strict=True) if s < at_s]
        present = after.offsets[max(bisect_right(after.starts, at_s) - 1, 0)]
        later = [(s, o) for s, o in zip(after.starts, after.offsets, strict=True) if s > at_s]
        if not segments or segments[-1][1] != present:
            later.insert(0, (at_s, present))
        joined = Timeline(segments + later)
        joined.first = self.first.joined(after.first, at_s)
        joined.last = self.last.joined(after.last, at_s)
        return joined

    def _first_pieces(self) -> list[tuple[int, int, int]]:
        pieces = []
        reached = -_FOREVER
        for start, offset, end in zip(self.starts, self.offsets, self.ends, strict=True):
            if end + offset > reached:
                pieces.append((max(start, reached - offset), offset, end + offset))
                reached = end + offset
        return pieces

    def _last_pieces(self) -> list[tuple[int, int, int]]:
        pieces = []
        shown_again = 2 * _FOREVER
        for start, offset, end in zip(reversed(self.starts), reversed(self.offsets), reversed(self.ends), strict=True):
            if start + offset < shown_again:
                pieces.append((start, offset, min(end + offset, shown_again)))
                shown_again = start + offset
        return pieces[::-1]
