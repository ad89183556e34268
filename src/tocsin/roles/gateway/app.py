"""The application: routes, errors and the outermost layer, put together around the ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException

from tocsin import __version__
from tocsin.domain.callback_keys import CallbackKeys
from tocsin.domain.errors import TocsinError
from tocsin.ports.clock import Clock
from tocsin.ports.codec import GatewayCodec
from tocsin.ports.command_bus import CommandBus
from tocsin.ports.meters import GatewayMeter
from tocsin.ports.run_logs import RunLogReader
from tocsin.ports.views import ViewReader
from tocsin.roles.gateway import callbacks as callback_routes
from tocsin.roles.gateway import (
    cancels,
    changes,
    commands,
    health,
    jobs,
    later,
    letters,
    logs,
    problems,
    redrives,
    retries,
    runs,
    schedules,
    tenants,
)
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.edge import Edge
from tocsin.roles.gateway.openapi import openapi_document
from tocsin.roles.gateway.outcomes import OutcomeBook
from tocsin.roles.gateway.parts import GatewayLimits, GatewayParts
from tocsin.roles.gateway.snapshots import SnapshotDesk
from tocsin.roles.pools import PoolBook


def create_app(
    bus: CommandBus,
    views: ViewReader,
    run_logs: RunLogReader,
    codec: GatewayCodec,
    clock: Clock,
    new_uuid_hex: Callable[[], str],
    meter: GatewayMeter,
    render_metrics: Callable[[], bytes],
    limits: GatewayLimits | None = None,
    callbacks: CallbackKeys | None = None,
    pools: PoolBook | None = None,
) -> FastAPI:
    """Return the gateway as an ASGI application; the bus is started and closed with it.

    Args:
        bus: the way to the owners.
        views: what is read.
        run_logs: what attempts print.
        codec: of commands, outcomes, jobs and reports.
        clock: tells the time.
        new_uuid_hex: makes a UUIDv7, 32 digits.
        meter: what is counted with.
        render_metrics: writes all metrics of the process as Prometheus text.
        limits: bounds; the defaults where None.
        callbacks: checks the keys of targets that call back; None: none may.
        pools: which there are; None: it is left to the owners.
    """
    limits = limits or GatewayLimits()
    book = OutcomeBook(
        limits.outcomes_kept_max,
        limits.outcomes_kept_bytes_max,
        limits.pending_max,
        meter.pending,
        lambda: clock.now() // 1000,
    )

    desk = SnapshotDesk(views, limits.store_wait_s)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await bus.start(book.learn)
        try:
            yield
        finally:
            await bus.close()

    app = routed_app(lifespan)
    keys = callbacks or CallbackKeys()
    app.state.parts = GatewayParts(
        bus, views, codec, clock, meter, new_uuid_hex, render_metrics, limits, book, desk, keys, run_logs, pools
    )
    app.add_middleware(Edge, meter=meter, hosts=limits.hosts)
    return app


def routed_app(lifespan: Callable[[FastAPI], object] | None = None) -> FastAPI:
    """Return the routes without parts: enough to be documented, not to serve."""
    app = FastAPI(
        title="tocsin",
        version=__version__,
        openapi_url=None,
        docs_url=None,  # both pages would load scripts from other hosts
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,  # type: ignore[arg-type]
    )
    for router in (
        jobs.router,
        changes.router,
        runs.router,
        logs.router,
        retries.router,
        cancels.router,
        callback_routes.router,
        letters.router,
        redrives.router,
        tenants.router,
        commands.router,
        schedules.router,
        health.router,
        later.router,
    ):
        # One flat list: a path's methods lie in several routers, and the answer to a wrong one names them all.
        app.router.routes.extend(router.routes)
    app.add_exception_handler(HTTPException, problems.on_http_exception)
    app.add_exception_handler(TocsinError, problems.on_error)
    app.add_exception_handler(problems.Refusal, problems.on_error)
    document = cache(lambda: openapi_document(app))

    @app.get("/openapi.json", include_in_schema=False, response_model=None)
    async def openapi(_request: Request) -> Json:
        return Json(document())

    return app
