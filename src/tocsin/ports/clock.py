"""Port: the clock. A loop reads it once a step and hands the instant on; nothing else asks for the time."""

from __future__ import annotations

from typing import Protocol

from tocsin.domain.instants import Micros


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> Micros:
        """Return microseconds since the epoch, UTC."""
        ...


class TriggerClock(Protocol):
    """The clock of an owner, which is held at or below the broker's."""

    def now(self) -> Micros:
        """Return the instant by which to decide; it never goes back."""
        ...

    def local(self) -> Micros:
        """Return our own time, whatever the broker says."""
        ...

    def at_most(self) -> Micros:
        """Return the latest that the broker's time can be."""
        ...

    def is_known(self) -> bool:
        """Tell whether the broker's time was seen; before that, nothing must be decided by this clock."""
        ...

    def off_by(self) -> Micros | None:
        """Return by how much our clock is certainly off, where that is too much; else None."""
        ...
