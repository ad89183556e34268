"""Following a change of the zone data from outside: the owners' own states say how far each has come, and who moves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tocsin.domain.commands import CommandKind
from tocsin.domain.instants import Micros
from tocsin.domain.shard_records import REPORT_MOVES, StateDelta
from tocsin.engine.own_commands import OWN, OwnNote

MOVES_MAX: Final = 100_000
"""So many moved jobs are remembered; all are counted."""


class Move(NamedTuple):
    """A job whose next occurrence moves, µs."""

    job_id: str
    was: Micros
    becomes: Micros


@dataclass(slots=True)
class ShardMoves:
    """One shard's part.

    Attributes:
        begun: its owner has the new data, and has agreed.
        done: everything is where it belongs.
        former: the release before; None where none was known, or nothing changes.
        looked, moved: jobs.
        damaged: snapshots that nobody can read.
    """

    begun: bool = False
    done: bool = False
    former: str | None = None
    looked: int = 0
    moved: int = 0
    damaged: int = 0


class ZoneMoves:
    """A change that was just asked for.

    Args:
        commands: the ids of the commands, by shard.
    """

    def __init__(self, commands: Mapping[int, str]) -> None:
        self._commands = commands
        self.shards = {shard: ShardMoves() for shard in commands}
        self.moves: list[Move] = []

    @property
    def is_over(self) -> bool:
        return all(one.done for one in self.shards.values())

    def take(self, shard: int, delta: StateDelta) -> bool:
        """A turn of a shard's owner has been committed; tell whether it got further with this."""
        one, further = self.shards.get(shard), False
        if one is None:
            return False
        for item in delta.work:
            if item.kind == OWN:
                note = OwnNote(*json.loads(item.data))
                if note.kind == CommandKind.MOVE and note.moves is not None and len(self.moves) < MOVES_MAX:
                    self.moves.append(Move(note.job_id, *note.moves))
                    further = True
            elif item.kind == REPORT_MOVES:
                data = json.loads(item.data)
                if data["command_id"] == self._commands[shard]:
                    further = True
                    one.begun, one.done, one.former = True, data["done"], data.get("from")
                    one.looked, one.moved = data.get("looked", 0), data.get("moved", 0)
                    one.damaged = data.get("damaged", 0)
        return further
