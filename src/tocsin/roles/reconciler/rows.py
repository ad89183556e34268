"""Which rows of a closed minute must stand in history, by the state of their shard. Pure."""

from __future__ import annotations

from enum import Enum, auto

from tocsin.domain.entries import Entry
from tocsin.domain.errors import Undecodable
from tocsin.domain.shard_records import Phase
from tocsin.domain.timers import is_timer
from tocsin.engine.held import HeldEntries
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import RecordCodec


class Standing(Enum):
    """What is known of a row without looking into history."""

    EXPECTED = auto()
    IN_MOTION = auto()
    """Its time line has passed it, and what becomes of it is not decided, or not published yet."""
    UNREADABLE = auto()
    """No owner could fire it; it became a dead letter."""
    TIMER = auto()
    """No occurrence, but something that its owner does at a time."""


class Expectation:
    """What one state says of the rows at or before its cursor."""

    def __init__(self, state: ShardState, codec: RecordCodec) -> None:
        self._held = HeldEntries(state)
        self._at_work = {item.job_id for item in state.work.values() if item.job_id is not None}
        self._unsent = {name for name, one in state.active.items() if one.phase == Phase.WAITING}
        self._codec = codec

    def of(self, row: Entry) -> Standing:
        """Judge a row."""
        if is_timer(row):
            return Standing.TIMER
        try:
            if self._codec.decode_head(row.execution).execution_id != row.execution_id:
                return Standing.UNREADABLE
        except Undecodable:
            return Standing.UNREADABLE
        # What waits for its first dispatch, for its lane is missing, is known to nobody but its owner.
        waits = row.job_id in self._at_work or self._held.has(row.job_id) or row.execution_id in self._unsent
        return Standing.IN_MOTION if waits else Standing.EXPECTED
