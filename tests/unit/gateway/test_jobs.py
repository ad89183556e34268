"""Reading, listing and deleting jobs; a job of another tenant is no job."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.unit.gateway.house import MINIMAL, House, problem_of, visit
from tocsin.ports.command_bus import Delivery
from tocsin.roles.gateway.jobs import RENDERED_AT_ONCE


def test_the_list_is_paged_without_doubles_and_says_that_it_may_lag() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        created = {(await client.post("/v1/jobs", json=MINIMAL)).json()["job_id"] for _ in range(7)}
        await client.post("/v1/jobs", json=MINIMAL, headers={"Tocsin-Tenant": "other"})
        seen: list[str] = []
        query = {"limit": "3"}
        while True:
            response = await client.get("/v1/jobs", params=query)
            assert response.headers["tocsin-view"] == "eventually-consistent"
            page = response.json()
            assert len(page["jobs"]) <= 3
            seen += [job["job_id"] for job in page["jobs"]]
            if page["next_page_token"] is None:
                break
            query["page_token"] = page["next_page_token"]
        assert len(seen) == 7
        assert set(seen) == created

    visit(House(), scene)


def test_other_requests_have_their_turns_while_a_long_list_is_rendered() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for _ in range(4 * RENDERED_AT_ONCE):
            await client.post("/v1/jobs", json=MINIMAL)

        async def turns_during(limit: int) -> int:
            listing = asyncio.create_task(client.get("/v1/jobs", params={"limit": limit}))
            turns = 0
            while not listing.done():
                await asyncio.sleep(0)
                turns += 1
            assert len((await listing).json()["jobs"]) == limit
            return turns

        assert await turns_during(4 * RENDERED_AT_ONCE) >= await turns_during(1) + 4

    visit(House(), scene)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=501",
        "limit=-1",
        "limit=1e2",
        "limit=",
        "limit=%D9%A3",
        "limit=5&limit=5",
        "limit=" + "9" * 5000,
        "page_token=",
        "page_token=nonsense",
        "page_token=" + "x" * 513,
        "page_token=%00",
        "state=ACTIVE",
        "tenant=a",
        "Limit=5",
        "%ff=%ff",
        "=",
        "a%00b=1",
    ],
)
def test_queries_that_are_refused(query: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        assert problem_of(await client.get(f"/v1/jobs?{query}"), 422)["faults"]

    visit(House(), scene)


def test_one_record_that_cannot_be_read_does_not_hide_the_list() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job_id = (await client.post("/v1/jobs", json=MINIMAL)).json()["job_id"]
        house.app.state.parts.views.list_jobs = _with_rubbish(house)
        page = (await client.get("/v1/jobs")).json()
        assert [job["job_id"] for job in page["jobs"]] == [job_id]

    visit(house, scene)


def _with_rubbish(house: House):  # type: ignore[no-untyped-def]
    list_jobs = type(house.views).list_jobs

    async def listing(tenant_id: str, limit: int, page_token: str | None):  # type: ignore[no-untyped-def]
        page = await list_jobs(house.views, tenant_id, limit, page_token)
        return page._replace(snapshots=[b"rubbish", *page.snapshots])

    return listing


def test_a_job_of_another_tenant_is_not_found_in_any_way() -> None:
    house = House()
    other = {"Tocsin-Tenant": "other"}

    async def scene(client: httpx.AsyncClient) -> None:
        job_id = (await client.post("/v1/jobs", json=MINIMAL)).json()["job_id"]
        for response in (
            await client.get(f"/v1/jobs/{job_id}", headers=other),
            await client.get(f"/v1/jobs/{job_id}/runs", headers=other),
            await client.delete(f"/v1/jobs/{job_id}", headers=other),
        ):
            problem = problem_of(response, 404)
            assert "default" not in problem["detail"]
        assert (await client.get("/v1/jobs", headers=other)).json()["jobs"] == []
        assert (await client.get(f"/v1/jobs/{job_id}")).status_code == 200

    visit(house, scene)


def test_a_delete_tells_whether_it_came_in_time() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        early = (await client.post("/v1/jobs", json=MINIMAL)).json()["job_id"]
        response = await client.delete(f"/v1/jobs/{early}")
        assert response.status_code == 200
        assert response.json()["detail"] == "prevented"
        assert response.json()["deleted"] is True
        problem_of(await client.get(f"/v1/jobs/{early}"), 404)
        problem_of(await client.delete(f"/v1/jobs/{early}"), 404)
        late = (await client.post("/v1/jobs", json=MINIMAL)).json()["job_id"]
        house.later(61)
        response = await client.delete(f"/v1/jobs/{late}")
        assert response.json()["detail"] == "already_fired"
        assert "had fired" in response.json()["message"]

    visit(house, scene)


def test_a_delete_without_an_outcome_is_pending() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job_id = (await client.post("/v1/jobs", json=MINIMAL)).json()["job_id"]
        house.answering, house.bus.delivery = False, Delivery.LOGGED
        response = await client.delete(f"/v1/jobs/{job_id}")
        assert response.status_code == 202
        assert response.json()["job_id"] == job_id

    visit(house, scene)


def test_a_delete_is_confirmed_while_the_store_is_away() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job_id = (await client.post("/v1/jobs", json=MINIMAL)).json()["job_id"]
        house.views.failing = True
        response = await client.delete(f"/v1/jobs/{job_id}")
        assert response.status_code == 200
        assert response.headers["tocsin-index"] == "pending"

    visit(house, scene)


def test_who_holds_the_job_already_is_told_so_without_it() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        created = await client.post("/v1/jobs", json=MINIMAL)
        path, tag = f"/v1/jobs/{created.json()['job_id']}", created.headers["etag"]
        for given in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            for method in ("GET", "HEAD"):
                answer = await client.request(method, path, headers={"If-None-Match": given})
                assert (answer.status_code, answer.headers["etag"], answer.content) == (304, tag, b"")
        for given in ('"1"', tag.strip('"'), "", 'W/"1"'):
            answer = await client.get(path, headers={"If-None-Match": given})
            assert (answer.status_code, answer.json()["job_id"]) == (200, created.json()["job_id"])
        assert (await client.get("/v1/jobs/job_" + "0" * 32, headers={"If-None-Match": "*"})).status_code == 404

    visit(House(), scene)


@pytest.mark.parametrize("given", ['"1"', "*"])
def test_a_create_matches_no_version(given: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        problem = problem_of(await client.post("/v1/jobs", json=MINIMAL, headers={"If-Match": given}), 422)
        assert problem["faults"][0]["field"] == "If-Match"

    visit(house, scene)
    assert not house.bus.commands


@pytest.mark.parametrize("header", ["If-Unmodified-Since", "If-None-Match"])
def test_conditions_are_refused_rather_than_ignored(header: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job_id = (await client.post("/v1/jobs", json=MINIMAL)).json()["job_id"]
        problem = problem_of(await client.delete(f"/v1/jobs/{job_id}", headers={header: '"1"'}), 501)
        assert header in problem["detail"]
        assert (await client.get(f"/v1/jobs/{job_id}")).status_code == 200

    visit(house, scene)
    assert len(house.bus.commands) == 1
