"""When a job runs next, worked out on read, and written by its own clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tocsin.domain.coming import coming, format_in_zone, next_run_at, zone_of
from tocsin.domain.definitions import parse
from tocsin.domain.entries import EntryKey
from tocsin.domain.instants import DAY, SECOND, parse_rfc3339
from tocsin.domain.jobs import Job, JobState

NOON = parse_rfc3339("2026-10-10T12:00:00Z")
TARGET = {"type": "http", "url": "https://a.example/"}
DAILY = {"cron": "0 2 * * *", "timezone": "Asia/Kolkata"}


def job(schedule: dict[str, Any] | None, entry_at: int | None = None, state: JobState = JobState.ACTIVE) -> Job:
    definition = parse({"schedule": schedule, "target": TARGET})
    entry = None if entry_at is None else EntryKey(entry_at, "j", 1, entry_at)
    return Job("j", "default", 1, 1, state, NOON, NOON, definition, entry)


def test_what_is_filed_comes_first_and_then_what_the_plan_says() -> None:
    first = parse_rfc3339("2026-10-11T02:00:00+05:30")
    daily = job(DAILY, first)
    assert next_run_at(daily, NOON) == first
    assert next_run_at(daily, first - 1) == first
    assert next_run_at(daily, first) == first + DAY
    assert next_run_at(daily, first + 100 * DAY) == first + 101 * DAY
    assert next_run_at(replace(daily, entry=None), NOON) == first


def test_an_interval_counts_from_the_creation_or_its_anchor() -> None:
    assert next_run_at(job({"every_s": 900}), NOON + 1) == NOON + 900 * SECOND
    anchored = job({"every_s": 900, "anchor_at": "2026-10-10T12:07:00Z"})
    assert next_run_at(anchored, NOON) == NOON + 420 * SECOND


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.DELETED])
def test_a_job_that_does_not_run_has_no_next_time(state: JobState) -> None:
    assert next_run_at(job(DAILY, NOON + DAY, state), NOON) is None


def test_what_fires_once_or_by_hand_has_no_time_but_the_filed_one() -> None:
    once = {"run_at": "2026-10-11T12:00:00Z"}
    assert next_run_at(job(once, NOON + DAY), NOON) == NOON + DAY
    assert next_run_at(job(once, NOON + DAY), NOON + DAY) is None
    assert next_run_at(job(None), NOON) is None
    assert coming(job(once).definition, "j", NOON, NOON, 5) == []


def test_coming_times_are_later_than_the_instant_and_not_before_the_start() -> None:
    definition = job({**DAILY, "start_at": "2026-12-01T00:00:00Z"}).definition
    times = coming(definition, "j", NOON, NOON, 3)
    assert [format_in_zone(at, zone_of(definition)) for at in times] == [
        "2026-12-02T02:00:00+05:30",
        "2026-12-03T02:00:00+05:30",
        "2026-12-04T02:00:00+05:30",
    ]


@pytest.mark.parametrize(
    ("at", "zone", "text"),
    [
        ("2026-10-10T20:30:00.000001Z", "Asia/Kolkata", "2026-10-11T02:00:00.000001+05:30"),
        ("2026-10-25T00:30:00Z", "Europe/Berlin", "2026-10-25T02:30:00+02:00"),
        ("2026-10-25T01:30:00Z", "Europe/Berlin", "2026-10-25T02:30:00+01:00"),
        ("2026-01-01T05:00:00Z", "America/New_York", "2026-01-01T00:00:00-05:00"),
        ("2026-01-01T00:00:00Z", "Europe/London", "2026-01-01T00:00:00Z"),
        ("1970-06-01T00:00:00Z", "Africa/Monrovia", "1970-06-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "No/Where", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", None, "2026-01-01T00:00:00Z"),
    ],
)
def test_an_instant_is_written_by_the_zone_s_clock(at: str, zone: str | None, text: str) -> None:
    assert format_in_zone(parse_rfc3339(at), zone) == text
    assert parse_rfc3339(format_in_zone(parse_rfc3339(at), zone)) == parse_rfc3339(at)
