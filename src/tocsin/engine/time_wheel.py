"""Entries in memory, by second, sorted only when their second is drained, or shortly before.

A bucket that is filled unordered and sorted once costs 0.4 µs an entry at a million entries; a heap costs 11 µs.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Final

from tocsin.domain.entries import Entry
from tocsin.domain.instants import SECOND, Micros

_run_at: Final = itemgetter(0)
_firing_order: Final = itemgetter(0, 1, 2, 3)
"""The key of an entry. What follows it is not compared: a damaged row may hold anything."""


class TimeWheel:
    """Holds entries until they are due. The key removes doubles; what is no longer wanted is skipped by the caller."""

    def __init__(self) -> None:
        self._slots: dict[int, list[Entry]] = {}
        self._seconds: list[int] = []
        """A heap of the seconds that have a slot."""
        self._sorted: set[int] = set()
        """Seconds whose slot is in firing order and without doubles."""
        self._least: dict[int, Micros] = {}
        """By second, when its earliest entry is due. It is asked for in every turn, also while thousands are being
        created for one second, and sorting these each time would cost more than their creates."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, entries: Iterable[Entry]) -> None:
        """Take entries in; each may be given more than once."""
        slots, least = self._slots, self._least
        for entry in entries:
            run_at = entry.run_at
            second = run_at // SECOND
            slot = slots.get(second)
            if slot is None:
                slots[second] = [entry]
                least[second] = run_at
                heapq.heappush(self._seconds, second)
            else:
                slot.append(entry)
                if run_at < least[second]:
                    least[second] = run_at
                self._sorted.discard(second)
            self._size += 1

    def next_due(self) -> Micros | None:
        """Return when the earliest entry is due, or None when there is none."""
        return self._least[self._seconds[0]] if self._seconds else None

    def drain_second(self, upto: Micros, limit: int) -> list[Entry]:
        """Take out what is due within the first second that holds anything; otherwise as ``drain``."""
        if not self._seconds:
            return []
        return self.drain(min(upto, self._seconds[0] * SECOND + SECOND - 1), limit)

    def drain(self, upto: Micros, limit: int) -> list[Entry]:
        """Take out what is due at or before an instant.

        Args:
            upto: the instant.
            limit: about how many. Entries of one place are never parted: the cursor could not stand between them.

        Returns:
            Entries in firing order, without doubles.
        """
        drained: list[Entry] = []
        while self._seconds and self._seconds[0] <= upto // SECOND:
            second = self._seconds[0]
            if self._least[second] > upto:
                break
            slot = self._sort(second)
            end = len(slot) if slot[-1].run_at <= upto else bisect_right(slot, upto, key=_run_at)
            if end > limit - len(drained):
                end = self._whole_place(slot, max(0, limit - len(drained)), drained)
            drained += slot[:end]
            self._size -= end
            if end < len(slot):
                del slot[:end]
                self._least[second] = slot[0].run_at
                break
            heapq.heappop(self._seconds)
            del self._slots[second], self._least[second]
            self._sorted.discard(second)
        return drained

    @staticmethod
    def _whole_place(slot: list[Entry], end: int, drained: list[Entry]) -> int:
        """Return where the entries of a slot end that are taken out with those before: no place is parted."""
        last = slot[end - 1] if end else drained[-1]
        while end < len(slot) and slot[end][:3] == last[:3]:
            end += 1
        return end

    def make_ready(self, upto: Micros) -> Sequence[Entry]:
        """Sort the first second, if it begins at or before an instant: done between bursts, it delays none.

        Returns:
            What is in it, in firing order and only until the wheel is touched again; nothing where it begins later.
        """
        if self._seconds and self._seconds[0] * SECOND <= upto:
            return self._sort(self._seconds[0])
        return ()

    def _sort(self, second: int) -> list[Entry]:
        slot = self._slots[second]
        if second not in self._sorted:
            slot.sort(key=_firing_order)
            unlike = [one for one, other in pairwise(slot) if one[:4] != other[:4]]
            self._size -= len(slot) - 1 - len(unlike)
            slot[:-1] = unlike
            self._sorted.add(second)
        return slot
