"""Look-ups of names: whoever's names nobody resolves keeps only itself waiting."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from tocsin.adapters.targets.lookups import ASKED_MAX, ASKING, KEPT_MAX, KEPT_S, SharedLookups

THREADS = 8


class Names(AbstractResolver):
    """Answers at once, but for names that begin with ``slow``: those when they are let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.held = 0
        self.let_go = asyncio.Event()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        self.held += 1
        assert self.held <= THREADS
        try:
            if host.startswith("slow"):
                await self.let_go.wait()
            if host.startswith("none"):
                raise OSError("no such name")
        finally:
            self.held -= 1
        return [_result(host, address, port) for address in ("192.0.2.1", "192.0.2.2")]

    async def close(self) -> None: ...


def _result(name: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(hostname=name, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)


class Clock:
    now_s = 0.0


def play(story: Callable[[Names, SharedLookups, Clock], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        names, clock = Names(), Clock()
        lookups = SharedLookups(names, THREADS, lambda: clock.now_s)
        await story(names, lookups, clock)
        await lookups.close()
        assert not lookups._asked and not lookups._asked_by

    asyncio.run(told())


def ask(lookups: SharedLookups, tenant: str, name: str) -> asyncio.Task[list[ResolveResult]]:
    async def asking() -> list[ResolveResult]:
        ASKING.set(tenant)
        return await lookups.resolve(name, 80)

    return asyncio.get_running_loop().create_task(asking())


async def breathe() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_tenant_whose_names_hang_leaves_threads_to_all_others() -> None:
    async def story(names: Names, lookups: SharedLookups, clock: Clock) -> None:
        evil = [ask(lookups, "evil", f"slow{n}") for n in range(40)]
        await breathe()
        assert names.held == THREADS // 2
        assert await asyncio.wait_for(ask(lookups, "good", "quick"), 5)
        more = [ask(lookups, f"evil{n}", f"slower{n}") for n in range(2)]
        await breathe()
        assert await asyncio.wait_for(ask(lookups, "good", "quick2"), 5)
        names.let_go.set()
        await asyncio.gather(*evil, *more)
        assert len(names.asked) == 40 + 2 + 2

    play(story)


def test_a_name_that_another_looks_up_does_not_wait_behind_that_ones_others() -> None:
    async def story(names: Names, lookups: SharedLookups, clock: Clock) -> None:
        for n in range(40):
            ask(lookups, "evil", f"slow{n}")
        behind = ask(lookups, "evil", "shared")
        await breathe()
        assert await asyncio.wait_for(ask(lookups, "good", "shared"), 5)
        assert not behind.done()
        names.let_go.set()
        await behind

    play(story)


def test_who_gives_up_leaves_its_thread_held_and_counted() -> None:
    async def story(names: Names, lookups: SharedLookups, clock: Clock) -> None:
        for turn in range(6):
            asked = [ask(lookups, "evil", f"slow{turn}.{n}") for n in range(20)]
            await breathe()
            for one in asked:
                one.cancel()
            await breathe()
        assert names.held == THREADS // 2
        names.let_go.set()

    play(story)


def test_what_waits_is_bounded_by_tenant() -> None:
    async def story(names: Names, lookups: SharedLookups, clock: Clock) -> None:
        for n in range(ASKED_MAX):
            ask(lookups, "evil", f"slow{n}")
        await breathe()
        with pytest.raises(OSError, match="other names of the tenant"):
            await ask(lookups, "evil", "slow-one-more")
        assert await ask(lookups, "good", "quick")
        names.let_go.set()

    play(story)


def test_what_is_found_is_kept_for_a_while_whoever_asked_and_addresses_take_turns() -> None:
    async def story(names: Names, lookups: SharedLookups, clock: Clock) -> None:
        first = [(await ask(lookups, tenant, "name"))[0]["host"] for tenant in ("a", "b", "a")]
        assert first == ["192.0.2.1", "192.0.2.1", "192.0.2.2"] and names.asked == ["name"]
        clock.now_s = KEPT_S
        await ask(lookups, "a", "name")
        assert names.asked == ["name"] * 2
        for n in range(KEPT_MAX):
            await ask(lookups, "a", f"n{n}")
        await ask(lookups, "a", "name")
        assert names.asked.count("name") == 3

    play(story)


def test_at_once_it_is_looked_up_once_and_a_failure_is_everybodys_and_not_kept() -> None:
    async def story(names: Names, lookups: SharedLookups, clock: Clock) -> None:
        asked = [ask(lookups, "a", "none") for _ in range(5)]
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(end, OSError) for end in ends) and names.asked == ["none"]
        with pytest.raises(OSError, match="no such name"):
            await ask(lookups, "a", "none")

    play(story)
