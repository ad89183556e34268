"""The contract of the owner's store, held against the fake and against the real one."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from tocsin.adapters.memory.schedule_store import MemoryScheduleStore
from tocsin.domain.entries import Entry
from tocsin.domain.instants import MINUTE
from tocsin.ports.schedule_store import BucketPage, Completion, JobRead, JobRow, ScheduleStore, StoreWrites, WritesDone

WAIT_S = 60.0
MINUTE_NO = 29_000_000
"""Any minute will do: a store has no clock."""
PAGE_ROWS = 50
PAGE_BYTES = 500_000


@pytest.fixture(params=["memory", pytest.param("cassandra", marks=pytest.mark.real)])
def store(request: pytest.FixtureRequest) -> Iterator[ScheduleStore]:
    opened: ScheduleStore
    if request.param == "memory":
        opened = MemoryScheduleStore(page_rows_max=PAGE_ROWS, page_bytes_max=PAGE_BYTES)
    else:
        from tocsin.adapters.cassandra.page_sizes import PageBounds
        from tocsin.adapters.cassandra.schedule_store import CassandraScheduleStore, StoreBounds

        pages = PageBounds(PAGE_ROWS, PAGE_BYTES, waiting_bytes_max=3 * PAGE_BYTES)
        opened = CassandraScheduleStore(
            request.getfixturevalue("connection"), StoreBounds(in_flight_max=4, pages=pages)
        )
    yield opened
    opened.close()


def entry(job_id: str, at: int = 0, version: int = 1, minute: int = MINUTE_NO, size: int = 200) -> Entry:
    """An entry ``at`` microseconds into a minute."""
    run_at = minute * MINUTE + at
    execution_id = f"{job_id}.{version}.{run_at}"
    return Entry(run_at, job_id, run_at, version, execution_id, "tenant", "default", bytes([at % 256]) * size)


def until(store: ScheduleStore, enough: Callable[[list[Completion]], bool]) -> list[Completion]:
    """Collect completions until there are enough of them."""
    found: list[Completion] = []
    deadline = time.monotonic() + WAIT_S
    while not enough(found):
        assert time.monotonic() < deadline, f"only {found} within {WAIT_S} s"
        found += store.completed(10)
        time.sleep(0.001)
    return found


_turns = itertools.count(1)


def write(store: ScheduleStore, shard: int, writes: StoreWrites) -> None:
    """Write, and wait for the acknowledgement of just that turn."""
    turn = next(_turns)
    store.begin_writes(shard, turn, writes)
    assert until(store, bool) == [WritesDone(shard, turn)]


def read_bucket(store: ScheduleStore, shard: int, minute: int = MINUTE_NO) -> list[BucketPage]:
    """Read a bucket to its end."""
    store.begin_bucket_read(shard, minute)
    found = until(store, lambda seen: any(isinstance(one, BucketPage) and one.last for one in seen))
    pages = [page for page in found if isinstance(page, BucketPage)]
    assert pages == found
    assert [page.last for page in pages] == [False] * (len(pages) - 1) + [True]
    assert {(page.shard, page.minute) for page in pages} == {(shard, minute)}
    return pages


def entries(store: ScheduleStore, shard: int, minute: int = MINUTE_NO) -> list[Entry]:
    return [one for page in read_bucket(store, shard, minute) for one in page.entries]


def read_job(store: ScheduleStore, shard: int, job_id: str) -> bytes | None:
    store.begin_job_read(shard, job_id)
    (found,) = until(store, bool)
    assert isinstance(found, JobRead)
    assert (found.shard, found.job_id) == (shard, job_id)
    return found.snapshot


def test_rows_of_many_jobs_are_read_at_once(store: ScheduleStore, shard: int) -> None:
    rows = {f"many-{shard}-{number}": b"snapshot %d" % number for number in range(40)}
    write(store, shard, StoreWrites(jobs=tuple(JobRow(job_id, 1, snapshot) for job_id, snapshot in rows.items())))
    wanted: dict[str, bytes | None] = rows | {f"none-{number}": None for number in range(9)}
    store.begin_job_reads(shard, list(wanted))
    found = until(store, lambda seen: len(seen) == len(wanted))
    assert sorted(found, key=str) == sorted((JobRead(shard, *one) for one in wanted.items()), key=str)


def test_an_unwritten_bucket_is_one_empty_last_page(store: ScheduleStore, shard: int) -> None:
    assert [(list(page.entries), page.last) for page in read_bucket(store, shard)] == [([], True)]


def test_entries_come_back_as_they_went_in_and_in_firing_order(store: ScheduleStore, shard: int) -> None:
    filed_late = entry("c", at=9)._replace(run_at=MINUTE_NO * MINUTE + 30)
    given = [entry("b", at=7), entry("a", at=7), filed_late, entry("z", at=1), entry("ü-€", at=8)]
    write(store, shard, StoreWrites(inserts=tuple(given)))
    found = entries(store, shard)
    assert found == sorted(given)
    assert all(type(one) is Entry for one in found)


def test_a_bucket_larger_than_a_page_comes_in_pages_without_a_gap(store: ScheduleStore, shard: int) -> None:
    given = [entry(f"job{n:04}", at=n) for n in range(PAGE_ROWS * 3 + 7)]
    write(store, shard, StoreWrites(inserts=tuple(reversed(given))))
    pages = read_bucket(store, shard)
    assert len(pages) > 1
    assert all(len(page.entries) <= PAGE_ROWS for page in pages)
    assert [one for page in pages for one in page.entries] == given


def test_pages_of_large_entries_are_bounded_in_bytes(store: ScheduleStore, shard: int) -> None:
    given = [entry(f"job{n:04}", at=n, size=200_000)._replace(plan="p" * 50) for n in range(60)]
    write(store, shard, StoreWrites(inserts=tuple(given)))
    first, *others = read_bucket(store, shard)
    assert len(first.entries) <= 8  # Nothing is known of a bucket before its first page.
    assert all(sum(len(one.execution) for one in page.entries) <= 2 * PAGE_BYTES for page in others)
    assert [one for page in (first, *others) for one in page.entries] == given


def test_large_entries_after_small_ones_do_not_make_large_pages_for_long(store: ScheduleStore, shard: int) -> None:
    small = [entry(f"job{n:04}", at=n) for n in range(200)]
    large = [entry(f"job{n:04}", at=n, size=200_000) for n in range(200, 260)]
    write(store, shard, StoreWrites(inserts=(*small, *large)))
    pages = read_bucket(store, shard)
    assert [one for page in pages for one in page.entries] == small + large
    sizes = [sum(len(one.execution) for one in page.entries) for page in pages]
    assert sum(size > 2 * PAGE_BYTES for size in sizes) <= 1


def test_reads_of_many_buckets_at_once_all_come_to_their_end(store: ScheduleStore, shard: int) -> None:
    minutes = range(MINUTE_NO, MINUTE_NO + 12)
    given = [entry(f"job{n:04}", at=n, minute=minute, size=20_000) for minute in minutes for n in range(30)]
    write(store, shard, StoreWrites(inserts=tuple(given)))
    for minute in minutes:
        store.begin_bucket_read(shard, minute)
    found = until(store, lambda seen: sum(isinstance(one, BucketPage) and one.last for one in seen) == len(minutes))
    by_minute = {minute: [] for minute in minutes}  # type: dict[int, list[Entry]]
    for page in found:
        assert isinstance(page, BucketPage)
        by_minute[page.minute].extend(page.entries)
    assert [one for rows in by_minute.values() for one in rows] == given


def test_a_bucket_is_read_to_its_end_after_another_shard_was_forgotten_in_the_middle(
    store: ScheduleStore, shard: int
) -> None:
    other = shard + 3_000_000
    given = [entry(f"job{n:04}", at=n, size=100_000) for n in range(40)]
    for one in (shard, other):
        write(store, one, StoreWrites(inserts=tuple(given)))
    for minute in range(MINUTE_NO, MINUTE_NO + 8):
        store.begin_bucket_read(other, minute)
    time.sleep(0.2)  # By now some of its pages are under way, some wait to be collected, some may not be asked for.
    store.forget(other)
    assert entries(store, shard) == given


def test_entries_go_to_the_bucket_of_the_minute_that_they_fire_in_and_of_their_shard_only(
    store: ScheduleStore, shard: int
) -> None:
    early, late = entry("a", at=MINUTE - 1), entry("b", minute=MINUTE_NO + 1)
    write(store, shard, StoreWrites(inserts=(late, early)))
    assert entries(store, shard) == [early]
    assert entries(store, shard, MINUTE_NO + 1) == [late]
    assert entries(store, shard + 1_000_000) == []


def test_a_very_large_entry_is_written_beside_small_ones(store: ScheduleStore, shard: int) -> None:
    given = [entry("a", at=1), entry("b", at=2, size=300_000), entry("c", at=3)]
    write(store, shard, StoreWrites(inserts=tuple(given)))
    assert entries(store, shard) == given


def test_a_delete_takes_one_entry_and_leaves_its_neighbours(store: ScheduleStore, shard: int) -> None:
    old, new, other = entry("a", at=5, version=1), entry("a", at=5, version=2), entry("b", at=5)
    write(store, shard, StoreWrites(inserts=(old, new, other)))
    write(store, shard, StoreWrites(deletes=(old.key,)))
    assert entries(store, shard) == [new, other]


def test_a_delete_wins_over_an_insert_that_comes_later_or_again(store: ScheduleStore, shard: int) -> None:
    gone = entry("a", at=5)
    write(store, shard, StoreWrites(deletes=(gone.key,)))
    write(store, shard, StoreWrites(inserts=(gone,)))
    assert entries(store, shard) == []
    write(store, shard, StoreWrites(inserts=(gone,)))
    assert entries(store, shard) == []


def test_a_delete_wins_over_an_insert_of_the_same_turn(store: ScheduleStore, shard: int) -> None:
    gone, stays = entry("a", at=5), entry("b", at=5)
    write(store, shard, StoreWrites(inserts=(gone, stays), deletes=(gone.key,)))
    assert entries(store, shard) == [stays]


def test_a_bucket_is_deleted_whole_and_nothing_comes_back_into_it(store: ScheduleStore, shard: int) -> None:
    given = [entry(f"job{n:03}", at=n) for n in range(PAGE_ROWS * 2)]
    kept = entry("kept", minute=MINUTE_NO + 1)
    write(store, shard, StoreWrites(inserts=(*given, kept)))
    write(store, shard + 4_000_000, StoreWrites(inserts=(given[0],)))
    write(store, shard, StoreWrites(buckets=(MINUTE_NO, MINUTE_NO + 9)))
    assert entries(store, shard) == []
    write(store, shard, StoreWrites(inserts=(given[3], entry("late", at=9))))
    assert entries(store, shard) == [], "one tombstone stands for all that could be in it"
    assert entries(store, shard, MINUTE_NO + 1) == [kept]
    assert entries(store, shard + 4_000_000) == [given[0]]


def test_the_last_page_tells_whether_the_shards_mark_is_there(store: ScheduleStore, shard: int) -> None:
    other = shard + 5_000_000
    write(store, shard, StoreWrites(inserts=tuple(entry(f"job{n:03}", at=n) for n in range(PAGE_ROWS + 1))))
    assert [page.marked for page in read_bucket(store, shard)][-1] is False
    for _ in range(2):
        write(store, shard, StoreWrites(mark=True))
    assert read_bucket(store, shard)[-1].marked
    assert read_bucket(store, shard, MINUTE_NO + 1)[-1].marked
    assert not read_bucket(store, other)[-1].marked


def test_repeated_writes_change_nothing(store: ScheduleStore, shard: int) -> None:
    given = tuple(entry(f"job{n}", at=n) for n in range(5))
    for _ in range(3):
        write(store, shard, StoreWrites(inserts=given, deletes=(given[2].key,), jobs=(JobRow("repeated", 4, b"four"),)))
    assert entries(store, shard) == [one for one in given if one is not given[2]]
    assert read_job(store, shard, "repeated") == b"four"


def test_a_job_that_nobody_wrote_reads_as_none(store: ScheduleStore, shard: int) -> None:
    assert read_job(store, shard, f"unknown-{shard}") is None


@pytest.mark.parametrize("job_id", ["", "k" * 70_000, "\ud800"], ids=["empty", "too-long", "no-text"])
def test_a_job_id_that_no_row_can_have_reads_as_none_and_holds_up_nobody(
    store: ScheduleStore, shard: int, job_id: str
) -> None:
    assert read_job(store, shard, job_id) is None
    write(store, shard, StoreWrites(jobs=(JobRow(f"job-{shard}", 1, b"one"),)))
    assert read_job(store, shard, f"job-{shard}") == b"one"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_of_a_jobs_versions_the_highest_stays_in_any_order(
    store: ScheduleStore, shard: int, order: tuple[int, ...]
) -> None:
    job_id = f"job-{shard}"
    for version in order:
        write(store, shard, StoreWrites(jobs=(JobRow(job_id, 1 << 40 | version, f"v{version}".encode()),)))
    assert read_job(store, shard, job_id) == b"v2"


def test_a_jobs_delete_hides_its_own_and_older_versions_but_not_newer_ones(store: ScheduleStore, shard: int) -> None:
    job_id = f"job-{shard}"
    write(store, shard, StoreWrites(jobs=(JobRow(job_id, 7, None),)))
    write(store, shard, StoreWrites(jobs=(JobRow(job_id, 7, b"seven"), JobRow(job_id, 6, b"six"))))
    assert read_job(store, shard, job_id) is None
    write(store, shard, StoreWrites(jobs=(JobRow(job_id, 8, b"eight"),)))
    assert read_job(store, shard, job_id) == b"eight"


def test_a_turn_of_many_rows_over_many_buckets_is_acknowledged_once(store: ScheduleStore, shard: int) -> None:
    inserts = tuple(entry(f"job{n:04}", at=n, minute=MINUTE_NO + n % 7) for n in range(700))
    jobs = tuple(JobRow(f"job-{shard}-{n}", n, b"x" * 500) for n in range(150))
    store.begin_writes(shard, 41, StoreWrites(inserts=inserts, jobs=jobs))
    store.begin_writes(shard, 42, StoreWrites())
    found = until(store, lambda seen: len(seen) == 2)
    assert sorted(found) == [WritesDone(shard, 41), WritesDone(shard, 42)]
    for minute in range(MINUTE_NO, MINUTE_NO + 7):
        assert entries(store, shard, minute) == [one for one in inserts if one.key.bucket_minute == minute]
    assert read_job(store, shard, f"job-{shard}-149") == b"x" * 500


@pytest.mark.parametrize("size", [10, 1_100, 1_320, 5_000, 39_000, 60_000])
def test_job_rows_of_any_size_fit_into_what_a_server_takes_in_one_batch(
    store: ScheduleStore, shard: int, size: int
) -> None:
    jobs = tuple(JobRow(f"job-{shard}-{n}", 1 << 40 | n, bytes([n]) * size) for n in range(65))
    write(store, shard, StoreWrites(jobs=jobs))
    assert [read_job(store, shard, row.job_id) for row in jobs] == [row.snapshot for row in jobs]


def test_completed_returns_no_more_than_asked_for_and_loses_none(store: ScheduleStore, shard: int) -> None:
    for turn in range(10):
        store.begin_writes(shard, turn, StoreWrites(inserts=(entry(f"job{turn}", at=turn),)))
    found: list[Completion] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < 10 and time.monotonic() < deadline:
        some = store.completed(3)
        assert len(some) <= 3
        found += some
        time.sleep(0.001)
    assert sorted(found) == [WritesDone(shard, turn) for turn in range(10)]
    assert store.completed(3) == []


def test_a_forgotten_shard_brings_nothing_that_was_begun_before_and_all_that_is_begun_after(
    store: ScheduleStore, shard: int
) -> None:
    other = shard + 2_000_000
    for turn in range(20):
        store.begin_writes(shard, turn, StoreWrites(inserts=(entry(f"job{turn}", at=turn),)))
        store.begin_bucket_read(shard, MINUTE_NO + 1)
    (first,) = until(store, bool)[:1]
    assert first.shard == shard
    time.sleep(0.5)  # By now others are done and wait to be collected, and yet others are under way.
    for turn in range(20, 40):
        store.begin_bucket_read(shard, MINUTE_NO + turn)
    store.begin_writes(other, 5, StoreWrites(inserts=(entry("other"),)))
    store.forget(shard)
    store.begin_writes(shard, 99, StoreWrites(inserts=(entry("after", minute=MINUTE_NO + 2),)))
    found = until(store, lambda seen: len(seen) >= 2)
    assert sorted(found) == sorted([WritesDone(shard, 99), WritesDone(other, 5)])
    assert entries(store, shard, MINUTE_NO + 2) == [entry("after", minute=MINUTE_NO + 2)]
