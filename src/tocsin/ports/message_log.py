"""Port: the lane of message targets, where reading an execution, writing its record and reporting it are one.

A member of the lane's group reads executions and settles them in transactions: the tenants' records, the reports and
the lane's offsets become visible together, or not at all. So nothing is ever marked, and a reader of committed records
sees every message once, whatever dies.

One thread uses it. No transaction stays open between two calls, so partitions never go while one is: they come and go
only inside ``poll`` and ``close``, which call the listener. What a transaction of unknown outcome left is closed by
``fence``, also before ``close`` gives partitions up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from tocsin.domain.executions import AttemptError
from tocsin.ports.dispatch_log import AssignmentListener, Delivery


class Message(NamedTuple):
    """A record for a topic of a tenant."""

    topic: str
    """Its full name."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Report(NamedTuple):
    """An encoded ``AttemptReport``, and the job that decides its shard."""

    job_id: str
    value: bytes


class Settlement(NamedTuple):
    """What settles one record of the lane. Neither message nor report: it is only passed over."""

    partition: int
    offset: int
    message: Message | None
    report: Report | None
    metadata: str = ""
    """What is committed beside the offset after it, if that is the last of its partition."""


class TransactionOutcome(Enum):
    """What became of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    """Nothing of it is or will be visible."""
    MOVED_ON = "moved_on"
    """Nothing of it is or will be visible, because the group has moved on: poll, then settle what is still owned."""
    UNKNOWN = "unknown"
    """It may have been committed, or may yet be: ``fence`` before anything else."""


class TransactionResult(NamedTuple):
    """Outcome, and what stands in the way."""

    outcome: TransactionOutcome
    refusal: AttemptError | None = None
    """Of an aborted transaction with one settlement: why its message in particular cannot be written."""


class MessageLog(Protocol):
    """Membership in the group of the message lane, and transactions under an id of this process."""

    def join(self, listener: AssignmentListener) -> None:
        """Enter the group; assignments come with later polls. Inside the listener nothing of this log is called."""
        ...

    def poll(self, limit: int, wait_s: float) -> list[Delivery]:
        """Return up to ``limit`` records, waiting for the first at most ``wait_s``; must be called regularly.

        Raises:
            Unavailable: what was committed for an assigned partition could not be read.
            Refused: this process cannot be a member.
        """
        ...

    def pause(self, partitions: Collection[int]) -> None:
        """Fetch no more of these owned partitions; nothing is skipped by it."""
        ...

    def resume(self, partitions: Collection[int]) -> None: ...

    def examine(self, messages: Sequence[Message]) -> list[AttemptError | None]:
        """Tell what forbids each message, before it enters a transaction; None where nothing is known to.

        What is known of a topic may be as old as a bound of the log; after a transaction that failed it is asked anew.
        Classes: ``reserved_topic``, ``topic_missing``, ``not_authorized``, ``too_large``, ``invalid_record`` (no key
        for a topic that needs one), and ``topic_unavailable``, which alone may pass.

        Raises:
            Unavailable: the brokers do not answer.
        """
        ...

    def transact(self, settlements: Sequence[Settlement]) -> TransactionResult:
        """Commit messages, reports and the offsets after the settled records in one transaction.

        Args:
            settlements: of owned partitions, which nobody checks; of each, all records that are not settled yet up to
                some offset.
        """
        ...

    def fence(self, partitions: Collection[int]) -> Mapping[int, int | None]:
        """End whatever transaction of this log is under way, for good. Needed before the first transaction too.

        Returns:
            For every given partition the offset below which everything is settled; None where nothing ever was.

        Raises:
            Unavailable: not done yet; call it again.
            Refused: this process may not write in transactions.
        """
        ...

    def close(self) -> None:
        """Give the partitions up and leave the group."""
        ...
