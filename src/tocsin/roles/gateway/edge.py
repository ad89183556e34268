"""The outermost layer: measures every request, answers HEAD as GET without a body, and lets no exception out.

Who asks for a host that is not ours is turned away here, before anything else is done.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.ports.meters import GatewayMeter
from tocsin.roles.gateway.hosts import refusal_of
from tocsin.roles.gateway.problems import of_error

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Edge:
    """ASGI middleware around the whole application.

    Args:
        app: what it surrounds.
        meter: what it counts with. Labels come from fixed sets: a caller cannot make new ones.
        hosts: names under which it serves, see ``hosts.refusal_of``.
    """

    def __init__(self, app: ASGIApp, meter: GatewayMeter, hosts: Collection[str] = ()) -> None:
        self._app = app
        self._meter = meter
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method: str = scope["method"]
        inner = {**scope, "method": "GET"} if method == "HEAD" else scope
        status = 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        began = time.perf_counter()
        try:
            refusal = refusal_of(_host(scope), self._hosts)
            if refusal is not None:
                raise refusal
            await self._app(inner, receive, send_on)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer without a stack
            answer = of_error(error)
            if not status:
                await answer(scope, receive, send_on)
        finally:
            known = method if method in METHODS else "other"
            self._meter.request(known, _route(inner), status, time.perf_counter() - began)


def _host(scope: Scope) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), None)


def _route(scope: Scope) -> str:
    route: Any = scope.get("route")
    return str(getattr(route, "path", "unmatched"))
