"""The output of attempts as people read it: in pages, from a place on, and by its tenant only."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.gateway.house import NOON, House, problem_of, visit
from tests.unit.gateway.test_runs import created, dispatched, ended, head_of
from tocsin.domain.instants import SECOND
from tocsin.ports.run_logs import LogChunk, LogPlace
from tocsin.roles.gateway.log_models import ChunkModel, LogModel


async def run_with_output(house: House, client: httpx.AsyncClient, *chunks: LogChunk, attempt: int = 1) -> str:
    head = head_of(await created(client), NOON + 60 * SECOND)._replace(attempt=attempt)
    dispatched(house, head)
    house.run_logs.write([(LogPlace(head.execution_id, attempt, chunk.token), [chunk]) for chunk in chunks])
    return f"/v1/runs/{head.execution_id}/logs"


def test_output_is_read_in_pages_and_a_follower_goes_on_where_it_was() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        chunks = [LogChunk(7, seq, NOON, f"line {seq}\n") for seq in range(3)]
        path = await run_with_output(house, client, *chunks)
        answer: dict[str, Any] = (await client.get(path, params={"limit": 2})).json()
        assert set(answer) == set(LogModel.model_fields)
        assert set(answer["chunks"][0]) == set(ChunkModel.model_fields)
        assert (answer["attempt"], answer["token"], answer["state"], answer["next_after"]) == (1, 7, "QUEUED", "7.1")
        assert answer["chunks"][1] == {
            "token": 7,
            "seq": 1,
            "at": "2026-10-10T12:00:00Z",
            "text": "line 1\n",
            "lost_bytes": 0,
            "lost_why": None,
            "last": False,
        }
        answer = (await client.get(path, params={"after": "7.1"})).json()
        assert [chunk["text"] for chunk in answer["chunks"]] == ["line 2\n"]
        answer = (await client.get(path, params={"after": "7.2"})).json()
        assert (answer["chunks"], answer["next_after"]) == ([], "7.2")
        place = LogPlace(answer["execution_id"], 1, 9)
        house.run_logs.write([(place, [LogChunk(9, 0, NOON, "again\n", 5, "limit", True)])])
        [chunk] = (await client.get(path, params={"after": "7.2"})).json()["chunks"]
        assert (chunk["token"], chunk["text"], chunk["lost_bytes"], chunk["last"]) == (9, "again\n", 5, True)

    visit(house, scene)


def test_the_latest_attempt_is_shown_unless_another_is_named() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path = await run_with_output(house, client, LogChunk(9, 0, NOON, "second"), attempt=2)
        head = head_of((await client.get("/v1/jobs")).json()["jobs"][0], NOON + 60 * SECOND)
        ended(house, head, state="RETRY_SCHEDULED", attempt_state="FAILED")
        house.run_logs.write([(LogPlace(head.execution_id, 1, 7), [LogChunk(7, 0, NOON, "first")])])
        for query, wanted in (({}, (2, "second")), ({"attempt": 1}, (1, "first")), ({"attempt": 2}, (2, "second"))):
            answer = (await client.get(path, params=query)).json()
            assert (answer["attempt"], answer["chunks"][0]["text"]) == wanted
        problem_of(await client.get(path, params={"attempt": 3}), 404)

    visit(house, scene)


def test_output_is_its_tenant_s_alone_and_a_run_without_any_has_none() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path = await run_with_output(house, client, LogChunk(7, 0, NOON, "secret"))
        assert "secret" not in (await client.get(path, headers={"Tocsin-Tenant": "other"})).text
        problem_of(await client.get(path, headers={"Tocsin-Tenant": "other"}), 404)
        problem_of(await client.get(path.replace("/v1/runs/", "/v1/runs/x")), 404)
        quiet = await run_with_output(house, client)
        answer = (await client.get(quiet)).json()
        assert (answer["chunks"], answer["next_after"]) == ([], None)
        house.run_logs.failing = True
        problem_of(await client.get(path), 503)

    visit(house, scene)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("after", text) for text in ("", "7", "7.", "-1.0", "7.1.1", "9" * 19 + ".0", f"7.{2**31}", "٧.1", "a.b")),
        *(("attempt", text) for text in ("", "0", "-1", "1.0", "two", str(2**31), "9" * 40, "²")),
        *(("limit", text) for text in ("0", "501")),
        ("tail", "5"),
    ],
)
def test_what_is_no_place_no_attempt_and_no_limit_is_refused_by_name(name: str, value: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        path = await run_with_output(house, client)
        problem = problem_of(await client.get(path, params={name: value}), 422)
        assert [fault["field"] for fault in problem["faults"]] == [name]

    visit(house, scene)
