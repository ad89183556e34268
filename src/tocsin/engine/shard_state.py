"""All that an owner knows of its shard and must not forget: the mutable twin of what its log of states holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.domain.entries import Place
from tocsin.domain.shard_records import Active, ShardHeader, Void


@dataclass(slots=True)
class ShardState:
    """The authority on what is decided and in motion.

    Attributes:
        number: of the last delta; the next turn's is one more.
        snapshot_base: base of the newest complete snapshot, 0 where there is none.
        snapshot_slot: the slot it is in.
        active: executions dispatched and not ended, by execution id.
        voids: at most one a job, that of its newest version.
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
    snapshot_base: int = 0
    snapshot_slot: int = 1
    active: dict[str, Active] = field(default_factory=dict)
    voids: dict[str, Void] = field(default_factory=dict)

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

    def drop_passed_voids(self) -> None:
        """Forget voids whose rows can no longer be loaded: the cursor has passed the last place they can stand at."""
        passed = [job_id for job_id, void in self.voids.items() if void.until <= self.cursor]
        for job_id in passed:
            del self.voids[job_id]
