"""Reading a shard's state back from its log: the newest complete snapshot, and every delta after it.

A hole is an error, never a guess: a shard that started with less than it had would repeat or lose jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tocsin.domain.errors import StateGap
from tocsin.domain.shard_records import Active, NamedSuccessor, StateChunk, StateDelta, Void
from tocsin.engine.ring import is_chunk_key, is_delta_key
from tocsin.engine.shard_state import ShardState
from tocsin.ports.codec import ExecutionCodec, StateCodec


class RestoreCodec(StateCodec, ExecutionCodec, Protocol):
    """What restoring decodes."""


def restore(shard: int, records: Mapping[str, bytes], codec: RestoreCodec) -> ShardState | None:
    """Restore a shard's state.

    Args:
        shard: which.
        records: the latest value of every key of its log of states.
        codec: decodes them.

    Returns:
        The state, or None where the log is empty: the shard never ran.

    Raises:
        StateGap: a delta is missing.
        Undecodable: a record is damaged.
    """
    if not records:
        return None
    chunks = [codec.decode_chunk(value) for key, value in records.items() if is_chunk_key(key)]
    slots = {
        id(chunk): int(key.split("/")[1]) for key, chunk in zip(filter(is_chunk_key, records), chunks, strict=True)
    }
    snapshot = _newest_complete(chunks)
    base = snapshot[0].base if snapshot else 0
    deltas = _deltas_after(shard, base, [codec.decode_delta(v) for k, v in records.items() if is_delta_key(k)])
    if not snapshot and not deltas:
        raise StateGap(shard, "its log of states holds neither a complete snapshot nor a delta")
    header = deltas[-1].header if deltas else snapshot[-1].header
    state = ShardState(shard, header.epoch, header.shards, header.cursor)
    for chunk in snapshot:
        _take_in(state, codec, chunk.active, chunk.voids, chunk.named)
        state.parked.update((command.offset, command) for command in chunk.parked)
        state.work.update((item.id, item) for item in chunk.work)
    for delta in deltas:
        first_last = len(delta.dispatched) - delta.last
        dispatched = [
            Active(execution, delta.at, last=place >= first_last) for place, execution in enumerate(delta.dispatched)
        ]
        _take_in(state, codec, [*dispatched, *delta.changed], delta.voids, delta.named)
        for execution_id in delta.ended:
            state.active.pop(execution_id, None)
        _go_on(state, delta)
    state.adopt_header(header)
    state.number = deltas[-1].number if deltas else base
    if snapshot:
        state.snapshot_base = base
        state.snapshot_slot = slots[id(snapshot[0])]
    state.forget_passed()
    return state


def _take_in(
    state: ShardState,
    codec: RestoreCodec,
    active: Sequence[Active],
    voids: Sequence[Void],
    named: Sequence[NamedSuccessor],
) -> None:
    for one in active:
        state.active[codec.decode_head(one.execution).execution_id] = one
    for void in voids:
        state.voids[void.job_id] = void
        name = state.named.get(void.job_id)
        if name is not None and name.version < void.version:
            del state.named[void.job_id]
    for name in named:
        state.named[name.job_id] = name


def _go_on(state: ShardState, delta: StateDelta) -> None:
    """Follow what waits or takes long: what a turn began, and what it ended."""
    state.parked.update((command.offset, command) for command in delta.parked)
    for offset in delta.unparked:
        state.parked.pop(offset, None)
    state.work.update((item.id, item) for item in delta.work)
    for work_id in delta.work_done:
        state.work.pop(work_id, None)


def _newest_complete(chunks: list[StateChunk]) -> list[StateChunk]:
    """Return the chunks of the newest snapshot whose last chunk is there; an older lap's leftovers do not count."""
    best: list[StateChunk] = []
    for last in chunks:
        if last.count is None or (best and best[0].base >= last.base):
            continue
        own = {chunk.index: chunk for chunk in chunks if chunk.base == last.base}
        if all(index in own for index in range(last.count)):
            best = [own[index] for index in range(last.count)]
    return best


def _deltas_after(shard: int, base: int, deltas: list[StateDelta]) -> list[StateDelta]:
    """Return the deltas after ``base`` in order, parts joined into place; none may be missing."""
    wanted = sorted((delta for delta in deltas if delta.number > base), key=lambda delta: (delta.number, delta.part))
    number, part, parts = base, 0, 0
    for delta in wanted:
        if part == parts:
            if delta.number != number + 1 or delta.part != 0:
                raise StateGap(shard, f"delta {number + 1} is missing from its log of states (found {delta.number})")
            number, part, parts = delta.number, 0, delta.parts
        if (delta.number, delta.part) != (number, part):
            raise StateGap(shard, f"part {part} of {parts} of delta {number} is missing from its log of states")
        part += 1
    if part != parts:
        raise StateGap(shard, f"part {part} of {parts} of delta {number} is missing from its log of states")
    return wanted
