"""Keeps what one job asks to be told from becoming a flood: of its skips and late runs one alert in a while.

The first is told at once; what follows it within a gap is told together when the gap ends. That is kept in memory only:
what a dying owner holds back is in no alert, but each of it is in an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tocsin.domain.alert_on import AT_FIRING
from tocsin.domain.alerts import Alert
from tocsin.domain.instants import Micros
from tocsin.engine.alerts import summed_by_job

JOBS_MAX: Final = 10_000
"""With more gaps than this, the oldest ends early."""

_Key = tuple[str | None, str, str | None]
"""Job, kind and word."""


@dataclass(slots=True)
class _Gap:
    """One gap, and what is held back until it ends."""

    ends_at: Micros
    first: Alert | None = None
    alerts: int = 0
    count: int = 0

    def hold(self, alert: Alert) -> None:
        self.first = self.first or alert
        self.alerts += 1
        self.count += alert.count


class AlertGaps:
    """The gaps of one shard.

    Args:
        length: how far apart two alerts of one job are that tell of the same, µs.
    """

    def __init__(self, length: Micros) -> None:
        self._length = length
        self._open: dict[_Key, _Gap] = {}
        """All are of one length, so the first to be opened ends first."""
        self._holding = 0

    def next_wake(self) -> Micros | None:
        """Return when a gap ends, None where nothing is held back."""
        return next(iter(self._open.values())).ends_at if self._holding else None

    def has_due(self, now: Micros) -> bool:
        """Tell whether something was held back long enough."""
        while self._holding and (oldest := next(iter(self._open.items())))[1].ends_at <= now:
            if oldest[1].first is not None:
                return True
            del self._open[oldest[0]]
        return False

    def sift(self, alerts: Sequence[Alert], now: Micros) -> list[Alert]:
        """Return what is told now: of what was held back, and of what was noted."""
        told = self._ended(now)
        told += [alert for alert in alerts if alert.alert_on not in AT_FIRING]
        for alert in summed_by_job([alert for alert in alerts if alert.alert_on in AT_FIRING]):
            gap = self._open.get((alert.job_id, alert.kind, alert.alert_on))
            if gap is None:
                told.append(alert)
                self._begin(alert, now)
            else:
                self._holding += gap.first is None
                gap.hold(alert)
        while len(self._open) > JOBS_MAX:
            told += self._end_first(now)
        return told

    def flush(self, now: Micros) -> list[Alert]:
        """Return all that is held back: the shard is given up."""
        told: list[Alert] = []
        while self._open:
            told += self._end_first(now)
        return told

    def _ended(self, now: Micros) -> list[Alert]:
        told: list[Alert] = []
        while self._open and next(iter(self._open.values())).ends_at <= now:
            for alert in self._end_first(now):
                told.append(alert)
                self._begin(alert, now)
        return told

    def _begin(self, alert: Alert, now: Micros) -> None:
        self._open[alert.job_id, alert.kind, alert.alert_on] = _Gap(now + self._length)

    def _end_first(self, now: Micros) -> list[Alert]:
        """End the oldest gap; return what it held back, as one alert if as anything."""
        gap = self._open.pop(next(iter(self._open)))
        first = gap.first
        if first is None:
            return []
        self._holding -= 1
        if gap.alerts == 1:
            return [replace(first, at=now)]
        message = f"{gap.count} since the last alert; the first: {first.message}"
        return [replace(first, at=now, count=gap.count, execution_id=None, message=message)]
