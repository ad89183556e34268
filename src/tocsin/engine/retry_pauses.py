"""Pauses the retries of a tenant of whom nearly all attempts fail, so that they wait for somebody to look at it.

First attempts go on. A retry that comes due in a pause is held back in memory: in the state it waits, as it did, and
the pause itself is a work item in the state, so a new owner holds the same retries back. A pause ends after a time, or
when somebody says so; what was held back then goes out at a low rate. While it does, failures begin the pause anew.

What fails is counted in each shard for itself: the rate of a tenant with few jobs in each may pass unnoticed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tocsin.domain.alerts import Alert, AlertKind
from tocsin.domain.instants import SECOND, Micros
from tocsin.domain.jobs import Job
from tocsin.domain.shard_records import RETRIES_PAUSE, Phase, WorkItem
from tocsin.engine.actives import Actives
from tocsin.engine.effects import Step
from tocsin.engine.failure_window import FailureWindow
from tocsin.engine.shard_state import ShardState
from tocsin.engine.work import Progress, Room, Work

RETRIES_PAUSED = "retries_paused"
"""Why a retry waits longer than its policy says."""


@dataclass(frozen=True, slots=True)
class RetryPauseLimits:
    """When a tenant's retries pause.

    Attributes:
        failures_min: failed attempts of a tenant in one shard within the window.
        failed_share: of all its attempts that ended in the window.
        window_s: how long an end counts, at least half of it.
        pause_s: how long a pause lasts, unless somebody ends it.
        resumed_per_s: held back retries of one tenant and shard that go out in one second once it is over.
        tenants_max: tenants whose failures are counted; beyond, the one that was heard of least lately is forgotten.
    """

    failures_min: int = 100
    failed_share: float = 0.9
    window_s: float = 60.0
    pause_s: float = 600.0
    resumed_per_s: int = 20
    tenants_max: int = 10_000


@dataclass(slots=True)
class _Pause:
    """A pause as the work item says it, and what of it need not last."""

    item_id: str
    until: Micros
    held_back: dict[str, None]
    """Executions, in the order in which they came due."""
    let_go: set[str]
    """Those whose turn it is to go out."""
    fails_again: bool = False


class RetryPauses:
    """The pauses of one shard. Fulfils ``work.WorkHandler``."""

    def __init__(self, state: ShardState, actives: Actives, work: Work, limits: RetryPauseLimits) -> None:
        self._state = state
        self._actives = actives
        self._work = work
        self._limits = limits
        self._windows: dict[str, FailureWindow] = {}
        self._pauses: dict[str, _Pause] = {}
        for item in state.work.values():
            if item.kind == RETRIES_PAUSE and (read := _read(item)) is not None:
                self._pauses[read[0]] = _Pause(item.id, read[1], {}, set())
        work.register(RETRIES_PAUSE, self)

    def note(self, step: Step, tenant_id: str, failed: bool) -> None:
        """Count the end of an attempt; the one that is too many begins a pause."""
        window = self._windows.pop(tenant_id, None)
        if window is None:
            window = FailureWindow(self._limits.window_s * SECOND / 2)
        self._windows[tenant_id] = window
        if len(self._windows) > self._limits.tenants_max:
            del self._windows[next(iter(self._windows))]
        window.note(failed, step.now)
        if not failed or not window.passes(self._limits.failed_share, self._limits.failures_min, step.now):
            return
        window.forget()
        pause = self._pauses.get(tenant_id)
        if pause is None:
            self._begin(step, tenant_id)
        elif pause.until <= step.now:
            pause.fails_again = True

    def _begin(self, step: Step, tenant_id: str) -> None:
        until = step.now + round(self._limits.pause_s * SECOND)
        item = self._work.begin(step, RETRIES_PAUSE, None, _data(tenant_id, until))
        # Retries of this very step are held back too, and an item is only there once it is settled.
        self._work.settle(step)
        self._pauses[tenant_id] = _Pause(item.id, until, {}, set())
        share, limit = self._limits.failed_share, self._limits.failures_min
        message = (
            f"retries of the tenant pause for {self._limits.pause_s:g} s: at least {limit} attempts failed within "
            f"{self._limits.window_s:g} s, {share:.0%} of all or more; `tocsin tenants resume-retries` ends it"
        )
        step.alerts.append(Alert(AlertKind.RETRIES_PAUSED, step.now, tenant_id, message=message))

    def until(self, tenant_id: str, now: Micros) -> Micros | None:
        """Return when a tenant's pause ends by itself, µs; None: its retries are not paused."""
        pause = self._pauses.get(tenant_id)
        return pause.until if pause is not None and pause.until > now else None

    def hold(self, tenant_id: str, execution_id: str) -> bool:
        """Tell whether a retry that is due must wait; it is then seen to that it comes up again."""
        pause = self._pauses.get(tenant_id)
        if pause is None:
            return False
        if pause.item_id not in self._state.work:
            # It was damaged, and set aside.
            del self._pauses[tenant_id]
            for held_back in filter(self._waits, pause.held_back):
                self._actives.wake_again(held_back)
            return False
        if execution_id in pause.let_go:
            pause.let_go.discard(execution_id)
            return False
        pause.held_back[execution_id] = None
        return True

    def resume(self, step: Step, tenant_id: str) -> bool:
        """End a tenant's pause; tell whether there was one."""
        pause = self._pauses.get(tenant_id)
        item = None if pause is None else self._state.work.get(pause.item_id)
        if pause is None or item is None or pause.until <= step.now:
            return False
        pause.until, pause.fails_again = step.now, False
        self._windows.pop(tenant_id, None)
        self._work.change(step, item._replace(data=_data(tenant_id, step.now)))
        return True

    def go_on(self, step: Step, item: WorkItem, room: Room) -> Progress:
        read = _read(item)
        if read is None:
            raise ValueError("it names no tenant and no end")
        tenant_id, until = read
        pause = self._pauses[tenant_id]
        room.take()
        if until > step.now:
            return Progress(item, until)
        if pause.fails_again:
            pause.until, pause.fails_again = step.now + round(self._limits.pause_s * SECOND), False
            return Progress(item._replace(data=_data(tenant_id, pause.until)), pause.until)
        for execution_id in list(pause.held_back)[: self._limits.resumed_per_s]:
            del pause.held_back[execution_id]
            if self._waits(execution_id):
                pause.let_go.add(execution_id)
                self._actives.wake_again(execution_id)
        pause.let_go = {execution_id for execution_id in pause.let_go if self._waits(execution_id)}
        if pause.held_back or pause.let_go:
            return Progress(item, step.now + SECOND)
        del self._pauses[tenant_id]
        return Progress(None)

    def _waits(self, execution_id: str) -> bool:
        active = self._actives.get(execution_id)
        return active is not None and active.phase == Phase.WAITING

    def job_changed(self, step: Step, item: WorkItem, job: Job) -> bool:
        return True


def _data(tenant_id: str, until: Micros) -> str:
    return json.dumps({"tenant_id": tenant_id, "until": until})


def _read(item: WorkItem) -> tuple[str, Micros] | None:
    """Return whose pause an item is, and its end; None where it is damaged."""
    try:
        data = json.loads(item.data)
        tenant_id, until = data["tenant_id"], data["until"]
    except (ValueError, TypeError, KeyError):
        return None
    return (tenant_id, until) if isinstance(tenant_id, str) and isinstance(until, int) else None
