"""Dead letters as people read them: pages, filters, their bytes, and whose they are."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.gateway.house import NOON, House, problem_of, visit
from tests.unit.gateway.owner import CODEC
from tocsin.domain.executions import AttemptHead
from tocsin.domain.fleet import DeadLetter
from tocsin.domain.instants import DAY, SECOND
from tocsin.domain.letters import LetterId
from tocsin.domain.targets import HttpTarget
from tocsin.ports.views import LetterSeen
from tocsin.roles.gateway.letter_models import LetterModel, WholeLetterModel


def buried(house: House, at: int, kind: str = "execution", **fields: Any) -> str:
    """File a dead letter; return its id."""
    given = {"tenant_id": "default", "job_id": "default@nightly", "value": b"\xc3\x01\x00", **fields}
    value, reason = given.pop("value"), given.pop("reason", "503 Service Unavailable")
    letter = DeadLetter(kind, reason, at, "reports", 3, 7, value, **given)
    place = LetterId(at, 3, at % 1_000)
    house.views.write([], [], [], [LetterSeen(letter, place, 1)])
    return place.text


async def ids_of(client: httpx.AsyncClient, query: str) -> tuple[list[str], str | None]:
    answer = (await client.get(f"/v1/dead-letters{query}")).json()
    return [one["dead_letter_id"] for one in answer["dead_letters"]], answer["next_page_token"]


def test_the_list_is_a_page_at_a_time_the_newest_first() -> None:
    house = House()
    ids = [buried(house, NOON - n * DAY) for n in range(3)]
    buried(house, NOON - 95 * DAY)

    async def scene(client: httpx.AsyncClient) -> None:
        page, token = await ids_of(client, "?limit=2")
        assert page == ids[:2]
        assert await ids_of(client, f"?limit=2&page_token={token}") == (ids[2:], None)
        assert await ids_of(client, "?limit=3") == (ids, None)
        response = await client.get("/v1/dead-letters")
        assert response.headers["tocsin-view"] == "eventually-consistent"
        LetterModel.model_validate(response.json()["dead_letters"][0])

    visit(house, scene)


def test_kind_and_job_choose_also_where_a_sender_wrote_the_job_s_id_without_its_tenant() -> None:
    house = House()
    failed = buried(house, NOON)
    refused = buried(house, NOON - SECOND, "record", job_id="nightly")
    other = buried(house, NOON - 2 * SECOND, job_id="default@other")

    async def scene(client: httpx.AsyncClient) -> None:
        assert await ids_of(client, "?job_id=nightly") == ([failed, refused], None)
        assert await ids_of(client, "?kind=execution") == ([failed, other], None)
        assert await ids_of(client, "?kind=record&job_id=default@nightly") == ([refused], None)
        problem_of(await client.get("/v1/dead-letters?kind=none"), 422)
        problem_of(await client.get("/v1/dead-letters?job_id=other@nightly"), 404)
        for token in ("x", "1.2.3.4", "01.2.3", f"{2**62}.1.1"):
            problem_of(await client.get(f"/v1/dead-letters?page_token={token}"), 422)

    visit(house, scene)


def test_a_request_looks_through_so_many_and_says_where_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.roles.gateway.letters.SCANNED_AT_ONCE", 2)
    monkeypatch.setattr("tocsin.roles.gateway.letters.SCANNED_MAX", 4)
    house = House()
    for n in range(6):
        buried(house, NOON - n * SECOND, job_id="default@other")
    wanted = buried(house, NOON - 7 * SECOND)

    async def scene(client: httpx.AsyncClient) -> None:
        page, token = await ids_of(client, "?job_id=nightly")
        assert page == []
        assert await ids_of(client, f"?job_id=nightly&page_token={token}") == ([wanted], None)

    visit(house, scene)


def test_one_letter_shows_its_bytes_as_text_where_they_are_text() -> None:
    house = House()
    binary = buried(house, NOON)
    text = buried(house, NOON + 1, "record", value='{"kind": "größer"}'.encode())

    async def scene(client: httpx.AsyncClient) -> None:
        letter = (await client.get(f"/v1/dead-letters/{binary}")).json()
        assert letter["value"] == {"encoding": "base64", "content": "wwEA"}
        assert (letter["topic"], letter["partition"], letter["offset"], letter["size"]) == ("reports", 3, 7, 3)
        WholeLetterModel.model_validate(letter)
        letter = (await client.get(f"/v1/dead-letters/{text}")).json()
        assert letter["value"] == {"encoding": "utf-8", "content": '{"kind": "größer"}'}
        for wrong in ("x", f"{NOON}.3.999", f"{2**62}.0.0"):
            problem = problem_of(await client.get(f"/v1/dead-letters/{wrong}"), 404)
            assert problem["faults"][0]["field"] == "dead_letter_id"
        problem_of(await client.get(f"/v1/dead-letters/{text}", headers={"Tocsin-Tenant": "acme"}), 404)

    visit(house, scene)


def test_the_letter_of_an_execution_says_what_it_was_to_do() -> None:
    house = House()
    head = AttemptHead(3, 12, 0, "default@nightly.7.9", "default@nightly", "default", 7, 9, 9)
    whole = CODEC.encode_execution(head, HttpTarget("https://settle.internal/run"))
    letter = buried(house, NOON, value=whole)
    cut = buried(house, NOON + 1, value=whole[:-9])
    record = buried(house, NOON + 2, "record", value=whole)

    async def scene(client: httpx.AsyncClient) -> None:
        answer = (await client.get(f"/v1/dead-letters/{letter}")).json()
        said = answer["execution"]
        assert (said["attempt"], said["scheduled_for"]) == (3, "1970-01-01T00:00:00.000009Z")
        assert (said["target"]["type"], said["target"]["url"]) == ("http", "https://settle.internal/run")
        WholeLetterModel.model_validate(answer)
        for other in (cut, record):
            assert (await client.get(f"/v1/dead-letters/{other}")).json()["execution"] is None

    visit(house, scene)


def test_while_the_store_is_away_nothing_is_listed() -> None:
    house = House()
    house.views.failing = True

    async def scene(client: httpx.AsyncClient) -> None:
        problem_of(await client.get("/v1/dead-letters"), 503)

    visit(house, scene)
