"""What a handler may know of the attempt that it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from tocsin.domain.executions import AttemptHead
from tocsin.domain.instants import Micros

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_PROCESSORS: Final = (
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.dev.ConsoleRenderer(
        colors=False,
        pad_event_to=0,
        pad_level=False,
        # Where rich is installed, others show the values of local variables, and those are secrets.
        exception_formatter=structlog.dev.plain_traceback,
    ),
)
"""How what is kept with a run is written; making them costs more than a short handler."""
_LEVELS: Final = structlog.make_filtering_bound_logger(0)


class Context:
    """One attempt. What few handlers ask for is made when they do.

    Attributes:
        execution_id: of the logical run, the same over retries and redeliveries: do the work once for each.
        job_id, tenant_id: whose run it is.
        attempt: counts from 1.
        token: of this dispatch; it only grows over those of an execution, so it fences what came before.
        scheduled_for: the nominal time, aware, in UTC; not the time of the call.
        redelivered: this very attempt may have run before.
        log: a structlog logger, bound to the attempt.
        keeps_output: what is logged is kept with the run, for whoever reads its output.
    """

    __slots__ = ("_cancelled", "_head", "_log", "_redelivered", "_told", "_write")

    def __init__(self, head: AttemptHead, redelivered: bool, write: Callable[[bytes], object] | None) -> None:
        self._head = head
        self._redelivered = redelivered
        self._write = write
        self._log: Any = None
        self._cancelled = False
        self._told: asyncio.Event | None = None
        """Of the cancel, where somebody waits for it."""

    def __repr__(self) -> str:
        return f"<Context of {self.execution_id}, attempt {self.attempt}, token {self.token}>"

    @property
    def execution_id(self) -> str:
        return self._head.execution_id

    @property
    def job_id(self) -> str:
        return self._head.job_id

    @property
    def tenant_id(self) -> str:
        return self._head.tenant_id

    @property
    def attempt(self) -> int:
        return self._head.attempt

    @property
    def token(self) -> int:
        return self._head.token

    @property
    def scheduled_for(self) -> datetime:
        return as_datetime(self._head.scheduled_for)

    @property
    def redelivered(self) -> bool:
        return self._redelivered

    @property
    def keeps_output(self) -> bool:
        return self._write is not None

    @property
    def log(self) -> Any:
        if self._log is None:
            head, write = self._head, self._write
            if write is None:
                self._log = structlog.get_logger().bind(execution_id=head.execution_id, attempt=head.attempt)
            else:
                self._log = _logger_to(write)
        return self._log

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was told to stop. An async handler is also cancelled; a sync one's process is killed."""
        return self._cancelled

    async def wait_cancelled(self) -> None:
        """Return once the attempt is told to stop."""
        if self._cancelled:
            return
        if self._told is None:
            self._told = asyncio.Event()
        await self._told.wait()

    def cancel(self) -> None:
        """Tell the attempt to stop; for whoever runs it, on the thread that runs it."""
        self._cancelled = True
        if self._told is not None:
            self._told.set()


def context_of(head: AttemptHead, redelivered: bool, write: Callable[[bytes], object] | None = None) -> Context:
    """Return the context of a dispatch.

    Args:
        head: the dispatch.
        redelivered: whether it may have run before.
        write: takes what is logged, as text for people; None: it goes to the process's own log.
    """
    return Context(head, redelivered, write)


def _logger_to(write: Callable[[bytes], object]) -> Any:
    return structlog.wrap_logger(
        _Lines(write),
        processors=_PROCESSORS,
        wrapper_class=_LEVELS,
        context_class=dict,
        cache_logger_on_first_use=False,
    ).bind()


class _Lines:
    """Writes each event as a line."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def msg(self, message: str) -> None:
        self._write(message.encode("utf-8", "replace") + b"\n")

    log = debug = info = warning = warn = error = critical = exception = fatal = msg


def as_datetime(instant: Micros) -> datetime:
    """Return an instant as an aware datetime in UTC, exact to the microsecond."""
    return _EPOCH + timedelta(microseconds=instant)
