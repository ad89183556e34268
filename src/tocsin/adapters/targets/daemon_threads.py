"""Threads for blocking calls of event loops, such as look-ups of names and ``asyncio.to_thread`` in handlers.

Those of the standard library's executor are joined at the interpreter's end: one call that never returns would keep a
worker from ending that was told to stop, or that gives itself up to be started anew.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, Final

THREADS_DEFAULT: Final = min(32, (os.cpu_count() or 1) + 4)
"""As many as the standard library's executor has."""
IDLE_S: Final = 30.0
"""How long a thread without work stays."""

Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class DaemonThreads(ThreadPoolExecutor):
    """Runs calls in threads that end with the process. A loop takes no other executor than a ``ThreadPoolExecutor``.

    Args:
        threads_max: calls under way at once.
        name: of the threads.
    """

    def __init__(self, threads_max: int = THREADS_DEFAULT, name: str = "blocking") -> None:
        super().__init__(threads_max, name)
        self._name = name
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads_max = threads_max
        self._made = 0
        self._unclaimed = 0
        """Threads that wait for work, less jobs that wait for a thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            self._jobs.put((future, fn, args, kwargs))
            self._unclaimed -= 1
            if self._unclaimed < 0 and self._made < self._threads_max:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
                self._made += 1
                self._unclaimed += 1
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: threads without work end by themselves, and others end with the process."""

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except Empty:
                with self._lock:
                    if self._jobs.empty():
                        self._made -= 1
                        self._unclaimed -= 1
                        return
                continue
            _carry_out(*job)
            del job  # not held while waiting for the next
            with self._lock:
                self._unclaimed += 1


def _carry_out(future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
        future.set_exception(error)
    else:
        future.set_result(result)
