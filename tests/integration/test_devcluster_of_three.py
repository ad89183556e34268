"""Three brokers and three stores: what is created there is kept three times, and outlives one of each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cassandra.cluster import Cluster
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from tocsin.devcluster import DevCluster, Endpoints

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

GIVEN = ("TOCSIN_KAFKA__BOOTSTRAP_SERVERS", "TOCSIN_CASSANDRA__CONTACT_POINTS", "TOCSIN_CASSANDRA__PORT")


def tocsin(endpoints: Endpoints, *words: str, tries: int = 1) -> None:
    """Run a command; with more tries, ask again: just after a node's death the others may not know of it yet."""
    env = os.environ | {
        "TOCSIN_KAFKA__BOOTSTRAP_SERVERS": endpoints.kafka_bootstrap,
        "TOCSIN_CASSANDRA__CONTACT_POINTS": ",".join(endpoints.cassandra_contact_points),
        "TOCSIN_CASSANDRA__PORT": str(endpoints.cassandra_port),
    }
    command = [sys.executable, "-m", "tocsin", *words]
    for _ in range(tries):
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stdout + done.stderr


def copies_of_topics(endpoints: Endpoints) -> dict[str, set[int]]:
    admin = AdminClient({"bootstrap.servers": endpoints.kafka_bootstrap})
    names = [name for name in admin.list_topics(timeout=30).topics if name.startswith("tocsin.")]
    described = admin.describe_topics(TopicCollection(names), request_timeout=30)
    return {name: {len(p.replicas) for p in future.result().partitions} for name, future in described.items()}


def replication_of_keyspace(endpoints: Endpoints) -> dict[str, str]:
    cluster = Cluster(endpoints.cassandra_contact_points, port=endpoints.cassandra_port, protocol_version=5)
    try:
        query = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = 'tocsin'"
        return dict(cluster.connect().execute(query, timeout=30).one().replication)
    finally:
        cluster.shutdown()


def test_three_of_each_keep_three_copies_and_lose_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in GIVEN:
        monkeypatch.delenv(variable, raising=False)
    cluster = DevCluster(tmp_path, brokers=3, stores=3)
    try:
        endpoints = cluster.up(die_with_parent=True)
        assert [node.state for node in cluster.status()] == ["running"] * 6
        tocsin(endpoints, "schema", "migrate")
        tocsin(endpoints, "topics", "apply")
        copies = copies_of_topics(endpoints)
        assert copies
        assert set.union(*copies.values()) == {3}
        assert "3" in replication_of_keyspace(endpoints).values()

        for name in ("kafka-2", "cassandra-2"):
            cluster.kill(name)
        # Both go on: the log takes records, and the store answers a quorum.
        producer = Producer({"bootstrap.servers": endpoints.kafka_bootstrap, "acks": "all"})
        errors: list[object] = []
        for shard in range(8):
            producer.produce("tocsin.commands", b"{}", partition=shard, on_delivery=lambda e, _: errors.append(e))
        assert producer.flush(60) == 0
        assert errors == [None] * 8
        tocsin(endpoints, "schema", "status", tries=5)

        for name in ("kafka-2", "cassandra-2"):
            cluster.start(name, die_with_parent=True)
        assert [node.state for node in cluster.status()] == ["running"] * 6
        assert DevCluster(tmp_path).endpoints() == endpoints, "the directory knows its size"
    finally:
        cluster.down()
