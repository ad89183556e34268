"""Reading the newest alerts from a real broker, behind the markers of their transactions, and what comes after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.kafka_topics import create_topics
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.alert_tail import AlertTail
from tocsin.devcluster import Endpoints
from tocsin.domain.alerts import Alert
from tocsin.domain.errors import Unavailable

pytestmark = pytest.mark.real
CODEC = AvroCodec()


class Written:
    """A topic of alerts, written to as owners do."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        create_topics(bootstrap, {topic: 1})
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
        self._producer.init_transactions(20)

    def write(self, numbers: range, *, commit: bool = True) -> None:
        for n in numbers:
            self._producer.begin_transaction()
            self._producer.produce(self.topic, CODEC.encode_alert(Alert("dead_letter", n)))
            self._producer.flush(20)
            if commit:
                self._producer.commit_transaction(20)
            else:
                self._producer.abort_transaction(20)


@pytest.fixture
def written(cluster: Endpoints, unique: str) -> Written:
    return Written(cluster.kafka_bootstrap, f"{unique}.alerts")


@pytest.fixture
def tail(cluster: Endpoints, written: Written) -> Iterator[AlertTail]:
    tail = AlertTail(cluster.kafka_bootstrap, written.topic, "reader", CODEC)
    yield tail
    tail.close()


def test_where_nothing_was_written_there_is_nothing(tail: AlertTail) -> None:
    assert tail.newest(10) == []


def test_the_newest_come_in_order_however_much_was_aborted_between_them(tail: AlertTail, written: Written) -> None:
    written.write(range(12))
    written.write(range(100, 112), commit=False)
    written.write(range(12, 14))
    assert [alert.at for alert in tail.newest(3)] == [11, 12, 13]
    assert [alert.at for alert in tail.newest(100)] == list(range(14))


def test_what_comes_afterwards_is_told_once(tail: AlertTail, written: Written) -> None:
    written.write(range(3))
    assert len(tail.newest(10)) == 3
    written.write(range(3, 5))
    found: list[int] = []
    while len(found) < 2:
        found += [alert.at for alert in tail.poll(0.5)]
    assert found == [3, 4]


def test_a_cluster_without_the_topic_says_so(cluster: Endpoints, unique: str) -> None:
    tail = AlertTail(cluster.kafka_bootstrap, f"{unique}.nowhere", "reader", CODEC)
    try:
        with pytest.raises(Unavailable):
            tail.newest(10)
    finally:
        tail.close()
