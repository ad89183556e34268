"""Port: what runs attempts. It works on its own threads; its callers never wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tocsin.domain.executions import AttemptError, Execution, ReportKind, Started
from tocsin.domain.instants import Micros


class Attempt(NamedTuple):
    """One attempt to run."""

    ref: Any
    """What its ``AttemptEnd`` will carry; not looked at."""
    execution: Execution
    redelivered: bool
    """It may have run before."""


class AttemptEnd(NamedTuple):
    """How an attempt ended.

    ``CANCELLED`` only after ``cancel``; ``ACCEPTED``: here, but its target goes on; ``RETURNED``: it is given back for
    the reason that ``error.error_class`` names, and ``started`` says whether it may have reached its target.
    """

    ref: Any
    kind: ReportKind
    started_at: Micros
    finished_at: Micros
    error: AttemptError | None = None
    result: str | None = None
    started: Started = Started.MAYBE
    """Only of RETURNED."""


class RunnerSpec(NamedTuple):
    """How a process of its own makes the runner that this process has: for attempts that are run alone.

    The child imports ``factory`` and calls it once with ``argument``; what that returns is a ``TargetRunner``, which is
    given one attempt, asked for its end, and closed. It must be able to run whatever the parent's runner can. Importing
    and calling it happens before the attempt counts as begun, so it should do nothing that the attempt is to blame for.
    """

    factory: str
    """``package.module:function``, importable with the parent's ``sys.path``."""
    argument: Any
    """Picklable; sent over a pipe, so secrets in it are seen by nobody else."""


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
