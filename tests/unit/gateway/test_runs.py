"""Runs as people read them: times, lateness, errors, and whose they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.unit.gateway.house import MINIMAL, NOON, TARGET, House, problem_of, visit
from tocsin.domain import ids
from tocsin.domain.executions import AttemptError, AttemptHead, ExecutionEvent
from tocsin.domain.instants import DAY, SECOND
from tocsin.ports.views import DispatchSeen, EventSeen, Run
from tocsin.roles.gateway.models import RunListModel, RunModel


def head_of(job: dict[str, Any], scheduled_for: int, tenant_id: str = "default") -> AttemptHead:
    execution_id = ids.execution_id(job["job_id"], job["version"], scheduled_for)
    return AttemptHead(1, 7, 0, execution_id, job["job_id"], tenant_id, job["version"], scheduled_for, scheduled_for)


def dispatched(house: House, head: AttemptHead, late_us: int = 1_500) -> None:
    house.views.write([], [DispatchSeen(head, head.due_at + late_us, "default")], [])


def ended(house: House, head: AttemptHead, **fields: Any) -> None:
    at = head.due_at
    event = ExecutionEvent(
        head,
        "SUCCEEDED",
        at + 2_500,
        at + 900_000,
        started_at=at + 10_000,
        finished_at=at + 800_000,
        worker_id="w1",
        result="200 OK",
    )
    house.views.write([], [], [EventSeen(replace(event, **fields), 9)])


async def created(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    job: dict[str, Any] = (await client.post("/v1/jobs", json={**MINIMAL, **fields})).json()
    return job


def test_a_run_is_queued_until_its_end_is_known() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        assert (await client.get(f"/v1/jobs/{job['job_id']}/runs")).json()["runs"] == []
        head = head_of(job, NOON + 60 * SECOND)
        dispatched(house, head)
        response = await client.get(f"/v1/jobs/{job['job_id']}/runs?limit=50")
        assert response.headers["tocsin-view"] == "eventually-consistent"
        (run,) = response.json()["runs"]
        assert run["state"] == "QUEUED"
        assert run["lateness_ms"] == 1.5
        assert run["scheduled_for"] == "2026-10-10T12:01:00Z"
        assert run["finished_at"] is None
        assert run["error"] is None
        ended(house, head)
        (run,) = (await client.get(f"/v1/jobs/{job['job_id']}/runs")).json()["runs"]
        assert (run["state"], run["result"], run["worker_id"]) == ("SUCCEEDED", "200 OK", "w1")
        assert run["finished_at"] == "2026-10-10T12:01:00.800000Z"
        execution = (await client.get(f"/v1/runs/{head.execution_id}")).json()
        assert execution["state"] == "SUCCEEDED"
        assert execution["attempts"] == [run]

    visit(house, scene)


def test_a_retry_is_late_from_the_end_of_its_delay_and_only_where_that_is_known() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        first = head_of(job, NOON + 60 * SECOND)
        due = first.due_at
        ended(house, first, state="RETRY_SCHEDULED", attempt_state="FAILED", retry_at=due + 5 * SECOND)
        second = first._replace(attempt=2, token=8)
        ended(house, second, state="DEAD", published_at=due + 5 * SECOND + 4_000)
        redriven = second._replace(attempt=3, token=9, due_at=due + 90 * SECOND)
        ended(house, redriven, published_at=redriven.due_at + 1_000)
        execution = (await client.get(f"/v1/runs/{first.execution_id}")).json()
        assert [run["lateness_ms"] for run in execution["attempts"]] == [2.5, 4.0, 1.0]
        path = f"/v1/jobs/{job['job_id']}/runs"
        listed = (await client.get(path)).json()["runs"]
        assert [run["lateness_ms"] for run in listed] == [1.0, 4.0, 2.5]
        cut = (await client.get(f"{path}?limit=2")).json()["runs"]
        assert [run["lateness_ms"] for run in cut] == [1.0, 4.0], "what follows a page tells when its last was due"
        orphan = head_of(job, NOON + 30 * SECOND)._replace(attempt=2)
        ended(house, orphan)
        assert (await client.get(path)).json()["runs"][-1]["lateness_ms"] is None, "nothing tells when it was due"
        lost = head_of(job, NOON + 120 * SECOND)._replace(losses=1)
        dispatched(house, lost, late_us=12 * SECOND)
        assert (await client.get(f"{path}?limit=1")).json()["runs"][0]["lateness_ms"] is None

    visit(house, scene)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
def test_pages_hold_every_run_once_in_order_also_where_many_share_a_nominal_time(limit: int) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        path = f"/v1/jobs/{job['job_id']}/runs"
        wanted = []
        for minutes in (3, 2, 1):
            head = head_of(job, NOON + minutes * 60 * SECOND)
            by_hand = head.execution_id.rpartition(".")[0] + f".t{head.scheduled_for}.cmd"
            for execution_id in sorted((head.execution_id, f"{by_hand}1", f"{by_hand}2")):
                for attempt in (3, 2, 1):
                    ended(house, head._replace(execution_id=execution_id, attempt=attempt))
                    wanted.append((execution_id, attempt))
        found, query = [], {"limit": limit}
        while True:
            page = (await client.get(path, params=query)).json()
            RunListModel.model_validate(page)
            found += [(run["execution_id"], run["attempt"]) for run in page["runs"]]
            if page["next_page_token"] is None:
                break
            assert len(page["runs"]) == limit
            query["page_token"] = page["next_page_token"]
        assert found == wanted
        for token in (
            "x",
            "0.x",
            "1.x",
            f"1.{wanted[0][0].replace('job_', 'job_0')}",
            "",
            f"01.{wanted[0][0]}",
            f"{2**31}.{wanted[0][0]}",
        ):
            problem = problem_of(await client.get(path, params={"page_token": token}), 422)
            assert problem["faults"][0]["field"] == "page_token"
        end = {"page_token": "1." + head_of(job, SECOND).execution_id}
        assert (await client.get(path, params=end)).json() == {"runs": [], "next_page_token": None}

    visit(house, scene)


def test_a_failed_run_says_why() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        head = head_of(job, NOON + 60 * SECOND)
        ended(
            house,
            head,
            state="DEAD",
            attempt_state="FAILED",
            error=AttemptError("status", "418 teapot", 418),
            result=None,
        )
        execution = (await client.get(f"/v1/runs/{head.execution_id}")).json()
        assert execution["state"] == "DEAD"
        assert execution["attempts"][0]["error"] == {"class": "status", "message": "418 teapot", "status": 418}
        assert execution["attempts"][0]["attempt_state"] == "FAILED"

    visit(house, scene)


def test_the_runs_of_a_job_whose_time_had_long_passed_are_found() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = (await client.post("/v1/jobs", json={"run_at": "1999-12-31T23:59:59Z", "target": TARGET})).json()
        ended(house, head_of(job, 946_684_799 * SECOND))
        assert len((await client.get(f"/v1/jobs/{job['job_id']}/runs")).json()["runs"]) == 1

    visit(house, scene)


def test_the_runs_of_a_deleted_job_stay_readable_for_its_tenant_only() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        head = head_of(job, NOON + 60 * SECOND)
        dispatched(house, head)
        house.later(61)
        assert (await client.delete(f"/v1/jobs/{job['job_id']}")).status_code == 200
        house.later(DAY // SECOND * 300)
        assert len((await client.get(f"/v1/jobs/{job['job_id']}/runs")).json()["runs"]) == 1
        assert (await client.get(f"/v1/runs/{head.execution_id}")).status_code == 200
        for path in (f"/v1/jobs/{job['job_id']}/runs", f"/v1/runs/{head.execution_id}"):
            problem_of(await client.get(path, headers={"Tocsin-Tenant": "other"}), 404)

    visit(house, scene)


def test_a_run_whose_tenant_is_not_filed_yet_counts_with_its_job_only() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        head = head_of(job, NOON + 60 * SECOND)
        dispatched(house, head)
        forget_tenants(house)
        assert (await client.get(f"/v1/runs/{head.execution_id}")).status_code == 200
        assert len((await client.get(f"/v1/jobs/{job['job_id']}/runs")).json()["runs"]) == 1
        for path in (f"/v1/jobs/{job['job_id']}/runs", f"/v1/runs/{head.execution_id}"):
            problem_of(await client.get(path, headers={"Tocsin-Tenant": "other"}), 404)
        await client.delete(f"/v1/jobs/{job['job_id']}")
        problem_of(await client.get(f"/v1/runs/{head.execution_id}"), 404)

    visit(house, scene)


def forget_tenants(house: House) -> None:
    """Have the view answer as it does between two writes of its projector."""
    views, kind = house.app.state.parts.views, type(house.views)

    async def read_run(execution_id: str) -> list[Run]:
        return [replace(run, tenant_id=None) for run in await kind.read_run(house.views, execution_id)]

    async def list_runs(*span: Any) -> list[Run]:
        return [replace(run, tenant_id=None) for run in await kind.list_runs(house.views, *span)]

    views.read_run, views.list_runs = read_run, list_runs


def test_the_list_of_runs_is_bounded() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        for attempt in range(1, 6):
            dispatched(house, head_of(job, NOON + 60 * SECOND)._replace(attempt=attempt))
        path = f"/v1/jobs/{job['job_id']}/runs"
        assert [run["attempt"] for run in (await client.get(f"{path}?limit=2")).json()["runs"]] == [5, 4]
        for query in ("limit=501", "limit=0", "page_token=x", "state=DEAD"):
            problem_of(await client.get(f"{path}?{query}"), 422)

    visit(house, scene)


def test_the_attempts_of_an_execution_show_why_and_when_it_is_tried_again() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        first = head_of(job, NOON + 60 * SECOND)
        failed = {"attempt_state": "FAILED", "error": AttemptError("status", "503 busy", 503), "result": None}
        ended(house, first, state="RETRY_SCHEDULED", retry_at=first.due_at + 30 * SECOND, **failed)
        execution = (await client.get(f"/v1/runs/{first.execution_id}")).json()
        assert execution["state"] == "RETRY_SCHEDULED"
        assert execution["attempts"][0]["retry_at"] == "2026-10-10T12:01:30Z"
        second = first._replace(attempt=2, token=8)
        dispatched(house, second)
        assert (await client.get(f"/v1/runs/{first.execution_id}")).json()["state"] == "QUEUED"
        ended(house, second, state="RUNNING", finished_at=None, result=None)
        execution = (await client.get(f"/v1/runs/{first.execution_id}")).json()
        assert [(run["attempt"], run["state"]) for run in execution["attempts"]] == [
            (1, "RETRY_SCHEDULED"),
            (2, "RUNNING"),
        ]
        assert execution["state"] == "RUNNING"

    visit(house, scene)


def test_what_was_skipped_is_a_run_with_its_range_and_reason() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        upto = NOON + 600 * SECOND
        head = head_of(job, NOON + 60 * SECOND)
        told = {"reason": "paused", "skipped_upto": upto, "skipped_count": 10, "result": None, "started_at": None}
        ended(house, head, state="SKIPPED", **told)
        (run,) = (await client.get(f"/v1/jobs/{job['job_id']}/runs")).json()["runs"]
        assert (run["state"], run["reason"], run["skipped_count"]) == ("SKIPPED", "paused", 10)
        assert run["skipped_upto"] == "2026-10-10T12:10:00Z"
        assert set(run) == set(RunModel.model_fields)

    visit(house, scene)


def test_runs_of_a_recurring_job_and_those_triggered_by_hand_are_listed_and_read() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client, delay_s=None, schedule={"every_s": 60}, job_id="mine")
        by_hand = ids.triggered_execution_id(job["job_id"], job["version"], NOON + SECOND, "cmd_" + "1" * 32)
        dispatched(house, head_of(job, NOON + SECOND)._replace(execution_id=by_hand))
        for minute in (1, 2, 400 * 24 * 60):
            dispatched(house, head_of(job, NOON + minute * 60 * SECOND))
        house.later(400 * DAY // SECOND)
        runs = (await client.get("/v1/jobs/mine/runs")).json()["runs"]
        assert [run["scheduled_for"] for run in runs] == [
            "2027-11-14T12:00:00Z",
            "2026-10-10T12:02:00Z",
            "2026-10-10T12:01:00Z",
            "2026-10-10T12:00:01Z",
        ]
        assert runs[-1]["execution_id"] == by_hand
        assert len((await client.get("/v1/jobs/mine/runs?limit=2")).json()["runs"]) == 2
        assert (await client.get(f"/v1/runs/{by_hand}")).json()["execution_id"] == by_hand
        problem_of(await client.get(f"/v1/runs/{by_hand}", headers={"Tocsin-Tenant": "other"}), 404)

    visit(house, scene)


def test_the_runs_of_an_earlier_job_under_the_same_id_stay_in_the_list() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client, job_id="mine")
        dispatched(house, head_of(job, NOON + 60 * SECOND))
        await client.delete("/v1/jobs/mine")
        house.later(90 * DAY // SECOND)
        again = await created(client, job_id="mine")
        dispatched(house, head_of(again, house.clock.now() + 60 * SECOND))
        assert len((await client.get("/v1/jobs/mine/runs")).json()["runs"]) == 2

    visit(house, scene)


def test_with_the_store_away_reading_is_503() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await created(client)
        head = head_of(job, NOON)
        house.views.failing = True
        for path in (
            "/v1/jobs",
            f"/v1/jobs/{job['job_id']}",
            f"/v1/jobs/{job['job_id']}/runs",
            f"/v1/runs/{head.execution_id}",
        ):
            problem_of(await client.get(path), 503)

    visit(house, scene)
