"""The owner's side of the log on Kafka: two consumers and one transactional producer."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tocsin.adapters.kafka.bounded_call import HUNG_AFTER_S, BoundedCaller, HungCall
from tocsin.adapters.kafka.clients import NO_GENERATION, base_config, group_generation, kafka_error, place, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.errors import OwnershipLost, RecordRefused, Refused, TopicsMissing, TurnAborted, Unavailable
from tocsin.domain.instants import Micros
from tocsin.ports.shard_log import COMMANDS, LogRecord, NewRecord, Polled, ShardTurn

log = structlog.get_logger()

ANSWER_S: Final = 10.0
COMMIT_PATIENCE_S: Final = 30.0
"""How long a commit's answer is waited for before its outcome counts as unknown."""
DELIVERY_SHARE: Final = 0.8
"""Of a transaction's time, how much its records have to be acknowledged in; the rest is for aborting it."""
STALE_MEMBER: Final = frozenset(
    {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
)
"""Refusals of the offsets of a turn that say: the group has changed, the turn is certainly not committed."""
PERMANENT: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""What brokers, or the client in their stead, say of a record that they will never take."""
LATE: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError.REQUEST_TIMED_OUT})
"""Says nothing about any record."""

Delivery = Callable[[KafkaError | None, Message], None]


def _ignored(error: KafkaError | None, message: Message) -> None:
    """A delivery that nobody asks for."""


def _read_from(consumer: Consumer, starts: list[TopicPartition]) -> None:
    """Let a consumer read partitions from given offsets on, whether it has them already or not."""
    assigned = {held.partition for held in consumer.assignment()}
    held = [start for start in starts if start.partition in assigned]
    for start in held:
        consumer.seek(start)
    consumer.resume(held)
    consumer.incremental_assign([start for start in starts if start.partition not in assigned])


class Sent:
    """What becomes of the records of one transaction.

    Attributes:
        jobs_end: by shard, the offset after its last jobs record.
        refused: the first record that is refused for what it is, with the broker's word.
        ahead: by shard, what was sent before the commit was asked for.
        failed: why that did not go on.
    """

    def __init__(self, *, naming: bool) -> None:
        self.jobs_end: dict[int, int] = {}
        self.refused: tuple[RecordRefused, KafkaError] | None = None
        self.ahead: dict[int, Sequence[NewRecord]] = {}
        self.failed: KafkaException | SystemError | None = None
        self._naming = naming

    def belongs_to(self, turns: Sequence[ShardTurn]) -> bool:
        """Tell whether all that was sent ahead is part of these turns."""
        known = {turn.shard: turn.records for turn in turns}
        return all(known.get(shard) is records for shard, records in self.ahead.items())

    def watch(self, shard: int, record: NewRecord) -> Delivery | None:
        """Return what is to be called for a record; None, for calls are dear, where nothing is suspected."""
        if not self._naming:
            return None
        return lambda error, message: self._note(error, shard, record)

    def watch_job(self, shard: int, record: NewRecord) -> Delivery:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.jobs_end[shard] = max(self.jobs_end.get(shard, 0), place(message)[1] + 1)
            self._note(error, shard, record)

        return delivered

    def refuse(self, error: KafkaError, shard: int, record: NewRecord) -> None:
        """Note that the client itself refuses a record."""
        self._note(error, shard, record)

    def _note(self, error: KafkaError | None, shard: int, record: NewRecord) -> None:
        if error is not None and error.code() in PERMANENT and self.refused is None:
            told = f"{error.name()}: {error.str()} ({len(record.value or b'')} bytes)"
            self.refused = (RecordRefused(shard, record.topic, record.key, told), error)


class KafkaShardLog:
    """Fulfils ``ports.shard_log.ShardLog``. Not for use by several threads."""

    def __init__(
        self,
        bootstrap_servers: str,
        names: TopicNames,
        client_id: str,
        *,
        transaction_timeout_s: float = 5.0,
        session_timeout_s: float = 10.0,
        extra: dict[str, str] | None = None,
    ) -> None:
        self._base = base_config(bootstrap_servers, client_id, extra)
        self._names = names
        self._transaction_timeout_s = transaction_timeout_s
        self._admin = AdminClient(self._base)
        # Offsets come from the shard's state alone. A position out of range means lost records: an error, not a reset.
        reader = {
            **self._base,
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
                "heartbeat.interval.ms": int(session_timeout_s * 1000 / 20),
            }
        )
        self._reports = Consumer({**reader, "group.id": names.group("trigger-reports"), "enable.partition.eof": True})
        # The true end: an uncommitted reader sees what an open transaction hides.
        self._looker = Consumer({**reader, "group.id": f"{names.prefix}look", "isolation.level": "read_uncommitted"})
        self._producer: Producer | None = None
        self._caller = BoundedCaller()
        self._topic_names: dict[str, str] = {}
        self._naming = False
        """The last turn was refused, and nobody knows for which record: the next one is asked for each of its own."""
        self._open: Sent | None = None
        """The transaction that is begun and not ended, if anything was sent ahead."""
        self._news = Polled()
        self._on_revoke: Callable[[set[int]], None] = lambda _: None
        self.is_member = False
        """An assignment has come, be it an empty one."""

    def join(self, on_revoke: Callable[[set[int]], None]) -> None:
        self._on_revoke = on_revoke
        self._commands.subscribe(
            [self._names.commands], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def leave(self) -> None:
        # The callback of the revoke comes from within the next poll.
        self._commands.unsubscribe()
        self.is_member = False

    def begin(self, starts: Mapping[int, tuple[int, int]]) -> None:
        commands = [TopicPartition(self._names.commands, shard, offset) for shard, (offset, _) in starts.items()]
        reports = [TopicPartition(self._names.reports, shard, offset) for shard, (_, offset) in starts.items()]
        _read_from(self._commands, commands)
        _read_from(self._reports, reports)

    def renew(self, transactional_id: str) -> None:
        # The former producer is only dropped: whatever it left open is fenced by the takeover that follows.
        self._open = None
        self._producer = Producer(
            {
                **self._base,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": int(self._transaction_timeout_s * 1000),
                # Given up while the transaction is still ours to abort: once its time is over the coordinator aborts
                # it, and fences us as a successor would.
                "message.timeout.ms": int(self._transaction_timeout_s * DELIVERY_SHARE * 1000),
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
        try:
            self._producer.init_transactions(ANSWER_S)
        except KafkaException as error:
            raise unavailable(error) from error

    def poll(self, wait_s: float, commands_max: int, reports_max: int) -> Polled:
        # consume(n, t) waits for n messages or all of t; poll(t) returns with the first.
        first = self._commands.poll(wait_s)
        rest = self._commands.consume(commands_max, 0)
        polled, self._news = self._news, Polled()
        polled.commands = [r for r in map(self._record, [first, *rest]) if r is not None]
        for message in self._reports.consume(reports_max, 0):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                # The reader's position: markers and aborted records count, records behind an open transaction do not.
                shard, position = place(message)
                polled.reports_seen[shard] = position
            elif (record := self._record(message)) is not None:
                polled.reports.append(record)
        return polled

    def reports_end(self, shard: int) -> int:
        try:
            return self._looker.get_watermark_offsets(TopicPartition(self._names.reports, shard), timeout=ANSWER_S)[1]
        except KafkaException as error:
            raise unavailable(error) from error

    def pause(self, shard: int) -> None:
        self._commands.pause([TopicPartition(self._names.commands, shard)])

    def resume(self, shard: int) -> None:
        self._commands.resume([TopicPartition(self._names.commands, shard)])

    def send_ahead(self, turn: ShardTurn) -> None:
        producer = self._producer
        assert producer is not None, "renew comes before the first turn"
        if self._naming:
            return
        sent = self._open = self._open or Sent(naming=False)
        try:
            if not sent.ahead:
                producer.begin_transaction()
            sent.ahead[turn.shard] = turn.records
            if sent.failed is None:
                self._produce_all(producer, turn, sent)
        except (KafkaException, SystemError) as error:
            sent.failed = error

    def commit(self, turns: Sequence[ShardTurn]) -> dict[int, int]:
        metadata = self._commands.consumer_group_metadata()
        offsets = [TopicPartition(self._names.commands, turn.shard, turn.commands_offset) for turn in turns]
        assert all(offset.offset >= 0 for offset in offsets), "an invalid offset would let the transaction go unchecked"
        producer = self._producer
        assert producer is not None, "renew comes before the first commit"
        ahead, self._open = self._open, None
        sent = ahead or Sent(naming=self._naming)
        try:
            if ahead is not None and ahead.failed is not None:
                raise ahead.failed
            is_member = group_generation(metadata) != NO_GENERATION
            if ahead is not None and not (is_member and ahead.belongs_to(turns)):
                producer.abort_transaction(ANSWER_S)
                ahead, sent = None, Sent(naming=self._naming)
            if not is_member:
                raise TurnAborted("this trigger is not a member of its group; its transaction would commit unchecked")
            if ahead is None:
                producer.begin_transaction()
            for turn in turns:
                if turn.shard not in sent.ahead:
                    self._produce_all(producer, turn, sent)
            # Offsets after records: a successor's question for our offsets is then held until all of this is decided.
            producer.flush(self._transaction_timeout_s)
            if sent.refused is None:
                self._send_offsets(producer, offsets, metadata)
                self._commit_transaction(producer)
        except (KafkaException, SystemError) as error:
            raise self._not_committed(producer, turns, sent, kafka_error(error)) from error
        except HungCall as error:
            # Its transaction is never committed: who renews fences it, and restores.
            self._caller = BoundedCaller()
            raise self._missing(turns) or OwnershipLost(f"a turn was not committed: {error}") from error
        if sent.refused is not None:
            raise self._not_committed(producer, turns, sent, sent.refused[1])
        self._naming = False
        jobs_end = sent.jobs_end
        for turn in turns:
            if turn.jobs and turn.shard not in jobs_end:
                raise AssertionError(f"shard {turn.shard}: a committed turn has no offsets of its jobs records")
        return jobs_end

    def _send_offsets(self, producer: Producer, offsets: list[TopicPartition], metadata: Any) -> None:
        """Add the offsets to the transaction; no longer than it lasts, for then the coordinator aborts it anyway."""
        wait_s = self._transaction_timeout_s

        def send() -> None:
            producer.send_offsets_to_transaction(offsets, metadata, wait_s)

        self._caller.call(send, wait_s + HUNG_AFTER_S)

    def _commit_transaction(self, producer: Producer) -> None:
        """Commit, asking again while the answer is only late: the call goes on where it was."""
        deadline = time.monotonic() + COMMIT_PATIENCE_S
        while True:
            try:
                producer.commit_transaction(ANSWER_S)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _not_committed(
        self, producer: Producer, turns: Sequence[ShardTurn], sent: Sent, error: KafkaError
    ) -> TurnAborted | RecordRefused | OwnershipLost:
        """Abort a turn whose transaction failed, and say what is to become of it."""
        told = f"a turn was not committed: {unavailable(error)}"
        if not error.fatal() and (error.txn_requires_abort() or sent.refused is not None):
            try:
                producer.abort_transaction(ANSWER_S)
            except KafkaException as second:
                told = f"{told}; nor could it be aborted: {unavailable(second)}"
            else:
                if error.code() in STALE_MEMBER:
                    return TurnAborted(told)
                if sent.refused is not None:
                    return sent.refused[0]
                if error.retriable() or error.code() in LATE:
                    # A broker is away, and another will lead its partitions soon: nothing is in doubt.
                    return self._missing(turns) or TurnAborted(told)
                if not self._naming:
                    # Which record it was is not known without a callback for each. Once more, and it will be.
                    self._naming = True
                    return TurnAborted(told)
        self._naming = False
        return self._missing(turns) or OwnershipLost(told)

    def _missing(self, turns: Sequence[ShardTurn]) -> TopicsMissing | None:
        """A missing topic shows as a timeout, and as a fence that nobody meant; so one looks."""
        touched = {record.topic for turn in turns for record in [*turn.records, *turn.jobs]}
        try:
            missing = touched - set(self.partition_counts(touched))
        except Unavailable:
            return None
        return TopicsMissing(sorted(missing)) if missing else None

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        try:
            known = self._admin.list_topics(timeout=ANSWER_S).topics
        except KafkaException as error:
            raise unavailable(error) from error
        prefix = self._names.prefix
        return {topic: len(known[prefix + topic].partitions) for topic in topics if prefix + topic in known}

    def _produce_all(self, producer: Producer, turn: ShardTurn, sent: Sent) -> None:
        """Produce the records of a turn; of a burst each call counts, so what most of them are goes the short way."""
        produce, names = producer.produce, self._topic_names
        for record in turn.records:
            topic, partition, key, value, timestamp = record
            if timestamp is not None or self._naming:
                self._produce(producer, turn.shard, record, sent, sent.watch(turn.shard, record))
                continue
            try:
                produce(names.get(topic) or self._name_of(topic), value, key, partition)
            except (BufferError, KafkaException):
                # Nothing was produced: it is tried again, and judged, the long way.
                self._produce(producer, turn.shard, record, sent, None)
        for record in turn.jobs:
            self._produce(producer, turn.shard, record, sent, sent.watch_job(turn.shard, record))

    def _name_of(self, topic: str) -> str:
        return self._topic_names.setdefault(topic, f"{self._names.prefix}{topic}")

    def _produce(
        self, producer: Producer, shard: int, record: NewRecord, sent: Sent, on_delivery: Delivery | None
    ) -> None:
        topic = self._name_of(record.topic)
        while True:
            try:
                if record.timestamp is not None:
                    milliseconds = record.timestamp // 1000
                    told = on_delivery or _ignored
                    producer.produce(topic, record.value, record.key, record.partition, told, timestamp=milliseconds)
                elif on_delivery is None:
                    producer.produce(topic, record.value, record.key, record.partition)
                else:
                    producer.produce(topic, record.value, record.key, record.partition, on_delivery)
                return
            except BufferError:
                producer.poll(0.05)
            except KafkaException as error:
                sent.refuse(error.args[0], shard, record)
                raise

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
            # Calls ``on_revoke`` for what is still owned, so the successor finds it released.
            self._commands.close()
        self._reports.close()
        self._looker.close()
        self._caller.close()

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

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.is_member = True
        # Nothing is read before the takeover has said from where. Nor may a logical offset stand in until then: the
        # client asks for its meaning in the background, and an answer that comes after a seek undoes that seek; what
        # was appended in between would be lost without a word. An empty assignment tells the client that it is done.
        consumer.incremental_assign([])
        self._news.assigned |= {partition.partition for partition in partitions}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        shards = {partition.partition for partition in partitions}
        if shards:
            self._on_revoke(shards)
        self._let_go(shards)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        shards = {partition.partition for partition in partitions}
        self._let_go(shards)
        self._news.lost |= shards

    def _let_go(self, shards: set[int]) -> None:
        """Read these shards no more. The client would unassign all of them by itself, were it not told which it has."""
        self._news.assigned -= shards
        for consumer in (self._commands, self._reports):
            consumer.incremental_unassign([p for p in consumer.assignment() if p.partition in shards])
