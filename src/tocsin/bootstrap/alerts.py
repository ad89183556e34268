"""Wiring of the reading of alerts: settings in, the newest alerts and what follows out."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.alert_tail import AlertTail
from tocsin.bootstrap.cluster import names_of
from tocsin.config import Settings
from tocsin.domain.alerts import Alert

CLIENT: Final = "tocsin-alerts"
POLL_S: Final = 0.5


def read_alerts(settings: Settings, newest: int, *, follow: bool) -> Generator[list[Alert]]:
    """Yield the newest alerts, oldest first, once; and where it is followed, whatever comes, without end.

    Raises:
        Unavailable: Kafka does not answer, or the cluster has no topic of alerts.
    """
    kafka = settings.kafka
    tail = AlertTail(kafka.bootstrap_servers, names_of(settings).alerts, CLIENT, AvroCodec(), kafka.extra)
    try:
        yield tail.newest(newest)
        while follow:
            if found := tail.poll(POLL_S):
                yield found
    finally:
        tail.close()
