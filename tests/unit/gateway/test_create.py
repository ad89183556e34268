"""POST /v1/jobs: decided and readable, rejected with all faults, pending, or refused; never in between."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tests.unit.gateway.house import MINIMAL, NOON, TARGET, House, problem_of, visit
from tests.unit.gateway.owner import CODEC
from tocsin.domain.definitions import parse
from tocsin.domain.errors import Fault, Unavailable
from tocsin.ports.command_bus import Delivery


def test_a_created_job_is_answered_whole() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        body = {
            "name": "Zürich ☃ 🦀",
            "run_at": "2026-10-11T02:00:00.123456+05:30",
            "target": {"type": "http", "url": "https://settle.internal/run", "timeout_s": 900},
            "labels": {"team": "settlement"},
            "metadata": {"ticket": [1, None]},
        }
        response = await client.post("/v1/jobs", json=body)
        assert response.status_code == 201
        job = response.json()
        assert job == {
            "job_id": job["job_id"],
            "tenant_id": "default",
            "name": "Zürich ☃ 🦀",
            "state": "ACTIVE",
            "version": 1 << 40 | 1,
            "paused_reason": None,
            "paused_until": None,
            "finished_at": None,
            "schedule": {"run_at": "2026-10-10T20:30:00.123456Z"},
            "target": {"type": "http", "url": "https://settle.internal/run", "method": "POST", "timeout_s": 900.0},
            "retry": None,
            "concurrency": "skip_if_running",
            "concurrency_group": None,
            "max_duration_s": None,
            "catch_up": "fire_once",
            "misfire_after_s": 60.0,
            "grace_s": None,
            "max_catch_up": None,
            "on_resume": None,
            "finished_ttl_s": 604800.0,
            "delivery": "at_least_once",
            "alert_on": [],
            "idempotency_key": None,
            "labels": {"team": "settlement"},
            "metadata": {"ticket": [1, None]},
            "created_at": "2026-10-10T12:00:00Z",
            "updated_at": "2026-10-10T12:00:00Z",
            "next_run_at": "2026-10-10T20:30:00.123456Z",
        }
        assert response.headers["location"] == f"/v1/jobs/{job['job_id']}"
        assert response.headers["etag"] == f'"{job["version"]}"'
        assert "tocsin-index" not in response.headers
        read = await client.get(response.headers["location"])
        assert read.status_code == 200
        assert read.json() == job
        assert read.headers["etag"] == response.headers["etag"]

    visit(house, scene)
    ((command_id, job_id, value),) = house.bus.commands
    command = CODEC.decode_command(value)
    assert command.kind == "create"
    assert (command.command_id, command.job_id, command.tenant_id) == (command_id, job_id, "default")
    assert command.reply_partition == 0
    assert parse(command.definition).name == "Zürich ☃ 🦀"


def test_the_tenant_is_the_header_else_default() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/jobs", json=MINIMAL, headers={"Tocsin-Tenant": "team-a"})
        assert response.json()["tenant_id"] == "team-a"
        assert (await client.post("/v1/jobs", json=MINIMAL)).json()["tenant_id"] == "default"

    visit(house, scene)
    assert [CODEC.decode_command(value).tenant_id for _, _, value in house.bus.commands] == ["team-a", "default"]


@pytest.mark.parametrize("tenant", ["a b", "x" * 300, "../etc/passwd", "a@b", "a\xe9"])
def test_a_tenant_that_cannot_be_is_refused(tenant: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/jobs", json=MINIMAL, headers=[(b"Tocsin-Tenant", tenant.encode("latin-1"))])
        assert problem_of(response, 422)["faults"][0]["field"] == "Tocsin-Tenant"

    visit(House(), scene)


def test_two_tenants_are_refused() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.get("/v1/jobs", headers=[("Tocsin-Tenant", "a"), ("Tocsin-Tenant", "b")])
        assert problem_of(response, 422)["faults"][0]["problem"] == "is given more than once"

    visit(House(), scene)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**MINIMAL, "cron": "0 2 * * *"}, "cron"),
        ({"schedule": {"cron": "0 2 * * *", "timezone": "Asia/Calcuta"}, "target": TARGET}, "schedule.timezone"),
        ({"schedule": {"cron": "0 0 30 2 *", "timezone": "UTC"}, "target": TARGET}, "schedule.cron"),
        ({"schedule": {"cron": "1," * 290_000, "timezone": "UTC"}, "target": TARGET}, "schedule.cron"),
        ({"schedule": {"every_s": 0.5}, "target": TARGET}, "schedule.every_s"),
        ({"schedule": {"every_s": 60, "end_at": "2027-01-01"}, "target": TARGET}, "schedule.end_at"),
        ({"schedule": {"every_s": 60, "calendar": {"exclude": []}}, "target": TARGET}, "schedule.calendar"),
        ({**MINIMAL, "retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({**MINIMAL, "retry": {"retry_on": [500]}}, "retry.retry_on"),
        ({**MINIMAL, "idempotency_key": ""}, "idempotency_key"),
        ({**MINIMAL, "idempotency_key": "k", "job_id": "mine"}, "idempotency_key"),
        ({**MINIMAL, "job_id": "a b"}, "job_id"),
        ({**MINIMAL, "job_id": 7}, "job_id"),
        ({**MINIMAL, "job_id": "x" * 65}, "job_id"),
        ({**MINIMAL, "job_id": "other@mine"}, "job_id"),
        ({**MINIMAL, "job_id": "job_" + "0" * 32}, "job_id"),
        ({**MINIMAL, "job_id": "key_" + "0" * 32}, "job_id"),
        ({**MINIMAL, "job_id": ["mine"], "delay_s": -1}, "job_id"),
        ({"delay_s": 1, "target": {"type": "message", "topic": "__offsets", "value": "x"}}, "target.topic"),
        ({**MINIMAL, "concurrency": "wait"}, "concurrency"),
        ({**MINIMAL, "delivery": "exactly_once"}, "delivery"),
        ({**MINIMAL, "alert_on": ["failure", "fire"]}, "alert_on"),
        ({**MINIMAL, "alert_on": [["late"]]}, "alert_on"),
        ({**MINIMAL, "alert_on": "late"}, "alert_on"),
        ({**MINIMAL, "alert_on": {"late": True}}, "alert_on"),
        ({**MINIMAL, "alert_on": ["late"] * 10_000}, "alert_on"),
        ({**MINIMAL, "spread_s": -5}, "spread_s"),
        ({**MINIMAL, "nmae": "x"}, "nmae"),
        ({"run_at": 253402300799, "target": TARGET}, "run_at"),
        ({"run_at": 20000000001, "target": TARGET}, "run_at"),
        ({"run_at": "1704067200", "target": TARGET}, "run_at"),
        ({"run_at": "2026-10-11T02:00:00", "target": TARGET}, "run_at"),
        ({"run_at": "9999-12-31T23:59:59-01:00", "target": TARGET}, "run_at"),
        ({"run_at": "0001-01-01T00:00:00+01:00", "target": TARGET}, "run_at"),
        ({"delay_s": -5, "target": TARGET}, "delay_s"),
        ({"delay_s": 1e18, "target": TARGET}, "delay_s"),
        ({"delay_s": 1, "target": {**TARGET, "headers": {"X": "a\r\nY: b"}}}, "target.headers.X"),
        ([], ""),
        ("x", ""),
        (5, ""),
        (None, ""),
        ([MINIMAL], ""),
    ],
)
def test_a_job_with_a_fault_is_refused_by_field_value_and_remedy(body: object, field: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        headers = {"Content-Type": "application/json; charset=UTF-8"}
        problem = problem_of(await client.post("/v1/jobs", content=json.dumps(body), headers=headers), 422)
        assert [fault["field"] for fault in problem["faults"]][:1] == [field]
        assert len(str(problem)) < 10_000

    visit(house, scene)
    assert not house.bus.commands


def test_all_faults_come_in_one_answer() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        body = {"run_at": 5, "target": {"type": "http", "url": "x"}, "a": 1, "b": 2}
        problem = problem_of(await client.post("/v1/jobs", json=body), 422)
        assert [fault["field"] for fault in problem["faults"]] == ["run_at", "target.url", "a", "b"]
        assert problem["detail"].startswith("4 faults")

    visit(House(), scene)


def test_fractions_are_kept_to_the_microsecond_and_never_early() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for fraction, kept in (("123456", "123456"), ("1234567", "123457"), ("123456001", "123457")):
            body = {"run_at": f"2026-10-11T02:00:00.{fraction}Z", "target": TARGET}
            job = (await client.post("/v1/jobs", json=body)).json()
            assert job["next_run_at"] == f"2026-10-11T02:00:00.{kept}Z"
        now = (await client.post("/v1/jobs", json={**MINIMAL, "delay_s": 0})).json()
        assert now["schedule"] == {"delay_s": 0}
        assert now["next_run_at"] is None, "due already"

    visit(House(), scene)


def test_validate_only_writes_nothing() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/jobs?validate_only=true", json=MINIMAL)
        assert response.status_code == 200
        assert response.json()["job"]["target"]["method"] == "POST"
        problem_of(await client.post("/v1/jobs?validate_only=true", json={}), 422)
        problem_of(await client.post("/v1/jobs?validate_only=yes", json=MINIMAL), 422)
        assert not house.bus.commands
        assert (await client.post("/v1/jobs?validate_only=false", json=MINIMAL)).status_code == 201

    visit(house, scene)


def test_what_the_owner_rejects_is_422_with_its_faults() -> None:
    house = House()
    house.owner.rejecting = (Fault("run_at", "'x'", "is not to the owner's liking", "please the owner"),)

    async def scene(client: httpx.AsyncClient) -> None:
        problem = problem_of(await client.post("/v1/jobs", json=MINIMAL), 422)
        assert problem["faults"][0]["remedy"] == "please the owner"

    visit(house, scene)


def test_without_an_outcome_in_time_the_command_is_pending_and_its_url_tells() -> None:
    house = House()
    house.answering = False

    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/jobs", json=MINIMAL)
        assert response.status_code == 202
        pending = response.json()
        ((command_id, job_id, value),) = house.bus.commands
        assert response.headers["location"] == pending["status_url"] == f"/v1/commands/{command_id}"
        assert (pending["command_id"], pending["job_id"], pending["status"]) == (command_id, job_id, "pending")
        assert pending["delivery"] == "logged"
        status = (await client.get(pending["status_url"])).json()
        assert status["status"] == "pending"
        house.bus.publish(command_id, CODEC.encode_outcome(house.outcome_of(CODEC.decode_command(value))))
        status = (await client.get(pending["status_url"])).json()
        assert (status["status"], status["detail"], status["job_id"]) == ("accepted", "created", job_id)

    visit(house, scene)


def test_a_delivery_of_unknown_outcome_is_said_as_such() -> None:
    house = House()
    house.answering, house.bus.delivery = False, Delivery.UNKNOWN

    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/jobs", json=MINIMAL)
        assert response.status_code == 202
        assert response.json()["delivery"] == "unknown"
        assert "may be decided or lost" in response.json()["detail"]

    visit(house, scene)


def test_an_outcome_counts_even_where_the_delivery_was_never_acknowledged() -> None:
    house = House()
    house.bus.delivery = None

    async def scene(client: httpx.AsyncClient) -> None:
        assert (await client.post("/v1/jobs", json=MINIMAL)).status_code == 201

    visit(house, scene)


@pytest.mark.parametrize("how", ["at once", "from the future"])
def test_a_command_that_is_certainly_not_logged_is_503(how: str) -> None:
    house = House()
    if how == "at once":
        house.bus.problems.append("no Kafka broker is reachable")
    else:
        house.bus.delivery = Unavailable("kafka", "the topic does not exist")

    async def scene(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/jobs", json=MINIMAL)
        assert problem_of(response, 503)["part"] == "kafka"
        assert response.headers["retry-after"] == "1"

    visit(house, scene)


def test_requests_that_wait_are_bounded() -> None:
    house = House(pending_max=3, outcome_wait_s=30.0)
    house.answering = False

    async def scene(client: httpx.AsyncClient) -> None:
        waiting = [asyncio.create_task(client.post("/v1/jobs", json=MINIMAL)) for _ in range(3)]
        while len(house.bus.commands) < 3:
            await asyncio.sleep(0.001)
        response = await client.post("/v1/jobs", json=MINIMAL)
        assert problem_of(response, 503)["part"] == "gateway"
        assert response.headers["retry-after"]
        assert "tocsin_requests_waiting 3.0" in (await client.get("/metrics")).text
        for command_id, _, value in house.bus.commands:
            house.bus.publish(command_id, CODEC.encode_outcome(house.outcome_of(CODEC.decode_command(value))))
        assert [response.status_code for response in await asyncio.gather(*waiting)] == [201] * 3
        assert "tocsin_requests_waiting 0.0" in (await client.get("/metrics")).text

    visit(house, scene)


def test_with_the_store_away_a_job_is_still_created_and_the_answer_says_so() -> None:
    house = House()
    house.views.failing = True

    async def scene(client: httpx.AsyncClient) -> None:
        for _ in range(2):
            response = await client.post("/v1/jobs", json=MINIMAL)
            assert response.status_code == 201
            assert response.headers["tocsin-index"] == "pending"
        problem_of(await client.get(response.headers["location"]), 503)

    visit(house, scene)


def test_an_undecodable_outcome_is_500_without_a_stack() -> None:
    house = House()
    house.bus.owner = lambda _value: b"\xc3\x01 not an outcome"

    async def scene(client: httpx.AsyncClient) -> None:
        assert problem_of(await client.post("/v1/jobs", json=MINIMAL), 500)["type"].endswith("internal")

    visit(house, scene)


def test_next_run_at_is_null_once_it_has_passed() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = (await client.post("/v1/jobs", json=MINIMAL)).json()
        assert job["next_run_at"] == "2026-10-10T12:01:00Z"
        house.later(60)
        assert (await client.get(f"/v1/jobs/{job['job_id']}")).json()["next_run_at"] is None

    visit(house, scene)
    assert house.clock.now() == NOON + 60_000_000
