"""Routes of dead letters: what could not be served, newest first, as the view has it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request

from tocsin.domain import ids
from tocsin.domain.definitions import target_mapping
from tocsin.domain.errors import Fault, InvalidInput, NotFound, Undecodable
from tocsin.domain.fields import shown
from tocsin.domain.instants import DAY, EARLIEST, LATEST, format_rfc3339
from tocsin.domain.letters import EXECUTION, KEPT_DAYS, KINDS, LetterId, parse_letter_id
from tocsin.ports.codec import ExecutionCodec
from tocsin.ports.views import FiledLetter
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import VIEW_HEADERS, Json
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.requests import job_id_of, limit_of, page_token_of, query_of, tenant_of

router = APIRouter()

SCANNED_MAX: Final = 2_000
"""Letters that one request looks through for those that are wanted; a page may end before it is full."""
SCANNED_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which letters are wanted; None: any."""

    kind: str | None = None
    job_id: str | None = None

    @property
    def is_all(self) -> bool:
        return self.kind is None and self.job_id is None

    def has(self, one: FiledLetter) -> bool:
        """Tell whether a letter is among them."""
        letter = one.letter
        if self.kind not in (None, letter.kind):
            return False
        # That of a record stands as its sender wrote it.
        tenant_id = letter.tenant_id or ids.DEFAULT_TENANT
        return self.job_id is None or self.job_id == ids.full_job_id(tenant_id, letter.job_id or "")


@router.get("/v1/dead-letters", response_model=None, **doc.LIST_LETTERS)
async def list_letters(request: Request) -> Json:
    """List a tenant's dead letters of the last 90 days, newest first. A page may hold fewer than its limit."""
    parts = parts_of(request)
    query = query_of(request, ("limit", "page_token", "kind", "job_id"))
    tenant_id, limit = tenant_of(request), limit_of(query)
    token = page_token_of(query)
    after = None if token is None else letter_id_given("page_token", token)
    wanted = wanted_of(tenant_id, query.get("kind"), query.get("job_id"))
    found, following = await letters(parts, tenant_id, wanted, limit, after)
    body = {
        "dead_letters": [letter_json(one) for one in found],
        "next_page_token": None if following is None else following.text,
    }
    return Json(body, headers=VIEW_HEADERS)


@router.get("/v1/dead-letters/{letter_id}", response_model=None, **doc.GET_LETTER)
async def get_letter(request: Request, letter_id: str) -> Json:
    """Read one dead letter with its bytes, and what they say where they are an execution's."""
    query_of(request)
    try:
        place = parse_letter_id(letter_id)
    except Undecodable:
        raise NotFound("dead letter", letter_id) from None
    parts = parts_of(request)
    one = await parts.views.read_letter(tenant_of(request), place)
    body = {
        **letter_json(one),
        "execution": execution_json(one, parts.codec),
        "value": value_json(one.letter.value),
    }
    return Json(body, headers=VIEW_HEADERS)


async def letters(
    parts: GatewayParts, tenant_id: str, wanted: Wanted, limit: int, after: LetterId | None
) -> tuple[list[FiledLetter], LetterId | None]:
    """Return up to so many letters that are wanted, newest first, and after which to go on; None: there are no more."""
    now = parts.clock.now()
    place = after or LetterId(min(now + DAY, LATEST), 0, 0)
    oldest = max(EARLIEST, now - (KEPT_DAYS + 1) * DAY)
    page_rows = limit + 1 if wanted.is_all else SCANNED_AT_ONCE
    found: list[FiledLetter] = []
    scanned = 0
    while scanned < SCANNED_MAX:
        page = await parts.views.list_letters(tenant_id, place, oldest, page_rows)
        for one in page:
            if len(found) == limit:
                return found, place
            place = one.letter_id
            if wanted.has(one):
                found.append(one)
        if len(page) < page_rows:
            return found, None
        scanned += len(page)
    return found, place


def wanted_of(tenant_id: str, kind: object, job_id: object) -> Wanted:
    """Return which letters are wanted by kind and job.

    Raises:
        InvalidInput: there is no such kind.
        NotFound: the id can be none of the tenant's.
    """
    if kind is not None and kind not in KINDS:
        raise InvalidInput([Fault("kind", shown(kind), "is no kind of dead letter", f"use one of {', '.join(KINDS)}")])
    if job_id is not None and not isinstance(job_id, str):
        raise InvalidInput([Fault("job_id", shown(job_id), "is not a text", "give a job's id")])
    whole_id = None if job_id is None else job_id_of(tenant_id, job_id)
    return Wanted(None if kind is None else str(kind), whole_id)


def letter_id_given(field: str, text: str) -> LetterId:
    """Return the letter that a caller names.

    Raises:
        InvalidInput: that is no letter's id.
    """
    try:
        return parse_letter_id(text)
    except Undecodable as error:
        remedy = "give one as GET /v1/dead-letters shows it"
        raise InvalidInput([Fault(field, shown(text), str(error), remedy)]) from None


def letter_json(one: FiledLetter) -> dict[str, Any]:
    """Return a letter without its bytes."""
    letter = one.letter
    return {
        "dead_letter_id": one.letter_id.text,
        "kind": letter.kind,
        "reason": letter.reason,
        "at": format_rfc3339(one.letter_id.at),
        "job_id": letter.job_id,
        "execution_id": letter.execution_id,
        "redrives": letter.redrives,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "size": one.size,
    }


def execution_json(one: FiledLetter, codec: ExecutionCodec) -> dict[str, Any] | None:
    """Return what a letter of an execution was to do; None of others, and where its bytes are not all there."""
    if one.letter.kind != EXECUTION:
        return None
    try:
        execution = codec.decode_execution(one.letter.value)
    except Undecodable:
        return None
    return {
        "attempt": execution.head.attempt,
        "scheduled_for": format_rfc3339(execution.head.scheduled_for),
        "target": target_mapping(execution.target),
    }


def value_json(value: bytes) -> dict[str, str]:
    """Return bytes as text where they are text that can be shown, else in base64."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\x00"
    if "\x00" in text:
        return {"encoding": "base64", "content": base64.b64encode(value).decode()}
    return {"encoding": "utf-8", "content": text}
