"""The route of what attempts print."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import APIRouter, Request

from tocsin.domain.errors import Fault, InvalidInput, NotFound
from tocsin.domain.executions import ExecutionState
from tocsin.domain.fields import shown
from tocsin.domain.instants import format_rfc3339
from tocsin.ports.run_logs import LogChunk
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import VIEW_HEADERS, Json
from tocsin.roles.gateway.parts import parts_of
from tocsin.roles.gateway.requests import limit_of, query_of, tenant_of
from tocsin.roles.gateway.runs import runs_of

router = APIRouter()

_AFTER: Final = re.compile(r"([0-9]{1,19})\.([0-9]{1,10})")
_ATTEMPT: Final = re.compile(r"[0-9]{1,10}")
_INT_MAX: Final = 2**31 - 1


@router.get("/v1/runs/{execution_id}/logs", response_model=None, **doc.GET_LOG)
async def get_log(request: Request, execution_id: str) -> Json:
    """Read what an attempt has printed so far, from a place on; of the latest attempt unless another is named."""
    parts = parts_of(request)
    query = query_of(request, ("attempt", "after", "limit"))
    limit, after, attempt = limit_of(query), _after(query), _attempt(query)
    runs = await runs_of(parts, tenant_of(request), execution_id)
    run = runs[-1] if attempt is None else next((one for one in runs if one.attempt == attempt), None)
    if run is None:
        raise NotFound("attempt", f"{execution_id}, attempt {attempt}")
    chunks = await parts.run_logs.read_log(execution_id, run.attempt, after, limit)
    body = {
        "execution_id": execution_id,
        "attempt": run.attempt,
        "token": run.token,
        "state": run.state or str(ExecutionState.QUEUED),
        "chunks": [_chunk_json(chunk) for chunk in chunks],
        "next_after": f"{chunks[-1].token}.{chunks[-1].seq}" if chunks else query.get("after"),
    }
    return Json(body, headers=VIEW_HEADERS)


def _chunk_json(chunk: LogChunk) -> dict[str, Any]:
    return {**chunk._asdict(), "at": format_rfc3339(chunk.at)}


def _after(query: dict[str, str]) -> tuple[int, int] | None:
    text = query.get("after")
    if text is None:
        return None
    match = _AFTER.fullmatch(text)
    if match is None or int(match[1]) >= 2**63 or int(match[2]) > _INT_MAX:
        remedy = "give the next_after of the answer before, or none for the beginning"
        raise InvalidInput([Fault("after", shown(text), "is not a place in a log", remedy)])
    return int(match[1]), int(match[2])


def _attempt(query: dict[str, str]) -> int | None:
    text = query.get("attempt")
    if text is None:
        return None
    if _ATTEMPT.fullmatch(text) is None or not 1 <= int(text) <= _INT_MAX:
        raise InvalidInput([Fault("attempt", shown(text), "is not the number of an attempt", "give one from 1 on")])
    return int(text)
