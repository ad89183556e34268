"""A local HTTP server for tests: it notes every call, and behaves as the path asks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Call:
    """One request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    peer: Any


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpReceiver:
    """Serves on a free loopback port from a thread of its own.

    Attributes:
        calls: what arrived, in order.
        gate: ``/gated`` answers only while this is set.
    """

    def __init__(self, handlers: dict[str, Handler] | None = None) -> None:
        self.calls: list[Call] = []
        self.gate = threading.Event()
        self._handlers = handlers or {}
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self) -> int:
        app = web.Application(client_max_size=10_000_000)
        app.router.add_route("*", "/{tail:.*}", self._on_call)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def _on_call(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        peer = request.transport.get_extra_info("peername") if request.transport else None
        headers = dict(request.headers.items())
        self.calls.append(Call(request.method, request.raw_path, headers, body, peer))
        if request.path == "/gated":
            while not self.gate.is_set():
                await asyncio.sleep(0.01)
        handler = self._handlers.get(request.path)
        return await handler(request) if handler else web.Response(text="done")

    def close(self) -> None:
        assert self._runner is not None
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
