"""Targets with pools at the door: refused where the pool does not exist, and left to the owner where nobody knows."""

from __future__ import annotations

from typing import Any

import httpx

from tests.unit.gateway.house import House, problem_of, visit
from tocsin.adapters.memory.pools import MemoryPoolRoll
from tocsin.roles.pools import PoolBook


def body(pool: str) -> dict[str, Any]:
    return {"delay_s": 60, "target": {"type": "handler", "name": "train", "pool": pool, "payload": {"n": [1, None]}}}


def house_with(*pools: str, looked: bool = True) -> tuple[House, PoolBook]:
    book = PoolBook(MemoryPoolRoll(**dict.fromkeys(pools, 4)))
    if looked:
        book.look()
    return House(pools=book), book


def test_a_job_for_a_pool_that_exists_is_created_and_shown_as_it_was() -> None:
    house, _ = house_with("gpu")

    async def scene(client: httpx.AsyncClient) -> None:
        created = await client.post("/v1/jobs", json=body("gpu"))
        assert created.status_code == 201, created.text
        assert created.json()["target"] == {**body("gpu")["target"], "timeout_s": 30.0}

    visit(house, scene)


def test_an_unknown_pool_is_a_fault_of_its_field_at_each_door() -> None:
    house, _ = house_with("gpu", "cpu")

    async def scene(client: httpx.AsyncClient) -> None:
        stands = (await client.post("/v1/jobs", json=body("gpu"))).json()["job_id"]
        for response in (
            await client.post("/v1/jobs", json=body("gpus")),
            await client.post("/v1/jobs", params={"validate_only": "true"}, json=body("gpus")),
            await client.put(f"/v1/jobs/{stands}", json=body("gpus")),
        ):
            (fault,) = problem_of(response, 422)["faults"]
            assert (fault["field"], fault["value"]) == ("target.pool", "'gpus'")
            assert "cpu, gpu" in fault["remedy"]

    visit(house, scene)


def test_where_the_pools_are_not_known_the_owner_decides() -> None:
    house, _ = house_with(looked=False)

    async def scene(client: httpx.AsyncClient) -> None:
        assert (await client.post("/v1/jobs", json=body("gpu"))).status_code == 201

    visit(house, scene)
