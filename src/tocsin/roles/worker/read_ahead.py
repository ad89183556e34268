"""How much is fetched and waits to be started, in records and bytes; says when fetching must stop and may go on.

Records that wait behind their tenant's share are not counted, but for their bytes: others' work stands behind them.
A stop discards what the client has fetched meanwhile, so it comes only where what waits does not soon become less, and
between stop and go lies half of the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tocsin.roles.worker.partitions import Item

PATIENCE_S: Final = 0.25
"""How long too many records may wait before fetching stops; meanwhile they become more one by one."""


class ReadAhead:
    """Counts what waits."""

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self.records = 0
        self.bytes = 0
        self.behind_share = 0
        """Records that wait only because their tenant has its share."""
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._full = False
        self._over_since_s: float | None = None

    def room(self, now_s: float) -> int:
        """Return how many more records may wait; 0: none, though a poll must go on for the group's sake."""
        left = self._records_max - self._counted
        if left > 0:
            self._over_since_s = None
            return left
        if self._over_since_s is None:
            self._over_since_s = now_s
        return 0

    @property
    def _counted(self) -> int:
        return self.records - self.behind_share

    def add(self, count: int, size: int) -> None:
        self.records += count
        self.bytes += size

    def remove(self, items: Sequence[Item]) -> None:
        self.records -= len(items)
        self.bytes -= sum([item.bytes_held for item in items])

    def is_full(self, now_s: float) -> bool:
        """Tell whether fetching must stop, or must not go on yet."""
        too_long = self._over_since_s is not None and now_s - self._over_since_s >= PATIENCE_S
        if too_long or self.bytes >= self._bytes_max:
            self._full = True
        elif self._counted <= self._records_max // 2 and self.bytes <= self._bytes_max // 2:
            self._full = False
        return self._full
