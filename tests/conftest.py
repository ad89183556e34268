"""Fixtures that start the real parts: one Kafka broker and one Cassandra node for the whole test run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tocsin.devcluster import DevCluster, Endpoints

# How long an example takes says nothing on a busy machine.
settings.register_profile("tocsin", deadline=None)
settings.load_profile("tocsin")

# Servers that live for minutes never earn back what the second compiler and the parallel collector cost at their start:
# a store starts with 6 s of processor time instead of 10. Whoever is started by a test inherits it.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def dev_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A real broker and store, started once and stopped at the end; who stops one of them starts it again."""
    dev = DevCluster(tmp_path_factory.mktemp("devcluster"))
    dev.up(fresh=True, die_with_parent=True)
    yield dev
    # Nobody will read its data, so it need not take the time to put them in order.
    for node in dev.status():
        if node.state != "external":
            dev.kill(node.name)
    dev.down()


@pytest.fixture(scope="session")
def cluster(dev_cluster: DevCluster) -> Endpoints:
    """The addresses of the real broker and store."""
    endpoints = dev_cluster.endpoints()
    assert endpoints is not None
    return endpoints


@pytest.fixture
def unique() -> str:
    """A name that no other test uses: for topic prefixes and keyspaces."""
    return f"t{uuid.uuid4().hex[:12]}"
