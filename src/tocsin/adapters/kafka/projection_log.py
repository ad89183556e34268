"""The log as the projector reads it: one consumer in the projector's group, offsets committed by hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tocsin.adapters.kafka.clients import base_config, place, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.ports.projection_log import ProjectedRecord

log = structlog.get_logger()

_UNKNOWN: Final = -1
_CHUNK: Final = 100
"""Records taken at once, so that a batch exceeds its bytes by no more than so many."""


@dataclass(frozen=True, slots=True)
class ProjectionBounds:
    """Bounds of a batch, and how the group works.

    Attributes:
        group_protocol: ``consumer`` (KIP-848), or ``classic`` for brokers before 4.0.
        topics_refresh_s: how soon a lane that is created later is seen.
    """

    batch_records_max: int = 2_000
    batch_bytes_max: int = 8_000_000
    group_protocol: str = "consumer"
    topics_refresh_s: float = 30.0


class KafkaProjectionLog:
    """Fulfils ``ports.projection_log.ProjectionLog``."""

    def __init__(
        self,
        bootstrap_servers: str,
        names: TopicNames,
        client_id: str,
        bounds: ProjectionBounds | None = None,
        extra: dict[str, str] | None = None,
    ) -> None:
        self._names = names
        self._bounds = bounds or ProjectionBounds()
        self._paused = False
        self._next: dict[tuple[str, int], int] = {}
        """For each partition held, the offset after the last record that was returned, or the end that was seen.

        Unknown until the first of either comes."""
        self._dirty: set[tuple[str, int]] = set()
        """Partitions of which something was returned since the last commit."""
        config = base_config(bootstrap_servers, client_id, extra)
        self._consumer = Consumer(config | _consumer_config(names.group("projector"), self._bounds))
        lanes = f"^{re.escape(names.executions(''))}.*"
        self._consumer.subscribe(
            [names.jobs, names.events, names.dead_letters, lanes],
            on_assign=self._assigned,
            on_revoke=self._gone,
            on_lost=self._gone,
        )

    def poll(self, wait_s: float) -> list[ProjectedRecord]:
        found: list[ProjectedRecord] = []
        size = 0
        try:
            first = self._consumer.poll(wait_s)
            messages = [] if first is None else [first]
            while messages:
                for message in messages:
                    size += self._take(message, found)
                room = min(_CHUNK, self._bounds.batch_records_max - len(found))
                if room <= 0 or size >= self._bounds.batch_bytes_max:
                    break
                messages = self._consumer.consume(room, 0)
        except KafkaException as error:
            raise unavailable(error) from error
        return found

    def commit(self) -> None:
        known = {held: self._next.get(held, _UNKNOWN) for held in self._dirty}
        offsets = [TopicPartition(*held, following) for held, following in known.items() if following != _UNKNOWN]
        self._dirty.clear()
        if not offsets:
            return
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            # Nothing is lost: a later commit covers these records, or they are read and filed again.
            log.warning("offsets were not committed", action="projector.commit_refused", error=str(unavailable(error)))

    def pause(self) -> None:
        self._paused = True
        self._consumer.pause(self._consumer.assignment())

    def resume(self) -> None:
        self._paused = False
        self._consumer.resume(self._consumer.assignment())

    def lag(self) -> Mapping[str, int]:
        lags: Counter[str] = Counter()
        for (topic, partition), following in self._next.items():
            if following == _UNKNOWN:
                continue
            _low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
            lags[self._short(topic)] += max(0, high - following)
        return lags

    def close(self) -> None:
        self._consumer.close()

    def _take(self, message: Message, found: list[ProjectedRecord]) -> int:
        """File a message as a record or as what else it says, and return its size in bytes."""
        error = message.error()
        if error is not None:
            self._noted(error, message)
            return 0
        partition, offset = place(message)
        topic = message.topic() or ""
        held = (topic, partition)
        if held not in self._next:  # A partition that was taken away while its records were under way.
            return 0
        self._next[held] = offset + 1
        self._dirty.add(held)
        _kind, milliseconds = message.timestamp()
        value = message.value()
        found.append(ProjectedRecord(self._short(topic), partition, offset, milliseconds * 1_000, value))
        return len(value) if value else 0

    def _noted(self, error: KafkaError, message: Message) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            partition, end = place(message)
            held = (message.topic() or "", partition)
            # Behind the last record may stand the marker of its transaction. To be committed as well: whoever waits for
            # the projectors compares their offsets with the ends.
            if end > self._next.get(held, end):
                self._next[held] = end
                self._dirty.add(held)
            return
        if error.fatal():
            raise KafkaException(error)
        log.warning("the log reports a problem", action="projector.log_problem", error=str(unavailable(error)))

    def _short(self, topic: str) -> str:
        return topic[len(self._names.prefix) :]

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        if self._paused:
            consumer.pause(partitions)
        for one in partitions:
            self._next[one.topic, one.partition] = _UNKNOWN
        log.info("partitions came", action="projector.assigned", count=len(partitions))

    def _gone(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """What was returned and is not filed yet comes again, to whoever has the partition then."""
        for one in partitions:
            self._next.pop((one.topic, one.partition), None)
        consumer.incremental_unassign(partitions)
        log.info("partitions went", action="projector.revoked", count=len(partitions))


def _consumer_config(group: str, bounds: ProjectionBounds) -> dict[str, Any]:
    config: dict[str, Any] = {
        "group.id": group,
        "group.protocol": bounds.group_protocol,
        # The views are whole only if they begin at the beginning.
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "topic.metadata.refresh.interval.ms": int(bounds.topics_refresh_s * 1_000),
        # At most about twice a batch is read ahead.
        "queued.max.messages.kbytes": max(1_024, 2 * bounds.batch_bytes_max // 1_024),
    }
    if bounds.group_protocol == "classic":
        config["partition.assignment.strategy"] = "cooperative-sticky"
    return config
