"""Attempts as tasks of an asyncio loop in a thread of its own: what all kinds of targets that wait have in common.

A kind of target is a subclass that says how one attempt is run. Whatever happens there, each attempt ends once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import structlog

from tocsin.adapters.targets.daemon_threads import DaemonThreads
from tocsin.adapters.targets.first_steps import begin_all
from tocsin.adapters.targets.time_limits import TimeLimits
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
        """What the worker's thread may see."""
        self._untold: list[AttemptEnd] = []
        """Ends that the worker's thread sees in a moment, all at once: it makes a turn of what it finds."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        """Of what has not ended with its first step, by the identity of the attempt's ref; only the loop's thread
        touches it."""
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(DaemonThreads(name=name))
        self._limits = TimeLimits(self._loop)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
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

    def _serve(self) -> None:
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
        tasks = begin_all(self._loop, map(self._carry, attempts))
        for attempt, task in zip(attempts, tasks, strict=True):
            if not task.done():
                self._tasks[id(attempt.ref)] = task
                self._go_on_with(attempt, task)

    def _go_on_with(self, attempt: Attempt, task: asyncio.Task[None]) -> None:
        """Do what is due of an attempt that has not ended with its first step."""

    async def _carry(self, attempt: Attempt) -> None:
        try:
            end = await self._run(attempt)
        except asyncio.CancelledError:
            end = self._end_of(attempt, ReportKind.CANCELLED, CANCELLED)
        except BaseException as error:  # noqa: BLE001 - whatever it is, there is an end
            wrong = AttemptError("internal", f"it could not be run: {type(error).__name__}")
            end = self._end_of(attempt, ReportKind.FAILED, wrong)
        self._finish(attempt, end)

    def _end_of(self, attempt: Attempt, kind: ReportKind, error: AttemptError) -> AttemptEnd:
        """Return the end of what has told none of its own."""
        now = self._clock.now()
        return AttemptEnd(attempt.ref, kind, now, now, error)

    def _finish(self, attempt: Attempt, end: AttemptEnd) -> None:
        self._tasks.pop(id(attempt.ref), None)
        if not self._untold:
            self._loop.call_soon(self._tell)
        self._untold.append(end)

    def _tell(self) -> None:
        untold, self._untold = self._untold, []
        self._ended.extend(untold)

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
