"""Fixtures of whole systems."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.system import System
from tocsin.devcluster import Endpoints


def _system(cluster: Endpoints, directory: Path) -> Iterator[System]:
    system = System(cluster, f"t{uuid.uuid4().hex[:12]}", directory)
    system.create()
    try:
        yield system
    finally:
        system.close()
        for log in sorted(directory.glob("*.log")):
            sys.stdout.write(f"--- {log.name}\n{log.read_text()[-4000:]}\n")


@pytest.fixture(scope="module")
def shared_system(cluster: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system for the tests of a module: making tables and topics takes longer than most tests."""
    yield from _system(cluster, tmp_path_factory.mktemp("system"))


@pytest.fixture
def system(shared_system: System) -> System:
    """The module's system with all roles running; a test may kill them, the next one finds them up again."""
    shared_system.refresh()
    return shared_system
