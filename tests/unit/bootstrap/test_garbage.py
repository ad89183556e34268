"""What is loaded is left alone by the collector, and nobody's own setting is made stricter or undone.

A trigger looks for cyclic garbage while nothing is due, and only when there may be some.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tocsin.bootstrap.garbage import WORKER_YOUNG_MAX, YOUNG_MAX, collect_rarely, look_when_idle


class Knot:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.fixture
def by_hand() -> None:
    """Let nothing but what is tested look for garbage."""
    gc.collect()
    gc.set_threshold(100_000_000, *gc.get_threshold()[1:])


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


@pytest.mark.usefixtures("by_hand")
def test_garbage_is_looked_for_where_many_objects_were_made() -> None:
    gone = weakref.ref(Knot())
    kept = [[] for _ in range(2_000)]  # type: list[list[int]]
    look_when_idle(1_000)
    assert gone() is None
    assert len(kept) == 2_000


@pytest.mark.usefixtures("by_hand")
def test_where_few_were_made_nobody_looks() -> None:
    there = weakref.ref(Knot())
    look_when_idle(100_000)
    assert there() is not None


@pytest.mark.usefixtures("by_hand")
def test_a_service_that_has_turned_the_collector_off_is_let_alone() -> None:
    there = weakref.ref(Knot())
    gc.disable()
    try:
        look_when_idle(0)
    finally:
        gc.enable()
    assert there() is not None
