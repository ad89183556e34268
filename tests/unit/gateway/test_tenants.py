"""The pause of a tenant's retries is ended in each shard."""

from __future__ import annotations

import httpx
import pytest

from tests.unit.gateway.house import House, problem_of, visit
from tocsin.domain.errors import Unavailable
from tocsin.domain.sharding import routes, shard_of


@pytest.mark.parametrize("shards", [1, 3, 64, 4096])
def test_a_route_leads_to_each_shard(shards: int) -> None:
    assert [shard_of(route, shards) for route in routes(shards)] == list(range(shards))


def test_every_shard_is_told_and_answers_for_itself() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        house.owner.paused_retries = {("acme", house.bus.routes()[1]), ("other", house.bus.routes()[0])}
        for resumed in (1, 0):
            answer = await client.post("/v1/tenants/acme:resume-retries")
            assert answer.status_code == 200
            assert answer.json() == {"tenant_id": "acme", "resumed": resumed, "unchanged": 3 - resumed, "pending": 0}
        assert [job_id for _, job_id, _ in house.bus.commands] == list(house.bus.routes()) * 2
        assert house.owner.paused_retries == {("other", house.bus.routes()[0])}

    visit(house, scene)


def test_shards_that_do_not_answer_are_counted() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        house.answering = False
        assert (await client.post("/v1/tenants/acme:resume-retries")).json()["pending"] == 3

    visit(house, scene)


def test_what_is_no_tenant_or_another_one_or_cannot_be_sent_is_refused() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        problem_of(await client.post("/v1/tenants/a%20b:resume-retries"), 422)
        problem_of(await client.post("/v1/tenants/acme:resume-retries", headers={"Tocsin-Tenant": "other"}), 422)
        problem_of(await client.post("/v1/tenants/acme:resume-retries", json={"now": True}), 422)
        same = await client.post("/v1/tenants/acme:resume-retries", headers={"Tocsin-Tenant": "acme"})
        assert same.status_code == 200
        house.bus.delivery = Unavailable("kafka", "is away")
        problem_of(await client.post("/v1/tenants/acme:resume-retries"), 503)
        house.bus.problems.append("Kafka is away")
        problem_of(await client.post("/v1/tenants/acme:resume-retries"), 503)

    visit(house, scene)
