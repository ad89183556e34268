"""Previews of schedules over REST."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.gateway.house import House, problem_of, visit
from tocsin.domain.previews import TIMES_MAX, preview
from tocsin.domain.recurrence import TZDATA_VERSION, compile_cron

PATH = "/v1/schedules:preview"
SPRING = {"cron": "30 2 * * *", "timezone": "America/New_York", "after": "2026-03-07T12:00:00Z", "n": "2"}


def asked(query: dict[str, Any], **headers: str) -> httpx.Response:
    answers: list[httpx.Response] = []

    async def scene(client: httpx.AsyncClient) -> None:
        answers.append(await client.get(PATH, params=query, headers=headers))

    visit(House(), scene)
    return answers[0]


def test_an_expression_is_shown_with_its_next_times_and_what_the_clock_does() -> None:
    answer = asked(SPRING)
    assert answer.status_code == 200
    assert answer.json() == {
        "cron": "30 2 * * *",
        "timezone": "America/New_York",
        "description": "At 02:30",
        "kind": "fixed_time",
        "zone_data": TZDATA_VERSION,
        "times": [
            {
                "at": "2026-03-08T03:00:00-04:00",
                "utc": "2026-03-08T07:00:00Z",
                "notes": ["03:00, because 02:30 does not exist that day"],
            },
            {"at": "2026-03-09T02:30:00-04:00", "utc": "2026-03-09T06:30:00Z", "notes": []},
        ],
    }


def test_policies_may_be_tried() -> None:
    assert asked(SPRING | {"gap": "skip"}).json()["times"][0]["utc"] == "2026-03-09T06:30:00Z"
    autumn = SPRING | {"cron": "30 1 * * *", "after": "2026-10-31T12:00:00Z"}
    assert asked(autumn | {"overlap": "second"}).json()["times"][0]["utc"] == "2026-11-01T06:30:00Z"


def test_ten_times_from_now_are_shown_where_nothing_else_is_asked_for() -> None:
    answer = asked({"cron": "* * * * *", "timezone": "UTC"}).json()
    now = House().clock.time
    assert [time["utc"] for time in answer["times"]] == [
        time["utc"] for time in preview("* * * * *", "UTC", now, 10).as_json()["times"]
    ]
    assert len(answer["times"]) == 10


def test_h_is_picked_by_the_tenant_s_job() -> None:
    hashed = SPRING | {"cron": "H H * * *", "timezone": "UTC"}
    assert [f["field"] for f in problem_of(asked(hashed), 422)["faults"]] == ["cron"]
    answer = asked(hashed | {"job_id": "nightly"}, **{"Tocsin-Tenant": "acme"}).json()
    assert compile_cron(answer["cron"], "UTC") is compile_cron("H H * * *", "UTC", job_id="acme@nightly")
    assert problem_of(asked(hashed | {"job_id": "other@nightly"}), 422)["faults"][0]["field"] == "job_id"


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"cron": None, "timezone": None}, ["cron", "timezone"]),
        ({"cron": "0 0 30 2 *"}, ["cron"]),
        ({"cron": "1," * 5000}, ["cron"]),
        ({"cron": ""}, ["cron"]),
        ({"timezone": "Mars/Olympus"}, ["timezone"]),
        ({"timezone": "../../etc/passwd"}, ["timezone"]),
        ({"timezone": "Europe/Kyiv\0"}, ["timezone"]),
        ({"n": "0"}, ["n"]),
        ({"n": str(TIMES_MAX + 1)}, ["n"]),
        ({"n": "٣"}, ["n"]),
        ({"after": "2026-03-07"}, ["after"]),
        ({"after": "9999-12-31T23:59:59-01:00"}, ["after"]),
        ({"gap": "jump", "overlap": "never"}, ["gap", "overlap"]),
        ({"zone": "UTC"}, ["zone"]),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], fields: list[str]) -> None:
    query = {name: value for name, value in (SPRING | changes).items() if value is not None}
    assert [fault["field"] for fault in problem_of(asked(query), 422)["faults"]] == fields
