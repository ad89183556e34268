"""Intervals: an anchor and a period, by arithmetic. Zones and clock changes do not touch them."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.domain.instants import EARLIEST, LATEST, SECOND, Micros
from tocsin.domain.recurrence.errors import CronError
from tocsin.domain.recurrence.occurrences import occurrences_between


@dataclass(frozen=True, slots=True)
class EveryPlan:
    """Fires at the anchor and each whole number of periods after it.

    Attributes:
        every_us: the period in µs, a second or more.
        anchor: the first occurrence, µs since the epoch.
    """

    every_us: int
    anchor: Micros

    def __post_init__(self) -> None:
        """Refuse a period that is too short.

        Raises:
            CronError: it is below a second.
        """
        if self.every_us < SECOND:
            raise CronError("is below a second", "give 1 second or more", None, "every_s", self.every_us / SECOND)

    def next_after(self, instant: Micros) -> Micros | None:
        """Return the first occurrence strictly after an instant, or None when there is none up to 2199."""
        instant = max(instant, EARLIEST - 1)
        periods = max((instant - self.anchor) // self.every_us + 1, 0)
        at = self.anchor + periods * self.every_us
        return at if at <= LATEST else None

    def previous_before(self, instant: Micros) -> Micros | None:
        """Return the last occurrence strictly before an instant, or None when there is none since 1970."""
        periods = (min(instant, LATEST + 1) - 1 - self.anchor) // self.every_us
        at = self.anchor + periods * self.every_us
        return at if periods >= 0 and at >= EARLIEST else None

    def between(self, after: Micros, upto: Micros, limit: int) -> list[Micros]:
        """Return the occurrences after ``after`` and up to and including ``upto``, oldest first, at most ``limit``."""
        return occurrences_between(self, after, upto, limit)

    def count_between(self, after: Micros, upto: Micros, limit: int) -> tuple[int, bool]:
        """Count the occurrences after ``after`` and up to and including ``upto``; that needs no walk, and no limit."""
        first, last = self.next_after(after), self.previous_before(upto + 1)
        count = 0 if first is None or last is None or last < first else (last - first) // self.every_us + 1
        return count, True
