"""Route that runs dead executions again: it chooses letters, and sends one command for each that is still dead."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request

from tocsin.domain.commands import OutcomeDetail
from tocsin.domain.errors import Fault, InvalidInput, NotFound
from tocsin.domain.executions import ExecutionState
from tocsin.domain.fields import FieldReader, shown
from tocsin.domain.instants import SECOND, Micros, format_rfc3339
from tocsin.domain.letters import EXECUTION, LetterId
from tocsin.ports.views import FiledLetter, Run
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.jobs import read_job
from tocsin.roles.gateway.letters import letter_id_given, letters, wanted_of
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.requests import json_body, query_of, tenant_of, verb_fields
from tocsin.roles.gateway.retries import redrive_command, why_not_dead
from tocsin.roles.gateway.runs import runs_of
from tocsin.roles.gateway.submission import Undecided, submit

router = APIRouter()

LETTERS_MAX: Final = 500
LETTERS_DEFAULT: Final = 100
RATE_DEFAULT: Final = 10
RATE_MAX: Final = 1_000
RATE_MIN: Final = 0.01
AT_ONCE_MAX: Final = 16
"""Runs that are read, and commands that wait for their outcome, at once."""

REDRIVEN: Final = "redriven"
WOULD_BE: Final = "would_be_redriven"
NOT_DEAD: Final = "not_dead"
"""It was redriven before, and is not dead now; or a newer letter of it was."""
NOT_FOUND: Final = "not_found"
PENDING: Final = "pending"
JOB_GONE: Final = "the job is gone: deleted, or removed after its end"


@router.post("/v1/dead-letters:redrive", response_model=None, **doc.REDRIVE_LETTERS)
async def redrive(request: Request) -> Json:
    """Have dead executions attempted again under their ids, at most so many a second; the newest letters first."""
    parts = parts_of(request)
    query_of(request)
    tenant_id = tenant_of(request)
    reader = verb_fields(await json_body(request, parts.limits), _FIELDS, {})
    rate = reader.number("max_per_s", low=RATE_MIN, high=RATE_MAX, unit="executions a second") or RATE_DEFAULT
    remedy = f"give a whole number from 1 to {LETTERS_MAX}"
    limit = reader.whole("limit", low=1, high=LETTERS_MAX, unit="dead letters", remedy=remedy) or LETTERS_DEFAULT
    dry_run = reader.flag("dry_run") is True
    token = reader.text("page_token", chars_max=100)
    chosen = reader.child("filter", required=True, remedy="name a job_id or dead_letter_ids; {} means all")
    if chosen is not None:
        chosen.finish(("job_id", "dead_letter_ids"), {})
    if reader.faults or chosen is None:
        raise InvalidInput(reader.faults)
    after = None if token is None else letter_id_given("page_token", token)
    found, following = await _chosen(parts, tenant_id, chosen, limit, after)
    results = await _Redriving(parts, tenant_id, float(rate), dry_run).of(found)
    body = {
        "dry_run": dry_run,
        "redriven": sum(one["outcome"] in (REDRIVEN, WOULD_BE) for one in results),
        "results": results,
        "next_page_token": None if following is None else following.text,
    }
    return Json(body)


_FIELDS: Final = ("filter", "max_per_s", "dry_run", "limit", "page_token")


async def _chosen(
    parts: GatewayParts, tenant_id: str, chosen: FieldReader, limit: int, after: LetterId | None
) -> tuple[list[FiledLetter], LetterId | None]:
    given = chosen.get("dead_letter_ids")
    if given is None:
        return await letters(parts, tenant_id, wanted_of(tenant_id, EXECUTION, chosen.get("job_id")), limit, after)
    if not isinstance(given, list) or not 1 <= len(given) <= LETTERS_MAX or chosen.get("job_id") is not None:
        remedy = f"give a list of 1 to {LETTERS_MAX} ids, and no job_id beside it"
        raise InvalidInput([Fault("filter.dead_letter_ids", shown(given), "is no choice of dead letters", remedy)])
    places = [letter_id_given("filter.dead_letter_ids", str(one)) for one in given]
    found = [await parts.views.read_letter(tenant_id, place) for place in dict.fromkeys(places)]
    for one in found:
        if one.letter.kind != EXECUTION:
            fault = Fault("filter.dead_letter_ids", one.letter_id.text, f"is a {one.letter.kind}, which cannot be run",
                          "name letters of the kind execution")  # fmt: skip
            raise InvalidInput([fault])
    return sorted(found, key=lambda one: one.letter_id, reverse=True), None


class _Redriving:
    """One request's work: letters in order, each with what came of it."""

    def __init__(self, parts: GatewayParts, tenant_id: str, rate: float, dry_run: bool) -> None:
        self._parts = parts
        self._tenant_id = tenant_id
        self._rate = rate
        self._dry_run = dry_run
        self._room = asyncio.Semaphore(AT_ONCE_MAX)

    async def of(self, found: Sequence[FiledLetter]) -> list[dict[str, Any]]:
        """Redrive what is dead of these letters; the first of an execution is its newest, and stands for all."""
        histories = await asyncio.gather(*map(self._history, found))
        begin, sent = self._parts.clock.now(), 0
        seen: set[str | None] = set()
        work = []
        for one, last in zip(found, histories, strict=True):
            due_at = begin + round(sent / self._rate * SECOND)
            left_out = _left_out(one, last, seen)
            sent += left_out is None
            seen.add(one.letter.execution_id)
            work.append(self._one(one, last, due_at, left_out))
        return list(await asyncio.gather(*work))

    async def _history(self, one: FiledLetter) -> Run | None:
        """Return the last attempt of a letter's execution."""
        try:
            async with self._room:
                return (await runs_of(self._parts, self._tenant_id, one.letter.execution_id or ""))[-1]
        except NotFound:
            return None

    async def _one(
        self, one: FiledLetter, last: Run | None, due_at: Micros, left_out: tuple[str, str] | None
    ) -> dict[str, Any]:
        outcome, detail = left_out or (None, None)
        answer: dict[str, Any] = {
            "dead_letter_id": one.letter_id.text,
            "execution_id": one.letter.execution_id,
            "outcome": outcome,
            "not_before": None,
            "detail": detail,
        }
        if outcome is not None or last is None:
            return answer
        if self._dry_run and await self._is_gone(last.job_id):
            return {**answer, "outcome": NOT_FOUND, "detail": JOB_GONE}
        answer["not_before"] = format_rfc3339(due_at)
        if self._dry_run:
            return {**answer, "outcome": WOULD_BE}
        async with self._room:
            command = redrive_command(
                self._parts, self._tenant_id, last, max(last.redrives, one.letter.redrives), answer["not_before"]
            )
            decided = await submit(self._parts, command)
        if isinstance(decided, Undecided):
            return {**answer, "outcome": PENDING, "detail": f"ask /v1/commands/{decided.command_id}"}
        if decided.accepted:
            return {**answer, "outcome": REDRIVEN}
        refused = str(decided.detail or OutcomeDetail.INVALID)
        why = JOB_GONE if refused == NOT_FOUND else "; ".join(map(str, decided.faults)) or None
        return {**answer, "outcome": refused, "not_before": None, "detail": why}

    async def _is_gone(self, job_id: str) -> bool:
        """Tell whether a job is no more, as its owner would: without it nothing can run again."""
        async with self._room:
            return await read_job(self._parts, self._tenant_id, job_id) is None


def _left_out(one: FiledLetter, last: Run | None, seen: Container[str | None]) -> tuple[str, str] | None:
    """Return the outcome of a letter that is not redriven, and why it is not; None: it is."""
    if last is None:
        return NOT_FOUND, "history has no such run"
    if last.state != ExecutionState.DEAD:
        return NOT_DEAD, why_not_dead(last)
    if one.letter.execution_id in seen:
        return NOT_DEAD, "a newer dead letter stands for this run"
    return None
