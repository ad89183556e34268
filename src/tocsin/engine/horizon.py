"""Which minutes of the index are being read, and up to where the time line is known.

The cursor must not pass what is loaded; a minute whose read has begun is also fed directly with what is committed
for it, since the read may have come too early to see it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.domain.instants import MINUTE, SECOND, Micros, minute_of

AGAIN_AFTER: Micros = SECOND
"""How long an index that has lost its rows is left alone before it is asked again."""


@dataclass(frozen=True, slots=True)
class HorizonLimits:
    """How far ahead the index is read.

    Attributes:
        preload_minutes: whole minutes held ahead of now.
        lead_s: how long before a minute comes into the preload its read begins.
        reads_max: reads under way at once.
    """

    preload_minutes: int = 2
    lead_s: float = 30.0
    reads_max: int = 4


class Horizon:
    """Tracks the reads of one shard. Minutes are begun in order, and without gaps from the cursor's minute on."""

    def __init__(self, first_minute: int, limits: HorizonLimits) -> None:
        self._limits = limits
        self._next = first_minute
        """The first minute whose read has not begun."""
        self._reading: set[int] = set()
        self._again: set[int] = set()
        """Minutes whose read brought too little; they are read again after a pause."""
        self._again_at: Micros = 0

    def has_begun(self, minute: int) -> bool:
        """Tell whether entries of this minute must also go into the wheel directly. Past minutes count as begun."""
        return minute < self._next

    @property
    def loaded_upto(self) -> Micros:
        """The instant before which every entry is in memory."""
        return min(self._reading, default=self._next) * MINUTE

    def begin(self, now: Micros) -> list[int]:
        """Return the minutes whose reads begin now, and count them as begun."""
        wanted = minute_of(now + int(self._limits.lead_s * SECOND)) + self._limits.preload_minutes
        begun: list[int] = []
        if self._again and now >= self._again_at:
            begun, self._again = sorted(self._again), set()
        while self._next < wanted and len(self._reading) < self._limits.reads_max:
            begun.append(self._next)
            self._reading.add(self._next)
            self._next += 1
        return begun

    def loaded(self, minute: int) -> None:
        """A minute has been read whole."""
        self._reading.discard(minute)

    def unknown(self, minute: int, now: Micros) -> None:
        """A minute was read, and nobody knows what is missing of it: it holds the cursor, and is read again."""
        self._again.add(minute)
        self._again_at = now + AGAIN_AFTER
