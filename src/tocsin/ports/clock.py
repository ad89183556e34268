"""Port: the clock. A loop reads it once a step and hands the instant on; nothing else asks for the time."""

from __future__ import annotations

from typing import Protocol

from tocsin.domain.instants import Micros


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> Micros:
        """Return microseconds since the epoch, UTC."""
        ...
