"""Targets that end when they are told to. Fulfils ``ports.targets``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocsin.domain.executions import AttemptError, ReportKind, Started
from tocsin.ports.clock import Clock
from tocsin.ports.targets import Attempt, AttemptEnd


class MemoryTargetRunner:
    """Fulfils ``ports.targets.TargetRunner``.

    Attributes:
        started: every attempt that was ever started.
        running: those that have not ended.
        instant: attempts succeed at once.
        stubborn: attempts ignore being cancelled.
    """

    def __init__(self, clock: Clock, *, instant: bool = False) -> None:
        self.started: list[Attempt] = []
        self.running: list[Attempt] = []
        self.instant = instant
        self.stubborn = False
        self._clock = clock
        self._ended: list[AttemptEnd] = []

    def start(self, attempts: Sequence[Attempt]) -> None:
        self.started += attempts
        self.running += attempts
        if self.instant:
            self.finish(*attempts)

    def finish(
        self,
        *attempts: Attempt,
        kind: ReportKind = ReportKind.SUCCEEDED,
        error: AttemptError | None = None,
        started: Started = Started.MAYBE,
    ) -> None:
        """End these attempts."""
        now = self._clock.now()
        for attempt in attempts:
            self.running.remove(attempt)
            self._ended.append(AttemptEnd(attempt.ref, kind, now, now, error, started=started))

    def finish_all(self) -> None:
        self.finish(*self.running)

    def ended(self) -> list[AttemptEnd]:
        ended, self._ended = self._ended, []
        return ended

    def cancel(self, refs: Sequence[Any]) -> None:
        if not self.stubborn:
            wanted = {id(ref) for ref in refs}
            self.finish(*(a for a in self.running if id(a.ref) in wanted), kind=ReportKind.CANCELLED)

    def close(self) -> None:
        self.running.clear()
