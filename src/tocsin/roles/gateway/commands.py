"""Route of commands: what became of one."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request

from tocsin.domain.errors import NotFound
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.parts import parts_of
from tocsin.roles.gateway.rendering import faults_json
from tocsin.roles.gateway.requests import query_of, tenant_of

router = APIRouter()

NOTHING_KNOWN: Final[dict[str, Any]] = {
    "kind": None,
    "job_id": None,
    "detail": None,
    "faults": [],
    "version": None,
    "execution_id": None,
}


@router.get("/v1/commands/{command_id}", response_model=None, **doc.GET_COMMAND)
async def get_command(request: Request, command_id: str) -> Json:
    """Read what became of a command: pending, accepted or rejected. Known for an hour."""
    parts = parts_of(request)
    query_of(request)
    tenant_id = tenant_of(request)
    if not parts.book.may_be_pending(command_id, parts.clock.now() // 1000):
        raise NotFound("command", command_id)
    known = parts.book.outcome(command_id)
    if known is None:
        return Json({"command_id": command_id, "status": "pending", **NOTHING_KNOWN})
    outcome = parts.codec.decode_outcome(known)
    if outcome.tenant_id != tenant_id:
        raise NotFound("command", command_id)
    return Json(
        {
            "command_id": command_id,
            "status": "accepted" if outcome.accepted else "rejected",
            "kind": outcome.kind,
            "job_id": outcome.job_id or None,
            "detail": outcome.detail,
            "faults": faults_json(outcome.faults),
            "version": outcome.version or None,
            "execution_id": outcome.execution_id,
        }
    )
