"""``:complete`` and ``:fail``: what a target says of an accepted attempt becomes a report to the job's owner."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.gateway.house import House, problem_of, visit
from tests.unit.gateway.owner import CODEC
from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.errors import Unavailable
from tocsin.domain.executions import AttemptReport
from tocsin.ports.command_bus import Delivery

SECRET = "s" * 32
RUN = "acme@nightly.7.1760130000000000"
KEY = CallbackKeys([SECRET]).key(RUN, 2, 41)
GOOD = {"attempt": 2, "token": 41, "key": KEY}


def _house() -> House:
    return House(callbacks=CallbackKeys([SECRET]))


def _reports(house: House) -> list[AttemptReport]:
    return [CODEC.decode_report(report) for _, report in house.bus.reports]


def test_a_completed_run_is_reported_to_its_owner() -> None:
    house = _house()

    async def scene(client: httpx.AsyncClient) -> None:
        answer = await client.post(f"/v1/runs/{RUN}:complete", json={**GOOD, "result": "42 rows"})
        assert answer.status_code == 202
        assert answer.headers["location"] == f"/v1/runs/{RUN}"
        assert (answer.json()["reported"], answer.json()["token"]) == ("SUCCEEDED", 41)

    visit(house, scene)
    assert house.bus.reports[0][0] == "acme@nightly"
    [report] = _reports(house)
    assert (report.kind, report.result, report.error) == ("SUCCEEDED", "42 rows", None)
    head = report.head
    assert (head.execution_id, head.attempt, head.token, head.tenant_id) == (RUN, 2, 41, "acme")


@pytest.mark.parametrize(
    ("said", "error_class", "message"),
    [
        ({}, "callback_failed", "its target says that it failed"),
        ({"error": "no paper", "retry_after_s": 60}, "callback_failed", "no paper"),
        ({"error": "no such account", "retryable": False}, "callback_refused", "no such account"),
    ],
)
def test_a_failed_run_is_reported_with_its_reason(said: dict[str, Any], error_class: str, message: str) -> None:
    house = _house()

    async def scene(client: httpx.AsyncClient) -> None:
        assert (await client.post(f"/v1/runs/{RUN}:fail", json={**GOOD, **said})).status_code == 202

    visit(house, scene)
    [report] = _reports(house)
    assert report.kind == "FAILED"
    assert report.error is not None
    assert (report.error.error_class, report.error.message) == (error_class, message)
    assert report.error.retry_after_s == said.get("retry_after_s")


def test_a_job_whose_id_tocsin_made_is_called_back_without_naming_a_tenant() -> None:
    run = f"job_{'0123456789abcdef' * 2}.7.1760130000000000"
    house = _house()

    async def scene(client: httpx.AsyncClient) -> None:
        body = {**GOOD, "key": CallbackKeys([SECRET]).key(run, 2, 41)}
        assert (await client.post(f"/v1/runs/{run}:complete", json=body)).status_code == 202

    visit(house, scene)
    assert len(house.bus.reports) == 1


@pytest.mark.parametrize("change", [{"attempt": 3}, {"token": 42}, {"key": "0" * 64}])
@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_a_key_of_another_dispatch_is_refused_and_not_shown(verb: str, change: dict[str, Any]) -> None:
    house = _house()

    async def scene(client: httpx.AsyncClient) -> None:
        answer = await client.post(f"/v1/runs/{RUN}:{verb}", json={**GOOD, **change})
        problem_of(answer, 403)
        assert KEY not in answer.text

    visit(house, scene)
    assert house.bus.reports == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"attempt": None}, "attempt"),
        ({"attempt": 0}, "attempt"),
        ({"attempt": 2**31}, "attempt"),
        ({"attempt": "2"}, "attempt"),
        ({"attempt": True}, "attempt"),
        ({"token": -1}, "token"),
        ({"token": 2**63}, "token"),
        ({"token": 41.0}, "token"),
        ({"key": None}, "key"),
        ({"key": "short"}, "key"),
        ({"key": "é" * 64}, "key"),
        ({"key": 5}, "key"),
        ({"result": "x" * 1_001}, "result"),
        ({"result": 5}, "result"),
        ({"error": "of :fail"}, "error"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_is_no_callback_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    house = _house()

    async def scene(client: httpx.AsyncClient) -> None:
        problem = problem_of(await client.post(f"/v1/runs/{RUN}:complete", json={**GOOD, **change}), 422)
        assert [fault["field"] for fault in problem["faults"]] == [field]

    visit(house, scene)
    assert house.bus.reports == []


@pytest.mark.parametrize("change", [{"retryable": "no"}, {"retry_after_s": -1}, {"retry_after_s": 1e300}])
def test_what_is_wrong_with_a_failure_is_refused_by_its_field(change: dict[str, Any]) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        problem = problem_of(await client.post(f"/v1/runs/{RUN}:fail", json={**GOOD, **change}), 422)
        assert [fault["field"] for fault in problem["faults"]] == list(change)

    visit(_house(), scene)


@pytest.mark.parametrize("run", ["x", "a.b.c", "acme@nightly.7", "acme@nightly.7.99999999999999999999", "@n.7.5"])
def test_what_is_no_run_is_not_found(run: str) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        problem_of(await client.post(f"/v1/runs/{run}:complete", json=GOOD), 404)

    visit(_house(), scene)


def test_a_gateway_without_a_secret_says_so() -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        problem = problem_of(await client.post(f"/v1/runs/{RUN}:complete", json=GOOD), 503)
        assert "TOCSIN_CALLBACK_SECRETS" in problem["detail"]

    visit(House(), scene)


@pytest.mark.parametrize("delivery", [Delivery.UNKNOWN, Unavailable("kafka", "no broker is reachable")])
def test_a_callback_that_may_not_be_logged_is_not_confirmed(delivery: Delivery | Unavailable) -> None:
    house = _house()
    house.bus.delivery = delivery

    async def scene(client: httpx.AsyncClient) -> None:
        answer = await client.post(f"/v1/runs/{RUN}:complete", json=GOOD)
        problem_of(answer, 503)
        assert answer.headers["retry-after"]

    visit(house, scene)
