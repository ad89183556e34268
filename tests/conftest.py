"""Fixtures that start the real parts: one Kafka broker and one Cassandra node for the whole test run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tocsin.devcluster import DevCluster, Endpoints

# How long an example takes says nothing on a busy machine.
settings.register_profile("tocsin", deadline=None)
settings.load_profile("tocsin")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoints]:
    """The addresses of a real broker and store, started once and stopped at the end."""
    dev = DevCluster(tmp_path_factory.mktemp("devcluster"))
    endpoints = dev.up(fresh=True, die_with_parent=True)
    yield endpoints
    dev.down()


@pytest.fixture
def unique() -> str:
    """A name that no other test uses: for topic prefixes and keyspaces."""
    return f"t{uuid.uuid4().hex[:12]}"
