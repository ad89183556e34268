"""What a handler may know of the attempt that it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
    keeps_output: bool = False
    """What is logged is kept with the run, for whoever reads its output."""
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


def context_of(head: AttemptHead, redelivered: bool, write: Callable[[bytes], None] | None = None) -> Context:
    """Return the context of a dispatch.

    Args:
        head: the dispatch.
        redelivered: whether it may have run before.
        write: takes what is logged, as text for people; None: it goes to the process's own log.
    """
    logger = structlog.get_logger() if write is None else _logger_to(write)
    return Context(
        execution_id=head.execution_id,
        job_id=head.job_id,
        tenant_id=head.tenant_id,
        attempt=head.attempt,
        token=head.token,
        scheduled_for=as_datetime(head.scheduled_for),
        redelivered=redelivered,
        log=logger.bind(execution_id=head.execution_id, attempt=head.attempt) if write is None else logger,
        keeps_output=write is not None,
    )


def _logger_to(write: Callable[[bytes], None]) -> Any:
    return structlog.wrap_logger(
        _Lines(write),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(
                colors=False,
                pad_event_to=0,
                pad_level=False,
                # Where rich is installed, others show the values of local variables, and those are secrets.
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        context_class=dict,
        cache_logger_on_first_use=False,
    ).bind()


class _Lines:
    """Writes each event as a line."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write

    def msg(self, message: str) -> None:
        self._write(message.encode("utf-8", "replace") + b"\n")

    log = debug = info = warning = warn = error = critical = exception = fatal = msg


def as_datetime(instant: Micros) -> datetime:
    """Return an instant as an aware datetime in UTC, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=instant)
