"""Port: the log of dispatched executions of one lane, as a member of the lane's consumer group sees it.

One thread uses it. Assignments change only inside ``poll``, ``rejoin`` and ``close``, which call the listener; so
between two polls the owned partitions are fixed, though the group may have moved on: then a commit is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple, Protocol


class Delivery(NamedTuple):
    """A record of the lane. Offsets of a partition grow, with gaps."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Start(NamedTuple):
    """A partition that was assigned, with what its last owner committed."""

    partition: int
    offset: int | None
    """None: what was committed is lost, for a group's first commit is made with its topic; the partition is read from
    its beginning."""
    metadata: str
    end: int = 0
    """Where the offset is None: the end of the partition as it is assigned. Whatever is below may have been read by
    others, and settled."""


class Mark(NamedTuple):
    """An offset to commit: everything below it is settled."""

    partition: int
    offset: int
    metadata: str


class CommitOutcome(Enum):
    """What became of an offset commit."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """The group has moved on and nothing was written: poll, then commit what is still owned."""
    UNKNOWN = "unknown"
    """No answer: it may have been written, or may yet be, even after later commits."""


class AssignmentListener(Protocol):
    """Hears of partitions that come and go."""

    def assigned(self, starts: Sequence[Start]) -> None:
        """These are ours from now on; records follow in later polls. Called once also where there are none for us."""
        ...

    def revoked(self, partitions: Collection[int]) -> None:
        """These go when the call returns; inside it they may still be committed."""
        ...

    def lost(self, partitions: Collection[int]) -> None:
        """These are gone already; a commit would be refused."""
        ...


class DispatchLog(Protocol):
    """Membership in one lane's group."""

    def join(self, listener: AssignmentListener) -> None:
        """Enter the group; assignments come with later polls."""
        ...

    def poll(self, limit: int, wait_s: float) -> list[Delivery]:
        """Return up to ``limit`` records, waiting for the first at most ``wait_s``; must be called regularly.

        Raises:
            Unavailable: what was committed for an assigned partition could not be read.
            Refused: this process cannot be a member (a missing right, an unknown protocol, …).
        """
        ...

    def commit(self, marks: Sequence[Mark]) -> CommitOutcome:
        """Commit all marks in one request, and wait for its answer."""
        ...

    def pause(self, partitions: Collection[int]) -> None:
        """Fetch no more of these; what was fetched and not delivered is delivered after ``resume``."""
        ...

    def resume(self, partitions: Collection[int]) -> None: ...

    def rejoin(self) -> None:
        """Leave the group, which revokes everything, and enter as a new member: old commits under way are then void."""
        ...

    def close(self) -> None:
        """Revoke everything and leave the group."""
        ...
