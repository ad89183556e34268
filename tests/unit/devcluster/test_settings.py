"""What is written for the servers: properties, argument files, cassandra.yaml."""

from pathlib import Path

import yaml

from tocsin.devcluster.cassandra import CassandraNode
from tocsin.devcluster.kafka import KafkaNode
from tocsin.devcluster.node import Runtime, argument_file, properties


def test_properties_are_rendered_one_a_line():
    text = properties({"a": 1, "b": False, "c": Path("/x y"), "d": "back\\slash"})
    assert text == "a=1\nb=false\nc=/x y\nd=back\\\\slash\n"


def test_argument_file_quotes_blanks_quotes_and_backslashes():
    assert argument_file(["-Da=b c", 'say "x"', "c:\\d"]) == '"-Da=b c"\n"say \\"x\\""\n"c:\\\\d"\n'


def test_kafka_listens_on_loopback_only_and_keeps_its_data_in_its_directory():
    node = KafkaNode("kafka-1", Path("/d/kafka-1"))
    settings = node.settings({"kafka-1": {"client": 20001, "controller": 20002}})
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:20001,CONTROLLER://127.0.0.1:20002"
    assert settings["advertised.listeners"] == settings["listeners"]
    assert settings["controller.quorum.bootstrap.servers"] == "127.0.0.1:20002"
    assert settings["log.dirs"] == Path("/d/kafka-1/data")
    assert settings["auto.create.topics.enable"] is False


def test_three_brokers_are_one_quorum_and_keep_three_copies():
    ports = {f"kafka-{n}": {"client": 20000 + n, "controller": 20010 + n} for n in (1, 2, 3)}
    every = [KafkaNode(f"kafka-{n}", Path(f"/d/kafka-{n}"), n, 3).settings(ports) for n in (1, 2, 3)]
    assert [settings["node.id"] for settings in every] == [1, 2, 3]
    quorums = {settings["controller.quorum.bootstrap.servers"] for settings in every}
    assert quorums == {"127.0.0.1:20011,127.0.0.1:20012,127.0.0.1:20013"}
    for name in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic", "default"):
        assert {settings[f"{name}.replication.factor"] for settings in every} == {3}
    assert {settings["transaction.state.log.min.isr"] for settings in every} == {2}


def test_nodes_of_a_ring_have_addresses_of_their_own_and_one_seed():
    ports = {f"cassandra-{n}": {"client": 20003, "storage": 20004, "jmx": 20010 + n} for n in (1, 2, 3)}
    nodes = [CassandraNode(f"cassandra-{n}", Path(f"/d/cassandra-{n}"), n, 3) for n in (1, 2, 3)]
    every = [node.settings(ports) for node in nodes]
    assert [settings["listen_address"] for settings in every] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    assert {str(settings["seed_provider"]) for settings in every} == {str(every[0]["seed_provider"])}
    assert [node.must_wait_for() for node in nodes] == [None, "cassandra-1", "cassandra-2"]


def test_who_has_joined_a_ring_waits_for_nobody(tmp_path):
    second = CassandraNode("cassandra-2", tmp_path, 2, 3)
    second.data.mkdir()
    assert second.must_wait_for() == "cassandra-1"
    second.note_ready()
    assert second.must_wait_for() is None


def test_cassandra_yaml_survives_a_round_trip():
    node = CassandraNode("cassandra-1", Path("/d/cassandra-1"))
    settings = node.settings({"cassandra-1": {"client": 20003, "storage": 20004, "jmx": 20005}})
    read = yaml.safe_load(yaml.safe_dump(settings))
    assert read == settings
    assert read["native_transport_port"] == 20003
    assert read["seed_provider"][0]["parameters"] == [{"seeds": "127.0.0.1:20004"}]
    assert read["rpc_address"] == read["listen_address"] == "127.0.0.1"


def test_cassandra_options_name_the_agent_and_quote_nothing_themselves():
    node = CassandraNode("cassandra-1", Path("/with blank/cassandra-1"))
    runtime = Runtime(Path("/java"), (Path("/c/cassandra-all.jar"), Path("/c/jamm-0.4.0.jar")))
    options = node.jvm_options(runtime, {"client": 1, "storage": 2, "jmx": 3})
    assert "-javaagent:/c/jamm-0.4.0.jar" in options
    assert "-Dcassandra.config=file:///with%20blank/cassandra-1/cassandra.yaml" in options
    assert options[-2:] == ["-cp", "/c/cassandra-all.jar:/c/jamm-0.4.0.jar"]
