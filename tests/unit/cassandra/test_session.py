"""Addresses, queries and errors, without a server."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from itertools import islice
from pathlib import Path

import pytest
from cassandra import InvalidRequest, OperationTimedOut, Unauthorized
from cassandra.cluster import NoHostAvailable

from tocsin.adapters.cassandra import session
from tocsin.adapters.cassandra.driver_errors import translated
from tocsin.adapters.cassandra.schedule_store import CassandraScheduleStore
from tocsin.adapters.cassandra.session import Connection, StoreAddress, connect, query_text
from tocsin.adapters.cassandra.view_reader import CassandraViewReader
from tocsin.adapters.cassandra.view_writer import CassandraViewWriter
from tocsin.domain.entries import Entry
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.executions import AttemptHead
from tocsin.ports.schedule_store import StoreWrites
from tocsin.ports.views import DispatchSeen

QUERIES = sorted(path.stem for path in (Path(session.__file__).parent / "queries").glob("*.cql"))
VERBS = {"insert", "upsert", "delete", "select"}


def nowhere() -> StoreAddress:
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return StoreAddress(("127.0.0.1",), free.getsockname()[1], "tocsin")


@pytest.mark.parametrize("keyspace", ["", "Tocsin", "1st", "a-b", 'x"; DROP KEYSPACE y', "a" * 49])
def test_a_keyspace_that_would_need_quoting_is_refused(keyspace: str) -> None:
    with pytest.raises(Refused, match="keyspace"):
        StoreAddress(("127.0.0.1",), 9042, keyspace)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_one_statement_named_for_what_it_does(name: str) -> None:
    text = query_text(name)
    assert name.split("_")[0] in VERBS
    assert ";" not in text
    assert "--" not in text
    verb = text.split()[0].lower()
    assert verb == {"upsert": "insert"}.get(name.split("_")[0], name.split("_")[0])
    for forbidden in ("IF EXISTS", "IF NOT EXISTS", " IF ", "ALLOW FILTERING"):
        assert forbidden not in text
    # Dead letters and output are kept for people, for a while; whatever else goes is deleted.
    assert (" TTL " in text) == (name in ("upsert_dead_letter", "upsert_dead_letter_part", "insert_run_log"))


@pytest.mark.parametrize("name", [name for name in QUERIES if not name.startswith("select")])
def test_every_write_has_a_logical_timestamp(name: str) -> None:
    assert re.search(r"USING TIMESTAMP (\?|1|2)", query_text(name))


def test_errors_of_the_driver_become_our_own() -> None:
    down = translated(NoHostAvailable("none", {"a": ConnectionRefusedError(111, "refused")}))
    assert isinstance(down, Unavailable)
    assert "refused" in str(down)
    assert isinstance(translated(OperationTimedOut()), Unavailable)
    assert isinstance(translated(Unauthorized("no")), Refused)
    missing = translated(InvalidRequest("table jobs does not exist"))
    assert isinstance(missing, Refused)
    assert "tocsin schema migrate" in str(missing)
    kept = Unavailable("cassandra", "closed")
    assert translated(kept) is kept


def test_where_nobody_listens_connecting_says_so() -> None:
    with pytest.raises(Unavailable, match=r"cassandra: no node answers: .*refused"):
        connect(nowhere())


def test_where_nobody_listens_the_views_say_so_and_do_not_hang() -> None:
    head = AttemptHead(1, 1, 0, "job.1.5", "job", "acme", 1, 5, 5)
    with pytest.raises(Unavailable):
        CassandraViewWriter(Connection(nowhere())).write([], [DispatchSeen(head, 5, "default")], [])
    with pytest.raises(Unavailable):
        asyncio.run(CassandraViewReader(Connection(nowhere())).read_job("job"))


def test_where_nobody_listens_the_owners_store_goes_on_asking_without_a_word_to_its_owner() -> None:
    store = CassandraScheduleStore(Connection(nowhere()))
    store.begin_bucket_read(1, 5)
    store.begin_writes(1, 1, StoreWrites(inserts=(Entry(5, "job", 5, 1, "job.1.5", "acme", "default", b"x"),)))
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        assert store.completed(10) == []
        time.sleep(0.05)
    store.close()


def test_a_store_that_is_long_away_is_still_asked_for() -> None:
    """The driver's own policy ends: it gave all nodes up for good after an outage of some five minutes."""
    cluster = session._cluster(nowhere())
    try:
        delays = list(islice(cluster.reconnection_policy.new_schedule(), 20_000))
    finally:
        cluster.shutdown()
    assert len(delays) == 20_000
    assert max(delays) <= 6


def test_a_closed_connection_is_not_opened_again() -> None:
    connection = Connection(nowhere())
    connection.close()
    with pytest.raises(Unavailable, match="closed"):
        _ = connection.session
