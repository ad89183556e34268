"""Routes of callbacks: a target that answered 202 says how its attempt ended.

The key that came with the request is all that counts: a target need not know whose job it works for. The gateway does
not know whether the dispatch is still current; its owner does, and takes no notice of one that is not.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fastapi import APIRouter, Request

from tocsin.domain.errors import Fault, InvalidInput, Unavailable
from tocsin.domain.executions import AttemptError, AttemptHead, AttemptReport, ReportKind
from tocsin.domain.fields import HIDDEN, FieldReader
from tocsin.domain.ids import DEFAULT_TENANT
from tocsin.domain.policies import RETRY_S_MAX
from tocsin.domain.targets import HttpTarget
from tocsin.ports.command_bus import Delivery
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.problems import Refusal
from tocsin.roles.gateway.requests import execution_of, query_of, verb_body, verb_fields

router = APIRouter()

DISPATCH: Final = ("attempt", "token", "key")
ATTEMPT_MAX: Final = 2**31 - 1
TOKEN_MAX: Final = 2**63 - 1
KEY_CHARS: Final = 64
TEXT_CHARS_MAX: Final = 1_000
_KEY_REMEDY: Final = "give the header Tocsin-Callback-Key of the request that you answered with 202"
_NO_TARGET: Final = HttpTarget("http://callback.invalid/")


@router.post("/v1/runs/{execution_id}:complete", status_code=202, response_model=None, **doc.COMPLETE_RUN)
async def complete_run(request: Request, execution_id: str) -> Json:
    """Say that an attempt which its target had accepted with 202 has succeeded. Saying it again does no harm."""
    reader = await _read(request, ("result",))
    result = reader.text("result", chars_max=TEXT_CHARS_MAX)
    return await _report(request, execution_id, reader, ReportKind.SUCCEEDED, None, result)


@router.post("/v1/runs/{execution_id}:fail", status_code=202, response_model=None, **doc.FAIL_RUN)
async def fail_run(request: Request, execution_id: str) -> Json:
    """Say that an attempt which its target had accepted with 202 has failed; the job's policy decides what follows."""
    reader = await _read(request, ("error", "retryable", "retry_after_s"))
    message = reader.text("error", chars_max=TEXT_CHARS_MAX) or "its target says that it failed"
    retryable = reader.flag("retryable")
    after_s = reader.number("retry_after_s", low=0, high=RETRY_S_MAX, unit="seconds")
    error_class = "callback_refused" if retryable is False else "callback_failed"
    error = AttemptError(error_class, message, retry_after_s=None if after_s is None else float(after_s))
    return await _report(request, execution_id, reader, ReportKind.FAILED, error, None)


async def _read(request: Request, known: Collection[str]) -> FieldReader:
    query_of(request)
    return verb_fields(await verb_body(request, parts_of(request).limits), (*DISPATCH, *known), {})


async def _report(
    request: Request,
    execution_id: str,
    reader: FieldReader,
    kind: ReportKind,
    error: AttemptError | None,
    result: str | None,
) -> Json:
    parts = parts_of(request)
    head = _head(parts, execution_id, reader)
    blank = parts.codec.decode_execution(parts.codec.encode_execution(head, _NO_TARGET))
    now = parts.clock.now()
    report = AttemptReport(head, blank.head_bytes, kind, "callback", finished_at=now, error=error, result=result)
    delivery = await parts.bus.report(head.job_id, parts.codec.encode_report(report))
    if delivery is not Delivery.LOGGED:
        raise Unavailable("kafka", "it is not known whether the report is in the log; sending it again does no harm")
    body = {
        "execution_id": execution_id,
        "attempt": head.attempt,
        "token": head.token,
        "reported": str(kind),
        "detail": "it is logged, and counts if this dispatch is still waited for",
    }
    return Json(body, 202, {"Location": f"/v1/runs/{execution_id}"})


def _head(parts: GatewayParts, execution_id: str, reader: FieldReader) -> AttemptHead:
    """Return the dispatch that a callback speaks of, once its key has proved it.

    The owner compares attempt and token, and puts what else it knows in place of what is made up here.
    """
    tenant_id = execution_id.rpartition("@")[0] or DEFAULT_TENANT
    name = execution_of(tenant_id, execution_id)
    attempt, token = _whole(reader, "attempt", 1, ATTEMPT_MAX), _whole(reader, "token", 0, TOKEN_MAX)
    key = reader.get("key")
    if not isinstance(key, str) or len(key) != KEY_CHARS or not key.isascii():
        reader.fault("key", None if key is None else HIDDEN, "is missing" if key is None else "is no key", _KEY_REMEDY)
    if reader.faults:
        raise InvalidInput(reader.faults)
    if not parts.callbacks:
        raise Refusal(503, "this gateway has no callback secret; its operator sets TOCSIN_CALLBACK_SECRETS")
    if not parts.callbacks.fits(key, execution_id, attempt, token):
        fault = Fault("key", HIDDEN, "is not that of this execution, attempt and token", _KEY_REMEDY)
        raise Refusal(403, "the key does not fit this execution, attempt and token", [fault])
    created, at = name.created_version, name.scheduled_for
    return AttemptHead(attempt, token, 0, execution_id, name.job_id, tenant_id, created, at, at)


def _whole(reader: FieldReader, name: str, low: int, high: int) -> int:
    value = reader.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        remedy = f"give the header Tocsin-{name.title()} of the request that you answered with 202, as a number"
        reader.fault(name, value, "is missing" if value is None else "is not the number of a dispatch", remedy)
        return low
    return value
