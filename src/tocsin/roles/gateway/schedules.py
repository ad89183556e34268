"""Routes of schedules that no job has yet: what an expression means, and when it would be due."""

from __future__ import annotations

from typing import Final, Literal, cast

from fastapi import APIRouter, Request

from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.fields import FieldReader, shown
from tocsin.domain.instants import parse_rfc3339
from tocsin.domain.lookups import whole_job_id
from tocsin.domain.previews import TIMES_MAX, preview
from tocsin.domain.recurrence import CronError, DstPolicy
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.parts import parts_of
from tocsin.roles.gateway.requests import query_of, tenant_of

router = APIRouter()

TIMES_DEFAULT: Final = 10
PARAMETERS: Final = ("cron", "timezone", "n", "after", "gap", "overlap", "job_id")


@router.get("/v1/schedules:preview", response_model=None, **doc.PREVIEW_SCHEDULE)
async def preview_schedule(request: Request) -> Json:
    """Say in words when an expression is due, and list its next times with what the clock does to them."""
    query = query_of(request, PARAMETERS)
    faults: list[Fault] = []
    reader = FieldReader(query, "", faults)
    expression, timezone = _required(reader, "cron", '"0 2 * * *"'), _required(reader, "timezone", '"Asia/Kolkata"')
    gap = reader.choice("gap", ("shift", "skip"), default="shift")
    overlap = reader.choice("overlap", ("first", "second", "both"), default="first")
    count = _count(query.get("n", str(TIMES_DEFAULT)), faults)
    after = parts_of(request).clock.now()
    if "after" in query:
        try:
            after = parse_rfc3339(query["after"])
        except ValueError as error:
            remedy = "give an RFC 3339 time with an offset between 1970 and 2199 (in a URL + is written %2B)"
            faults.append(Fault("after", shown(query["after"]), str(error), remedy))
    job_id = _job_id(tenant_of(request), query.get("job_id"), faults)
    if faults or gap is None or overlap is None:
        raise InvalidInput(faults)
    dst = DstPolicy(cast(Literal["shift", "skip"], gap), cast(Literal["first", "second", "both"], overlap))
    try:
        return Json(preview(expression, timezone, after, count, dst, job_id).as_json())
    except CronError as error:
        raise InvalidInput([error.fault()]) from None


def _required(reader: FieldReader, name: str, example: str) -> str:
    value = reader.get(name)
    if value is None:
        reader.fault(name, None, "is missing", f"give one such as {example}")
    return value or ""


def _count(text: str, faults: list[Fault]) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= TIMES_MAX:
        return int(text)
    faults.append(Fault("n", shown(text), "is not a number of times", f"give a whole number from 1 to {TIMES_MAX}"))
    return 0


def _job_id(tenant_id: str, given: str | None, faults: list[Fault]) -> str | None:
    if given is None:
        return None
    try:
        return whole_job_id(given, tenant_id)
    except InvalidInput as error:
        faults.extend(error.faults)
        return None
