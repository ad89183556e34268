"""Alerts as a member of the notifiers' group reads them from Kafka."""

from __future__ import annotations

from typing import Any, Final

import structlog
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from tocsin.adapters.kafka.clients import base_config, place, unavailable
from tocsin.ports.alert_log import AlertsPolled, Begin, SeenAlert

log = structlog.get_logger()

ANSWER_S: Final = 10.0
PARTITION: Final = 0
"""The topic is declared with one."""


class KafkaAlertLog:
    """Fulfils ``ports.alert_log.AlertLog``. Not for use by several threads.

    Args:
        topic: of the alerts.
        group: of the notifiers.
        protocol: ``consumer`` (KIP-848), or ``classic`` for brokers before 4.0.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        group: str,
        client_id: str,
        protocol: str = "consumer",
        extra: dict[str, str] | None = None,
    ) -> None:
        self._topic = topic
        self._news = AlertsPolled()
        self._has_it = False
        self._must_begin = False
        self.is_member = False
        config: dict[str, Any] = {
            **base_config(bootstrap_servers, client_id, extra),
            "group.id": group,
            "group.protocol": protocol,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            # Where to begin is always said; an offset that the log has lost means that it starts later.
            "auto.offset.reset": "earliest",
        }
        if protocol == "classic":
            config["partition.assignment.strategy"] = "cooperative-sticky"
        self._consumer = Consumer(config)
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._gone, on_lost=self._gone)

    def poll(self, limit: int, wait_s: float) -> AlertsPolled:
        try:
            first = self._consumer.poll(wait_s)
            if self._must_begin:
                self._begin()
            messages = [] if first is None else [first, *self._consumer.consume(max(1, limit - 1), 0)]
        except KafkaException as error:
            raise unavailable(error) from error
        polled, self._news = self._news, AlertsPolled()
        for message in messages:
            problem = message.error()
            if problem is None:
                polled.alerts.append(SeenAlert(place(message)[1], message.value()))
            elif problem.code() != KafkaError._PARTITION_EOF and not problem.retriable():
                raise unavailable(problem)
        if not self._has_it:
            polled.alerts.clear()
        return polled

    def commit(self, offset: int, metadata: str) -> bool:
        if not self._has_it:
            return False
        try:
            place = TopicPartition(self._topic, PARTITION, offset, metadata)
            done = self._consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException as error:
            log.warning("offsets were not committed", action="notifier.commit_refused", error=str(unavailable(error)))
            return False
        return all(one.error is None for one in done or ())

    def close(self) -> None:
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.is_member = True
        consumer.incremental_assign([])
        # Where to begin is asked for outside of the callback, and again if nobody answers.
        self._must_begin = self._must_begin or any(one.partition == PARTITION for one in partitions)

    def _begin(self) -> None:
        """Read on from where the group is; one that never was anywhere begins at the end."""
        held = TopicPartition(self._topic, PARTITION)
        committed = self._consumer.committed([held], ANSWER_S)[0]
        offset = committed.offset
        if offset == OFFSET_INVALID:
            offset = self._consumer.get_watermark_offsets(held, ANSWER_S)[1]
        self._consumer.incremental_assign([TopicPartition(self._topic, PARTITION, offset)])
        self._must_begin, self._has_it = False, True
        self._news.begin, self._news.gone = Begin(offset, committed.metadata or ""), False

    def _gone(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if any(one.partition == PARTITION for one in partitions):
            self._must_begin = self._has_it = False
            self._news.begin, self._news.gone = None, True
            held = [one for one in consumer.assignment() if one.partition == PARTITION]
            if held:
                consumer.incremental_unassign(held)
