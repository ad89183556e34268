"""What holds for every plan at every instant, whatever the zone does there."""

from __future__ import annotations

import math
import random
from typing import Final, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.recurrence.test_second_opinions import expressions
from tests.unit.recurrence.zone_files import ODD_ZONES, transitions
from tocsin.domain.instants import DAY, EARLIEST, LATEST, SECOND
from tocsin.domain.recurrence import CronError, CronPlan, DstPolicy, compile_cron
from tocsin.domain.recurrence.plan import MEMO_ENTRIES_MAX

GAPS: Final[tuple[Literal["shift", "skip"], ...]] = ("shift", "skip")
OVERLAPS: Final[tuple[Literal["first", "second", "both"], ...]] = ("first", "second", "both")
patient = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A loaded machine is no reason to fail."""

policies = st.builds(DstPolicy, st.sampled_from(GAPS), st.sampled_from(OVERLAPS))


@st.composite
def plans(draw: st.DrawFn) -> CronPlan:
    while True:
        try:
            return compile_cron(draw(expressions), draw(st.sampled_from(ODD_ZONES)), draw(policies))
        except CronError:
            continue


@st.composite
def instants(draw: st.DrawFn) -> int:
    """Any instant that schedules may have, or one within three days of a change of some clock."""
    if draw(st.booleans()):
        return draw(st.integers(EARLIEST, LATEST))
    change = draw(st.sampled_from(transitions(draw(st.sampled_from(ODD_ZONES)))))
    return change * SECOND + draw(st.integers(-3 * DAY, 3 * DAY))


@patient
@given(plans(), instants())
def test_next_and_previous_are_neighbours(plan: CronPlan, at: int) -> None:
    after, before = plan.next_after(at), plan.previous_before(at)
    if after is not None:
        assert at < after <= LATEST
        assert after % SECOND == 0
        assert plan.next_after(after - 1) == after
        assert plan.previous_before(after + 1) == after
        inside = plan.previous_before(after)
        assert inside == (at if inside == at else before), "something lies between an instant and its next occurrence"
    if before is not None:
        assert EARLIEST <= before < at
        assert plan.next_after(before - 1) == before
        inside = plan.next_after(before)
        assert inside == (at if inside == at else after)


@patient
@given(plans(), instants(), instants())
def test_later_questions_never_get_earlier_answers(plan: CronPlan, one: int, other: int) -> None:
    early, late = sorted((one, other))
    first, second = plan.next_after(early), plan.next_after(late)
    assert (math.inf if first is None else first) <= (math.inf if second is None else second)
    first, second = plan.previous_before(early), plan.previous_before(late)
    assert (-math.inf if first is None else first) <= (-math.inf if second is None else second)


@settings(patient, max_examples=30)
@given(plans(), instants())
def test_between_is_next_again_and_again(plan: CronPlan, at: int) -> None:
    found = plan.between(at, at + 400 * DAY, 20)
    assert found == sorted(set(found))
    step: int | None = at
    for expected in found:
        assert step is not None
        step = plan.next_after(step)
        assert step == expected
    if len(found) < 20:
        rest = plan.next_after(found[-1] if found else at)
        assert rest is None or rest > at + 400 * DAY


@settings(patient, max_examples=30)
@given(plans(), st.lists(instants(), min_size=1, max_size=5))
def test_the_memo_changes_no_answer(plan: CronPlan, asked: list[int]) -> None:
    fresh = {at: plan._next(at) for at in asked}  # past the memo
    for _ in range(2):
        assert {at: plan.next_after(at) for at in asked} == fresh


def test_the_memo_is_bounded() -> None:
    plan = compile_cron("*/7 3 * * *", "Asia/Tokyo")
    for at in range(10 * MEMO_ENTRIES_MAX):
        plan.next_after(at)
        assert len(plan._memo) <= MEMO_ENTRIES_MAX


def test_a_policy_both_is_first_and_second_together() -> None:
    rng = random.Random(3)
    for zone in ("Europe/London", "Antarctica/Troll", "Australia/Lord_Howe"):
        for change in rng.sample(transitions(zone), 4):
            start, end = (change - 3 * 86_400) * SECOND, (change + 3 * 86_400) * SECOND
            first, second, both = (
                set(compile_cron("0-59/10 1,2 * * *", zone, DstPolicy("shift", overlap)).between(start, end, 999))
                for overlap in OVERLAPS
            )
            assert first, zone
            assert both == first | second


def test_the_ends_of_time() -> None:
    plan = compile_cron("0 0 1 1 *", "UTC")
    assert plan.next_after(-1) == 0
    assert plan.next_after(-(10**30)) == 0
    assert plan.previous_before(0) is None
    assert plan.previous_before(1) == 0
    assert plan.next_after(LATEST - 366 * DAY) is not None
    assert plan.next_after(LATEST - 364 * DAY) is None
    assert plan.next_after(LATEST) is None
    assert plan.next_after(10**30) is None
    last = plan.previous_before(10**30)
    assert last is not None
    assert LATEST - 366 * DAY < last <= LATEST


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC"])
def test_the_ends_of_time_are_utc_everywhere(zone: str) -> None:
    plan = compile_cron("* * * * * *", zone)
    assert plan.next_after(-1) == 0
    assert plan.previous_before(1) == 0
    assert plan.previous_before(LATEST + 1) == LATEST - LATEST % SECOND
    assert plan.next_after(LATEST - SECOND) == LATEST - LATEST % SECOND
    assert plan.next_after(LATEST - LATEST % SECOND) is None
