"""Sending one command to each of some shards, and hearing from their logs of states what comes of it. For tools."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tocsin.adapters.kafka.clients import base_config, place, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.errors import Unavailable

ANSWER_S: Final = 10.0
DELIVERY_S: Final = 20.0


class ShardOrders:
    """Follows the logs of states from the moment at which it is made.

    Raises:
        Unavailable: Kafka does not answer.
    """

    def __init__(self, bootstrap_servers: str, names: TopicNames, shards: list[int], extra: dict[str, str]) -> None:
        self._base = base_config(bootstrap_servers, f"tocsin-tool-{uuid.uuid4().hex[:6]}", extra)
        self._names = names
        self._consumer = Consumer(
            {
                **self._base,
                "group.id": f"{names.prefix}look",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "message.max.bytes": 3_000_000,
            }
        )
        try:
            ends = [TopicPartition(names.shard_state, shard) for shard in shards]
            for partition in ends:
                partition.offset = self._consumer.get_watermark_offsets(partition, timeout=ANSWER_S)[1]
            self._consumer.assign(ends)
        except KafkaException as error:
            self._consumer.close()
            raise unavailable(error) from error

    def send(self, commands: Mapping[int, bytes]) -> None:
        """Append a command to each shard's partition, and return once all are in the log.

        Raises:
            Unavailable: some are not, or may not be; to send them again is safe for whoever accepts repetitions.
        """
        problems: list[str] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                problems.append(str(error))

        settings = {"enable.idempotence": True, "message.timeout.ms": int(DELIVERY_S * 1000)}
        producer = Producer({**self._base, **settings})
        for shard, command in commands.items():
            producer.produce(self._names.commands, command, partition=shard, on_delivery=delivered)
        left = producer.flush(DELIVERY_S + 5)
        if problems or left:
            raise Unavailable("kafka", problems[0] if problems else f"{left} commands were not acknowledged")

    def poll(self, wait_s: float) -> list[tuple[int, bytes, bytes]]:
        """Return what was committed since, as (shard, key, value); waits at most ``wait_s`` for the first."""
        first = self._consumer.poll(wait_s)
        found: list[tuple[int, bytes, bytes]] = []
        for message in [first, *self._consumer.consume(1_000, 0)] if first is not None else []:
            error = message.error()
            if error is not None:
                if not error.retriable():
                    raise unavailable(error)
                continue
            if message.value() is not None:
                found.append((place(message)[0], message.key() or b"", message.value() or b""))
        return found

    def close(self) -> None:
        self._consumer.close()
