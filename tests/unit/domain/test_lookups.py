"""Questions about expressions, as a fleet asks them before it moves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.recurrence.test_cases import ACCEPTED, REFUSED, micros, name
from tocsin.domain.errors import InvalidInput
from tocsin.domain.instants import format_rfc3339
from tocsin.domain.lookups import TIMES_MAX, look_up
from tocsin.domain.recurrence import compile_cron

DAILY = {"expr": "0 2 * * *", "timezone": "UTC", "start": "2026-01-01T00:00:00Z"}


def answered(**changes: Any) -> list[str]:
    return [format_rfc3339(at) for at in look_up(DAILY | changes)]


def faults(mapping: object) -> list[str]:
    with pytest.raises(InvalidInput) as refused:
        look_up(mapping)
    assert all(fault.remedy for fault in refused.value.faults)
    return [fault.field for fault in refused.value.faults]


@pytest.mark.parametrize("case", ACCEPTED, ids=name)
def test_every_case_is_answered_right(case: dict[str, Any]) -> None:
    question = {"expr": case["expr"], "timezone": case["zone"], "start": case["start"], "n": len(case["expect"])}
    question["direction"] = case.get("way", "next")
    assert look_up(question) == [micros(text, case["zone"]) for text in case["expect"]]


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_every_case_that_means_nothing_is_refused(case: dict[str, Any]) -> None:
    assert faults(DAILY | {"expr": case["expr"], "timezone": case["zone"]}) == ["expr"]


@pytest.mark.parametrize(
    ("start", "zone", "expected"),
    [
        ("2026-01-01T00:00:00", "Asia/Kolkata", "2025-12-31T18:31:00Z"),
        ("2026-01-01T00:00:59.999999", "UTC", "2026-01-01T00:01:00Z"),
        ("2026-01-01T00:00:00+05:30", "America/New_York", "2025-12-31T18:31:00Z"),
        ("2026-11-01T01:30:00", "America/New_York", "2026-11-01T05:31:00Z"),  # shown twice: the first
        ("2026-03-08T02:30:00", "America/New_York", "2026-03-08T07:31:00Z"),  # never shown: by the former offset
        ("2011-12-30T12:00:00", "Pacific/Apia", "2011-12-30T22:01:00Z"),
    ],
)
def test_a_start_without_an_offset_is_wall_time(start: str, zone: str, expected: str) -> None:
    assert answered(expr="* * * * *", timezone=zone, start=start) == [expected]


def test_both_directions_and_as_many_as_asked_for() -> None:
    assert answered(n=2) == ["2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z"]
    assert answered(n=2, direction="prev") == ["2025-12-31T02:00:00Z", "2025-12-30T02:00:00Z"]
    assert answered(start="2199-12-30T00:00:00Z", n=9) == ["2199-12-30T02:00:00Z", "2199-12-31T02:00:00Z"]
    assert answered(start="1970-01-01T02:00:00Z", n=9, direction="prev") == []
    assert len(answered(n=TIMES_MAX)) == TIMES_MAX


def test_h_is_picked_as_the_job_s_owner_picks_it() -> None:
    hashed = DAILY | {"expr": "H H * * *", "n": 3}
    assert faults(hashed) == ["expr"]
    for given, whole in (("a", "default@a"), ("acme@a", "acme@a"), ("job_" + "0" * 32, "job_" + "0" * 32)):
        plan = compile_cron("H H * * *", "UTC", job_id=whole)
        assert look_up(hashed | {"job_id": given, "n": 1}) == [plan.next_after(micros(DAILY["start"], "UTC"))]


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"expr": None}, ["expr"]),
        ({"expr": 5, "timezone": [], "start": {}}, ["expr", "timezone", "start"]),
        ({"timezone": "Mars"}, ["timezone"]),
        ({"timezone": "../etc/passwd"}, ["timezone"]),
        ({"n": 0}, ["n"]),
        ({"n": 1.5}, ["n"]),
        ({"n": TIMES_MAX + 1}, ["n"]),
        ({"n": True}, ["n"]),
        ({"direction": "back"}, ["direction"]),
        ({"job_id": "a b"}, ["job_id"]),
        ({"job_id": "a b@c"}, ["job_id"]),
        ({"job_id": 7}, ["job_id"]),
        ({"start": "yesterday"}, ["start"]),
        ({"start": "1969-01-01T00:00:00"}, ["start"]),
        ({"start": "9999-12-31T23:59:59-01:00"}, ["start"]),
        ({"start": "0001-01-01T00:00:00"}, ["start"]),
        ({"zone": "UTC"}, ["zone"]),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], fields: list[str]) -> None:
    assert faults(DAILY | changes) == fields


@pytest.mark.parametrize("question", [None, [], "x", 5])
def test_what_is_no_question_is_refused(question: object) -> None:
    assert faults(question) == [""]
