"""Counts how much of what ended lately has failed. Pure: the time is told."""

from __future__ import annotations


class FailureWindow:
    """Counts ends in two halves of a window; what is older than both is forgotten.

    Args:
        half: half of the window, in the unit of the times that are told.
    """

    __slots__ = ("_all", "_all_before", "_failed", "_failed_before", "_half", "_since")

    def __init__(self, half: float) -> None:
        self._half = half
        self._since = float("-inf")
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self._all = self._failed = self._all_before = self._failed_before = 0

    def note(self, failed: bool, now: float) -> None:
        """Count an end."""
        if now - self._since >= self._half:
            self._move_on(now)
        self._all += 1
        self._failed += failed

    def passes(self, share: float, count_min: int, now: float) -> bool:
        """Tell whether at least ``count_min`` have failed, and they are at least this share of all."""
        self._move_on(now)
        failed = self._failed + self._failed_before
        return failed >= count_min and failed >= share * (self._all + self._all_before)

    def is_empty(self, now: float) -> bool:
        """Tell whether nothing has ended lately."""
        self._move_on(now)
        return not self._all + self._all_before

    def _move_on(self, now: float) -> None:
        passed = now - self._since
        if passed < self._half:
            return
        recent = passed < 2 * self._half
        self._all_before, self._failed_before = (self._all, self._failed) if recent else (0, 0)
        self._all = self._failed = 0
        self._since = now
