"""Dead runs are attempted again; others are not."""

from __future__ import annotations

from typing import Any

import httpx

from tests.unit.gateway.house import NOON, House, problem_of, visit
from tests.unit.gateway.test_runs import created, dispatched, ended, head_of
from tocsin.domain.executions import AttemptHead


async def died(house: House, client: httpx.AsyncClient, attempt: int = 3, **fields: Any) -> AttemptHead:
    """A job with a dead run; return the head of its last attempt."""
    head = head_of(await created(client, **fields), NOON)._replace(attempt=attempt)
    ended(house, head, state="DEAD", reason="attempts_used_up")
    return head


def test_a_dead_run_is_attempted_again_and_goes_on_counting() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        head = await died(house, client)
        response = await client.post(f"/v1/runs/{head.execution_id}:retry")
        assert (response.status_code, response.json()) == (
            200,
            {"job_id": head.job_id, "execution_id": head.execution_id, "attempt": 4},
        )
        (command,) = house.owner.redriven
        assert (command.kind, command.job_id, command.tenant_id) == ("redrive", head.job_id, "default")
        assert (command.execution_id, command.attempts_before) == (head.execution_id, 3)
        assert command.redrives_before == 0

    visit(house, scene)


def test_each_retry_counts_on_from_what_history_says() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        head = await died(house, client)
        ended(house, head._replace(attempt=4), state="DEAD", redrives=2)
        ended(house, head._replace(attempt=5), state="DEAD")
        run = (await client.get(f"/v1/runs/{head.execution_id}")).json()
        assert (run["redrives"], [attempt["redrives"] for attempt in run["attempts"]]) == (2, [0, 2, 0])
        await client.post(f"/v1/runs/{head.execution_id}:retry")
        (command,) = house.owner.redriven
        assert (command.attempts_before, command.redrives_before) == (5, 2)

    visit(house, scene)


def test_what_is_not_dead_is_left_alone() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        head = await died(house, client)
        again = head._replace(attempt=4, token=9)
        dispatched(house, again)
        problem = problem_of(await client.post(f"/v1/runs/{head.execution_id}:retry"), 409)
        assert problem["faults"][0]["problem"] == "the run is QUEUED"
        ended(house, again)
        problem = problem_of(await client.post(f"/v1/runs/{head.execution_id}:retry"), 409)
        assert problem["faults"][0]["problem"] == "the run is SUCCEEDED"
        assert house.owner.redriven == []

    visit(house, scene)


def test_what_its_owner_says_or_not_in_time_is_passed_on() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        head = await died(house, client)
        house.owner.running.add(head.job_id)
        problem_of(await client.post(f"/v1/runs/{head.execution_id}:retry"), 409)
        house.answering = False
        response = await client.post(f"/v1/runs/{head.execution_id}:retry")
        assert (response.status_code, response.json()["job_id"]) == (202, head.job_id)

    visit(house, scene)


def test_unknown_runs_other_tenants_and_bodies_with_fields_are_refused() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        head = await died(house, client)
        url = f"/v1/runs/{head.execution_id}:retry"
        problem_of(await client.post(url, headers={"Tocsin-Tenant": "acme"}), 404)
        problem_of(await client.post("/v1/runs/default@none.1.5:retry"), 404)
        problem_of(await client.post("/v1/runs/x:retry"), 404)
        problem_of(await client.post(url, json={"at": "once"}), 422)
        assert house.owner.redriven == []

    visit(house, scene)
