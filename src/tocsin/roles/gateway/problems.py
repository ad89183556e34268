"""Errors as RFC 9457 problem details: every answer that is not a success is made here, and none shows a stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from tocsin.domain.errors import Corrupt, Fault, InvalidInput, NotFound, Refused, TocsinError, Unavailable
from tocsin.domain.fields import shown
from tocsin.roles.gateway.answers import Json
from tocsin.roles.gateway.rendering import faults_json

log = structlog.get_logger()

RETRY_AFTER_S: Final = 1

LATER: Final = "later"
"""Name of the routes that only say what is not supported yet."""

TITLES: Final = {
    403: ("wrong-key", "The key does not fit"),
    404: ("not-found", "Not found"),
    405: ("method-not-allowed", "This method is not served here"),
    408: ("body-too-slow", "The body took too long to arrive"),
    409: ("conflict", "The job stands against it"),
    412: ("stale-version", "The job has another version"),
    413: ("too-large", "The body is too large"),
    415: ("unsupported-media-type", "The body is not JSON"),
    421: ("misdirected", "This gateway does not go by that name"),
    422: ("invalid-input", "The request has faults"),
    500: ("internal", "The gateway failed"),
    501: ("not-supported-yet", "Not supported yet"),
    503: ("unavailable", "A part of tocsin is not available"),
}


NOT_KNOWN: Final = {
    "job": ("job_id", "ask GET /v1/jobs for those of this tenant; the header Tocsin-Tenant names another one"),
    "run": ("execution_id", "ask GET /v1/jobs/{job_id}/runs for those of a job"),
    "dead letter": ("dead_letter_id", "ask GET /v1/dead-letters for those of this tenant; they are kept for 90 days"),
    "command": ("command_id", "ask within an hour, and as the tenant that sent it; else read the job itself"),
}
"""Of each kind of thing that is asked for: the field that names it, and what to do where it is not known."""


class Refusal(Exception):
    """A request that is answered with a problem of this status."""

    def __init__(
        self, status: int, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = headers


def not_supported_yet(what: str, field: str, value: str, remedy: str) -> Refusal:
    """Return the refusal of what the contract names and this version does not do."""
    return Refusal(501, f"{what} is not supported yet", [Fault(field, value, "is not supported yet", remedy)])


def not_known(kind: str, identity: str) -> Fault:
    """Return what is wrong with an id under which nothing is known."""
    field, remedy = NOT_KNOWN.get(kind, ("", "ask for what there is"))
    return Fault(field, shown(identity), "is not known", remedy)


def problem(
    status: int, detail: str, faults: Sequence[Fault] = (), headers: Mapping[str, str] | None = None, **more: Any
) -> Json:
    """Return a problem details answer."""
    slug, title = TITLES.get(status, ("error", "The request cannot be served"))
    body: dict[str, Any] = {"type": f"urn:tocsin:problem:{slug}", "title": title, "status": status, "detail": detail}
    body["faults"] = faults_json(faults)
    return Json({**body, **more}, status, headers, media_type="application/problem+json")


def of_error(error: Exception) -> Json:
    """Return the problem that an error of any kind is."""
    match error:
        case Refusal():
            return problem(error.status, error.detail, error.faults, error.headers)
        case InvalidInput():
            return invalid(error.faults)
        case NotFound():
            detail = f"no {error.kind} is known as {shown(error.identity)}"
            return problem(404, detail, [not_known(error.kind, error.identity)])
        case Refused():
            log.error("a part of tocsin refuses the gateway", action="gateway.refused", error=str(error))
            return problem(503, "a part of tocsin refuses the gateway; the operator finds why in the gateway's log")
        case Unavailable():
            return problem(503, str(error), headers={"Retry-After": str(RETRY_AFTER_S)}, part=error.part)
        case Corrupt():
            log.error("a stored record cannot be read", action="gateway.corrupt", error=str(error))
            return problem(500, "a stored record cannot be read; the operator finds it in the gateway's log")
    log.error("a request failed", action="gateway.request_failed", exc_info=error)
    return problem(500, "an error that should not happen did; the operator finds it in the gateway's log")


def invalid(faults: Sequence[Fault]) -> Json:
    """Return the problem that lists what is wrong with a request."""
    count = f"{len(faults)} faults; the first: " if len(faults) > 1 else ""
    return problem(422, f"{count}{faults[0]}", faults)


async def on_http_exception(request: Request, error: Exception) -> Json:
    """Answer what the framework refused: unknown paths and methods."""
    assert isinstance(error, HTTPException)
    path = shown(request.url.path)
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods_at(request)))
        method = shown(request.method)
        fault = Fault("method", method, "is not served here", f"use one of {allowed}")
        detail = f"{method} is not served at {path}; it serves {allowed}"
        return problem(405, detail, [fault], headers={"Allow": allowed})
    if error.status_code == 404:
        fault = Fault("path", path, "is not served", "see /openapi.json for what there is")
        return problem(404, f"nothing is served at {path}; /openapi.json lists what there is", [fault])
    return problem(error.status_code, str(error.detail), headers=error.headers)


async def on_error(_request: Request, error: Exception) -> Json:
    """Answer an error of tocsin's own tree."""
    assert isinstance(error, TocsinError | Refusal)
    return of_error(error)


def _methods_at(request: Request) -> set[str]:
    """Return all methods of a path; the framework names only those of the first route that it meets."""
    methods: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.name != LATER and route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return methods | {"HEAD"} if "GET" in methods else methods
