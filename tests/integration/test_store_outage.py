"""The store goes away under those who use it, and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.integration.forwarder import Forwarder
from tocsin.adapters.cassandra.migrations import create_keyspace, migrate
from tocsin.adapters.cassandra.page_sizes import PageBounds
from tocsin.adapters.cassandra.schedule_store import CassandraScheduleStore, StoreBounds
from tocsin.adapters.cassandra.session import Connection, StoreAddress, connect
from tocsin.adapters.cassandra.view_reader import CassandraViewReader
from tocsin.adapters.cassandra.view_writer import CassandraViewWriter
from tocsin.devcluster import Endpoints
from tocsin.domain.entries import Entry
from tocsin.domain.errors import Unavailable
from tocsin.domain.executions import AttemptHead
from tocsin.domain.instants import MINUTE
from tocsin.ports.schedule_store import BucketPage, Completion, JobRead, JobRow, StoreWrites, WritesDone
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


def entry(number: int, size: int = 300, minute: int = MINUTE_NO) -> Entry:
    run_at = minute * MINUTE + number
    return Entry(run_at, "job", run_at, 1, f"job.1.{run_at}", "acme", "default", b"x" * size)


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
        assert [one for one in found if isinstance(one, BucketPage)] == [
            BucketPage(1, MINUTE_NO + 1, [], True, marked=False)
        ]
        store.begin_bucket_read(1, MINUTE_NO)
        assert rows_of(until(store, last_page)) == [entry(0), *map(entry, range(2, 40))]
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


SPOILT = b"no server wrote this"


class Watched:
    """A session that counts the index pages that were asked for, and may spoil a mark."""

    def __init__(self, connection: Connection) -> None:
        self.sizes: list[int] = []
        self.marks: list[bytes | None] = []
        self.spoil_next_mark = False
        self._session = connection.session
        self._execute = connection.session.execute_async
        connection.session.execute_async = self._watch

    def _watch(self, statement: Any, paging_state: bytes | None = None) -> Any:
        query = getattr(getattr(statement, "prepared_statement", None), "query_string", "")
        # The shard's mark is read from the same table, but is no page.
        if "schedule_index" in query and isinstance(statement.fetch_size, int):
            self.sizes.append(statement.fetch_size)
            if paging_state and self.spoil_next_mark:
                self.spoil_next_mark, paging_state = False, SPOILT
            self.marks.append(paging_state)
        return self._execute(statement, paging_state=paging_state)


PAGES = PageBounds(bytes_max=500_000, waiting_bytes_max=3_000_000)


def large_bucket(store: CassandraScheduleStore, minute: int = MINUTE_NO) -> list[Entry]:
    given = [entry(number, 200_000, minute) for number in range(60)]
    store.begin_writes(1, 0, StoreWrites(inserts=tuple(given)))
    assert until(store, bool) == [WritesDone(1, 0)]
    return given


def last_page(found: list[Completion]) -> bool:
    return any(isinstance(one, BucketPage) and one.last for one in found)


def rows_of(found: list[Completion]) -> list[Entry]:
    return [one for page in found if isinstance(page, BucketPage) for one in page.entries]


def test_pages_that_nobody_collects_are_not_followed_by_more(address: StoreAddress) -> None:
    connection = connect(address)
    store = CassandraScheduleStore(connection, StoreBounds(pages=PAGES))
    try:
        given = large_bucket(store)
        watched = Watched(connection)
        for _ in range(8):
            store.begin_bucket_read(1, MINUTE_NO)
        deadline = time.monotonic() + WAIT_S
        while len(watched.sizes) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(2)
        asked = len(watched.sizes)
        assert asked <= PAGES.waiting_bytes_max // PAGES.bytes_max
        found = until(store, lambda seen: sum(isinstance(one, BucketPage) and one.last for one in seen) == 8)
        assert len(watched.sizes) > asked
        assert sorted(rows_of(found)) == sorted(given * 8)
    finally:
        store.close()


def test_a_read_goes_on_from_where_an_outage_met_it(path: Forwarder, address: StoreAddress) -> None:
    connection = Connection(address)
    store = CassandraScheduleStore(connection, StoreBounds(pages=PageBounds(bytes_max=500_000, waiting_bytes_max=1)))
    try:
        given = large_bucket(store)
        watched = Watched(connection)
        store.begin_bucket_read(1, MINUTE_NO)
        found = until(store, lambda seen: len(seen) >= 3)
        path.cut()
        with_outage = len(watched.sizes)
        found += store.completed(100)
        time.sleep(1)
        found += store.completed(100)
        path.mend()
        found += until(store, last_page)
        assert rows_of(found) == given
        assert len(watched.sizes) > with_outage
        assert watched.marks.count(None) == 1
    finally:
        store.close()


def test_a_read_whose_mark_is_refused_goes_on_after_the_last_row_seen(address: StoreAddress) -> None:
    connection = connect(address)
    store = CassandraScheduleStore(connection, StoreBounds(pages=PageBounds(bytes_max=500_000, waiting_bytes_max=1)))
    try:
        given = large_bucket(store)
        watched = Watched(connection)
        store.begin_bucket_read(1, MINUTE_NO)
        found = until(store, lambda seen: len(seen) >= 3)
        watched.spoil_next_mark = True
        found += until(store, last_page)
        assert watched.marks[watched.marks.index(SPOILT) + 1] is None
        assert rows_of(found) == given
    finally:
        store.close()


def test_small_rows_soon_come_in_thousands_a_page(address: StoreAddress) -> None:
    connection = connect(address)
    store = CassandraScheduleStore(connection)
    try:
        given = [entry(number, 250) for number in range(12_000)]
        store.begin_writes(1, 0, StoreWrites(inserts=tuple(given)))
        assert until(store, bool) == [WritesDone(1, 0)]
        watched = Watched(connection)
        store.begin_bucket_read(1, MINUTE_NO)
        found = until(store, last_page)
        assert rows_of(found) == given
        assert len(watched.sizes) <= 8
        assert max(watched.sizes) > 4_000
    finally:
        store.close()


def test_a_write_that_is_refused_for_good_is_told_loudly_and_holds_up_nobody(address: StoreAddress) -> None:
    store = CassandraScheduleStore(Connection(address))
    good = [JobRow(f"job{number}", 1, b"snapshot") for number in range(20)]
    try:
        with capture_logs() as logs:
            store.begin_writes(1, 1, StoreWrites(jobs=(*good[:11], JobRow("k" * 70_000, 1, b"x"), *good[11:])))
            for turn in range(2, 30):
                store.begin_writes(1, turn, StoreWrites(inserts=(entry(turn),)))
            found = until(store, lambda seen: len(seen) == 28)
            assert sorted(one.turn for one in found if isinstance(one, WritesDone)) == list(range(2, 30))
            store.begin_bucket_read(1, MINUTE_NO)
            assert rows_of(until(store, last_page)) == [entry(turn) for turn in range(2, 30)]
            deadline = time.monotonic() + WAIT_S
            while not (told := [line for line in logs if line.get("action") == "store.refused"]):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert told[0]["log_level"] == "error"
        assert "upsert_job('kkk" in told[0]["request"]
        assert len(told[0]["request"]) < 300
        assert not [line for line in logs if line.get("action") == "store.retry"]
        # Read together with a key that no row can have, and with a job that is not there.
        store.begin_job_reads(
            1, [*(row.job_id for row in good[:9]), "k" * 70_000, "nobody", *(r.job_id for r in good[9:])]
        )
        found = {
            one.job_id: one.snapshot for one in until(store, lambda seen: len(seen) == 22) if isinstance(one, JobRead)
        }
        assert found == {"k" * 70_000: None, "nobody": None} | {row.job_id: b"snapshot" for row in good}
    finally:
        store.close()


def test_while_the_table_is_missing_a_job_is_not_taken_for_unknown(address: StoreAddress) -> None:
    connection = connect(address)
    store = CassandraScheduleStore(connection)
    try:
        store.begin_writes(1, 1, StoreWrites(jobs=(JobRow("job", 1, b"one"),)))
        assert until(store, bool) == [WritesDone(1, 1)]
        store.begin_job_read(1, "job")
        assert until(store, bool) == [JobRead(1, "job", b"one")]
        connection.execute("DROP TABLE jobs")
        store.begin_job_read(1, "job")
        time.sleep(2)
        assert store.completed(10) == []
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
