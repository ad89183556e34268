"""What an owner writes to its shard's log of states: a delta a turn, and snapshots in chunks.

Together they are the authority on everything that is decided or in motion in a shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from tocsin.domain.entries import Place
from tocsin.domain.instants import Micros

REBUILD_INDEX: Final = "rebuild_index"
"""The kind of a work item that writes the index anew from the jobs log."""
MOVE_FILED: Final = "move_filed"
"""The kind of a work item that moves what is filed after the zone data have changed."""
REPORT_MOVES: Final = "report_moves"
"""The kind of a work item that says what that has come to."""


RETRIES_PAUSE: Final = "retries_pause"
"""The kind of a work item that holds a tenant's retries back."""


class Phase(StrEnum):
    """Where an execution that has not ended stands with its owner."""

    QUEUED = "queued"
    """Dispatched; a worker has it, or will."""
    LEASED = "leased"
    """A worker's process holds it, until a deadline."""
    WAITING = "waiting"
    """Nothing is current; it is dispatched again later."""
    BEHIND = "behind"
    """It was due, and stands behind what its job or group has active; it was never dispatched, or not since it was
    redriven. They are in the state in the order in which they came."""


IDLE: Final = frozenset({Phase.WAITING, Phase.BEHIND})
"""Nothing of an execution is current in these: what is said of a dispatch of it is stale."""


class Active(NamedTuple):
    """An execution that was dispatched and has not ended."""

    execution: bytes
    """The record as it was last dispatched. Redeliveries and retries need no store."""
    published_at: Micros
    phase: str = Phase.QUEUED
    wake_at: Micros = 0
    """Of a waiting one: when it is dispatched. Of a leased one: its deadline. Of one behind: not before when."""
    next_attempt: int = 0
    """Of a waiting one, or one behind: the attempt that is dispatched next."""
    next_losses: int = 0
    """Of a waiting one: how often that attempt was lost."""
    returns: int = 0
    """How often in a row it was returned without having started."""
    holder: str | None = None
    """Of a leased one: the process that holds it."""
    started_at: Micros | None = None
    """Of a leased one: when its attempt started, by its worker's clock."""
    reaps: int = 0
    """How often a process died that ran it alone, over all attempts."""
    ends_by: Micros | None = None
    """When its longest duration has passed; of one that is being ended, when it ends whatever is reported."""
    ending: str | None = None
    """Why it is being ended; None while it is to go on."""
    last: bool = False
    """Nothing of its job's schedule comes after it: whoever ends it tells its job, in the same turn."""

    @property
    def is_made_again(self) -> bool:
        """Tell whether it waits since an attempt was lost or given back: that attempt is not over, but under way."""
        return self.phase == Phase.WAITING and (self.next_losses > 0 or self.returns > 0)

    def waiting(self, until: Micros, attempt: int, losses: int = 0, returns: int = 0) -> Active:
        """Return it as nothing of it is current, until an attempt is dispatched at an instant."""
        return Active(
            self.execution, self.published_at, Phase.WAITING, until, attempt, losses, returns,
            reaps=self.reaps, ends_by=self.ends_by, last=self.last,
        )  # fmt: skip


class NamedSuccessor(NamedTuple):
    """The next row of a job whose occurrence was late: chosen by a ``now`` that does not come again."""

    job_id: str
    version: int
    after: Micros
    """The nominal time that it follows, µs."""
    scheduled_for: Micros | None
    """None: there is none any more."""
    chosen_at: Micros
    """The ``now`` of the choice, µs."""


class Void(NamedTuple):
    """Rows of a job older than ``version`` do not count, wherever they turn up."""

    job_id: str
    version: int
    until: Place
    """The last place at which a row that it shadows can stand; past it the void is needless."""
    decided_upto: Micros = 0
    """Nominal times up to it are decided, though the cursor may not have passed them: a late run stood for them, µs."""


class ParkedCommand(NamedTuple):
    """A command that waits until the row of its job can be read."""

    offset: int
    """Of its record in the command log; what the command makes has the version of this offset."""
    timestamp: Micros
    value: bytes


class WorkItem(NamedTuple):
    """What takes longer than one turn, and how far it has come."""

    id: str
    """Unique in the shard; a later item under the same id replaces this one."""
    kind: str
    job_id: str | None
    """The job that it concerns, where it is one."""
    data: str
    """What it needs to go on, as JSON."""


class EndNote(NamedTuple):
    """A job that may be at its end, or is to be removed: the kind of command says which."""

    kind: str
    job_id: str
    version: int


@dataclass(frozen=True, slots=True)
class ShardHeader:
    """The part of a shard's state that every delta carries whole.

    Attributes:
        owner: transactional id of the owner that wrote it; a successor fences it.
        released: the owner gave the shard up in peace.
        epoch: incarnation of the topics, fixed when the shard first ran.
        shards: how many shards there are, fixed likewise.
        cursor: every row at or before it is decided.
        commands_offset: the next command to apply.
        reports_offset: the next report to apply.
        indexed_upto: offset in the jobs log below which all consequences are in the store.
        successors_upto: the successors of all rows at or before it are in the store.
        deleted_upto: the minute since the epoch before which the shard's index partitions are deleted whole; None in
            what was written before they were.
        marked: the store holds the mark that says that the shard's index was not lost.
    """

    owner: str
    released: bool
    epoch: int
    shards: int
    cursor: Place
    commands_offset: int
    reports_offset: int
    indexed_upto: int
    successors_upto: Place = Place(0, "", 0)
    deleted_upto: int | None = None
    marked: bool = False


@dataclass(frozen=True, slots=True)
class StateDelta:
    """What one turn changed; ``number`` has no gaps. A large one is written in several parts."""

    number: int
    part: int
    parts: int
    at: Micros
    header: ShardHeader
    dispatched: tuple[bytes, ...] = ()
    """Executions as dispatched in this turn; their ``published_at`` is ``at``."""
    ended: tuple[str, ...] = ()
    """Ids of executions that ended."""
    voids: tuple[Void, ...] = ()
    changed: tuple[Active, ...] = ()
    """Executions that were dispatched again, leased or set to wait."""
    named: tuple[NamedSuccessor, ...] = ()
    parked: tuple[ParkedCommand, ...] = ()
    unparked: tuple[int, ...] = ()
    """Offsets of parked commands that were decided."""
    work: tuple[WorkItem, ...] = ()
    """Work items that were begun or went on."""
    work_done: tuple[str, ...] = ()
    """Ids of work items that are done."""
    last: int = 0
    """So many of ``dispatched``, the hindmost, are the last of their jobs."""


@dataclass(frozen=True, slots=True)
class StateChunk:
    """A piece of a snapshot of the state as it was after delta ``base``.

    Only with the last chunk, which says how many there are, does the snapshot count.
    """

    base: int
    index: int
    header: ShardHeader
    count: int | None = None
    """Set in the last chunk: how many chunks there are, itself included."""
    active: tuple[Active, ...] = ()
    voids: tuple[Void, ...] = ()
    named: tuple[NamedSuccessor, ...] = ()
    parked: tuple[ParkedCommand, ...] = ()
    work: tuple[WorkItem, ...] = ()
