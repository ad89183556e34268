"""Addresses given by the environment."""

import socket

import pytest

from tocsin.devcluster import DevCluster, DevClusterError
from tocsin.devcluster.endpoints import GivenEndpoints

KAFKA = "TOCSIN_KAFKA__BOOTSTRAP_SERVERS"
CASSANDRA = "TOCSIN_CASSANDRA__CONTACT_POINTS"


def test_nothing_given_leaves_both_to_us():
    assert GivenEndpoints.from_environ({}) == GivenEndpoints(None, None, 9042)


@pytest.mark.parametrize("text", ["a:1,b:2", " a:1 , b:2,", '["a:1", "b:2"]'])
def test_lists_are_commas_or_json(text):
    assert GivenEndpoints.from_environ({KAFKA: text}).kafka_bootstrap == "a:1,b:2"


def test_cassandra_has_points_and_one_port():
    given = GivenEndpoints.from_environ({CASSANDRA: "x,y", "TOCSIN_CASSANDRA__PORT": "19042"})
    assert given.cassandra_contact_points == ("x", "y")
    assert given.cassandra_port == 19042


@pytest.mark.parametrize(
    "environ", [{KAFKA: "[broken"}, {CASSANDRA: "x", "TOCSIN_CASSANDRA__PORT": "many"}, {KAFKA: "host:many"}]
)
def test_nonsense_is_named(environ):
    with pytest.raises(DevClusterError, match="TOCSIN_"):
        GivenEndpoints.from_environ(environ).check()


def test_when_all_is_given_nothing_is_started_or_written(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv(KAFKA, f"127.0.0.1:{port}")
        monkeypatch.setenv(CASSANDRA, "127.0.0.1")
        monkeypatch.setenv("TOCSIN_CASSANDRA__PORT", str(port))
        endpoints = DevCluster(tmp_path / "dev").up()
    assert not endpoints.managed
    assert endpoints.kafka_bootstrap == f"127.0.0.1:{port}"
    assert endpoints.cassandra_contact_points == ("127.0.0.1",)
    assert not (tmp_path / "dev").exists()


def test_what_is_given_but_does_not_answer_is_named_with_the_remedy(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv(KAFKA, f"127.0.0.1:{port}")
    with pytest.raises(DevClusterError, match=f"Kafka is not reachable where {KAFKA} says") as raised:
        DevCluster(tmp_path / "dev").up()
    assert "unset it" in raised.value.remedy


@pytest.mark.parametrize("size", [{"brokers": 0}, {"brokers": 10}, {"stores": 0}, {"stores": -1}])
def test_a_size_that_cannot_be_is_refused(tmp_path, size):
    with pytest.raises(DevClusterError, match="were asked for"):
        DevCluster(tmp_path, **size)


def test_a_directory_knows_its_size_and_takes_no_other(tmp_path):
    for name in ("kafka-1", "kafka-2", "kafka-3", "cassandra-1"):
        (tmp_path / name).mkdir()
    assert [node.name for node in DevCluster(tmp_path).status()] == ["cassandra-1", "kafka-1", "kafka-2", "kafka-3"]
    with pytest.raises(DevClusterError, match=r"laid out for 3 kafka node\(s\), and 1 were asked for"):
        DevCluster(tmp_path, brokers=1).up()
