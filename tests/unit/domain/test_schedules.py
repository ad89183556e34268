"""Schedules: exactly one time is given, and a delay counts as it is written."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.domain.definitions import JobDefinition, parse
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.instants import LATEST, SECOND
from tocsin.domain.schedules import DELAY_S_MAX, Delay, Manual, RunAt, one_off_at

TARGET = {"type": "http", "url": "https://settle.internal/run"}
NOON = 1_791_633_600_000_000


def job(**fields: Any) -> JobDefinition:
    return parse({"target": TARGET, **fields})


def faults(**fields: Any) -> list[Fault]:
    with pytest.raises(InvalidInput) as caught:
        job(**fields)
    return list(caught.value.faults)


@pytest.mark.parametrize(
    "fields", [{"run_at": "2026-10-10T12:00:00Z"}, {"schedule": {"run_at": "2026-10-10T12:00:00Z"}}]
)
def test_an_instant_is_taken_at_both_places(fields: dict[str, Any]) -> None:
    assert job(**fields).schedule == RunAt(NOON)


@pytest.mark.parametrize(
    "fields", [{"delay_s": 1.5}, {"schedule": {"delay_s": 1.5}}, {"delay_s": 1.5, "schedule": None}]
)
def test_a_delay_is_taken_at_both_places(fields: dict[str, Any]) -> None:
    assert job(**fields).schedule == Delay(1.5)


@pytest.mark.parametrize(
    "value",
    [
        253402300799,
        20000000001,
        1704067200.5,
        "1704067200",
        True,
        ["2026-10-10T12:00:00Z"],
        {},
        "",
        "2026-10-10T12:00:00",
    ],
)
def test_what_is_no_time_with_an_offset_is_refused(value: Any) -> None:
    (fault,) = faults(run_at=value)
    assert fault.field == "run_at"
    assert "RFC 3339" in fault.remedy
    assert fault.value


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"])
def test_times_beyond_the_calendar_are_refused_with_the_range(text: str) -> None:
    (fault,) = faults(schedule={"run_at": text})
    assert fault.field == "schedule.run_at"
    assert fault.value == repr(text)
    assert "1970 to 2199" in fault.problem
    assert "between 1970 and 2199" in fault.remedy


@pytest.mark.parametrize(
    "value", [-5, -1e-9, float("nan"), float("inf"), 1e18, 10**400, DELAY_S_MAX + 1, "5", True, [1]], ids=str
)
def test_delays_that_are_refused(value: Any) -> None:
    (fault,) = faults(delay_s=value)
    assert fault.field == "delay_s"
    assert fault.remedy == "give a number of seconds from 0 to 3200000000"


@pytest.mark.parametrize(
    ("delay_s", "micros"),
    [
        (0, 0),
        (-0.0, 0),
        (1, SECOND),
        (0.1, 100_000),
        (1.1, 1_100_000),
        (2.3, 2_300_000),
        (0.000001, 1),
        (0.0000001, 1),
        (1.0000001, 1_000_001),
        (123456.654321, 123_456_654_321),
        (DELAY_S_MAX, DELAY_S_MAX * SECOND),
    ],
)
def test_a_delay_counts_as_it_is_written(delay_s: float, micros: int) -> None:
    assert one_off_at(job(delay_s=delay_s).schedule, NOON, "j") == NOON + micros


@given(st.floats(0, DELAY_S_MAX))
@settings(deadline=None)
def test_a_delay_is_never_early_and_never_a_microsecond_late(delay_s: float) -> None:
    due = one_off_at(job(delay_s=delay_s).schedule, 0, "j")
    exact = Fraction(repr(delay_s)) * SECOND
    assert exact <= due < exact + 1


@given(st.integers(0, DELAY_S_MAX), st.integers(0, NOON))
@settings(deadline=None)
def test_a_delay_of_whole_seconds_is_exact_in_either_number_type(delay_s: int, command_at: int) -> None:
    whole, double = job(delay_s=delay_s).schedule, job(delay_s=float(delay_s)).schedule
    assert whole == double
    assert one_off_at(double, command_at, "j") == command_at + delay_s * SECOND


def test_a_delay_that_ends_after_2199_is_said() -> None:
    with pytest.raises(ValueError, match="2199"):
        one_off_at(Delay(1), LATEST, "j")


@pytest.mark.parametrize("fields", [{}, {"schedule": None}, {"run_at": None}])
def test_no_schedule_at_all_means_by_hand(fields: dict[str, Any]) -> None:
    assert parse({"target": {"type": "http", "url": "https://a.test/"}, **fields}).schedule == Manual()


@pytest.mark.parametrize("fields", [{"schedule": {}}, {"schedule": {"run_at": None}}])
def test_a_schedule_without_any_time_is_one_fault(fields: dict[str, Any]) -> None:
    (fault,) = faults(**fields)
    assert fault.field == "schedule"
    assert "run_at" in fault.remedy
    assert "delay_s" in fault.remedy


@pytest.mark.parametrize(
    "fields",
    [
        {"run_at": "2026-10-10T12:00:00Z", "delay_s": 1},
        {"run_at": "2026-10-10T12:00:00Z", "schedule": {"run_at": "2026-10-10T12:00:00Z"}},
        {"delay_s": 1, "schedule": {"delay_s": 1}},
        {"schedule": {"delay_s": 1, "run_at": "2026-10-10T12:00:00Z"}},
    ],
)
def test_two_times_are_refused(fields: dict[str, Any]) -> None:
    assert [fault.problem for fault in faults(**fields)] == ["is given more than once"]


@pytest.mark.parametrize("value", ["0 2 * * *", 5, [], ["a"], True])
def test_a_schedule_that_is_no_object_is_one_fault(value: Any) -> None:
    (fault,) = faults(schedule=value)
    assert fault.problem == "is not an object"


def test_an_enormous_cron_field_is_refused_without_being_repeated() -> None:
    (fault,) = faults(schedule={"cron": "1," * 290_000, "timezone": "UTC"})
    assert fault.field == "schedule.cron"
    assert len(str(fault)) < 400


def test_an_unknown_schedule_names_the_nearest_field() -> None:
    (fault,) = faults(schedule={"runat": "2026-10-10T12:00:00Z"})
    assert fault.field == "schedule.runat"
    assert "did you mean 'run_at'?" in fault.remedy
