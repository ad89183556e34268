"""What a handler may know of the attempt that it runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from tocsin.domain.executions import AttemptHead
from tocsin.domain.instants import Micros

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class Context:
    """One attempt.

    Attributes:
        execution_id: of the logical run, the same over retries and redeliveries: do the work once for each.
        job_id, tenant_id: whose run it is.
        attempt: counts from 1.
        token: of this dispatch; it only grows over those of an execution, so it fences what came before.
        scheduled_for: the nominal time, aware, in UTC; not the time of the call.
        redelivered: this very attempt may have run before.
        log: a structlog logger, bound to the attempt.
    """

    execution_id: str
    job_id: str
    tenant_id: str
    attempt: int
    token: int
    scheduled_for: datetime
    redelivered: bool = False
    log: Any = field(default_factory=structlog.get_logger, repr=False)
    _cancel: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was told to stop. An async handler is also cancelled; a sync one's process is killed."""
        return self._cancel.is_set()

    async def wait_cancelled(self) -> None:
        """Return once the attempt is told to stop."""
        await self._cancel.wait()

    def cancel(self) -> None:
        """Tell the attempt to stop; for whoever runs it, on the thread that runs it."""
        self._cancel.set()


def context_of(head: AttemptHead, redelivered: bool) -> Context:
    """Return the context of a dispatch."""
    log = structlog.get_logger().bind(execution_id=head.execution_id, attempt=head.attempt)
    return Context(
        execution_id=head.execution_id,
        job_id=head.job_id,
        tenant_id=head.tenant_id,
        attempt=head.attempt,
        token=head.token,
        scheduled_for=as_datetime(head.scheduled_for),
        redelivered=redelivered,
        log=log,
    )


def as_datetime(instant: Micros) -> datetime:
    """Return an instant as an aware datetime in UTC, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=instant)
