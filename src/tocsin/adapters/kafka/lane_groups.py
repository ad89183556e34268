"""The consumer groups of lanes, as an administrator sees them: their first commits, and how long brokers keep commits.

A lane's group has a commit for every partition from the start. So where a worker finds none, it was there and is lost,
and nobody may take what is in the lane for new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from tocsin.adapters.kafka.clients import base_config, unavailable
from tocsin.domain.errors import Unavailable

log = structlog.get_logger()

ANSWER_S: Final = 20.0
PATIENCE_S: Final = 60.0
"""How long brokers may take until they are ready to answer."""
RETRY_S: Final = 0.2
OFFSETS_RETENTION: Final = "offsets.retention.minutes"
PASSING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
    }
)
"""Answers of brokers that are not ready yet."""
HAS_MEMBERS: Final = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.STALE_MEMBER_EPOCH}
)
"""Answers to who is no member of a group that has some: those commit for themselves."""


class LaneGroups:
    """Looks after the groups of lanes."""

    def __init__(self, bootstrap_servers: str, extra: dict[str, str] | None = None) -> None:
        self._base = base_config(bootstrap_servers, "tocsin-lanes", extra)
        self._admin = AdminClient(self._base)

    def begin(self, lanes: Mapping[str, str]) -> dict[str, int]:
        """Commit the beginning of partitions of which nothing was ever committed and in which nothing ever stood.

        A partition that holds something, or held it, is left alone: that its commit is missing must be seen.

        Args:
            lanes: the topic of each group.

        Returns:
            For how many partitions of each group that was done.

        Raises:
            Unavailable: the brokers do not answer.
        """
        return {group: self._begin(group, topic) for group, topic in lanes.items()}

    def _begin(self, group: str, topic: str) -> int:
        committed = self._committed(group, topic)
        bare = [TopicPartition(topic, p) for p, offset in committed.items() if offset < 0]
        if not bare:
            return 0
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        ends = self._answers(lambda: self._admin.list_offsets(dict.fromkeys(bare, latest)))
        fresh = [TopicPartition(topic, place.partition, 0) for place, end in ends.items() if end.offset == 0]
        if not fresh:
            return 0
        wanted = ConsumerGroupTopicPartitions(group, fresh)
        try:
            [told] = self._answers(lambda: self._admin.alter_consumer_group_offsets([wanted])).values()
            error = next((place.error for place in told.topic_partitions if place.error is not None), None)
        except KafkaException as exception:
            error = exception.args[0]
        if error is not None and error.code() in HAS_MEMBERS:
            return 0
        if error is not None:
            raise unavailable(error)
        log.info("first offsets committed", action="topics.lane_begun", group=group, partitions=len(fresh))
        return len(fresh)

    def _committed(self, group: str, topic: str) -> dict[int, int]:
        """Return what a group has committed, by partition; below 0: nothing."""
        try:
            count = len(self._admin.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions)
        except KafkaException as exception:
            raise unavailable(exception) from exception
        # Not the admin client's list_consumer_group_offsets: where a broker is not the group's coordinator, as one that
        # has just started says of every group, it kills the process.
        asking = Consumer({**self._base, "group.id": group, "enable.auto.commit": False})

        def committed() -> dict[int, int]:
            told = asking.committed([TopicPartition(topic, p) for p in range(count)], timeout=ANSWER_S)
            problem = next((place.error for place in told if place.error is not None), None)
            if problem is not None:
                raise KafkaException(problem)
            return {place.partition: place.offset for place in told}

        try:
            return _once_ready(committed)
        except KafkaException as exception:
            if exception.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return dict.fromkeys(range(count), -1)
            raise unavailable(exception) from exception
        finally:
            asking.close()

    def _answers(self, ask: Callable[[], Mapping[Any, Future[Any]]]) -> dict[Any, Any]:
        """Ask the admin client until the brokers are ready to answer."""
        return _once_ready(lambda: {subject: future.result(ANSWER_S) for subject, future in ask().items()})

    def offsets_retention_s(self) -> float | None:
        """Return how long the brokers keep the commits of a group without members; the shortest of all brokers.

        None: they do not tell.

        Raises:
            Unavailable: the brokers do not answer.
        """
        try:
            brokers = list(self._admin.list_topics(timeout=ANSWER_S).brokers)
        except KafkaException as exception:
            raise unavailable(exception) from exception
        minutes = [self._retention_minutes(broker) for broker in brokers]
        known = [found for found in minutes if found is not None]
        return min(known) * 60.0 if known else None

    def _retention_minutes(self, broker: int) -> int | None:
        asked = ConfigResource(ResourceType.BROKER, str(broker))
        try:
            [entries] = self._answers(lambda: self._admin.describe_configs([asked])).values()
        except KafkaException as exception:
            # May be refused to who is no administrator, or not be there in what only speaks Kafka's protocol.
            problem = exception.args[0].str()
            log.warning("a broker does not tell its settings", action="kafka.settings_hidden", problem=problem)
            return None
        entry = entries.get(OFFSETS_RETENTION)
        return None if entry is None or entry.value is None else int(entry.value)


def _once_ready(ask: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """Ask until the brokers are ready to answer."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except KafkaException as exception:
            if exception.args[0].code() not in PASSING or time.monotonic() > until:
                raise
        except TimeoutError as exception:
            if time.monotonic() > until:
                raise Unavailable("kafka", "no answer about the groups of lanes") from exception
        time.sleep(RETRY_S)
