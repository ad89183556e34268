"""Reconciling minute after minute as they close, telling what is missing once, and looking again at what is in motion.

Whoever steps it brings the time; nothing here sleeps for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from tocsin.domain.alerts import Alert, AlertKind
from tocsin.domain.entries import EntryKey
from tocsin.domain.errors import Unavailable
from tocsin.domain.instants import MINUTE, SECOND, Micros, format_rfc3339, minute_of
from tocsin.engine.alerts import summed_up
from tocsin.ports.alert_sink import AlertSink
from tocsin.ports.clock import Clock
from tocsin.ports.meters import ReconcilerMeter
from tocsin.roles.reconciler.reconciler import Findings, Minutes, Missing

log = structlog.get_logger()


class Reconciles(Protocol):
    """The part of the reconciler that the watch needs."""

    def reconcile(self, minutes: Minutes) -> Findings: ...


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """Bounds of the watch.

    Attributes:
        settle_s: how long after its end a minute is looked at first.
        look_back_s: how far back it begins.
        minutes_max: of one shard in one step.
        open_max: minutes with something in motion that are looked at again; beyond, the oldest are let go.
        alerts_max: of one step that are told one by one; the rest is summed up.
    """

    settle_s: float = 120.0
    look_back_s: float = 3_600.0
    minutes_max: int = 60
    open_max: int = 1_000
    alerts_max: int = 20


class ReconcilerWatch:
    """Follows all shards of a cluster."""

    def __init__(
        self,
        reconciler: Reconciles,
        alerts: AlertSink,
        meter: ReconcilerMeter,
        clock: Clock,
        shards: Sequence[int],
        limits: WatchLimits,
    ) -> None:
        self._reconciler = reconciler
        self._alerts = alerts
        self._meter = meter
        self._clock = clock
        self._limits = limits
        self._next = dict.fromkeys(shards, minute_of(clock.now() - round(limits.look_back_s * SECOND)))
        """By shard, the first minute that was not looked at."""
        self._open: dict[tuple[int, int], set[EntryKey]] = {}
        """Minutes that are looked at again, with what was told of them already."""

    def step(self) -> bool:
        """Look at what has closed since; return whether there is more to look at now."""
        now = self._clock.now()
        upto = minute_of(now - round(self._limits.settle_s * SECOND))
        minutes = {shard: set(range(at, min(upto, at + self._limits.minutes_max))) for shard, at in self._next.items()}
        for shard, minute in self._open:
            minutes[shard].add(minute)
        wanted = {shard: found for shard, found in minutes.items() if found}
        if not wanted:
            self._measure(now)
            return False
        try:
            findings = self._reconciler.reconcile(wanted)
            self._tell(findings, now)
        except Unavailable as error:
            log.warning(str(error), action="reconciler.waits_for_answers")
            self._measure(now)
            return False
        self._note(findings, minutes, upto)
        self._measure(now)
        return any(at < upto for shard, at in self._next.items() if at < findings.closed.get(shard, 0))

    def _tell(self, findings: Findings, now: Micros) -> None:
        """Alert people first: what fails here is found again by the next step."""
        new = [one for one in findings.missing if one.key not in self._open.get((one.shard, one.key.bucket_minute), ())]
        if not new:
            return
        told = [_alert(one, now) for one in new]
        self._alerts.send(summed_up(told, self._limits.alerts_max))
        self._meter.missing(len(new))
        for one in new[: self._limits.alerts_max]:
            log.error(
                "history lacks an occurrence that was due and decided",
                action="reconciler.missing",
                execution_id=one.execution_id,
                shard=one.shard,
                due_at=format_rfc3339(one.key.run_at),
            )
        log.error("occurrences are missing", action="reconciler.missing_total", count=len(new))

    def _note(self, findings: Findings, minutes: dict[int, set[int]], upto: int) -> None:
        """Remember how far all is judged, and what must be looked at again."""
        for shard in self._next:
            if shard in findings.stood:
                continue
            closed = findings.closed.get(shard, upto)  # one that never ran has nothing to look at
            looked = max([self._next[shard], *(minute + 1 for minute in minutes[shard])])
            self._next[shard] = max(self._next[shard], min(looked, closed))
        told: dict[tuple[int, int], set[EntryKey]] = {}
        for one in findings.missing:
            told.setdefault((one.shard, one.key.bucket_minute), set()).add(one.key)
        kept = findings.open | {place for place in self._open if place[0] in findings.stood}
        again = {place: self._open.get(place, set()) | told.get(place, set()) for place in sorted(kept)}
        self._open = dict(list(again.items())[-self._limits.open_max :])

    def _measure(self, now: Micros) -> None:
        oldest = min([*self._next.values(), minute_of(now)])
        self._meter.reconciled_age((now - oldest * MINUTE) / SECOND)


def _alert(one: Missing, now: Micros) -> Alert:
    message = f"due at {format_rfc3339(one.key.run_at)} and decided, but history has no run of it"
    return Alert(AlertKind.MISSING, now, one.tenant_id, one.key.job_id, one.execution_id, one.shard, message)
