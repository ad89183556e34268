"""Reading cancels from Kafka: the one partition of worker-control from its beginning, committed records, no group."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tocsin.adapters.kafka.clients import base_config, place, unavailable
from tocsin.domain.errors import Unavailable, Undecodable
from tocsin.domain.fleet import Cancel
from tocsin.ports.codec import FleetCodec

ANSWER_S: Final = 10.0
LOAD_S: Final = 60.0
"""Above every transaction timeout that brokers allow by default: an open one hides what is behind it."""
LEADERLESS_S: Final = 30.0
"""So long a partition may have no leader that knows it is: brokers that have just come back say so for moments."""
LEADERLESS: Final = frozenset({KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE})
BATCH_MAX: Final = 5_000


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


class KafkaCancelLog:
    """Fulfils ``ports.cancel_log.CancelLog``. Not for use by several threads."""

    def __init__(
        self, bootstrap_servers: str, topic: str, client_id: str, codec: FleetCodec, extra: dict[str, str] | None = None
    ) -> None:
        self._codec = codec
        self._topic = topic
        self._base = {
            **base_config(bootstrap_servers, client_id, extra),
            "group.id": f"{topic}-watch",  # asked for by the client; nothing joins or commits
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        committed = {"isolation.level": "read_committed", "enable.partition.eof": True}
        self._consumer = Consumer({**self._base, **committed})
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def load(self) -> Sequence[Cancel]:
        end = self._true_end()
        found: list[Cancel] = []
        deadline = time.monotonic() + LOAD_S
        reached = 0
        while reached < end:
            # consume(n, t) waits for n messages or all of t; poll(t) returns with the first.
            first = self._consumer.poll(0.5)
            messages = [] if first is None else [first, *self._consumer.consume(BATCH_MAX, 0)]
            found += self._read(messages)
            # Where the reader stands is told at an end only: markers and compaction leave offsets without records.
            reached = max([reached, *(place(m)[1] for m in messages if _is_end(m))])
            if time.monotonic() > deadline:
                raise Unavailable("kafka", f"{self._topic} could not be read to its end")
        return found

    def poll(self, limit: int) -> Sequence[Cancel]:
        return self._read(self._consumer.consume(limit, 0))

    def close(self) -> None:
        self._consumer.close()

    def _true_end(self) -> int:
        # A committed reader is told an earlier end while any transaction is open.
        looker = Consumer({**self._base, "isolation.level": "read_uncommitted"})
        deadline = time.monotonic() + LEADERLESS_S
        try:
            while True:
                try:
                    low, end = looker.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=ANSWER_S)
                    return end if end > low else 0
                except KafkaException as error:
                    if error.args[0].code() not in LEADERLESS or time.monotonic() > deadline:
                        raise unavailable(error) from error
                    time.sleep(0.1)
        finally:
            looker.close()

    def _read(self, messages: Sequence[Message]) -> list[Cancel]:
        found = []
        for message in messages:
            if message.error() is not None or message.value() is None:
                continue
            try:
                found.append(self._codec.decode_cancel(message.value()))
            except Undecodable:
                # Of a newer version: the token of what it forbids is fenced by the owner all the same.
                continue
        return found
