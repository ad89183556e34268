"""How an owner's rows are put together into batches, without a store."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from cassandra.query import BoundStatement, PreparedStatement

from tocsin.adapters.cassandra.batches import BatchBounds, Write
from tocsin.adapters.cassandra.schedule_store import _BUCKET_KEY, THIN_ROWS, CassandraScheduleStore, StoreBounds
from tocsin.domain.entries import Entry, EntryKey
from tocsin.domain.instants import MINUTE
from tocsin.ports.schedule_store import JobRow, StoreWrites

SHARD = 5
MIXED = 8


class TwoNodes:
    """Partitions of even minutes, and of jobs that say so, lie on one node, the others on another."""

    def replica_of(self, routing_key: bytes) -> str:
        if routing_key.endswith(b"-job"):
            return routing_key.decode().removesuffix("-job")
        length, minute = struct.unpack_from(">Hq", routing_key)
        assert length == 8
        return "even" if minute % 2 == 0 else "odd"

    def close(self) -> None:
        """Nothing was opened."""


@pytest.fixture
def store() -> Iterator[CassandraScheduleStore]:
    bounds = StoreBounds(BatchBounds(rows_max=20, mixed_rows_max=MIXED))
    store = CassandraScheduleStore(TwoNodes(), bounds)  # type: ignore[arg-type]
    yield store
    store.close()


def _entry(minute: int, number: int) -> Entry:
    at = minute * MINUTE + number
    return Entry(at, f"job-{number}", at, 1, f"job-{number}.1.{at}", "tenant", "default", b"execution")


def _minutes(batch: list[Write]) -> set[int]:
    return {write.values[0] for write in batch}


def test_rows_of_a_minute_of_their_own_travel_together_by_replica(store: CassandraScheduleStore) -> None:
    entries = [_entry(minute, minute) for minute in range(50)]
    gone = EntryKey(1_000 * MINUTE, "gone", 1, 1_000 * MINUTE)
    batches = list(store._batches(SHARD, StoreWrites(inserts=tuple(entries), deletes=(gone,))))
    assert sorted(write.values[0] for batch in batches for write in batch) == [*range(50), 1_000]
    assert all(len(batch) <= MIXED for batch in batches)
    assert len(batches) == 8, "26 of even minutes and 25 of odd ones, eight in each batch"
    assert all(len({minute % 2 for minute in _minutes(batch)}) == 1 for batch in batches)


def test_many_rows_of_one_minute_go_by_themselves(store: CassandraScheduleStore) -> None:
    entries = [_entry(7, number) for number in range(THIN_ROWS)] + [_entry(9, 1), _entry(11, 2)]
    batches = list(store._batches(SHARD, StoreWrites(inserts=tuple(entries))))
    assert sorted((_minutes(batch) for batch in batches), key=len) == [{7}, {9, 11}]


def test_a_minutes_key_is_the_one_by_which_the_driver_finds_its_replicas() -> None:
    prepared = PreparedStatement([], b"", [0, 1], "", "tocsin", 5, None, None)
    bound = BoundStatement(prepared)
    bound.values = [struct.pack(">q", 29_000_123), struct.pack(">i", SHARD)]
    assert _BUCKET_KEY(8, 29_000_123, 0, 4, SHARD, 0) == bound.routing_key


def test_a_job_travels_with_the_rows_of_its_node(store: CassandraScheduleStore) -> None:
    rows = tuple(_entry(minute, minute) for minute in (2, 3, 4))
    jobs = tuple(JobRow(job_id, 1, b"snapshot") for job_id in ("even-job", "odd-job"))
    batches = list(store._batches(SHARD, StoreWrites(inserts=rows, jobs=jobs)))
    assert sorted(sorted(write.query for write in batch) for batch in batches) == [
        ["insert_entry", "insert_entry", "upsert_job"],
        ["insert_entry", "upsert_job"],
    ]
