"""Route that has a dead run attempted again. That it is dead is looked up here: its owner knows only what is active."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request

from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.errors import Fault
from tocsin.domain.executions import ExecutionState
from tocsin.domain.fields import shown
from tocsin.domain.ids import made_command_id
from tocsin.ports.views import Run, redrives_of
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.decided import rejected, undecided
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.problems import problem
from tocsin.roles.gateway.requests import query_of, refuse_fields, tenant_of
from tocsin.roles.gateway.runs import runs_of
from tocsin.roles.gateway.submission import Undecided, submit

router = APIRouter()

REMEDY: Final = "retry what is DEAD; trigger the job for another run"


@router.post("/v1/runs/{execution_id}:retry", response_model=None, **doc.RETRY_RUN)
async def retry_run(request: Request, execution_id: str) -> Json:
    """Have a dead run attempted again under its id, as the job is now. Its policy of retries begins anew."""
    parts = parts_of(request)
    query_of(request)
    await refuse_fields(request, parts.limits)
    tenant_id = tenant_of(request)
    attempts = await runs_of(parts, tenant_id, execution_id)
    last = attempts[-1]
    if last.state != ExecutionState.DEAD:
        text = why_not_dead(last)
        return problem(409, f"{text}; {REMEDY}", [Fault("execution_id", shown(execution_id), text, REMEDY)])
    outcome = await submit(parts, redrive_command(parts, tenant_id, last, redrives_of(attempts)))
    if isinstance(outcome, Undecided):
        return undecided(outcome)
    if not outcome.accepted:
        return rejected(outcome)
    return Json({"job_id": last.job_id, "execution_id": execution_id, "attempt": last.attempt + 1})


def why_not_dead(last: Run) -> str:
    """Return what keeps an execution from being attempted again, whose last attempt this is."""
    if last.state == ExecutionState.UNKNOWN:
        return "the run is UNKNOWN: it may have run, and is not to run twice"
    return f"the run is {last.state or ExecutionState.QUEUED}"


def redrive_command(
    parts: GatewayParts, tenant_id: str, last: Run, redrives_before: int, not_before: str | None = None
) -> Command:
    """Return the command that has an execution attempted again after its last attempt; the rest is the command's."""
    return Command(
        CommandKind.REDRIVE,
        made_command_id(parts.new_uuid_hex()),
        last.job_id,
        tenant_id,
        reply_partition=0,
        execution_id=last.execution_id,
        attempts_before=last.attempt,
        redrives_before=redrives_before,
        not_before=not_before,
    )
