"""The server that the demonstration's jobs call. It answers 200 and remembers when which job called."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from aiohttp import web

from tocsin.domain.errors import Undecodable
from tocsin.domain.ids import parse_execution_id
from tocsin.domain.instants import Micros

LAST_CALLS: Final = 6


class DemoTarget:
    """Counts by ``Idempotency-Key``, the way a careful receiver tells a repeat from a new call.

    Attributes:
        arrivals: by job, when it called, µs of this machine's clock.
        strangers: calls without a key of ours.
        last_calls: (job, arrival), the newest last.
    """

    def __init__(self) -> None:
        self.arrivals: dict[str, list[Micros]] = {}
        self.strangers = 0
        self.last_calls: deque[tuple[str, Micros]] = deque(maxlen=LAST_CALLS)
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self, host: str) -> None:
        """Listen on any free port."""
        app = web.Application()
        app.router.add_post("/fired", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, 0, backlog=1_024).start()
        self.url = f"http://{host}:{self._runner.addresses[0][1]}/fired"

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        arrived_at = time.time_ns() // 1_000
        try:
            job_id = parse_execution_id(request.headers.get("Idempotency-Key", "").strip('"')).job_id
        except Undecodable:
            self.strangers += 1
            return web.Response(status=400)
        self.arrivals.setdefault(job_id, []).append(arrived_at)
        self.last_calls.append((job_id, arrived_at))
        return web.Response(text="thank you")
