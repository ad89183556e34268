"""Dying at named points, for tests of what a crash right there leaves.

``TOCSIN_DIE_AT`` names one point; the process kills itself there, the first time that it matters. Without it the parts
are used as they are: nothing of this is in the way of anything.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any, Final

AFTER_TURN_COMMIT: Final = "after_turn_commit_before_index_writes"
AFTER_RESTORE: Final = "after_restore_before_first_turn"
AFTER_MARK: Final = "after_mark_before_start"
AFTER_REPORT: Final = "after_report_before_settle"
VARIABLE: Final = "TOCSIN_DIE_AT"


def dies_at(point: str) -> bool:
    """Tell whether this process is to die at a point."""
    return os.environ.get(VARIABLE) == point


def die() -> None:
    """End this process as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


class _Around:
    """Another object, but for what a subclass changes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class DyingStore(_Around):
    """A schedule store that is never handed the first rows: they are committed, and not in the index."""

    def begin_writes(self, shard: int, turn: int, writes: Any) -> None:
        if turn > 0 and writes.inserts:
            die()
        self._inner.begin_writes(shard, turn, writes)


class DyingShardLog(_Around):
    """A shard log whose owner dies once it has restored shards, before it has written anything."""

    def begin(self, starts: Any) -> None:
        self._inner.begin(starts)
        if starts:
            die()


class DyingDispatchLog(_Around):
    """A lane whose worker dies when a begun list is committed, and nothing on it has started."""

    def commit(self, marks: Sequence[Any]) -> Any:
        outcome = self._inner.commit(marks)
        if any(mark.metadata for mark in marks):
            die()
        return outcome


class DyingReportSink(_Around):
    """A sink whose worker dies when a report is acknowledged, and its offset is not settled."""

    def acknowledged(self, wait_s: float) -> list[Any]:
        refs: list[Any] = self._inner.acknowledged(wait_s)
        if refs:
            die()
        return refs


def with_fault(point: str, inner: Any, around: type[_Around]) -> Any:
    """Return a part as it is, or made to die at a point where the environment says so."""
    return around(inner) if dies_at(point) else inner
