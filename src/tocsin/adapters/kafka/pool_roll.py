"""Pools by their topics, and what their workers' groups have not settled. Fulfils ``ports.pools``."""

from __future__ import annotations

import time
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tocsin.adapters.kafka.clients import base_config, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.pools import lane_of_pool, pool_of_lane

ANSWER_S: Final = 10.0
LOOK_S: Final = 3.0
"""How long a record is waited for that the offsets promise; what they count may be marks of transactions alone."""


class KafkaPoolRoll:
    """Fulfils ``ports.pools.PoolRoll``."""

    def __init__(
        self, bootstrap_servers: str, names: TopicNames, client_id: str, extra: dict[str, str] | None = None
    ) -> None:
        self._base = base_config(bootstrap_servers, client_id, extra)
        self._names = names
        self._admin = AdminClient(self._base)

    def partitions(self) -> dict[str, int]:
        try:
            topics = self._admin.list_topics(timeout=ANSWER_S).topics
        except KafkaException as error:
            raise unavailable(error) from error
        prefix = self._names.executions("")
        found = {
            pool_of_lane(topic.removeprefix(prefix)): len(about.partitions)
            for topic, about in topics.items()
            if topic.startswith(prefix) and about.error is None and about.partitions
        }
        return {pool: count for pool, count in found.items() if pool is not None}

    def has_work(self, pool: str) -> bool:
        lane = lane_of_pool(pool)
        topic = self._names.executions(lane)
        settings: dict[str, Any] = {
            "group.id": self._names.group(f"worker.{lane}"),  # whose offsets are read; nothing joins or commits
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": False,
        }
        consumer = Consumer({**self._base, **settings})
        try:
            return self._lies_behind(consumer, topic)
        except KafkaException as error:
            raise unavailable(error) from error
        finally:
            consumer.close()

    def _lies_behind(self, consumer: Consumer, topic: str) -> bool:
        """Tell whether a record lies between what is committed and the end of a partition."""
        about = consumer.list_topics(topic, timeout=ANSWER_S).topics[topic]
        places = [TopicPartition(topic, number) for number in about.partitions]
        if not places:
            return False
        starts, ends = [], {}
        for place in consumer.committed(places, timeout=ANSWER_S):
            low, end = consumer.get_watermark_offsets(TopicPartition(topic, place.partition), timeout=ANSWER_S)
            start = low if place.offset <= OFFSET_INVALID or place.offset < low else place.offset
            if start < end:
                starts.append(TopicPartition(topic, place.partition, start))
                ends[place.partition] = end
        if not starts:
            return False
        consumer.assign(starts)
        until_s = time.monotonic() + LOOK_S
        while time.monotonic() < until_s:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                return True
            if all(place.offset >= ends[place.partition] for place in consumer.position(starts)):
                return False
        return False

    def close(self) -> None:
        """The client holds nothing that must be given back."""
