"""How many rows to ask for, so that a page has about as many bytes as it may: judged by what came before.

The protocol counts a page in rows, and a row is anything from 400 bytes to a megabyte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ROWS_FIRST: Final = 32
_FIRST_ROW_BYTES: Final = 62_500
"""What a row of a bucket not seen before is taken for, so that the first page is not far out with large ones."""
_GROWTH_MAX: Final = 4
_SURPRISE_MAX: Final = 16
"""How far beyond its bound a page may go should each of its rows be as large as the largest seen in the bucket."""


@dataclass(frozen=True, slots=True)
class PageBounds:
    """Bounds of pages.

    Attributes:
        rows_max: rows in one page.
        bytes_max: about how large a page may be.
        waiting_bytes_max: pages that nobody has collected yet, with those that are asked for.
    """

    rows_max: int = 5_000
    bytes_max: int = 2_000_000
    waiting_bytes_max: int = 16_000_000


class PageSize:
    """The size of the next page of one bucket.

    Attributes:
        rows: how many to ask for.
    """

    __slots__ = ("_bytes_max", "_largest", "_rows_max", "rows")

    def __init__(self, bounds: PageBounds) -> None:
        self._bytes_max = bounds.bytes_max
        self._rows_max = bounds.rows_max
        self._largest = 1
        self.rows = max(1, min(ROWS_FIRST, bounds.rows_max, bounds.bytes_max // _FIRST_ROW_BYTES))

    def read(self, rows: int, total_bytes: int, largest: int) -> None:
        """A page of so many rows and bytes has come, with this largest row."""
        if not rows:
            return
        self._largest = max(self._largest, largest)
        fitting = self._bytes_max * rows // max(1, total_bytes)
        safe = _SURPRISE_MAX * self._bytes_max // self._largest
        self.rows = max(1, min(fitting, safe, self.rows * _GROWTH_MAX, self._rows_max))

    def failed(self) -> None:
        """No page has come: ask for half."""
        self.rows = max(1, self.rows // 2)

    def refused(self) -> bool:
        """So large a page is refused: never ask for so many again. Return False where there is nothing to take off."""
        if self.rows == 1:
            return False
        self.rows = self._rows_max = self.rows // 2
        return True
