"""Port choice: free ones, kept while free, all different."""

import socket

import pytest

from tocsin.devcluster import DevClusterError, ports


@pytest.fixture
def taken_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_ports_are_distinct_and_below_the_range_of_outgoing_connections():
    chosen = ports.choose(["a", "b", "c"], {})
    assert len(set(chosen.values())) == 3
    assert all(ports.PORT_MIN <= port <= ports.PORT_MAX for port in chosen.values())


def test_a_kept_port_is_used_again_while_it_is_free():
    first = ports.choose(["a", "b"], {})
    assert ports.choose(["a", "b"], first) == first


def test_a_kept_port_that_is_taken_is_replaced_and_the_others_stay(taken_port):
    free = ports.choose(["b"], {})["b"]
    chosen = ports.choose(["a", "b"], {"a": taken_port, "b": free})
    assert chosen["a"] != taken_port
    assert chosen["b"] == free


def test_ports_of_other_nodes_are_avoided_though_nobody_listens_yet():
    port = ports.choose(["a"], {})["a"]
    assert ports.choose(["a"], {"a": port}, avoid={port})["a"] != port


def test_no_free_port_is_an_error_not_an_endless_search(monkeypatch):
    monkeypatch.setattr(ports, "is_free", lambda port, host: False)
    with pytest.raises(DevClusterError, match="no free port"):
        ports.choose(["a"], {})
