"""The server that the demonstration's jobs call. It answers 200, at once or after a while, and remembers each call."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final

from aiohttp import web

from tocsin.dev.demo.occurrences import Call, Key
from tocsin.domain.errors import Undecodable
from tocsin.domain.ids import parse_execution_id

LAST_CALLS: Final = 6


class DemoTarget:
    """Counts by ``Idempotency-Key``, the way a careful receiver tells a repeat from a new call.

    Attributes:
        calls: by occurrence, in order.
        strangers: calls without a key of ours.
        last_calls: (occurrence, call), the newest last.
        quick_url, slow_url: where it answers at once, and after ``slow_s``.
    """

    def __init__(self, slow_s: float = 0.0) -> None:
        self.calls: dict[Key, list[Call]] = {}
        self.strangers = 0
        self.last_calls: deque[tuple[Key, Call]] = deque(maxlen=LAST_CALLS)
        self.quick_url = self.slow_url = ""
        self._slow_s = slow_s
        self._runner: web.AppRunner | None = None

    async def start(self, host: str) -> None:
        """Listen on any free port."""
        app = web.Application()
        app.router.add_post("/fired", self._answer)
        app.router.add_post("/slow", self._answer_slowly)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, 0, backlog=1_024).start()
        url = f"http://{host}:{self._runner.addresses[0][1]}"
        self.quick_url, self.slow_url = f"{url}/fired", f"{url}/slow"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        return await self._note(request, 0.0)

    async def _answer_slowly(self, request: web.Request) -> web.Response:
        return await self._note(request, self._slow_s)

    async def _note(self, request: web.Request, wait_s: float) -> web.Response:
        call = Call(time.time_ns() // 1_000, request.headers.get("Tocsin-Redelivered") == "true")
        try:
            name = parse_execution_id(request.headers.get("Idempotency-Key", "").strip('"'))
        except Undecodable:
            self.strangers += 1
            return web.Response(status=400)
        key = name.job_id, name.scheduled_for
        self.calls.setdefault(key, []).append(call)
        self.last_calls.append((key, call))
        if wait_s:
            await asyncio.sleep(wait_s)
        # The handler is not told when its caller dies, but has no connection then.
        call.broken = request.transport is None or request.transport.is_closing()
        call.ended_at = time.time_ns() // 1_000
        return web.Response(text="thank you")
