"""Redriving dead letters: which, how fast, and what is left out."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.unit.gateway.house import NOON, House, problem_of, visit
from tests.unit.gateway.test_letters import buried
from tests.unit.gateway.test_runs import created, ended, head_of
from tocsin.domain.instants import SECOND
from tocsin.roles.gateway.letter_models import RedriveModel

PATH = "/v1/dead-letters:redrive"


async def job_named(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    return await created(client, job_id=name)


def died(house: House, job: dict[str, Any], ago_s: int = 0, attempt: int = 3, **fields: Any) -> str:
    """A run of the job is dead; return its letter's id."""
    head = replace_attempt(head_of(job, NOON - ago_s * SECOND), attempt)
    ended(house, head, state="DEAD", reason="attempts_used_up")
    given = {"job_id": job["job_id"], "execution_id": head.execution_id, **fields}
    return buried(house, NOON - ago_s * SECOND + attempt, **given)


def replace_attempt(head: Any, attempt: int) -> Any:
    return head._replace(attempt=attempt)


async def redriven(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post(PATH, json={"filter": {}, **body})
    assert response.status_code == 200, response.text
    RedriveModel.model_validate(response.json())
    answer: dict[str, Any] = response.json()
    return answer


def outcomes(answer: dict[str, Any]) -> dict[str, str]:
    return {one["dead_letter_id"]: one["outcome"] for one in answer["results"]}


def test_each_dead_execution_becomes_one_command_no_faster_than_asked() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await job_named(client, "nightly")
        letters = [died(house, job, ago_s=n, redrives=n) for n in range(3)]
        answer = await redriven(client, max_per_s=2)
        assert outcomes(answer) == dict.fromkeys(letters, "redriven")
        assert (answer["redriven"], answer["next_page_token"], answer["dry_run"]) == (3, None, False)
        commands = sorted(house.owner.redriven, key=lambda command: command.redrives_before or 0)
        assert [command.not_before for command in commands] == [
            "2026-10-10T12:00:00Z",
            "2026-10-10T12:00:00.500000Z",
            "2026-10-10T12:00:01Z",
        ]
        assert [(c.attempts_before, c.redrives_before) for c in commands] == [(3, 0), (3, 1), (3, 2)]
        assert [one["execution_id"] for one in answer["results"]] == [c.execution_id for c in commands]

    visit(house, scene)


def test_a_dry_run_sends_nothing_and_says_the_same() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        letter = died(house, await job_named(client, "nightly"))
        answer = await redriven(client, dry_run=True)
        assert outcomes(answer) == {letter: "would_be_redriven"}
        assert (answer["redriven"], answer["dry_run"]) == (1, True)
        assert house.owner.redriven == []

    visit(house, scene)


def test_what_is_not_dead_any_more_or_not_known_or_running_is_left_out() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job, other = await job_named(client, "nightly"), await job_named(client, "other")
        older = died(house, job, attempt=3)
        newer = died(house, job, attempt=6, redrives=1)
        mended = died(house, job, ago_s=9)
        ended(house, replace_attempt(head_of(job, NOON - 9 * SECOND), 4))
        unknown = buried(house, NOON - 30 * SECOND, execution_id="default@nightly.7.9")
        foreign = buried(house, NOON - 31 * SECOND, execution_id="acme@nightly.7.9")
        running = died(house, other, ago_s=20)
        house.owner.running.add(other["job_id"])
        answer = await redriven(client)
        assert outcomes(answer) == {
            newer: "redriven",
            older: "not_dead",
            mended: "not_dead",
            running: "running",
            unknown: "not_found",
            foreign: "not_found",
        }
        (command,) = house.owner.redriven
        assert (command.attempts_before, command.redrives_before) == (6, 1)
        details = {one["dead_letter_id"]: one["detail"] for one in answer["results"]}
        assert details[older] == "a newer dead letter stands for this run"
        assert details[mended] == "the run is SUCCEEDED"
        assert details[unknown] == details[foreign] == "history has no such run"

    visit(house, scene)


def test_what_is_dead_of_a_job_that_is_gone_stays_so_and_a_dry_run_says_it_too() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job = await job_named(client, "nightly")
        letter = died(house, job)
        assert (await client.delete("/v1/jobs/nightly")).status_code == 200
        for dry_run in (True, False):
            (one,) = (await redriven(client, dry_run=dry_run))["results"]
            assert (one["dead_letter_id"], one["outcome"], one["not_before"]) == (letter, "not_found", None)
            assert one["detail"] == "the job is gone: deleted, or removed after its end"

    visit(house, scene)


def test_a_job_or_ids_choose_and_a_page_says_where_to_go_on() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        job, other = await job_named(client, "nightly"), await job_named(client, "other")
        mine = [died(house, job, ago_s=n) for n in range(3)]
        its = died(house, other, ago_s=10)
        record = buried(house, NOON - 99 * SECOND, "record")
        answer = await redriven(client, filter={"job_id": "nightly"}, limit=2, dry_run=True)
        assert list(outcomes(answer)) == mine[:2]
        token = answer["next_page_token"]
        answer = await redriven(client, filter={"job_id": "nightly"}, limit=2, dry_run=True, page_token=token)
        assert (list(outcomes(answer)), answer["next_page_token"]) == (mine[2:], None)
        answer = await redriven(client, filter={"dead_letter_ids": [its, mine[0], its]})
        assert list(outcomes(answer)) == [mine[0], its]
        assert (
            "is a record"
            in problem_of(await client.post(PATH, json={"filter": {"dead_letter_ids": [record]}}), 422)["faults"][0][
                "problem"
            ]
        )
        problem_of(await client.post(PATH, json={"filter": {"dead_letter_ids": ["1.1.1"]}}), 404)

    visit(house, scene)


def test_an_owner_that_does_not_answer_in_time_leaves_them_pending() -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        died(house, await job_named(client, "nightly"))
        house.answering = False
        (one,) = (await redriven(client))["results"]
        assert one["outcome"] == "pending"
        assert one["detail"].startswith("ask /v1/commands/cmd_")

    visit(house, scene)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "filter"),
        ({"filter": []}, "filter"),
        ({"filter": {"kind": "record"}}, "filter.kind"),
        ({"filter": {}, "max_per_s": 0}, "max_per_s"),
        ({"filter": {}, "max_per_s": "fast"}, "max_per_s"),
        ({"filter": {}, "limit": 501}, "limit"),
        ({"filter": {}, "limit": 1.5}, "limit"),
        ({"filter": {}, "dry_run": 1}, "dry_run"),
        ({"filter": {}, "page_token": "x"}, "page_token"),
        ({"filter": {"dead_letter_ids": []}}, "filter.dead_letter_ids"),
        ({"filter": {"dead_letter_ids": [7]}}, "filter.dead_letter_ids"),
        ({"filter": {"dead_letter_ids": ["1.1.1"], "job_id": "nightly"}}, "filter.dead_letter_ids"),
        ({"filter": {"job_id": 7}}, "job_id"),
        ({"filter": {}, "speed": 1}, "speed"),
    ],
)
def test_faults_are_named_and_nothing_is_redriven(body: dict[str, Any], field: str) -> None:
    house = House()

    async def scene(client: httpx.AsyncClient) -> None:
        died(house, await job_named(client, "nightly"))
        problem = problem_of(await client.post(PATH, json=body), 422)
        assert [fault["field"] for fault in problem["faults"]] == [field]
        assert house.owner.redriven == []

    visit(house, scene)
