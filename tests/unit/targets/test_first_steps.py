"""Tasks that take their first step as they are made are tasks as any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from tocsin.adapters.targets.first_steps import begin_all

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def in_a_callback(scene: Callable[[asyncio.AbstractEventLoop], list[asyncio.Task[None]]]) -> list[asyncio.Task[None]]:
    """Run a scene in a callback of a loop, and then the loop until all tasks of the scene are done."""
    loop = asyncio.new_event_loop()
    made: list[asyncio.Task[None]] = []

    async def whole() -> None:
        loop.call_soon(lambda: made.extend(scene(loop)))
        await asyncio.sleep(0)
        await asyncio.gather(*made, return_exceptions=True)

    loop.run_until_complete(whole())
    loop.close()
    return made


def test_the_first_step_is_taken_at_once_and_the_others_as_ever() -> None:
    said: list[Any] = []

    async def one(name: str) -> None:
        said.append(name)
        await asyncio.sleep(0)
        said.append(name + " again")

    async def short() -> None:
        said.append("short")

    def scene(loop: asyncio.AbstractEventLoop) -> list[asyncio.Task[None]]:
        tasks = begin_all(loop, [one("a"), short(), one("b")])
        assert said == ["a", "short", "b"]
        assert [task.done() for task in tasks] == [False, True, False]
        loop.call_soon(said.append, "the loop's own")
        return tasks

    in_a_callback(scene)
    assert said == ["a", "short", "b", "a again", "b again", "the loop's own"]


def test_each_step_is_its_own_tasks_in_its_own_context() -> None:
    seen: list[tuple[Any, str]] = []

    async def one(name: str) -> None:
        before = WHO.get()
        WHO.set(name)
        seen.append((asyncio.current_task(), before))
        await asyncio.sleep(0)
        assert WHO.get() == name

    def scene(loop: asyncio.AbstractEventLoop) -> list[asyncio.Task[None]]:
        tasks = begin_all(loop, [one("a"), one("b")])
        assert seen == [(task, "nobody") for task in tasks]
        assert WHO.get() == "nobody" and asyncio.current_task(loop) is None
        assert asyncio.all_tasks(loop) >= set(tasks)
        return tasks

    assert [task.exception() for task in in_a_callback(scene)] == [None, None]


def test_one_that_ends_the_process_keeps_no_other_from_its_first_step() -> None:
    said: list[str] = []

    async def leaves() -> None:
        raise SystemExit(3)

    async def stays() -> None:
        said.append("stays")

    def scene(loop: asyncio.AbstractEventLoop) -> list[asyncio.Task[None]]:
        with pytest.raises(SystemExit):
            begin_all(loop, [leaves(), stays()])
        assert said == []
        return []

    in_a_callback(scene)
    assert said == ["stays"]
