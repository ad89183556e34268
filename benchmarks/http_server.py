"""A server that answers every request with 200 and does nothing else, as cheaply as asyncio can; prints its port.

But for ``/hang``: that is never answered.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"


class Answering(asyncio.Protocol):
    """One connection; requests come with a Content-Length, and may come in pieces."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            size = 0
            for line in self._held[:end].split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    size = int(value)
            if len(self._held) < end + 4 + size:
                return
            hangs = self._held.startswith((b"POST /hang ", b"GET /hang "))
            self._held = self._held[end + 4 + size :]
            if not hangs:
                self._transport.write(ANSWER)


@contextmanager
def http_server() -> Iterator[str]:
    """Run a server that answers everything, in a process of its own; yield its address."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.http_server"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


async def main() -> None:
    """Serve until killed."""
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
