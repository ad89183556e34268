"""The message lane on a real broker: executions go in, and what readers of committed records see comes out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.integration.lane_world import wait_until
from tests.kafka_topics import create_topics
from tocsin.adapters.avro.codec import AvroCodec
from tocsin.adapters.kafka.lane_groups import LaneGroups
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.executions import AttemptHead, AttemptReport, dispatch_key
from tocsin.domain.ids import execution_id
from tocsin.domain.targets import MessageTarget

CODEC = AvroCodec()
LANE_PARTITIONS = 4
SHARDS = 3


class CommittedReader:
    """Reads a topic from its beginning as a reader of committed records does, and keeps what it finds."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 2, "enable.auto.commit": False}
        self._consumer = Consumer(settings | {"isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self.found: list[Message] = []

    def read(self) -> list[Message]:
        """Take some of what has become visible, and return all that was found so far."""
        self.found += [message for message in self._consumer.consume(1_000, 0.05) if message.error() is None]
        return self.found

    def close(self) -> None:
        self._consumer.close()


class MessageWorld:
    """Topics of one prefix and of one tenant. Every message's key is its job."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.names = TopicNames(f"{name}.own.")
        self._name = name
        self.lane = self.names.executions("message")
        own = {
            self.lane: LANE_PARTITIONS,
            self.names.reports: SHARDS,
            self.names.fleet: 1,
            self.names.worker_control: 1,
        }
        create_topics(bootstrap, own | {self.topic("orders"): 3})
        LaneGroups(bootstrap).begin({self.names.group("worker.message"): self.lane})
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        settings = {"bootstrap.servers": bootstrap, "transactional.id": name, "retry.backoff.ms": 1, "log_level": 2}
        self._producer = Producer(settings | {"retry.backoff.max.ms": 10})
        self._producer.init_transactions()
        self.orders = CommittedReader(bootstrap, self.topic("orders"), 3)
        self._reports = CommittedReader(bootstrap, self.names.reports, SHARDS)

    def close(self) -> None:
        self.orders.close()
        self._reports.close()

    def topic(self, name: str) -> str:
        """Return the full name of a topic of the tenant."""
        return f"{self._name}.{name}"

    def create(self, name: str, **config: str) -> None:
        dotted = {setting.replace("_", "."): value for setting, value in config.items()}
        for future in self.admin.create_topics([NewTopic(self.topic(name), 1, 1, config=dotted)]).values():
            future.result()

    def dispatch(self, jobs: Iterable[str], topic: str | None = None, value: str = "v") -> None:
        """Write executions in one transaction, spread over the lane."""
        self._producer.begin_transaction()
        for number, job in enumerate(jobs):
            identity = execution_id(job, 1, 1_000_000)
            head = AttemptHead(1, 5, 0, identity, job, "default", 1, 1_000_000, 1_000_000)
            target = MessageTarget(topic or self.topic("orders"), job, {"colour": "blue"}, value)
            key = dispatch_key("default", identity, 1, 5).encode()
            self._producer.produce(self.lane, CODEC.encode_execution(head, target), key, number % LANE_PARTITIONS)
        self._producer.commit_transaction()

    def ordered(self) -> Counter[str]:
        """Return how often each job's message is visible."""
        return Counter((message.key() or b"").decode() for message in self.orders.read())

    def reports(self) -> list[AttemptReport]:
        return [CODEC.decode_report(message.value()) for message in self._reports.read()]

    def ends(self) -> Counter[tuple[str, str]]:
        """Return how often each job was reported with each kind, or class of error."""
        return Counter((r.head.job_id, r.error.error_class if r.error else r.kind) for r in self.reports())

    def wait_for_orders(self, count: int) -> None:
        wait_until(lambda: len(self.orders.read()) >= count, f"{count} messages")

    def wait_for_reports(self, count: int) -> None:
        wait_until(lambda: len(self._reports.read()) >= count, f"{count} reports", 120)

    def see_nothing_more(self, wait_s: float = 1.0) -> None:
        """Give whatever should not come some time to come."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            self.orders.read()
            self._reports.read()

    def alter(self, name: str, **config: Any) -> None:
        """Change a topic's settings behind the back of those who know it."""
        entries = [
            ConfigEntry(setting.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET)
            for setting, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, self.topic(name), incremental_configs=entries)
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result()
