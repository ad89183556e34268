"""Reading a predecessor's legacy from Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
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
"""How long a takeover waits for the brokers while nothing comes."""
HIDDEN_S: Final = 3.0
"""How long the end of a log may stay hidden by a transaction. The markers of one that is over are written within a
second; for one that is not, or never will be, nobody else is kept waiting."""


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

    def read_states(self, shards: Sequence[int], *, stable: bool = False) -> dict[int, dict[str, bytes]]:
        records, ends = self._read(self._names.shard_state, dict.fromkeys(shards, 0), stable=stable)
        states: dict[int, dict[str, bytes]] = {shard: {} for shard in ends}
        for shard, key, value in records:
            if shard not in ends:
                continue
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
        return {shard: JobsTail(found[shard], end) for shard, end in ends.items()}

    def hidden(self, shards: Sequence[int]) -> set[int]:
        topics = (self._names.shard_state, self._names.jobs)
        found: set[int] = set()
        for topic in topics:
            stable, true = self._ends(topic, shards, stable=True), self._ends(topic, shards, stable=False)
            found |= {shard for shard in shards if stable[shard] < true[shard]}
        return found

    def has_run(self, shard: int) -> bool:
        commands = TopicPartition(self._names.commands, shard)
        # An uncommitted reader is told at once what was committed last, whatever is pending.
        consumer = self._consumer(self._names.group("trigger"), **{"isolation.level": "read_uncommitted"})
        try:
            if self._watermarks(consumer, commands)[0] > 0 or consumer.committed([commands], ANSWER_S)[0].offset >= 0:
                return True
        except KafkaException as error:
            raise unavailable(error) from error
        finally:
            consumer.close()
        # Not by where the log ends: the first turn of all may have been aborted, and left its offsets.
        tail = self.read_jobs({shard: 0}).get(shard)
        return tail is None or bool(tail.records)

    def _read(
        self, topic: str, starts: Mapping[int, int], *, stable: bool = False
    ) -> tuple[list[tuple[int, str, bytes | None]], dict[int, int]]:
        """Read partitions, committed records only, up to the end that an uncommitted reader sees now.

        Returns:
            The records, and the ends of the partitions; without those whose end stays hidden.
        """
        ends = self._ends(topic, list(starts), stable=stable)
        # The end is told by an empty answer, which the broker holds for half a second by default; a takeover has three.
        settings = {"enable.partition.eof": True, "fetch.wait.max.ms": END_WAIT_MS}
        consumer = self._consumer(f"{self._names.prefix}restore", **settings)
        records: list[tuple[int, str, bytes | None]] = []
        try:
            left = {shard for shard, end in ends.items() if end > starts[shard]}
            if not left:
                return records, ends
            consumer.assign([TopicPartition(topic, shard, starts[shard]) for shard in left])
            hidden_since: dict[int, float] = {}
            deadline = time.monotonic() + PATIENCE_S
            while left:
                # consume(n, t) waits for n messages or all of t; poll(t) returns with the first.
                first = consumer.poll(0.5)
                for message in [first, *consumer.consume(5_000, 0)] if first is not None else []:
                    error = message.error()
                    if error is None:
                        records.append((place(message)[0], (message.key() or b"").decode(), message.value()))
                        hidden_since.pop(place(message)[0], None)
                        deadline = time.monotonic() + PATIENCE_S
                    elif error.code() == KafkaError._PARTITION_EOF:
                        # Its offset is the reader's position: markers and aborted records count, hidden ones do not.
                        shard, position = place(message)
                        if position >= ends[shard]:
                            left.discard(shard)
                        else:
                            hidden_since[shard] = time.monotonic()
                    elif not error.retriable():
                        raise unavailable(error)
                for shard in _longer_than(HIDDEN_S, hidden_since, left):
                    log.warning(
                        "a log ends in an open transaction", action="trigger.hidden_end", topic=topic, shard=shard
                    )
                    left.discard(shard)
                    del ends[shard]
                if left and time.monotonic() > deadline:
                    raise Unavailable("kafka", f"{topic} partitions {sorted(left)} could not be read to their end")
            return records, ends
        finally:
            consumer.close()

    def _ends(self, topic: str, shards: Sequence[int], *, stable: bool) -> dict[int, int]:
        """Return the ends of partitions; the stable one is that before the first open transaction."""
        level = "read_committed" if stable else "read_uncommitted"
        consumer = self._consumer(f"{self._names.prefix}look", **{"isolation.level": level})
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


def _longer_than(seconds: float, since: Mapping[int, float], among: Iterable[int]) -> list[int]:
    now = time.monotonic()
    return [shard for shard in among if now - since.get(shard, now) > seconds]
