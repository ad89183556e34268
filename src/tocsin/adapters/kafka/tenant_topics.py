"""What is known of tenants' topics, so that what they would refuse never enters a transaction.

One refused record aborts the transaction with all its neighbours, and a topic that is missing looks like a fence
after ten seconds. So existence, permission, size and the need of a key are looked up first, and kept for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, ResourceType

from tocsin.adapters.kafka.clients import unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.domain.executions import AttemptError
from tocsin.ports.message_log import Message

ANSWER_S: Final = 5.0
REFUSED_KEPT_S: Final = 1.0
"""A topic that is made now serves the execution of the next second."""
UNAVAILABLE_KEPT_S: Final = 10.0
"""Each try at a topic that takes no records costs the whole lane a transaction's time."""
TOPICS_KEPT_MAX: Final = 10_000
MESSAGE_BYTES_MAX_DEFAULT: Final = 1_048_588
"""The brokers' own default; taken where the topic's settings may not be read."""
_BATCH_HEADER_BYTES: Final = 61

REFUSED: Final[Mapping[int, tuple[str, str]]] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: ("topic_missing", "does not exist"),
    KafkaError._UNKNOWN_TOPIC: ("topic_missing", "does not exist"),
    KafkaError._UNKNOWN_PARTITION: ("topic_missing", "does not exist"),
    KafkaError.TOPIC_EXCEPTION: ("topic_missing", "is no name that a topic can have"),
    KafkaError.TOPIC_AUTHORIZATION_FAILED: ("not_authorized", "may not be written to by this worker"),
    KafkaError.MSG_SIZE_TOO_LARGE: ("too_large", "takes no record of this size"),
    KafkaError.RECORD_LIST_TOO_LARGE: ("too_large", "takes no record of this size"),
    KafkaError.INVALID_RECORD: ("invalid_record", "does not take this record"),
    KafkaError.INVALID_MSG: ("invalid_record", "does not take this record"),
    KafkaError.INVALID_TIMESTAMP: ("invalid_record", "does not take records of this time"),
    KafkaError.POLICY_VIOLATION: ("invalid_record", "does not take this record: the brokers' policy forbids it"),
}
"""Answers that are the same each time: error class and what to say."""


def refusal_of(topic: str, code: int) -> AttemptError | None:
    """Return why a record cannot be written to a topic, if the broker's answer is a lasting one."""
    known = REFUSED.get(code)
    return None if known is None else AttemptError(known[0], f"topic {topic} {known[1]}")


def message_bytes(message: Message) -> int:
    """Return the size of a message as a topic's bound counts it: a batch of one, not compressed (KIP-98's format)."""
    body = 3 + _field_bytes(message.key) + _field_bytes(message.value) + _varint_bytes(len(message.headers))
    for name, value in message.headers:
        body += _field_bytes(name.encode()) + _field_bytes(value)
    return _BATCH_HEADER_BYTES + _varint_bytes(body) + body


def _field_bytes(field: bytes | None) -> int:
    return 1 if field is None else _varint_bytes(len(field)) + len(field)


def _varint_bytes(number: int) -> int:
    """Return how many bytes a non-negative number takes as a zigzag varint."""
    return max(1, -(-(number << 1).bit_length() // 7))


class TopicFacts(NamedTuple):
    """What is known of one topic until ``known_until_s``."""

    known_until_s: float
    refusal: AttemptError | None = None
    """Why nothing can be written to it."""
    message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT
    needs_key: bool = False


class TenantTopics:
    """Facts of topics by name, asked for when first needed.

    Args:
        admin: a client of the cluster.
        names: the cluster's own topics, which are refused.
        kept_s: how old a fact may be that allows writing.
        monotonic_s: seconds that never jump.
    """

    def __init__(
        self, admin: AdminClient, names: TopicNames, kept_s: float, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._admin = admin
        self._names = names
        self._kept_s = kept_s
        self._monotonic_s = monotonic_s
        self._facts: dict[str, TopicFacts] = {}

    def learn(self, topics: Collection[str]) -> None:
        """Ask for what is not known, or not any more.

        Raises:
            Unavailable: the brokers do not answer.
        """
        now_s = self._monotonic_s()
        wanted = []
        for topic in set(topics):
            facts = self._facts.pop(topic, None)
            if facts is not None and facts.known_until_s > now_s:
                self._facts[topic] = facts  # last in line to be dropped
            elif self._names.reserves(topic):
                self._facts[topic] = self._refused("reserved_topic", f"topic {topic} is not for tenants' records")
            else:
                wanted.append(topic)
        if wanted:
            self._ask(wanted)
        while len(self._facts) > max(TOPICS_KEPT_MAX, len(topics)):
            del self._facts[next(iter(self._facts))]

    def refusal(self, message: Message) -> AttemptError | None:
        """Return what forbids a message. Its topic must have been learnt."""
        facts = self._facts[message.topic]
        if facts.refusal is not None:
            return facts.refusal
        size = message_bytes(message)
        if size > facts.message_bytes_max:
            text = f"topic {message.topic} takes records of up to {facts.message_bytes_max} bytes; this one has {size}"
            return AttemptError("too_large", text)
        if facts.needs_key and message.key is None:
            return AttemptError("invalid_record", f"topic {message.topic} is compacted, so its records need a key")
        return None

    def message_bytes_max(self, topic: str) -> int:
        """Return the bound of a topic's batches."""
        facts = self._facts.get(topic)
        return MESSAGE_BYTES_MAX_DEFAULT if facts is None else facts.message_bytes_max

    def forget(self, topics: Collection[str]) -> None:
        """Ask anew when they are needed next: a transaction failed, and they may be why."""
        for topic in topics:
            self._facts.pop(topic, None)

    def took_nothing(self, topic: str) -> AttemptError:
        """Note that a topic took no record while others did, and return what to say of it for a while."""
        error = AttemptError("topic_unavailable", f"topic {topic} takes no records at the moment")
        self._facts[topic] = TopicFacts(self._monotonic_s() + UNAVAILABLE_KEPT_S, error)
        return error

    def _refused(self, error_class: str, message: str) -> TopicFacts:
        return TopicFacts(self._monotonic_s() + REFUSED_KEPT_S, AttemptError(error_class, message))

    def _ask(self, topics: list[str]) -> None:
        found = self._admin.describe_topics(
            TopicCollection(topics), include_authorized_operations=True, request_timeout=ANSWER_S
        )
        writable = []
        for topic, future in found.items():
            description, error = _answer(future)
            if error is not None:
                refusal = refusal_of(topic, error.code())
                if refusal is None:
                    raise unavailable(error)
                self._facts[topic] = self._refused(refusal.error_class, refusal.message)
            elif description.is_internal:
                self._facts[topic] = self._refused("reserved_topic", f"topic {topic} belongs to Kafka itself")
            elif not _may_write(description.authorized_operations):
                code = KafkaError.TOPIC_AUTHORIZATION_FAILED
                self._facts[topic] = self._refused(REFUSED[code][0], f"topic {topic} {REFUSED[code][1]}")
            else:
                writable.append(topic)
        if writable:
            self._ask_settings(writable)

    def _ask_settings(self, topics: list[str]) -> None:
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        for resource, future in self._admin.describe_configs(resources, request_timeout=ANSWER_S).items():
            settings, error = _answer(future)
            facts = TopicFacts(self._monotonic_s() + self._kept_s)
            # Reading the settings is a right of its own. Without it, a refusal aborts a transaction, and is dealt with.
            if error is None:
                bytes_max, policy = settings["max.message.bytes"].value, settings["cleanup.policy"].value
                facts = facts._replace(message_bytes_max=int(bytes_max), needs_key="compact" in policy)
            elif error.retriable() or error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
                raise unavailable(error)
            self._facts[resource.name] = facts


def _answer(future: Future[Any]) -> tuple[Any, KafkaError | None]:
    try:
        return future.result(2 * ANSWER_S), None
    except KafkaException as exception:
        return None, exception.args[0]
    except TimeoutError:
        return None, KafkaError(KafkaError._TIMED_OUT)


def _may_write(operations: list[AclOperation] | None) -> bool:
    """Tell whether the brokers say that we may; those that say nothing are taken at the next answer that they give."""
    return not operations or AclOperation.WRITE in operations or AclOperation.ALL in operations
