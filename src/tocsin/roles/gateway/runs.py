"""Routes of runs: what became of a job's executions, as the view has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, Request

from tocsin.domain.errors import NotFound
from tocsin.domain.ids import is_made_job_id
from tocsin.domain.instants import DAY, Micros
from tocsin.domain.jobs import Job
from tocsin.domain.schedules import RunAt
from tocsin.ports.views import Run
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import VIEW_HEADERS, Json
from tocsin.roles.gateway.jobs import read_job
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.rendering import execution_json, runs_json
from tocsin.roles.gateway.requests import execution_of, job_id_of, limit_of, page_token_of, query_of, tenant_of
from tocsin.roles.gateway.run_pages import place_of, read_page, token_of

router = APIRouter()

LOOK_BACK: Final = 396 * DAY
"""Thirteen months: how far runs are looked for that no job of now accounts for."""
LOOK_BACK_MAX: Final = 3_660 * DAY
"""Ten years: how far the runs of an old job are looked for; each month that holds none costs a read."""
SLACK: Final = DAY
"""How far clocks may differ: a nominal time may lie before the create's, or ahead of our clock."""


@router.get("/v1/jobs/{job_id}/runs", response_model=None, **doc.LIST_RUNS)
async def list_runs(request: Request, job_id: str) -> Json:
    """List the attempts of a job's executions, newest first; those of a deleted job stay readable."""
    parts = parts_of(request)
    query = query_of(request, ("limit", "page_token"))
    limit, token = limit_of(query), page_token_of(query)
    tenant_id = tenant_of(request)
    whole_id = job_id_of(tenant_id, job_id)
    after = None if token is None else place_of(token, tenant_id, whole_id)
    job = await read_job(parts, tenant_id, whole_id)
    spans = _spans(whole_id, job, parts.clock.now())
    # One more says whether there are more, and when it was that the last of the page was due.
    found = await read_page(parts.views, whole_id, spans, limit + 1, after)
    runs = _of_tenant(found[:limit], tenant_id, job)
    if job is None and not runs and after is None:
        raise NotFound("job", job_id)
    body = {
        "runs": runs_json(runs, found[limit] if len(found) > limit else None),
        "next_page_token": token_of(found[limit - 1]) if len(found) > limit else None,
    }
    return Json(body, headers=VIEW_HEADERS)


@router.get("/v1/runs/{execution_id}", response_model=None, **doc.GET_RUN)
async def get_run(request: Request, execution_id: str) -> Json:
    """Read one execution with its attempts."""
    parts = parts_of(request)
    query_of(request)
    runs = await runs_of(parts, tenant_of(request), execution_id)
    return Json(execution_json(runs), headers=VIEW_HEADERS)


async def runs_of(parts: GatewayParts, tenant_id: str, execution_id: str) -> Sequence[Run]:
    """Return the attempts of one execution of a tenant's, oldest first.

    Raises:
        NotFound: there is none, or it is not the tenant's.
    """
    name = execution_of(tenant_id, execution_id)
    runs: Sequence[Run] = await parts.views.read_run(execution_id)
    if any(run.tenant_id is None for run in runs):
        runs = _of_tenant(runs, tenant_id, await read_job(parts, tenant_id, name.job_id))
    else:
        runs = _of_tenant(runs, tenant_id, None)
    if not runs:
        raise NotFound("run", execution_id)
    return runs


def _spans(job_id: str, job: Job | None, now: Micros) -> list[tuple[Micros, Micros]]:
    """Return spans of the nominal times that a job's runs can have, the newest first.

    Only an id that tocsin made is never used for another job, whose runs would be older than the job.
    """
    oldest = max(0, now - LOOK_BACK)
    if job is not None:
        since = max(0, job.created_at - SLACK, now - LOOK_BACK_MAX)
        oldest = since if is_made_job_id(job_id) else min(since, oldest)
    spans = [(now + SLACK, oldest)]
    schedule = None if job is None else job.definition.schedule
    if isinstance(schedule, RunAt) and schedule.at < oldest:
        spans.append((schedule.at, schedule.at))
    return spans


def _of_tenant(runs: Sequence[Run], tenant_id: str, job: Job | None) -> Sequence[Run]:
    """Keep what is the tenant's. A run whose tenant is not filed yet counts as its only if the job is known to be."""
    return [run for run in runs if run.tenant_id == tenant_id or (run.tenant_id is None and job is not None)]
