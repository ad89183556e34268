"""What people are alerted to: few records, however much went wrong at once.

Skipped occurrences are summed up; of all else the first are told one by one, and the rest as one record for each kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tocsin.domain.alerts import MESSAGE_CHARS_MAX, Alert, AlertKind
from tocsin.ports.codec import FleetCodec
from tocsin.ports.shard_log import ALERTS, NewRecord


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
    """Return what is told of alerts that came together.

    Args:
        alerts: what was noted.
        singles_max: how many are told one by one; each kind adds one more at most.
    """
    singles = [alert for alert in alerts if alert.kind != AlertKind.SKIPPED]
    told = singles[:singles_max]
    told += _sums([alert for alert in alerts if alert.kind == AlertKind.SKIPPED])
    told += _sums(singles[singles_max:])
    return [replace(alert, message=alert.message[:MESSAGE_CHARS_MAX]) for alert in told]


def key_of(alert: Alert) -> str:
    """Return the key of an alert's record: its job, or else its shard."""
    return alert.job_id or ("" if alert.shard is None else f"shard {alert.shard}")


def _sums(alerts: Sequence[Alert]) -> list[Alert]:
    """Return one alert for each kind; it names only what all of its kind have in common."""
    by_kind: dict[str, list[Alert]] = {}
    for alert in alerts:
        by_kind.setdefault(alert.kind, []).append(alert)
    return [found[0] if len(found) == 1 else _sum(found) for found in by_kind.values()]


def _sum(alerts: Sequence[Alert]) -> Alert:
    first = alerts[0]
    count = sum(alert.count for alert in alerts)
    jobs = {alert.job_id for alert in alerts}
    tenants = {alert.tenant_id for alert in alerts}
    return replace(
        first,
        tenant_id=first.tenant_id if len(tenants) == 1 else None,
        job_id=first.job_id if len(jobs) == 1 else None,
        execution_id=None,
        shard=first.shard if len({alert.shard for alert in alerts}) == 1 else None,
        message=f"{count} at once, of {len(jobs)} jobs; the first: {first.message}",
        count=count,
    )
