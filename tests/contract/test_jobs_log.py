"""What reading a jobs log promises, asked of the real broker and of the one in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tocsin.adapters.kafka.jobs_log import KafkaJobsLog, LastOffsets
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.memory.jobs_log import MemoryJobsLog
from tocsin.adapters.memory.shard_log import MemoryLog
from tocsin.ports.jobs_log import JobsLog, JobsPage
from tocsin.ports.shard_log import JOBS
from tocsin.testing import SettableClock

WAIT_S = 60.0


@dataclass
class Topic:
    """A jobs log of two shards."""

    log: JobsLog
    append: Callable[[int, str, bytes | None], None]


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def topic(request: pytest.FixtureRequest, unique: str) -> Iterator[Topic]:
    if request.param == "memory":
        memory = MemoryLog(SettableClock())

        def keep(shard: int, key: str, value: bytes | None) -> None:
            memory.append(JOBS, shard, key, value)

        yield Topic(MemoryJobsLog(memory), keep)
        return
    bootstrap = request.getfixturevalue("cluster").kafka_bootstrap
    names = TopicNames(f"{unique}.")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(names.jobs, 2, 1, config={"cleanup.policy": "compact"})]).values():
        future.result(20)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique})
    producer.init_transactions(20)

    def append(shard: int, key: str, value: bytes | None) -> None:
        # As an owner does; the markers of transactions take offsets too.
        producer.begin_transaction()
        producer.produce(names.jobs, value, key, shard)
        producer.commit_transaction(20)

    log = KafkaJobsLog(bootstrap, names, "test", {})
    yield Topic(log, append)
    log.close()


def page(log: JobsLog, shard: int, start: int, records_max: int = 4) -> JobsPage:
    log.begin_read(shard, start, records_max)
    deadline = time.monotonic() + WAIT_S
    while not (found := log.completed()):
        assert time.monotonic() < deadline, f"no page within {WAIT_S} s"
        time.sleep(0.005)
    (one,) = found
    assert (one.shard, one.start) == (shard, start)
    return one


def whole(log: JobsLog, shard: int) -> list[tuple[str, bytes]]:
    at, found = 0, []
    while True:
        one = page(log, shard, at)
        assert len(one.records) <= 4
        found += [(record.job_id, record.snapshot) for record in one.records]
        assert all(at <= record.offset < one.next for record in one.records)
        if one.next >= one.end:
            return found
        assert one.next > at
        at = one.next


def test_an_empty_log_is_one_empty_page(topic: Topic) -> None:
    one = page(topic.log, 0, 0)
    assert (list(one.records), one.next, one.end) == ([], 0, 0)


def test_pages_bring_the_last_snapshot_of_each_job_and_no_tombstone(topic: Topic) -> None:
    for n in range(12):
        topic.append(0, f"job{n % 9}", f"{n}".encode())
    topic.append(0, "job5", None)
    topic.append(1, "other", b"x")
    expected = [(f"job{n % 9}", f"{n}".encode()) for n in range(3, 12) if n != 5]
    assert whole(topic.log, 0) == expected
    assert whole(topic.log, 1) == [("other", b"x")]


def test_a_snapshot_that_is_replaced_before_the_reading_began_is_left_out_also_in_a_later_reading(topic: Topic) -> None:
    topic.append(0, "job", b"1")
    assert whole(topic.log, 0) == [("job", b"1")]
    topic.append(0, "job", b"2")
    assert whole(topic.log, 0) == [("job", b"2")], "another reading looks anew"


def test_a_reading_goes_on_in_the_middle_after_it_was_forgotten(topic: Topic) -> None:
    for n in range(10):
        topic.append(0, f"job{n}", b"v")
    first = page(topic.log, 0, 0)
    topic.append(0, "job9", b"w")
    topic.log.forget(0)
    found = [record.job_id for record in first.records]
    at = first.next
    while at < first.end:
        one = page(topic.log, 0, at, 100)
        found += [record.job_id for record in one.records]
        at = one.next
    assert found == [f"job{n}" for n in range(10)]


def test_what_is_forgotten_does_not_come(topic: Topic) -> None:
    topic.append(0, "job", b"1")
    topic.append(1, "other", b"1")
    topic.log.begin_read(0, 0, 4)
    topic.log.forget(0)
    assert [record.job_id for record in page(topic.log, 1, 0).records] == ["other"]
    assert topic.log.completed() == []


def test_bits_shared_by_chance_hide_no_record() -> None:
    last = LastOffsets(bits=16)
    offsets = {f"key{n % 50}": n for n in range(120)}
    for n in range(120):
        last.note(f"key{n % 50}", n)
    for n in range(120):
        assert last.is_last(f"key{n % 50}", n) == (offsets[f"key{n % 50}"] == n)
