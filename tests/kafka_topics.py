"""Topics for tests: made as a test needs them, with few partitions; and groups that somebody answers for."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


def create_topics(bootstrap: str, partitions: dict[str, int]) -> None:
    """Create topics by name, and return when they exist."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()]).values():
        future.result()
    wait_until_listed(admin, set(partitions))


def wait_until_listed(admin: AdminClient, names: set[str]) -> None:
    """Return when the brokers tell of topics; just after their creation they may not."""
    while not names <= set(admin.list_topics(timeout=20).topics):
        time.sleep(0.05)


def await_coordinator(bootstrap: str, group: str) -> None:
    """Return when a group's offsets can be asked for; a fresh broker refuses for a moment."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    until = time.monotonic() + 60
    while True:
        try:
            consumer.committed([TopicPartition("none", 0)], timeout=10)
            break
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
    consumer.close()
