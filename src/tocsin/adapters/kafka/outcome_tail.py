"""Reads all of ``outcomes`` on a thread: every partition, from the oldest record kept, as a member of no group."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from tocsin.adapters.kafka.names import TopicNames
from tocsin.ports.command_bus import Learn, OutcomeSeen

log = structlog.get_logger()

POLL_S: Final = 0.1
BATCH_MAX: Final = 1_000
BATCHES_AHEAD_MAX: Final = 4
"""Batches handed to the event loop and not taken in yet: what bounds memory while a long log is read at the start."""
PREFETCH_KIB: Final = 4_096
"""Read ahead by the client, which would take 64 MiB: an hour's outcomes come at once when a gateway starts."""
ASK_AGAIN_S: Final = 1.0


class OutcomeTail:
    """A consumer on a thread of its own.

    Args:
        config: what all clients have in common.
        names: the topics.
        loop: where ``learn`` is called.
        learn: takes the outcomes.
        closing: ends the thread.
        on_fatal: called if the thread ends without having been asked to.
    """

    def __init__(
        self,
        config: dict[str, Any],
        names: TopicNames,
        loop: asyncio.AbstractEventLoop,
        learn: Learn,
        closing: threading.Event,
        on_fatal: Callable[[], None],
    ) -> None:
        self._config = config
        self._names = names
        self._loop = loop
        self._learn = learn
        self._closing = closing
        self._on_fatal = on_fatal
        self._room = threading.Semaphore(BATCHES_AHEAD_MAX)
        self._problem: str | None = "the log of outcomes has not been read yet"
        self._thread = threading.Thread(target=self._run, name="outcome-tail", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def missing(self) -> Sequence[str]:
        return [self._problem] if self._problem else []

    def _run(self) -> None:
        consumer = Consumer(
            {
                **self._config,
                "group.id": self._names.group("gateway-tail"),  # asked for by the client; nothing joins or commits
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",  # records that retention took from under a slow reader
                "enable.partition.eof": True,
                # A request waits for what is read here.
                "fetch.wait.max.ms": 50,
                "queued.max.messages.kbytes": PREFETCH_KIB,
            }
        )
        try:
            partitions = self._await_topic(consumer)
            if partitions:
                consumer.assign([TopicPartition(self._names.outcomes, p, OFFSET_BEGINNING) for p in partitions])
                self._follow(consumer, set(partitions))
        except Exception:  # whatever it is, a gateway that hears no outcomes must not go on
            log.exception("outcomes can no longer be read", action="gateway.tail_failed")
            self._problem = "outcomes can no longer be read; the process ends"
            self._on_fatal()
        finally:
            consumer.close()

    def _await_topic(self, consumer: Consumer) -> list[int]:
        while not self._closing.is_set():
            try:
                topic = consumer.list_topics(timeout=ASK_AGAIN_S).topics.get(self._names.outcomes)
                if topic is not None and topic.error is None and topic.partitions:
                    return sorted(topic.partitions)
                self._problem = f"the topic {self._names.outcomes} does not exist; `tocsin topics apply` makes it"
            except KafkaException:
                self._problem = "the log of outcomes has not been read yet"
            self._closing.wait(ASK_AGAIN_S)
        return []

    def _follow(self, consumer: Consumer, behind: set[int]) -> None:
        while not self._closing.is_set():
            first = consumer.poll(POLL_S)
            if first is None:
                continue
            seen: list[OutcomeSeen] = []
            for message in (first, *consumer.consume(BATCH_MAX - 1, 0)):
                error = message.error()
                if error is None:
                    seen.extend(_outcome(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    behind.discard(message.partition() or 0)
                else:
                    log.warning("reading outcomes met an error", action="gateway.tail_error", error=str(error))
            self._hand_over(seen, caught_up=not behind)

    def _hand_over(self, seen: list[OutcomeSeen], caught_up: bool) -> None:
        while not self._room.acquire(timeout=POLL_S):
            if self._closing.is_set():
                return
        try:
            self._loop.call_soon_threadsafe(self._take_in, seen, caught_up)
        except RuntimeError:
            log.debug("the event loop is closed; nobody waits", action="gateway.outcomes_dropped", count=len(seen))

    def _take_in(self, seen: list[OutcomeSeen], caught_up: bool) -> None:
        """On the event loop."""
        self._room.release()
        if seen:
            self._learn(seen)
        if caught_up and self._problem:
            self._problem = None
            log.info("all outcomes that are kept have been read", action="gateway.tail_caught_up")


def _outcome(message: Message) -> list[OutcomeSeen]:
    """Return the record, or nothing where a stranger wrote one without key or value."""
    key, value = message.key(), message.value()
    if not key or not value:
        return []
    key_bytes = key if isinstance(key, bytes) else key.encode()
    return [OutcomeSeen(key_bytes.decode("utf-8", "replace"), value if isinstance(value, bytes) else value.encode())]
