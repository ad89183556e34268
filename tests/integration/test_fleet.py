"""The roll call on a real broker: the latest beat of each process, and ``tocsin fleet`` over it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from tests.kafka_topics import create_topics
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.fleet_beats import KafkaFleetBeats
from tocsin.adapters.kafka.fleet_roll import call_roll
from tocsin.cli.app import app
from tocsin.devcluster import Endpoints
from tocsin.domain.errors import Unavailable
from tocsin.domain.fleet import Heartbeat
from tocsin.domain.instants import SECOND

pytestmark = pytest.mark.real
STARTED = 1_791_633_600 * SECOND
LATER = 4_102_444_800 * SECOND


def beat(role: str, number: int, *, stopped: bool = False, pools: tuple[str, ...] = ()) -> Heartbeat:
    started_at = STARTED + number
    return Heartbeat(f"{role}-{number}", f"{role}-name", role, "host-a", "1.2.3", started_at, stopped, pools=pools)


@pytest.fixture
def prefix(cluster: Endpoints, unique: str) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": cluster.kafka_bootstrap})
    topic = NewTopic(f"{unique}.fleet", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([topic])[topic.topic].result(60)
    yield f"{unique}."
    admin.delete_topics([topic.topic])[topic.topic].result(60)


def send(cluster: Endpoints, prefix: str, *beats: Heartbeat) -> None:
    sender = KafkaFleetBeats(cluster.kafka_bootstrap, "test", f"{prefix}fleet", AvroCodec(), 60.0)
    for one in beats:
        sender.send(one)
    sender.close(60.0)


def test_the_latest_beat_of_each_process_is_told(cluster: Endpoints, prefix: str) -> None:
    def roll(since: int = 0) -> list[Heartbeat]:
        return [seen.heartbeat for seen in call_roll(cluster.kafka_bootstrap, f"{prefix}fleet", AvroCodec(), since)]

    assert roll() == []
    send(cluster, prefix, beat("worker", 2), beat("trigger", 1), beat("worker", 1))
    send(cluster, prefix, beat("worker", 2, stopped=True), beat("worker", 1))
    assert roll() == [beat("trigger", 1), beat("worker", 1), beat("worker", 2, stopped=True)]
    assert roll(since=LATER) == []


def test_what_can_not_be_read_is_left_out(cluster: Endpoints, prefix: str) -> None:
    from confluent_kafka import Producer

    send(cluster, prefix, beat("worker", 1))
    producer = Producer({"bootstrap.servers": cluster.kafka_bootstrap})
    for value in (b"rubbish", None):
        producer.produce(f"{prefix}fleet", value, b"x")
    assert producer.flush(60) == 0
    seen = call_roll(cluster.kafka_bootstrap, f"{prefix}fleet", AvroCodec(), 0)
    assert [one.heartbeat for one in seen] == [beat("worker", 1)]


def test_a_topic_that_is_not_there_is_unavailable(cluster: Endpoints, unique: str) -> None:
    with pytest.raises(Unavailable):
        call_roll(cluster.kafka_bootstrap, f"{unique}.fleet", AvroCodec(), 0)


def test_the_command_shows_it(cluster: Endpoints, prefix: str) -> None:
    send(cluster, prefix, beat("worker", 1), beat("trigger", 1, stopped=True))
    environ = {"TOCSIN_KAFKA__BOOTSTRAP_SERVERS": cluster.kafka_bootstrap, "TOCSIN_KAFKA__TOPIC_PREFIX": prefix}
    result = CliRunner().invoke(app, ["fleet"], env=environ)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ROLE", "trigger", "worker"]
    assert lines[1].rstrip().endswith("stopped")
    result = CliRunner().invoke(app, ["fleet", "-o", "json", "--since", "5m"], env=environ)
    worker = json.loads(result.stdout)["processes"][1]
    assert (worker["name"], worker["version"], worker["state"]) == ("worker-name", "1.2.3", "alive")
    assert worker["last_beat_age_s"] >= 0


def test_it_shows_how_many_living_workers_each_pool_has(cluster: Endpoints, prefix: str) -> None:
    create_topics(cluster.kafka_bootstrap, {f"{prefix}executions.pool.unserved": 1})
    send(cluster, prefix, beat("worker", 1, pools=("gpu",)), beat("worker", 2, pools=("gpu", "cpu"), stopped=True))
    environ = {"TOCSIN_KAFKA__BOOTSTRAP_SERVERS": cluster.kafka_bootstrap, "TOCSIN_KAFKA__TOPIC_PREFIX": prefix}
    result = CliRunner().invoke(app, ["fleet", "-o", "json"], env=environ)
    counts = {pool["name"]: pool["workers"] for pool in json.loads(result.stdout)["pools"]}
    assert counts == {"gpu": 1, "cpu": 0, "unserved": 0}
    assert "unserved" in CliRunner().invoke(app, ["fleet"], env=environ).stdout


def test_without_a_broker_it_is_3() -> None:
    result = CliRunner().invoke(app, ["fleet"], env={"TOCSIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    assert result.exit_code == 3
    assert "tocsin dev" in result.stderr
