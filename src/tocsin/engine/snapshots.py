"""Writing a shard's snapshots and deltas as records: chunks over as many turns as it takes, deltas in parts.

The ring of deltas must never come round to what the newest complete snapshot still needs, so a snapshot begins when
half the ring is used, and hurries as the rest runs out.
"""

from __future__ import annotations

from collections.abc import Iterator

from tocsin.domain.errors import StateGap
from tocsin.domain.shard_records import Active, NamedSuccessor, StateChunk, StateDelta, Void
from tocsin.engine.effects import Step
from tocsin.engine.ring import DELTA_RING, chunk_key, delta_key
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import StateCodec
from tocsin.ports.shard_log import SHARD_STATE, NewRecord

RECORD_OVERHEAD_BYTES = 16
"""What an item adds to a record beyond its own bytes, roughly."""


class SnapshotWriter:
    """Turns a state, frozen at a delta, into chunks, a few with each turn."""

    def __init__(self, codec: StateCodec, chunk_bytes: int, ring: int = DELTA_RING) -> None:
        self._codec = codec
        self._chunk_bytes = chunk_bytes
        self._ring = ring
        self._chunks: Iterator[StateChunk] | None = None
        self._base = 0
        self._slot = 0
        self._chunks_left = 0

    @property
    def busy(self) -> bool:
        """A snapshot is being written."""
        return self._chunks is not None

    def due(self, state: ShardState) -> bool:
        """Tell whether half the ring is used since the newest complete snapshot."""
        return not self.busy and state.number - state.snapshot_base >= self._ring // 2

    def check_room(self, state: ShardState) -> None:
        """Make sure that the turn at hand overwrites no delta that the newest complete snapshot still needs.

        Raises:
            StateGap: it would; the shard must not go on.
        """
        if state.number - state.snapshot_base > self._ring:
            raise StateGap(state.shard, "its ring of deltas is full before a snapshot was complete")

    def begin(self, state: ShardState) -> None:
        """Freeze the state as it is after its last delta."""
        active = list(state.active.values())
        voids = tuple(state.voids.values())
        named = tuple(state.named.values())
        self._base = state.number
        self._slot = 1 - state.snapshot_slot
        # Bytes are counted as they are cut; this only has to be enough to set the pace.
        total = sum(len(one.execution) + RECORD_OVERHEAD_BYTES for one in active)
        self._chunks_left = (total + 64 * (len(voids) + len(named))) // self._chunk_bytes + 2
        self._chunks = self._cut(state, active, voids, named)

    def next_records(self, state: ShardState) -> list[NewRecord]:
        """Return the chunks to write with this turn; with the last, the state's newest snapshot is this one."""
        records: list[NewRecord] = []
        # By the complete snapshot, not by our own base: owners that die in mid-snapshot leave ever less of the ring.
        turns_left = max(1, state.snapshot_base + 3 * self._ring // 4 - state.number)
        for _ in range(-(-self._chunks_left // turns_left) or 1):
            chunk = next(self._chunks) if self._chunks else None
            if chunk is None:
                break
            self._chunks_left = max(0, self._chunks_left - 1)
            key = chunk_key(self._slot, chunk.index)
            records.append(NewRecord(SHARD_STATE, state.shard, key, self._codec.encode_chunk(chunk)))
            if chunk.count is not None:
                state.snapshot_base, state.snapshot_slot = self._base, self._slot
                self._chunks = None
        return records

    def _cut(
        self, state: ShardState, active: list[Active], voids: tuple[Void, ...], named: tuple[NamedSuccessor, ...]
    ) -> Iterator[StateChunk]:
        base, header, index = self._base, state.header(), 0
        batch: list[Active] = []
        size = 0
        for one in active:
            batch.append(one)
            size += len(one.execution) + RECORD_OVERHEAD_BYTES
            if size >= self._chunk_bytes:
                yield StateChunk(base, index, header, active=tuple(batch))
                batch, size, index = [], 0, index + 1
        voids_per_chunk = max(1, self._chunk_bytes // 256)
        while len(voids) > voids_per_chunk:
            yield StateChunk(base, index, header, voids=voids[:voids_per_chunk])
            voids, index = voids[voids_per_chunk:], index + 1
        while len(named) > voids_per_chunk:
            yield StateChunk(base, index, header, named=named[:voids_per_chunk])
            named, index = named[voids_per_chunk:], index + 1
        yield StateChunk(base, index, header, index + 1, tuple(batch), voids, named)


def delta_records(
    codec: StateCodec, state: ShardState, step: Step, part_bytes: int, ring: int = DELTA_RING
) -> list[NewRecord]:
    """Return a turn's delta as records, in parts of about ``part_bytes``; ``state`` is already as after the turn."""
    changed = [one for execution_id, one in step.changed.items() if execution_id in state.active]
    cuts: list[tuple[list[bytes], list[Active]]] = [([], [])]
    size = sum(len(one) + RECORD_OVERHEAD_BYTES for one in step.ended) + 256 * (len(step.voids) + len(step.named))
    items: list[bytes | Active] = [*step.dispatched, *changed]
    for one in items:
        value = one.execution if isinstance(one, Active) else one
        size += len(value) + RECORD_OVERHEAD_BYTES
        if size > part_bytes and any(cuts[-1]):
            cuts.append(([], []))
            size = len(value)
        if isinstance(one, Active):
            cuts[-1][1].append(one)
        else:
            cuts[-1][0].append(one)
    header = state.header()
    records = []
    for part, (dispatched, again) in enumerate(cuts):
        rest: tuple[tuple[str, ...], tuple[Void, ...], tuple[NamedSuccessor, ...]] = ((), (), ())
        if part == len(cuts) - 1:
            # What ended comes last: an execution may have been dispatched and ended in one turn.
            rest = (tuple(step.ended), tuple(step.voids), tuple(step.named))
        ended, voids, named = rest
        delta = StateDelta(
            state.number, part, len(cuts), step.now, header, tuple(dispatched), ended, voids, tuple(again), named
        )
        key = delta_key(state.number, part, ring)
        records.append(NewRecord(SHARD_STATE, state.shard, key, codec.encode_delta(delta)))
    return records
