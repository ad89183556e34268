"""Dying or standing still at named points, for tests of what a crash or a long pause right there leaves.

``TOCSIN_DIE_AT`` names one point, and the process kills itself there; ``TOCSIN_STOP_AT`` names one, and the process
stops itself there as SIGSTOP does, until somebody continues it. Each acts the first time that it matters, and once.
Without them the parts are used as they are: nothing of this is in the way of anything.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any, Final

BEFORE_TURN_COMMIT: Final = "before_turn_commit"
IN_OPEN_TRANSACTION: Final = "in_open_transaction"
AFTER_TURN_COMMIT: Final = "after_turn_commit_before_index_writes"
AFTER_RESTORE: Final = "after_restore_before_first_turn"
AFTER_MARK: Final = "after_mark_before_start"
AFTER_REPORT: Final = "after_report_before_settle"
DIE_VARIABLE: Final = "TOCSIN_DIE_AT"
STOP_VARIABLE: Final = "TOCSIN_STOP_AT"

_stopped: set[str] = set()
"""Points where this process stood still already: once is enough, or a zombie could never prove itself."""


def acts_at(point: str) -> bool:
    """Tell whether this process is to die or to stop at a point."""
    return point in (os.environ.get(DIE_VARIABLE), os.environ.get(STOP_VARIABLE))


def act(point: str) -> None:
    """End this process as kill -9 does, or stop it, the first time, as kill -STOP does."""
    if os.environ.get(DIE_VARIABLE) == point:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get(STOP_VARIABLE) == point and point not in _stopped:
        _stopped.add(point)
        os.kill(os.getpid(), signal.SIGSTOP)


class _Around:
    """Another object, but for what a subclass changes."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class FaultyStore(_Around):
    """A schedule store that is not handed the first rows: they are committed, and not in the index."""

    def begin_writes(self, shard: int, turn: int, writes: Any) -> None:
        if turn > 0 and writes.inserts:
            act(AFTER_TURN_COMMIT)
        self._inner.begin_writes(shard, turn, writes)


class FaultyRestore(_Around):
    """A shard log whose owner acts once it has restored shards, before it has written anything."""

    def begin(self, starts: Any) -> None:
        self._inner.begin(starts)
        if starts:
            act(AFTER_RESTORE)


class FaultyCommit(_Around):
    """A shard log whose owner acts when a turn with dispatches is decided, and nothing of it is written."""

    def send_ahead(self, turn: Any) -> None:
        """Leave it to the commit."""

    def commit(self, turns: Sequence[Any]) -> Any:
        if _dispatches(turns):
            act(BEFORE_TURN_COMMIT)
        return self._inner.commit(turns)


class FaultyTransaction(_Around):
    """A shard log whose owner acts when a turn's dispatches lie in an open transaction, before the offsets do."""

    def commit(self, turns: Sequence[Any]) -> Any:
        if _dispatches(turns) and not isinstance(self._inner._producer, _FaultyProducer):
            self._inner._producer = _FaultyProducer(self._inner._producer)
        return self._inner.commit(turns)


class _FaultyProducer(_Around):
    def send_offsets_to_transaction(self, *arguments: Any) -> Any:
        act(IN_OPEN_TRANSACTION)
        return self._inner.send_offsets_to_transaction(*arguments)


def _dispatches(turns: Sequence[Any]) -> bool:
    return any(record.topic.startswith("executions") for turn in turns for record in turn.records)


class FaultyDispatchLog(_Around):
    """A lane whose worker acts when a begun list is committed, and nothing on it has started."""

    def commit(self, marks: Sequence[Any]) -> Any:
        outcome = self._inner.commit(marks)
        if any(mark.metadata for mark in marks):
            act(AFTER_MARK)
        return outcome


class FaultyReportSink(_Around):
    """A sink whose worker acts when a report is acknowledged, and its offset is not settled."""

    def acknowledged(self, wait_s: float) -> list[Any]:
        refs: list[Any] = self._inner.acknowledged(wait_s)
        if refs:
            act(AFTER_REPORT)
        return refs


def with_fault(point: str, inner: Any, around: type[_Around]) -> Any:
    """Return a part as it is, or made to act at a point where the environment says so."""
    return around(inner) if acts_at(point) else inner
