"""Look-ups of host names, shared among tenants: a name that takes its time keeps only its own tenant waiting.

The system's resolver holds a thread for as long as name servers are silent, also when nobody waits for the answer any
more. So a tenant may have as many look-ups under way as there are threads free, and what is beyond waits behind those.
What was found is kept for a while, whoever asked.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

ASKING: Final[ContextVar[str]] = ContextVar("ASKING", default="")
"""For whom a call is made; set it in the task that makes it."""
KEPT_S: Final = 10.0
KEPT_MAX: Final = 1_000
ASKED_MAX: Final = 256
"""Names of one tenant that are being looked up, or wait for that; further ones fail."""

Place = tuple[str, int, socket.AddressFamily]


class SharedLookups(AbstractResolver):
    """Looks names up for sessions, on the loop at hand; without a cache of the client's own in front of it.

    Args:
        resolver: does it; each call holds a thread.
        threads: how many there are.
        monotonic_s: seconds that never jump.
    """

    def __init__(
        self, resolver: AbstractResolver, threads: int, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._resolver = resolver
        self._free = threads
        self._monotonic_s = monotonic_s
        self._asked: dict[tuple[str, Place], asyncio.Task[list[ResolveResult]]] = {}
        self._asked_by: Counter[str] = Counter()
        self._under_way: Counter[str] = Counter()
        self._turns: list[asyncio.Future[None]] = []
        """Of look-ups that wait for a thread."""
        self._kept: OrderedDict[Place, tuple[float, list[ResolveResult]]] = OrderedDict()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a name.

        Raises:
            OSError: there are none, or too many names are looked up for whom this is.
        """
        place, tenant = (host, port, family), ASKING.get()
        if (found := self._known(place)) is not None:
            return found
        task = self._asked.get((tenant, place))
        if task is None:
            if self._asked_by[tenant] >= ASKED_MAX:
                raise OSError(f"{ASKED_MAX} other names of the tenant are being looked up")
            task = asyncio.get_running_loop().create_task(self._look_up(tenant, place))
            self._asked[tenant, place] = task
            self._asked_by[tenant] += 1
            task.add_done_callback(lambda done: self._note(tenant, place, done))
        # Who asked may give up; the thread is held all the same.
        return await asyncio.shield(task)

    async def close(self) -> None:
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._resolver.close()

    def _known(self, place: Place) -> list[ResolveResult] | None:
        until_s, found = self._kept.get(place, (0.0, []))
        if not found or until_s <= self._monotonic_s():
            return None
        # The next one begins with another address.
        self._kept[place] = (until_s, found[1:] + found[:1])
        return found

    async def _look_up(self, tenant: str, place: Place) -> list[ResolveResult]:
        while self._under_way[tenant] >= self._free:
            turn = asyncio.get_running_loop().create_future()
            self._turns.append(turn)
            await turn
        self._free -= 1
        self._under_way[tenant] += 1
        try:
            found = await self._resolver.resolve(*place)
        finally:
            self._free += 1
            _count_out(self._under_way, tenant)
            turns, self._turns = self._turns, []
            for turn in turns:
                if not turn.done():
                    turn.set_result(None)
        self._kept.pop(place, None)
        self._kept[place] = (self._monotonic_s() + KEPT_S, found)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return found

    def _note(self, tenant: str, place: Place, task: asyncio.Task[list[ResolveResult]]) -> None:
        del self._asked[tenant, place]
        _count_out(self._asked_by, tenant)
        if not task.cancelled():
            task.exception()  # looked at, since maybe nobody waits any more


def _count_out(counts: Counter[str], tenant: str) -> None:
    counts[tenant] -= 1
    if not counts[tenant]:
        del counts[tenant]
