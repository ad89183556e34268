"""Routes of the contract that are refused by name until they work; none of them is in the OpenAPI document."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request

from tocsin.domain.fields import shown
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.problems import LATER, not_supported_yet

ROUTES: Final = (
    ("PATCH", "/v1/jobs/{job_id}", "changing a part of a job (PUT takes the whole)"),
    ("POST", "/v1/jobs/{job_id}:backfill", "running past occurrences"),
    ("GET", "/v1/tenants/{tenant_id}", "reading a tenant's settings"),
)

router = APIRouter(include_in_schema=False)


def _refuse(method: str, path: str, what: str) -> None:
    async def refuse(request: Request) -> Json:
        remedy = "see /openapi.json for what there is"
        raise not_supported_yet(what, "path", shown(request.url.path), remedy)

    router.add_api_route(path, refuse, methods=[method], name=LATER, response_model=None)


for _route in ROUTES:
    _refuse(*_route)
