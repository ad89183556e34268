"""A gateway with everything around it in memory: an owner that decides at once, views, and a clock that stands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from prometheus_client import generate_latest

from tests.unit.gateway.owner import CODEC, Owner
from tocsin.adapters.memory.command_bus import MemoryCommandBus
from tocsin.adapters.memory.run_logs import MemoryRunLogs
from tocsin.adapters.memory.views import MemoryViews
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.commands import Command, CommandOutcome
from tocsin.domain.instants import SECOND, Micros
from tocsin.ports.views import JobSeen
from tocsin.roles.gateway.app import create_app
from tocsin.roles.gateway.parts import GatewayLimits
from tocsin.roles.pools import PoolBook

NOON: Micros = 1_791_633_600_000_000
"""2026-10-10T12:00:00Z."""
TARGET = {"type": "http", "url": "https://settle.internal/run"}
MINIMAL = {"delay_s": 60, "target": TARGET}


class StandingClock:
    """A clock that moves only when it is told to."""

    def __init__(self, now: Micros = NOON) -> None:
        self.time = now

    def now(self) -> Micros:
        return self.time


class House:
    """One gateway and its neighbours.

    Attributes:
        owner: decides.
        answering: whether the owner answers at all.
    """

    def __init__(self, callbacks: CallbackKeys | None = None, pools: PoolBook | None = None, **limits: Any) -> None:
        self.clock = StandingClock()
        self.bus = MemoryCommandBus(self.decide)
        self.views = MemoryViews()
        self.run_logs = MemoryRunLogs()
        self.meter = PrometheusMeter()
        self.owner = Owner(self.clock.now)
        self.answering = True
        self._uuids = 0
        self.app = create_app(
            self.bus,
            self.views,
            self.run_logs,
            CODEC,
            self.clock,
            self.new_uuid_hex,
            self.meter,
            lambda: generate_latest(self.meter.registry),
            GatewayLimits(**{"outcome_wait_s": 0.05, "store_wait_s": 1.0, **limits}),
            callbacks,
            pools,
        )
        self.client: httpx.AsyncClient

    def new_uuid_hex(self) -> str:
        """A UUIDv7 of the standing clock."""
        self._uuids += 1
        return f"{self.clock.time // 1000:012x}7{self._uuids:019x}"

    def decide(self, value: bytes) -> bytes | None:
        """Decide as an owner does."""
        command = CODEC.decode_command(value)
        return CODEC.encode_outcome(self.outcome_of(command)) if self.answering else None

    def outcome_of(self, command: Command) -> CommandOutcome:
        """Decide a command, and have the listing follow."""
        outcome = self.owner.outcome_of(command)
        if outcome.accepted and outcome.job is not None and not self.views.failing:
            self.views.write([JobSeen(CODEC.decode_job(outcome.job), outcome.job)], [], [])
        return outcome

    def later(self, seconds: float) -> None:
        self.clock.time += int(seconds * SECOND)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
        async with (
            self.app.router.lifespan_context(self.app),
            httpx.AsyncClient(transport=transport, base_url="http://gateway") as client,
        ):
            self.client = client
            yield client


def visit(house: House, scene: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    """Run a scene against an open house."""

    async def run() -> None:
        async with house.open() as client:
            await scene(client)

    asyncio.run(run())


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    """Return the problem that an answer must be, whole and well-formed."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    for name in ("type", "title", "detail"):
        assert isinstance(body[name], str)
        assert body[name]
    assert isinstance(body["faults"], list)
    for fault in body["faults"]:
        assert set(fault) == {"field", "value", "problem", "remedy"}
        assert fault["value"]
        assert fault["problem"]
        assert fault["remedy"]
    assert "Traceback" not in response.text
    return body
