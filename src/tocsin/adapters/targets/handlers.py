"""Handler targets: async functions on an event loop of their own thread, plain ones in child processes.

So neither a long computation nor a death in one of them touches the worker's own loop and heartbeats. Fulfils
``ports.targets.TargetRunner``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from tocsin.adapters.targets.attempt_loop import AttemptLoop
from tocsin.adapters.targets.handler_children import HandlerChildren
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
        for attempt in attempts:
            handler = find(self._app, _target_of(attempt).name)
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
        started_at, output = self._clock.now(), _output(self._logs, attempt)
        context = context_of(attempt.execution.head, attempt.redelivered, None if output is None else output.write)
        end = call(handler, _target_of(attempt).payload, context)
        if output is not None:
            output.end()
        self._ended.append(_ended(attempt, started_at, end, self._clock.now()))


class _AsyncHandlers(AttemptLoop):
    """Awaits async handlers."""

    def __init__(self, app: HandlerApp, clock: Clock, logs: RunLogs | None) -> None:
        self._app = app
        self._logs = logs
        self._contexts: dict[int, Context] = {}
        """By the identity of the attempt's ref."""
        super().__init__(clock, "handlers")

    async def _run(self, attempt: Attempt) -> AttemptEnd:
        started_at, target, ref = self._clock.now(), _target_of(attempt), attempt.ref
        handler = find(self._app, target.name)
        assert isinstance(handler, Handler), "it was found before it came here"
        output = _output(self._logs, attempt)
        context = context_of(attempt.execution.head, attempt.redelivered, None if output is None else output.write)
        self._contexts[id(ref)] = context
        limit = self._limits.of(target.timeout_s)
        try:
            end = await call_async(handler, target.payload, context, target.timeout_s, limit)
        finally:
            del self._contexts[id(ref)]
            if output is not None:
                output.end()
        return _ended(attempt, started_at, end, self._clock.now())

    def _cancel(self, refs: list[Any]) -> None:
        for ref in refs:
            if (context := self._contexts.get(id(ref))) is not None:
                context.cancel()
        super()._cancel(refs)

    async def _shut_down(self) -> None:
        for context in self._contexts.values():
            context.cancel()
        await super()._shut_down()


class _Output:
    """What one attempt says; its log is begun with the first word, since most say none."""

    __slots__ = ("_lock", "_log", "_logs", "_over", "_place")

    def __init__(self, logs: RunLogs, place: LogPlace) -> None:
        self._logs = logs
        self._place = place
        self._log: RunLog | None = None
        self._over = False
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        """Add to the log. What is said once the attempt has ended, by something that it left behind, is dropped."""
        with self._lock:
            if self._over:
                return
            if self._log is None:
                self._log = self._logs.open(self._place)
            self._log.write(data)

    def end(self) -> None:
        with self._lock:
            self._over = True
            if self._log is not None:
                self._log.end()


def _output(logs: RunLogs | None, attempt: Attempt) -> _Output | None:
    head = attempt.execution.head
    return None if logs is None else _Output(logs, LogPlace(head.execution_id, head.attempt, head.token))


def _target_of(attempt: Attempt) -> HandlerTarget:
    target = attempt.execution.target
    assert isinstance(target, HandlerTarget), "targets of other types have other runners"
    return target


def _ended(attempt: Attempt, started_at: int, end: HandlerEnd, now: int) -> AttemptEnd:
    return AttemptEnd(attempt.ref, end.kind, started_at, now, end.error, end.result)
