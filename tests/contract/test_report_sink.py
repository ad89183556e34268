"""The contract of ``ports.report_sink``, run against memory and a real broker."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.kafka_topics import create_topics
from tocsin.adapters.kafka.report_sink import KafkaReportSink, count_partitions, producer_config
from tocsin.adapters.memory.report_sink import MemoryReportSink
from tocsin.devcluster import Endpoints
from tocsin.domain.errors import Refused
from tocsin.domain.sharding import shard_key, shard_of
from tocsin.ports.report_sink import ReportSink

SHARDS = 4


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.real)])
def sink(request: pytest.FixtureRequest, unique: str) -> ReportSink:
    if request.param == "memory":
        return MemoryReportSink()
    bootstrap = request.getfixturevalue("cluster").kafka_bootstrap
    return KafkaReportSink(producer_config(bootstrap, "contract"), make_topic(bootstrap, unique))


def make_topic(bootstrap: str, name: str) -> str:
    create_topics(bootstrap, {f"{name}.reports": SHARDS})
    return f"{name}.reports"


def acknowledgements(sink: ReportSink, count: int) -> list[Any]:
    refs: list[Any] = []
    until = time.monotonic() + 60
    while len(refs) < count and time.monotonic() < until:
        refs += sink.acknowledged(0.05)
    return refs


def test_every_report_is_acknowledged_once_by_its_ref(sink: ReportSink) -> None:
    refs = [object() for _ in range(200)]
    for n, ref in enumerate(refs):
        sink.send(ref, f"job{n}", b"report")
    acknowledged = acknowledgements(sink, 200)
    assert {id(ref) for ref in acknowledged} == {id(ref) for ref in refs}
    assert len(acknowledged) == 200
    assert sink.acknowledged(0) == []
    sink.close(10)


@pytest.mark.real
def test_reports_go_to_the_shards_that_own_their_jobs(cluster: Endpoints, unique: str) -> None:
    topic = make_topic(cluster.kafka_bootstrap, unique)
    sink = KafkaReportSink(producer_config(cluster.kafka_bootstrap, "contract"), topic)
    jobs = [f"acme@job{n}" for n in range(50)] + ["grp~one", "grp~two"]
    for job in jobs:
        sink.send(job, job, job.encode())
    sink.close(30)
    assert sorted(sink.acknowledged(0)) == sorted(jobs)
    reader = Consumer({"bootstrap.servers": cluster.kafka_bootstrap, "group.id": unique, "enable.auto.commit": False})
    reader.assign([TopicPartition(topic, shard, 0) for shard in range(SHARDS)])
    found: dict[str, int] = {}
    until = time.monotonic() + 60
    while len(found) < len(jobs) and time.monotonic() < until:
        for message in reader.consume(100, 0.2):
            value, shard = message.value(), message.partition()
            assert value is not None
            assert shard is not None
            assert message.key() == shard_key(value.decode()).encode()
            found[value.decode()] = shard
    reader.close()
    assert found == {job: shard_of(job, SHARDS) for job in jobs}


@pytest.mark.real
def test_partitions_are_counted_and_a_missing_topic_is_named(cluster: Endpoints, unique: str) -> None:
    topic = make_topic(cluster.kafka_bootstrap, unique)
    assert count_partitions(cluster.kafka_bootstrap, topic, 20) == SHARDS
    with pytest.raises(Refused, match=f"{unique}.missing does not exist"):
        count_partitions(cluster.kafka_bootstrap, f"{unique}.missing", 20)
