"""The cancels in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.domain.fleet import Cancel


class MemoryCancelLog:
    """Fulfils ``ports.cancel_log.CancelLog``.

    Attributes:
        written: all that was ever written, in order; shared by the workers of a test.
    """

    def __init__(self, written: list[Cancel] | None = None) -> None:
        self.written = [] if written is None else written
        self._read = 0

    def load(self) -> Sequence[Cancel]:
        return self.poll(len(self.written))

    def poll(self, limit: int) -> Sequence[Cancel]:
        found = self.written[self._read : self._read + limit]
        self._read += len(found)
        return found

    def close(self) -> None:
        """Nothing is held."""
