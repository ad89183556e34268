"""Runs are cancelled by their owner's word; what it does not have in hand is looked up."""

from __future__ import annotations

import httpx

from tests.unit.gateway.house import MINIMAL, NOON, House, problem_of, visit
from tests.unit.gateway.test_runs import created, ended, head_of
from tocsin.domain import ids
from tocsin.domain.commands import OutcomeDetail


def test_what_its_owner_says_is_answered() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        head = head_of(await created(client), NOON)
        for detail in (OutcomeDetail.CANCELLED, OutcomeDetail.CANCELLING):
            house.owner.cancelled[head.execution_id] = detail
            response = await client.post(f"/v1/runs/{head.execution_id}:cancel")
            assert response.status_code == 200, "it is cancelled before any view knows of it"
            body = response.json()
            assert (body["execution_id"], body["detail"]) == (head.execution_id, detail)
        command = house.owner.cancels[0]
        assert (command.kind, command.job_id, command.tenant_id) == ("cancel", head.job_id, "default")
        assert command.execution_id == head.execution_id
        house.answering = False
        assert (await client.post(f"/v1/runs/{head.execution_id}:cancel")).status_code == 202

    visit(house, scene)


def test_what_has_ended_is_a_conflict_and_what_never_was_is_not_found() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        head = head_of(await created(client), NOON)
        problem_of(await client.post(f"/v1/runs/{head.execution_id}:cancel"), 404)
        ended(house, head)
        problem = problem_of(await client.post(f"/v1/runs/{head.execution_id}:cancel"), 409)
        assert problem["faults"][0]["problem"] == "the run is SUCCEEDED, and has ended"
        problem_of(await client.post(f"/v1/runs/{head.execution_id}:cancel", headers={"Tocsin-Tenant": "acme"}), 404)

    visit(house, scene)


def test_other_tenants_bodies_and_conditions_are_refused_and_nobody_is_asked() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client, job_id="mine")
        url = f"/v1/runs/{head_of(job, NOON).execution_id}:cancel"
        problem_of(await client.post(url, headers={"Tocsin-Tenant": "acme"}), 404)
        problem_of(await client.post("/v1/runs/x:cancel"), 404)
        problem_of(await client.post(url, json={"force": True}), 422)
        problem_of(await client.post(url, headers={"If-Match": '"1"'}), 422)
        assert house.owner.cancels == []

    visit(house, scene)


def test_jobs_of_a_group_have_their_ids_by_it_and_no_other() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        body = {**MINIMAL, "concurrency": "queue", "concurrency_group": "nightly", "max_duration_s": 90}
        jobs = [(await client.post("/v1/jobs", json=body)).json() for _ in range(2)]
        assert {ids.group_of(job["job_id"]) for job in jobs} == {ids.group_id("default", "nightly")}
        assert jobs[0]["job_id"] != jobs[1]["job_id"]
        assert (jobs[0]["concurrency_group"], jobs[0]["max_duration_s"]) == ("nightly", 90)
        stored = (await client.get(f"/v1/jobs/{jobs[0]['job_id']}")).json()
        assert (stored["concurrency"], stored["concurrency_group"]) == ("queue", "nightly")
        for fields, name in (
            ({"job_id": "mine"}, "concurrency_group"),
            ({"idempotency_key": "k"}, "idempotency_key"),
            ({"concurrency": "allow"}, "concurrency"),
            ({"concurrency_group": ""}, "concurrency_group"),
            ({"concurrency_group": 7}, "concurrency_group"),
            ({"concurrency_group": "x" * 201}, "concurrency_group"),
            ({"max_duration_s": 0}, "max_duration_s"),
            ({"max_duration_s": "1h"}, "max_duration_s"),
        ):
            problem = problem_of(await client.post("/v1/jobs", json={**body, **fields}), 422)
            assert [fault["field"] for fault in problem["faults"]] == [name], fields

    visit(house, scene)
