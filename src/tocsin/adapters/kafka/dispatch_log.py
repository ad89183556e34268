"""A lane's topic, read as a member of its consumer group. Fulfils ``ports.dispatch_log``."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import structlog
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from tocsin.adapters.kafka.clients import base_config, group_generation, unavailable
from tocsin.domain.errors import Refused, Unavailable
from tocsin.ports.dispatch_log import AssignmentListener, CommitOutcome, Delivery, Mark, Start

log = structlog.get_logger()

REFUSALS: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError._ASSIGNMENT_LOST,
    }
)
"""Answers that say "the group has moved on, nothing was written"."""
MISCONFIGURED: Final = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError.UNSUPPORTED_ASSIGNOR,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
"""What no repetition mends."""
COMMITTED_TRY_S: Final = 5.0
COMMITTED_WAIT_MAX_S: Final = 60.0
"""How long a new assignment waits for what was committed; the broker holds the answer while transactions are open."""
LOOP_SILENCE_MAX_MS: Final = 120_000
"""A member that has not polled for so long is taken out of the group."""


def consumer_config(
    bootstrap_servers: str,
    group: str,
    client_id: str,
    protocol: str,
    session_timeout_s: float,
    prefetch_bytes_max: int,
    extra: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return the settings of a lane's consumer.

    Args:
        protocol: ``consumer`` (KIP-848; session and heartbeat are the broker's settings there) or ``classic``.
    """
    config = base_config(bootstrap_servers, client_id, extra) | {
        "group.id": group,
        "group.protocol": protocol,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": LOOP_SILENCE_MAX_MS,
        # A commit that is not answered within this is of unknown outcome; the default is a minute.
        "socket.timeout.ms": 10_000,
        "queued.max.messages.kbytes": max(1_024, prefetch_bytes_max // 1_024),
        "fetch.max.bytes": max(1_100_000, prefetch_bytes_max),
        "message.max.bytes": 1_100_000,
        # A resumed partition is asked for only after the fetch that waits for others has returned.
        "fetch.wait.max.ms": 100,
        # A full local queue is looked at again soon; the default of a second would be added to lateness.
        "fetch.queue.backoff.ms": 20,
    }
    if protocol == "classic":
        config |= {
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": int(session_timeout_s * 1000),
            # Commits wait behind a held JoinGroup: the sooner members hear of a rebalance, the shorter.
            "heartbeat.interval.ms": 500,
        }
    return config


def _start(answer: TopicPartition, end: int = 0) -> Start:
    offset = None if answer.offset == OFFSET_INVALID else answer.offset
    return Start(answer.partition, offset, answer.metadata or "", end)


class KafkaDispatchLog:
    """Fulfils ``ports.dispatch_log.DispatchLog``.

    Args:
        topic: of the lane.
        config: from ``consumer_config``.
    """

    def __init__(self, topic: str, config: dict[str, Any]) -> None:
        self._topic = topic
        self._config = config
        self._listener: AssignmentListener | None = None
        self._consumer: Consumer | None = None
        self._paused: set[int] = set()
        self._gone: set[int] = set()
        """Partitions that were revoked or lost since the current poll began."""
        self._closing = False
        self._told = False
        """The listener has heard of an assignment since this member joined."""
        self._untold: set[int] = set()
        """Partitions that came only while this member was leaving: nobody was told of them."""

    def join(self, listener: AssignmentListener) -> None:
        self._listener = listener
        self._enter()

    def _enter(self) -> None:
        consumer = Consumer(self._config)
        consumer.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)
        self._consumer = consumer
        self._told = False
        self._paused.clear()

    def poll(self, limit: int, wait_s: float) -> list[Delivery]:
        consumer = self._member()
        self._gone.clear()
        # consume() alone would wait for all of `limit`, or the whole time.
        first = consumer.poll(wait_s)
        if first is None:
            if not self._told and group_generation(consumer.consumer_group_metadata()) > 0:
                # A member for whom no partition is left is not told so; it is one all the same.
                self._told = True
                self._tell(lambda listener: listener.assigned([]))
            return []
        messages: list[Any] = [first]
        if limit > 1:
            messages += consumer.consume(limit - 1, 0)
        if self._gone:
            # The partition went after its record was taken out: it comes again, here or elsewhere.
            messages = [m for m in messages if m is not first or m.partition() not in self._gone]
        deliveries = []
        for message in messages:
            error = message.error()
            if error is None:
                deliveries.append(Delivery(message.partition(), message.offset(), message.key(), message.value()))
            else:
                self._on_error(error)
        return deliveries

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in MISCONFIGURED:
            group = self._config["group.id"]
            raise Refused(f"cannot read {self._topic} as a member of {group}: {error.name()}: {error.str()}")
        log.warning("the log reports a problem", action="kafka.consumer_error", topic=self._topic, error=error.str())

    def commit(self, marks: Sequence[Mark]) -> CommitOutcome:
        if not marks:
            return CommitOutcome.ACCEPTED
        offsets = [TopicPartition(self._topic, mark.partition, mark.offset, mark.metadata) for mark in marks]
        try:
            answers = self._member().commit(offsets=offsets, asynchronous=False)
        except KafkaException as exception:
            return self._outcome(exception.args[0])
        errors = [answer.error for answer in answers if answer.error is not None]
        outcomes = {self._outcome(error) for error in errors}
        if CommitOutcome.UNKNOWN in outcomes:
            return CommitOutcome.UNKNOWN
        return CommitOutcome.REFUSED if outcomes else CommitOutcome.ACCEPTED

    def _outcome(self, error: KafkaError) -> CommitOutcome:
        if error.code() in MISCONFIGURED:
            raise Refused(f"cannot commit offsets of {self._topic}: {error.name()}: {error.str()}")
        known = error.code() in REFUSALS
        log.warning(
            "an offset commit was refused" if known else "an offset commit is of unknown outcome",
            action="kafka.commit_refused" if known else "kafka.commit_unknown",
            topic=self._topic,
            error=error.name(),
        )
        return CommitOutcome.REFUSED if known else CommitOutcome.UNKNOWN

    def pause(self, partitions: Collection[int]) -> None:
        self._member().pause(self._places(partitions))
        self._paused.update(partitions)

    def resume(self, partitions: Collection[int]) -> None:
        self._member().resume(self._places(partitions))
        self._paused.difference_update(partitions)

    def rejoin(self) -> None:
        self.close()
        self._enter()

    def close(self) -> None:
        if self._consumer is not None:
            self._closing = True
            try:
                self._consumer.close()  # revokes, which calls the listener, and leaves the group
            finally:
                self._closing = False
                self._consumer = None
                self._untold.clear()

    # For lanes that settle in transactions

    def group_metadata(self) -> bytes:
        """Return this member's standing in the group, for offsets that are sent in a transaction."""
        metadata: bytes = self._member().consumer_group_metadata()
        return metadata

    def read_committed(self, partitions: Collection[int], wait_s: float) -> list[Start]:
        """Return what the group committed, once no transaction that concerns it is open any more.

        Raises:
            Unavailable: no answer within the time, which says nothing about what was committed.
        """
        try:
            answers = self._member().committed(self._places(partitions), timeout=wait_s)
        except KafkaException as exception:
            raise unavailable(exception) from exception
        for answer in answers:
            if answer.error is not None:
                raise unavailable(answer.error)
        return [_start(answer) for answer in answers]

    # Callbacks, called by librdkafka inside poll and close

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._closing:
            # An assignment that was under way. The group answers no question of a member that leaves, so asking for
            # what was committed would hold the close up for a minute, and fail it.
            self._untold.update(partition.partition for partition in partitions)
            return
        starts = self._committed(consumer, [partition.partition for partition in partitions])
        places = [
            TopicPartition(self._topic, start.partition, OFFSET_BEGINNING if start.offset is None else start.offset)
            for start in starts
        ]
        consumer.incremental_assign(places)
        # A pause outlives the assignment under which it was asked for.
        back = [start.partition for start in starts if start.partition in self._paused]
        if back:
            consumer.resume(self._places(back))
            self._paused.difference_update(back)
        self._told = True
        self._tell(lambda listener: listener.assigned(starts))

    def _committed(self, consumer: Consumer, partitions: list[int]) -> list[Start]:
        """Ask for what was committed until there is an answer: a timeout does not mean that there is nothing."""
        if not partitions:
            return []
        deadline = time.monotonic() + COMMITTED_WAIT_MAX_S
        while True:
            try:
                answers = consumer.committed(self._places(partitions), timeout=COMMITTED_TRY_S)
                problem = next((answer.error for answer in answers if answer.error is not None), None)
            except KafkaException as exception:
                problem = exception.args[0]
                answers = []
            if problem is None:
                return [_start(answer, self._end_where_lost(consumer, answer, deadline)) for answer in answers]
            if problem.code() in MISCONFIGURED:
                raise Refused(f"cannot read committed offsets of {self._topic}: {problem.name()}: {problem.str()}")
            log.warning("committed offsets cannot be read yet", action="kafka.committed_waits", error=problem.str())
            if time.monotonic() >= deadline:
                raise unavailable(problem)
            time.sleep(0.1)

    def _end_where_lost(self, consumer: Consumer, answer: TopicPartition, deadline: float) -> int:
        """Return the end of a partition of which nothing is committed: what no open transaction is before."""
        if answer.offset != OFFSET_INVALID:
            return 0
        place = TopicPartition(self._topic, answer.partition)
        while True:
            try:
                found: Any = consumer.get_watermark_offsets(place, timeout=COMMITTED_TRY_S)
                if found is not None:
                    return int(found[1])
                problem = Unavailable("kafka", f"no answer about the end of {self._topic}/{answer.partition}")
            except KafkaException as exception:
                problem = unavailable(exception)
            if time.monotonic() >= deadline:
                raise problem
            time.sleep(0.1)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        known = self._gone_of(partitions)
        self._tell(lambda listener: listener.revoked(known))

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        known = self._gone_of(partitions)
        self._tell(lambda listener: listener.lost(known))

    def _gone_of(self, partitions: list[TopicPartition]) -> list[int]:
        """Remember that partitions go, and return those of them that the listener was told of."""
        gone = [partition.partition for partition in partitions]
        self._gone.update(gone)
        return [partition for partition in gone if partition not in self._untold]

    def _tell(self, what: Callable[[AssignmentListener], None]) -> None:
        assert self._listener is not None
        what(self._listener)

    def _places(self, partitions: Collection[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]

    def _member(self) -> Consumer:
        if self._consumer is None:
            raise Unavailable("kafka", f"not a member of the group that reads {self._topic}")
        return self._consumer
