"""Fixtures that start the real parts: one Kafka broker and one Cassandra node for the whole test run."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.kafka_topics import await_coordinator
from tocsin.devcluster import DevCluster, Endpoints

# How long an example takes says nothing on a busy machine.
settings.register_profile("tocsin", deadline=None)
settings.load_profile("tocsin")

# Servers that live for minutes never earn back what the second compiler and the parallel collector cost at their start:
# a store starts with 6 s of processor time instead of 10. Whoever is started by a test inherits it.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

REAL_UNTIL = 0.75
"""At which part of a run its last file that needs servers begins; the short ones after it even the ends out."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a run by several workers let files that mostly wait, for servers, run beside files that only compute.

    Directory by directory, all workers would wait together first, and then compute together.
    """
    if not hasattr(config, "workerinput"):
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    groups: dict[bool, list[Path]] = {True: [], False: []}
    for path, found in files.items():
        groups[any(item.get_closest_marker("real") for item in found)].append(path)
    place = {
        path: number / len(paths) * (REAL_UNTIL if waits else 1)
        for waits, paths in groups.items()
        for number, path in enumerate(paths)
    }
    items[:] = [item for path in sorted(files, key=place.__getitem__) for item in files[path]]


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
    # A broker makes the topic of groups' offsets when it is first asked for any, and refuses meanwhile. Which test asks
    # first is chance.
    await_coordinator(endpoints.kafka_bootstrap, "first")
    return endpoints


@pytest.fixture
def unique() -> str:
    """A name that no other test uses: for topic prefixes and keyspaces."""
    return f"t{uuid.uuid4().hex[:12]}"
