"""A real Kafka and Cassandra, started and stopped by the development cluster itself."""

import threading
import time

import pytest
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy
from confluent_kafka.admin import AdminClient, NewTopic

from tocsin.devcluster import DevCluster, processes
from tocsin.devcluster.processes import mark

pytestmark = pytest.mark.real

TOPIC = "kept"
KEYSPACE = "kept"
PARTS = ("kafka-1", "cassandra-1")
GIVEN = ("TOCSIN_KAFKA__BOOTSTRAP_SERVERS", "TOCSIN_CASSANDRA__CONTACT_POINTS", "TOCSIN_CASSANDRA__PORT")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    for variable in GIVEN:
        monkeypatch.delenv(variable, raising=False)
    cluster = DevCluster(tmp_path / "with blank")
    yield cluster
    cluster.down()


def pids(tmp_path):
    return [found.pid for part in PARTS for found in processes.find_marked(mark(tmp_path / "with blank" / part))]


def topics(endpoints):
    return set(AdminClient({"bootstrap.servers": endpoints.kafka_bootstrap}).list_topics(timeout=10).topics)


def on_cassandra(endpoints, statement):
    profile = ExecutionProfile(RoundRobinPolicy(), request_timeout=30)
    cluster = Cluster(
        endpoints.cassandra_contact_points,
        port=endpoints.cassandra_port,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        protocol_version=5,
    )
    try:
        return list(cluster.connect().execute(statement))
    finally:
        cluster.shutdown()


def keyspaces(endpoints):
    return {row.keyspace_name for row in on_cassandra(endpoints, "SELECT keyspace_name FROM system_schema.keyspaces")}


@pytest.mark.timeout(600)  # it starts both servers four times over
def test_up_keeps_data_and_address_over_down_and_kill_until_fresh(cluster, tmp_path):
    endpoints = cluster.up(die_with_parent=True)
    assert endpoints.managed
    assert [node.state for node in cluster.status()] == ["running", "running"]
    assert all(node.rss_mb < 1500 for node in cluster.status())

    admin = AdminClient({"bootstrap.servers": endpoints.kafka_bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=1)]).values():
        created.result(timeout=30)
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    on_cassandra(endpoints, f"CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}")
    del admin

    before = sorted(pids(tmp_path))
    began = time.monotonic()
    assert cluster.up(die_with_parent=True) == cluster.endpoints() == endpoints
    assert time.monotonic() - began < 1
    assert sorted(pids(tmp_path)) == before

    cluster.down()
    assert pids(tmp_path) == []
    assert [node.state for node in cluster.status()] == ["stopped", "stopped"]
    cluster.down()

    assert cluster.up(die_with_parent=True) == endpoints
    assert TOPIC in topics(endpoints)
    assert KEYSPACE in keyspaces(endpoints)

    for part in PARTS:
        cluster.kill(part)
    assert cluster.endpoints() is None
    assert {node.state for node in cluster.status()} == {"died"}
    assert cluster.up(die_with_parent=True) == endpoints
    assert TOPIC in topics(endpoints)
    assert KEYSPACE in keyspaces(endpoints)

    endpoints = cluster.up(fresh=True, die_with_parent=True)
    assert TOPIC not in topics(endpoints)
    assert KEYSPACE not in keyspaces(endpoints)


def test_two_at_once_start_one_cluster(cluster, tmp_path):
    found = []
    threads = [threading.Thread(target=lambda: found.append(cluster.up())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0] == found[1]
    assert len(pids(tmp_path)) == 2
    (tmp_path / "with blank" / "state.json").unlink()  # even then nothing is left behind
    cluster.down()
    assert pids(tmp_path) == []
