"""Writing a shard's snapshots and deltas as records: chunks over as many turns as it takes, deltas in parts.

The ring of deltas must never come round to what the newest complete snapshot still needs, so a snapshot begins when
half the ring is used, and hurries as the rest runs out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tocsin.domain.errors import StateGap
from tocsin.domain.shard_records import (
    Active,
    NamedSuccessor,
    ParkedCommand,
    ShardHeader,
    StateChunk,
    StateDelta,
    Void,
    WorkItem,
)
from tocsin.engine.effects import Step
from tocsin.engine.ring import DELTA_RING, chunk_key, delta_key
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import StateCodec
from tocsin.ports.shard_log import SHARD_STATE, NewRecord

T = TypeVar("T")

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
        parked = tuple(state.parked.values())
        work = tuple(state.work.values())
        self._base = state.number
        self._slot = 1 - state.snapshot_slot
        # Bytes are counted as they are cut; this only has to be enough to set the pace. Each kind has a last chunk.
        total = sum(len(one.execution) + RECORD_OVERHEAD_BYTES for one in active)
        total += sum(len(one.value) + RECORD_OVERHEAD_BYTES for one in parked) + sum(len(one.data) for one in work)
        self._chunks_left = (total + 64 * (len(voids) + len(named))) // self._chunk_bytes + 6
        cutter = _Cutter(state.header(), state.number, self._chunk_bytes)
        self._chunks = cutter.cut(active, voids, named, parked, work)

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


class _Cutter:
    """Cuts what a state holds into chunks of about ``chunk_bytes``."""

    def __init__(self, header: ShardHeader, base: int, chunk_bytes: int) -> None:
        self._header = header
        self._base = base
        self._chunk_bytes = chunk_bytes

    def cut(
        self,
        active: Sequence[Active],
        voids: Sequence[Void],
        named: Sequence[NamedSuccessor],
        parked: Sequence[ParkedCommand],
        work: Sequence[WorkItem],
    ) -> Iterator[StateChunk]:
        base, header, index = self._base, self._header, 0
        for batch in self._batches(active, lambda one: len(one.execution)):
            yield StateChunk(base, index, header, active=batch)
            index += 1
        for held in self._batches(parked, lambda one: len(one.value)):
            yield StateChunk(base, index, header, parked=held)
            index += 1
        for items in self._batches(work, lambda one: len(one.data)):
            yield StateChunk(base, index, header, work=items)
            index += 1
        for shadows in self._batches(voids, lambda _: 256):
            yield StateChunk(base, index, header, voids=shadows)
            index += 1
        for names in self._batches(named, lambda _: 256):
            yield StateChunk(base, index, header, named=names)
            index += 1
        yield StateChunk(base, index, header, index + 1)

    def _batches(self, items: Iterable[T], size_of: Callable[[T], int]) -> Iterator[tuple[T, ...]]:
        batch: list[T] = []
        size = 0
        for one in items:
            batch.append(one)
            size += size_of(one) + RECORD_OVERHEAD_BYTES
            if size >= self._chunk_bytes:
                yield tuple(batch)
                batch, size = [], 0
        if batch:
            yield tuple(batch)


def delta_records(
    codec: StateCodec, state: ShardState, step: Step, part_bytes: int, ring: int = DELTA_RING
) -> list[NewRecord]:
    """Return a turn's delta as records, in parts of about ``part_bytes``; ``state`` is already as after the turn."""
    changed = [one for execution_id, one in step.changed.items() if execution_id in state.active]
    work = {item.id: item for item in step.work}
    size = sum(len(one) + RECORD_OVERHEAD_BYTES for one in step.ended) + 256 * (len(step.voids) + len(step.named))
    parts, size = _parts_of_dispatched(step, size, part_bytes)
    items: list[Active | ParkedCommand | WorkItem] = [*changed, *step.parked, *work.values()]
    for one in items:
        length = _length_of(one)
        size += length + RECORD_OVERHEAD_BYTES
        if size > part_bytes and parts[-1].filled:
            parts.append(_Part())
            size = length
        parts[-1].add(one)
    header = state.header()
    records = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        delta = StateDelta(
            number=state.number,
            part=number,
            parts=len(parts),
            at=step.now,
            header=header,
            dispatched=tuple(part.dispatched),
            last=part.last,
            changed=tuple(part.changed),
            parked=tuple(part.parked),
            work=tuple(part.work),
            # What ended comes last: an execution may have been dispatched and ended in one turn.
            ended=tuple(step.ended) if last else (),
            voids=tuple(step.voids) if last else (),
            named=tuple(step.named) if last else (),
            unparked=tuple(step.unparked) if last else (),
            work_done=tuple(step.work_done) if last else (),
        )
        key = delta_key(state.number, number, ring)
        records.append(NewRecord(SHARD_STATE, state.shard, key, codec.encode_delta(delta)))
    return records


@dataclass(slots=True)
class _Part:
    """One record's share of a delta."""

    dispatched: list[bytes] = field(default_factory=list)
    changed: list[Active] = field(default_factory=list)
    parked: list[ParkedCommand] = field(default_factory=list)
    work: list[WorkItem] = field(default_factory=list)
    last: int = 0
    """How many of those dispatched are the last of their jobs; they come behind all others."""
    filled: bool = False

    def add(self, one: Active | ParkedCommand | WorkItem) -> None:
        self.filled = True
        if isinstance(one, Active):
            self.changed.append(one)
        elif isinstance(one, ParkedCommand):
            self.parked.append(one)
        else:
            self.work.append(one)


def _parts_of_dispatched(step: Step, size: int, part_bytes: int) -> tuple[list[_Part], int]:
    """Return parts that hold what was dispatched, and the size of the last.

    A burst's delta is little else, so it is cut in runs.

    Args:
        step: what dispatched it.
        size: what else goes into the first part.
        part_bytes: of a part, roughly.
    """
    executions = [*step.dispatched, *step.dispatched_last]
    first_last = len(step.dispatched)
    parts: list[_Part] = []
    begin = 0

    def cut(end: int) -> None:
        last = max(0, end - max(begin, first_last))
        parts.append(_Part(executions[begin:end], last=last, filled=end > begin))

    for at, length in enumerate(map(len, executions)):
        size += length + RECORD_OVERHEAD_BYTES
        if size > part_bytes and at > begin:
            cut(at)
            begin, size = at, length
    cut(len(executions))
    return parts, size


def _length_of(one: Active | ParkedCommand | WorkItem) -> int:
    if isinstance(one, Active):
        return len(one.execution)
    return len(one.value) if isinstance(one, ParkedCommand) else len(one.data)
