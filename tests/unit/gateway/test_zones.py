"""Names of zones at the door: the two of one city are both known; what is no name is refused, and never a 500."""

from __future__ import annotations

import httpx
import pytest

from tests.unit.gateway.house import House, problem_of, visit

TARGET = {"type": "http", "url": "https://a.example/"}


@pytest.mark.parametrize("name", ["Europe/Kiev", "Europe/Kyiv"])
def test_both_names_of_a_city_are_taken(name: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        job = {"schedule": {"cron": "0 2 * * *", "timezone": name}, "target": TARGET}
        created = await client.post("/v1/jobs", json=job)
        assert created.status_code == 201
        assert created.json()["schedule"]["timezone"] == name
        shown = await client.get("/v1/schedules:preview", params={"cron": "0 2 * * *", "timezone": name})
        assert shown.json()["times"][0]["at"] == created.json()["next_run_at"]

    visit(House(), scene)


@pytest.mark.parametrize(
    "name", ["utc", "America", "Europe/Kyiv ", "a" * 300, "../etc/passwd", "UTC\0", "\0", "", "Europe/Kyiv\n"], ids=repr
)
def test_what_is_no_name_is_refused_at_both_doors(name: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        job = {"schedule": {"cron": "0 2 * * *", "timezone": name}, "target": TARGET}
        answer = problem_of(await client.post("/v1/jobs", json=job), 422)
        assert [fault["field"] for fault in answer["faults"]] == ["schedule.timezone"]
        query = {"cron": "0 2 * * *", "timezone": name}
        answer = problem_of(await client.get("/v1/schedules:preview", params=query), 422)
        assert [fault["field"] for fault in answer["faults"]] == ["timezone"]

    visit(House(), scene)
