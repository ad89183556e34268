"""A gateway with everything around it in memory: an owner that decides at once, views, and a clock that stands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
from prometheus_client import generate_latest

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.memory.command_bus import MemoryCommandBus
from tocsin.adapters.memory.views import MemoryViews
from tocsin.adapters.metrics import PrometheusMeter
from tocsin.domain import ids
from tocsin.domain.commands import Command, CommandOutcome, OutcomeDetail
from tocsin.domain.definitions import parse
from tocsin.domain.entries import EntryKey
from tocsin.domain.errors import Fault
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.jobs import Job, JobState
from tocsin.domain.schedules import first_occurrence
from tocsin.ports.views import JobSeen
from tocsin.roles.gateway.app import create_app
from tocsin.roles.gateway.parts import GatewayLimits

NOON: Micros = 1_791_633_600_000_000
"""2026-10-10T12:00:00Z."""
TARGET = {"type": "http", "url": "https://settle.internal/run"}
MINIMAL = {"delay_s": 60, "target": TARGET}
CODEC = AvroCodec()


class StandingClock:
    """A clock that moves only when it is told to."""

    def __init__(self, now: Micros = NOON) -> None:
        self.time = now

    def now(self) -> Micros:
        return self.time


class House:
    """One gateway and its neighbours.

    Attributes:
        rejecting: faults with which the owner rejects every create.
        answering: whether the owner answers at all.
    """

    def __init__(self, **limits: Any) -> None:
        self.clock = StandingClock()
        self.bus = MemoryCommandBus(self.decide)
        self.views = MemoryViews()
        self.meter = PrometheusMeter()
        self.rejecting: tuple[Fault, ...] = ()
        self.answering = True
        self.jobs: dict[str, Job] = {}
        self._uuids = 0
        self.app = create_app(
            self.bus,
            self.views,
            CODEC,
            self.clock,
            self.new_uuid_hex,
            self.meter,
            lambda: generate_latest(self.meter.registry),
            GatewayLimits(**{"outcome_wait_s": 0.05, "store_wait_s": 1.0, **limits}),
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
        assert command.command_id and command.job_id and command.tenant_id
        version = ids.version_of(1, len(self.bus.commands) - 1)
        blank = CommandOutcome(
            command.command_id, command.kind, command.job_id, command.tenant_id, False, "", self.clock.time
        )
        if command.kind == "delete":
            job = self.jobs.get(command.job_id)
            if job is None or job.tenant_id != command.tenant_id:
                return replace(blank, detail=OutcomeDetail.NOT_FOUND)
            del self.jobs[command.job_id]
            fired = job.next_run_at(self.clock.time) is None
            detail = OutcomeDetail.ALREADY_FIRED if fired else OutcomeDetail.PREVENTED
            deleted = replace(job, state=JobState.DELETED, version=version)
            return replace(blank, accepted=True, detail=detail, version=version, job=CODEC.encode_job(deleted))
        if self.rejecting:
            return replace(blank, detail=OutcomeDetail.INVALID, faults=self.rejecting)
        job = self.create(command, version)
        return replace(blank, accepted=True, detail=OutcomeDetail.CREATED, version=version, job=CODEC.encode_job(job))

    def create(self, command: Command, version: int) -> Job:
        assert command.job_id and command.tenant_id
        definition = parse(command.definition)
        at = first_occurrence(definition.schedule, self.clock.time)
        entry = EntryKey(at, command.job_id, version, at)
        now = self.clock.time
        job = Job(command.job_id, command.tenant_id, version, version, JobState.ACTIVE, now, now, definition, entry)
        self.jobs[job.job_id] = job
        if not self.views.failing:
            self.views.write([JobSeen(job, CODEC.encode_job(job))], [], [])
        return job

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
