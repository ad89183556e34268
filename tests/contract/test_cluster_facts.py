"""The contract of the cluster's facts, held against the fake and against the real thing."""

from __future__ import annotations

import uuid

import pytest

from tocsin.adapters.memory.cluster_facts import MemoryClusterFacts
from tocsin.ports.cluster_facts import ClusterFacts


@pytest.fixture(params=["memory", pytest.param("cassandra", marks=pytest.mark.real)])
def facts(request: pytest.FixtureRequest) -> ClusterFacts:
    if request.param == "memory":
        return MemoryClusterFacts()
    from tocsin.adapters.cassandra.cluster_facts import CassandraClusterFacts

    return CassandraClusterFacts(request.getfixturevalue("connection"))


def test_the_highest_timestamp_stays_and_of_equal_ones_the_greater_text(facts: ClusterFacts) -> None:
    name = uuid.uuid4().hex
    assert facts.read_fact(name) is None
    seen = []
    for value, timestamp in (("b", 2), ("z", 1), ("a", 2), ("c", 2), ("A", 3)):
        facts.write_fact(name, value, timestamp)
        seen.append(facts.read_fact(name))
    assert seen == ["b", "b", "b", "c", "A"]
