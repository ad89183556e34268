"""What each form means: the days, hours and minutes it picks, in UTC."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tocsin.domain.recurrence import CronError, CronPlan, DstPolicy, compile_cron, compiling
from tocsin.domain.recurrence.dialect import FIELDS, MACROS

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(*when: int) -> int:
    return (datetime(*when, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)  # type: ignore[misc,arg-type]


def times(expression: str, *start: int, count: int, job_id: str | None = None) -> list[str]:
    plan = compile_cron(expression, "UTC", job_id=job_id)
    found = plan.between(micros(*start) - 1, micros(2199, 1, 1), count)
    return [(EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%d %H:%M:%S") for at in found]


def days(day: str, weekday: str, month: str = "*", count: int = 4, year: int = 2024) -> list[str]:
    return [at[5:10] for at in times(f"0 0 {day} {month} {weekday}", year, 1, 1, count=count)]


def picked(expression: str, job_id: str | None = None) -> tuple[list[int], list[int]]:
    fields = compile_cron(expression, "UTC", job_id=job_id).fields
    return [m for m in range(60) if fields.minutes >> m & 1], [h for h in range(24) if fields.hours >> h & 1]


@pytest.mark.parametrize(
    ("field", "minutes"),
    [
        ("*", list(range(60))),
        ("*/20", [0, 20, 40]),
        ("*/59", [0, 59]),
        ("7", [7]),
        ("007", [7]),
        ("5-8", [5, 6, 7, 8]),
        ("5-5", [5]),
        ("5-9/2", [5, 7, 9]),
        ("5-10/2", [5, 7, 9]),
        ("5-5/2", [5]),
        ("5-9/59", [5]),
        ("50/4", [50, 54, 58]),
        ("59/15", [59]),
        ("0/30", [0, 30]),
        ("3,1,3", [1, 3]),
        ("1,10-12,*/30", [0, 1, 10, 11, 12, 30]),
    ],
)
def test_values_ranges_steps_and_lists(field: str, minutes: list[int]) -> None:
    assert picked(f"{field} 0 * * *")[0] == minutes


def test_six_fields_begin_with_seconds() -> None:
    assert times("30 55 5,11 * * *", 2024, 1, 1, count=3) == [
        "2024-01-01 05:55:30",
        "2024-01-01 11:55:30",
        "2024-01-02 05:55:30",
    ]
    assert times("*/25 * * * * *", 2024, 1, 1, count=4)[2:] == ["2024-01-01 00:00:50", "2024-01-01 00:01:00"]


def test_five_fields_fire_on_the_full_minute() -> None:
    assert compile_cron("0 5 * * * *", "UTC") == compile_cron("5 * * * *", "UTC")


@pytest.mark.parametrize("names", ["MON-FRI", "mon-fri", "Mon-Fri", "1-5", "MON-5", "1,2,3,4,5", "MON,tue,WED,4,FRI"])
def test_weekdays_have_names_in_any_case(names: str) -> None:
    assert compile_cron(f"0 0 * * {names}", "UTC") == compile_cron("0 0 * * 1-5", "UTC")


def test_months_have_names() -> None:
    assert compile_cron("0 0 1 jan-mar,DEC *", "UTC") == compile_cron("0 0 1 1-3,12 *", "UTC")


@pytest.mark.parametrize("sunday", ["0", "7", "SUN", "0,7", "7-7", "0-0", "*/7", "0-7/7", "7/3"])
def test_sunday_has_two_numbers(sunday: str) -> None:
    assert days("*", sunday) == ["01-07", "01-14", "01-21", "01-28"]


def test_ranges_may_end_on_sunday() -> None:
    assert days("*", "6-7") == ["01-06", "01-07", "01-13", "01-14"]
    assert days("*", "0-7") == ["01-01", "01-02", "01-03", "01-04"]


def test_a_step_from_a_weekday_ends_on_saturday() -> None:
    assert days("*", "1/2") == ["01-01", "01-03", "01-05", "01-08"]


def test_both_day_fields_restricted_means_either() -> None:
    assert days("13", "FRI", count=6) == ["01-05", "01-12", "01-13", "01-19", "01-26", "02-02"]


def test_a_day_field_that_begins_with_a_star_means_both() -> None:
    assert days("*/2", "1") == ["01-01", "01-15", "01-29", "02-05"]
    assert days("1", "*/2") == ["02-01", "06-01", "08-01", "09-01"]
    assert days("*,13", "FRI") == ["01-05", "01-12", "01-19", "01-26"]


def test_a_star_later_in_a_list_does_not_change_the_rule() -> None:
    assert days("13", "2,*") == ["01-01", "01-02", "01-03", "01-04"]
    assert days("1-31", "FRI") == ["01-01", "01-02", "01-03", "01-04"]


def test_a_question_mark_is_no_restriction() -> None:
    assert days("?", "FRI") == days("*", "FRI")
    assert days("13", "?") == days("13", "*")
    assert days("?", "?") == days("*", "*")


@pytest.mark.parametrize(
    ("day", "first"),
    [
        ("L", ["01-31", "02-29", "03-31", "04-30"]),
        ("l", ["01-31", "02-29", "03-31", "04-30"]),
        ("LW", ["01-31", "02-29", "03-29", "04-30"]),
        ("lw", ["01-31", "02-29", "03-29", "04-30"]),
        ("15W", ["01-15", "02-15", "03-15", "04-15"]),
        ("1W", ["01-01", "02-01", "03-01", "04-01"]),
        ("6W", ["01-05", "02-06", "03-06", "04-05"]),
        ("31W", ["01-31", "03-29", "05-31", "07-31"]),
        ("29W", ["01-29", "02-29", "03-29", "04-29"]),
        ("15,L", ["01-15", "01-31", "02-15", "02-29"]),
        ("1W,15-16", ["01-01", "01-15", "01-16", "02-01"]),
        ("31", ["01-31", "03-31", "05-31", "07-31"]),
    ],
)
def test_days_of_the_month(day: str, first: list[str]) -> None:
    assert days(day, "*") == first


def test_the_nearest_working_day_stays_in_its_month() -> None:
    assert days("1W", "*", month="6", year=2024, count=1) == ["06-03"]  # the 1st is a Saturday
    assert days("1W", "*", month="9", year=2024, count=1) == ["09-02"]  # a Sunday
    assert days("30W", "*", month="6", year=2024, count=1) == ["06-28"]  # a Sunday, and the last day
    assert days("31W", "*", month="8", year=2024, count=1) == ["08-30"]  # a Saturday


@pytest.mark.parametrize(
    ("weekday", "first"),
    [
        ("5L", ["01-26", "02-23", "03-29", "04-26"]),
        ("FRIL", ["01-26", "02-23", "03-29", "04-26"]),
        ("fril", ["01-26", "02-23", "03-29", "04-26"]),
        ("7L", ["01-28", "02-25", "03-31", "04-28"]),
        ("5#3", ["01-19", "02-16", "03-15", "04-19"]),
        ("FRI#3", ["01-19", "02-16", "03-15", "04-19"]),
        ("7#1", ["01-07", "02-04", "03-03", "04-07"]),
        ("4#5", ["02-29", "05-30", "08-29", "10-31"]),
        ("1#1,5L", ["01-01", "01-26", "02-05", "02-23"]),
        ("MON#1,WED", ["01-01", "01-03", "01-10", "01-17"]),
    ],
)
def test_weekdays_of_the_month(weekday: str, first: list[str]) -> None:
    assert days("*", weekday) == first


def test_sparse_dates_are_found() -> None:
    assert times("0 0 29 2 *", 2097, 1, 1, count=2) == ["2104-02-29 00:00:00", "2108-02-29 00:00:00"]
    assert times("0 0 29 2 */7", 2024, 1, 1, count=3) == [
        "2032-02-29 00:00:00",
        "2060-02-29 00:00:00",
        "2088-02-29 00:00:00",
    ]


@pytest.mark.parametrize(("macro", "meaning"), [*MACROS.items(), ("@Daily", "0 0 * * *"), (" \t@daily  ", "0 0 * * *")])
def test_macros_are_expressions(macro: str, meaning: str) -> None:
    assert compile_cron(macro, "UTC") == compile_cron(meaning, "UTC")


def test_tabs_and_spaces_separate() -> None:
    assert compile_cron(" 0\t0  1 \t * * ", "UTC") == compile_cron("0 0 1 * *", "UTC")


def test_h_depends_on_the_job_alone() -> None:
    assert picked("H H * * *", "job-1") == picked("H H * * *", "job-1")
    assert len({str(picked("H H * * *", f"job-{n}")) for n in range(50)}) > 40


def test_h_never_moves() -> None:
    """Pinned: a change of these numbers moves every job that uses H."""
    assert [picked("H H * * *", job) for job in ("job_a", "job_b", "acme@nightly")] == [
        ([18], [10]),
        ([29], [17]),
        ([52], [7]),
    ]


def test_h_spreads_evenly_over_all_values() -> None:
    minutes: Counter[int] = Counter()
    hours: Counter[int] = Counter()
    for n in range(6000):
        (minute,), (hour,) = picked("H H * * *", f"job-{n}")
        minutes[minute] += 1
        hours[hour] += 1
    assert sorted(minutes) == list(range(60))
    assert sorted(hours) == list(range(24))
    assert max(minutes.values()) < 160
    assert min(minutes.values()) > 50


def test_h_fields_are_independent() -> None:
    pairs = {(minute[0], hour[0]) for minute, hour in (picked("H H * * *", f"job-{n}") for n in range(3000))}
    assert len(pairs) > 1000  # of 1,440; two hashes that went together would give 60 or so


def test_h_keeps_inside_its_range_and_step() -> None:
    for n in range(300):
        job = f"job-{n}"
        (minute,), (hour,) = picked("H(10-19) H(22-22) * * *", job)
        assert 10 <= minute <= 19
        assert hour == 22
        stepped, _ = picked("H/15 0 * * *", job)
        assert len(stepped) == 4
        assert stepped[0] < 15
        assert {later - first for first, later in itertools.pairwise(stepped)} == {15}
        ranged, _ = picked("H(0-29)/10 0 * * *", job)
        assert len(ranged) == 3
        assert ranged[-1] <= 29
        wide, _ = picked("H(50-59)/30 0 * * *", job)
        assert len(wide) == 1
        assert 50 <= wide[0] <= 59


def test_h_gives_a_day_that_each_month_has() -> None:
    found = set()
    for n in range(600):
        month_days = times("0 0 H * *", 2023, 1, 1, count=12, job_id=f"job-{n}")
        assert [at[5:7] for at in month_days] == [f"{month:02}" for month in range(1, 13)]
        found.add(int(month_days[0][8:10]))
    assert found == set(range(1, 29))


def test_h_takes_small_letters_and_lists() -> None:
    assert picked("h h * * *", "a") == picked("H H * * *", "a")
    low, high = picked("H(0-29),H(30-59) 0 * * *", "a")[0]
    assert low < 30 <= high


def test_plans_are_shared_by_all_who_mean_the_same() -> None:
    one = compile_cron("0 2 * * MON-FRI", "Asia/Kolkata", job_id="a")
    assert compile_cron("0 2 * * 1-5", "Asia/Kolkata", job_id="b") is one
    assert compile_cron("0 2 * * 1-5", "Asia/Kolkata") is one
    (minute,), _ = picked("H 2 * * *", "a")
    assert compile_cron("H 2 * * *", "UTC", job_id="a") is compile_cron(f"{minute} 2 * * *", "UTC")


def test_plans_differ_by_zone_and_policy() -> None:
    plans: set[CronPlan] = {
        compile_cron("0 2 * * *", "Asia/Kolkata"),
        compile_cron("0 2 * * *", "UTC"),
        compile_cron("0 2 * * *", "UTC", DstPolicy(gap="skip")),
        compile_cron("0 2 * * *", "UTC", DstPolicy(overlap="both")),
        compile_cron("1 2 * * *", "UTC"),
        compile_cron("0 2 * * *", "UTC"),
    }
    assert len(plans) == 5


def test_a_cadence_job_and_a_fixed_one_are_not_the_same() -> None:
    assert compile_cron("0 * * * *", "Europe/London") != compile_cron("0 0-23 * * *", "Europe/London")


def test_caches_are_bounded() -> None:
    assert compiling._compile.cache_info().maxsize == compiling.PLANS_MAX
    assert compiling._plan.cache_info().maxsize == compiling.PLANS_MAX


def test_fields_number_their_bounds() -> None:
    assert [(field.low, field.high) for field in FIELDS] == [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
    assert len({field.salt for field in FIELDS}) == len(FIELDS)


def test_a_plan_shows_what_it_is() -> None:
    assert "Europe/Berlin" in repr(compile_cron("0 2 * * *", "Europe/Berlin"))
    assert compile_cron("0 2 * * *", "Europe/Berlin") != "0 2 * * *"


def test_h_without_a_job_is_refused() -> None:
    with pytest.raises(CronError, match="job id"):
        compile_cron("0 H * * *", "UTC")
