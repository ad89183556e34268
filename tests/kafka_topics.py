"""Topics for tests: made as a test needs them, with few partitions."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, NewTopic


def create_topics(bootstrap: str, partitions: dict[str, int]) -> None:
    """Create topics by name, and return when they exist."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()]).values():
        future.result()
