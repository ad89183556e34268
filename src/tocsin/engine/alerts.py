"""What people are alerted to: few records, however much went wrong at once.

Skipped occurrences are summed up, and so is what one job asked to be told; of all else the first are told one by one,
and the rest as one record for each kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

from tocsin.domain.alert_on import WORD_OF, AlertOn
from tocsin.domain.alerts import MESSAGE_CHARS_MAX, Alert, AlertKind
from tocsin.domain.catch_up import SkipReason
from tocsin.domain.entries import Entry
from tocsin.domain.executions import AttemptHead
from tocsin.domain.firing import FiringPlan
from tocsin.domain.instants import SECOND
from tocsin.engine.effects import Step
from tocsin.ports.codec import FleetCodec
from tocsin.ports.shard_log import ALERTS, NewRecord

ALERTED_SKIPS: Final = frozenset({SkipReason.MISSED, SkipReason.LATE, SkipReason.MAX_CATCH_UP, SkipReason.QUEUE_FULL})
"""Reasons that say that something could not run in time: nobody has to ask for these."""


def tell_skip(step: Step, head: AttemptHead, reason: SkipReason, count: int, alert_on: Collection[AlertOn]) -> None:
    """Note that occurrences are not run, where somebody is to be told.

    Args:
        step: the present one.
        head: of the first of them.
        reason: why they are not run.
        count: how many they are.
        alert_on: of what their job wants people to be alerted.
    """
    word = WORD_OF.get(reason)
    asked = word if word in alert_on else None
    if asked is None and reason not in ALERTED_SKIPS:
        return
    execution_id = head.execution_id if asked is not None and count == 1 else None
    names = (head.tenant_id, head.job_id, execution_id)
    step.alerts.append(
        Alert(AlertKind.SKIPPED, step.now, *names, message=str(reason), count=count, alert_on=asked),
    )


def tell_if_late(step: Step, entry: Entry, plan: FiringPlan) -> None:
    """Note that an occurrence is run later than its job's patience, where the job wants that told."""
    late = step.now - entry.scheduled_for
    if AlertOn.LATE in plan.alert_on and late > plan.misfire_after:
        names = (entry.tenant_id, entry.job_id, entry.execution_id)
        message = f"fired {late / SECOND:.3f} s after its time"
        step.alerts.append(Alert(AlertKind.LATE, step.now, *names, message=message, alert_on=AlertOn.LATE))


def alert_records(codec: FleetCodec, shard: int, alerts: Sequence[Alert], singles_max: int) -> list[NewRecord]:
    """Return the records for what a step noted, in order.

    Args:
        codec: writes them.
        shard: where it happened.
        alerts, singles_max: see ``summed_up``.
    """
    told = summed_up([replace(alert, shard=shard) for alert in alerts], singles_max)
    return [NewRecord(ALERTS, 0, key_of(alert), codec.encode_alert(alert)) for alert in told]


def summed_up(alerts: Sequence[Alert], singles_max: int) -> list[Alert]:
    """Return what is told of alerts that came together; what jobs asked for comes first.

    Args:
        alerts: what was noted.
        singles_max: how many are told one by one; each kind adds one more at most.
    """
    asked = summed_by_job([alert for alert in alerts if alert.alert_on is not None])
    unasked = [alert for alert in alerts if alert.alert_on is None]
    singles = asked + [alert for alert in unasked if alert.kind != AlertKind.SKIPPED]
    rest = [alert for alert in unasked if alert.kind == AlertKind.SKIPPED] + singles[singles_max:]
    told = singles[:singles_max] + _sums(rest, lambda alert: alert.kind)
    return [replace(alert, message=alert.message[:MESSAGE_CHARS_MAX]) for alert in told]


def summed_by_job(alerts: Sequence[Alert]) -> list[Alert]:
    """Return one alert for each kind and word of each job."""
    return _sums(alerts, lambda alert: (alert.job_id, alert.kind, alert.alert_on))


def _sum_of(alerts: Sequence[Alert]) -> Alert:
    """Return one alert that stands for several; it names only what all of them have in common."""
    first = alerts[0]
    if len(alerts) == 1:
        return first
    count = sum(alert.count for alert in alerts)
    jobs = len({alert.job_id for alert in alerts})
    of = f", of {jobs} jobs" if jobs > 1 else ""
    return replace(
        first,
        tenant_id=_common(alerts, "tenant_id"),
        job_id=_common(alerts, "job_id"),
        execution_id=None,
        shard=_common(alerts, "shard"),
        message=f"{count} at once{of}; the first: {first.message}",
        count=count,
        alert_on=_common(alerts, "alert_on"),
    )


def key_of(alert: Alert) -> str:
    """Return the key of an alert's record: its job, or else its shard."""
    return alert.job_id or ("" if alert.shard is None else f"shard {alert.shard}")


def _sums(alerts: Sequence[Alert], alike: Callable[[Alert], Hashable]) -> list[Alert]:
    """Return one alert for all that are alike, in the order of the first of each."""
    found: dict[Hashable, list[Alert]] = {}
    for alert in alerts:
        found.setdefault(alike(alert), []).append(alert)
    return [_sum_of(group) for group in found.values()]


def _common(alerts: Sequence[Alert], name: str) -> Any:
    """Return what all alerts say under a name, None where they differ."""
    values = {getattr(alert, name) for alert in alerts}
    return values.pop() if len(values) == 1 else None
