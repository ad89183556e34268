"""Creating under the client's own id, or under a key: once, however often it is asked; and short and whole ids."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.unit.gateway.house import MINIMAL, NOON, TARGET, House, problem_of, visit
from tests.unit.gateway.owner import CODEC
from tocsin.domain.ids import keyed_job_id

DAILY = {"schedule": {"cron": "0 2 * * *", "timezone": "Asia/Kolkata"}, "target": TARGET}


@pytest.mark.parametrize("own", [{"job_id": "settlement_v-1"}, {"idempotency_key": "settlement v1 ☃"}])
def test_the_same_create_again_is_the_same_job_and_another_is_a_conflict(own: dict[str, str]) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        first = await client.post("/v1/jobs", json={**DAILY, **own})
        assert first.status_code == 201
        again = await client.post("/v1/jobs", json={**DAILY, **own})
        assert again.status_code == 200
        assert again.json() == first.json()
        for header in ("location", "etag"):
            assert again.headers[header] == first.headers[header]
        other = await client.post("/v1/jobs", json={**DAILY, "name": "other", **own})
        problem = problem_of(other, 409)
        assert problem["reason"] == "conflict"
        assert first.json()["job_id"] in problem["detail"]
        elsewhere = await client.post("/v1/jobs", json={**DAILY, **own}, headers={"Tocsin-Tenant": "other"})
        assert elsewhere.status_code == 201
        assert elsewhere.json()["job_id"] != first.json()["job_id"]

    visit(House(), scene)


def test_twenty_creates_at_once_under_one_key_make_one_job() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        body = {**DAILY, "idempotency_key": "k"}
        answers = await asyncio.gather(*(client.post("/v1/jobs", json=body) for _ in range(20)))
        assert sorted(answer.status_code for answer in answers) == [200] * 19 + [201]
        assert {answer.json()["job_id"] for answer in answers} == {keyed_job_id("default", "k")}

    visit(house, scene)
    assert {job_id for _, job_id, _ in house.bus.commands} == {keyed_job_id("default", "k")}


def test_a_client_s_id_is_kept_with_its_tenant_who_may_leave_its_name_out() -> None:
    house = House()
    acme = {"Tocsin-Tenant": "acme"}

    async def scene(client: httpx.AsyncClient) -> None:
        job = (await client.post("/v1/jobs", json={**MINIMAL, "job_id": "mine"}, headers=acme)).json()
        assert job["job_id"] == "acme@mine"
        assert (await client.post("/v1/jobs", json={**MINIMAL, "job_id": "acme@mine"}, headers=acme)).status_code == 200
        for name in ("mine", "acme@mine", "acme%40mine"):
            assert (await client.get(f"/v1/jobs/{name}", headers=acme)).json() == job
            assert (await client.get(f"/v1/jobs/{name}/runs", headers=acme)).json()["runs"] == []
            problem_of(await client.get(f"/v1/jobs/{name}"), 404)
        assert (await client.delete("/v1/jobs/mine", headers=acme)).json()["job_id"] == "acme@mine"
        problem_of(await client.get("/v1/jobs/mine", headers=acme), 404)

    visit(house, scene)
    assert {job_id for _, job_id, _ in house.bus.commands} == {"acme@mine"}
    assert CODEC.decode_command(house.bus.commands[0][2]).definition.get("job_id") is None  # type: ignore[union-attr]


def test_the_next_run_is_worked_out_now_and_written_by_the_job_s_own_clock() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path = (await client.post("/v1/jobs", json=DAILY)).headers["location"]
        assert (await client.get(path)).json()["next_run_at"] == "2026-10-11T02:00:00+05:30"
        house.later(86_400 * 3)
        assert (await client.get(path)).json()["next_run_at"] == "2026-10-14T02:00:00+05:30"
        (listed,) = (await client.get("/v1/jobs")).json()["jobs"]
        assert listed["next_run_at"] == "2026-10-14T02:00:00+05:30"

    visit(house, scene)


def test_an_interval_counts_from_the_creation() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path = (await client.post("/v1/jobs", json={"schedule": {"every_s": 900}, "target": TARGET})).headers[
            "location"
        ]
        assert (await client.get(path)).json()["next_run_at"] == "2026-10-10T12:15:00Z"
        house.later(1_000)
        job = (await client.get(path)).json()
        assert job["next_run_at"] == "2026-10-10T12:30:00Z"
        assert job["schedule"] == {"every_s": 900}

    visit(house, scene)
    assert house.clock.now() > NOON


def test_all_that_a_job_may_say_comes_back() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        body = {
            "schedule": {"cron": "*/5 * * * *", "timezone": "Europe/Berlin", "dst": {"gap": "skip", "overlap": "both"}},
            "target": {"type": "message", "topic": "orders.due", "key": "k", "value": {"a": [1]}},
            "retry": {"max_attempts": 3, "base_s": 2, "max_s": 60, "backoff": "linear", "jitter": "none"},
            "concurrency": "allow",
            "misfire_after_s": 5,
        }
        job = (await client.post("/v1/jobs", json=body)).json()
        assert job["schedule"] == body["schedule"]
        assert job["retry"] == body["retry"]
        assert (job["concurrency"], job["misfire_after_s"]) == ("allow", 5.0)
        assert job["target"] == {
            "type": "message",
            "topic": "orders.due",
            "key": "k",
            "value": '{"a":[1]}',
        }

    visit(House(), scene)
