"""A shard's log of states: deltas in a ring, snapshots in chunks, and what restoring makes of them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.adapters.avro import AvroCodec
from tocsin.domain.entries import Place
from tocsin.domain.errors import StateGap
from tocsin.domain.executions import AttemptHead
from tocsin.domain.shard_records import Active, ParkedCommand, Void, WorkItem
from tocsin.domain.targets import HttpTarget
from tocsin.engine.effects import Step
from tocsin.engine.restore import restore
from tocsin.engine.ring import chunk_key, delta_key
from tocsin.engine.shard_state import ShardState
from tocsin.engine.snapshots import RECORD_OVERHEAD_BYTES, SnapshotWriter, delta_records

CODEC = AvroCodec()
RING = 16


class Writer:
    """Writes turns as the engine does, into a compacted log."""

    def __init__(self, chunk_bytes: int = 2_000) -> None:
        self.state = ShardState(0, 1, 1, Place(0, "", 0), owner="o")
        self.log: dict[str, bytes] = {}
        self.snapshots = SnapshotWriter(CODEC, chunk_bytes, RING)
        self.chunk_bytes = chunk_bytes

    def turn(
        self,
        started: list[str],
        ended: list[str],
        parked: tuple[ParkedCommand, ...] = (),
        unparked: tuple[int, ...] = (),
        work: tuple[WorkItem, ...] = (),
        work_done: tuple[str, ...] = (),
    ) -> None:
        state = self.state
        state.number += 1
        state.cursor = Place(state.number, "", 0)
        dispatched: dict[bool, list[bytes]] = {False: [], True: []}
        for name in started:
            head = AttemptHead(1, state.number, 0, name, "job", "t", 1, 1, 1)
            execution = CODEC.encode_execution(head, HttpTarget("http://a.test/"))
            last = int(name[1:]) % 3 == 0
            state.active[name] = Active(execution, state.number, last=last)
            dispatched[last].append(execution)
        for name in ended:
            del state.active[name]
        voids = [Void(f"job{state.number}", 1, Place(state.number + 3, "", 0))]
        state.voids |= {void.job_id: void for void in voids}
        state.successors_upto = state.cursor
        state.forget_passed()
        state.parked.update((one.offset, one) for one in parked)
        state.work.update((item.id, item) for item in work)
        for offset in unparked:
            del state.parked[offset]
        for work_id in work_done:
            del state.work[work_id]
        step = Step(
            state.number,
            state.number,
            dispatched=dispatched[False],
            dispatched_last=dispatched[True],
            ended=ended,
            voids=voids,
            parked=list(parked),
            unparked=list(unparked),
            work=list(work),
            work_done=list(work_done),
        )
        records = delta_records(CODEC, state, step, self.chunk_bytes, RING)
        if self.snapshots.due(state):
            self.snapshots.begin(state)
        if self.snapshots.busy:
            records += self.snapshots.next_records(state)
        self.log |= {record.key: record.value or b"" for record in records}


@pytest.mark.parametrize("seed", range(20))
def test_restores_exactly_what_was_at_every_turn(seed: int) -> None:
    chance, count = random.Random(seed), 0
    writer = Writer(chunk_bytes=chance.choice([200, 2_000]))
    for _ in range(100):
        started = [f"e{count + n}" for n in range(chance.randrange(8))]
        count += len(started)
        ended = [name for name in writer.state.active if chance.random() < 0.2]
        writer.turn(started, ended)
        restored = restore(0, writer.log, CODEC)
        assert restored == writer.state


@pytest.mark.parametrize("seed", range(20))
def test_what_is_parked_and_what_takes_long_comes_back_at_every_turn(seed: int) -> None:
    chance, writer, offset = random.Random(seed), Writer(chunk_bytes=300), 0
    for turn in range(60):
        state = writer.state
        parked = tuple(
            ParkedCommand(offset + n, turn, bytes(chance.randrange(200))) for n in range(chance.randrange(4))
        )
        offset += len(parked)
        unparked = tuple(at for at in state.parked if chance.random() < 0.3)
        done = tuple(work_id for work_id in state.work if chance.random() < 0.2)
        going = [item._replace(data=f'{{"turn":{turn}}}') for item in state.work.values() if item.id not in done]
        work = (WorkItem(f"w{turn}", "catch_up", None, "{}"), *going[:3])
        writer.turn([], [], parked, unparked, work, done)
        assert restore(0, writer.log, CODEC) == state


def test_the_log_stays_within_a_ring_and_two_snapshots() -> None:
    writer = Writer()
    for n in range(200):
        writer.turn([f"e{n}"], [f"e{n - 3}"] if n >= 3 else [])
    assert len([key for key in writer.log if key.startswith("d/")]) <= RING
    assert {key.split("/")[1] for key in writer.log if key.startswith("s/")} == {"0", "1"}


def test_an_empty_log_is_a_shard_that_never_ran() -> None:
    assert restore(3, {}, CODEC) is None


def test_a_snapshot_without_its_last_chunk_does_not_count() -> None:
    writer = Writer(chunk_bytes=200)
    while writer.state.snapshot_base == 0:
        writer.turn([f"e{writer.state.number}"], [])
    slot = writer.state.snapshot_slot
    indexes = sorted(int(key.split("/")[2]) for key in writer.log if key.startswith(f"s/{slot}/"))
    assert len(indexes) > 2
    for index in (indexes[-1], indexes[0]):
        damaged = {key: value for key, value in writer.log.items() if key != chunk_key(slot, index)}
        restored = restore(0, damaged, CODEC)
        assert restored is not None and restored.snapshot_base == 0
        assert restored.active == writer.state.active, "all deltas since the beginning are still there"


@pytest.mark.parametrize("missing", [1, 4, 6])
def test_a_missing_delta_is_an_error(missing: int) -> None:
    writer = Writer()
    for n in range(7):
        writer.turn([f"e{n}"], [])
    del writer.log[delta_key(missing, 0, RING)]
    with pytest.raises(StateGap, match=f"delta {missing}"):
        restore(0, writer.log, CODEC)


def test_a_missing_part_is_an_error() -> None:
    writer = Writer(chunk_bytes=300)
    writer.turn([f"e{n}" for n in range(10)], [])
    parts = [key for key in writer.log if key.startswith("d/")]
    assert len(parts) > 2
    for part in parts:
        with pytest.raises(StateGap):
            restore(0, {key: value for key, value in writer.log.items() if key != part}, CODEC)


@given(
    st.lists(st.binary(max_size=30), max_size=8),
    st.lists(st.binary(max_size=30), max_size=8),
    st.lists(st.integers(0, 30), max_size=3),
    st.integers(1, 120),
)
def test_parts_hold_all_that_was_dispatched_in_order_and_know_the_last_of_their_jobs(
    going_on: list[bytes], last: list[bytes], others: list[int], part_bytes: int
) -> None:
    step = Step(1, 1, dispatched=going_on, dispatched_last=last)
    step.parked += [ParkedCommand(offset, 1, b"c" * size) for offset, size in enumerate(others)]
    state = ShardState(0, 1, 1, Place.before(1), number=1)
    deltas = [CODEC.decode_delta(record.value) for record in delta_records(CODEC, state, step, part_bytes)]
    assert [one for delta in deltas for one in delta.dispatched] == going_on + last
    firsts = [len(delta.dispatched) - delta.last for delta in deltas]
    marked = [n >= first for delta, first in zip(deltas, firsts, strict=True) for n in range(len(delta.dispatched))]
    assert marked == [False] * len(going_on) + [True] * len(last)
    assert [command.offset for delta in deltas for command in delta.parked] == list(range(len(others)))
    for delta in deltas:
        pieces = [*map(len, delta.dispatched), *(len(command.value) for command in delta.parked)]
        assert len(pieces) <= 1 or sum(pieces) + RECORD_OVERHEAD_BYTES * (len(pieces) - 1) <= part_bytes
        assert pieces or len(deltas) == 1
