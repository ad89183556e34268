"""Writes what attempts print to the store, from a thread of its own, so that a slow store never holds an attempt up.

What waits is bounded for the whole process. While the store is away, output is kept up to that bound, and counted as
lost beyond it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from tocsin.domain.errors import Unavailable
from tocsin.engine.run_output import RunOutput
from tocsin.ports.clock import Clock
from tocsin.ports.meters import OutputMeter
from tocsin.ports.run_logs import LogChunk, LogPlace, RunLogStore

log = structlog.get_logger()

PAUSE_S: Final = (0.2, 5.0)
"""The first and the longest pause after the store did not answer; doubling in between."""
LOG_EVERY_S: Final = 10.0
JOIN_WAIT_S: Final = 1.0
LOG_COST: Final = 500
"""What an attempt's log counts for before it has printed anything, bytes: there may be many short ones."""


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """Bounds of output.

    Attributes:
        attempt_bytes_max: what is kept of one attempt.
        waiting_bytes_max: what waits for the store, of all attempts of the process.
        chunk_bytes_max: what goes into one row.
        linger_s: how long output waits for more before it is written.
    """

    attempt_bytes_max: int = 1_000_000
    waiting_bytes_max: int = 16_000_000
    chunk_bytes_max: int = 16_384
    linger_s: float = 0.5


class _Log:
    """The log of one dispatch. Fulfils ``ports.run_logs.RunLog``."""

    def __init__(self, writer: OutputWriter, place: LogPlace, output: RunOutput) -> None:
        self._writer = writer
        self.place = place
        self.output = output
        self.since_s = 0.0
        """Of the monotonic clock: since when the oldest output waits, if any does."""
        self.lost_told = 0
        """How many lost bytes the meter knows of."""

    def write(self, data: bytes) -> None:
        self._writer.add(self, data)

    def end(self) -> str:
        return self._writer.end(self)


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is written at once."""

    logs: Sequence[tuple[LogPlace, Sequence[LogChunk]]]
    bytes: int
    cost: int
    """What it takes of the room while it is not written."""


class OutputWriter:
    """Fulfils ``ports.run_logs.RunLogs``.

    Args:
        store: written to by the thread of this writer only.
        clock: stamps chunks.
        meter: counts bytes.
        limits: bounds.
    """

    def __init__(
        self, store: RunLogStore, clock: Clock, meter: OutputMeter, limits: OutputLimits | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._meter = meter
        self._limits = limits or OutputLimits()
        self._logs: dict[_Log, None] = {}
        """What is not ended, or not taken yet, in the order of opening."""
        self._waiting = 0
        self._changed = threading.Condition()
        self._give_up_at_s = math.inf
        self._logged_at_s = -math.inf
        self._thread = threading.Thread(target=self._turn, name="output", daemon=True)
        self._thread.start()

    # Called by those who run attempts

    def open(self, place: LogPlace) -> _Log:
        limits = self._limits
        opened = _Log(self, place, RunOutput(place.token, limits.attempt_bytes_max, limits.chunk_bytes_max))
        with self._changed:
            self._logs[opened] = None
            self._waiting += LOG_COST
        return opened

    def add(self, one: _Log, data: bytes) -> None:
        """Add to a log; see ``RunLog.write``."""
        with self._changed:
            first = not one.output.waiting
            room = self._limits.waiting_bytes_max - self._waiting
            self._waiting += one.output.add(data, self._clock.now(), room)
            if first:
                one.since_s = time.monotonic()
            if first or one.output.waiting >= self._limits.chunk_bytes_max:
                self._changed.notify()

    def end(self, one: _Log) -> str:
        """End a log; see ``RunLog.end``."""
        with self._changed:
            tail = one.output.end()
            if self._waiting > self._limits.waiting_bytes_max and one in self._logs:
                # So many short ones wait that even their ends find no room.
                self._waiting -= one.output.waiting + LOG_COST
                self._meter.output(0, one.output.waiting + one.output.lost - one.lost_told)
                del self._logs[one]
            self._changed.notify()
        return tail

    def close(self, wait_s: float) -> None:
        with self._changed:
            self._give_up_at_s = min(self._give_up_at_s, time.monotonic() + wait_s)
            self._changed.notify()
        self._thread.join(wait_s + JOIN_WAIT_S)
        if not self._thread.is_alive():
            self._store.close()
        # Else it waits for a store that is away, and holds its connection; a stop does not wait for both.

    # In the thread

    def _turn(self) -> None:
        while (batch := self._next()) is not None:
            self._write(batch)
            with self._changed:
                self._waiting -= batch.cost

    def _next(self) -> _Batch | None:
        """Wait for output that is to be written, and take it; None: closed, and nothing is left."""
        with self._changed:
            while True:
                closing = self._give_up_at_s < math.inf
                now_s = time.monotonic()
                ready = [one for one in self._logs if self._is_ready(one, now_s, closing)]
                if ready:
                    return self._take(ready)
                if closing:
                    return None
                self._changed.wait(self._wait_s(now_s))

    def _is_ready(self, one: _Log, now_s: float, closing: bool) -> bool:
        waiting = one.output.waiting
        if one.output.has_ended or waiting >= self._limits.chunk_bytes_max:
            return True
        return waiting > 0 and (closing or now_s - one.since_s >= self._limits.linger_s)

    def _wait_s(self, now_s: float) -> float | None:
        since_s = min((one.since_s for one in self._logs if one.output.waiting), default=None)
        return None if since_s is None else max(0.001, since_s + self._limits.linger_s - now_s)

    def _take(self, ready: Sequence[_Log]) -> _Batch:
        logs, size, cost = [], 0, 0
        for one in ready:
            size += one.output.waiting
            logs.append((one.place, one.output.take(self._clock.now())))
            if one.output.has_ended:
                cost += LOG_COST
                del self._logs[one]
            if one.output.lost > one.lost_told:
                self._meter.output(0, one.output.lost - one.lost_told)
                one.lost_told = one.output.lost
        return _Batch(logs, size, size + cost)

    def _write(self, batch: _Batch) -> None:
        """Write a batch, again and again while the store is away: meanwhile output waits, or is lost by its bound."""
        pause_s = PAUSE_S[0]
        while True:
            try:
                self._store.write(batch.logs)
                self._meter.output(batch.bytes, 0)
                return
            except Unavailable as error:
                self._tell(error)
                if not self._pause(pause_s):
                    break
                pause_s = min(PAUSE_S[1], 2 * pause_s)
            except Exception as error:  # noqa: BLE001 - whatever it is, the output of others must not stop for it
                self._tell(error)
                break
        self._meter.output(0, batch.bytes)

    def _pause(self, pause_s: float) -> bool:
        """Wait before another try; False where there is to be none."""
        with self._changed:
            until_s = time.monotonic() + pause_s
            while (now_s := time.monotonic()) < min(until_s, self._give_up_at_s):
                self._changed.wait(min(until_s, self._give_up_at_s) - now_s)
            return time.monotonic() < self._give_up_at_s

    def _tell(self, error: Exception) -> None:
        now_s = time.monotonic()
        if now_s - self._logged_at_s >= LOG_EVERY_S:
            self._logged_at_s = now_s
            log.warning(
                "output of attempts waits", action="output.not_written", error=str(error), waiting=self._waiting
            )
