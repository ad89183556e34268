"""All that an owner knows of its shard and must not forget: the mutable twin of what its log of states holds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tocsin.domain.entries import Place
from tocsin.domain.shard_records import (
    MOVE_FILED,
    REBUILD_INDEX,
    Active,
    NamedSuccessor,
    ParkedCommand,
    ShardHeader,
    Void,
    WorkItem,
)


@dataclass(slots=True)
class ShardState:
    """The authority on what is decided and in motion.

    Attributes:
        number: of the last delta; the next turn's is one more.
        snapshot_base: base of the newest complete snapshot, 0 where there is none.
        snapshot_slot: the slot it is in.
        active: executions dispatched and not ended, by execution id.
        voids: at most one a job, that of its newest version.
        named: at most one a job: its next row, where a ``now`` that does not come again chose it.
        parked: commands that wait for their job's row, by offset, in log order.
        work: what takes longer than one turn, by id, in the order in which it was begun.
        Others: see ``ShardHeader``.
    """

    shard: int
    epoch: int
    shards: int
    cursor: Place
    owner: str = ""
    released: bool = False
    number: int = 0
    commands_offset: int = 0
    reports_offset: int = 0
    indexed_upto: int = 0
    successors_upto: Place = Place(0, "", 0)
    deleted_upto: int | None = None
    marked: bool = False
    snapshot_base: int = 0
    snapshot_slot: int = 1
    active: dict[str, Active] = field(default_factory=dict)
    voids: dict[str, Void] = field(default_factory=dict)
    named: dict[str, NamedSuccessor] = field(default_factory=dict)
    parked: dict[int, ParkedCommand] = field(default_factory=dict)
    work: dict[str, WorkItem] = field(default_factory=dict)

    def header(self) -> ShardHeader:
        """Return the part that is written whole with every delta and chunk."""
        return ShardHeader(
            owner=self.owner,
            released=self.released,
            epoch=self.epoch,
            shards=self.shards,
            cursor=self.cursor,
            commands_offset=self.commands_offset,
            reports_offset=self.reports_offset,
            indexed_upto=self.indexed_upto,
            successors_upto=self.successors_upto,
            deleted_upto=self.deleted_upto,
            marked=self.marked,
        )

    def adopt_header(self, header: ShardHeader) -> None:
        """Take over the values of a header that was read."""
        self.owner = header.owner
        self.released = header.released
        self.epoch = header.epoch
        self.shards = header.shards
        self.cursor = header.cursor
        self.commands_offset = header.commands_offset
        self.reports_offset = header.reports_offset
        self.indexed_upto = header.indexed_upto
        self.successors_upto = header.successors_upto
        self.deleted_upto = header.deleted_upto
        self.marked = header.marked

    def forget_passed(self) -> None:
        """Forget what nothing can ask for any more.

        A void whose rows can no longer be loaded: successors are in the store for all places up to the last at which
        one can stand, so no re-derivation reads it either; none while the index is rebuilt, for the rebuild may know no
        better than an older snapshot. A named successor that is in the store, once the cursor has
        passed every key of the ``now`` that chose it: from there on the schedule itself gives the same answer. While
        what is filed moves to other zone data, the schedule may not: all names are kept.
        """
        if not any(item.kind == REBUILD_INDEX for item in self.work.values()):
            for job_id in [job_id for job_id, void in self.voids.items() if void.until <= self.successors_upto]:
                del self.voids[job_id]
        if any(item.kind == MOVE_FILED and not json.loads(item.data)["done"] for item in self.work.values()):
            return
        for job_id in [job_id for job_id, name in self.named.items() if name.chosen_at < self.successors_upto.run_at]:
            del self.named[job_id]
