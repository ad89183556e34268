"""Port: what runs attempts. It works on its own threads; its callers never wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tocsin.domain.executions import AttemptError, Execution, ReportKind
from tocsin.domain.instants import Micros


class Attempt(NamedTuple):
    """One attempt to run."""

    ref: Any
    """What its ``AttemptEnd`` will carry; not looked at."""
    execution: Execution
    redelivered: bool
    """It may have run before."""


class AttemptEnd(NamedTuple):
    """How an attempt ended. ``CANCELLED`` only after ``cancel``; ``ACCEPTED``: here, but its target goes on."""

    ref: Any
    kind: ReportKind
    started_at: Micros
    finished_at: Micros
    error: AttemptError | None = None
    result: str | None = None


class TargetRunner(Protocol):
    """Runs attempts side by side; how many is the caller's business."""

    def start(self, attempts: Sequence[Attempt]) -> None:
        """Begin attempts; each ends once, at the latest at its target's own limit where it can be stopped at all."""
        ...

    def ended(self) -> list[AttemptEnd]:
        """Return what has ended since the last call; never waits."""
        ...

    def cancel(self, refs: Sequence[Any]) -> None:
        """Ask attempts to stop; those that do end as ``CANCELLED``. Refs that have ended are ignored."""
        ...

    def close(self) -> None:
        """Cancel what runs, and release threads and connections."""
        ...
