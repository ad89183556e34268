"""Writing alerts from outside of an owner's turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from tocsin.adapters.kafka.clients import base_config, unavailable
from tocsin.domain.alerts import Alert
from tocsin.domain.errors import Unavailable
from tocsin.ports.codec import FleetCodec

log = structlog.get_logger()

DELIVERY_S: Final = 20.0
CLOSE_S: Final = 2.0


class KafkaAlertSink:
    """Fulfils ``ports.alert_sink.AlertSink`` with an idempotent producer."""

    def __init__(
        self, bootstrap_servers: str, topic: str, client_id: str, codec: FleetCodec, extra: dict[str, str] | None = None
    ) -> None:
        self._topic = topic
        self._codec = codec
        settings = {"enable.idempotence": True, "message.timeout.ms": int(DELIVERY_S * 1000)}
        self._producer = Producer({**base_config(bootstrap_servers, client_id, extra), **settings})

    def send(self, alerts: Sequence[Alert]) -> None:
        problems: list[str] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                problems.append(str(error))

        try:
            for alert in alerts:
                value = self._codec.encode_alert(alert)
                self._producer.produce(self._topic, value, alert.job_id or "", 0, on_delivery=delivered)
            left = self._producer.flush(DELIVERY_S + 5)
        except KafkaException as error:
            raise unavailable(error) from error
        except BufferError as error:
            raise Unavailable("kafka", f"alerts were not taken: {error}") from error
        if problems or left:
            raise Unavailable("kafka", problems[0] if problems else f"{left} alerts were not acknowledged")

    def offer(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            try:
                self._producer.produce(
                    self._topic, self._codec.encode_alert(alert), alert.job_id or "", 0, on_delivery=_delivered
                )
            except (KafkaException, BufferError) as error:
                _not_written(error)
        self._producer.poll(0)

    def close(self) -> None:
        """Give what was offered a moment to be written."""
        self._producer.flush(CLOSE_S)


def _delivered(error: KafkaError | None, _message: object) -> None:
    if error is not None:
        _not_written(error)


def _not_written(error: object) -> None:
    log.warning("an alert was not written", action="alerts.not_written", error=str(error))
