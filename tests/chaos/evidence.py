"""Reads back what a run left in the log, as any read_committed reader sees it."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Consumer, TopicPartition

from tests.chaos.history import Change, Dispatch, History, Report, Return, Skip
from tests.chaos.rig import Rig
from tocsin.adapters.avro import AvroCodec
from tocsin.domain.executions import ENDS

ANSWER_S = 60.0


def read(rig: Rig, topic: str, since: dict[int, int] | None = None) -> Iterator[tuple[int, bytes, int]]:
    """Yield each committed record's partition, value and timestamp (ms), up to the end that there is now.

    Args:
        rig: where.
        topic: without its prefix.
        since: positions to begin at; moved on to where the reading ended.
    """
    name = f"{rig.prefix}{topic}"
    consumer = Consumer(
        {
            "bootstrap.servers": rig.system.endpoints.kafka_bootstrap,
            "group.id": f"{rig.prefix}evidence",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    positions = {} if since is None else since
    try:
        partitions = consumer.list_topics(name, timeout=ANSWER_S).topics[name].partitions
        consumer.assign([TopicPartition(name, p, positions.get(p, 0)) for p in partitions])
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(ANSWER_S)
            assert message is not None, f"{name} does not answer"
            error = message.error()
            if error is not None and error.name() == "_PARTITION_EOF":
                ended.add(message.partition())
            elif error is None and message.partition() not in ended:
                positions[message.partition()] = message.offset() + 1
                if message.value() is not None:
                    yield message.partition(), message.value(), message.timestamp()[1]
    finally:
        consumer.close()


class Evidence:
    """Gathers a history piece by piece: what compaction may remove is read while it is there."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._codec = AvroCodec()
        self._positions: dict[str, dict[int, int]] = {}
        self.history = History()

    def gather(self) -> None:
        """Read what has come since the last time."""
        for _, value, at_ms in self._new("executions.default"):
            head = self._codec.decode_head(value)
            self.history.dispatches.append(
                Dispatch(
                    head.execution_id,
                    head.job_id,
                    head.scheduled_for,
                    head.due_at,
                    head.attempt,
                    head.token,
                    head.losses,
                    at_ms * 1000,
                )
            )
        for _, value, _ in self._new("reports"):
            report = self._codec.decode_report(value)
            head = report.head
            place = (head.execution_id, head.attempt, head.token)
            self.history.reports.append(Report(*place, report.kind, report.reason))
            if report.kind == "RETURNED" and report.started == "no":
                self.history.returns.append(Return(*place))
        for _, value, _ in self._new("execution-events"):
            event = self._codec.decode_event(value)
            head = event.head
            self.history.changes.append(Change(head.execution_id, head.attempt, head.token, event.state))
            if event.state == "SKIPPED":
                first = event.head.scheduled_for
                self.history.skips.append(Skip(event.head.job_id, first, event.skipped_upto or first))
            elif event.state in ENDS:
                self.history.ends.setdefault(event.head.execution_id, []).append(event.state)

    def unended(self) -> set[str]:
        """Return the executions that were dispatched and have no end yet."""
        return {dispatch.execution_id for dispatch in self.history.dispatches} - set(self.history.ends)

    def _new(self, topic: str) -> Iterator[tuple[int, bytes, int]]:
        return read(self._rig, topic, self._positions.setdefault(topic, {}))
