"""Running one handler in a test: no broker, no store, no child process; the end is what its worker would report."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tocsin.adapters.targets.time_limits import TimeLimits
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.executions import AttemptHead
from tocsin.domain.fields import FieldReader
from tocsin.domain.ids import execution_id
from tocsin.domain.targets import TIMEOUT_S_DEFAULT, HandlerTarget, parse_target
from tocsin.handlers.calling import HandlerEnd, call, call_async, find
from tocsin.handlers.context import Context, context_of
from tocsin.handlers.registry import Handler, HandlerApp

JOB: Final = "job_00000000000070008000000000000001"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def run_handler(
    app: HandlerApp,
    name: str,
    payload: Any = None,
    *,
    attempt: int = 1,
    scheduled_for: datetime | None = None,
    redelivered: bool = False,
    timeout_s: float = TIMEOUT_S_DEFAULT,
    job_id: str = JOB,
    tenant_id: str = "default",
    token: int = 1,
) -> HandlerEnd:
    """Run a handler as a worker would for one attempt, in this process and thread; an async one on a loop of its own.

    Args:
        app: a ``tocsin.Worker``.
        name: of the handler.
        payload: any JSON value; it is checked and carried as a job's would be.
        attempt, redelivered, job_id, tenant_id, token: what its context says.
        scheduled_for: the nominal time, aware; None: now.
        timeout_s: limit of an async handler. A plain one is not stopped here, as its worker would.

    Returns:
        ``kind`` (SUCCEEDED, FAILED, TIMED_OUT or CANCELLED), ``error`` (``error_class``, ``message``,
        ``retry_after_s``) and ``result``, what is kept of the return value.

    Raises:
        InvalidInput: no job could have such a target.
        ValueError: scheduled_for has no offset.
    """
    target = _target(app, name, payload, timeout_s)
    at = datetime.now(UTC) if scheduled_for is None else scheduled_for
    if at.tzinfo is None:
        raise ValueError(f"scheduled_for is {at.isoformat()}, without an offset; give an aware datetime")
    scheduled = (at - _EPOCH) // timedelta(microseconds=1)
    head = AttemptHead(
        attempt, token, int(redelivered), execution_id(job_id, 1, scheduled), job_id, tenant_id, 1, scheduled, scheduled
    )
    handler = find(app, name)
    if not isinstance(handler, Handler):
        return handler
    handler.check()
    context = context_of(head, redelivered)
    if not handler.is_async:
        return call(handler, target.payload, context)
    with ThreadPoolExecutor(1) as other:  # a test may itself run on a loop, and loops do not nest
        return other.submit(asyncio.run, _awaited(handler, target.payload, context, timeout_s)).result()


async def _awaited(handler: Handler, payload: str | None, context: Context, timeout_s: float) -> HandlerEnd:
    with TimeLimits(asyncio.get_running_loop()).of(timeout_s) as limit:
        return await call_async(handler, payload, context, timeout_s, limit)


def _target(app: HandlerApp, name: str, payload: Any, timeout_s: float) -> HandlerTarget:
    given = {"type": "handler", "name": name, "pool": app.pool, "payload": payload, "timeout_s": timeout_s}
    faults: list[Fault] = []
    target = parse_target(FieldReader({"target": given}, "", faults))
    if not isinstance(target, HandlerTarget):
        raise InvalidInput(faults)
    return target
