"""The compiled form of a cron expression in a zone, and the rule of what it does where the clock changes.

Searches run over wall times (``wall_times``), which a zone's clock (``timeline``) maps to UTC. Two kinds of job:

- A *cadence* job (minute or hour begins with ``*``) fires at each real second whose wall time matches.
- A *fixed-time* job fires once for each matching wall time: see ``DstPolicy`` for those that are skipped or repeated.

Pure: no clock, and no state but a memo that changes no answer.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, Literal, NamedTuple

from tocsin.domain.instants import EARLIEST, LATEST, SECOND, Micros
from tocsin.domain.recurrence.calendars import Calendar
from tocsin.domain.recurrence.fields import CronFields
from tocsin.domain.recurrence.occurrences import occurrences_between
from tocsin.domain.recurrence.timeline import ForwardClock, Timeline
from tocsin.domain.recurrence.wall_times import WallTimes

MEMO_ENTRIES_MAX: Final = 32
"""Answers that a plan remembers. Jobs of one class ask about the same instant, so few are enough."""


class DstPolicy(NamedTuple):
    """What a fixed-time job does with wall times that a clock skips or shows twice. Cadence jobs do not ask.

    Attributes:
        gap: a skipped wall time runs at the instant the clock goes on (``shift``), or not at all (``skip``).
        overlap: a repeated wall time runs the first time, the second time, or both times.
    """

    gap: Literal["shift", "skip"] = "shift"
    overlap: Literal["first", "second", "both"] = "first"


DEFAULT_DST: Final = DstPolicy()


class CronPlan:
    """An expression in a zone under a policy. Immutable; equal plans have equal occurrences.

    Attributes:
        fields: what the expression means.
        timezone: name of the zone.
        dst: what happens where the clock changes.
        calendar: dates that are left out; None where none are.
        timeline: the zone's clock.
        wall: the wall times that match.
    """

    __slots__ = ("_clocks", "_hash", "_memo", "calendar", "dst", "fields", "timeline", "timezone", "wall")

    def __init__(
        self,
        fields: CronFields,
        timezone: str,
        timeline: Timeline,
        dst: DstPolicy = DEFAULT_DST,
        calendar: Calendar | None = None,
    ) -> None:
        self.fields: Final = fields
        self.timezone: Final = timezone
        self.dst: Final = dst
        self.calendar: Final = calendar
        self.timeline: Final = timeline
        self._clocks: Final = _clocks(timeline, dst.overlap)
        self.wall: Final = WallTimes(fields, calendar)
        self._memo: Final[dict[Micros, Micros | None]] = {}
        self._hash: Final = hash((fields, timezone, dst, calendar))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CronPlan):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"CronPlan{self._identity()!r}"

    def _identity(self) -> tuple[CronFields, str, DstPolicy, Calendar | None]:
        return self.fields, self.timezone, self.dst, self.calendar

    def next_after(self, instant: Micros) -> Micros | None:
        """Return the first occurrence strictly after an instant, or None when there is none up to 2199."""
        try:
            return self._memo[instant]
        except KeyError:
            pass
        found = self._next(instant)
        if len(self._memo) >= MEMO_ENTRIES_MAX:
            self._memo.clear()
        self._memo[instant] = found
        return found

    def previous_before(self, instant: Micros) -> Micros | None:
        """Return the last occurrence strictly before an instant, or None when there is none since 1970."""
        if instant <= EARLIEST:
            return None
        # The last whole second before the instant: what falls into it has fired.
        from_s = (min(instant, LATEST + 1) - 1) // SECOND
        if self.fields.cadence:
            at_s = self._cadence_at_or_before(from_s)
        else:
            fixed = (self._fixed_at_or_before(clock, from_s) for clock in self._clocks)
            at_s = max((at for at in fixed if at is not None), default=None)
        return None if at_s is None or at_s * SECOND < EARLIEST else at_s * SECOND

    def between(self, after: Micros, upto: Micros, limit: int) -> list[Micros]:
        """Return the occurrences after ``after`` and up to and including ``upto``, oldest first, at most ``limit``."""
        return occurrences_between(self, after, upto, limit)

    def count_between(self, after: Micros, upto: Micros, limit: int) -> tuple[int, bool]:
        """Count the occurrences after ``after`` and up to and including ``upto``, at most ``limit`` of them.

        Returns:
            The count, and whether it is of all.
        """
        found = len(occurrences_between(self, after, upto, limit + 1))
        return min(found, limit), found <= limit

    def _next(self, instant: Micros) -> Micros | None:
        if instant >= LATEST:
            return None
        # The whole second that holds the instant: what falls into it or before has fired.
        upto_s = max(instant, EARLIEST - 1) // SECOND
        if self.fields.cadence:
            at_s = self._cadence_after(upto_s)
        else:
            fixed = (self._fixed_after(clock, upto_s) for clock in self._clocks)
            at_s = min((at for at in fixed if at is not None), default=None)
        return None if at_s is None or at_s * SECOND > LATEST else at_s * SECOND

    def _fixed_after(self, clock: ForwardClock, upto_s: int) -> int | None:
        wall_s = self.wall.at_or_after(clock.reached(upto_s) + 1)
        if self.dst.gap == "skip":
            while wall_s is not None and (gap := clock.gap(wall_s)):
                wall_s = self.wall.at_or_after(gap[1])
        return None if wall_s is None else clock.instant(wall_s)

    def _fixed_at_or_before(self, clock: ForwardClock, upto_s: int) -> int | None:
        wall_s = self.wall.at_or_before(clock.reached(upto_s))
        if self.dst.gap == "skip":
            while wall_s is not None and (gap := clock.gap(wall_s)):
                wall_s = self.wall.at_or_before(gap[0] - 1)
        return None if wall_s is None else clock.instant(wall_s)

    def _cadence_after(self, upto_s: int) -> int | None:
        zone = self.timeline
        segment = max(bisect_right(zone.starts, upto_s + 1) - 1, 0)
        from_s = upto_s + 1
        searched, found = 1, 0  # an empty stretch: nothing was searched yet
        while True:
            wall_s = from_s + zone.offsets[segment]
            if not searched <= wall_s <= found:
                hit = self.wall.at_or_after(wall_s)
                if hit is None:
                    return None
                searched, found = wall_s, hit
            at_s = found - zone.offsets[segment]
            if at_s < zone.ends[segment]:
                return at_s
            segment += 1
            from_s = zone.starts[segment]

    def _cadence_at_or_before(self, upto_s: int) -> int | None:
        zone = self.timeline
        segment = max(bisect_right(zone.starts, upto_s) - 1, 0)
        searched, found = 0, 1
        while True:
            wall_s = upto_s + zone.offsets[segment]
            if not found <= wall_s <= searched:
                hit = self.wall.at_or_before(wall_s)
                if hit is None:
                    return None
                searched, found = wall_s, hit
            at_s = found - zone.offsets[segment]
            if at_s >= zone.starts[segment]:
                return at_s
            if segment == 0:
                return None
            upto_s = zone.starts[segment] - 1
            segment -= 1


def _clocks(timeline: Timeline, overlap: str) -> tuple[ForwardClock, ...]:
    """Return the forward clocks that fixed times fire by. No wall time is shown more than twice, so two are enough."""
    return {"first": (timeline.first,), "second": (timeline.last,), "both": (timeline.first, timeline.last)}[overlap]
