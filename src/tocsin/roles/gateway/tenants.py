"""Route that ends the pause of a tenant's retries: each shard counted its failures by itself, so each is told."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, Request

from tocsin.domain.commands import Command, CommandKind, OutcomeDetail
from tocsin.domain.definitions import parse_tenant
from tocsin.domain.errors import Fault, InvalidInput
from tocsin.domain.fields import shown
from tocsin.domain.ids import made_command_id
from tocsin.roles.gateway import documented as doc
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.parts import GatewayParts, parts_of
from tocsin.roles.gateway.requests import TENANT_HEADER, query_of, refuse_fields, tenant_of
from tocsin.roles.gateway.submission import Undecided, submit

router = APIRouter()

AT_ONCE_MAX: Final = 32
"""Commands that wait for their outcome at once."""


@router.post("/v1/tenants/{tenant_id}:resume-retries", response_model=None, **doc.RESUME_RETRIES)
async def resume_retries(request: Request, tenant_id: str) -> Json:
    """End the pause of a tenant's retries in all shards; what was held back goes out at a low rate."""
    parts = parts_of(request)
    query_of(request)
    await refuse_fields(request, parts.limits)
    tenant = parse_tenant(tenant_id)
    if TENANT_HEADER in request.headers and tenant_of(request) != tenant:
        remedy = f"name one tenant, or leave {TENANT_HEADER} out"
        raise InvalidInput([Fault("tenant_id", shown(tenant_id), "is another tenant than the header's", remedy)])
    slots = asyncio.Semaphore(AT_ONCE_MAX)
    answers = await asyncio.gather(*[_tell(parts, tenant, route, slots) for route in parts.bus.routes()])
    counts = {name: answers.count(name) for name in ("resumed", "unchanged", "pending")}
    return Json({"tenant_id": tenant, **counts})


async def _tell(parts: GatewayParts, tenant_id: str, route: str, slots: asyncio.Semaphore) -> str:
    """Tell one shard; return what came of it."""
    command = Command(
        CommandKind.RESUME_RETRIES, made_command_id(parts.new_uuid_hex()), route, tenant_id, reply_partition=0
    )
    async with slots:
        outcome = await submit(parts, command)
    if isinstance(outcome, Undecided):
        return "pending"
    return "resumed" if outcome.detail == OutcomeDetail.RESUMED else "unchanged"
