"""The message lane on Kafka: consume, transform, produce, in transactions. Fulfils ``ports.message_log``.

The group's generation goes with every transaction, so the broker refuses one of a member that the group has left
behind (KIP-447); a transactional id of this process's own is what ``fence`` bars.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from tocsin.adapters.kafka.bounded_call import HUNG_AFTER_S, BoundedCaller, HungCall
from tocsin.adapters.kafka.clients import NO_GENERATION, base_config, group_generation, unavailable
from tocsin.adapters.kafka.dispatch_log import MISCONFIGURED, REFUSALS, KafkaDispatchLog
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.tenant_topics import TenantTopics, message_bytes, refusal_of
from tocsin.domain.errors import Refused, TocsinError
from tocsin.domain.executions import AttemptError
from tocsin.domain.sharding import shard_of
from tocsin.ports.dispatch_log import AssignmentListener, Delivery, Start
from tocsin.ports.message_log import Message, Settlement, TransactionOutcome, TransactionResult

log = structlog.get_logger()

ANSWER_S: Final = 10.0
COMMITTED_TRY_S: Final = 5.0
LAST_FENCE_S: Final = 3.0
"""How long a revoke waits for the end of a transaction of unknown outcome; the brokers end it too, only later."""
BATCH_BYTES: Final = 1_000_000
"""Of one batch to one partition. Topics that take less get their records in several."""
LOCAL_FAILURES: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""What records that were never at fault get, once the transaction has failed over another."""


def transactions_config(
    bootstrap_servers: str,
    client_id: str,
    transactional_id: str,
    transaction_timeout_s: float,
    extra: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return the settings of the lane's producer.

    Args:
        transactional_id: new at every start of a process.
        transaction_timeout_s: after which the brokers abort; readers of committed records wait so long for the dead.
    """
    timeout_ms = int(transaction_timeout_s * 1000)
    return base_config(bootstrap_servers, client_id, extra) | {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        # Shorter than the transaction, so that a topic that takes no records is known while the transaction lives.
        "message.timeout.ms": max(1_000, timeout_ms * 3 // 5),
        "topic.metadata.propagation.max.ms": 1_000,
        # What other clients of a tenant use, so that a key always meets the same partition.
        "partitioner": "murmur2_random",
        "linger.ms": 0,
        # Bounds of topics are checked before, by the uncompressed size.
        "compression.type": "none",
        "message.max.bytes": 2_000_000,
        "batch.size": BATCH_BYTES,
        # The next transaction meets the markers of the last; 100 ms, the default, would be the transaction's length.
        "retry.backoff.ms": 1,
        "retry.backoff.max.ms": 10,
    }


@dataclass(slots=True)
class _Deliveries:
    """What the brokers said of the records of one transaction."""

    reports: int = 0
    """How many were taken."""
    failures: dict[int, KafkaError] = field(default_factory=dict)
    """Of messages, by their settlement's place."""
    report_failure: KafkaError | None = None

    @property
    def first(self) -> KafkaError | None:
        """Return an error that tells something."""
        errors = [*self.failures.values(), *filter(None, [self.report_failure])]
        telling = [error for error in errors if error.code() not in LOCAL_FAILURES]
        return next(iter(telling or errors), None)


class KafkaMessageLog:
    """Fulfils ``ports.message_log.MessageLog``.

    Args:
        lane: the membership in the lane's group.
        lane_topic: its topic.
        names: of the cluster's topics.
        shards: partitions of reports.
        producer: from ``transactions_config``.
        topics: what is known of tenants' topics.
    """

    def __init__(
        self,
        lane: KafkaDispatchLog,
        lane_topic: str,
        names: TopicNames,
        shards: int,
        producer: dict[str, Any],
        topics: TenantTopics,
    ) -> None:
        self._lane = lane
        self._lane_topic = lane_topic
        self._reports_topic = names.reports
        self._shards = shards
        self._config = producer
        self._timeout_s = producer["transaction.timeout.ms"] / 1000
        self._topics = topics
        self._caller = BoundedCaller()
        self._producer: Producer | None = None
        """None: a transaction may be under way, or none was possible yet; ``fence`` makes a new one."""
        self._in_doubt = False
        self._listener: AssignmentListener | None = None
        self._metadata = b""

    # Membership

    def join(self, listener: AssignmentListener) -> None:
        self._listener = listener
        self._lane.join(self)

    def poll(self, limit: int, wait_s: float) -> list[Delivery]:
        # Before the callbacks of this poll, not after: a generation that is newer than what they have told could
        # belong to a membership in which the partitions are another's.
        self._metadata = self._lane.group_metadata()
        return self._lane.poll(limit, wait_s)

    def pause(self, partitions: Collection[int]) -> None:
        self._lane.pause(partitions)

    def resume(self, partitions: Collection[int]) -> None:
        self._lane.resume(partitions)

    def close(self) -> None:
        self._end_doubt()
        self._lane.close()
        self._caller.close()
        self._producer = None

    # The lane's listener

    def assigned(self, starts: Sequence[Start]) -> None:
        self._told.assigned(starts)

    def revoked(self, partitions: Collection[int]) -> None:
        self._end_doubt()
        self._told.revoked(partitions)

    def lost(self, partitions: Collection[int]) -> None:
        self._end_doubt()
        self._told.lost(partitions)

    @property
    def _told(self) -> AssignmentListener:
        assert self._listener is not None, "join first"
        return self._listener

    def _end_doubt(self) -> None:
        """End a transaction of unknown outcome, so that a successor need not wait for the brokers to do it."""
        if not self._in_doubt:
            return
        try:
            self._renew(LAST_FENCE_S)
        except TocsinError as error:
            text = "a transaction is left to the brokers to end"
            log.warning(text, action="message_lane.transaction_left", error=str(error))

    # Transactions

    def examine(self, messages: Sequence[Message]) -> list[AttemptError | None]:
        self._topics.learn({message.topic for message in messages})
        return [self._topics.refusal(message) for message in messages]

    def transact(self, settlements: Sequence[Settlement]) -> TransactionResult:
        producer = self._producer
        assert producer is not None, "fence first"
        # Under no generation the broker would take the offsets without any check.
        if not self._metadata or group_generation(self._metadata) == NO_GENERATION:
            return TransactionResult(TransactionOutcome.MOVED_ON)
        offsets = self._offsets(settlements)
        deliveries = _Deliveries()
        try:
            producer.begin_transaction()
            self._produce(producer, settlements, deliveries)
            # Before the offsets: a successor's question for them then waits for nothing that may yet take long.
            left = producer.flush(self._timeout_s)
            if left or deliveries.first is not None:
                return self._aborted(producer, settlements, deliveries, deliveries.first)
            self._send_offsets(producer, offsets)
        except KafkaException as exception:
            return self._aborted(producer, settlements, deliveries, exception.args[0])
        except HungCall:
            self._caller = BoundedCaller()
            return self._unknown(settlements, None)
        try:
            producer.commit_transaction(ANSWER_S)
        except KafkaException as exception:
            return self._unknown(settlements, exception.args[0])
        return TransactionResult(TransactionOutcome.COMMITTED)

    def _send_offsets(self, producer: Producer, offsets: list[TopicPartition]) -> None:
        metadata, wait_s = self._metadata, self._timeout_s

        def send() -> None:
            producer.send_offsets_to_transaction(offsets, metadata, wait_s)

        self._caller.call(send, wait_s + HUNG_AFTER_S)

    def _offsets(self, settlements: Sequence[Settlement]) -> list[TopicPartition]:
        last = {settlement.partition: settlement for settlement in settlements}
        # The client sends nothing for an invalid offset, and the transaction would commit unchecked.
        assert last and min(one.offset for one in last.values()) >= 0, "every transaction settles something"
        return [TopicPartition(self._lane_topic, p, one.offset + 1, one.metadata) for p, one in last.items()]

    def _produce(self, producer: Producer, settlements: Sequence[Settlement], deliveries: _Deliveries) -> None:
        def report_delivered(error: KafkaError | None, _message: Any) -> None:
            if error is None:
                deliveries.reports += 1
            elif deliveries.report_failure is None:
                deliveries.report_failure = error

        waiting: dict[str, int] = {}
        """Bytes to each topic whose own bound is less than a batch."""
        for place, (_, _, message, report, _) in enumerate(settlements):
            if message is not None:
                self._keep_batches_small(producer, message, waiting)
                self._produce_message(producer, place, message, deliveries)
            if report is not None:
                key, shard = report.job_id.encode(), shard_of(report.job_id, self._shards)
                producer.produce(self._reports_topic, report.value, key, shard, on_delivery=report_delivered)

    def _keep_batches_small(self, producer: Producer, message: Message, waiting: dict[str, int]) -> None:
        bound = self._topics.message_bytes_max(message.topic)
        if bound < BATCH_BYTES:
            size = message_bytes(message)
            if waiting.get(message.topic, 0) + size > bound:
                producer.flush(self._timeout_s)
                waiting.clear()
            waiting[message.topic] = waiting.get(message.topic, 0) + size

    def _produce_message(self, producer: Producer, place: int, message: Message, deliveries: _Deliveries) -> None:
        def delivered(error: KafkaError | None, _message: Any) -> None:
            if error is not None:
                deliveries.failures[place] = error

        topic, key, value, headers = message
        try:
            producer.produce(topic, value, key, headers=list(headers), on_delivery=delivered)
        except KafkaException as exception:
            deliveries.failures[place] = exception.args[0]

    # What failed

    def _aborted(
        self,
        producer: Producer,
        settlements: Sequence[Settlement],
        deliveries: _Deliveries,
        error: KafkaError | None,
    ) -> TransactionResult:
        """Abort. Whatever cannot be told for sure becomes an unknown outcome: fencing is cheap, and always right."""
        try:
            producer.abort_transaction(ANSWER_S)
        except KafkaException as exception:
            return self._unknown(settlements, error or exception.args[0])
        if error is not None and error.code() in MISCONFIGURED - {KafkaError.TOPIC_AUTHORIZATION_FAILED}:
            raise Refused(f"cannot settle executions of {self._lane_topic}: {error.name()}: {error.str()}")
        if error is not None and error.code() in REFUSALS:
            self._say("the group has moved on: a transaction was aborted", settlements, error)
            return TransactionResult(TransactionOutcome.MOVED_ON)
        self._forget(settlements)
        if len(settlements) > 1 and deliveries.failures:
            self._say("a transaction was aborted; its executions are settled one by one", settlements, error)
            return TransactionResult(TransactionOutcome.ABORTED)
        refusal = self._refusal(settlements[0], deliveries, error) if len(settlements) == 1 else None
        if refusal is None:
            return self._unknown(settlements, error)
        return TransactionResult(TransactionOutcome.ABORTED, refusal)

    def _refusal(
        self, settlement: Settlement, deliveries: _Deliveries, error: KafkaError | None
    ) -> AttemptError | None:
        """Return what the only message of a transaction met, if it is the message's own fault."""
        message = settlement.message
        if message is None:
            return None
        failures = [failure for failure in (deliveries.failures.get(0), error) if failure is not None]
        refusal = next(filter(None, (refusal_of(message.topic, failure.code()) for failure in failures)), None)
        if refusal is None and deliveries.reports and not deliveries.report_failure:
            # The brokers took the report and not the message: they work, the topic does not.
            refusal = self._topics.took_nothing(message.topic)
        return refusal

    def _unknown(self, settlements: Sequence[Settlement], error: KafkaError | None) -> TransactionResult:
        self._say("a transaction is of unknown outcome: its id is fenced", settlements, error)
        self._forget(settlements)
        self._producer, self._in_doubt = None, True
        return TransactionResult(TransactionOutcome.UNKNOWN)

    def _forget(self, settlements: Sequence[Settlement]) -> None:
        self._topics.forget({s.message.topic for s in settlements if s.message is not None})

    def _say(self, text: str, settlements: Sequence[Settlement], error: KafkaError | None) -> None:
        problem = "no answer in time" if error is None else f"{error.name()}: {error.str()}"
        log.warning(text, action="message_lane.transaction_failed", executions=len(settlements), error=problem)

    # Fencing

    def fence(self, partitions: Collection[int]) -> Mapping[int, int | None]:
        if self._producer is None:
            self._renew(ANSWER_S)
        if not partitions:
            return {}
        # Its answer waits for open transactions, also for those of a predecessor that died.
        return {start.partition: start.offset for start in self._lane.read_committed(partitions, COMMITTED_TRY_S)}

    def _renew(self, wait_s: float) -> None:
        """Bar the own transactional id for what was sent under it before: the brokers end that first."""
        producer = Producer(self._config)
        try:
            producer.init_transactions(wait_s)
        except KafkaException as exception:
            error = exception.args[0]
            if error.code() in (
                KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                KafkaError.CLUSTER_AUTHORIZATION_FAILED,
                KafkaError.INVALID_TRANSACTION_TIMEOUT,
                KafkaError.UNSUPPORTED_VERSION,
                KafkaError._UNSUPPORTED_FEATURE,
            ):
                raise Refused(f"cannot write in transactions: {error.name()}: {error.str()}") from exception
            raise unavailable(error) from exception
        self._producer, self._in_doubt = producer, False
