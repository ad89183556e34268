"""Commands and callbacks out, outcomes in. The blocking clients live on two threads; results come to the loop batched.

One thread polls the producer and knows whether the log is reachable, the other reads all of ``outcomes``. Futures and
callbacks are touched on the event loop only.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tocsin.adapters.kafka.clients import base_config, unavailable
from tocsin.adapters.kafka.names import TopicNames
from tocsin.adapters.kafka.outcome_tail import OutcomeTail
from tocsin.domain.errors import Fault, InvalidInput, Unavailable
from tocsin.domain.sharding import routes, shard_key, shard_of
from tocsin.ports.command_bus import Delivery, Learn

log = structlog.get_logger()

POLL_S: Final = 0.1
PROBE_EVERY_S: Final = 1.0
PROBE_TIMEOUT_S: Final = 1.0

CERTAINLY_NOT_LOGGED: Final = frozenset(
    {
        KafkaError._PURGE_QUEUE,
        KafkaError._QUEUE_FULL,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Errors with which nothing was appended. After any other, a timeout above all, the command may be in the log."""


class KafkaCommandBus:
    """Fulfils ``ports.command_bus.CommandBus``.

    Args:
        bootstrap_servers: of the log.
        names: the topics.
        client_id: how the brokers see us.
        delivery_timeout_s: after this long without an acknowledgement a command's delivery is unknown.
        on_fatal: called from a thread when the clients can no longer work and the process should end.
        extra: the operator's settings for every client.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        names: TopicNames,
        client_id: str,
        delivery_timeout_s: float,
        on_fatal: Callable[[], None],
        extra: dict[str, str] | None = None,
    ) -> None:
        # The library would write a line to stderr for each of its attempts to connect, twenty a second while the log
        # is away; what matters of it arrives in ``error_cb``, and is said once.
        self._config = base_config(bootstrap_servers, client_id, {"log_level": "0", **(extra or {})})
        self._names = names
        self._delivery_timeout_s = delivery_timeout_s
        self._on_fatal = on_fatal
        self._closing = threading.Event()
        self._shards = 0
        self._problem: str | None = "Kafka has not answered yet"
        self._acknowledged: list[tuple[asyncio.Future[Delivery], KafkaError | None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._producer: Producer | None = None
        self._tail: OutcomeTail | None = None
        self._pump: threading.Thread | None = None

    async def start(self, learn: Learn) -> None:
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(
            {
                **self._config,
                "enable.idempotence": True,
                # Somebody waits for each command: no lingering for company.
                "linger.ms": 0,
                "message.timeout.ms": int(self._delivery_timeout_s * 1000),
                "error_cb": self._failed,
            }
        )
        self._tail = OutcomeTail(self._config, self._names, self._loop, learn, self._closing, self._on_fatal)
        self._pump = threading.Thread(target=self._pump_acknowledgements, name="command-acks", daemon=True)
        self._pump.start()
        self._tail.start()

    def missing(self) -> Sequence[str]:
        problem = self._problem
        return [*([problem] if problem else []), *(self._tail.missing() if self._tail else ["the gateway is starting"])]

    def send(self, command_id: str, job_id: str, command: bytes) -> asyncio.Future[Delivery]:
        return self._produce(self._names.commands, shard_key(job_id), job_id, command)

    def routes(self) -> Sequence[str]:
        if not self._shards:
            raise Unavailable("kafka", self._problem or "the gateway is starting")
        return routes(self._shards)

    def report(self, job_id: str, report: bytes) -> asyncio.Future[Delivery]:
        return self._produce(self._names.reports, job_id, job_id, report)

    def _produce(self, topic: str, key: str, job_id: str, value: bytes) -> asyncio.Future[Delivery]:
        problem = self._problem
        if problem or self._producer is None or self._loop is None:
            raise Unavailable("kafka", problem or "the gateway is starting")
        delivery: asyncio.Future[Delivery] = self._loop.create_future()
        try:
            self._producer.produce(
                topic,
                value=value,
                key=key.encode(),
                partition=shard_of(job_id, self._shards),
                on_delivery=partial(self._note, delivery),
            )
        except BufferError:
            raise Unavailable("kafka", "too many commands wait to be sent") from None
        except KafkaException as error:
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                fault = Fault("", f"{len(value)} bytes", "is larger than the log takes", "make the job smaller")
                raise InvalidInput([fault]) from error
            raise unavailable(error) from error
        return delivery

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._closing.set()
        if self._pump:
            self._pump.join()
        if self._producer:
            self._producer.flush(self._delivery_timeout_s)
            self._hand_over()
        if self._tail:
            self._tail.join()

    # On the pump's thread.

    def _pump_acknowledgements(self) -> None:
        assert self._producer
        probed_at = -PROBE_EVERY_S
        while not self._closing.is_set():
            self._producer.poll(POLL_S)
            self._hand_over()
            if self._problem and time.monotonic() - probed_at >= PROBE_EVERY_S:
                self._probe(self._producer)
                probed_at = time.monotonic()

    def _note(self, delivery: asyncio.Future[Delivery], error: KafkaError | None, _message: Message) -> None:
        self._acknowledged.append((delivery, error))
        if error is not None and error.code() not in CERTAINLY_NOT_LOGGED and not self._problem:
            # The next caller is better served by a refusal at once than by a doubt after a long wait.
            log.warning("a command was not acknowledged", action="gateway.command_doubtful", error=str(error))
            self._problem = f"Kafka did not acknowledge a command ({error.name()})"

    def _hand_over(self) -> None:
        """Wake the event loop once for all acknowledgements of a poll."""
        if not self._acknowledged or self._loop is None:
            return
        batch, self._acknowledged = self._acknowledged, []
        try:
            self._loop.call_soon_threadsafe(_settle, batch)
        except RuntimeError:
            log.debug("the event loop is closed; nobody waits", action="gateway.acks_dropped", count=len(batch))

    def _failed(self, error: KafkaError) -> None:
        if error.fatal():
            log.error("the producer cannot go on", action="gateway.producer_fatal", error=str(error))
            self._problem = f"Kafka's client failed for good ({error.name()}); the process ends"
            self._on_fatal()
        elif error.code() == KafkaError._ALL_BROKERS_DOWN and not self._problem:
            log.warning("no broker is reachable", action="gateway.kafka_lost", error=str(error))
            self._problem = "no Kafka broker is reachable"

    def _probe(self, producer: Producer) -> None:
        """Ask for the topics' metadata: tells whether the log answers, and into how many shards it is cut."""
        try:
            topics: dict[str, Any] = producer.list_topics(timeout=PROBE_TIMEOUT_S).topics
        except KafkaException as error:
            self._problem = f"Kafka does not answer ({error.args[0].name()})"
            return
        commands = topics.get(self._names.commands)
        if commands is None or commands.error is not None or not commands.partitions:
            self._problem = f"the topic {self._names.commands} does not exist; `tocsin topics apply` makes it"
            return
        if self._shards and self._shards != len(commands.partitions):
            log.error("the number of shards has changed", action="gateway.shards_changed", shards=self._shards)
            self._on_fatal()
            return
        self._shards = len(commands.partitions)
        self._problem = None
        log.info("commands can be sent", action="gateway.kafka_reached", shards=self._shards)


def _settle(batch: list[tuple[asyncio.Future[Delivery], KafkaError | None]]) -> None:
    """On the event loop: tell those who wait what became of their commands."""
    for delivery, error in batch:
        if delivery.done():
            continue
        if error is None:
            delivery.set_result(Delivery.LOGGED)
        elif error.code() in CERTAINLY_NOT_LOGGED:
            delivery.set_exception(unavailable(error))
        else:
            delivery.set_result(Delivery.UNKNOWN)
