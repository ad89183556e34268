"""Attempts as tasks of an asyncio loop in a thread of its own: what all kinds of targets that wait have in common.

A kind of target is a subclass that says how one attempt is run. Whatever happens there, each attempt ends once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

import structlog

from tocsin.adapters.targets.daemon_threads import DaemonThreads
from tocsin.domain.executions import AttemptError, ReportKind
from tocsin.ports.clock import Clock
from tocsin.ports.targets import Attempt, AttemptEnd

log = structlog.get_logger()

JOIN_WAIT_S: Final = 5.0
CANCELLED: Final = AttemptError("cancelled", "cancelled by its worker")


class AttemptLoop:
    """Fulfils ``ports.targets.TargetRunner``; subclasses give ``_run``.

    Args:
        clock: stamps start and end.
        name: of the thread.
    """

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._ended: deque[AttemptEnd] = deque()
        self._tasks: dict[int, asyncio.Task[AttemptEnd]] = {}
        """By the identity of the attempt's ref; only the loop's thread touches it."""
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreads(name=name))
        self._closing = False
        self._thread = threading.Thread(target=self._go_on, name=name, daemon=True)
        self._thread.start()

    # Called by the worker's thread

    def start(self, attempts: Sequence[Attempt]) -> None:
        self._loop.call_soon_threadsafe(self._launch, list(attempts))

    def ended(self) -> list[AttemptEnd]:
        ended = self._ended
        return [ended.popleft() for _ in range(len(ended))]

    def cancel(self, refs: Sequence[Any]) -> None:
        self._loop.call_soon_threadsafe(self._cancel, list(refs))

    def close(self) -> None:
        if self._thread.is_alive():
            try:
                self._await(self._shut_down())
            except TimeoutError:
                log.error("attempts could not be stopped", action="worker.targets_left", thread=self._thread.name)
            self._closing = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(JOIN_WAIT_S)

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(JOIN_WAIT_S)

    def _go_on(self) -> None:
        """Run the loop until it is closed. What runs on it may be a service's own code, which may stop a loop, or raise
        SystemExit in a task of its own; its neighbours must not stand still for that."""
        while not self._closing:
            try:
                self._loop.run_forever()
            except BaseException as error:  # noqa: BLE001 - also SystemExit: nobody else runs this loop
                log.error("a task ended the loop", action="worker.loop_ended", error=repr(error))

    # On the loop

    async def _run(self, attempt: Attempt) -> AttemptEnd:
        """Run one attempt to its end; being cancelled is one as well."""
        raise NotImplementedError

    async def _release(self) -> None:
        """Let go of what is held beside attempts; nothing runs any more."""

    def _launch(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            task = self._loop.create_task(self._run(attempt))
            self._tasks[id(attempt.ref)] = task
            task.add_done_callback(partial(self._finish, attempt))

    def _finish(self, attempt: Attempt, task: asyncio.Task[AttemptEnd]) -> None:
        """Note the end of an attempt; a task that was cancelled before its first step has none of its own."""
        del self._tasks[id(attempt.ref)]
        now = self._clock.now()
        if task.cancelled():
            self._ended.append(AttemptEnd(attempt.ref, ReportKind.CANCELLED, now, now, CANCELLED))
        elif (error := task.exception()) is not None:
            wrong = AttemptError("internal", f"it could not be run: {type(error).__name__}")
            self._ended.append(AttemptEnd(attempt.ref, ReportKind.FAILED, now, now, wrong))
        else:
            self._ended.append(task.result())

    def _cancel(self, refs: list[Any]) -> None:
        for ref in refs:
            task = self._tasks.get(id(ref))
            if task is not None:
                task.cancel()

    async def _shut_down(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._release()
