"""Reading heartbeats from Kafka: the one partition of the fleet topic from its beginning, without a group."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from tocsin.adapters.kafka.clients import base_config
from tocsin.domain.errors import Undecodable
from tocsin.ports.codec import FleetCodec
from tocsin.ports.fleet_log import SeenBeat


class KafkaFleetLog:
    """Fulfils ``ports.fleet_log.FleetLog``."""

    def __init__(
        self, bootstrap_servers: str, topic: str, client_id: str, codec: FleetCodec, extra: dict[str, str] | None = None
    ) -> None:
        self._codec = codec
        self._consumer = Consumer(
            {
                **base_config(bootstrap_servers, client_id, extra),
                "group.id": f"{topic}-watch",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def poll(self, limit: int) -> list[SeenBeat]:
        beats = []
        for message in self._consumer.consume(limit, 0):
            if message.error() is not None:
                continue
            try:
                heartbeat = self._codec.decode_heartbeat(message.value())
            except Undecodable:
                # A beat that cannot be read is no beat.
                continue
            beats.append(SeenBeat(heartbeat, message.timestamp()[1] * 1000))
        return beats

    def close(self) -> None:
        self._consumer.close()
