"""Calling the roll: the latest heartbeat of every process, read once from the fleet topic to its end of now."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tocsin.adapters.kafka.clients import base_config, unavailable
from tocsin.domain.errors import Unavailable, Undecodable
from tocsin.domain.instants import Micros
from tocsin.ports.codec import FleetCodec
from tocsin.ports.fleet_log import SeenBeat

ANSWER_S: Final = 10.0
"""How long the brokers may take to answer one question, and how long nothing may arrive."""
BATCH_MAX: Final = 1_000


def call_roll(
    bootstrap_servers: str, topic: str, codec: FleetCodec, since: Micros, extra: dict[str, str] | None = None
) -> list[SeenBeat]:
    """Return the latest beat of each process that beat since an instant, by role, name and start.

    Args:
        bootstrap_servers: where to ask.
        topic: of the fleet.
        codec: of its values; a beat that cannot be read is left out.
        since: µs by the brokers' clock.
        extra: the operator's settings of every client.

    Raises:
        Unavailable: no broker answers, or there is no such topic.
    """
    consumer = Consumer(
        {
            **base_config(bootstrap_servers, "tocsin-fleet-roll", extra),
            "group.id": f"{topic}-roll",  # asked for by the client; nothing joins or commits
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        return _latest(consumer, topic, codec, since)
    except KafkaException as error:
        raise unavailable(error) from error
    finally:
        consumer.close()


def _latest(consumer: Consumer, topic: str, codec: FleetCodec, since: Micros) -> list[SeenBeat]:
    low, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=ANSWER_S)
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, max(0, since // 1000))], timeout=ANSWER_S)
    if found.error is not None:
        raise unavailable(found.error)
    start = max(low, found.offset) if found.offset >= 0 else end
    latest: dict[str, SeenBeat] = {}
    consumer.assign([TopicPartition(topic, 0, start)])
    heard_at = time.monotonic()
    # The position, and not the last record, tells the end: compaction may have taken that one.
    while start < end and consumer.position([TopicPartition(topic, 0)])[0].offset < end:
        for message in consumer.consume(BATCH_MAX, 0.2):
            error = message.error()
            if error is not None:
                raise unavailable(error)
            heard_at = time.monotonic()
            try:
                heartbeat = codec.decode_heartbeat(message.value())
            except Undecodable:
                continue
            latest[heartbeat.process_id] = SeenBeat(heartbeat, message.timestamp()[1] * 1000)
        if time.monotonic() - heard_at > ANSWER_S:
            raise Unavailable("kafka", f"{topic} could not be read to its end")
    return sorted(
        latest.values(), key=lambda seen: (seen.heartbeat.role, seen.heartbeat.name, seen.heartbeat.started_at)
    )
