"""Reading alerts from Kafka: the newest of them, and then what comes. Committed records; no group."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tocsin.adapters.kafka.clients import base_config, place, unavailable
from tocsin.domain.alerts import Alert
from tocsin.domain.errors import Unavailable, Undecodable
from tocsin.ports.codec import FleetCodec

ANSWER_S: Final = 10.0
"""How long the brokers may take to answer one question, and how long nothing may arrive."""
BATCH_MAX: Final = 1_000
OFFSETS_AN_ALERT: Final = 4
"""The first guess at how many offsets there are for each alert: transactions end in markers, which take one."""


class AlertTail:
    """The end of the topic of alerts. Raises ``Unavailable`` where no broker answers, or there is no such topic."""

    def __init__(
        self, bootstrap_servers: str, topic: str, client_id: str, codec: FleetCodec, extra: dict[str, str] | None = None
    ) -> None:
        self._codec = codec
        self._topic = topic
        self._consumer = Consumer(
            {
                **base_config(bootstrap_servers, client_id, extra),
                "group.id": f"{topic}-tail",  # asked for by the client; nothing joins or commits
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )

    def newest(self, limit: int) -> list[Alert]:
        """Return the newest alerts, oldest first; those that a newer program wrote and nobody can read are left out."""
        low, end = self._bounds()
        size = limit * OFFSETS_AN_ALERT
        while True:
            start = max(low, end - size)
            found = self._read(start, end, limit)
            if len(found) >= limit or start <= low:
                return found
            size *= 4

    def poll(self, wait_s: float) -> list[Alert]:
        """Return what has come since, waiting at most ``wait_s`` for the first."""
        first = self._consumer.poll(wait_s)
        messages = [] if first is None else [first, *self._consumer.consume(BATCH_MAX, 0)]
        return self._decoded(messages)

    def close(self) -> None:
        self._consumer.close()

    def _bounds(self) -> tuple[int, int]:
        try:
            low, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=ANSWER_S)
        except KafkaException as error:
            raise unavailable(error) from error
        return low, end

    def _read(self, start: int, end: int, limit: int) -> list[Alert]:
        """Read a span, and stand behind it; the last ``limit`` alerts of it are returned."""
        found: deque[Alert] = deque(maxlen=limit)
        self._consumer.assign([TopicPartition(self._topic, 0, start)])
        reached, heard_at = start, time.monotonic()
        while reached < end:
            first = self._consumer.poll(0.5)
            messages = [] if first is None else [first, *self._consumer.consume(BATCH_MAX, 0)]
            found += self._decoded(messages)
            if messages:
                # An end tells the position behind markers and aborted records, which a record does not.
                reached, heard_at = max(_position(message) for message in messages), time.monotonic()
            elif time.monotonic() - heard_at > ANSWER_S:
                raise Unavailable("kafka", f"{self._topic} could not be read to its end")
        return list(found)

    def _decoded(self, messages: Sequence[Message]) -> list[Alert]:
        found = []
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                    raise unavailable(error)
                continue
            try:
                found.append(self._codec.decode_alert(message.value()))
            except Undecodable:
                continue
        return found


def _position(message: Message) -> int:
    error = message.error()
    if error is None:
        return place(message)[1] + 1
    return place(message)[1] if error.code() == KafkaError._PARTITION_EOF else -1
