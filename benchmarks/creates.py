"""One-offs created through the command topic, as a service's own producer would."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import uuid_utils
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.rig import READY_S, Rig
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.clients import base_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.ids import made_command_id, made_job_id
from tocsin.domain.sharding import shard_key, shard_of


class Encoded(NamedTuple):
    """A create's record."""

    job_id: str
    value: bytes
    key: bytes
    shard: int


class Outcomes:
    """Follows what the owners say of commands, from its making on."""

    def __init__(self, system: Rig, names: TopicNames, client: str) -> None:
        self._codec = AvroCodec()
        self._consumer = Consumer(
            {**base_config(system.bootstrap, client), "group.id": client, "enable.auto.commit": False}
        )
        place = TopicPartition(names.outcomes, 0)
        place.offset = self._consumer.get_watermark_offsets(place, timeout=READY_S)[1]
        self._consumer.assign([place])

    def await_accepted(self, count: int, until_s: float) -> int:
        """Wait for so many, until a Unix time at the latest; return how many came. A refusal ends the benchmark."""
        decided = 0
        while decided < count and time.time() < until_s:
            for message in self._consumer.consume(5_000, 0.1):
                if message.error() is None:
                    outcome = self._codec.decode_outcome(message.value())
                    if not outcome.accepted:
                        raise SystemExit(f"a create was refused: {outcome.detail} {outcome.faults}")
                    decided += 1
        return decided

    def close(self) -> None:
        self._consumer.close()


class Creates:
    """Sends creates; ``client``: how the brokers see it."""

    def __init__(self, system: Rig, names: TopicNames, client: str) -> None:
        self._topic = names.commands
        self._shards = system.shards
        self._codec = AvroCodec()
        settings = {"enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer({**base_config(system.bootstrap, client), **settings})

    def encoded(self, definition: Mapping[str, Any], job_id: str | None = None) -> Encoded:
        """Make one's record, to be handed over later. ``job_id``: of the sender's own, in full."""
        job_id = job_id or made_job_id(uuid_utils.uuid7().hex)
        command_id = made_command_id(uuid_utils.uuid7().hex)
        command = Command(CommandKind.CREATE, command_id, job_id, reply_partition=0, definition=definition)
        value, key = self._codec.encode_command(command), shard_key(job_id).encode()
        return Encoded(job_id, value, key, shard_of(job_id, self._shards))

    def send(self, definition: Mapping[str, Any]) -> str:
        """Hand one over; return the job's id."""
        record = self.encoded(definition)
        self.hand_over(record)
        return record.job_id

    def hand_over(self, record: Encoded) -> None:
        """Give a record to the producer, waiting while its queue is full."""
        while True:
            try:
                self._producer.produce(self._topic, record.value, record.key, record.shard)
                return
            except BufferError:
                self._producer.poll(0.05)

    def flush(self) -> None:
        """Wait until all are in the log."""
        if self._producer.flush(READY_S):
            raise SystemExit("the creates could not be sent")
