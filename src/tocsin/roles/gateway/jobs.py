"""Routes of jobs: create, read, list, delete."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import structlog
from fastapi import APIRouter, Request, Response

from tocsin.domain.commands import CommandKind, OutcomeDetail
from tocsin.domain.definitions import JobDefinition, parse, to_mapping
from tocsin.domain.errors import Fault, InvalidInput, NotFound, Undecodable
from tocsin.domain.fields import shown
from tocsin.domain.ids import grouped_job_id, keyed_job_id, made_job_id
from tocsin.domain.jobs import Job, JobState
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import VIEW_HEADERS, Json
from tocsin.roles.gateway.decided import etag, rejected, undecided, with_job
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.rendering import job_json
from tocsin.roles.gateway.requests import (
    flag_of,
    given_job_id,
    has_it_already,
    if_version_of,
    job_id_of,
    json_body,
    limit_of,
    page_token_of,
    query_of,
    refuse_conditions,
    refuse_if_match,
    tenant_of,
)
from tocsin.roles.gateway.submission import Undecided, command_of, submit

log = structlog.get_logger()
router = APIRouter()

RENDERED_AT_ONCE: Final = 20
"""So many jobs of a list are rendered, 2 ms, before other requests have their turn; a page may hold hundreds."""
DELETED: Final = {
    OutcomeDetail.PREVENTED: "the job is deleted and will not run",
    OutcomeDetail.RETRY_CANCELLED: "the job is deleted; its run waited to start, or for a retry, and is cancelled",
    OutcomeDetail.ALREADY_FIRED: "the job is deleted; it had fired before, and a run that is under way goes on",
}


@router.post("/v1/jobs", status_code=201, response_model=None, **doc.CREATE_JOB)
async def create_job(request: Request) -> Json:
    """Create a job. 201: decided and durable; 200: it stood already, the same; 202: in the log, and decided later."""
    parts = parts_of(request)
    query = query_of(request, ("validate_only",))
    validate_only = flag_of(query, "validate_only")
    tenant_id = tenant_of(request)
    refuse_conditions(request)
    refuse_if_match(request)
    named, definition = read_definition(tenant_id, await json_body(request, parts.limits))
    if named is not None and definition.idempotency_key is not None:
        remedy = "give either: a job_id makes a create as safe to repeat as a key does"
        raise InvalidInput([Fault("idempotency_key", shown(definition.idempotency_key), "goes with no job_id", remedy)])
    parts.refuse_unknown_pool(definition.target)
    if named is not None and definition.concurrency_group is not None:
        remedy = "leave job_id out: a job of a group has its id by the group"
        group = shown(definition.concurrency_group)
        raise InvalidInput([Fault("concurrency_group", group, "goes with no job_id", remedy)])
    if validate_only:
        return Json(valid(tenant_id, definition))
    job_id = named or _own_id(parts, tenant_id, definition)
    outcome = await submit(parts, command_of(parts, CommandKind.CREATE, job_id, tenant_id, to_mapping(definition)))
    if isinstance(outcome, Undecided):
        return undecided(outcome)
    if not outcome.accepted:
        return rejected(outcome)
    status = 200 if outcome.detail == OutcomeDetail.EXISTED else 201
    return await with_job(parts, outcome, status, located=True)


@router.get("/v1/jobs", response_model=None, **doc.LIST_JOBS)
async def list_jobs(request: Request) -> Json:
    """List a tenant's jobs, a page at a time."""
    parts = parts_of(request)
    query = query_of(request, ("limit", "page_token"))
    page = await parts.views.list_jobs(tenant_of(request), limit_of(query), page_token_of(query))
    now, readable = parts.clock.now(), _readable(parts)
    jobs = []
    for number, snapshot in enumerate(page.snapshots, 1):
        if (job := readable(snapshot)) is not None:
            jobs.append(job_json(job, now))
        if number % RENDERED_AT_ONCE == 0:
            await asyncio.sleep(0)
    return Json({"jobs": jobs, "next_page_token": page.next_token}, headers=VIEW_HEADERS)


@router.get("/v1/jobs/{job_id}", response_model=None, **doc.GET_JOB)
async def get_job(request: Request, job_id: str) -> Response:
    """Read a job. Its tag is that of its version: next_run_at, worked out on read, moves on under the same tag."""
    parts = parts_of(request)
    query_of(request)
    refuse_conditions(request)
    tenant_id = tenant_of(request)
    job = await read_job(parts, tenant_id, job_id_of(tenant_id, job_id))
    if job is None:
        raise NotFound("job", job_id)
    headers = {"ETag": etag(job.version)}
    if has_it_already(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Json(job_json(job, parts.clock.now()), headers=headers)


@router.delete("/v1/jobs/{job_id}", response_model=None, **doc.DELETE_JOB)
async def delete_job(request: Request, job_id: str) -> Json:
    """Delete a job: its coming occurrences are cancelled, what runs goes on."""
    parts = parts_of(request)
    query_of(request)
    tenant_id = tenant_of(request)
    whole_id = job_id_of(tenant_id, job_id)
    command = command_of(parts, CommandKind.DELETE, whole_id, tenant_id, if_version=if_version_of(request))
    outcome = await submit(parts, command)
    if isinstance(outcome, Undecided):
        return undecided(outcome)
    if not outcome.accepted:
        return rejected(outcome)
    headers = await parts.desk.write(whole_id, outcome.version, None)
    message = next((text for detail, text in DELETED.items() if detail == outcome.detail), "the job is deleted")
    return Json({"job_id": whole_id, "deleted": True, "detail": outcome.detail, "message": message}, headers=headers)


async def read_job(parts: GatewayParts, tenant_id: str, job_id: str) -> Job | None:
    """Return a tenant's job, None where there is none; another tenant's job is none.

    Raises:
        Unavailable: the store does not answer.
    """
    snapshot = await parts.views.read_job(job_id)
    if snapshot is None:
        return None
    job = parts.codec.decode_job(snapshot)
    return job if job.tenant_id == tenant_id and job.state is not JobState.DELETED else None


def read_definition(tenant_id: str, body: Any) -> tuple[str | None, JobDefinition]:
    """Return the job's whole id where the body names it, and the definition around it.

    Raises:
        InvalidInput: with the faults of both.
    """
    faults: list[Fault] = []
    named: str | None = None
    if isinstance(body, dict) and (given := body.pop("job_id", None)) is not None:
        try:
            named = given_job_id(tenant_id, given)
        except InvalidInput as error:
            faults.extend(error.faults)
    try:
        definition = parse(body)
    except InvalidInput as error:
        raise InvalidInput([*faults, *error.faults]) from None
    if faults:
        raise InvalidInput(faults)
    return named, definition


def valid(tenant_id: str, definition: JobDefinition) -> dict[str, Any]:
    """Return what ``validate_only`` answers of a definition without faults."""
    return {"valid": True, "tenant_id": tenant_id, "job": to_mapping(definition)}


def _own_id(parts: GatewayParts, tenant_id: str, definition: JobDefinition) -> str:
    """Return the id of a job that its client does not name: racing creates under one key get the same."""
    if definition.idempotency_key is not None:
        return keyed_job_id(tenant_id, definition.idempotency_key)
    if definition.concurrency_group is not None:
        return grouped_job_id(tenant_id, definition.concurrency_group, parts.new_uuid_hex())
    return made_job_id(parts.new_uuid_hex())


def _readable(parts: GatewayParts) -> Any:
    """One record that cannot be read must not hide all the others."""

    def decode(snapshot: bytes) -> Job | None:
        try:
            return parts.codec.decode_job(snapshot)
        except Undecodable as error:
            log.error("a job in the listing cannot be read", action="gateway.corrupt", error=str(error))
            return None

    return decode
