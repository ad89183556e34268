"""Intervals by arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.domain.instants import EARLIEST, LATEST, SECOND
from tocsin.domain.recurrence import CronError, EveryPlan

MINUTE = 60 * SECOND
PLAN = EveryPlan(15 * SECOND, 1_000 * SECOND)


def test_the_anchor_is_the_first_occurrence() -> None:
    assert PLAN.next_after(EARLIEST) == 1_000 * SECOND
    assert PLAN.next_after(1_000 * SECOND - 1) == 1_000 * SECOND
    assert PLAN.previous_before(1_000 * SECOND) is None
    assert PLAN.previous_before(1_000 * SECOND + 1) == 1_000 * SECOND


def test_after_an_occurrence_comes_the_next_one() -> None:
    assert PLAN.next_after(1_000 * SECOND) == 1_015 * SECOND
    assert PLAN.next_after(1_014_999_999) == 1_015 * SECOND
    assert PLAN.previous_before(1_030 * SECOND) == 1_015 * SECOND


def test_a_stretch_is_open_below_and_closed_above() -> None:
    assert PLAN.between(1_000 * SECOND, 1_045 * SECOND, 100) == [at * SECOND for at in (1_015, 1_030, 1_045)]
    assert PLAN.between(1_000 * SECOND, 1_045 * SECOND, 2) == [at * SECOND for at in (1_015, 1_030)]
    assert PLAN.between(1_000 * SECOND, 1_045 * SECOND, 0) == []


def test_nothing_comes_after_the_year_2199() -> None:
    assert EveryPlan(MINUTE, LATEST - 1).next_after(LATEST - 1) is None
    assert EveryPlan(MINUTE, LATEST - 1).next_after(LATEST + 5 * MINUTE) is None
    assert EveryPlan(MINUTE, LATEST + 1).next_after(0) is None
    last = PLAN.previous_before(LATEST * 2)
    assert last is not None
    assert LATEST - 15 * SECOND < last <= LATEST


def test_an_anchor_before_1970_counts_from_there_but_fires_only_since() -> None:
    plan = EveryPlan(10 * SECOND, -5 * SECOND)
    assert plan.next_after(-100 * SECOND) == 5 * SECOND
    assert plan.previous_before(5 * SECOND) is None


@pytest.mark.parametrize("every_us", [SECOND - 1, 1, 0, -SECOND])
def test_a_period_below_a_second_is_refused(every_us: int) -> None:
    with pytest.raises(CronError) as refused:
        EveryPlan(every_us, 0)
    assert refused.value.field == "every_s"


@settings(deadline=None)
@given(
    st.integers(SECOND, 400 * 86_400 * SECOND),
    st.integers(EARLIEST, LATEST),
    st.integers(EARLIEST, LATEST),
)
def test_neighbours_enclose_any_instant(every_us: int, anchor: int, at: int) -> None:
    plan = EveryPlan(every_us, anchor)
    after, before = plan.next_after(at), plan.previous_before(at)
    if after is not None:
        assert after > at
        assert after >= anchor
        assert (after - anchor) % every_us == 0
        assert after - at <= every_us or after == anchor
    if before is not None:
        assert anchor <= before < at
        assert (before - anchor) % every_us == 0
        assert at - before <= every_us
    assert (before is None) == (at <= anchor)
