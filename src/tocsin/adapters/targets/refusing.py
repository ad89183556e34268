"""Stands for a kind of target that a worker is not allowed to run: each attempt fails at once, and for good."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.ports.clock import Clock
from tocsin.ports.targets import Attempt, AttemptEnd


class RefusingRunner:
    """Fulfils ``ports.targets.TargetRunner``.

    Args:
        clock: stamps ends.
        why: what is missing, and what to do.
    """

    def __init__(self, clock: Clock, why: str) -> None:
        self._clock = clock
        self._error = AttemptError("not_allowed", why)
        self._ended: deque[AttemptEnd] = deque()

    def start(self, attempts: Sequence[Attempt]) -> None:
        now = self._clock.now()
        self._ended += [AttemptEnd(one.ref, ReportKind.FAILED, now, now, self._error) for one in attempts]

    def ended(self) -> list[AttemptEnd]:
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def cancel(self, refs: Sequence[Any]) -> None:
        """Nothing runs here."""

    def close(self) -> None:
        """Nothing is open."""
