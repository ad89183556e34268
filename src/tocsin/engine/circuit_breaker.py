"""Keeps attempts away from a target that fails all of them, and finds out when it no longer does. Pure.

======== ========================================== ==================================================
state    what may start                             what ends it
======== ========================================== ==================================================
closed   everything                                 nearly all of what ended lately has failed: open
open     nothing                                    some time: half-open
half-open one attempt, the probe                    the probe succeeds: closed; it fails: open again
======== ========================================== ==================================================

What was started before it opened says nothing any more once it is open: only a probe does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tocsin.engine.failure_window import FailureWindow


class BreakerState(StrEnum):
    """What a breaker lets through; see the module."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


_CLOSED = BreakerState.CLOSED  # by the class it is looked up slowly, and it is named for each attempt


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """When a breaker opens, and for how long.

    Attributes:
        failures_min: failures within the window, before it opens.
        failed_share: of all that ended within the window.
        window_s: how long an end counts, at least half of it.
        open_s: how long nothing starts; a probe that lasts longer is followed by another.
    """

    failures_min: int = 20
    failed_share: float = 0.9
    window_s: float = 30.0
    open_s: float = 10.0


class CircuitBreaker:
    """The breaker of one target."""

    __slots__ = ("_ends", "_limits", "_probe", "state", "try_at_s")

    def __init__(self, limits: BreakerLimits) -> None:
        self.state = BreakerState.CLOSED
        self.try_at_s = 0.0
        """When the next probe may start, where it is not closed."""
        self._limits = limits
        self._ends = FailureWindow(limits.window_s / 2)
        self._probe: object = None

    def admit(self, ref: object, now_s: float) -> bool:
        """Tell whether an attempt may start; where it is not closed, the one that may is the probe."""
        if self.state is BreakerState.CLOSED:
            return True
        if now_s < self.try_at_s:
            return False
        self.state, self._probe = BreakerState.HALF_OPEN, ref
        self.try_at_s = now_s + self._limits.open_s
        return True

    def ended(self, ref: object, failed: bool | None, now_s: float) -> None:
        """Note the end of an attempt that was let through; ``failed`` is None where it says nothing of the target."""
        if self.state is _CLOSED:
            if failed is not None:
                self._ends.note(failed, now_s)
            if failed and self._ends.passes(self._limits.failed_share, self._limits.failures_min, now_s):
                self._open(now_s + self._limits.open_s)
        elif ref is self._probe:
            if failed is False:
                self.state, self._probe = BreakerState.CLOSED, None
                self._ends.forget()
            else:
                self._open(now_s if failed is None else now_s + self._limits.open_s)

    def is_idle(self, now_s: float) -> bool:
        """Tell whether it can be forgotten without a difference."""
        return self.state is BreakerState.CLOSED and self._ends.is_empty(now_s)

    def _open(self, try_at_s: float) -> None:
        self.state, self._probe, self.try_at_s = BreakerState.OPEN, None, try_at_s
