"""Port: what a new owner reads before it may decide anything.

The order in which these are called is the rule; see ``roles.trigger.takeover``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class JobsTail(NamedTuple):
    """The jobs log of a shard from an offset on. Values None are tombstones."""

    records: Sequence[tuple[str, bytes | None]]
    end: int


class Takeover(Protocol):
    """Reads a predecessor's legacy. Every call blocks until it has its answer, or raises ``Unavailable``."""

    def fence(self, owner: str) -> None:
        """Make sure that the holder of a transactional id can commit nothing more; its open transaction is aborted."""
        ...

    def wait_for_offsets(self, shards: Sequence[int]) -> None:
        """Return when no transaction that carries offsets of these shards is pending.

        A timeout of the question is not an answer: it is asked again, for a bounded time. The states, read to their
        true end afterwards, hold the authority; this only keeps a successor from overtaking its predecessor.
        """
        ...

    def read_states(self, shards: Sequence[int], *, stable: bool = False) -> dict[int, dict[str, bytes]]:
        """Return the latest committed value of every key of the shards' logs of states.

        The end is that of a read_uncommitted client at the time of the call: a read_committed one would hide an
        open transaction, and everything behind it. A shard whose end stays hidden is left out, and keeps no other
        waiting; see ``hidden``.

        Args:
            shards: whose.
            stable: only up to the first open transaction, which always answers at once.
        """
        ...

    def read_jobs(self, starts: Mapping[int, int]) -> dict[int, JobsTail]:
        """Return the committed records of the shards' jobs logs, each from an offset to its true end.

        A shard whose end stays hidden is left out.
        """
        ...

    def hidden(self, shards: Sequence[int]) -> set[int]:
        """Return those of the shards whose log of states or of jobs ends in an open transaction, without waiting."""
        ...

    def has_run(self, shard: int) -> bool:
        """Tell whether the shard ever had an owner: commands were deleted, or an owner committed offsets or jobs."""
        ...
