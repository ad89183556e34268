"""Heartbeats, on a producer of their own. Fulfils ``ports.fleet``."""

from __future__ import annotations

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tocsin.adapters.kafka.clients import base_config
from tocsin.domain.fleet import Heartbeat
from tocsin.ports.codec import FleetCodec

log = structlog.get_logger()


class KafkaFleetBeats:
    """Fulfils ``ports.fleet.FleetBeats``.

    Args:
        topic: of the fleet; its broker stamps the records.
        every_s: the period; a beat that is older has no meaning any more.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        client_id: str,
        topic: str,
        codec: FleetCodec,
        every_s: float,
        extra: dict[str, str] | None = None,
    ) -> None:
        config = base_config(bootstrap_servers, client_id, extra)
        self._producer = Producer(config | {"acks": "all", "linger.ms": 0, "message.timeout.ms": int(every_s * 1000)})
        self._topic = topic
        self._codec = codec
        self._failing = False

    def send(self, heartbeat: Heartbeat) -> None:
        value = self._codec.encode_heartbeat(heartbeat)
        try:
            self._producer.produce(
                self._topic, value, heartbeat.process_id.encode(), partition=0, on_delivery=self._delivered
            )
        except (BufferError, KafkaException) as error:
            log.warning("a heartbeat could not be sent", action="fleet.beat_failed", error=str(error))
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        # Said once for each outage, not once a beat.
        if error is not None and not self._failing:
            log.warning("heartbeats are not delivered", action="fleet.beats_failing", error=error.str())
        elif error is None and self._failing:
            log.info("heartbeats are delivered again", action="fleet.beats_delivered")
        self._failing = error is not None

    def close(self, wait_s: float) -> None:
        self._producer.flush(wait_s)
