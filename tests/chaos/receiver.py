"""The target: answers every call, and keeps of it what the checker asks for."""

from __future__ import annotations

import threading
import time
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.chaos.history import Call


class Receiver:
    """An HTTP server on loopback; ``delay_s`` leaves attempts under way for faults to meet.

    A call to ``/work/2.5`` is answered after 2.5 s instead.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.delay_s = 0.2
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                at = time.time_ns() // 1000
                self.rfile.read(int(self.headers.get("content-length") or 0))
                place = receiver.begin(_call(self.headers, at)._replace(port=self.client_address[1]))
                worked = self.path.startswith("/work/")
                time.sleep(float(self.path.removeprefix("/work/")) if worked else receiver.delay_s)
                receiver.end(place)
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: Any) -> None:
                """Silence: the calls are remembered."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, *_: Any) -> None:
                """Silence: callers are killed in the middle of calls, on purpose."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def begin(self, call: Call) -> int:
        """Note a call, and return its place."""
        with self._lock:
            self.calls.append(call)
            return len(self.calls) - 1

    def end(self, place: int) -> None:
        """Note that a call is being answered."""
        self.calls[place] = self.calls[place]._replace(ended_at=time.time_ns() // 1000)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _call(headers: Any, at: int) -> Call:
    return Call(
        headers["Idempotency-Key"].strip('"'),
        int(headers["Tocsin-Attempt"]),
        int(headers["Tocsin-Token"]),
        headers.get("Tocsin-Redelivered") == "true",
        _micros(headers["Tocsin-Scheduled-For"]),
        at,
    )


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.replace(microsecond=0).timestamp()) * 1_000_000 + moment.microsecond
