"""The owner's side of the log on Kafka: two consumers and one transactional producer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tocsin.adapters.kafka.clients import base_config, place, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.errors import Refused
from tocsin.domain.instants import Micros
from tocsin.ports.shard_log import COMMANDS, LogRecord, NewRecord, Polled, ShardTurn

log = structlog.get_logger()

ANSWER_S: Final = 10.0
NO_GENERATION: Final = -1
_METADATA_MAGIC: Final = b"CGMDv2:"


def group_generation(metadata: bytes) -> int:
    """Return the generation inside librdkafka's opaque group metadata; -1 before the first join.

    A commit under generation -1 is accepted by the coordinator without any check, so it must never be sent.
    """
    if not metadata.startswith(_METADATA_MAGIC):
        raise Refused("this librdkafka describes its group membership in an unknown form; tocsin needs 2.x")
    start = len(_METADATA_MAGIC)
    return int.from_bytes(metadata[start : start + 4], "little", signed=True)


class KafkaShardLog:
    """Fulfils ``ports.shard_log.ShardLog``. Not for use by several threads.

    Args:
        transactional_id: new at every start; a successor fences it.
        starts: for each shard the next command and the next report to read; given after the takeover by ``begin``.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        names: TopicNames,
        client_id: str,
        transactional_id: str,
        *,
        transaction_timeout_s: float = 5.0,
        session_timeout_s: float = 10.0,
        extra: dict[str, str] | None = None,
    ) -> None:
        base = base_config(bootstrap_servers, client_id, extra)
        self._names = names
        self._transaction_timeout_s = transaction_timeout_s
        self._admin = AdminClient(base)
        # Offsets come from the shard's state alone. A position out of range means lost records: an error, not a reset.
        reader = {
            **base,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
        self._commands = Consumer(
            {
                **reader,
                "group.id": names.group("trigger"),
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": int(session_timeout_s * 1000),
                "heartbeat.interval.ms": int(session_timeout_s * 1000 / 10),
            }
        )
        self._reports = Consumer({**reader, "group.id": names.group("trigger-reports")})
        self._producer = Producer(
            {
                **base,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": int(transaction_timeout_s * 1000),
                "partitioner": "murmur2_random",
                "linger.ms": 0,
                "compression.type": "lz4",
                "message.max.bytes": 3_000_000,
                "batch.size": 900_000,
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": 512_000,
                # The next transaction meets the markers of the last; 100 ms, the default, would be the turn's length.
                "retry.backoff.ms": 1,
                "retry.backoff.max.ms": 10,
            }
        )
        self._assigned: set[int] = set()
        self._revoked = False

    def join(self, shards: int, patience_s: float, keep_waiting: Any = None) -> None:
        """Join the group, and return when all shards are assigned to this process; they stay paused.

        Raises:
            Refused: they were not within ``patience_s``: another trigger is alive.
        """
        self._commands.subscribe(
            [self._names.commands], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        deadline = time.monotonic() + patience_s
        while len(self._assigned) < shards:
            self._raise_for(self._commands.poll(0.1))
            if time.monotonic() > deadline or (keep_waiting is not None and not keep_waiting()):
                missing = sorted(set(range(shards)) - self._assigned)
                raise Refused(
                    f"shards {missing} were not assigned to this trigger within {patience_s:.0f} s: another trigger of "
                    "the cluster is alive. This version runs one trigger; stop the other, or this one"
                )

    def begin(self, starts: dict[int, tuple[int, int]]) -> None:
        """Start the producer, and read commands and reports from these offsets on."""
        try:
            self._producer.init_transactions(ANSWER_S)
        except KafkaException as error:
            raise unavailable(error) from error
        for shard, (command, _) in starts.items():
            partition = TopicPartition(self._names.commands, shard, command)
            self._commands.seek(partition)
            self._commands.resume([partition])
        self._reports.assign([TopicPartition(self._names.reports, s, report) for s, (_, report) in starts.items()])

    def poll(self, wait_s: float, commands_max: int, reports_max: int) -> Polled:
        polled = Polled()
        # consume(n, t) waits for n messages or all of t; poll(t) returns with the first.
        first = self._commands.poll(wait_s)
        rest = self._commands.consume(commands_max, 0)
        polled.commands = [r for r in map(self._record, [first, *rest]) if r is not None]
        polled.reports = [r for r in map(self._record, self._reports.consume(reports_max, 0)) if r is not None]
        polled.revoked = self._revoked
        return polled

    def pause(self, shard: int) -> None:
        self._commands.pause([TopicPartition(self._names.commands, shard)])

    def resume(self, shard: int) -> None:
        self._commands.resume([TopicPartition(self._names.commands, shard)])

    def commit(self, turns: Sequence[ShardTurn]) -> dict[int, int]:
        metadata = self._commands.consumer_group_metadata()
        if group_generation(metadata) == NO_GENERATION:
            raise Refused("this trigger is not a member of its group; its transaction would commit unchecked")
        offsets = [TopicPartition(self._names.commands, turn.shard, turn.commands_offset) for turn in turns]
        assert all(offset.offset >= 0 for offset in offsets), "an invalid offset would let the transaction go unchecked"
        jobs_end: dict[int, int] = {}

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                shard, offset = place(message)
                jobs_end[shard] = max(jobs_end.get(shard, 0), offset + 1)

        producer, prefix = self._producer, self._names.prefix
        try:
            producer.begin_transaction()
            for turn in turns:
                for record in turn.records:
                    self._produce(f"{prefix}{record.topic}", record)
                for record in turn.jobs:
                    self._produce(f"{prefix}{record.topic}", record, delivered)
            # Offsets after records: a successor's question for our offsets is then held until all of this is decided.
            producer.flush(self._transaction_timeout_s)
            producer.send_offsets_to_transaction(offsets, metadata, ANSWER_S)
            producer.commit_transaction(ANSWER_S)
        except KafkaException as error:
            raise Refused(f"a turn was not committed: {unavailable(error)}") from error
        for turn in turns:
            if turn.jobs and turn.shard not in jobs_end:
                raise AssertionError(f"shard {turn.shard}: a committed turn has no offsets of its jobs records")
        return jobs_end

    def _produce(self, topic: str, record: NewRecord, on_delivery: Any = None) -> None:
        while True:
            try:
                if on_delivery is None:
                    self._producer.produce(topic, record.value, record.key, record.partition)
                else:
                    self._producer.produce(topic, record.value, record.key, record.partition, on_delivery)
                return
            except BufferError:
                self._producer.poll(0.05)

    def trim(self, topic: str, shard: int, below: int, older_than: Micros) -> None:
        name = f"{self._names.prefix}{topic}"
        consumer = self._commands if topic == COMMANDS else self._reports
        try:
            found = consumer.offsets_for_times([TopicPartition(name, shard, older_than // 1000)], ANSWER_S)
            upto = min(below, found[0].offset) if found[0].offset >= 0 else below
            if upto > 0:
                self._admin.delete_records([TopicPartition(name, shard, upto)])
        except KafkaException as error:
            log.warning("could not trim a log", action="trigger.trim_failed", topic=name, shard=shard, error=str(error))

    def close(self, leave: bool) -> None:
        if leave:
            self._commands.close()
        self._reports.close()

    def _record(self, message: Message | None) -> LogRecord | None:
        if message is None or self._raise_for(message):
            return None
        return LogRecord(*place(message), message.timestamp()[1] * 1000, message.key(), message.value())

    def _raise_for(self, message: Message | None) -> bool:
        """Tell whether a message is only a passing error; raise where it is one that does not pass."""
        error = message.error() if message is not None else None
        if error is None:
            return False
        if error.fatal() or error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise Refused(f"the log cannot be read on from where the shard's state ends: {unavailable(error)}")
        log.warning("the log does not answer", action="trigger.log_error", error=error.str())
        return True

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = 0
        consumer.incremental_assign(partitions)
        # Nothing is read before the takeover has said from where.
        consumer.pause(partitions)
        self._assigned |= {partition.partition for partition in partitions}

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._revoked = True
            self._assigned -= {partition.partition for partition in partitions}
