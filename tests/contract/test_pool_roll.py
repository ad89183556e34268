"""The contract of the pools' roll, held against the fake and against the real thing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from tests.kafka_topics import await_coordinator, create_topics
from tocsin.adapters.memory.pools import MemoryPoolRoll
from tocsin.devcluster import Endpoints
from tocsin.ports.pools import PoolRoll

Put = Callable[[], None]


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def house(request: pytest.FixtureRequest) -> Iterator[tuple[PoolRoll, Put]]:
    """A roll of two pools with two partitions each, and what puts an execution into one of them."""
    if request.param == "memory":
        fake = MemoryPoolRoll(gpu=2, cpu=2)
        yield fake, lambda: fake.working.add("gpu")
        return
    from tocsin.adapters.kafka.names import TopicNames
    from tocsin.adapters.kafka.pool_roll import KafkaPoolRoll

    cluster: Endpoints = request.getfixturevalue("cluster")
    names = TopicNames(f"{request.getfixturevalue('unique')}.")
    servers = cluster.kafka_bootstrap
    topics = [names.executions(lane) for lane in ("default", "pool.gpu", "pool.cpu", "pool.a.b")]
    create_topics(servers, dict.fromkeys(topics, 2))
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{names.prefix}put"})
    producer.init_transactions(60)

    def put() -> None:
        producer.begin_transaction()
        producer.produce(names.executions("pool.gpu"), b"an execution")
        producer.commit_transaction(60)

    # What was never committed is no work, though offsets count it.
    producer.begin_transaction()
    producer.produce(names.executions("pool.gpu"), b"aborted")
    producer.flush(60)
    producer.abort_transaction(60)
    await_coordinator(servers, names.group("worker.pool.gpu"))
    yield KafkaPoolRoll(servers, names, "test"), put


def test_pools_are_known_by_their_topics_and_by_what_lies_in_them(house: tuple[PoolRoll, Put]) -> None:
    roll, put = house
    assert roll.partitions() == {"gpu": 2, "cpu": 2}
    assert not roll.has_work("gpu")
    put()
    assert roll.has_work("gpu") and not roll.has_work("cpu")
    roll.close()


@pytest.mark.real
def test_what_the_workers_group_has_settled_is_no_work(cluster: Endpoints, unique: str) -> None:
    from confluent_kafka import Consumer, TopicPartition

    from tocsin.adapters.kafka.names import TopicNames
    from tocsin.adapters.kafka.pool_roll import KafkaPoolRoll

    names = TopicNames(f"{unique}.")
    topic, servers = names.executions("pool.gpu"), cluster.kafka_bootstrap
    create_topics(servers, {topic: 1})
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{unique}put"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"an execution")
    producer.commit_transaction(60)
    await_coordinator(servers, names.group("worker.pool.gpu"))
    roll = KafkaPoolRoll(servers, names, "test")
    assert roll.has_work("gpu")
    group = {"bootstrap.servers": servers, "group.id": names.group("worker.pool.gpu")}
    worker = Consumer({**group, "enable.auto.commit": False})
    worker.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    worker.close()
    assert not roll.has_work("gpu"), "behind the last execution lies the mark of its transaction alone"
