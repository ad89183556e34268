"""Route that cancels a run. Its owner is asked first: the view may not know yet of what was dispatched just now."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request

from tocsin.domain.commands import Command, CommandKind, CommandOutcome, OutcomeDetail
from tocsin.domain.errors import Fault, Unavailable
from tocsin.domain.fields import shown
from tocsin.domain.ids import made_command_id
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.decided import rejected, undecided
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.problems import problem
from tocsin.roles.gateway.requests import execution_of, query_of, refuse_fields, refuse_if_match, tenant_of
from tocsin.roles.gateway.runs import runs_of
from tocsin.roles.gateway.submission import Undecided, submit

router = APIRouter()

TOLD: Final = {
    OutcomeDetail.CANCELLED: "the run had not started, and will not",
    OutcomeDetail.CANCELLING: "workers are told to stop the run; it ends once it is known not to run any more",
}
REMEDY: Final = "cancel what is active"


@router.post("/v1/runs/{execution_id}:cancel", response_model=None, **doc.CANCEL_RUN)
async def cancel_run(request: Request, execution_id: str) -> Json:
    """Cancel a run that has not ended: at once where it has not started, else as soon as it is known to be over."""
    parts = parts_of(request)
    query_of(request)
    refuse_if_match(request)
    await refuse_fields(request, parts.limits)
    tenant_id = tenant_of(request)
    name = execution_of(tenant_id, execution_id)
    command_id = made_command_id(parts.new_uuid_hex())
    command = Command(
        CommandKind.CANCEL, command_id, name.job_id, tenant_id, reply_partition=0, execution_id=execution_id
    )
    outcome = await submit(parts, command)
    if isinstance(outcome, Undecided):
        return undecided(outcome)
    if outcome.detail == OutcomeDetail.ENDED:
        return await _not_active(parts, tenant_id, execution_id, outcome)
    if not outcome.accepted:
        return rejected(outcome)
    message = next((text for detail, text in TOLD.items() if detail == outcome.detail), "the run is cancelled")
    body = {"job_id": name.job_id, "execution_id": execution_id, "detail": outcome.detail, "message": message}
    return Json(body, headers={"Location": f"/v1/runs/{execution_id}"})


async def _not_active(parts: GatewayParts, tenant_id: str, execution_id: str, outcome: CommandOutcome) -> Json:
    """Say of what its owner does not have in hand whether there ever was such a run.

    Raises:
        NotFound: there was none, or it is another tenant's.
    """
    try:
        text = f"the run is {(await runs_of(parts, tenant_id, execution_id))[-1].state}, and has ended"
    except Unavailable:
        text = "the run is not active"
    return problem(
        409, f"{text}; {REMEDY}", [Fault("execution_id", shown(execution_id), text, REMEDY)], reason=outcome.detail
    )
