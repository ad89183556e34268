"""Routes that change a job that stands, or run it: PUT, pause, resume, trigger. Each is one command."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request

from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.definitions import to_mapping
from tocsin.domain.errors import Fault, InvalidInput, Undecodable
from tocsin.domain.fields import shown
from tocsin.domain.ids import keyed_job_id, parse_execution_id
from tocsin.domain.instants import format_rfc3339, parse_rfc3339
from tocsin.domain.schedules import RUN_AT_REMEDY
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.decided import rejected, undecided, with_job
from tocsin.roles.gateway.jobs import read_definition, valid
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.requests import (
    flag_of,
    if_version_of,
    job_id_of,
    json_body,
    query_of,
    tenant_of,
    verb_body,
    verb_fields,
)
from tocsin.roles.gateway.submission import Undecided, command_of, submit

router = APIRouter()

REASON_CHARS_MAX: Final = 500
TIME_CHARS_MAX: Final = 64
LATER_OF_RESUME: Final = {"on_resume": "running what a pause held back"}


@router.put("/v1/jobs/{job_id}", response_model=None, **doc.PUT_JOB)
async def put_job(request: Request, job_id: str) -> Json:
    """Replace a job's definition. It fires nothing; an occurrence that both definitions have stays as it is."""
    parts = parts_of(request)
    validate_only = flag_of(query_of(request, ("validate_only",)), "validate_only")
    tenant_id = tenant_of(request)
    whole_id = job_id_of(tenant_id, job_id)
    if_version = if_version_of(request)
    body = await json_body(request, parts.limits)
    if isinstance(body, dict) and body.get("job_id") in (whole_id, job_id):
        del body["job_id"]
    named, definition = read_definition(tenant_id, body)
    key = definition.idempotency_key
    if named is not None and named != whole_id:
        remedy = "leave it out: the path names the job"
        raise InvalidInput([Fault("job_id", shown(named), "is another job than that of the path", remedy)])
    if key is not None and keyed_job_id(tenant_id, key) != whole_id:
        remedy = "leave it out: a job keeps the key that it was created under"
        raise InvalidInput([Fault("idempotency_key", shown(key), "is not the key of this job", remedy)])
    parts.refuse_unknown_pool(definition.target)
    if validate_only:
        return Json(valid(tenant_id, definition))
    mapping = to_mapping(definition)
    return await _changed(
        parts, command_of(parts, CommandKind.UPDATE, whole_id, tenant_id, mapping, if_version=if_version)
    )


@router.post("/v1/jobs/{job_id}:pause", response_model=None, **doc.PAUSE_JOB)
async def pause_job(request: Request, job_id: str) -> Json:
    """Pause a job: no new occurrences; what runs, and its retries, go on. With until, it resumes by itself."""
    parts = parts_of(request)
    reader = verb_fields(await _verb(request), ("reason", "until"), {})
    reason = reader.text("reason", chars_max=REASON_CHARS_MAX)
    until = reader.text("until", chars_max=TIME_CHARS_MAX, remedy=RUN_AT_REMEDY)
    if until is not None:
        try:
            parse_rfc3339(until)
        except ValueError as error:
            reader.fault("until", until, str(error), RUN_AT_REMEDY)
    if reader.faults:
        raise InvalidInput(reader.faults)
    return await _changed(parts, _command(request, CommandKind.PAUSE, job_id, reason, until))


@router.post("/v1/jobs/{job_id}:resume", response_model=None, **doc.RESUME_JOB)
async def resume_job(request: Request, job_id: str) -> Json:
    """Resume a paused job. What fell into the pause is as ``on_resume`` says: skipped, but a one-off fires late."""
    parts = parts_of(request)
    reader = verb_fields(await _verb(request), (), LATER_OF_RESUME)
    if reader.faults:
        raise InvalidInput(reader.faults)
    return await _changed(parts, _command(request, CommandKind.RESUME, job_id))


@router.post("/v1/jobs/{job_id}:trigger", status_code=201, response_model=None, **doc.TRIGGER_JOB)
async def trigger_job(request: Request, job_id: str) -> Json:
    """Run a job now, whatever its schedule says and also while it is paused; its concurrency decides."""
    parts = parts_of(request)
    reader = verb_fields(await _verb(request), (), {})
    if reader.faults:
        raise InvalidInput(reader.faults)
    outcome = await submit(parts, _command(request, CommandKind.TRIGGER, job_id))
    if isinstance(outcome, Undecided):
        return undecided(outcome)
    if not outcome.accepted:
        return rejected(outcome)
    if outcome.execution_id is None:
        raise Undecodable(f"the outcome of {outcome.command_id} names no execution")
    body = {
        "job_id": outcome.job_id,
        "execution_id": outcome.execution_id,
        "scheduled_for": format_rfc3339(parse_execution_id(outcome.execution_id).scheduled_for),
        "detail": outcome.detail,
    }
    return Json(body, 201, {"Location": f"/v1/runs/{outcome.execution_id}"})


async def _verb(request: Request) -> Any:
    query_of(request)
    return await verb_body(request, parts_of(request).limits)


def _command(
    request: Request, kind: CommandKind, job_id: str, reason: str | None = None, until: str | None = None
) -> Command:
    tenant_id = tenant_of(request)
    whole_id, if_version = job_id_of(tenant_id, job_id), if_version_of(request)
    return command_of(parts_of(request), kind, whole_id, tenant_id, if_version=if_version, reason=reason, until=until)


async def _changed(parts: GatewayParts, command: Command) -> Json:
    outcome = await submit(parts, command)
    if isinstance(outcome, Undecided):
        return undecided(outcome)
    return await with_job(parts, outcome) if outcome.accepted else rejected(outcome)
