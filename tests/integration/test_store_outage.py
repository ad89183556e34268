"""The store goes away under those who use it, and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from tests.integration.forwarder import Forwarder
from tocsin.adapters.cassandra.migrations import create_keyspace, migrate
from tocsin.adapters.cassandra.schedule_store import CassandraScheduleStore
from tocsin.adapters.cassandra.session import Connection, StoreAddress, connect
from tocsin.adapters.cassandra.view_reader import CassandraViewReader
from tocsin.adapters.cassandra.view_writer import CassandraViewWriter
from tocsin.devcluster import Endpoints
from tocsin.domain.entries import Entry
from tocsin.domain.errors import Unavailable
from tocsin.domain.executions import AttemptHead
from tocsin.domain.instants import MINUTE
from tocsin.ports.schedule_store import BucketPage, Completion, StoreWrites, WritesDone
from tocsin.ports.views import DispatchSeen

pytestmark = pytest.mark.real
WAIT_S = 90.0
MINUTE_NO = 29_000_000


@pytest.fixture
def path(cluster: Endpoints) -> Iterator[Forwarder]:
    """The way to the store."""
    forwarder = Forwarder(cluster.cassandra_port)
    yield forwarder
    forwarder.cut()


@pytest.fixture
def address(path: Forwarder, unique: str) -> StoreAddress:
    """A migrated keyspace at the near end of the way."""
    address = StoreAddress(("127.0.0.1",), path.port, unique, request_timeout_s=5.0)
    create_keyspace(address, 1)
    connection = connect(address)
    migrate(connection)
    connection.close()
    return address


def entry(number: int) -> Entry:
    run_at = MINUTE_NO * MINUTE + number
    return Entry(run_at, "job", run_at, 1, f"job.1.{run_at}", "acme", "default", b"x" * 300)


def until(store: CassandraScheduleStore, enough: Callable[[list[Completion]], bool]) -> list[Completion]:
    found: list[Completion] = []
    deadline = time.monotonic() + WAIT_S
    while not enough(found):
        assert time.monotonic() < deadline, f"only {found} within {WAIT_S} s"
        found += store.completed(100)
        time.sleep(0.01)
    return found


def test_what_an_owner_begins_in_an_outage_is_completed_after_it(path: Forwarder, address: StoreAddress) -> None:
    store = CassandraScheduleStore(Connection(address))
    try:
        store.begin_writes(1, 1, StoreWrites(inserts=(entry(0),)))
        assert until(store, bool) == [WritesDone(1, 1)]
        path.cut()
        for turn in range(2, 40):
            store.begin_writes(1, turn, StoreWrites(inserts=(entry(turn),)))
        store.begin_bucket_read(1, MINUTE_NO + 1)
        time.sleep(2)
        assert store.completed(100) == []
        path.mend()
        found = until(store, lambda seen: len(seen) == 39)
        assert sorted(one.turn for one in found if isinstance(one, WritesDone)) == list(range(2, 40))
        assert [one for one in found if isinstance(one, BucketPage)] == [BucketPage(1, MINUTE_NO + 1, [], True)]
        store.begin_bucket_read(1, MINUTE_NO)
        (page,) = until(store, bool)
        assert isinstance(page, BucketPage)
        assert list(page.entries) == [entry(0), *map(entry, range(2, 40))]
    finally:
        store.close()


def test_an_owners_store_that_starts_in_an_outage_serves_once_it_ends(path: Forwarder, address: StoreAddress) -> None:
    path.cut()
    store = CassandraScheduleStore(Connection(address))
    try:
        store.begin_writes(1, 1, StoreWrites(inserts=(entry(0),)))
        time.sleep(1)
        assert store.completed(10) == []
        path.mend()
        assert until(store, bool) == [WritesDone(1, 1)]
    finally:
        store.close()


def test_the_views_say_that_the_store_is_away_and_work_when_it_is_back(path: Forwarder, address: StoreAddress) -> None:
    connection = connect(address)
    reader, writer = CassandraViewReader(connection), CassandraViewWriter(connection)
    seen = DispatchSeen(AttemptHead(1, 1, 0, "job.1.5", "job", "acme", 1, 5, 5), 5, "default")
    try:
        writer.write([], [seen], [])
        assert asyncio.run(reader.read_run("job.1.5"))
        path.cut()
        with pytest.raises(Unavailable):
            writer.write([], [seen], [])
        with pytest.raises(Unavailable):
            asyncio.run(reader.read_run("job.1.5"))
        path.mend()
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                writer.write([], [seen], [])
                break
            except Unavailable:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        assert asyncio.run(reader.read_run("job.1.5"))
    finally:
        connection.close()
