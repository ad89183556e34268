"""Routes of jobs: create, read, list, delete."""

from __future__ import annotations

from typing import Any, Final

import structlog
from fastapi import APIRouter, Request

from tocsin.domain.commands import CommandKind, CommandOutcome, OutcomeDetail
from tocsin.domain.definitions import JobDefinition, parse, to_mapping
from tocsin.domain.errors import NotFound, Undecodable
from tocsin.domain.ids import made_job_id
from tocsin.domain.jobs import Job, JobState
from tocsin.ports.command_bus import Delivery
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import VIEW_HEADERS, Json
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.problems import invalid, problem
from tocsin.roles.gateway.rendering import job_json
from tocsin.roles.gateway.requests import (
    flag_of,
    job_id_of,
    json_body,
    limit_of,
    page_token_of,
    query_of,
    refuse_conditions,
    tenant_of,
)
from tocsin.roles.gateway.submission import Undecided, command_of, submit

log = structlog.get_logger()
router = APIRouter()

DELETED: Final = {
    OutcomeDetail.PREVENTED: "the job is deleted and will not run",
    OutcomeDetail.ALREADY_FIRED: "the job is deleted; it had fired before, and a run that is under way goes on",
}


@router.post("/v1/jobs", status_code=201, response_model=None, **doc.CREATE_JOB)
async def create_job(request: Request) -> Json:
    """Create a job. 201: decided and durable; 202: in the log, and decided later."""
    parts = parts_of(request)
    query = query_of(request, ("validate_only",))
    validate_only = flag_of(query, "validate_only")
    tenant_id = tenant_of(request)
    definition = parse(await json_body(request, parts.limits))
    if validate_only:
        return Json(_valid(tenant_id, definition))
    job_id = made_job_id(parts.new_uuid_hex())
    outcome = await submit(parts, command_of(parts, CommandKind.CREATE, job_id, tenant_id, to_mapping(definition)))
    if isinstance(outcome, Undecided):
        return _undecided(outcome)
    if not outcome.accepted or outcome.job is None:
        return _rejected(outcome)
    headers = {"Location": f"/v1/jobs/{outcome.job_id}", "ETag": f'"{outcome.version}"'}
    headers |= await parts.desk.write(outcome.job_id, outcome.version, outcome.job)
    return Json(job_json(parts.codec.decode_job(outcome.job), parts.clock.now()), 201, headers)


@router.get("/v1/jobs", response_model=None, **doc.LIST_JOBS)
async def list_jobs(request: Request) -> Json:
    """List a tenant's jobs, a page at a time."""
    parts = parts_of(request)
    query = query_of(request, ("limit", "page_token"))
    page = await parts.views.list_jobs(tenant_of(request), limit_of(query), page_token_of(query))
    now = parts.clock.now()
    jobs = [job_json(job, now) for job in map(_readable(parts), page.snapshots) if job is not None]
    return Json({"jobs": jobs, "next_page_token": page.next_token}, headers=VIEW_HEADERS)


@router.get("/v1/jobs/{job_id}", response_model=None, **doc.GET_JOB)
async def get_job(request: Request, job_id: str) -> Json:
    """Read a job."""
    parts = parts_of(request)
    query_of(request)
    refuse_conditions(request)
    job = await read_job(parts, tenant_of(request), job_id_of(job_id))
    if job is None:
        raise NotFound("job", job_id)
    return Json(job_json(job, parts.clock.now()), headers={"ETag": f'"{job.version}"'})


@router.delete("/v1/jobs/{job_id}", response_model=None, **doc.DELETE_JOB)
async def delete_job(request: Request, job_id: str) -> Json:
    """Delete a job: its coming occurrences are cancelled, what runs goes on."""
    parts = parts_of(request)
    query_of(request)
    refuse_conditions(request)
    outcome = await submit(parts, command_of(parts, CommandKind.DELETE, job_id_of(job_id), tenant_of(request)))
    if isinstance(outcome, Undecided):
        return _undecided(outcome)
    if not outcome.accepted:
        return _rejected(outcome)
    headers = await parts.desk.write(job_id, outcome.version, None)
    message = next((text for detail, text in DELETED.items() if detail == outcome.detail), "the job is deleted")
    return Json({"job_id": job_id, "deleted": True, "detail": outcome.detail, "message": message}, headers=headers)


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


def _valid(tenant_id: str, definition: JobDefinition) -> dict[str, Any]:
    return {"valid": True, "tenant_id": tenant_id, "job": to_mapping(definition)}


def _readable(parts: GatewayParts) -> Any:
    """One record that cannot be read must not hide all the others."""

    def decode(snapshot: bytes) -> Job | None:
        try:
            return parts.codec.decode_job(snapshot)
        except Undecodable as error:
            log.error("a job in the listing cannot be read", action="gateway.corrupt", error=str(error))
            return None

    return decode


def _undecided(undecided: Undecided) -> Json:
    url = f"/v1/commands/{undecided.command_id}"
    if undecided.delivery is Delivery.LOGGED:
        detail = "the command is in the log and will be decided"
    else:
        detail = "the log did not confirm the command in time: it may be decided or lost; ask before you send it again"
    body = {
        "command_id": undecided.command_id,
        "status": "pending",
        "status_url": url,
        "job_id": undecided.job_id,
        "delivery": str(undecided.delivery),
        "detail": detail,
    }
    return Json(body, 202, {"Location": url})


def _rejected(outcome: CommandOutcome) -> Json:
    if outcome.detail == OutcomeDetail.NOT_FOUND:
        return problem(404, f"no job is known as {outcome.job_id!r}", outcome.faults)
    if outcome.faults:
        return invalid(outcome.faults)
    return problem(422, f"the owner of the job rejected the command: {outcome.detail}")
