"""What a step alerts people to, as records: few, however much went wrong at once.

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
        alerts: what was noted.
        singles_max: how many are told one by one; each kind adds one more record at most.
    """
    singles = [alert for alert in alerts if alert.kind != AlertKind.SKIPPED]
    told = singles[:singles_max]
    told += _sums([alert for alert in alerts if alert.kind == AlertKind.SKIPPED])
    told += _sums(singles[singles_max:])
    return [_record(codec, shard, alert) for alert in told]


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
        message=f"{count} in one turn, of {len(jobs)} jobs; the first: {first.message}",
        count=count,
    )


def _record(codec: FleetCodec, shard: int, alert: Alert) -> NewRecord:
    value = codec.encode_alert(replace(alert, shard=shard, message=alert.message[:MESSAGE_CHARS_MAX]))
    return NewRecord(ALERTS, 0, alert.job_id or f"shard {shard}", value)
