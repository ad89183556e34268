"""Handler targets: async functions on an event loop of their own thread, plain ones in child processes.

So neither a long computation nor a death in one of them touches the worker's own loop and heartbeats. Fulfils
``ports.targets.TargetRunner``.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import structlog

from tocsin.adapters.targets.handler_children import HandlerChildren
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.domain.instants import Micros
from tocsin.domain.targets import HandlerTarget
from tocsin.handlers.calling import CANCELLED, HandlerEnd, call, call_async, find
from tocsin.handlers.context import Context, context_of
from tocsin.handlers.registry import Handler, HandlerApp
from tocsin.ports.clock import Clock
from tocsin.ports.targets import Attempt, AttemptEnd

log = structlog.get_logger()

JOIN_WAIT_S: Final = 5.0


class HandlerRunner:
    """Fulfils ``ports.targets.TargetRunner`` for the handlers of one app.

    Args:
        app: the handlers.
        clock: stamps start and end.
        children: runs plain functions; None: they run in threads here, in a process that is theirs alone anyway.
    """

    def __init__(self, app: HandlerApp, clock: Clock, children: HandlerChildren | None) -> None:
        self._app = app
        self._clock = clock
        self._children = children
        self._ended: deque[AttemptEnd] = deque()
        self._tasks: dict[int, tuple[asyncio.Task[HandlerEnd], Context]] = {}
        """By the identity of the attempt's ref; only the loop's thread touches it."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="handlers", daemon=True)
        self._thread.start()

    # Called by the worker's thread

    def start(self, attempts: Sequence[Attempt]) -> None:
        on_loop: list[tuple[Attempt, Handler]] = []
        plain: list[Attempt] = []
        for attempt in attempts:
            target = attempt.execution.target
            assert isinstance(target, HandlerTarget), "targets of other types have other runners"
            handler = find(self._app, target.name)
            if isinstance(handler, HandlerEnd):
                self._end(attempt, self._clock.now(), handler)
            elif handler.is_async:
                on_loop.append((attempt, handler))
            elif self._children is not None:
                plain.append(attempt)
            else:
                threading.Thread(target=self._call_here, args=(attempt, handler), daemon=True).start()
        if on_loop:
            self._loop.call_soon_threadsafe(self._launch, on_loop)
        if plain and self._children is not None:
            self._children.start(plain)

    def ended(self) -> list[AttemptEnd]:
        ended = self._ended
        ends = [ended.popleft() for _ in range(len(ended))]
        return ends if self._children is None else ends + self._children.ended()

    def cancel(self, refs: Sequence[Any]) -> None:
        self._loop.call_soon_threadsafe(self._cancel, list(refs))
        if self._children is not None:
            self._children.cancel(refs)

    def close(self) -> None:
        if self._children is not None:
            self._children.close()
        if self._thread.is_alive():
            try:
                asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result(JOIN_WAIT_S)
            except TimeoutError:
                log.error("handlers could not be stopped", action="worker.targets_left")
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(JOIN_WAIT_S)

    def _end(self, attempt: Attempt, started_at: Micros, end: HandlerEnd) -> None:
        self._ended.append(AttemptEnd(attempt.ref, end.kind, started_at, self._clock.now(), end.error, end.result))

    def _call_here(self, attempt: Attempt, handler: Handler) -> None:
        started_at, execution = self._clock.now(), attempt.execution
        assert isinstance(execution.target, HandlerTarget)
        context = context_of(execution.head, attempt.redelivered)
        self._end(attempt, started_at, call(handler, execution.target.payload, context))

    # On the loop

    def _launch(self, calls: list[tuple[Attempt, Handler]]) -> None:
        for attempt, handler in calls:
            execution, started_at = attempt.execution, self._clock.now()
            assert isinstance(execution.target, HandlerTarget)
            context = context_of(execution.head, attempt.redelivered)
            coroutine = call_async(handler, execution.target.payload, context, execution.target.timeout_s)
            task = self._loop.create_task(coroutine)
            self._tasks[id(attempt.ref)] = task, context
            task.add_done_callback(lambda task, of=attempt, at=started_at: self._finish(of, at, task))

    def _finish(self, attempt: Attempt, started_at: Micros, task: asyncio.Task[HandlerEnd]) -> None:
        """Note the end of a call; a task that was cancelled before its first step has none of its own."""
        del self._tasks[id(attempt.ref)]
        if task.cancelled():
            end = HandlerEnd(ReportKind.CANCELLED, CANCELLED)
        elif (problem := task.exception()) is not None:
            end = HandlerEnd(ReportKind.FAILED, AttemptError("exception", type(problem).__name__))
        else:
            end = task.result()
        self._end(attempt, started_at, end)

    def _cancel(self, refs: list[Any]) -> None:
        for ref in refs:
            task, context = self._tasks.get(id(ref), (None, None))
            if task is not None and context is not None:
                context.cancel()
                task.cancel()

    async def _shut_down(self) -> None:
        running = list(self._tasks.values())
        for task, context in running:
            context.cancel()
            task.cancel()
        await asyncio.gather(*(task for task, _ in running), return_exceptions=True)
