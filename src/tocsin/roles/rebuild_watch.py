"""Following the rebuild of an index from outside: the owners' own states say how far each has come."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tocsin.domain.shard_records import REBUILD_INDEX, StateDelta


@dataclass(slots=True)
class ShardRebuild:
    """One shard's part.

    Attributes:
        at, end: offset in the jobs log, and where it ends; None before the first page is written.
        jobs: how many were written.
        damaged: snapshots that nobody can read.
        ids: of its work items.
        done, replaced: by what it came to its end; at most one is True.
    """

    at: int = 0
    end: int | None = None
    jobs: int = 0
    damaged: int = 0
    ids: set[str] = field(default_factory=set)
    done: bool = False
    replaced: bool = False


class RebuildWatch:
    """Rebuilds that were just asked for.

    Args:
        commands: the ids of the commands, by shard.
    """

    def __init__(self, commands: Mapping[int, str]) -> None:
        self._commands = commands
        self.shards = {shard: ShardRebuild() for shard in commands}

    @property
    def is_over(self) -> bool:
        return all(one.done or one.replaced for one in self.shards.values())

    @property
    def has_begun(self) -> bool:
        return any(one.ids for one in self.shards.values())

    def take(self, shard: int, delta: StateDelta) -> None:
        """A turn of a shard's owner has been committed."""
        one = self.shards.get(shard)
        if one is None or one.done or one.replaced:
            return
        for item in delta.work:
            if item.kind != REBUILD_INDEX:
                continue
            data = json.loads(item.data)
            if data["command_id"] == self._commands[shard]:
                one.ids.add(item.id)
                one.at, one.end, one.jobs, one.damaged = data["next"], data["end"], data["jobs"], data["damaged"]
        if one.ids & set(delta.work_done):
            # A page that is not the last is never the end: somebody began another rebuild in its place.
            one.done = one.end is not None and one.at >= one.end
            one.replaced = not one.done
