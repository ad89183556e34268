"""Helpers for tests, ours and our users': time under your control, and handlers run without any broker."""

from __future__ import annotations

from tocsin.domain.instants import SECOND, Micros
from tocsin.testing.handlers import run_handler

__all__ = ["SettableClock", "run_handler"]


class SettableClock:
    """A clock that stands until it is told to go on. Fulfils ``ports.clock.Clock`` and ``TriggerClock``."""

    def __init__(self, now: Micros = 1_800_000_000 * SECOND) -> None:
        self._now = now

    def now(self) -> Micros:
        return self._now

    def local(self) -> Micros:
        """Return the same: this clock is nobody else's."""
        return self._now

    def at_most(self) -> Micros:
        """Return the same: nothing else tells the time."""
        return self._now

    def is_known(self) -> bool:
        """Say that this clock needs no other."""
        return True

    def off_by(self) -> None:
        """Say that the clock is right."""

    def set(self, now: Micros) -> None:
        """Stand at an instant, µs since the epoch."""
        self._now = now

    def advance(self, seconds: float) -> None:
        """Go on by so many seconds, to the microsecond."""
        self._now += round(seconds * SECOND)
