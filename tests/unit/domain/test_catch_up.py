"""The fields of catching up: read, refused, written back, and carried to where jobs fire."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.domain.catch_up import GRACE_S_MAX, MAX_CATCH_UP_MAX, CatchUp, OnResume
from tocsin.domain.definitions import JobDefinition, parse, to_mapping
from tocsin.domain.errors import InvalidInput
from tocsin.domain.firing import FiringPlan, Passed, plan_of, plan_text
from tocsin.domain.instants import DAY, SECOND
from tocsin.domain.recurrence import EveryPlan, compile_cron

BASE: dict[str, Any] = {"schedule": {"every_s": 60}, "target": {"type": "http", "url": "https://example.test/"}}


def plan(definition: JobDefinition) -> FiringPlan:
    return plan_of(plan_text(definition, "job", 0))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"catch_up": "skip"},
        {"catch_up": "skip", "grace_s": 0},
        {"catch_up": "skip", "grace_s": GRACE_S_MAX, "misfire_after_s": 3},
        {"catch_up": "fire_all", "max_catch_up": MAX_CATCH_UP_MAX, "on_resume": "catch_up"},
        {"on_resume": "skip"},
    ],
)
def test_what_is_asked_for_is_read_written_back_and_reaches_the_firing(fields: dict[str, Any]) -> None:
    definition = parse({**BASE, **fields})
    policy, fired = definition.catch_up, plan(definition)
    assert parse(to_mapping(definition)) == definition
    assert {name: value for name, value in to_mapping(definition).items() if name in fields} == fields
    assert policy.mode == fields.get("catch_up", CatchUp.FIRE_ONCE) == fired.catch_up
    assert policy.on_resume == (OnResume(fields["on_resume"]) if "on_resume" in fields else None)
    grace = fields.get("grace_s")
    assert fired.grace == (None if grace is None else grace * SECOND)
    assert fired.max_catch_up == fields.get("max_catch_up", 100)
    patience = (grace if grace is not None else fields.get("misfire_after_s", 60)) * SECOND
    assert not fired.is_missed(0, patience) and fired.is_missed(0, patience + 1)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"catch_up": "later"}, "catch_up"),
        ({"catch_up": 1}, "catch_up"),
        ({"grace_s": 5}, "grace_s"),
        ({"catch_up": "fire_all", "grace_s": 5}, "grace_s"),
        ({"catch_up": "skip", "grace_s": -1}, "grace_s"),
        ({"catch_up": "skip", "grace_s": GRACE_S_MAX + 1}, "grace_s"),
        ({"max_catch_up": 5}, "max_catch_up"),
        ({"catch_up": "fire_all", "max_catch_up": 0}, "max_catch_up"),
        ({"catch_up": "fire_all", "max_catch_up": 1.5}, "max_catch_up"),
        ({"catch_up": "fire_all", "max_catch_up": MAX_CATCH_UP_MAX + 1}, "max_catch_up"),
        ({"misfire_after_s": "soon"}, "misfire_after_s"),
        ({"on_resume": "run"}, "on_resume"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse({**BASE, **fields})
    assert [fault.field for fault in refused.value.faults] == [field]


def test_a_range_is_counted_exactly_for_intervals_and_up_to_a_bound_for_cron() -> None:
    every = FiringPlan(EveryPlan(SECOND, 0), offset=SECOND // 2)
    half = SECOND // 2
    assert every.passed(0, 400 * DAY, 10) == Passed(half, 400 * DAY - half, 400 * DAY // SECOND, True)
    cron = FiringPlan(compile_cron("*/10 * * * * *", "UTC"))
    assert cron.passed(0, 60 * SECOND, 6) == Passed(10 * SECOND, 60 * SECOND, 6, True)
    assert cron.passed(0, DAY, 6) == Passed(10 * SECOND, DAY, 6, False)
    assert cron.passed(10 * SECOND, 19 * SECOND, 6) is None
    assert FiringPlan().passed(0, DAY, 6) is None


def test_a_range_keeps_within_the_bounds_of_its_schedule() -> None:
    bounded = FiringPlan(EveryPlan(SECOND, 0), start_at=10 * SECOND, end_at=20 * SECOND)
    assert bounded.passed(0, DAY, 100) == Passed(10 * SECOND, 20 * SECOND, 11, True)
