"""Port: the owner's side of the log.

One turn of all shards of a process is one transaction: what it produces, and the offsets that it applied, become
visible together or not at all. A successor reads what a transaction left through ``ports.takeover``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tocsin.domain.instants import Micros

COMMANDS = "commands"
REPORTS = "reports"
JOBS = "jobs"
OUTCOMES = "outcomes"
EVENTS = "execution-events"
SHARD_STATE = "shard-state"
DEAD_LETTERS = "dead-letters"


def executions(lane: str) -> str:
    """Return the topic of a lane."""
    return f"executions.{lane}"


class LogRecord(NamedTuple):
    """A record as it came."""

    partition: int
    offset: int
    timestamp: Micros
    """Of the record, µs (Kafka keeps milliseconds)."""
    key: bytes | None
    value: bytes | None


class NewRecord(NamedTuple):
    """A record to be produced. ``topic`` is the name without the cluster's prefix."""

    topic: str
    partition: int
    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ShardTurn:
    """What one shard contributes to a transaction.

    Attributes:
        shard: which.
        number: of the turn; the token of what it dispatches.
        records: everything to be produced, but for jobs.
        jobs: records for the jobs log; their offsets are reported back, for they are the outbox of the index.
        commands_offset: the next command to apply; committed for the group, as a check of the generation and a
            barrier for a successor.
    """

    shard: int
    number: int
    records: Sequence[NewRecord]
    jobs: Sequence[NewRecord]
    commands_offset: int


@dataclass(slots=True)
class Polled:
    """What one poll brought. ``revoked``: the group took partitions away, or the process lost them."""

    commands: list[LogRecord] = field(default_factory=list)
    reports: list[LogRecord] = field(default_factory=list)
    revoked: bool = False


class ShardLog(Protocol):
    """What the loop of an owner does with the log."""

    def poll(self, wait_s: float, commands_max: int, reports_max: int) -> Polled:
        """Return what has arrived, waiting at most ``wait_s`` for the first command."""
        ...

    def pause(self, shard: int) -> None:
        """Bring no further commands of a shard until ``resume``."""
        ...

    def resume(self, shard: int) -> None: ...

    def commit(self, turns: Sequence[ShardTurn]) -> dict[int, int]:
        """Commit one transaction.

        Returns:
            For every shard that produced jobs records, the offset after the last of them.

        Raises:
            Refused: it was not committed, or nobody knows; the process must end and a successor take over.
        """
        ...

    def trim(self, topic: str, shard: int, below: int, older_than: Micros) -> None:
        """Delete the records of ``commands`` or ``reports`` below an offset that are older than an instant."""
        ...

    def close(self, leave: bool) -> None:
        """Release everything. ``leave``: leave the group at once, so that a successor need not wait."""
        ...
