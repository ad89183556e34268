"""What machines that watch the gateway see."""

from __future__ import annotations

import asyncio

import httpx

from tests.unit.gateway.house import House, problem_of, visit


def test_a_gateway_without_log_and_store_is_alive_but_not_ready_and_says_what_is_missing() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        assert (await client.get("/readyz")).status_code == 200
        house.bus.problems.append("no Kafka broker is reachable")
        house.views.failing = True
        problem = problem_of(await client.get("/readyz"), 503)
        assert len(problem["missing"]) == 2
        assert "no Kafka broker is reachable" in problem["missing"]
        assert (await client.get("/healthz")).status_code == 200

    visit(house, scene)


def test_a_store_that_hangs_is_missing_too() -> None:
    house = House(store_wait_s=0.02)

    async def scene(client: httpx.AsyncClient) -> None:
        async def hang() -> None:
            await asyncio.sleep(3_600)

        house.app.state.parts.views.ping = hang
        assert "did not answer" in problem_of(await client.get("/readyz"), 503)["detail"]

    visit(house, scene)


def test_the_bus_lives_as_long_as_the_application() -> None:
    house = House()

    async def scene(_client: httpx.AsyncClient) -> None:
        assert not house.bus.missing()
        assert not house.bus.closed

    assert house.bus.missing()
    visit(house, scene)
    assert house.bus.closed
