"""Routes for machines that watch the gateway."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from tocsin.domain.errors import Refused, Unavailable
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.parts import parts_of
from tocsin.roles.gateway.problems import RETRY_AFTER_S, problem

router = APIRouter()


@router.get("/healthz", response_model=None, **doc.HEALTHZ)
async def healthz(_request: Request) -> Json:
    """Tell that the process is alive."""
    return Json({"status": "alive"})


@router.get("/readyz", response_model=None, **doc.READYZ)
async def readyz(request: Request) -> Json:
    """Tell whether commands can be sent, outcomes are heard and the store answers."""
    parts = parts_of(request)
    missing = list(parts.bus.missing())
    try:
        async with asyncio.timeout(parts.limits.store_wait_s):
            await parts.views.ping()
    except TimeoutError:
        missing.append(f"the store did not answer within {parts.limits.store_wait_s:g} s")
    except (Unavailable, Refused) as error:
        missing.append(str(error))
    if missing:
        return problem(503, "; ".join(missing), headers={"Retry-After": str(RETRY_AFTER_S)}, missing=missing)
    return Json({"status": "ready"})


@router.get("/metrics", response_model=None, **doc.METRICS)
async def metrics(request: Request) -> Response:
    """Export what the process counts."""
    return Response(parts_of(request).render_metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")
