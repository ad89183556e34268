"""A receiver that shows what it is sent, so that trying tocsin out needs no server of one's own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from tocsin.dev.errors import DevError

BODY_SHOWN_CHARS: Final = 200
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
DELAY_S_MAX: Final = 300.0
START_WAIT_S: Final = 10.0
LINES_PER_S_MAX: Final = 25
"""Calls shown in one second. A burst is counted, for a terminal is slower than the burst."""
SETTLE_S: Final = 1.2
"""After so long the count is told even if no further call comes."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one request brought."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    status: int

    def described(self) -> str:
        """Return it as people read it: what was asked, how it was answered, tocsin's headers, the body's start."""
        shown = [f"{self.method} {self.path} → {self.status}"]
        shown += [f"{name}: {value}" for name, value in self.headers if is_ours(name)]
        if self.body:
            text = self.body.decode("utf-8", errors="replace")
            shown.append(text if len(text) <= BODY_SHOWN_CHARS else f"{text[:BODY_SHOWN_CHARS]}…")
        return "  ".join(shown)


def is_ours(header: str) -> bool:
    """Tell whether tocsin sets this header on its calls."""
    name = header.lower()
    return name == "idempotency-key" or name.startswith("tocsin-")


class LineBudget:
    """Lets so many lines of each second through and counts the others. Time is an argument, in seconds."""

    def __init__(self, per_s_max: int = LINES_PER_S_MAX) -> None:
        self._per_s_max = per_s_max
        self._second = 0
        self._count = 0
        self._held_back = 0

    def spend(self, now_s: float) -> bool:
        """Take note of a line; tell whether it may be shown."""
        if int(now_s) != self._second:
            self._second, self._count = int(now_s), 0
        self._count += 1
        if self._count <= self._per_s_max:
            return True
        self._held_back += 1
        return False

    def take_held_back(self, now_s: float) -> int:
        """Return, once, how many lines of seconds that have passed were not shown."""
        if int(now_s) == self._second:
            return 0
        held_back, self._held_back = self._held_back, 0
        return held_back


class EchoReceiver:
    """An HTTP server on a thread of its own.

    ``/status/503`` answers 503, ``/delay/2`` answers after two seconds, every other path 200.
    """

    def __init__(self, host: str, port: int, show: Callable[[str], None]) -> None:
        self.url = f"http://{host}:{port}"
        self._host, self._port = host, port
        self._show = show
        self._budget = LineBudget()
        self._settling: asyncio.TimerHandle | None = None
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="echo", daemon=True)

    def start(self) -> None:
        """Listen.

        Raises:
            DevError: the port cannot be had.
        """
        self._thread.start()
        if not self._started.wait(START_WAIT_S) or self._failure is not None:
            problem = f"the echo receiver cannot listen on {self.url}: {self._failure or 'no answer'}"
            raise DevError(problem, remedy="start again; another port is chosen")

    def stop(self) -> None:
        """Stop listening; calls under way are cut off."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_WAIT_S)

    def _run(self) -> None:
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_route("*", "/{rest:.*}", self._answer)
        # Cut off rather than waited for at a stop.
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        try:
            self._loop.run_until_complete(self._listen(runner))
        except OSError as error:
            self._failure = error
            self._started.set()
            return
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _listen(self, runner: web.AppRunner) -> None:
        await runner.setup()
        await web.TCPSite(runner, self._host, self._port).start()

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            body = b"(a body that is too large to be shown)"
        status, delay_s = asked_answer(request.path)
        headers = tuple((name, value) for name, value in request.headers.items())
        self._say(Call(request.method, request.path_qs, headers, body, status))
        if delay_s:
            await asyncio.sleep(delay_s)
        if status in (204, 304):
            return web.Response(status=status)
        return web.json_response({"method": request.method, "path": request.path, "status": status}, status=status)

    def _say(self, call: Call) -> None:
        self._tell_held_back()
        if self._budget.spend(time.monotonic()):
            self._show(call.described())
        elif self._settling is None:
            self._settling = self._loop.call_later(SETTLE_S, self._settle)

    def _settle(self) -> None:
        self._settling = None
        self._tell_held_back()

    def _tell_held_back(self) -> None:
        count = self._budget.take_held_back(time.monotonic())
        if count:
            self._show(f"… and {count} more calls")


def asked_answer(path: str) -> tuple[int, float]:
    """Return the status and the delay in seconds that a path asks for; 200 and 0 where it asks for none."""
    _, _, rest = path.partition("/")
    kind, _, value = rest.partition("/")
    try:
        if kind == "status" and 200 <= int(value) <= 599:
            return int(value), 0.0
        if kind == "delay" and 0 <= float(value) <= DELAY_S_MAX:
            return 200, float(value)
    except ValueError:
        pass
    return 200, 0.0
