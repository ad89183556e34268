"""What any recurring schedule can be asked, whatever makes it recur."""

from __future__ import annotations

from typing import Protocol

from tocsin.domain.instants import Micros


class Recurrence(Protocol):
    """What any recurring schedule can be asked. Instants are µs since the epoch, within 1970 to 2199."""

    def next_after(self, instant: Micros) -> Micros | None:
        """Return the first occurrence strictly after an instant, or None when there is none up to 2199."""

    def previous_before(self, instant: Micros) -> Micros | None:
        """Return the last occurrence strictly before an instant, or None when there is none since 1970."""

    def between(self, after: Micros, upto: Micros, limit: int) -> list[Micros]:
        """Return the occurrences after ``after`` and up to and including ``upto``, oldest first, at most ``limit``."""

    def count_between(self, after: Micros, upto: Micros, limit: int) -> tuple[int, bool]:
        """Count what ``between`` would return, up to about ``limit``, and tell whether that is all."""


def occurrences_between(schedule: Recurrence, after: Micros, upto: Micros, limit: int) -> list[Micros]:
    """Walk a schedule forward; see ``Recurrence.between``."""
    found: list[Micros] = []
    at = schedule.next_after(after)
    while at is not None and at <= upto and len(found) < limit:
        found.append(at)
        at = schedule.next_after(at)
    return found
