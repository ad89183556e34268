"""Schedules with bounds, windows, calendars and H: what a job's plan makes of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.domain.coming import coming
from tocsin.domain.definitions import JobDefinition, parse, to_mapping
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.firing import FiringPlan, plan_of, plan_text
from tocsin.domain.instants import DAY, LATEST, MILLISECOND, SECOND, Micros, format_rfc3339, parse_rfc3339
from tocsin.domain.recurrence import EXCLUDED_DATES_MAX, compile_cron
from tocsin.domain.schedules import one_off_at

TARGET = {"type": "http", "url": "https://a.example/"}
NOON = parse_rfc3339("2026-10-10T12:00:00Z")
DAILY = {"cron": "0 2 * * *", "timezone": "UTC"}


def job(schedule: dict[str, Any], **fields: Any) -> JobDefinition:
    definition = parse({"schedule": schedule, "target": TARGET, **fields})
    assert parse(to_mapping(definition)) == definition
    return definition


def plan(schedule: dict[str, Any], job_id: str = "default@a") -> FiringPlan:
    return plan_of(plan_text(job(schedule), job_id, NOON))


def times(schedule: dict[str, Any], count: int = 4, job_id: str = "default@a") -> list[str]:
    return [format_rfc3339(at) for at in coming(job(schedule), job_id, NOON, NOON, count)]


def faults(schedule: Any, **fields: Any) -> list[Fault]:
    with pytest.raises(InvalidInput) as caught:
        parse({"schedule": schedule, "target": TARGET, **fields})
    return list(caught.value.faults)


def _all(of: FiringPlan, after: Micros, upto: Micros) -> list[Micros]:
    """All occurrences after one instant, up to and including another, one by one."""
    found = []
    at = of.next_after(after)
    while at is not None and at <= upto:
        found.append(at)
        at = of.next_after(at)
    return found


@pytest.mark.parametrize("schedule", [DAILY, {"every_s": 86_400, "anchor_at": "2026-10-01T02:00:00Z"}])
def test_nothing_is_before_the_start_or_after_the_end_and_both_are_included(schedule: dict[str, Any]) -> None:
    bounds = {"start_at": "2026-10-12T02:00:00Z", "end_at": "2026-10-14T02:00:00Z"}
    expected = ["2026-10-12T02:00:00Z", "2026-10-13T02:00:00Z", "2026-10-14T02:00:00Z"]
    assert times(schedule | bounds) == expected
    bounded = plan(schedule | bounds)
    first, last = parse_rfc3339(expected[0]), parse_rfc3339(expected[-1])
    assert bounded.next_after(last) is None
    assert bounded.previous_before(LATEST) == last
    assert bounded.previous_before(first) is None
    assert bounded.previous_before(last) == last - DAY
    assert _all(bounded, 0, LATEST) == [first, first + DAY, last]


def test_a_schedule_whose_end_has_passed_has_no_next() -> None:
    assert times(DAILY | {"end_at": "2026-10-10T11:00:00Z"}) == []


@pytest.mark.parametrize("schedule", [DAILY, {"every_s": 60}])
def test_an_end_before_the_start_is_refused(schedule: dict[str, Any]) -> None:
    bounds = {"start_at": "2026-10-12T02:00:00.000001Z", "end_at": "2026-10-12T02:00:00Z"}
    (fault,) = faults(schedule | bounds)
    assert (fault.field, fault.problem) == ("schedule.end_at", "is before start_at")


@pytest.mark.parametrize(
    ("schedule", "field"),
    [
        ({"run_at": "2026-10-12T02:00:00Z", "end_at": "2026-10-13T02:00:00Z"}, "schedule.end_at"),
        ({"delay_s": 5, "start_at": "2026-10-13T02:00:00Z"}, "schedule.start_at"),
        ({"every_s": 5, "calendar": {"exclude": ["2026-12-25"]}}, "schedule.calendar"),
        ({"every_s": 5, "timezone": "UTC"}, "schedule.timezone"),
        (DAILY | {"spread_s": -1}, "schedule.spread_s"),
        (DAILY | {"spread_s": 86_401}, "schedule.spread_s"),
        (DAILY | {"end_at": 1_791_633_600}, "schedule.end_at"),
        (DAILY | {"calendar": ["2026-12-25"]}, "schedule.calendar"),
        (DAILY | {"calendar": {}}, "schedule.calendar.exclude"),
        (DAILY | {"calendar": {"exclude": []}}, "schedule.calendar.exclude"),
        (DAILY | {"calendar": {"exclude": "2026-12-25"}}, "schedule.calendar.exclude"),
        (DAILY | {"calendar": {"exclude": ["2026-12-25"] * (EXCLUDED_DATES_MAX + 1)}}, "schedule.calendar.exclude"),
        (DAILY | {"calendar": {"exclude": ["2026-02-29"]}}, "schedule.calendar.exclude"),
        (DAILY | {"calendar": {"exclude": ["20261225"]}}, "schedule.calendar.exclude"),
        (DAILY | {"calendar": {"exclude": ["2200-01-01"]}}, "schedule.calendar.exclude"),
        (DAILY | {"calendar": {"exclude": [20261225]}}, "schedule.calendar.exclude"),
        (DAILY | {"calendar": {"exclude": ["2026-12-25"], "on_excluded": "never"}}, "schedule.calendar.on_excluded"),
        (DAILY | {"calendar": {"excluded": ["2026-12-25"]}}, "schedule.calendar.excluded"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(schedule: dict[str, Any], field: str) -> None:
    found = faults(schedule)
    assert field in {fault.field for fault in found}
    assert all(fault.remedy for fault in found)


def test_a_window_beside_a_whole_schedule_is_refused() -> None:
    (fault,) = faults(DAILY, spread_s=5)
    assert fault.field == "spread_s"


@given(st.integers(1, 86_400), st.integers(0, 10**6))
@settings(deadline=None)
def test_an_id_has_one_place_in_its_window_and_keeps_it(window_s: int, number: int) -> None:
    job_id = f"default@{number}"
    moved = plan(DAILY | {"spread_s": window_s}, job_id)
    plain = plan(DAILY)
    first, second = moved.next_after(NOON), plain.next_after(NOON)
    assert first is not None
    assert second is not None
    # The window that holds noon may still be open: then its occurrence is yet to come.
    offset = (first - second) % DAY
    assert 0 <= offset < window_s * SECOND
    assert offset % MILLISECOND == 0
    assert moved.next_after(first) == first + DAY
    assert moved.previous_before(first) == first - DAY
    assert _all(moved, first, first + 3 * DAY) == [first + DAY, first + 2 * DAY, first + 3 * DAY]


def test_jobs_spread_over_the_whole_window() -> None:
    minutes = {(plan(DAILY | {"spread_s": 600}, f"t@{n}").offset) // (60 * SECOND) for n in range(200)}
    assert minutes == set(range(10))


def test_one_offs_have_their_place_too_at_either_level() -> None:
    inner = job({"run_at": "2026-10-12T02:00:00Z", "spread_s": 3600}).schedule
    outer = parse({"run_at": "2026-10-12T02:00:00Z", "spread_s": 3600, "target": TARGET}).schedule
    delayed = parse({"delay_s": 0, "spread_s": 3600, "target": TARGET}).schedule
    base = parse_rfc3339("2026-10-12T02:00:00Z")
    assert inner == outer
    at = one_off_at(inner, NOON, "t@1")
    assert base <= at < base + 3600 * SECOND
    assert one_off_at(delayed, NOON, "t@1") - NOON == at - base
    assert len({one_off_at(inner, NOON, f"t@{n}") for n in range(50)}) > 45


def test_the_bounds_hold_for_the_times_at_which_a_job_runs() -> None:
    job_id = next(f"t@{n}" for n in range(100) if plan(DAILY | {"spread_s": 60}, f"t@{n}").offset > 30 * SECOND)
    assert len(times(DAILY | {"spread_s": 60, "end_at": "2026-10-12T02:00:30Z"}, job_id=job_id)) == 1
    assert len(times(DAILY | {"spread_s": 60, "end_at": "2026-10-12T02:01:00Z"}, job_id=job_id)) == 2


def test_jobs_with_windows_share_their_class() -> None:
    schedule = DAILY | {"spread_s": 60}
    assert plan(schedule, "t@1").recurrence is plan(schedule, "t@2").recurrence is compile_cron("0 2 * * *", "UTC")


def test_excluded_dates_are_left_out_by_the_wall_clock() -> None:
    india = {"cron": "0 2 * * *", "timezone": "Asia/Kolkata", "calendar": {"exclude": ["2026-10-12", "2026-10-12"]}}
    assert times(india, 3) == ["2026-10-10T20:30:00Z", "2026-10-12T20:30:00Z", "2026-10-13T20:30:00Z"]


@pytest.mark.parametrize(
    ("expression", "excluded", "expected"),
    [
        # A weekday, to the next date; a stretch of dates, behind it, once.
        ("0 2 * * MON", ["2026-10-12"], ["2026-10-13T02:00:00Z", "2026-10-19T02:00:00Z"]),
        ("0 2 * * *", ["2026-10-12", "2026-10-13"], ["2026-10-11T02:00:00Z", "2026-10-14T02:00:00Z"]),
        ("0 2 12,13 * *", ["2026-10-12", "2026-10-13"], ["2026-10-14T02:00:00Z", "2026-11-12T02:00:00Z"]),
        # Into a month, and a year, that the expression does not name.
        ("0 2 31 12 *", ["2026-12-31", "2027-01-01"], ["2027-01-02T02:00:00Z", "2027-12-31T02:00:00Z"]),
        ("0 2 L * *", ["2026-10-31"], ["2026-11-01T02:00:00Z", "2026-11-30T02:00:00Z"]),
        # What is excluded without being due moves nothing.
        ("0 2 15 * *", ["2026-10-12"], ["2026-10-15T02:00:00Z", "2026-11-15T02:00:00Z"]),
    ],
)
def test_shifted_occurrences_keep_their_wall_time(expression: str, excluded: list[str], expected: list[str]) -> None:
    schedule = {"cron": expression, "timezone": "UTC", "calendar": {"exclude": excluded, "on_excluded": "shift"}}
    assert times(schedule, 2) == expected
    last = parse_rfc3339(expected[1])
    assert plan(schedule).previous_before(last) == parse_rfc3339(expected[0])


def test_a_shift_meets_the_clock_like_any_other_wall_time() -> None:
    schedule = {
        "cron": "30 2 7 3 *",
        "timezone": "America/New_York",
        "calendar": {"exclude": ["2026-03-07"], "on_excluded": "shift"},
        "start_at": "2026-01-01T00:00:00Z",
    }
    found = plan(schedule).next_after(0)
    assert found == parse_rfc3339("2026-03-08T03:00:00-04:00")


@pytest.mark.parametrize("on_excluded", ["skip", "shift"])
@given(
    st.sets(st.integers(0, 60), min_size=1, max_size=20),
    st.sampled_from(["0 2 * * *", "15,45 1-3 1-7 * MON", "0 */6 * * FRI", "0 0 29 2 *", "30 9 LW * *", "@monthly"]),
)
@settings(deadline=None, max_examples=60)
def test_calendars_agree_with_leaving_dates_out_one_by_one(on_excluded: str, days: set[int], expression: str) -> None:
    """In UTC a date is a day of 24 hours, so the rule can be said again in a few lines."""
    base = parse_rfc3339("2028-01-31T00:00:00Z")
    excluded = {base + day * DAY for day in days}
    plain = compile_cron(expression, "UTC").between(base - 1, base + 90 * DAY, 10_000)
    expected = set()
    for at in plain:
        date = at - at % DAY
        if on_excluded == "skip" and date in excluded:
            continue
        while date in excluded:
            date += DAY
        expected.add(date + at % DAY)
    texts = [format_rfc3339(date)[:10] for date in sorted(excluded)]
    calendar = {"exclude": texts, "on_excluded": on_excluded}
    bounded = plan({"cron": expression, "timezone": "UTC", "calendar": calendar})
    found = _all(bounded, base - 1, base + 90 * DAY)
    assert found == sorted(expected)
    back = []
    at: int | None = base + 90 * DAY + 1
    while at is not None and (at := bounded.previous_before(at)) is not None and at >= base:
        back.append(at)
    assert back[::-1] == found


def test_a_long_calendar_makes_a_short_row() -> None:
    first = parse_rfc3339("2026-01-01T00:00:00Z")
    dates = [format_rfc3339(first + 7 * n * DAY)[:10] for n in range(EXCLUDED_DATES_MAX)]
    text = plan_text(job(DAILY | {"calendar": {"exclude": dates}}), "t@1", NOON)
    assert len(text) < 900


@pytest.mark.parametrize(
    "expression", ["H H * * *", "h H(2-4) * * *", "H/15 * * * *", "H H H/7 H(1-6) H", "H 0 0 * * H", "0 0 * * H(5-7)"]
)
def test_h_is_written_out_into_the_plan_by_the_job_s_id(expression: str) -> None:
    schedule = {"cron": expression, "timezone": "Europe/Berlin"}
    assert job(schedule).schedule == job(schedule).schedule
    found = [times(schedule, 5, f"t@{n}") for n in range(20)]
    assert found == [times(schedule, 5, f"t@{n}") for n in range(20)]
    assert len({tuple(one) for one in found}) > 1
    for n in range(20):
        text = plan_text(job(schedule), f"t@{n}", NOON)
        assert "H" not in text
        assert "t@" not in text
        assert plan_of(text).recurrence == compile_cron(expression, "Europe/Berlin", job_id=f"t@{n}")


def test_jobs_whose_ids_pick_the_same_share_a_class() -> None:
    schedule = {"cron": "0 H(1-2) * * *", "timezone": "UTC"}
    assert len({plan_text(job(schedule), f"t@{n}", NOON) for n in range(50)}) == 2


def test_an_expression_that_would_become_too_long_keeps_its_h() -> None:
    expression = ",".join(f"H/{n}" for n in range(12, 60)) + " H * * *"
    schedule = {"cron": expression, "timezone": "UTC"}
    text = plan_text(job(schedule), "t@1", NOON)
    assert '"by":"t@1"' in text
    assert plan_of(text).recurrence == compile_cron(expression, "UTC", job_id="t@1")


@pytest.mark.parametrize("expression", ["0 0 31 H *", "0 0 H(29-31) 2 *", "0 0 H(30-31) H *", "0 0 30 H(2-3) *"])
def test_h_that_leaves_some_jobs_without_any_date_is_refused_for_all(expression: str) -> None:
    (fault,) = faults({"cron": expression, "timezone": "UTC"})
    assert fault.field == "schedule.cron"
    assert "no date" in fault.problem


@pytest.mark.parametrize(
    ("expression", "zone", "field"),
    [("H H(9-7) * * *", "UTC", "cron"), ("H H * * * H H", "UTC", "cron"), ("H * * * *", "No/Where", "timezone")],
)
def test_other_faults_of_expressions_with_h_are_found(expression: str, zone: str, field: str) -> None:
    assert [fault.field for fault in faults({"cron": expression, "timezone": zone})] == [f"schedule.{field}"]


def test_what_was_written_before_windows_came_is_still_read() -> None:
    old = plan_of('{"cron":"0 2 * * *","overlap":"allow","start":1791633600000000,"tz":"UTC"}')
    assert old.next_after(0) == parse_rfc3339("2026-10-11T02:00:00Z")
    assert plan_of("") == FiringPlan()
