"""A trigger looks for cyclic garbage while nothing is due, and only when there may be some."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from tocsin.bootstrap.garbage import look_when_idle


class Knot:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    """Let nothing but what is tested look for garbage."""
    former = gc.get_threshold()
    gc.collect()
    gc.set_threshold(100_000_000, *former[1:])
    yield
    gc.set_threshold(*former)


def test_garbage_is_looked_for_where_many_objects_were_made() -> None:
    gone = weakref.ref(Knot())
    kept = [[] for _ in range(2_000)]  # type: list[list[int]]
    look_when_idle(1_000)
    assert gone() is None
    assert len(kept) == 2_000


def test_where_few_were_made_nobody_looks() -> None:
    there = weakref.ref(Knot())
    look_when_idle(100_000)
    assert there() is not None


def test_a_service_that_has_turned_the_collector_off_is_let_alone() -> None:
    there = weakref.ref(Knot())
    gc.disable()
    try:
        look_when_idle(0)
    finally:
        gc.enable()
    assert there() is not None
