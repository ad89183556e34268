"""Keeps children running: starts them, starts again what dies, shows what they complain of, ends them.

It has no thread: whoever uses it calls ``tick`` several times a second, from the main thread (see ``ChildProcess``).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tocsin.bootstrap.restarts import POLICY, RestartPolicy, Restarts
from tocsin.dev.audience import Audience
from tocsin.dev.child import ChildProcess, ChildSpec, said_of_exit
from tocsin.dev.errors import DevError
from tocsin.dev.log_lines import LogTail, Repetition, ShownLine, shown_line
from tocsin.devcluster.files import excerpt

TICK_S: Final = 0.1
STOP_GRACE_S: Final = 16.0
KILL_WAIT_S: Final = 5.0
LINES_PER_TICK_MAX: Final = 20
"""Lines of one child shown at once; a storm of complaints is counted and stays in the log."""


@dataclass(slots=True)
class Supervised:
    """One child over all its starts."""

    spec: ChildSpec
    tail: LogTail
    restarts: Restarts
    process: ChildProcess | None = None
    started_at_s: float = 0.0
    start_due_s: float = 0.0
    facts: dict[str, Any] | None = None
    last_exit: str = "has not been started"
    repetition: Repetition = field(default_factory=Repetition)


class Supervisor:
    """Runs a fixed set of children.

    Args:
        specs: the children, in the order in which they are started.
        audience: hears what happens.
        on_change: called when a child was started, or began or ceased to serve.
        verbose: show every line that the children log, not only warnings and errors.
        confirm: asked with a child's spec and its own word that it serves; False: not yet.
        next_environ: what a child's next start has in its environment besides, given what the last one said.
        policy: how soon what died is started again.
    """

    def __init__(
        self,
        specs: Sequence[ChildSpec],
        audience: Audience,
        *,
        on_change: Callable[[], None] = lambda: None,
        verbose: bool = False,
        confirm: Callable[[ChildSpec, Mapping[str, Any]], bool] = lambda _spec, _facts: True,
        next_environ: Callable[[Mapping[str, Any]], dict[str, str]] = lambda _facts: {},
        policy: RestartPolicy = POLICY,
    ) -> None:
        self._audience = audience
        self._on_change = on_change
        self._verbose = verbose
        self._confirm = confirm
        self._next_environ = next_environ
        for spec in specs:
            spec.log.parent.mkdir(parents=True, exist_ok=True)
            if spec.log.exists():
                spec.log.replace(spec.log.with_name(f"{spec.log.name}.1"))
        self._children = [Supervised(spec, LogTail(spec.log), Restarts(policy)) for spec in specs]

    @property
    def pids(self) -> dict[str, list[int]]:
        """The running processes by role."""
        return {child.spec.role: [child.process.pid] if child.process else [] for child in self._children}

    @property
    def facts(self) -> dict[str, dict[str, Any]]:
        """What each child last said of itself, by role; stays while it is being restarted."""
        return {child.spec.role: child.facts for child in self._children if child.facts}

    def unready(self) -> list[str]:
        """Return the roles that do not serve now."""
        return [c.spec.role for c in self._children if c.facts is None or c.process is None or not self._current(c)]

    def tick(self) -> None:
        """Look after each child once."""
        for child in self._children:
            self._show_log(child)
            if child.process is not None:
                self._watch(child, child.process)
            if child.process is None and time.monotonic() >= child.start_due_s:
                self._start(child)

    def wait_ready(self, wait_s_max: float) -> None:
        """Tick until every child serves.

        Raises:
            DevError: a child dies again and again, or the time is over; the caller has to stop the others.
        """
        deadline = time.monotonic() + wait_s_max
        while True:
            self.tick()
            missing = self.unready()
            if not missing:
                return
            looping = next((child for child in self._children if child.restarts.looping), None)
            if looping is not None:
                raise self._failure(looping, f"{looping.spec.role} does not start: it {looping.last_exit} each time")
            if time.monotonic() > deadline:
                first = next(child for child in self._children if child.spec.role == missing[0])
                raise self._failure(first, f"not ready after {wait_s_max:.0f} s: {', '.join(missing)}")
            time.sleep(TICK_S)

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Ask all children to stop, wait, and kill those that do not; all are gone afterwards."""
        self._signal_all(signal.SIGTERM)
        if not self._gone_within(grace_s):
            for child in self._running():
                self._audience.said(f"{child.spec.role} did not stop within {grace_s:.0f} s and is killed", bad=True)
            self.kill()
        for child in self._children:
            self._show_log(child)

    def kill(self) -> None:
        """End all children at once."""
        self._signal_all(signal.SIGKILL)
        self._gone_within(KILL_WAIT_S)

    def _start(self, child: Supervised) -> None:
        extra = self._next_environ(child.facts) if child.facts else {}
        child.process = ChildProcess(child.spec, {**child.spec.environ, **extra})
        child.started_at_s = time.monotonic()
        self._on_change()

    def _watch(self, child: Supervised, process: ChildProcess) -> None:
        code = process.exit_code()
        if code is not None:
            self._bury(child, process, code)
        elif not self._current(child):
            facts = process.ready_facts()
            if facts is not None and self._confirm(child.spec, facts):
                child.facts = facts
                if child.restarts.total:
                    self._audience.said(f"{child.spec.role} is back, pid {process.pid}")
                self._on_change()

    def _bury(self, child: Supervised, process: ChildProcess, code: int) -> None:
        now = time.monotonic()
        was_looping = child.restarts.looping
        wait_s = child.restarts.died(now - child.started_at_s)
        child.process = None
        child.start_due_s = now + wait_s
        child.last_exit = said_of_exit(code)
        role = child.spec.role
        self._show_log(child)
        self._audience.said(
            f"{role} (pid {process.pid}) {child.last_exit}; starting it again in {wait_s:.1f} s", bad=True
        )
        if child.restarts.looping and not was_looping:
            failure = self._failure(child, f"{role} died {child.restarts.deaths} times in a row")
            self._audience.said(str(failure), bad=True)
        self._on_change()

    def _current(self, child: Supervised) -> bool:
        """Tell whether the child's word that it serves is that of the process that runs now."""
        return child.facts is not None and child.process is not None and child.facts["pid"] == child.process.pid

    def _show_log(self, child: Supervised) -> None:
        now = time.monotonic()
        lines = []
        for line in child.tail.read():
            shown = shown_line(line, everything=self._verbose)
            if shown is not None and (self._verbose or (shown := child.repetition.admit(shown, now)) is not None):
                lines.append(shown)
        for shown in lines[:LINES_PER_TICK_MAX]:
            self._audience.logged(child.spec.role, shown)
        more = len(lines) - LINES_PER_TICK_MAX
        if more > 0:
            self._audience.logged(child.spec.role, ShownLine("", f"… {more} more lines in {child.spec.log}"))

    def _failure(self, child: Supervised, problem: str) -> DevError:
        remedy = f"read its log {child.spec.log}; after a change of tables, topics or settings, --fresh starts anew"
        return DevError(problem, remedy=remedy, log=child.spec.log, log_tail=excerpt(child.spec.log))

    def _running(self) -> list[Supervised]:
        return [child for child in self._children if child.process and child.process.exit_code() is None]

    def _signal_all(self, number: signal.Signals) -> None:
        for child in self._running():
            if child.process:
                child.process.signal(number)

    def _gone_within(self, wait_s: float) -> bool:
        deadline = time.monotonic() + wait_s
        while self._running():
            if time.monotonic() > deadline:
                return False
            time.sleep(TICK_S / 2)
        return True
