"""Tasks that take their first step as they are made. Many attempts end with it, and then nothing is left to be called.

A task asks its loop to call its first step soon; that call is taken out of the loop's hands, and made at once. All else
is as ever: the step has the task's own context, and within it the task is the current one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from typing import Any


def begin_all(
    loop: asyncio.AbstractEventLoop, coroutines: Iterable[Coroutine[Any, Any, None]]
) -> list[asyncio.Task[None]]:
    """Make tasks, whose first steps are taken before this returns.

    Only for the loop's own thread, in a callback that belongs to no task.
    """
    steps: deque[tuple[Context, Callable[[], object]]] = deque()

    def call_soon(step: Callable[[], object], *, context: Context) -> None:
        steps.append((context, step))

    instance: Any = loop
    instance.call_soon = call_soon
    try:
        tasks = [asyncio.Task(coroutine, loop=loop) for coroutine in coroutines]
    finally:
        del instance.call_soon
    assert len(steps) == len(tasks), "each task asks for its first step as it is made"
    try:
        while steps:
            context, step = steps.popleft()
            context.run(step)
    finally:  # nothing but the end of a process is raised by a step; should the loop go on, so do the others
        for context, step in steps:
            loop.call_soon(step, context=context)
    return tasks
