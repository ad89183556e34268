"""Time limits of all tasks of one loop by one timer: most tasks end long before theirs, so a timer for each is a waste.

A limit is used as ``asyncio.timeout`` is, but in a plain ``with``, for it never waits; it does the same when it is
reached.
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Any, Final, Self

GRAIN_S: Final = 0.005
"""How late a limit may be seen at worst, beside what the loop itself is late: each look goes through all that run."""


class TimeLimits:
    """The limits that count at present.

    Args:
        loop: all tasks are of this one, and only its thread calls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now_s = loop.time
        self._counting: dict[TimeLimit, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at_s = math.inf
        """When it looks for what is over its limit; never after the earliest of them."""

    def of(self, limit_s: float) -> TimeLimit:
        """Return a limit to be entered once, by the task that it is for."""
        return TimeLimit(self, limit_s)

    def add(self, limit: TimeLimit) -> None:
        """Begin to count a limit."""
        self._counting[limit] = None
        if limit.at_s < self._looks_at_s:
            self._look_at(limit.at_s)

    def remove(self, limit: TimeLimit) -> None:
        """Count a limit no more. The timer stays: another look finds nothing, once in the time of a limit."""
        self._counting.pop(limit, None)

    def _look_at(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at_s = at_s
        self._timer = self._loop.call_at(at_s, self._look)

    def _look(self) -> None:
        now_s = self.now_s()
        self._timer, self._looks_at_s = None, math.inf
        for limit in [limit for limit in self._counting if limit.at_s <= now_s]:
            del self._counting[limit]
            limit.expire()
        if self._counting:
            self._look_at(max(now_s + GRAIN_S, min([limit.at_s for limit in self._counting])))


class TimeLimit:
    """One limit; see ``TimeLimits.of``."""

    __slots__ = ("_cancels", "_expired", "_limit_s", "_limits", "_task", "at_s")

    def __init__(self, limits: TimeLimits, limit_s: float) -> None:
        self._limits = limits
        self._limit_s = limit_s
        self._expired = False

    def begin(self, task: asyncio.Task[Any], cancels: int = 0) -> None:
        """Count from now on.

        Args:
            task: is cancelled when the limit is reached.
            cancels: how often it had been cancelled before what is limited began.
        """
        self._task = task
        self._cancels = cancels
        self.at_s = self._limits.now_s() + self._limit_s
        self._limits.add(self)

    def end(self) -> None:
        """Count no more."""
        self._limits.remove(self)

    def expired(self) -> bool:
        """Tell whether the limit was reached before its block had ended."""
        return self._expired

    def expire(self) -> None:
        """Stop the block; for ``TimeLimits``."""
        self._expired = True
        self._task.cancel()

    def take_back(self) -> bool:
        """Take back the cancel that the limit asked for, if it did; tell whether no other was asked for."""
        return self._expired and self._task.uncancel() <= self._cancels

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self.begin(task, task.cancelling())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if self.take_back() and kind is asyncio.CancelledError:
            raise TimeoutError from error
