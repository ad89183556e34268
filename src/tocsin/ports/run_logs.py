"""Port: what attempts print, kept for people. Sides: who runs attempts, the store's writing, the gateway's reading.

Output is kept as far as there is room, and never at an attempt's cost: what is not kept is counted where it is missing.
A chunk is written once under a key of its own and never changed, so a repeated write changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from tocsin.domain.instants import Micros

LOST_BY_LIMIT: Final = "limit"
"""The attempt has printed more than is kept of one."""
LOST_BY_STORE: Final = "store"
"""The store was too slow, or away."""


class LogPlace(NamedTuple):
    """Whose output it is: one dispatch. A redelivered attempt has a higher token, and so a log beside the first one."""

    execution_id: str
    attempt: int
    token: int


class LogChunk(NamedTuple):
    """A piece of output; the order is that of (token, seq)."""

    token: int
    seq: int
    """Counts from 0 in each dispatch, without gaps."""
    at: Micros
    """When its first byte was printed, by the worker's clock."""
    text: str
    lost_bytes: int = 0
    """So much that was printed right before this text was not kept."""
    lost_why: str | None = None
    last: bool = False
    """The attempt has ended, and this is the end of its output. A worker that dies writes no such chunk."""


class RunLog(Protocol):
    """The output of one attempt, on the side of whoever runs it. No call waits or raises; any thread may call."""

    def write(self, data: bytes) -> None:
        """Add what was printed, of both streams as it came."""
        ...

    def end(self) -> str:
        """Say that no more comes; return the last characters of the output, for people."""
        ...


class RunLogs(Protocol):
    """Where logs are begun."""

    def open(self, place: LogPlace) -> RunLog:
        """Begin the log of a dispatch; whoever opens it must end it."""
        ...

    def close(self, wait_s: float) -> None:
        """Write what waits, for so long at most; what is left is given up."""
        ...


class RunLogStore(Protocol):
    """The store's writing side; waits for acknowledgements."""

    def write(self, logs: Sequence[tuple[LogPlace, Sequence[LogChunk]]]) -> None:
        """Write chunks of dispatches.

        Raises:
            Unavailable: the store does not answer; the same write may be tried again.
            Refused: it never will take this.
        """
        ...

    def close(self) -> None: ...


class RunLogReader(Protocol):
    """The gateway's side, asynchronous. Raises ``Unavailable`` when the store does not answer."""

    async def read_log(
        self, execution_id: str, attempt: int, after: tuple[int, int] | None, limit: int
    ) -> list[LogChunk]:
        """Return up to ``limit`` chunks of an attempt in order, those after (token, seq); None: from the beginning."""
        ...
