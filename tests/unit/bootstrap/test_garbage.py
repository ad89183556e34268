"""What is loaded is left alone by the collector, and nobody's own setting is made stricter or undone."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tocsin.bootstrap.garbage import WORKER_YOUNG_MAX, YOUNG_MAX, collect_rarely


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.mark.parametrize(
    ("set_to", "asked", "then"),
    [
        (700, WORKER_YOUNG_MAX, WORKER_YOUNG_MAX),
        (700, YOUNG_MAX, YOUNG_MAX),
        (90_000, WORKER_YOUNG_MAX, 90_000),
        (0, 1, 0),
    ],
)
def test_the_young_are_looked_at_more_rarely(set_to: int, asked: int, then: int) -> None:
    gc.set_threshold(set_to, 11, 12)
    collect_rarely(asked)
    assert gc.get_threshold() == (then, 11, 12)
    assert gc.get_freeze_count() > 0
