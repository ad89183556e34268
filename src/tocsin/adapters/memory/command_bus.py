"""Commands and outcomes in memory: an owner that a test writes as a function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tocsin.domain.errors import Unavailable
from tocsin.domain.sharding import routes
from tocsin.ports.command_bus import Delivery, Learn, OutcomeSeen

Owner = Callable[[bytes], bytes | None]
"""Takes a command, returns its outcome; None: it does not answer."""


class MemoryCommandBus:
    """Fulfils ``ports.command_bus.CommandBus``.

    Args:
        owner: decides each command as soon as it is sent.

    Attributes:
        commands: what was logged, as (command_id, job_id, command).
        reports: what was logged, as (job_id, report).
        delivery: what becomes of commands sent from now on; None: no acknowledgement comes; an error: it is raised
            from the future.
        problems: what ``missing`` says; while there are some, ``send`` fails.
    """

    def __init__(self, owner: Owner = lambda _: None) -> None:
        self.owner = owner
        self.commands: list[tuple[str, str, bytes]] = []
        self.delivery: Delivery | Unavailable | None = Delivery.LOGGED
        self.problems: list[str] = []
        self.reports: list[tuple[str, bytes]] = []
        self.closed = False
        self.shards = 3
        self._log: list[OutcomeSeen] = []
        self._learn: Learn | None = None

    async def start(self, learn: Learn) -> None:
        self._learn = learn
        if self._log:
            learn(self._log)

    def missing(self) -> Sequence[str]:
        return [*self.problems, *([] if self._learn else ["the gateway is starting"])]

    def _delivery(self) -> asyncio.Future[Delivery]:
        if missing := self.missing():
            raise Unavailable("kafka", missing[0])
        delivery: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        if isinstance(self.delivery, Unavailable):
            delivery.set_exception(self.delivery)
        elif self.delivery is not None:
            delivery.set_result(self.delivery)
        return delivery

    def report(self, job_id: str, report: bytes) -> asyncio.Future[Delivery]:
        delivery = self._delivery()
        if not isinstance(self.delivery, Unavailable):
            self.reports.append((job_id, report))
        return delivery

    def send(self, command_id: str, job_id: str, command: bytes) -> asyncio.Future[Delivery]:
        delivery = self._delivery()
        if isinstance(self.delivery, Unavailable):
            return delivery
        self.commands.append((command_id, job_id, command))
        outcome = self.owner(command)
        if outcome is not None:
            asyncio.get_running_loop().call_soon(self.publish, command_id, outcome)
        return delivery

    def routes(self) -> Sequence[str]:
        if missing := self.missing():
            raise Unavailable("kafka", missing[0])
        return routes(self.shards)

    def publish(self, command_id: str, outcome: bytes) -> None:
        """Write an outcome as an owner does; call on the event loop."""
        seen = OutcomeSeen(command_id, outcome)
        self._log.append(seen)
        if self._learn:
            self._learn([seen])

    async def close(self) -> None:
        self.closed = True
