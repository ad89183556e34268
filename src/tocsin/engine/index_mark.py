"""Knowing that the index was lost: a shard's mark stands among its rows, and goes when they go.

An empty minute says "nothing was due" only where the mark is still there. Without it the cursor waits before that
minute, as for one that cannot be read, until a rebuild has written the rows anew, and the mark last.
"""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.domain.instants import Micros
from tocsin.engine.horizon import Horizon
from tocsin.engine.shard_state import ShardState
from tocsin.ports.schedule_store import BucketPage


class IndexMark:
    """The mark of one shard."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._is_written = state.marked
        self._begun_without: set[int] = set()
        """Minutes whose reads began before the mark was known to be there; its absence says nothing there."""
        self.is_lost = False

    def is_due(self) -> bool:
        """Tell, once, that the mark is to be written: the shard is new, or was never marked."""
        due, self._is_written = not self._is_written, True
        return due

    def reads_begin(self, minutes: Iterable[int]) -> None:
        """Reads of minutes begin now."""
        if not self._state.marked:
            self._begun_without.update(minutes)

    def page_read(self, page: BucketPage, horizon: Horizon, now: Micros) -> None:
        """A page was read: a minute is known once it is read whole, from an index that still has its mark."""
        if not page.last:
            return
        if self._is_missing(page):
            horizon.unknown(page.minute, now)
        else:
            horizon.loaded(page.minute)

    def _is_missing(self, page: BucketPage) -> bool:
        """Tell, of a minute's last page, whether the mark should have been seen and was not."""
        unsure = page.minute in self._begun_without
        self._begun_without.discard(page.minute)
        self.is_lost = self._state.marked and not unsure and not page.marked
        return self.is_lost
