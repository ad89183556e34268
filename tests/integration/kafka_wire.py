"""A broker as clients find it through us: what they ask can be seen, held up, or lost with the connection.

The addresses in the broker's answers are replaced by ours, so that nobody goes past us.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import NamedTuple

PRODUCE, JOIN_GROUP, LEAVE_GROUP = 0, 11, 13
INIT_PRODUCER_ID, END_TXN = 22, 26
LOOPBACK = b"127.0.0.1"

REQUEST, ANSWER, CUT_BEFORE, CUT_AFTER = "hold the request", "hold the answer", "cut before", "cut after"


class Asked(NamedTuple):
    """One request that was seen: when (monotonic seconds), of what kind, and its bytes from the API key on."""

    at: float
    api: int
    frame: bytes


class Wire:
    """Forwards to one broker, request by request.

    Attributes:
        asked: every request that came, in order.
        bootstrap: where clients find the broker through this wire.
    """

    def __init__(self, bootstrap: str) -> None:
        self._broker = int(bootstrap.split(",")[0].rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{port}"
        self._addresses = (LOOPBACK + struct.pack(">i", self._broker), LOOPBACK + struct.pack(">i", port))
        self.asked: list[Asked] = []
        self._rules: dict[int | None, tuple[str, bytes]] = {}
        """What is done with requests of a kind that name something; None: with all."""
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def rule(self, api: int | None, what: str, naming: str = "") -> None:
        """From now on do this with requests of a kind that name this; ``api`` None: with every request."""
        with self._changed:
            self._rules[api] = (what, naming.encode())

    def mend(self) -> None:
        """Let all through again; what is held goes on its way, also if nobody waits for it any more."""
        with self._changed:
            self._rules.clear()
            self._changed.notify_all()

    def count(self, api: int) -> int:
        """Return how many requests of a kind came."""
        return sum(asked.api == api for asked in self.asked)

    def close(self) -> None:
        self.mend()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in list(self._open):
            self._drop(one)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._broker))
            except OSError:
                return
            for one in (near, far):
                # Otherwise a small answer waits for the acknowledgement of the one before.
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open |= {near, far}
            frames: dict[int, bytes] = {}
            for pump in (self._requests, self._answers):
                threading.Thread(target=pump, args=(near, far, frames), daemon=True).start()

    def _requests(self, near: socket.socket, far: socket.socket, frames: dict[int, bytes]) -> None:
        with contextlib.suppress(OSError):
            while frame := _frame(near):
                api, _, correlation = struct.unpack_from(">hhi", frame)
                self.asked.append(Asked(time.monotonic(), api, frame))
                frames[correlation] = frame
                if self._rule_of(frame) == CUT_BEFORE:
                    break
                self._wait(frame, REQUEST)
                far.sendall(struct.pack(">i", len(frame)) + frame)
                if self._rule_of(frame) == CUT_AFTER:
                    # The broker may still be busy with it; its answer finds nobody.
                    with contextlib.suppress(OSError):
                        near.shutdown(socket.SHUT_RDWR)
                    _frame(far)
                    break
        self._drop(near)
        self._drop(far)

    def _answers(self, near: socket.socket, far: socket.socket, frames: dict[int, bytes]) -> None:
        with contextlib.suppress(OSError):
            while frame := _frame(far):
                self._wait(frames.pop(*struct.unpack_from(">i", frame)), ANSWER)
                near.sendall(struct.pack(">i", len(frame)) + frame.replace(*self._addresses))
        self._drop(near)

    def _wait(self, request: bytes, what: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._rule_of(request) != what)

    def _rule_of(self, request: bytes) -> str | None:
        for api in (int.from_bytes(request[:2], "big"), None):
            what, naming = self._rules.get(api, (None, b""))
            if what is not None and naming in request:
                return what
        return None

    def _drop(self, one: socket.socket) -> None:
        self._open.discard(one)
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def _frame(source: socket.socket) -> bytes:
    """Read one message; empty at the end of the stream."""
    head = _read(source, 4)
    return _read(source, struct.unpack(">i", head)[0]) if head else b""


def _read(source: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = source.recv(size - len(found))
        if not more:
            return b""
        found += more
    return bytes(found)
