"""Port: what owners tell workers not to start any more. One latest cancel an execution, kept longer than executions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tocsin.domain.fleet import Cancel


class CancelLog(Protocol):
    """The cancels that are kept, and those that come."""

    def load(self) -> Sequence[Cancel]:
        """Return all that is committed by now; called once, before the first start. Blocks.

        Raises:
            Unavailable: they cannot be read to their end.
        """
        ...

    def poll(self, limit: int) -> Sequence[Cancel]:
        """Return up to ``limit`` that have come since, in order; never waits."""
        ...

    def close(self) -> None: ...
