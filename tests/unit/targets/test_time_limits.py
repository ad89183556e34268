"""Time limits by one timer do what ``asyncio.timeout`` does, for each task by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tocsin.adapters.targets.time_limits import TimeLimits

LONG_S = 600.0


def ends(scene: Callable[[TimeLimits], Awaitable[Any]]) -> Any:
    """Run a scene on a loop of its own, and return what it returns."""

    async def whole() -> Any:
        async with asyncio.timeout(60):
            return await scene(TimeLimits(asyncio.get_running_loop()))

    return asyncio.run(whole())


async def limited(limits: TimeLimits, limit_s: float, what: Callable[[], Awaitable[Any]]) -> Any:
    limit = limits.of(limit_s)
    try:
        with limit:
            return await what()
    except TimeoutError:
        assert limit.expired()
        return "too long"
    except asyncio.CancelledError:
        return "cancelled"


async def asleep() -> str:
    await asyncio.sleep(LONG_S)
    return "slept"


async def deaf() -> str:
    try:
        await asyncio.sleep(LONG_S)
    except asyncio.CancelledError:
        return "not heard"
    return "slept"


async def broken() -> str:
    try:
        return await asleep()
    finally:
        raise ValueError("broken")


def test_each_task_has_its_own_limit_in_whatever_order_they_come() -> None:
    async def scene(limits: TimeLimits) -> list[str]:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        ended: list[tuple[float, float]] = []

        async def one(limit_s: float) -> str:
            said = await limited(limits, limit_s, asleep)
            ended.append((limit_s, loop.time() - began_s))
            return str(said)

        said = await asyncio.gather(*[one(limit_s) for limit_s in (0.2, 0.05, 0.1, 0.0, -1.0)])
        assert [limit_s for limit_s, _ in ended[2:]] == [0.05, 0.1, 0.2], "the earliest first"
        assert all(took_s >= limit_s for limit_s, took_s in ended), "none before its time"
        return said

    assert ends(scene) == ["too long"] * 5


def test_many_limits_that_are_not_reached_take_one_timer() -> None:
    async def scene(limits: TimeLimits) -> None:
        loop = asyncio.get_running_loop()
        before = len(loop._scheduled)  # type: ignore[attr-defined]
        tasks = [loop.create_task(limited(limits, LONG_S + number, asleep)) for number in range(50)]
        await asyncio.sleep(0)
        assert len(loop._scheduled) <= before + 51, "of which one sleeps for each task"  # type: ignore[attr-defined]
        for task in tasks:
            task.cancel()
        assert await asyncio.gather(*tasks) == ["cancelled"] * 50
        assert not limits._counting, "and nothing is kept of what has ended"

    ends(scene)


def test_a_cancel_from_outside_is_no_timeout_even_when_both_come() -> None:
    async def scene(limits: TimeLimits) -> None:
        task = asyncio.ensure_future(limited(limits, 0.01, asleep))
        await asyncio.sleep(0)
        [limit] = limits._counting
        limit.expire()
        task.cancel()
        assert await task == "cancelled"
        assert task.cancelling() == 1, "the limit took back its own cancel, and no other"

    ends(scene)


def test_what_ends_in_its_own_way_after_its_limit_has_that_end() -> None:
    async def scene(limits: TimeLimits) -> None:
        assert await limited(limits, 0.0, deaf) == "not heard"
        with pytest.raises(ValueError, match="broken"):
            await limited(limits, 0.0, broken)
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    ends(scene)


def test_a_limit_within_a_limit_ends_only_its_own_block() -> None:
    async def scene(limits: TimeLimits) -> list[str]:
        said = []

        async def outer() -> None:
            said.append(await limited(limits, 0.01, asleep))
            with limits.of(LONG_S):
                await asleep()

        said.append(await limited(limits, 0.05, outer))
        return said

    assert ends(scene) == ["too long", "too long"]
