"""Port: the way from a gateway to the owners of jobs, and back: commands go out, outcomes come in.

All methods are called on one event loop, and everything handed back arrives on it. Values are bytes; their meaning
is the codec's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol


class Delivery(StrEnum):
    """What is known of a command that was sent."""

    LOGGED = "logged"
    """It is in the log and will be decided."""
    UNKNOWN = "unknown"
    """It may be in the log or not, and will not be sent again: the acknowledgement did not come."""


class OutcomeSeen(NamedTuple):
    """A record of the outcomes log."""

    command_id: str
    outcome: bytes


Learn = Callable[[Sequence[OutcomeSeen]], None]


class CommandBus(Protocol):
    """Sends commands, and hears every outcome that is kept."""

    async def start(self, learn: Learn) -> None:
        """Begin to connect, and return at once.

        Args:
            learn: called on this event loop with every outcome that the log keeps, then with new ones as they
                come; in order within a partition, some possibly twice.
        """
        ...

    def missing(self) -> Sequence[str]:
        """Return what is not there yet, a sentence for an operator each. Empty: commands can be sent and answered."""
        ...

    def send(self, command_id: str, job_id: str, command: bytes) -> Awaitable[Delivery]:
        """Hand a command to the log; it goes to the partition of the job's shard.

        Returns:
            What to await, for a bounded time. It fails with ``Unavailable`` only if the command is certainly not in
            the log, so that sending it again is safe. The command is on its way whether or not this is awaited.

        Raises:
            Unavailable: likewise, at once: the log is known not to be reachable, or too much waits to be sent.
            InvalidInput: the command is larger than the log takes.
        """
        ...

    def routes(self) -> Sequence[str]:
        """Return for each shard what to give ``send`` for a job, for a command that concerns the whole shard.

        Raises:
            Unavailable: how many shards there are is not known yet.
        """
        ...

    def report(self, job_id: str, report: bytes) -> Awaitable[Delivery]:
        """Hand a target's report in; it goes to the job's shard.

        Returns:
            As ``send`` does; a report that may be in the log twice counts once.

        Raises:
            Unavailable: as ``send`` does.
        """
        ...

    async def close(self) -> None:
        """Send what waits, for a bounded time, and let go of the log."""
        ...
