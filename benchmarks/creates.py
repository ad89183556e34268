"""One-offs created through the command topic, as a service's own producer would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import uuid_utils
from confluent_kafka import Producer

from benchmarks.rig import READY_S, Rig
from tocsin.adapters.avro import AvroCodec
from tocsin.adapters.kafka.clients import base_config
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.commands import Command, CommandKind
from tocsin.domain.ids import made_command_id, made_job_id
from tocsin.domain.sharding import shard_key, shard_of


class Creates:
    """Sends creates; ``client``: how the brokers see it."""

    def __init__(self, system: Rig, names: TopicNames, client: str) -> None:
        self._topic = names.commands
        self._shards = system.shards
        self._codec = AvroCodec()
        settings = {"enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer({**base_config(system.bootstrap, client), **settings})

    def send(self, definition: Mapping[str, Any]) -> str:
        """Hand one over; return the job's id."""
        job_id = made_job_id(uuid_utils.uuid7().hex)
        command_id = made_command_id(uuid_utils.uuid7().hex)
        command = Command(CommandKind.CREATE, command_id, job_id, reply_partition=0, definition=definition)
        value, key = self._codec.encode_command(command), shard_key(job_id).encode()
        while True:
            try:
                self._producer.produce(self._topic, value, key, shard_of(job_id, self._shards))
                return job_id
            except BufferError:
                self._producer.poll(0.05)

    def flush(self) -> None:
        """Wait until all are in the log."""
        if self._producer.flush(READY_S):
            raise SystemExit("the creates could not be sent")
