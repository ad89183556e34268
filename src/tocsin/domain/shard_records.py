"""What an owner writes to its shard's log of states: a delta a turn, and snapshots in chunks.

Together they are the authority on everything that is decided or in motion in a shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tocsin.domain.entries import Place
from tocsin.domain.instants import Micros


class Active(NamedTuple):
    """An execution that was dispatched and has not ended."""

    execution: bytes
    """The record as it was last dispatched. Redeliveries and retries need no store."""
    published_at: Micros


class Void(NamedTuple):
    """Rows of a job older than ``version`` do not count, wherever they turn up."""

    job_id: str
    version: int
    until: Place
    """The last place at which a row that it shadows can stand; past it the void is needless."""


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
    """

    owner: str
    released: bool
    epoch: int
    shards: int
    cursor: Place
    commands_offset: int
    reports_offset: int
    indexed_upto: int


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
