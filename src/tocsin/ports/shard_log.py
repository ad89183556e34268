"""Port: the owner's side of the log.

One turn of all shards of a process is one transaction: what it produces, and the offsets that it applied, become
visible together or not at all. A successor reads what a transaction left through ``ports.takeover``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
WORKER_CONTROL = "worker-control"
ALERTS = "alerts"


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
    """A record to be produced. ``topic`` is the name without the cluster's prefix.

    ``timestamp`` None: that of its production, else µs.
    """

    topic: str
    partition: int
    key: str
    value: bytes | None
    timestamp: Micros | None = None


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
    """What one poll brought.

    Attributes:
        commands, reports: in log order within a shard.
        reports_seen: by shard, an offset below which no report is left to read; where that is known.
        assigned: shards that came to this process; nothing of them is read before ``begin``.
        lost: shards that the group has taken away without asking.
    """

    commands: list[LogRecord] = field(default_factory=list)
    reports: list[LogRecord] = field(default_factory=list)
    reports_seen: dict[int, int] = field(default_factory=dict)
    assigned: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)


class ShardLog(Protocol):
    """What the loop of an owner does with the log."""

    def join(self, on_revoke: Callable[[set[int]], None]) -> None:
        """Join the group of triggers.

        Args:
            on_revoke: called from within ``poll`` when shards are to be given up; they may still be committed in it.
        """
        ...

    def leave(self) -> None:
        """Leave the group, giving all shards up in peace; ``join`` comes back."""
        ...

    def begin(self, starts: Mapping[int, tuple[int, int]]) -> None:
        """Read commands and reports of assigned shards from these offsets on."""
        ...

    def renew(self, transactional_id: str) -> None:
        """Commit under another transactional id from now on.

        Raises:
            Unavailable: the brokers did not answer.
        """
        ...

    def reports_end(self, shard: int) -> int:
        """Return the end of a shard's reports as an uncommitted reader sees it."""
        ...

    def poll(self, wait_s: float, commands_max: int, reports_max: int) -> Polled:
        """Return what has arrived, waiting at most ``wait_s`` for the first command."""
        ...

    def pause(self, shard: int) -> None:
        """Bring no further commands of a shard until ``resume``."""
        ...

    def resume(self, shard: int) -> None: ...

    def send_ahead(self, turn: ShardTurn) -> None:
        """Begin to send a turn that the next ``commit`` will name, with its very records: so they travel while others
        are still being decided. What goes wrong with it is raised by that commit; one that does not name it drops it.
        """
        ...

    def commit(self, turns: Sequence[ShardTurn]) -> dict[int, int]:
        """Commit one transaction.

        Returns:
            For every shard that produced jobs records, the offset after the last of them.

        Raises:
            TurnAborted: it was certainly not committed, and may be sent again for shards that are still owned.
            RecordRefused: it was certainly not committed, for a record that the log will never take.
            TopicsMissing: it was not committed; topics that it writes to are not there.
            OwnershipLost: a successor has fenced this owner, or nobody knows.
        """
        ...

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return how many partitions topics have; one that is missing is not in it.

        Raises:
            Unavailable: the brokers did not answer.
        """
        ...

    def trim(self, topic: str, shard: int, below: int, older_than: Micros) -> None:
        """Delete the records of ``commands`` or ``reports`` below an offset that are older than an instant."""
        ...

    def close(self, leave: bool) -> None:
        """Release everything. ``leave``: leave the group at once, so that a successor need not wait."""
        ...
