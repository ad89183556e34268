"""Changing and running jobs: PUT, pause, resume, trigger; what stands against each, and If-Match."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.gateway.house import MINIMAL, NOON, TARGET, House, problem_of, visit
from tests.unit.gateway.owner import CODEC
from tocsin.domain.commands import Command
from tocsin.domain.ids import parse_execution_id

NIGHTLY = {"schedule": {"cron": "0 2 * * *", "timezone": "Asia/Kolkata"}, "target": TARGET, "name": "nightly"}


def sent(house: House) -> Command:
    """Return the latest command."""
    return CODEC.decode_command(house.bus.commands[-1][2])


async def created(client: httpx.AsyncClient, body: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    """Create a job; return its path and itself."""
    response = await client.post("/v1/jobs", json=body or NIGHTLY)
    assert response.status_code == 201, response.text
    return response.headers["location"], response.json()


def test_put_replaces_the_whole_definition() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, job = await created(client, {**NIGHTLY, "labels": {"a": "b"}})
        response = await client.put(path, json={**NIGHTLY, "target": {**TARGET, "url": "https://other/"}})
        assert response.status_code == 200
        changed = response.json()
        assert changed["target"]["url"] == "https://other/"
        assert "labels" not in changed
        assert changed["version"] > job["version"]
        assert response.headers["etag"] == f'"{changed["version"]}"'
        read = await client.get(path)
        assert read.json() == changed
        assert read.headers["etag"] == response.headers["etag"]
        assert (sent(house).kind, sent(house).if_version) == ("update", None)

    visit(house, scene)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "target"),
        ({**NIGHTLY, "job_id": "another"}, "job_id"),
        ({**NIGHTLY, "job_id": 5}, "job_id"),
        ({**NIGHTLY, "idempotency_key": "another"}, "idempotency_key"),
        ({**NIGHTLY, "state": "PAUSED"}, "state"),
        ([], ""),
    ],
)
def test_a_put_with_a_fault_changes_nothing(body: object, field: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, _ = await created(client)
        assert problem_of(await client.put(path, json=body), 422)["faults"][0]["field"] == field

    visit(house, scene)
    assert len(house.bus.commands) == 1


def test_a_put_may_name_the_job_of_its_path_in_any_way() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        await created(client, {**NIGHTLY, "job_id": "mine"})
        for path in ("mine", "default@mine"):
            for named in ("mine", "default@mine"):
                response = await client.put(f"/v1/jobs/{path}", json={**NIGHTLY, "job_id": named})
                assert response.json()["job_id"] == "default@mine", response.text
        path, job = await created(client, {**NIGHTLY, "idempotency_key": "k"})
        response = await client.put(path, json={**NIGHTLY, "idempotency_key": "k", "job_id": job["job_id"]})
        assert response.json()["idempotency_key"] == "k"

    visit(House(), scene)


def test_validate_only_changes_nothing() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, _ = await created(client)
        response = await client.put(f"{path}?validate_only=true", json=NIGHTLY)
        assert response.json()["valid"] is True
        problem_of(await client.put(f"{path}?validate_only=true", json={}), 422)

    visit(house, scene)
    assert len(house.bus.commands) == 1


def test_a_one_off_that_fired_is_given_no_other_time() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, _ = await created(client, MINIMAL)
        house.later(61)
        problem = problem_of(await client.put(path, json=MINIMAL), 409)
        assert problem["reason"] == "finished"
        assert "create another job" in problem["detail"]

    visit(house, scene)


def test_pause_and_resume_show_in_the_job() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, job = await created(client)
        response = await client.post(f"{path}:pause", json={"reason": "the ledger is being mended"})
        paused = response.json()
        assert response.status_code == 200
        assert (paused["state"], paused["paused_reason"]) == ("PAUSED", "the ledger is being mended")
        assert paused["next_run_at"] is None
        assert (await client.get(path)).json() == paused
        again = await client.post(f"{path}:pause")
        assert again.json() == paused
        assert again.headers["etag"] == response.headers["etag"]
        resumed = (await client.post(f"{path}:resume")).json()
        assert (resumed["state"], resumed["paused_reason"]) == ("ACTIVE", None)
        assert resumed["next_run_at"] == job["next_run_at"]

    visit(house, scene)
    assert [CODEC.decode_command(value).reason for _, _, value in house.bus.commands] == [
        None,
        "the ledger is being mended",
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("pause", {"until": "2027-01-01T00:00:00"}, "until"),
        ("pause", {"until": 5}, "until"),
        ("pause", {"reason": ""}, "reason"),
        ("pause", {"reason": "x" * 501}, "reason"),
        ("pause", {"reason": 5}, "reason"),
        ("pause", {"raeson": "x"}, "raeson"),
        ("pause", [], ""),
        ("resume", {"on_resume": "catch_up"}, "on_resume"),
        ("resume", {"reason": "x"}, "reason"),
        ("trigger", {"at": "now"}, "at"),
        ("trigger", "x", ""),
    ],
)
def test_a_verb_with_a_fault_is_not_sent(verb: str, body: object, field: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, _ = await created(client)
        problem = problem_of(await client.post(f"{path}:{verb}", json=body), 422)
        assert problem["faults"][0]["field"] == field
        if field == "on_resume":
            assert "not supported yet" in problem["detail"]

    visit(house, scene)
    assert len(house.bus.commands) == 1


@pytest.mark.parametrize("verb", ["pause", "resume", "trigger"])
def test_a_page_in_a_browser_cannot_use_a_verb_on_another_site(verb: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, _ = await created(client)
        for body in (b"", b"{}"):
            headers = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
            problem_of(await client.post(f"{path}:{verb}", content=body, headers=headers), 415)
        problem_of(await client.post(f"{path}:{verb}", headers={"Origin": "null"}), 415)

    visit(house, scene)
    assert len(house.bus.commands) == 1


def test_a_trigger_tells_the_execution_and_where_its_run_is() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, job = await created(client, {"target": TARGET})
        assert (job["schedule"], job["next_run_at"]) == (None, None)
        response = await client.post(f"{path}:trigger")
        assert response.status_code == 201
        answer = response.json()
        name = parse_execution_id(answer["execution_id"])
        assert (answer["job_id"], name.job_id, name.scheduled_for) == (job["job_id"], job["job_id"], NOON)
        assert answer["scheduled_for"] == "2026-10-10T12:00:00Z"
        assert response.headers["location"] == f"/v1/runs/{answer['execution_id']}"
        command_id = house.bus.commands[-1][0]
        status = (await client.get(f"/v1/commands/{command_id}")).json()
        assert (status["detail"], status["execution_id"]) == ("triggered", answer["execution_id"])
        house.owner.running.add(job["job_id"])
        problem = problem_of(await client.post(f"{path}:trigger"), 409)
        assert problem["reason"] == "running"
        assert "its concurrency lets no other wait" in problem["detail"]

    visit(house, scene)


METHODS = [("PUT", ""), ("DELETE", ""), ("POST", ":pause"), ("POST", ":resume"), ("POST", ":trigger")]


@pytest.mark.parametrize(("method", "verb"), METHODS)
def test_if_match_is_kept(method: str, verb: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, job = await created(client)
        body = NIGHTLY if method == "PUT" else None
        stale = await client.request(method, path + verb, json=body, headers={"If-Match": f'"{job["version"] - 1}"'})
        problem = problem_of(stale, 412)
        assert "read it" in problem["detail"]
        assert sent(house).if_version == job["version"] - 1
        for any_version in (False, True):
            path, job = await created(client)
            tag = "*" if any_version else f'"{job["version"]}"'
            response = await client.request(method, path + verb, json=body, headers={"If-Match": tag})
            assert response.status_code in (200, 201), response.text
            assert sent(house).if_version == (None if any_version else job["version"])

    visit(house, scene)


@pytest.mark.parametrize(("method", "verb"), METHODS)
@pytest.mark.parametrize("tag", ["", "5", 'W/"5"', '"x"', '"5", "6"', '"' + "9" * 19 + '"', '"-1"', '"5'])
def test_a_tag_that_is_no_version_is_refused(method: str, verb: str, tag: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path, _ = await created(client)
        body = NIGHTLY if method == "PUT" else None
        response = await client.request(method, path + verb, json=body, headers={"If-Match": tag})
        assert problem_of(response, 422)["faults"][0]["field"] == "If-Match"

    visit(house, scene)
    assert len(house.bus.commands) == 1


@pytest.mark.parametrize(("method", "verb"), METHODS)
def test_what_is_not_there_or_not_decided_in_time_is_said(method: str, verb: str) -> None:
    house = House()
    body = NIGHTLY if method == "PUT" else None

    async def scene(client: httpx.AsyncClient) -> None:
        problem_of(await client.request(method, f"/v1/jobs/nobody{verb}", json=body), 404)
        path, job = await created(client)
        other = {"Tocsin-Tenant": "other"}
        problem_of(await client.request(method, path + verb, json=body, headers=other), 404)
        house.answering = False
        response = await client.request(method, path + verb, json=body)
        assert response.status_code == 202
        assert response.json()["job_id"] == job["job_id"]
        assert response.headers["location"] == response.json()["status_url"]

    visit(house, scene)
