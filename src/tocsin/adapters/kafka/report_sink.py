"""Reports, to the shards that own their jobs. Fulfils ``ports.report_sink``."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from tocsin.adapters.kafka.clients import base_config, unavailable
from tocsin.domain.errors import Refused, Unavailable
from tocsin.domain.sharding import shard_key

log = structlog.get_logger()

RETRY_PAUSE_S: Final = 1.0
ANY_PARTITION: Final = -1
"""The partitioner chooses it, by the key."""


class _Sent:
    """A report under way: what the client library calls when it has arrived, or cannot. Cheaper than a closure."""

    __slots__ = ("job_id", "ref", "report", "sink")

    def __init__(self, sink: KafkaReportSink, ref: Any, job_id: str, report: bytes) -> None:
        self.sink = sink
        self.ref = ref
        self.job_id = job_id
        self.report = report

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.sink.on_delivery(self.ref)
        else:
            self.sink.on_failure(error, self.ref, self.job_id, self.report)


class KafkaReportSink:
    """Fulfils ``ports.report_sink.ReportSink`` with an idempotent producer.

    Args:
        config: from ``producer_config``.
        topic: of reports.
    """

    def __init__(self, config: dict[str, Any], topic: str) -> None:
        # With the shard's key this is ``sharding.shard_of``, where it costs next to nothing.
        self._producer = Producer({**config, "partitioner": "murmur2_random"})
        self._topic = topic
        self._acknowledged: list[Any] = []
        self._again: deque[tuple[float, Any, str, bytes]] = deque()
        """Reports that could not be delivered, and when each is sent again."""
        self._fatal: KafkaError | None = None

    def send(self, ref: Any, job_id: str, report: bytes) -> None:
        try:
            sent = _Sent(self, ref, job_id, report)
            self._producer.produce(self._topic, report, shard_key(job_id).encode(), ANY_PARTITION, sent)
        except BufferError:
            self._later(ref, job_id, report)
        except KafkaException as exception:
            self.on_failure(exception.args[0], ref, job_id, report)

    def on_delivery(self, ref: Any) -> None:
        """Note what became durable."""
        self._acknowledged.append(ref)

    def on_failure(self, error: KafkaError, ref: Any, job_id: str, report: bytes) -> None:
        if error.fatal():
            self._fatal = error
        log.error("a report was not delivered; it is sent again", action="worker.report_failed", error=error.str())
        self._later(ref, job_id, report)

    def _later(self, ref: Any, job_id: str, report: bytes) -> None:
        self._again.append((time.monotonic() + RETRY_PAUSE_S, ref, job_id, report))

    def acknowledged(self, wait_s: float) -> list[Any]:
        self._producer.poll(wait_s)
        if self._fatal is not None:
            raise unavailable(self._fatal)
        if self._again:
            self._send_again()
        if not self._acknowledged:
            return []
        refs, self._acknowledged = self._acknowledged, []
        return refs

    def _send_again(self) -> None:
        now = time.monotonic()
        for _ in range(len(self._again)):
            if self._again[0][0] > now:
                return
            _, ref, job_id, report = self._again.popleft()
            self.send(ref, job_id, report)

    def close(self, wait_s: float) -> None:
        left = self._producer.flush(wait_s)
        if left:
            log.error("reports were not delivered before the end", action="worker.reports_left", count=left)


def producer_config(bootstrap_servers: str, client_id: str, extra: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the settings of the producer of reports."""
    return base_config(bootstrap_servers, client_id, extra) | {
        "acks": "all",
        "enable.idempotence": True,
        # A report is retried until it is acknowledged or its process ends.
        "message.timeout.ms": 0,
        "linger.ms": 1,
    }


def count_partitions(bootstrap_servers: str, topic: str, wait_s: float, extra: dict[str, str] | None = None) -> int:
    """Return how many partitions a topic has.

    Raises:
        Unavailable: the brokers do not answer.
        Refused: the topic does not exist.
    """
    admin = AdminClient(base_config(bootstrap_servers, "tocsin-setup", extra))
    try:
        metadata = admin.list_topics(topic, timeout=wait_s).topics[topic]
    except KafkaException as exception:
        raise unavailable(exception) from exception
    if metadata.error is not None and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise Refused(f"the topic {topic} does not exist; create it with `tocsin topics apply`")
    if metadata.error is not None:
        raise Unavailable("kafka", metadata.error.str())
    return len(metadata.partitions)
