"""What the log of cancels promises, asked of the real broker and of the one in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.kafka.cancel_log import KafkaCancelLog
from tocsin.adapters.memory.cancel_log import MemoryCancelLog
from tocsin.domain.fleet import Cancel
from tocsin.ports.cancel_log import CancelLog

CODEC = AvroCodec()


@dataclass
class Control:
    """Where cancels are written, and how to read them."""

    write: Callable[..., None]
    open: Callable[[], CancelLog]


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def control(request: pytest.FixtureRequest, unique: str) -> Iterator[Control]:
    if request.param == "memory":
        written: list[Cancel] = []
        yield Control(lambda cancel, **_: written.append(cancel), lambda: MemoryCancelLog(written))
        return
    bootstrap = request.getfixturevalue("cluster").kafka_bootstrap
    topic = f"{unique}.worker-control"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique})
    producer.init_transactions(20)

    def write(cancel: Cancel, ahead_s: int = 0) -> None:
        stamp = round((time.time() + ahead_s) * 1000)
        producer.begin_transaction()
        producer.produce(topic, CODEC.encode_cancel(cancel), cancel.execution_id, timestamp=stamp)
        producer.commit_transaction(20)

    opened: list[KafkaCancelLog] = []

    def open_log() -> CancelLog:
        opened.append(KafkaCancelLog(bootstrap, topic, "reader", CODEC))
        return opened[-1]

    yield Control(write, open_log)
    for one in opened:
        one.close()


def test_nothing_is_loaded_where_nothing_was_written(control: Control) -> None:
    assert control.open().load() == []


def test_all_that_is_committed_is_loaded_and_the_rest_comes(control: Control) -> None:
    """Every record is followed by a marker, so the last offset never holds a record."""
    for n in range(5):
        control.write(Cancel(f"e{n}", n, 1))
    log = control.open()
    assert [cancel.token for cancel in log.load()] == [0, 1, 2, 3, 4]
    control.write(Cancel("e9", 9, 1))
    found: list[Cancel] = []
    while not found:
        found += log.poll(10)
    assert found == [Cancel("e9", 9, 1)]


def test_each_reader_is_told_all(control: Control) -> None:
    control.write(Cancel("e1", 1, 1))
    assert [len(control.open().load()) for _ in range(2)] == [1, 1]


def test_all_is_loaded_though_a_record_is_stamped_with_a_time_to_come(control: Control) -> None:
    """Who takes such a record for the present believes that it has caught up."""
    for n, ahead_s in enumerate([0, 3_500, 0, -3_500]):
        control.write(Cancel(f"e{n}", n, 1), ahead_s=ahead_s)
    assert [cancel.token for cancel in control.open().load()] == [0, 1, 2, 3]
