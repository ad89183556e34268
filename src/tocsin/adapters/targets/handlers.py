"""Handler targets: async functions on an event loop of their own thread, plain ones in child processes.

So neither a long computation nor a death in one of them touches the worker's own loop and heartbeats. Fulfils
``ports.targets.TargetRunner``.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from tocsin.adapters.targets.attempt_loop import AttemptLoop
from tocsin.adapters.targets.handler_children import HandlerChildren
from tocsin.adapters.targets.time_limits import TimeLimit
from tocsin.domain.targets import HandlerTarget
from tocsin.handlers.calling import HandlerEnd, call, call_async, find
from tocsin.handlers.context import Context, context_of
from tocsin.handlers.registry import Handler, HandlerApp
from tocsin.ports.clock import Clock
from tocsin.ports.run_logs import LogPlace, RunLog, RunLogs
from tocsin.ports.targets import Attempt, AttemptEnd


class HandlerRunner:
    """Fulfils ``ports.targets.TargetRunner`` for the handlers of one app.

    Args:
        app: the handlers.
        clock: stamps start and end.
        children: runs plain functions; None: they run in threads here, in a process that is theirs alone anyway.
        logs: keeps what async handlers log by their context; None: it goes to the worker's own log.
    """

    def __init__(
        self, app: HandlerApp, clock: Clock, children: HandlerChildren | None, logs: RunLogs | None = None
    ) -> None:
        self._app = app
        self._clock = clock
        self._children = children
        self._logs = logs
        self._on_loop = _AsyncHandlers(app, clock, logs)
        self._ended: deque[AttemptEnd] = deque()

    def start(self, attempts: Sequence[Attempt]) -> None:
        on_loop: list[Attempt] = []
        plain: list[Attempt] = []
        target: HandlerTarget | None = None
        for attempt in attempts:
            if attempt.execution.target is not target:  # mostly it is: what executions have in common is read once
                target = _target_of(attempt)
                handler = find(self._app, target.name)
            if isinstance(handler, HandlerEnd):
                self._ended.append(_ended(attempt, self._clock.now(), handler, self._clock.now()))
            elif handler.is_async:
                on_loop.append(attempt)
            elif self._children is not None:
                plain.append(attempt)
            else:
                threading.Thread(target=self._call_here, args=(attempt, handler), daemon=True).start()
        if on_loop:
            self._on_loop.start(on_loop)
        if plain and self._children is not None:
            self._children.start(plain)

    def ended(self) -> list[AttemptEnd]:
        ended = self._ended
        ends = [ended.popleft() for _ in range(len(ended))] + self._on_loop.ended()
        return ends if self._children is None else ends + self._children.ended()

    def cancel(self, refs: Sequence[Any]) -> None:
        self._on_loop.cancel(refs)
        if self._children is not None:
            self._children.cancel(refs)

    def close(self) -> None:
        if self._children is not None:
            self._children.close()
        self._on_loop.close()

    def _call_here(self, attempt: Attempt, handler: Handler) -> None:
        started_at = self._clock.now()
        output = None if self._logs is None else _Output(self._logs, attempt, threading.Lock())
        context = context_of(attempt.execution.head, attempt.redelivered, None if output is None else output.write)
        end = call(handler, _target_of(attempt).payload, context)
        if output is not None:
            output.end()
        self._ended.append(_ended(attempt, started_at, end, self._clock.now()))


class _AsyncHandlers(AttemptLoop):
    """Awaits async handlers. Most end with their first step, so what only others need is made after it."""

    def __init__(self, app: HandlerApp, clock: Clock, logs: RunLogs | None) -> None:
        self._app = app
        self._logs = logs
        self._output_lock = threading.Lock()
        self._calls: dict[int, _Call] = {}
        """By the identity of the attempt's ref."""
        super().__init__(clock, "handlers")

    async def _carry(self, attempt: Attempt) -> None:
        # All in one coroutine: each more around the handler's own is a tenth of what one costs that does nothing.
        started_at, target, ref = self._clock.now(), _target_of(attempt), attempt.ref
        handler = self._app.handlers[target.name]
        output = None if self._logs is None else _Output(self._logs, attempt, self._output_lock)
        context = context_of(attempt.execution.head, attempt.redelivered, None if output is None else output.write)
        self._calls[id(ref)] = made = _Call(context)
        end = await call_async(handler, target.payload, context, target.timeout_s, made)
        del self._calls[id(ref)]
        if made.limit is not None:
            made.limit.end()
        if output is not None:
            output.end()
        self._finish(attempt, AttemptEnd(ref, end.kind, started_at, self._clock.now(), end.error, end.result))

    def _go_on_with(self, attempt: Attempt, task: asyncio.Task[None]) -> None:
        made = self._calls[id(attempt.ref)]
        made.limit = self._limits.of(_target_of(attempt).timeout_s)
        made.limit.begin(task)

    def _cancel(self, refs: list[Any]) -> None:
        for ref in refs:
            if (one := self._calls.get(id(ref))) is not None:
                one.context.cancel()
        super()._cancel(refs)

    async def _shut_down(self) -> None:
        for one in self._calls.values():
            one.context.cancel()
        await super()._shut_down()


class _Call:
    """A handler that was called. Fulfils ``Limit``: without one it is not over it."""

    __slots__ = ("context", "limit")

    def __init__(self, context: Context) -> None:
        self.context = context
        self.limit: TimeLimit | None = None

    def expired(self) -> bool:
        return self.limit is not None and self.limit.expired()

    def take_back(self) -> bool:
        return self.limit is not None and self.limit.take_back()


class _Output:
    """What one attempt says; its log is begun with the first word, since most say none.

    Args:
        lock: one for all outputs of a runner; it is held for moments, and by those who say something.
    """

    __slots__ = ("_attempt", "_lock", "_log", "_logs", "_over")

    def __init__(self, logs: RunLogs, attempt: Attempt, lock: threading.Lock) -> None:
        self._logs = logs
        self._attempt = attempt
        self._lock = lock
        self._log: RunLog | None = None
        self._over = False

    def write(self, data: bytes) -> None:
        """Add to the log. What is said once the attempt has ended, by something that it left behind, is dropped."""
        with self._lock:
            if self._over:
                return
            if self._log is None:
                head = self._attempt.execution.head
                self._log = self._logs.open(LogPlace(head.execution_id, head.attempt, head.token))
            self._log.write(data)

    def end(self) -> None:
        with self._lock:
            self._over = True
            if self._log is not None:
                self._log.end()


def _target_of(attempt: Attempt) -> HandlerTarget:
    target = attempt.execution.target
    assert isinstance(target, HandlerTarget), "targets of other types have other runners"
    return target


def _ended(attempt: Attempt, started_at: int, end: HandlerEnd, now: int) -> AttemptEnd:
    return AttemptEnd(attempt.ref, end.kind, started_at, now, end.error, end.result)
