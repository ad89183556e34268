"""Runs suspects alone: an attempt that was lost twice gets a process of its own, so that only it can die of it.

That child is the kernel's first choice when memory runs out, and its death, seen by its living parent, is the one proof
that the attempt itself is to blame: it is returned as ``reaped``, which its owner counts. A cancel kills the child's
whole process group, and so does its time limit. Everything else goes to the runner that all attempts share.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog

from tocsin.adapters.targets.child_process import start_child
from tocsin.domain.executions import ALONE_LOSSES, REAPED, AttemptError, ReportKind, Started
from tocsin.domain.targets import TIMEOUT_S_DEFAULT
from tocsin.ports.clock import Clock
from tocsin.ports.targets import Attempt, AttemptEnd, RunnerSpec, TargetRunner

log = structlog.get_logger()

CHILD: Final = "tocsin.adapters.targets.alone_child"
MADE: Final = b"made"
NO_ROOM: Final = "alone_no_room"
"""Why an attempt is returned while as many children as may run do."""
NO_CHILD: Final = "alone_no_child"
"""Why an attempt is returned whose child never came to the point of running it."""
KILLED_AFTER_S: Final = 8.0
"""How long past its target's limit a child is killed; it has that limit itself, and needs a moment to start."""
CLOSED_WITHIN_S: Final = 2.0
"""How long a child may still write logs and close connections once it has told its end."""
TOLD_BYTES_MAX: Final = 64 * 1024
JOIN_WAIT_S: Final = 5.0


@dataclass(slots=True, eq=False)
class _Child:
    """One attempt that runs alone. Its thread owns the process; others may only ask for its death."""

    attempt: Attempt
    process: subprocess.Popen[bytes] | None = None
    cancelled: bool = False
    over: bool = False
    """Its process is, or will be, waited for: its number may be another's soon."""


class AloneRunner:
    """Fulfils ``ports.targets.TargetRunner``.

    Args:
        shared: runs what is no suspect.
        spec: how a child makes its like.
        clock: stamps what has no end of its own.
        children_max: attempts that may run alone at once; what is more is returned as not started.
    """

    def __init__(self, shared: TargetRunner, spec: RunnerSpec, clock: Clock, children_max: int) -> None:
        self._shared = shared
        self._spec = spec
        self._clock = clock
        self._children_max = children_max
        self._lock = threading.Lock()
        self._children: dict[int, _Child] = {}
        """By the identity of the attempt's ref."""
        self._threads: set[threading.Thread] = set()
        self._ended: deque[AttemptEnd] = deque()

    def start(self, attempts: Sequence[Attempt]) -> None:
        suspects = [attempt for attempt in attempts if attempt.execution.head.losses >= ALONE_LOSSES]
        if not suspects:
            self._shared.start(attempts)
            return
        others = [attempt for attempt in attempts if attempt.execution.head.losses < ALONE_LOSSES]
        if others:
            self._shared.start(others)
        for attempt in suspects:
            self._start_alone(attempt)

    def _start_alone(self, attempt: Attempt) -> None:
        with self._lock:
            if len(self._children) >= self._children_max:
                self._ended.append(self._returned(attempt, NO_ROOM, "others run alone already", Started.NO))
                return
            child = _Child(attempt)
            self._children[id(attempt.ref)] = child
            thread = threading.Thread(target=self._run, args=(child,), name="alone", daemon=True)
            self._threads.add(thread)
        thread.start()

    def ended(self) -> list[AttemptEnd]:
        ended = self._ended
        return self._shared.ended() + [ended.popleft() for _ in range(len(ended))]

    def cancel(self, refs: Sequence[Any]) -> None:
        with self._lock:
            children = [self._children[id(ref)] for ref in refs if id(ref) in self._children]
            for child in children:
                child.cancelled = True
                self._kill(child)
        self._shared.cancel(refs)

    def close(self) -> None:
        with self._lock:
            for child in self._children.values():
                child.cancelled = True
                self._kill(child)
            threads = list(self._threads)
        for thread in threads:
            thread.join(JOIN_WAIT_S)
        self._shared.close()

    # In the child's thread, which must outlive the process: when it ends, the kernel kills what it started

    def _run(self, child: _Child) -> None:
        try:
            end = self._end_of(child)
        except OSError as error:
            end = self._returned(child.attempt, NO_CHILD, f"its process could not be started: {error}", Started.NO)
        with self._lock:
            del self._children[id(child.attempt.ref)]
            self._threads.discard(threading.current_thread())
            self._ended.append(end)

    def _end_of(self, child: _Child) -> AttemptEnd:
        attempt, started_at = child.attempt, self._clock.now()
        timeout_s = getattr(attempt.execution.target, "timeout_s", TIMEOUT_S_DEFAULT)
        hear, tell = os.pipe()
        try:
            try:
                self._spawn(child, tell)
            finally:
                os.close(tell)
            told, in_time = _listen(hear, time.monotonic() + timeout_s + KILLED_AFTER_S)
        finally:
            os.close(hear)
            status = self._wait(child)
        made, _, line = told.partition(b"\n")
        end = _read_end(attempt, line)
        if end is not None:
            return end
        if child.cancelled:
            error = AttemptError("cancelled", "cancelled by its worker")
            return AttemptEnd(attempt.ref, ReportKind.CANCELLED, started_at, self._clock.now(), error)
        if not in_time:
            error = AttemptError("timeout", f"no end within {timeout_s:g} s; its process was killed")
            return AttemptEnd(attempt.ref, ReportKind.TIMED_OUT, started_at, self._clock.now(), error)
        if made != MADE:
            log.error("a process for one attempt did not start", action="worker.alone_no_child", status=status)
            return self._returned(attempt, NO_CHILD, f"its process ended before it was ready ({status})", Started.NO)
        return self._returned(attempt, REAPED, f"the process that ran it alone died ({status})", Started.MAYBE)

    def _spawn(self, child: _Child, tell: int) -> None:
        with self._lock:
            if child.cancelled:
                return
            child.process = start_child(CHILD, tell)
        orders = child.process.stdin
        assert orders is not None
        # Where it is dead already, what it told says how far it came.
        with suppress(BrokenPipeError), orders:
            pickle.dump((sys.path, *self._spec), orders)
            pickle.dump(child.attempt._replace(ref=None), orders)

    def _wait(self, child: _Child) -> str:
        """Kill what is left of a child's process group, and return how it ended, in words."""
        process = child.process
        if process is None:
            return "never started"
        with self._lock:
            self._kill(child)
            child.over = True
        code = process.wait()
        if code >= 0:
            return f"exit status {code}"
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"

    def _kill(self, child: _Child) -> None:
        """Kill a child's process group. Its number stays its own until it has been waited for."""
        if child.process is not None and not child.over:
            with suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)

    def _returned(self, attempt: Attempt, reason: str, message: str, started: Started) -> AttemptEnd:
        now = self._clock.now()
        return AttemptEnd(attempt.ref, ReportKind.RETURNED, now, now, AttemptError(reason, message), started=started)


def _listen(hear: int, until_s: float) -> tuple[bytes, bool]:
    """Return what a child says until it falls silent, and whether that was in time."""
    told = bytearray()
    poller = select.poll()  # select() takes no number above 1,023
    poller.register(hear, select.POLLIN)
    while (left_s := until_s - time.monotonic()) > 0:
        if not poller.poll(left_s * 1000):
            break
        piece = os.read(hear, TOLD_BYTES_MAX)
        told += piece
        if not piece or len(told) > TOLD_BYTES_MAX:
            return bytes(told), True
        if told.count(b"\n") == 2:
            until_s = min(until_s, time.monotonic() + CLOSED_WITHIN_S)
    return bytes(told), False


def _read_end(attempt: Attempt, line: bytes) -> AttemptEnd | None:
    """Return the end that a child told, or None where it died before it had told all of it."""
    if not line.endswith(b"\n"):
        return None
    try:
        told = json.loads(line)
        error = told["error"] and AttemptError(*told["error"])
        times = int(told["started_at"]), int(told["finished_at"])
        return AttemptEnd(
            attempt.ref, ReportKind(told["kind"]), *times, error, told["result"], Started(told["started"])
        )
    except (ValueError, TypeError, KeyError):
        return None
