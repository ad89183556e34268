"""How much is fetched and waits to be started, in records and bytes; says when fetching must stop and may go on.

Records that wait behind their tenant's share are not counted, but for their bytes: others' work stands behind them.
"""

from __future__ import annotations


class ReadAhead:
    """Counts what waits. Between stop and go lies half of the bound: a stop discards what was fetched meanwhile."""

    def __init__(self, records_max: int, bytes_max: int) -> None:
        self.records = 0
        self.bytes = 0
        self.behind_share = 0
        """Records that wait only because their tenant has its share."""
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._full = False

    @property
    def room(self) -> int:
        """How many records may be asked for; at least one, because a poll must go on for the group's sake."""
        return max(1, self._records_max - self._counted)

    @property
    def _counted(self) -> int:
        return self.records - self.behind_share

    def add(self, size: int) -> None:
        self.records += 1
        self.bytes += size

    def remove(self, size: int) -> None:
        self.records -= 1
        self.bytes -= size

    def is_full(self) -> bool:
        if self._counted >= self._records_max or self.bytes >= self._bytes_max:
            self._full = True
        elif self._counted <= self._records_max // 2 and self.bytes <= self._bytes_max // 2:
            self._full = False
        return self._full
