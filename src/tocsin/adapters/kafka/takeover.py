"""Reading a predecessor's legacy from Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tocsin.adapters.kafka.clients import base_config, place, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.errors import Unavailable
from tocsin.ports.takeover import JobsTail

log = structlog.get_logger()

ANSWER_S: Final = 10.0
"""How long one question to the brokers may take before it is asked again or given up."""
OFFSETS_PATIENCE_S: Final = 30.0
"""How long pending group offsets are waited for; three times the longest transaction of a fenced owner."""
END_WAIT_MS: Final = 10
"""How long the broker waits for more where a log ends."""
PATIENCE_S: Final = 60.0
"""How long a takeover waits for the brokers altogether; above every transaction timeout that they allow by default."""


class KafkaTakeover:
    """Fulfils ``ports.takeover.Takeover``. Not for use by several threads."""

    def __init__(self, bootstrap_servers: str, names: TopicNames, client_id: str, extra: dict[str, str]) -> None:
        self._base = base_config(bootstrap_servers, client_id, extra)
        self._names = names

    def fence(self, owner: str) -> None:
        producer = Producer({**self._base, "transactional.id": owner, "transaction.timeout.ms": 5_000})
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                producer.init_transactions(ANSWER_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise unavailable(error) from error

    def wait_for_offsets(self, shards: Sequence[int]) -> None:
        consumer = self._consumer(self._names.group("trigger"))
        wanted = [TopicPartition(self._names.commands, shard) for shard in shards]
        deadline = time.monotonic() + OFFSETS_PATIENCE_S
        try:
            while True:
                try:
                    consumer.committed(wanted, timeout=ANSWER_S)
                    return
                except KafkaException as error:
                    # A pending transactional offset makes the broker hold its answer; that is what we wait for.
                    if not error.args[0].retriable() and error.args[0].code() != KafkaError._TIMED_OUT:
                        raise unavailable(error) from error
                    if time.monotonic() > deadline:
                        # A broker that was killed in the middle of a commit may never write the marker. The offsets
                        # of the group decide nothing, and whoever wrote them is fenced: the states are the authority.
                        log.warning("pending group offsets are not resolved", action="trigger.offsets_stay_pending")
                        return
        finally:
            consumer.close()

    def read_states(self, shards: Sequence[int]) -> dict[int, dict[str, bytes]]:
        states: dict[int, dict[str, bytes]] = {shard: {} for shard in shards}
        starts = dict.fromkeys(shards, 0)
        for shard, key, value in self._read(self._names.shard_state, starts)[0]:
            if value is None:
                states[shard].pop(key, None)
            else:
                states[shard][key] = value
        return states

    def read_jobs(self, starts: Mapping[int, int]) -> dict[int, JobsTail]:
        records, ends = self._read(self._names.jobs, starts)
        found: dict[int, list[tuple[str, bytes | None]]] = {shard: [] for shard in starts}
        for shard, key, value in records:
            found[shard].append((key, value))
        return {shard: JobsTail(found[shard], ends[shard]) for shard, start in starts.items()}

    def has_run(self, shard: int) -> bool:
        consumer = self._consumer(f"{self._names.prefix}look")
        try:
            low, _ = self._watermarks(consumer, TopicPartition(self._names.commands, shard))
            jobs_low, jobs_high = self._watermarks(consumer, TopicPartition(self._names.jobs, shard))
            return low > 0 or jobs_high > jobs_low
        finally:
            consumer.close()

    def _read(
        self, topic: str, starts: Mapping[int, int]
    ) -> tuple[list[tuple[int, str, bytes | None]], dict[int, int]]:
        """Read partitions, committed records only, up to the end that an uncommitted reader sees now."""
        ends = self._true_ends(topic, list(starts))
        # The end is told by an empty answer, which the broker holds for half a second by default; a takeover has three.
        settings = {"enable.partition.eof": True, "fetch.wait.max.ms": END_WAIT_MS}
        consumer = self._consumer(f"{self._names.prefix}restore", **settings)
        records: list[tuple[int, str, bytes | None]] = []
        try:
            left = {shard for shard, end in ends.items() if end > starts[shard]}
            if not left:
                return records, ends
            consumer.assign([TopicPartition(topic, shard, starts[shard]) for shard in left])
            deadline = time.monotonic() + PATIENCE_S
            while left:
                # consume(n, t) waits for n messages or all of t; poll(t) returns with the first.
                first = consumer.poll(0.5)
                for message in [first, *consumer.consume(5_000, 0)] if first is not None else []:
                    error = message.error()
                    if error is None:
                        records.append((place(message)[0], (message.key() or b"").decode(), message.value()))
                        deadline = time.monotonic() + PATIENCE_S
                    elif error.code() == KafkaError._PARTITION_EOF:
                        # Its offset is the reader's position: markers and aborted records count, hidden ones do not.
                        shard, position = place(message)
                        if position >= ends[shard]:
                            left.discard(shard)
                    elif not error.retriable():
                        raise unavailable(error)
                if left and time.monotonic() > deadline:
                    raise Unavailable("kafka", f"{topic} partitions {sorted(left)} could not be read to their end")
            return records, ends
        finally:
            consumer.close()

    def _true_ends(self, topic: str, shards: list[int]) -> dict[int, int]:
        consumer = self._consumer(f"{self._names.prefix}look", **{"isolation.level": "read_uncommitted"})
        try:
            return {shard: self._watermarks(consumer, TopicPartition(topic, shard))[1] for shard in shards}
        finally:
            consumer.close()

    def _watermarks(self, consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=ANSWER_S)
        except KafkaException as error:
            raise unavailable(error) from error
        return low, high

    def _consumer(self, group: str, **settings: Any) -> Consumer:
        return Consumer(
            {
                **self._base,
                "group.id": group,
                # Nobody may join these groups' coordination by accident; they only ask and read.
                "client.id": f"{self._base['client.id']}-{uuid.uuid4().hex[:6]}",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "message.max.bytes": 3_000_000,
                **settings,
            }
        )
