"""The topic to which the demonstration's messages go, and a plain consumer that reads committed records from it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, cast

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tocsin.dev.demo.occurrences import Call, Key
from tocsin.domain.errors import Undecodable
from tocsin.domain.ids import parse_execution_id

ANSWER_S: Final = 15.0
POLL_S: Final = 0.1
SETTLE_S: Final = 1.0
"""How long is read on before it is said that nothing came twice."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record as any consumer sees it; header names to texts."""

    topic: str
    partition: int
    offset: int
    key: str
    value: str
    headers: Mapping[str, str]


class Mailbox(Protocol):
    """Where messages arrive.

    Attributes:
        topic: its name.
        arrivals: by occurrence, when records arrived.
        first: the first of them.
    """

    topic: str
    arrivals: dict[Key, list[Call]]
    first: Record | None

    def open(self) -> None:
        """Make the topic and begin to read; blocks."""
        ...

    def close(self) -> None:
        """Read what is left, stop reading, and remove the topic; blocks."""
        ...


class KafkaMailbox:
    """Fulfils ``Mailbox`` with a topic of its own; reads on a thread of its own.

    Args:
        settings: librdkafka's, with where the brokers are and how to reach them.
        topic: must not exist.
    """

    def __init__(self, settings: Mapping[str, str | int | float | bool], topic: str) -> None:
        self.topic = topic
        self.arrivals: dict[Key, list[Call]] = {}
        self.first: Record | None = None
        self._settings = dict(settings)
        self._closing = threading.Event()
        self._admin: AdminClient | None = None
        self._thread = threading.Thread(target=self._read, name="mailbox", daemon=True)

    def open(self) -> None:
        self._admin = AdminClient(self._settings)
        made = self._admin.create_topics([NewTopic(self.topic, 1, -1)], operation_timeout=ANSWER_S)
        made[self.topic].result(ANSWER_S)
        self._thread.start()

    def close(self) -> None:
        if self._admin is None or not self._thread.is_alive():
            return
        self._closing.wait(SETTLE_S)
        self._closing.set()
        self._thread.join(ANSWER_S)
        with suppress(KafkaException):  # then it is left, and goes with the data of the next demonstration
            self._admin.delete_topics([self.topic], operation_timeout=ANSWER_S)[self.topic].result(ANSWER_S)

    def _read(self) -> None:
        consumer = Consumer(
            {
                **self._settings,
                "group.id": self.topic,  # librdkafka insists; no offset is ever committed
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            while not self._closing.is_set():
                message = consumer.poll(POLL_S)
                if message is not None and message.error() is None:
                    headers = {name: (value or b"").decode() for name, value in _headers(message)}
                    key, value = (message.key() or b"").decode(), (message.value() or b"").decode()
                    offset = message.offset()
                    self._take(Record(self.topic, 0, -1 if offset is None else offset, key, value, headers))
        finally:
            consumer.close()

    def _take(self, record: Record) -> None:
        now = time.time_ns() // 1_000
        try:
            name = parse_execution_id(record.headers.get("tocsin-execution-id", ""))
        except Undecodable:
            return
        self.first = self.first or record
        self.arrivals.setdefault((name.job_id, name.scheduled_for), []).append(Call(now, ended_at=now))


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    """Return the headers as a consumer always gets them; the declared type is wider."""
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])
