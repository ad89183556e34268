"""Plain functions in child processes: each child runs one call after another, and is killed to stop one.

A call is given only to a child that has imported the app and says that it is ready, so what comes before is not its
fault. A death during a call is told as such: the attempt is given back, and if that happens again it will be run alone.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog

from tocsin.adapters.targets.child_process import start_child
from tocsin.adapters.targets.handler_pipe import Pipe
from tocsin.domain.executions import AttemptError, AttemptHead, ReportKind, Started
from tocsin.domain.targets import HandlerTarget
from tocsin.handlers.calling import CANCELLED, HandlerEnd, timed_out
from tocsin.ports.clock import Clock
from tocsin.ports.run_logs import LogPlace, RunLog, RunLogs
from tocsin.ports.targets import Attempt, AttemptEnd, RunnerSpec

log = structlog.get_logger()

CHILD: Final = "tocsin.adapters.targets.handler_child"
LOOK_EVERY_S: Final = 1.0
START_WAIT_S: Final = 120.0
"""How long a child may take to import the app."""
RESTART_PAUSE_S: Final = (0.5, 30.0)
"""After a child that did not come to be ready: the first and the longest pause before another is tried; doubling."""
NO_PROCESS: Final = "no_process"
"""Why an attempt is returned that no child became free for in time."""
CHILD_DIED: Final = "child_died"
"""Why an attempt is returned whose child ended without a word."""
JOIN_WAIT_S: Final = 5.0
TENANTS_MAX: Final = 100
"""Tenants whose last turn is remembered."""


@dataclass(slots=True, eq=False)
class _Call:
    """An attempt that waits for a child, or is in one."""

    attempt: Attempt
    queued_s: float
    cancelled: bool = False

    @property
    def tenant(self) -> str:
        return self.attempt.execution.head.tenant_id


class _Child:
    """One process, with the pipe on which it tells ends."""

    def __init__(self, spec: RunnerSpec, captured: bool) -> None:
        self._buried = False
        self.calls = 0
        """Numbers its calls: what is told of an earlier one is no end of this."""
        self.keep: Callable[[bytes], object] = _to_stderr
        """Takes what is printed, where that is captured."""
        hear, tell = os.pipe()
        self.pipe = Pipe(hear, self._printed)
        try:
            self.process = start_child(CHILD, tell, subprocess.PIPE if captured else None)
        except BaseException:
            self.pipe.close()
            raise
        finally:
            os.close(tell)
        if self.process.stdout is not None:
            self.pipe.listen_to(self.process.stdout.fileno())
        with suppress(BrokenPipeError):
            self.send((sys.path, *spec))

    def _printed(self, data: bytes) -> None:
        self.keep(data)

    def send(self, order: Any) -> None:
        assert self.process.stdin is not None
        pickle.dump(order, self.process.stdin)
        self.process.stdin.flush()

    def is_dead(self) -> bool:
        """Tell whether it has ended, without taking its number away: what it started may still have to be killed."""
        if self._buried:
            return True
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def hear(self, until_s: float) -> bytes | None:
        """Return what it says by a monotonic time; None: nothing, or it is dead."""
        while not self.is_dead() and self.pipe.is_open:
            # In portions: what it has forked may hold the pipe open after its death.
            line = self.pipe.read_line(min(until_s, time.monotonic() + LOOK_EVERY_S))
            if line is not None or time.monotonic() >= until_s:
                return line
        return self.pipe.read_line(time.monotonic() + 0.001)

    def kill(self) -> None:
        """Kill it with all that it started; its number stays its own until ``bury``."""
        if not self._buried:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def bury(self) -> str:
        """Kill what is left, and return how it ended, in words."""
        self.kill()
        self._buried = True
        code = self.process.wait()
        self.pipe.close()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        return f"exit status {code}" if code >= 0 else f"signal {-code}"


class HandlerChildren:
    """Runs attempts of plain handlers.

    Args:
        spec: how a child gets the app; see ``RunnerSpec``, but what its factory returns is a ``HandlerApp``.
        clock: stamps start and end.
        children: how many there are.
        wait_s: how long an attempt waits for one of them before it is given back as not started.
        logs: keeps what handlers print and log; None: it goes where the worker's own output goes.
    """

    def __init__(
        self, spec: RunnerSpec, clock: Clock, children: int, wait_s: float, logs: RunLogs | None = None
    ) -> None:
        self._logs = logs
        self._spec = spec
        self._clock = clock
        self._wait_s = wait_s
        self._changed = threading.Condition()
        self._waiting: deque[_Call] = deque()
        self._turns: dict[str, int] = {}
        """By tenant: a number that grows from turn to turn."""
        self._under_way: dict[_Call, _Child] = {}
        self._all: set[_Child] = set()
        self._closing = False
        self._ended: deque[AttemptEnd] = deque()
        make = threading.Thread
        self._threads = [make(target=self._serve, name="handler-child", daemon=True) for _ in range(children)]
        for thread in self._threads:
            thread.start()

    def start(self, attempts: Sequence[Attempt]) -> None:
        now_s = time.monotonic()
        with self._changed:
            self._waiting.extend(_Call(attempt, now_s) for attempt in attempts)
            self._changed.notify(len(attempts))

    def ended(self) -> list[AttemptEnd]:
        """Return what has ended, and give back what has waited for too long."""
        if self._waiting:
            before_s = time.monotonic() - self._wait_s
            with self._changed:
                while self._waiting and self._waiting[0].queued_s <= before_s:
                    attempt = self._waiting.popleft().attempt
                    self._return(attempt, NO_PROCESS, "no process was free for it", Started.NO)
        ended = self._ended
        return [ended.popleft() for _ in range(len(ended))]

    def cancel(self, refs: Sequence[Any]) -> None:
        wanted = {id(ref) for ref in refs}
        with self._changed:
            for call in [call for call in self._waiting if id(call.attempt.ref) in wanted]:
                self._waiting.remove(call)
                self._end(call, self._clock.now(), HandlerEnd(ReportKind.CANCELLED, CANCELLED))
            for call, child in self._under_way.items():
                if id(call.attempt.ref) in wanted:
                    call.cancelled = True
                    child.kill()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            for call in self._under_way:
                call.cancelled = True
            for child in self._all:
                child.kill()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(JOIN_WAIT_S)

    # In a child's thread, which must outlive the process: when it ends, the kernel kills what it started

    def _serve(self) -> None:
        pause_s = RESTART_PAUSE_S[0]
        while not self._closing:
            child = self._made()
            if child is None:
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, pause_s)
                pause_s = min(2 * pause_s, RESTART_PAUSE_S[1])
                continue
            pause_s = RESTART_PAUSE_S[0]
            try:
                while (call := self._next(child)) is not None and self._run(child, call):
                    pass
            finally:
                self._gone(child)

    def _made(self) -> _Child | None:
        """Return a child that is ready; None where it did not come to that."""
        try:
            child = _Child(self._spec, self._logs is not None)
        except OSError as error:
            log.error("a process for handlers cannot be started", action="worker.handler_child", error=str(error))
            return None
        with self._changed:
            self._all.add(child)
            if self._closing:
                child.kill()
        if child.hear(time.monotonic() + START_WAIT_S) is not None:
            return child
        status = self._gone(child)
        if not self._closing:
            log.error("a process for handlers was not ready", action="worker.handler_child", status=status)
        return None

    def _gone(self, child: _Child) -> str:
        status = child.bury()
        with self._changed:
            self._all.discard(child)
        return status

    def _next(self, child: _Child) -> _Call | None:
        """Wait for a call and take it; None: the child is dead, or all is to end."""
        with self._changed:
            while not self._closing:
                if child.is_dead():
                    return None
                if self._waiting:
                    call = self._first()
                    self._waiting.remove(call)
                    self._under_way[call] = child
                    return call
                self._changed.wait(1.0)
        return None

    def _first(self) -> _Call:
        """Return whose turn it is: of the tenant with the fewest calls in children, whose last turn was longest ago."""
        busy = Counter(call.tenant for call in self._under_way)
        first = min(self._waiting, key=lambda call: (busy[call.tenant], self._turns.get(call.tenant, 0)))
        # Counted on from the last, so a tenant that is forgotten here only comes earlier.
        self._turns[first.tenant] = max(self._turns.values(), default=0) + 1
        if len(self._turns) > TENANTS_MAX:
            del self._turns[min(self._turns, key=self._turns.__getitem__)]
        return first

    def _run(self, child: _Child, call: _Call) -> bool:
        """Run a call; return whether its child can take another."""
        execution, started_at = call.attempt.execution, self._clock.now()
        target = execution.target
        assert isinstance(target, HandlerTarget)
        end: HandlerEnd | None = None
        kept = self._open_log(execution.head)
        child.keep = kept.write if kept is not None else _to_stderr
        with suppress(BrokenPipeError):
            child.calls += 1
            more = (target.name, target.payload, execution.head, call.attempt.redelivered, kept is not None)
            child.send((child.calls, *more))
            until_s = time.monotonic() + target.timeout_s
            while end is None and (line := child.hear(until_s)) is not None:
                end = _read_end(line, child.calls)
                if time.monotonic() > until_s:
                    break
        child.pipe.drain()
        child.keep = _to_stderr
        if kept is not None:
            kept.end()
        with self._changed:
            # Before it is waited for: whoever cancels must not kill a process that has got its number.
            del self._under_way[call]
        if end is not None:
            self._end(call, started_at, end)
            return not call.cancelled
        in_time = child.is_dead() or not child.pipe.is_open
        status = self._gone(child)  # first: what is told to have ended does nothing more
        if call.cancelled:
            self._end(call, started_at, HandlerEnd(ReportKind.CANCELLED, CANCELLED))
        elif not in_time:
            self._end(call, started_at, timed_out(target.timeout_s))
        else:
            self._return(call.attempt, CHILD_DIED, f"the process that ran it died ({status})", Started.MAYBE)
        return False

    def _open_log(self, head: AttemptHead) -> RunLog | None:
        if self._logs is None:
            return None
        return self._logs.open(LogPlace(head.execution_id, head.attempt, head.token))

    def _end(self, call: _Call, started_at: int, end: HandlerEnd) -> None:
        ref = call.attempt.ref
        self._ended.append(AttemptEnd(ref, end.kind, started_at, self._clock.now(), end.error, end.result))

    def _return(self, attempt: Attempt, reason: str, message: str, started: Started) -> None:
        now = self._clock.now()
        error = AttemptError(reason, message)
        self._ended.append(AttemptEnd(attempt.ref, ReportKind.RETURNED, now, now, error, started=started))


def _to_stderr(data: bytes) -> None:
    """Pass on what is printed outside calls, such as while the app is imported."""
    with suppress(OSError, ValueError):
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()


def _read_end(line: bytes, number: int) -> HandlerEnd | None:
    """Return the end that a child told of a call; None where it is none, or a handler wrote it into the pipe."""
    try:
        told, kind, error, result = json.loads(line)
        if told != number:
            return None
        return HandlerEnd(ReportKind(kind), error and AttemptError(*error), result)
    except (ValueError, TypeError):
        return None
